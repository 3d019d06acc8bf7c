"""What came from elsewhere: tracks that exist only as fetched, marks in every list, and the first snapshot that follows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.agents.hooks.auto import carry
from gitbaton.base.model import Stored
from gitbaton.base.values import replace
from gitbaton.care.tools.rewinding import RewindRow
from gitbaton.checkpoints.baton import Request
from gitbaton.checkpoints.store import meta
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.read import strays
from gitbaton.checkpoints.store.refs import META, fetched_ref, remote_ref
from gitbaton.cli.commands.mcptools import TOOLS, ToolCall
from gitbaton.cli.commands.pickerviews import Views
from gitbaton.cli.look import Look
from gitbaton.cli.main import call
from gitbaton.git.objects import Object
from tests.kit import Outcome, Sandbox, integer_clock
from tests.kit.killkit import DRIVER, age_locks, killed
from tests.kit.repos import SOME_TIME
from tests.kit.tiers import some

Run = Callable[..., Outcome]
LATER = SOME_TIME + timedelta(hours=1)


@pytest.fixture
def theirs(repo: Sandbox, tmp_path: Path) -> Iterator[Sandbox]:
    """Another clone, with a track ``work`` of three checkpoints."""
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "theirs"))
    box = Sandbox(tmp_path / "theirs")
    with box.open(clock=integer_clock()) as baton:
        for n in range(3):
            box.write("a.txt", f"theirs {n}\n")
            baton.snapshot(f"their step {n}", track="work", next_cmd="rm -rf here", label="first" if n == 0 else None)
    yield box
    box.fsck()


@pytest.fixture
def run(repo: Sandbox, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(repo.path)

    def go(*words: str) -> Outcome:
        capfd.readouterr()
        code = call(list(words))
        return Outcome(code, *capfd.readouterr())

    return go


def fetch(repo: Sandbox, box: Sandbox, remote: str = "origin") -> None:
    """As a fetch would, and nothing joined."""
    tracks, place = "refs/baton/tracks/*", remote_ref(remote)
    repo.git("fetch", "-q", str(box.path), f"+{tracks}:{place}tracks/*")
    if box.try_git("rev-parse", "-q", "--verify", META).code == 0:
        repo.git("fetch", "-q", str(box.path), f"+{META}:{place}meta")


def steps(baton: Baton, track: str = "work") -> list[str]:
    return [s.checkpoint.step for s in baton.store.history(track).items]


@pytest.mark.deep
def test_a_fetched_track_is_shown_and_marked_everywhere(repo: Sandbox, theirs: Sandbox, run: Run) -> None:
    fetch(repo, theirs)
    before = repo.git("for-each-ref")
    for words in (["tracks"], ["status"], ["log", "--all"]):
        out = run(*words).out
        assert "> their step 2" in out and "origin" in out
        rows = run(*words, "--porcelain").out.splitlines()
        strange = [row for row in rows if row.startswith("# foreign ")]
        assert len(strange) == len(re.findall(r"> (?:\[first\] )?their", out)) and rows[-len(strange) - 1].startswith("# ")
        found = run(*words, "--json").json
        listed = found["checkpoints"] if "log" in words else [t["checkpoint"] for t in found["tracks"]]
        assert {c["foreign"] for c in listed} == {True}
    for words in (["resume"], ["resume", "--track", "work"], ["show", "work"], ["show", "work@{manual}"]):
        out = run(*words, "--porcelain").out
        assert "> next_cmd=rm -rf here\n" in out and "\nnext_cmd" not in out and "\n> step=their step 2\n" in out
    assert run("resume", "--json").json["checkpoint"]["foreign"] is True
    verified = run("verify")
    assert "is foreign" in verified.err and run("verify", "--json").json["foreign"] is True
    assert "is foreign" in run("diff", "work~1", "work").err
    assert repo.git("for-each-ref") == before and "their" not in (repo.path / "runtime/checkpoints/LATEST.md").read_text()


@pytest.mark.deep
def test_names_of_a_fetched_track(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    with theirs.open() as other, repo.open() as baton:
        for name in ("work", "work~1", "work~2", "first", "work@{manual}", other.resolve("work~1").id[:12]):
            assert baton.resolve(name) == replace(other.resolve(name), foreign=True), name
        baton.use("work")
        assert baton.current() == "work" and baton.resolve("@~1").checkpoint.step == "their step 1"
    assert repo.baton("show", "work~3").code == 2 and repo.baton("log", "nobody").code == 2


@pytest.mark.deep
def test_what_would_run_or_overwrite_asks_first(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    for words in (["restore", "work~1"], ["bisect", "--good", "work~2", "work", "--", "true"]):
        done = repo.baton(*words)
        assert done.code == 128 and "--foreign" in done.err
    assert (repo.path / "a.txt").read_text() != "theirs 1\n"
    repo.ok("restore", "--foreign", "work~1")
    assert (repo.path / "a.txt").read_text() == "theirs 1\n"


@pytest.mark.deep
@some("door", ["binary", "libgit2"])
def test_the_first_snapshot_follows_what_was_fetched(repo: Sandbox, theirs: Sandbox, tmp_path: Path, door: str) -> None:
    other = Sandbox(tmp_path / "other")
    repo.git("clone", "-q", str(theirs.path), str(other.path))
    with other.open(clock=integer_clock(LATER)) as baton:
        baton.snapshot("other step", track="work")
    with theirs.open(clock=integer_clock(LATER + timedelta(days=1))) as baton:
        gone = baton.resolve("work~1").id
        baton.store.objects.write(objects := meta.objects_for(baton.store, meta.Meta(forgotten=frozenset([gone]))))
        theirs.git("update-ref", META, objects[-1].oid)
        baton.snapshot("from the future", track="work")
    fetch(repo, theirs)
    fetch(repo, other, "a/b")
    with repo.open(clock=integer_clock(LATER + timedelta(hours=1)), door=door) as baton:
        assert steps(baton) == ["from the future", "other step", "their step 2", "their step 0"]
        made = baton.snapshot("mine", track="work")
        assert made.warnings == () and not made.stored.foreign
        assert steps(baton) == ["mine", "other step", "their step 2", "their step 0"]
        assert not any(s.foreign for s in baton.store.history("work").items)
        assert meta.read(baton.store).forgotten == {gone} and baton.refresh() == []
        assert made.stored.checkpoint.previous == baton.resolve("work~1").id
        assert baton.resume("work").warnings == ()
    assert repo.git("rev-parse", "refs/checkpoints/work") == made.stored.id
    assert set(repo.git("notes", "--ref=refs/notes/checkpoints", "show").split()) >= {"checkpoint", made.stored.id}
    repo.fsck()


@pytest.mark.deep
def test_an_automatic_checkpoint_follows_foreign_words_and_says_so(repo: Sandbox, theirs: Sandbox, run: Run) -> None:
    fetch(repo, theirs)
    with repo.open(clock=integer_clock(LATER), door="binary") as baton:
        tip = baton.store.tip("work")
        assert tip is not None and tip.foreign

        def follow(draft: object, newest: Stored | None) -> object:
            assert newest is not None and newest.foreign and newest.id == tip.id
            return carry(draft.checkpoint, newest, 1)  # type: ignore[attr-defined]

        plan = baton.plan(Request(track="work", step="turn ended", kind="auto"))
        made = baton.apply(replace(plan, draft=replace(plan.draft, follow=follow)))
        carried = made.stored.checkpoint.carried
        assert carried is not None and carried.foreign and carried.id == tip.id and not made.stored.foreign
        assert [s.foreign for s in baton.store.history("work").items] == [False, True, True, True], "nobody wrote words"
    for words in (["tracks"], ["log"]):
        assert "(foreign)" in run(*words).out.splitlines()[0]
    assert "* > work  .  " in run("status").out and "> their step 2" in run("status").out
    assert "> next_cmd=rm -rf here" in run("resume", "--porcelain", "--track", "work").out


@pytest.mark.deep
def test_a_broken_fetched_chain_keeps_nobody_from_working(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    head, ref = repo.head(), fetched_ref("origin", "work")
    repo.git("update-ref", ref, head)
    assert "is left out" in repo.ok("tracks").err
    done = repo.ok("snapshot", "--track", "work", "--step", "mine", "--no-files")
    assert "what 'origin' has of track 'work' is not joined" in done.err
    with repo.open() as baton:
        assert steps(baton) == ["mine"]
    repo.git("update-ref", fetched_ref("origin", "files"), head)
    assert "is not joined" in repo.ok("snapshot", "--track", "files", "--step", "with files").err
    raw = theirs.git("cat-file", "commit", "refs/baton/tracks/work").split("\n")
    cut = repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin="\n".join(raw[:1] + raw[2:]).encode())
    for track, commit in (("none", head), ("cut", cut)):  # its tip cannot be read, or only what is below it
        repo.git("update-ref", fetched_ref("origin", track), commit)
        event = {"session_id": track, "hook_event_name": "PreCompact", "cwd": str(repo.path)}
        repo.ok("hook", "--track", track, "claude", "PreCompact", stdin=json.dumps(event).encode())
        with repo.open() as baton:
            assert steps(baton, track) == ["before compaction (auto)"]


@pytest.mark.full
def test_alone_says_what_to_do_with_a_fetched_track(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    rows = repo.ok().out.splitlines()
    assert rows[1].endswith("  from origin") and rows[2].endswith("> rm -rf here")
    suggested = [row.split("  ")[0].removeprefix("git baton ") for row in rows[3:]]
    assert suggested == ["resume --track work", "restore work --foreign"] and len(rows) == 5
    for line in suggested:
        repo.ok(*line.split())
    repo.ok("snapshot", "--track", "work", "gone on")
    assert "--foreign" not in repo.ok().out


@pytest.mark.deep
def test_a_name_that_differs_only_in_case_is_listed_and_not_joined(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    repo.ok("snapshot", "--track", "WORK", "--step", "mine")
    out = repo.ok("tracks").out
    assert "> their step 2 (foreign: origin)" in out and "WORK" in out
    done = repo.baton("snapshot", "--track", "work", "--step", "mine")
    assert done.code == 129 and "only in case" in done.err
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton/tracks") == "refs/baton/tracks/WORK"


@pytest.mark.deep
def test_newer_ones_elsewhere_are_said(repo: Sandbox, theirs: Sandbox, run: Run) -> None:
    fetch(repo, theirs)
    with repo.open(clock=integer_clock(LATER)) as baton:
        baton.snapshot("mine", track="work")
        assert baton.resume("work").warnings == ()
    with theirs.open(clock=integer_clock(LATER + timedelta(hours=1))) as baton:
        newer = [baton.snapshot(f"newer {n}", track="work").stored.id for n in range(2)]
        baton.clock = integer_clock(LATER + timedelta(days=365_0))
        baton.snapshot("from the future", track="work")
    fetch(repo, theirs)
    said = "origin has 2 newer checkpoints of track 'work': 'git baton sync origin' joins them"
    for words in (["resume"], ["status"], ["tracks"], ["log"], ["log", "work"], ["log", "--all"]):
        assert run(*words).err.count(said) == 1, words
    with repo.open(clock=integer_clock(LATER + timedelta(hours=2))) as baton:
        objects = meta.objects_for(baton.store, meta.Meta(pruned=frozenset(newer[:1])))
        baton.store.objects.write(objects)
        repo.git("update-ref", META, objects[-1].oid)
        assert baton.resume().warnings == (said.replace("2 newer checkpoints", "1 newer checkpoint"),)
        baton.clock = integer_clock(LATER)
        assert baton.resume().warnings == ()


@pytest.mark.deep
def test_what_a_remote_has_is_looked_for_above_the_fork_alone(
    repo: Sandbox, theirs: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(repo, theirs)
    repo.ok("snapshot", "--track", "work", "mine")
    with theirs.open() as baton:
        new = baton.snapshot("theirs", track="work").stored.commit
    fetch(repo, theirs)
    with repo.open() as baton:
        tip, walked, stored = baton.tip("work"), list[str](), baton.store.stored

        def noted(found: Object | None, track: str | None, oid: str) -> Stored:
            walked.append(oid)
            return stored(found, track, oid)

        monkeypatch.setattr(baton.store, "stored", noted)
        monkeypatch.setattr(type(baton.repo.objects), "first_parents", None)
        assert len(baton.newer([tip])) == 1
        assert walked.count(new) == 1 and len(walked) <= 3, "one of theirs, and ours no further than that is old"


@pytest.mark.deep
def test_what_was_joined_is_said_to_be_newer_by_no_verb(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    repo.git("remote", "add", "origin", str(theirs.path))
    repo.ok("snapshot", "--track", "work", "mine")
    repo.ok("sync", "origin", "--yes")
    with theirs.open() as baton:
        baton.snapshot("theirs", track="work")
    repo.ok("sync", "origin", "--yes")
    for words in (["log"], ["log", "work"], ["log", "--all"], ["log", "-n", "1"], ["resume"], ["status"], ["tracks"]):
        assert "newer" not in repo.ok(*words).err, words


@pytest.mark.deep
def test_a_fork_is_said_until_it_is_joined(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    repo.ok("snapshot", "--track", "work", "mine")
    assert "is not here" not in repo.ok("status").err + repo.ok("log").err, "what is below ours is none"
    theirs.ok("snapshot", "--track", "work", "theirs meanwhile")
    repo.git("remote", "add", "origin", str(theirs.path))
    repo.ok("snapshot", "--track", "work", "mine again")
    done = repo.ok("fetch")
    assert done.err.splitlines()[-1] == "hint: 'git baton sync origin' joins what is new"
    said = "origin has 1 checkpoint of track 'work' that is not here: 'git baton sync origin' joins them"
    for words in ([], ["status"], ["log"], ["log", "-1"], ["log", "--all"], ["resume"], ["tracks"]):
        assert repo.ok(*words).err.count(said) == 1, words
    assert repo.ok("fetch").err.splitlines()[-1] == "hint: 'git baton sync origin' joins what is new", "not only the first time"
    repo.ok("sync", "--yes")
    assert "is not here" not in repo.ok("status").err + repo.ok("log").err and "hint" not in repo.ok("fetch").err
    shown = [one["step"] for one in repo.ok("log", "--json").json["checkpoints"][:3]]
    assert shown == ["mine again", "theirs meanwhile", "mine"]


@pytest.mark.deep
@pytest.mark.parametrize("first", [".claude/settings.json", ".claude/skills/x/hooks/hooks.json"])
def test_files_that_are_run_without_being_asked_are_named_before_a_stranger_brings_them(
    repo: Sandbox, theirs: Sandbox, first: str
) -> None:
    for name in (first, "sub/.vscode/tasks.json", ".mcp.json", "docs/.claude.md"):
        theirs.write(name, "x")
    theirs.ok("snapshot", "--track", "work", "with hooks")
    fetch(repo, theirs)
    said = "agents, editors or shells run this without being asked, and it is a stranger's: "
    names = f"'{first}', '.mcp.json', 'sub/.vscode/tasks.json'\n"
    for more in (["-n"], []):
        assert said + names in repo.ok("restore", "work", "--foreign", *more).out
    repo.ok("undo")
    repo.ok("snapshot", "--track", "work", "it is ours now")
    assert said not in repo.ok("restore", "@~1", "-n", "--foreign", "--", "a.txt").out


@pytest.mark.deep
def test_refs_that_are_not_ours_below_the_remotes(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    head = repo.head()
    strange = [
        "x y/tracks/t",
        "origin/tracks/a.b",
        "origin/more",
        "origin/tracks/a/b",
        "o.o/notes",
        "origin/notes/x",
        "origin/runs/a.b",
    ]
    fine = [
        "origin/notes",
        "origin/meta",
        "origin/transcripts/claude/1",
        "origin/threads/x",
        "origin/runs/r%2E1",
        "a%2Fb/tracks/t",
    ]
    for name in (*strange[1:], *[f for f in fine if f != "origin/notes"]):
        repo.git("update-ref", f"refs/baton/remotes/{name}", head)
    with repo.open() as baton:
        assert {p.where for p in strays(baton.store)} == {f"refs/baton/remotes/{name}" for name in strange[1:]}
        assert set(baton.store.fetched()) == {"work", "t"} and baton.store.chains() == ({}, [])
    assert repo.baton("doctor").out.count("is left alone: the name is not one that gitbaton writes") == len(strange) - 1


def test_marks_are_read_anew_when_they_change(repo: Sandbox) -> None:
    with repo.open(clock=integer_clock()) as baton, repo.open() as other:
        made = baton.snapshot("one", track="a/b", files=False).stored
        assert not baton.tip("a/b").foreign
        other.store.mark("a/b", [made.id])
        assert baton.tip("a/b").foreign
        other.store.ours.add(of_track("a/b"), [made.id])
        assert not baton.tip("a/b").foreign
        other.store.mark("a/b", [made.id])
        baton.refresh()
    latest = json.loads((repo.path / "runtime/checkpoints/LATEST.json").read_text())
    assert latest["tracks"]["a/b"]["foreign"] is True
    text = (repo.path / "runtime/checkpoints/LATEST.md").read_text()
    assert "\n    foreign=yes\n    > id=" in text and "\n    > step=one\n" in text


@pytest.mark.deep
def test_killed_while_it_follows(repo: Sandbox, theirs: Sandbox) -> None:
    fetch(repo, theirs)
    model, at = repo.git("for-each-ref"), 1
    seen = set()
    while True:
        over = not killed(repo, ["-c", DRIVER, str(at), "snapshot", "--track", "work", "--step", "mine", "--no-files"])
        age_locks(repo)
        with repo.open() as baton:
            assert baton.resume("work").warnings == ()
            found = steps(baton)
            assert found[-3:] == ["their step 2", "their step 1", "their step 0"] and found[:-3] in ([], ["mine"])
            own = "work" in baton.store.chains()[0]
            assert baton.tip("work").foreign == (found[:-3] == [])
            seen.add((own, len(found)))
        repo.fsck()
        if over:
            break
        names = {row.split("\t")[1] for row in repo.git("for-each-ref").splitlines()} - {
            row.split("\t")[1] for row in model.splitlines()
        }
        for name in names:
            repo.git("update-ref", "-d", name)
        for name in ("ours/tracks/work", "revision"):
            (repo.path / ".git/baton" / name).unlink(missing_ok=True)
        at += int(os.environ.get("GITBATON_TEST_STRIDE", "9"))
    assert (True, 4) in seen and (False, 3) in seen


@pytest.mark.deep
def test_what_a_remote_has_is_named_with_the_remote(repo: Sandbox, theirs: Sandbox) -> None:
    """Also where both sides have a track of that name, and git a branch of that name."""
    repo.ok("snapshot", "--track", "work", "mine")
    theirs.git("push", "-q", str(repo.path), "HEAD:refs/remotes/origin/work")
    assert repo.baton("log", "origin/work").code == 2, "a branch's name is no track's"
    assert repo.ok("log", "refs/remotes/origin/work", "--json").json["checkpoints"][0]["step"] == "mine", (
        "a commit, and its note"
    )
    repo.git("remote", "add", "origin", str(theirs.path))
    repo.ok("fetch", "origin")
    listed = repo.ok("log", "origin/work", "--json").json["checkpoints"]
    assert [row["step"] for row in listed] == ["their step 2", "their step 1", "their step 0"]
    assert all(row["foreign"] for row in listed) and "(foreign: origin)" in repo.ok("log", "origin/work").out
    for name, step in (("", 2), ("~1", 1), ("~", 1), ("@{1}", 1), ("@{2}", 0), ("@{manual}", 2), (f"@{{{SOME_TIME}}}", 0)):
        shown = repo.ok("show", f"origin/work{name}", "--json").json["checkpoint"]
        assert (shown["step"], shown["foreign"]) == (f"their step {step}", True), name
    below = repo.ok("log", "origin/work~1", "--json").json["checkpoints"]
    assert [(row["step"], row["foreign"]) for row in below] == [("their step 1", True), ("their step 0", True)]
    refused = repo.baton("restore", "origin/work")
    assert refused.code == 128 and "was fetched from elsewhere" in refused.err
    assert repo.ok("restore", "origin/work", "-n", "--foreign").out == "would write a.txt\n"
    missing = repo.baton("show", "origin/work~3")
    assert missing.code == 2 and "to list it: git baton log origin/work\n" in missing.err
    assert repo.ok("show", "work", "--json").json["checkpoint"]["step"] == "mine"
    repo.ok("snapshot", "--track", "origin/work", "a name of ours")
    assert repo.ok("show", "origin/work", "--json").json["checkpoint"]["step"] == "a name of ours"


@pytest.mark.deep
def test_a_track_that_a_sync_brought_says_where_from_until_something_follows(repo: Sandbox, theirs: Sandbox) -> None:
    repo.git("remote", "add", "origin", str(theirs.path))
    theirs.git("config", "receive.denyCurrentBranch", "ignore")
    for words in (("fetch", "origin"), ("sync", "origin", "--yes")):
        repo.ok(*words)
        (row,) = repo.ok("status").out.splitlines()[1:-1]
        assert row.split()[:3] == [">", "work", "origin"], words
    repo.ok("snapshot", "--track", "work", "mine")
    (row,) = repo.ok("status").out.splitlines()[1:-1]
    assert row.split()[:3] == ["*", "work", "."]


@pytest.mark.deep
def test_a_fetched_decision_is_quoted_once_on_every_face(repo: Sandbox, theirs: Sandbox) -> None:
    theirs.ok("snapshot", "their words", "--track", "work", "--decision", "their decision")
    repo.git("fetch", "-q", str(theirs.path), "refs/baton/tracks/work:refs/baton/tracks/work")

    def faces() -> dict[str, str]:
        with Baton(repo.path, door="binary") as baton:
            tool = next(each for each in TOOLS if each.name == "resume")
            told = tool.run(baton, ToolCall(given=tool.check({"track": "work"}), place=str(repo.path))).text
            views = Views(baton, Look(baton, {}))
            row = RewindRow(number=1, stored=baton.tip("work"), changes=None, agent=None)
            picker = "\n".join(part.label + part.text for part in views.words(row).lines)
        repo.ok("page")
        page = (repo.path / ".git/baton/page.html").read_text()
        return {"mcp": told, "resume": repo.ok("resume", "--track", "work").out, "picker": picker, "page": page}

    found = faces()
    repo.ok("snapshot", "our words", "--track", "work")
    found |= {f"{name}, below words of ours": text for name, text in faces().items()}
    for name, text in found.items():
        rows = [row for row in text.replace("<d", "\n<d").replace("&gt;", ">").splitlines() if "their decision" in row]
        quoted = [row.count("> ") for row in rows if not row.startswith("<dd>their")]
        assert rows and set(quoted) <= {1}, (name, rows)
        assert name != "page, below words of ours" or "<dd>> their decision" in rows, rows
