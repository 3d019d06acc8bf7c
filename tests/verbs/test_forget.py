"""Forgetting: afterwards no object, note, file or log of ours holds the words, or what still holds them is named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gitbaton.agents.transcripts import files
from gitbaton.agents.transcripts.layout import frame, meta, transcript_ref
from gitbaton.base.model import Agent, Carried, Transcript
from gitbaton.checkpoints.baton import Request
from gitbaton.checkpoints.store.join import links
from gitbaton.checkpoints.store.meta import read as read_meta
from gitbaton.git.objects import TreeEntry, new_object
from tests.kit import Sandbox
from tests.kit.talks import Talk
from tests.kit.tiers import some

SECRETS = ("SECRET-STEP", "SECRET-NOTE", "SECRET-NEXT", "SECRET-DECISION", "SECRET-EXTRA", "SECRET-FILE", "SECRET-STAGED")


@pytest.fixture
def spilled(repo: Sandbox) -> Sandbox:
    """Three checkpoints, of which the second holds secrets in words, in a file and in the index; reflogs are on."""
    repo.git("config", "baton.redact", "off")
    repo.git("config", "core.logAllRefUpdates", "always")
    repo.ok("snapshot", "--track", "t", "--step", "before")
    repo.write("s.txt", "SECRET-STAGED\n")
    repo.git("add", "s.txt")
    repo.write("s.txt", "the SECRET-FILE\n")
    words = (
        "--next-cmd",
        "curl SECRET-NEXT",
        "--decision",
        "use SECRET-DECISION",
        "--label",
        "spilled",
        "--extra",
        "k=SECRET-EXTRA",
    )
    repo.ok("snapshot", "--track", "t", "--step", "has SECRET-STEP", "--note", "two\nlines SECRET-NOTE", *words)
    repo.git("rm", "-q", "-f", "--cached", "s.txt")
    (repo.path / "s.txt").unlink()
    repo.ok("snapshot", "--track", "t", "--step", "after", "--withdraw", "1")
    return repo


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """A session with two turns that changed something, and a checkpoint that was written before them."""
    repo.ok("snapshot", "--track", "work", "--step", "begun")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.fire("start")
    asked(talk, "tune the xylophone of the neighbour")
    asked(talk, "and now the piano in the hall")
    return talk


def asked(talk: Talk, prompt: str) -> None:
    """A turn that changes a file."""
    talk.fire("prompt", prompt=prompt)
    talk.ask(prompt)
    talk.edit("a.txt", prompt)
    talk.say(f"Done: {prompt}.")
    talk.stop()


def telling(repo: Sandbox, word: bytes) -> list[str]:
    """The checkpoints of the track, the newest first, and the files of ours, that have a word in them."""
    rows = repo.git("rev-list", "--first-parent", "refs/baton/tracks/work").split()
    found = [row for row in rows if word in repo.git("cat-file", "commit", row).encode()]
    ours = [path for path in (repo.path / ".git/baton").rglob("*") if path.is_file()]
    return found + [str(path) for path in ours if word in path.read_bytes()]


def holding(repo: Sandbox) -> list[str]:
    """Where any of the secrets still is: in an object, or in a file outside git's objects."""
    repo.git("gc", "-q", "--prune=now")
    objects = repo.run("git", "cat-file", "--batch-all-objects", "--batch").out
    found = [f"object: {secret}" for secret in SECRETS if secret in objects]
    for path in repo.path.rglob("*"):
        if path.is_file() and ".git/objects" not in str(path):
            data = path.read_bytes()
            found += [f"{path}: {secret}" for secret in SECRETS if secret.encode() in data]
    return found


@pytest.mark.deep
def test_t25_forgotten_everywhere_nothing_holds_the_words(spilled: Sandbox) -> None:
    named = spilled.ok("show", "spilled", "--json").json["checkpoint"]["id"]
    spilled.ok("pin", "spilled")
    spilled.ok("restore", "spilled", "--index")
    spilled.ok("undo")
    spilled.ok("export", "--history")
    (spilled.path / ".git/baton/log").write_text("hook: SECRET-NOTE\n")
    assert len(holding(spilled)) > 10
    told = spilled.ok("forget", "--force", "spilled", "--everywhere", "-n").out
    gone = [row["id"] for row in spilled.ok("forget", "--force", "spilled", "--everywhere", "-n", "--json").json["safety"]]
    assert (
        told.startswith(f"would forget  {named[:4]}")
        and "  pinned  has SECRET-STEP\n" in told
        and told.count("would go whole, and undo and redo end there\n") == 2
    )
    assert len(holding(spilled)) > 10
    done = spilled.ok("forget", "--yes", "--force", "spilled", "--everywhere")
    assert "no ref, index or reflog of this repository reaches" in done.out and "git gc --prune=now" in done.out
    assert holding(spilled) == []
    spilled.fsck()
    assert [r["step"] for r in spilled.ok("log", "--json", "t").json["checkpoints"]] == ["after", "before"]
    with spilled.open() as baton:
        assert read_meta(baton.store).forgotten == {named, *gone}
    assert spilled.ok("resume").code == 0
    assert spilled.ok("forget", "--yes", named[:12]).code == 0  # once more changes nothing


@pytest.mark.deep
def test_automatic_ones_that_carry_its_words_go_with_it(repo: Sandbox) -> None:
    with repo.open(door="binary") as baton:
        first = baton.snapshot("SECRET-STEP", track="t", note="SECRET-NOTE")
        c = first.stored.checkpoint
        carried = Carried(
            id=first.stored.id, step=c.step, created=c.created, branch=c.branch, head=c.head, tree=first.stored.tree
        )
        for n in range(2):
            repo.write("a.txt", f"{n}\n")
            request = Request(step=f"turn {n}", track="t", kind="auto", note=c.note, carried=carried)
            baton.apply(baton.plan(request))
        kept = baton.snapshot("mine", track="u")
    ids = {record["id"] for record in repo.ok("log", "t", "--json").json["checkpoints"]}
    done = repo.ok("forget", "--yes", first.stored.id, "--everywhere")
    with repo.open(door="binary") as baton:
        assert read_meta(baton.store).forgotten == ids and len(ids) == 3, "no clone brings one of them back"
    assert "2 automatic checkpoints that carry their words went with them" in done.out
    assert "track 't' has no checkpoint left and is gone" in done.out
    assert holding(repo) == []
    assert [r["id"] for r in repo.ok("log", "--all", "--json").json["checkpoints"]] == [kept.stored.id]
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton/tracks", "refs/checkpoints").split() == [
        "refs/baton/tracks/u",
        "refs/checkpoints/u",
    ]
    assert "SECRET" not in (repo.path / "runtime/checkpoints/LATEST.md").read_text()


@pytest.mark.deep
def test_the_last_one_of_the_current_track_ends_it(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "only")
    document = repo.ok("forget", "--yes", "@", "--json").json
    assert document["ended"] == ["t"] and document["held"] == [] and not document["dry_run"]
    assert repo.try_git("symbolic-ref", "-q", "BATON_HEAD").code == 1
    assert not (repo.path / ".git/baton/expect").exists()
    assert (
        "No checkpoints here yet." in repo.baton("resume").out
        and "checkpoint" not in repo.run("git", "notes", "--ref=checkpoints", "show").out
    )
    repo.ok("snapshot", "--track", "t", "--step", "anew")
    repo.fsck()


@pytest.mark.deep
def test_what_still_holds_a_file_is_named(spilled: Sandbox) -> None:
    spilled.write("copy/s.txt", "the SECRET-FILE\n")
    spilled.ok("snapshot", "--track", "u", "--step", "other")
    other = spilled.ok("show", "u", "--json").json["checkpoint"]["id"][:10]
    done = spilled.baton("forget", "--yes", "spilled", "--everywhere")
    assert done.code == 1 and f"the file 's.txt' is still in checkpoint {other} of track 'u'" in done.out
    assert "no ref, index or reflog" not in done.out
    spilled.git("add", "copy")
    spilled.git("commit", "-q", "-m", "public")
    done = spilled.baton("forget", "--yes", other, "--everywhere")
    assert done.code == 0 and "1 of its files is also in the history of your own branches" in done.out
    assert all("SECRET-FILE" in row for row in holding(spilled))


@pytest.mark.deep
def test_a_branch_at_its_commit_still_holds_its_record(spilled: Sandbox) -> None:
    spilled.git("branch", "mine", "refs/baton/tracks/t~1")
    done = spilled.baton("forget", "--yes", "spilled", "--everywhere", "--json")
    assert done.code == 1
    held = {(row["what"].split(" checkpoint")[0], row["by"]) for row in done.json["held"]}
    assert ("the commit of", "'refs/heads/mine'") in held
    spilled.git("branch", "-D", "mine")
    again = spilled.ok("forget", "--yes", done.json["forgotten"][0], "--everywhere")
    assert "(removed before)" in again.out
    assert holding(spilled) == []


KEY = "ghp_" + "016C7a1Jd9PqLs8VxYb2Wf3Tk5Rm6Nu4Hz0e"


@pytest.mark.full
def test_unsaved_work_beside_a_forgotten_file_goes_only_by_force(repo: Sandbox) -> None:
    repo.write("f", "SECRET-FILE\n")
    repo.ok("snapshot", "--track", "t", "--step", "has SECRET-STEP")
    named = repo.ok("show", "t", "--json").json["checkpoint"]["id"]
    repo.write("f", "PRECIOUS UNSAVED WORK\n")
    repo.write("g", "also PRECIOUS, and in the work tree\n")
    repo.ok("restore", "t", "f", "--force")
    refs = repo.git("for-each-ref")
    told = repo.baton("forget", "--yes", "--everywhere", "-n", named)
    assert told.code == 1 and " would go whole, and undo and redo end there; nothing else holds 'f'\n" in told.out
    refused = repo.baton("forget", "--yes", "--everywhere", named)
    assert refused.code == 1 and repo.git("for-each-ref") == refs
    (hint,) = re.findall("^hint: '(git baton show .*)' prints it$", refused.err, re.MULTILINE)
    assert repo.run("sh", "-c", hint).out == "PRECIOUS UNSAVED WORK\n"
    document = repo.ok("forget", "--yes", "--everywhere", "--force", named, "--json").json
    assert [row["taken"] for row in document["safety"]] == [["f"]] and document["held"] == []
    assert document["said"] == ["'f' in the work tree still holds it; the next snapshot takes it in again"]
    assert not [row for row in holding(repo) if not row.startswith(str(repo.path / "f"))]
    repo.fsck()
    undone = repo.baton("undo")
    assert undone.code == 1 and undone.err.startswith(
        "fatal: the next step to undo cannot be carried out: its files are forgotten\n"
    )


ALONE, HERE = "PRECIOUS\r\nPRECIOUS\n", "PRECIOUS\nPRECIOUS\n"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("where", "said"),
    [("stage", "g (staged)"), ("index", "g (staged)"), ("tree", "g"), ("raw", "g"), ("commit", "g (committed)")],
)
def test_what_a_safety_checkpoint_holds_besides_goes_only_by_force(repo: Sandbox, where: str, said: str) -> None:
    repo.write("f", "SECRET-FILE\n")
    repo.ok("snapshot", "--track", "t", "--step", "has SECRET-STEP")
    named = repo.ok("show", "t", "--json").json["checkpoint"]["id"]
    (repo.path / "f").unlink()
    if where == "raw":
        repo.write(".gitattributes", "g text\n")
    repo.ok("snapshot", "--track", "t", "--step", "after")
    repo.write("f", "SECRET-FILE\n")
    alone = repo.run("git", "hash-object", "-w", "--stdin", stdin=ALONE.encode()).out.strip()
    if where == "stage":
        repo.run("git", "update-index", "--index-info", stdin=f"100644 {alone} 2\tg\n".encode())
    elif where != "raw":
        repo.write("g", ALONE if where != "tree" else HERE)
        repo.git("add", "g")
    if where == "commit":
        repo.git("commit", "-qm", "with g")
        repo.git("rm", "-q", "g")
        repo.git("commit", "-qm", "without g")
    elif where != "stage":
        repo.write("g", HERE if where == "index" else ALONE)
    repo.ok("restore", "t", "--exact", "--index", "--force")
    if where == "commit":
        repo.git("reset", "-q", "--hard", "HEAD~2")
    else:
        repo.write("g", HERE)
    refs = repo.git("for-each-ref")
    refused = repo.baton("forget", "--yes", "--everywhere", named)
    assert refused.code == 1 and repo.git("for-each-ref") == refs and f"nothing else holds '{said}'\n" in refused.err
    assert f"; nothing else holds '{said}'\n" in repo.baton("forget", "--everywhere", "-n", named).out
    (hint,) = re.findall("^hint: '(git .*)' prints it$", refused.err, re.MULTILINE)
    assert repo.run("sh", "-c", hint).out == ALONE
    assert repo.ok("forget", "--yes", "--everywhere", "--force", named).code == 0
    repo.fsck()


@pytest.mark.deep
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_mend_brings_no_forgotten_safety_checkpoint_back(repo: Sandbox, place: int) -> None:
    repo.write("f", "SECRET-FILE\n")
    repo.ok("snapshot", "--track", "t", "--step", "has SECRET-STEP")
    named = repo.ok("show", "t", "--json").json["checkpoint"]["id"]
    (repo.path / "f").unlink()
    repo.ok("snapshot", "--track", "t", "--step", "after")
    repo.write("f", "SECRET-FILE\n")
    for _ in range(2):
        repo.ok("restore", "t", "--exact", "--force")
        repo.write("g", "later\n")
    repo.ok("forget", "--yes", "--everywhere", "--force", named)
    chain = repo.git("rev-list", "--first-parent", "refs/baton/safety/main-worktree").split()
    if place < 2:
        repo.loose(chain[place]).unlink()
    else:
        (repo.path / ".git/refs/baton/safety/main-worktree").write_bytes(b"")
    repo.baton("doctor", "--mend")
    assert "SECRET-FILE" not in repo.run("sh", "-c", "git rev-list --all --objects | cut -c1-40 | git cat-file --batch").out
    assert repo.git("rev-list", "--first-parent", "--count", "refs/baton/safety/main-worktree") >= "2"
    assert repo.ok("doctor", "--mend").out == "nothing is damaged\n"


@pytest.mark.full
@some("staged", [False, True])
def test_undo_and_redo_end_where_a_safety_checkpoint_was_forgotten(repo: Sandbox, staged: bool) -> None:
    repo.write("f", "one\n")
    repo.ok("snapshot", "--track", "t", "--step", "first")
    repo.write("f", "two\n")
    repo.write("s", "SECRET-FILE\n")
    if staged:
        repo.git("add", "s", "f")
    repo.ok("snapshot", "--track", "t", "--step", "the SECRET-STEP")
    named = repo.ok("show", "t", "--json").json["checkpoint"]["id"]
    repo.ok("restore", "t~1", "--exact", *(["--index"] if staged else []), "--force")
    assert (repo.path / "f").read_text() == "one\n" and not (repo.path / "s").exists()
    repo.ok("undo")
    repo.ok("redo")
    done = repo.ok("forget", "--yes", "--everywhere", "--force", named, "--json").json
    assert len(done["safety"]) == 3 and done["held"] == [] and holding(repo) == []
    repo.fsck()
    for verb in ("undo", "redo"):
        refused = repo.baton(verb)
        assert refused.code == 1 and ("its files are forgotten" in refused.err or "nothing to redo" in refused.err)
    assert repo.ok("log", "--all").code == 0 and repo.baton("doctor").code in (0, 1)
    repo.write("f", "three\n")
    repo.ok("restore", "t", "--force")
    repo.ok("undo")
    assert (repo.path / "f").read_text() == "three\n" and "its files are forgotten" in repo.baton("undo").err
    repo.ok("redo")
    assert (repo.path / "f").read_text() == "one\n"


@pytest.mark.deep
def test_ordinary_files_of_the_same_track_are_no_alarm(repo: Sandbox) -> None:
    for n in range(15):
        repo.write(f"u{n}", f"an ordinary file {n}\n")
    for n in range(4):
        repo.ok("snapshot", "--track", "t", "--step", f"number {n}", "--note", f"SECRET-NOTE {n}")
    done = repo.ok("forget", "--yes", "--everywhere", "t~3", "t~1")
    assert "its files are also in 2 other checkpoints; 'git baton scan --all --files' looks for secrets in them" in done.out
    assert "no ref, index or reflog" in done.out and "still" not in done.out
    repo.ok("snapshot", "--track", "later", "--step", "of the same files")
    assert "its files are also in 2 other checkpoints" in repo.ok("forget", "--yes", "--everywhere", "later").out


@pytest.mark.deep
def test_a_secret_that_others_hold_is_named_once_with_all_of_them(repo: Sandbox) -> None:
    repo.write("conf", f"token = {KEY}\n")
    ids = []
    for n in range(4):
        repo.ok("snapshot", "--track", "t", "--step", f"number {n}")
        ids.append(repo.ok("show", "t", "--json").json["checkpoint"]["id"][:10])
    done = repo.baton("forget", "--yes", "--everywhere", ids[1])
    rows = [row for row in done.out.splitlines() if "the file 'conf'" in row]
    assert done.code == 1 and len(rows) == 1 and rows[0].endswith("is still in 3 checkpoints")
    [line] = [row for row in done.out.splitlines() if "forget --everywhere" in row and "too:" in row]
    assert set(line.rpartition("--everywhere ")[2].split()) == {ids[0], ids[2], ids[3]}
    last = repo.ok(*line.partition("git baton ")[2].split(), "--yes")
    assert "'conf' in the work tree still holds it" in last.out


@pytest.mark.full
def test_its_own_output_says_no_secret(repo: Sandbox) -> None:
    repo.git("config", "baton.redact", "off")
    repo.ok("snapshot", "--track", "t", "--step", "kept")
    repo.ok("snapshot", "--track", "t", "--step", f"bad key {KEY}")
    repo.git("config", "baton.redact", "on")
    for args in (
        ("forget", "--yes", "t", "-n"),
        ("forget", KEY),
        ("prune", "--keep-last", "1", "-n"),
        ("prune", "-n", "--json"),
    ):
        done = repo.baton(*args)
        assert KEY not in done.out + done.err
    done = repo.ok("forget", "--yes", "t")
    assert KEY not in done.out and "bad key [redacted:" in done.out


@pytest.mark.deep
def test_who_repeats_its_words_is_named(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one", "--note", "the phrase\nis correct horse")
    repo.ok("snapshot", "--track", "u", "--step", "two", "--note", "said: the phrase\nis correct horse")
    other = repo.ok("show", "u", "--json").json["checkpoint"]["id"][:10]
    (repo.path / ".git/objects/pack").mkdir(exist_ok=True)
    (repo.path / ".git/objects/pack/pack-x.keep").write_text("")
    done = repo.baton("forget", "--yes", "--everywhere", "t")
    assert done.code == 1 and f"checkpoint {other} repeats its note" in done.out.splitlines()
    assert "git keeps all that lies in packs with a '.keep' file" in done.out
    assert repo.ok("forget", "--yes", "--everywhere", other).code == 0


@pytest.mark.deep
def test_what_a_fetched_copy_still_holds_is_named(spilled: Sandbox) -> None:
    tree = spilled.git("rev-parse", "refs/baton/tracks/t~1^{tree}")
    copy = "refs/baton/remotes/origin/threads/x"
    spilled.git("update-ref", copy, spilled.git("commit-tree", "-m", "a thread", tree))
    done = spilled.baton("forget", "--yes", "spilled", "--everywhere")
    assert done.code == 1 and f"the file 's.txt' is still in '{copy}'" in done.out


@pytest.mark.deep
def test_asked_again_it_still_names_what_holds_files_and_words(spilled: Sandbox) -> None:
    spilled.ok("branch", "mine", "spilled")
    spilled.git(
        "branch", "words", spilled.git("commit-tree", "mine^{tree}", "-m", spilled.git("log", "-1", "--format=%B", "mine"))
    )
    done = spilled.baton("forget", "--yes", "spilled", "--everywhere", "--json")
    held = {(row["what"].split(" checkpoint")[0], row["by"]) for row in done.json["held"]}
    assert done.code == 1 and ("words of", "'refs/heads/words'") in held
    assert done.json["said"] == ["1 of its files is also in the history of your own branches or tags"]
    again = spilled.baton("forget", "--yes", done.json["forgotten"][0], "--everywhere", "--json")
    assert again.code == 1 and {(row["what"].split(" checkpoint")[0], row["by"]) for row in again.json["held"]} == held
    spilled.git("branch", "-D", "mine", "words")
    assert "reaches their record" in spilled.ok("forget", "--yes", done.json["forgotten"][0], "--everywhere").out
    assert holding(spilled) == []
    assert "is not known here any more" in spilled.ok("forget", "--yes", done.json["forgotten"][0], "--everywhere").out


@pytest.mark.full
def test_a_label_stays_in_no_name_of_a_file(repo: Sandbox) -> None:
    repo.git("config", "baton.redact", "off")
    repo.ok("snapshot", "--track", "t", "--step", "kept")
    repo.ok("snapshot", "--track", "t", "--step", "gone", "--label", "SECRET-STEP")
    repo.ok("export", "--history")
    assert "SECRET-STEP" in (repo.path / ".git/info/exclude").read_text()
    repo.ok("forget", "--yes", "SECRET-STEP", "--everywhere")
    assert holding(repo) == [] and "context_checkpoint_" in (repo.path / ".git/info/exclude").read_text()
    assert "runtime" not in repo.git("status", "--short", "-uall")


@pytest.mark.full
def test_fetched_copies_go_and_the_remote_is_named(spilled: Sandbox, tmp_path: Path) -> None:
    chain = spilled.git("rev-parse", "refs/baton/tracks/t")
    for name, value in (("tracks/t", chain), ("notes", spilled.git("rev-parse", "refs/notes/checkpoints"))):
        spilled.git("update-ref", f"refs/baton/remotes/origin/{name}", value)
    spilled.git("update-ref", "refs/baton/remotes/origin/tracks/other", spilled.git("rev-parse", f"{chain}~2"))
    done = spilled.ok("forget", "--yes", "t~1", "--everywhere")
    assert "2 fetched refs went as well" in done.out and "'origin' has it: run 'git baton push origin'" in done.out
    assert holding(spilled) == []
    assert "refs/baton/remotes/origin/tracks/other" in spilled.git("for-each-ref")


@pytest.mark.full
def test_a_plain_forget_leaves_a_tombstone_and_its_words_unreachable_from_chain_and_note(spilled: Sandbox) -> None:
    named = spilled.ok("show", "t~1", "--json").json["checkpoint"]["id"]
    done = spilled.ok("forget", "--yes", "t~1", "t~1")
    assert done.out.count("forgot") == 1 and "no ref, index" not in done.out
    with spilled.open() as baton:
        assert named in read_meta(baton.store).forgotten
        assert named not in {link.id for link in links(baton.store, "t")}
    assert "SECRET" not in spilled.git("log", "--format=%B", "refs/baton/tracks/t", "refs/notes/checkpoints")
    assert "SECRET" not in spilled.git("notes", "--ref=checkpoints", "show")
    assert spilled.baton("show", named).code == 2


def test_the_conversation_that_it_names_goes_and_what_was_noted_of_it(repo: Sandbox) -> None:
    repo.git("config", "baton.redact", "off")
    repo.git("config", "core.logAllRefUpdates", "always")
    with repo.open(door="binary") as baton:
        objects = baton.repo.objects
        blob = new_object("sha1", "blob", b'{"text": "SECRET-NOTE"}\n')
        said = meta(Transcript(size=24, lines=1), 24, "claude", "s1")
        made = [blob, *frame(objects, [TreeEntry(mode=b"100644", name=b"00000000", oid=blob.oid)], said)]
        objects.write(made)
        ref = transcript_ref("claude", "s1")
        for name in (ref, f"refs/baton/remotes/origin/{ref.removeprefix('refs/baton/')}"):
            repo.git("update-ref", name, repo.git("commit-tree", "-m", "conversation", made[-1].oid))
        agent = Agent(name="claude", session="s1")
        baton.apply(baton.plan(Request(step="SECRET-STEP", track="t", agent=agent)))
        baton.apply(baton.plan(Request(step="later", track="t", agent=agent)))
        files.save_digest(baton.repo, ref, files.SourceDigest(commit=made[-1].oid, size=24, digest="0" * 64, chain="0" * 64))
    session = repo.write(".git/baton/sessions/claude-s1", '{"prompt": "SECRET-NEXT"}')
    done = repo.ok("forget", "--yes", "t~1", "--everywhere")
    assert "1 transcript went as well" in done.out and "1 fetched ref went as well" in done.out
    assert holding(repo) == [] and not session.exists()
    left = [path for path in (repo.path / ".git/baton/transcripts").rglob("*") if path.is_file()]
    assert [path.read_text() for path in left] == ["forgotten\n"]


@pytest.mark.full
def test_latest_of_every_work_tree_is_written_again(repo: Sandbox) -> None:
    repo.git("worktree", "add", "-q", "-b", "side", "../side")
    side = Sandbox(repo.path.parent / "side")
    repo.ok("snapshot", "--track", "t", "--step", "before")
    repo.ok("snapshot", "--track", "t", "--step", "SECRET-STEP")
    side.ok("snapshot", "--track", "u", "--step", "mine")
    assert "SECRET-STEP" in (side.path / "runtime/checkpoints/LATEST.md").read_text()
    done = repo.baton("forget", "--yes", "t", "--everywhere")
    assert done.code == 0, done.out
    assert "SECRET-STEP" not in (side.path / "runtime/checkpoints/LATEST.md").read_text()
    assert "before" in (side.path / "runtime/checkpoints/LATEST.json").read_text()
    assert holding(repo) == []


@pytest.mark.deep
def test_names_that_mean_nothing_change_nothing(spilled: Sandbox) -> None:
    refs = spilled.git("for-each-ref")
    assert spilled.baton("forget", "--yes", "t", "nothing").code == 2 and spilled.baton("forget").code == 129
    assert spilled.git("for-each-ref") == refs


@pytest.mark.full
def test_pins_are_told_and_turn(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    short = repo.ok("show", "--json").json["checkpoint"]["id"][:4]
    assert repo.ok("pin", "t").out == f"pinned {short} s\n" and repo.ok("pin", "@").out == f"pinned already: {short} s\n"
    assert "(pinned)" in repo.ok("log").out and repo.ok("log", "--json").json["checkpoints"][0]["pinned"] is True
    assert (
        "pinned=yes" in repo.ok("show", "--porcelain").out.splitlines()
        and repo.ok("show", "--json").json["checkpoint"]["pinned"] is True
    )
    assert repo.ok("unpin", "t").out == f"no longer pinned {short} s\n"
    assert repo.ok("unpin", "t").out == f"not pinned: {short} s\n" and "(pinned)" not in repo.ok("log").out
    repo.ok("pin", "t")
    with repo.open() as baton:
        assert list(read_meta(baton.store).pins.values()) == [3]
    assert repo.baton("pin", "nothing").code == 2
    repo.fsck()


@pytest.mark.deep
def test_a_file_that_only_a_safety_checkpoint_holds_goes_by_its_id(repo: Sandbox) -> None:
    """As scan's hint says it, which names whatever holds the secret."""
    key = "AKIA" + "Q3EGRTUVWXY2Z4A7"
    repo.write("k.ini", f"k={key}\n")
    repo.ok("snapshot", "one", "--track", "t")
    (repo.path / "k.ini").unlink()
    repo.ok("snapshot", "two", "--track", "t")
    repo.ok("restore", "@~1")
    repo.ok("undo")
    repo.ok("forget", "@~1", "--yes")
    hinted = repo.baton("scan", "--all", "--files").err
    words = hinted.partition("'git baton ")[2].partition("'")[0].split()
    assert words[:2] == ["forget", "--everywhere"]
    refused = repo.baton("forget", *words[2:])
    assert refused.code == 129 and f"hint: 'git baton {' '.join(words)}' removes it, and undo ends there" in refused.err
    assert "went whole, and undo and redo end there\n" in repo.ok(*words, "--yes").out
    assert repo.baton("scan", "--all", "--files").code == 0
    repo.git("gc", "-q", "--prune=now")
    assert "k.ini" not in repo.git("rev-list", "--all", "--objects")
    assert repo.baton("log").code == 0 and "its files are forgotten" in repo.baton("redo", "-n").err


@pytest.mark.deep
@pytest.mark.parametrize("secret", [False, True])
def test_a_safety_checkpoint_goes_whose_files_a_track_still_holds(repo: Sandbox, secret: bool) -> None:
    repo.ok("snapshot", "one", "--track", "t")
    repo.write("k.ini", f"k={'AKIA' + 'Q3EGRTUVWXY2Z4A7'}\n" if secret else "k=some words\n")
    repo.ok("snapshot", "two", "--track", "t")
    undo = repo.ok("restore", "@~1", "--exact", "--json").json["safety"]
    done = repo.baton("forget", "--everywhere", undo, "--yes")
    assert done.code == (1 if secret else 0) and "went whole, and undo and redo end there\n" in done.out, done.err
    said = "the file 'k.ini' (aws-key) is still in checkpoint" if secret else "its files are also in 1 other checkpoint;"
    assert said in done.out


@pytest.mark.deep
def test_a_text_in_two_fields_is_named_by_both_and_a_short_step_in_a_commit_message_is(repo: Sandbox) -> None:
    repo.ok(
        "snapshot", "--track", "t", "--step", "use one table for all", "--decision", "use one table for all", "--label", "both"
    )
    repo.ok("snapshot", "--track", "t", "--step", "two")
    done = repo.baton("forget", "--yes", "both", "--force", "--everywhere")
    rows = {row.partition(" repeats ")[2] for row in done.out.splitlines() if row.startswith("checkpoint ")}
    assert rows == {"its step", "its decision"} and "a decision stands until a snapshot ends it" in done.out
    repo.ok("snapshot", "--track", "u", "--step", "Go")
    oid = repo.git("rev-parse", "refs/checkpoints/u")
    repo.git("commit", "-q", "--allow-empty", "-m", f"Go\n\ncheckpoint {oid}")
    again = repo.baton("forget", "--yes", oid, "--everywhere")
    assert again.code == 1 and f"words of checkpoint {oid[:10]} is still in 'refs/heads/main'" in again.out.splitlines()


@pytest.mark.deep
def test_a_decision_that_stands_is_named_with_what_repeats_it(repo: Sandbox) -> None:
    """Later words take over what stands: to forget the checkpoint that made it does not take its text away, and it says so."""
    repo.ok("snapshot", "--track", "t", "--step", "one", "--decision", "use SECRET-DECISION", "--label", "first")
    repo.ok("snapshot", "--track", "t", "--step", "two")
    repo.ok("snapshot", "--track", "t", "--step", "three", "--withdraw", "1")
    (later,) = [record["id"] for record in repo.ok("log", "t", "--json").json["checkpoints"] if record["step"] == "two"]
    done = repo.baton("forget", "--yes", "--force", "first", "--everywhere")
    assert (done.code, "a decision stands until a snapshot ends it by --withdraw" in done.out) == (1, True)
    (hint,) = [row for row in done.out.splitlines() if row.startswith("these repeat it: git baton ")]
    words = hint.removeprefix("these repeat it: git baton ").split()
    assert words[:2] == ["forget", "--everywhere"] and [later.startswith(word) for word in words[2:]] == [True]
    assert repo.baton(*words, "--yes").code == 0
    assert "SECRET-DECISION" not in repo.ok("log", "t", "--json").out


@pytest.mark.deep
@pytest.mark.parametrize("pinned", [False, True])
def test_where_its_track_has_other_names_it_goes_too(repo: Sandbox, tmp_path: Path, pinned: bool) -> None:
    """Two clones rename a track apart, and a third one has it as it was: the same words under three ids."""
    repo.git("init", "-q", "--bare", str(tmp_path / "hub.git"))
    repo.git("remote", "add", "hub", str(tmp_path / "hub.git"))
    repo.ok("snapshot", "--track", "t", "--step", "words to forget")
    repo.ok("sync", "hub", "--yes")
    others = []
    for name in ("one", "two"):
        repo.git("clone", "-q", str(tmp_path / "hub.git"), str(tmp_path / name))
        others.append(Sandbox(tmp_path / name))
        others[-1].ok("sync", "origin", "--yes")
    repo.ok("tracks", "rename", "t", "here")
    others[0].ok("tracks", "rename", "t", "there")
    if pinned:
        others[1].ok("pin", "t")
    others[0].ok("sync", "origin", "--yes")
    repo.ok("sync", "hub", "--yes")
    assert repo.ok("log", "--all").out.count("words to forget") == 2
    done = repo.ok("forget", "here", "--yes", "--json")
    assert len(done.json["forgotten"]) == 2 and "words to forget" not in repo.ok("log", "--all").out
    for _ in range(2):
        for box, remote in ((repo, "hub"), (others[0], "origin"), (others[1], "origin")):
            box.ok("sync", remote, "--yes")
    for box in (repo, *others):
        assert "words to forget" not in box.ok("log", "--all").out
        assert not box.git("for-each-ref", "refs/baton/tracks")


@pytest.mark.deep
def test_no_row_of_a_list_says_what_it_said(repo: Sandbox) -> None:
    for step in ("words to forget", "after"):
        repo.write("a.txt", f"{step}\n")
        repo.ok("snapshot", "--track", "t", "--step", step)
    repo.ok("restore", "t~1", "--force")
    for verb in ("undo", "redo", "undo"):
        repo.ok(verb)
    assert repo.ok("log", "t", "--no-fold").out.count("words to forget") == 5
    repo.ok("forget", "t~1", "--yes")
    for words in (("log", "t", "--no-fold"), ("log", "t"), ("log", "--all")):
        told = repo.ok(*words).out
        assert "words to forget" not in told and "a forgotten checkpoint" in told, told


@pytest.mark.deep
@pytest.mark.parametrize("options", [(), ("--everywhere",)], ids=["here", "everywhere"])
def test_a_prompt_that_was_forgotten_is_not_said_again_by_the_next_turn(talk: Talk, options: tuple[str, ...]) -> None:
    repo = talk.repo
    ids = [row["id"] for row in repo.ok("log", "--json").json["checkpoints"]][:2]
    assert telling(repo, b"xylophone") and len(ids) == 2
    repo.ok("forget", *ids, *options, "--yes")
    assert telling(repo, b"xylophone") == [] and telling(repo, b"piano") == []
    asked(talk, "and the violin")
    assert telling(repo, b"violin") and telling(repo, b"xylophone") == [] and telling(repo, b"piano") == []


@pytest.mark.deep
def test_what_was_forgotten_is_not_read_again_from_the_records_of_a_client(talk: Talk) -> None:
    repo = talk.repo
    ids = [row["id"] for row in repo.ok("log", "--json").json["checkpoints"]][:2]
    repo.ok("forget", *ids, "--everywhere", "--yes")
    for path in (repo.path / ".git/baton/sessions").iterdir():
        path.unlink()
    asked(talk, "and the violin")
    assert telling(repo, b"xylophone") == [] and telling(repo, b"piano") == []


@pytest.mark.deep
@pytest.mark.parametrize("options", [(), ("--everywhere",)], ids=["here", "everywhere"])
def test_what_was_asked_in_a_turn_of_another_track_stays(talk: Talk, options: tuple[str, ...]) -> None:
    repo = talk.repo
    repo.ok("snapshot", "--track", "fix", "--step", "begun")
    asked(talk, "and the violin")
    assert "repeat" not in repo.ok("forget", "fix", *options, "--yes").out
    asked(talk, "and the drum")
    found = [row["text"] for row in repo.ok("log", "fix", "-n", "1", "--json").json["checkpoints"][0]["observed"]["asked"]]
    assert found == ["tune the xylophone of the neighbour", "and now the piano in the hall", "and the drum"]


@pytest.mark.deep
def test_a_forgotten_prompt_that_is_said_again_in_a_turn_that_is_open_is_told(talk: Talk) -> None:
    repo, said = talk.repo, "tune the xylophone of the neighbour"
    turn = repo.ok("log", "--json").json["checkpoints"][1]["id"]
    talk.fire("prompt", prompt=said)
    talk.ask(said)
    talk.edit("a.txt", "once more")
    told = f'turn not ended: "{said}"'
    assert told in repo.ok("status").out
    repo.ok("forget", turn, "--yes")
    assert told in repo.ok("status").out


@pytest.mark.deep
def test_a_later_turn_that_repeats_a_forgotten_prompt_is_named(talk: Talk) -> None:
    repo = talk.repo
    later, turn = [row["id"] for row in repo.ok("log", "--json").json["checkpoints"]][:2]
    done = repo.baton("forget", turn, "--everywhere", "--yes")
    assert done.code == 1 and f"checkpoint {later[:4]}" in done.out and "repeats its prompt" in done.out
    repo.ok("forget", later, "--everywhere", "--yes")
    assert telling(repo, b"xylophone") == []
