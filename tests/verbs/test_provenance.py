"""Ours and foreign: what this repository did not make is marked at every door, current nowhere and run by nothing, whatever
brought it; and what it made stays its own."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.agents import Client as Agent
from tests.kit.mcp import Client, said, talk
from tests.kit.threads import ids, put
from tests.kit.tiers import deep, full

Way = Callable[[Path, Path], Sandbox]
PLAN = '[step.a]\nrun = "echo EVIL >out"\nwrites = ["out"]\n[step.b]\nrun = "exit 3"\nafter = ["a"]\n'
ALL = ("refs/baton/*:refs/baton/*", "refs/checkpoints/*:refs/checkpoints/*", "refs/notes/*:refs/notes/*")


def _made(place: Path, *options: str) -> Path:
    """A stranger's repository: track ``main`` of two checkpoints, an unfinished run, and a restore that can be undone."""
    box = Sandbox.init(place / "stranger", *options)
    box.commit("first", a_txt="one\n", baton_toml=PLAN)
    box.ok("snapshot", "--track", "main", "EVIL one", "--label", "EVIL", "--decision", "EVIL decision")
    box.write("a.txt", "evil\n")
    box.ok("snapshot", "--track", "main", "EVIL two", "--next-cmd", "EVIL | sh", "--validation", "green", "--note", "EVIL note")
    assert box.baton("run", "--plan", "baton.toml", "--run", "job").code not in (0, 128)
    box.write("a.txt", "two\n")
    box.ok("restore", "main~1", "--force")
    return box.path


@cache
def _template() -> Path:
    place = Path(tempfile.mkdtemp(prefix="gitbaton-stranger-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return _made(place)


@pytest.fixture
def stranger(tmp_path: Path) -> Path:
    """A copy of it, so that its record comes along: the stranger may go on."""
    return Path(shutil.copytree(_template(), tmp_path / "stranger", symlinks=True))


def cloned(stranger: Path, place: Path, *options: str) -> Sandbox:
    Sandbox(place.parent).git("clone", "-q", *options, str(stranger), str(place))
    return Sandbox(place)


def by_fetch(stranger: Path, place: Path) -> Sandbox:
    """What our own fetch brings."""
    box = cloned(stranger, place)
    box.ok("fetch", "origin", "--runs")
    return box


def by_refspec(stranger: Path, place: Path) -> Sandbox:
    box = cloned(stranger, place)
    box.git("fetch", "-q", "origin", *ALL)
    return box


def by_mirror(stranger: Path, place: Path) -> Sandbox:
    return cloned(stranger, place, "-c", "remote.origin.fetch=+refs/*:refs/*")


def by_bare_mirror(stranger: Path, place: Path) -> Sandbox:
    """A mirror that was given a work tree."""
    place.mkdir()
    cloned(stranger, place / ".git", "--mirror")
    box = Sandbox(place)
    box.git("config", "core.bare", "false")
    box.git("reset", "-q", "--hard")
    return box


def by_bundle(stranger: Path, place: Path) -> Sandbox:
    Sandbox(stranger).git("bundle", "create", "-q", str(place.parent / "all.bundle"), "--all")
    box = cloned(stranger, place)
    box.git("fetch", "-q", str(place.parent / "all.bundle"), *ALL)
    return box


def by_path(stranger: Path, place: Path) -> Sandbox:
    box = Sandbox.begun(place)
    box.git("fetch", "-q", str(stranger), *ALL)
    return box


def by_push(stranger: Path, place: Path) -> Sandbox:
    """The stranger pushes into ours."""
    box = Sandbox.begun(place)
    Sandbox(stranger).git("push", "-q", str(place), *ALL)
    return box


def by_copied_refs(stranger: Path, place: Path) -> Sandbox:
    """Refs and objects copied as files, and nothing of our folder."""
    box = Sandbox.begun(place)
    for name in ("refs/baton", "refs/checkpoints", "objects"):
        shutil.copytree(stranger / ".git" / name, place / ".git" / name, dirs_exist_ok=True)
    return box


WAYS = {
    way.__name__: way for way in (by_fetch, by_refspec, by_mirror, by_bare_mirror, by_bundle, by_path, by_push, by_copied_refs)
}
CHEAP, DEEP = ("by_mirror",), ("by_fetch", "by_refspec", "by_bundle", "by_push")
some_ways = pytest.mark.parametrize(
    "way", [way if name in CHEAP else (deep if name in DEEP else full)(way) for name, way in WAYS.items()], ids=list(WAYS)
)


def told(box: Sandbox, event: str = "start") -> str:
    """What a hook of the agent says to the model."""
    return Agent("claude", box.path).fire(event)


def turn(box: Sandbox, text: str = "mine\n") -> None:
    """An edit, and the end of the agent's turn."""
    box.write("mine.txt", text)
    told(box, "turn")


def current(box: Sandbox) -> str:
    return box.try_git("symbolic-ref", "-q", "BATON_HEAD").out.strip()


def marked(text: str) -> None:
    """Each line that holds a word of the stranger's says so."""
    for line in text.splitlines():
        if "EVIL" in line:
            assert "> " in line or "(foreign" in line, line


def foreign(box: Sandbox, track: str) -> list[bool]:
    """Of each checkpoint of a track whether it is foreign itself, whosever words it carries; the newest first."""
    with box.open() as baton:
        return [stored.foreign for stored in baton.history(track).items]


@some_ways
def test_a_stranger_s_is_marked_at_every_door(stranger: Path, tmp_path: Path, way: Way) -> None:
    box = way(stranger, tmp_path / "box")
    said = told(box)
    assert "recorded in this repository" not in said and ("> step: EVIL two" in said) == (way is not by_fetch)
    marked(said)
    for words in ((), ("status",), ("tracks",), ("log", "main"), ("log", "--all"), ("resume", "--live"), ("summary", "main")):
        out = box.ok(*words).out
        assert "EVIL" in out, words
        marked(out)
    for line in ("show main", "show EVIL", "complete show ", "complete tracks use "):
        marked(box.ok(*line.split(" ")).out)
    assert box.ok("show", "main", "--json").json["checkpoint"]["foreign"] is True
    assert all(foreign(box, "main")) and box.baton("verify", "--json").json["foreign"] is True
    box.ok("export")
    latest = (box.path / "runtime/checkpoints/LATEST.md").read_text()
    marked(latest)
    assert "No track is current" in latest
    page = tmp_path / "page.html"
    box.ok("page", "main", "-o", str(page))
    assert page.read_text().count('<em class="f">foreign</em>') >= 2
    assert current(box) == ""


@some_ways
def test_a_stranger_s_is_restored_and_run_by_nothing(stranger: Path, tmp_path: Path, way: Way) -> None:
    box = way(stranger, tmp_path / "box")
    before = (box.path / "a.txt").read_text()
    for words in (("restore", "main~1"), ("restore", "EVIL"), ("bisect", "--good", "main~1", "main", "--", "touch", "ran")):
        done = box.baton(*words)
        assert done.code == 128 and "--foreign" in done.err, words
    assert box.baton("undo").code == 1, "the stranger's restore is no step of ours"
    assert "job" not in box.ok("resume").out and "job" not in told(box) and "job" not in box.ok().out
    for line in ("--continue job", "approve b --run job", "settle b --done --run job"):
        done = box.baton("run", *line.split())
        assert done.code == 129 and "--foreign" in done.err, line
    assert "> job" in box.ok("run", "list").out and not (box.path / "out").exists()
    assert "is foreign" in box.ok("run", "show", "job").err and "is foreign" in box.ok("run", "why", "b", "job").err
    assert box.ok("run", "why", "b", "job", "--json").json["foreign"] is True
    box.write("baton.toml", PLAN)
    own = json.loads(box.ok("run", "--plan", "baton.toml", "--dry-run", "--json").out)["run"]
    assert own != "job", "a plan does not go on with a stranger's run of it"
    assert (box.path / "a.txt").read_text() == before and not (box.path / "ran").exists()


@pytest.mark.deep
@some_ways
def test_the_end_of_a_turn_makes_no_stranger_s_track_ours(stranger: Path, tmp_path: Path, way: Way) -> None:
    box = way(stranger, tmp_path / "box")
    told(box)
    turn(box)
    assert current(box) == "refs/checkpoints/main%20box"
    assert foreign(box, "main") == [True, True] and foreign(box, "main box") == [False]
    turn(box, "again\n")
    assert foreign(box, "main") == [True, True] and foreign(box, "main box") == [False, False]
    assert box.baton("restore", "main~1", "--dry-run").code == 128
    said = told(box)
    assert "track 'main box', recorded in this repository" in said and "EVIL" not in said
    box.ok("snapshot", "my words")
    assert foreign(box, "main") == [True, True] and foreign(box, "main box") == [False] * 3


@pytest.mark.deep
def test_words_of_here_make_a_track_ours_and_nothing_else_does(stranger: Path, tmp_path: Path) -> None:
    box = by_mirror(stranger, tmp_path / "box")
    box.ok("tracks", "use", "main")
    assert foreign(box, "main") == [True, True]
    turn(box)
    assert foreign(box, "main") == [False, True, True], "somebody chose the track; nobody wrote words"
    assert "> next_cmd=EVIL | sh" in box.ok("resume", "--porcelain").out and "fetched from elsewhere" in told(box)
    assert box.baton("restore", "main~1", "-n").code == 128
    box.ok("restore", "main~1", "-n", "--foreign")
    assert foreign(box, "main") == [False, True, True]
    box.ok("snapshot", "mine now")
    assert foreign(box, "main") == [False] * 4
    box.ok("restore", "main~3", "-n")


@pytest.mark.deep
def test_a_hook_that_is_given_a_track_follows_it_and_keeps_the_marks(stranger: Path, tmp_path: Path) -> None:
    box = by_fetch(stranger, tmp_path / "box")
    box.write("mine.txt", "mine\n")
    client = Agent("claude", box.path)
    client.send("Stop", client.payload("Stop"), env={"GIT_BATON_TRACK": "main"})
    assert foreign(box, "main") == [False, True, True] and current(box) == ""


@pytest.mark.deep
def test_of_our_own_track_only_what_came_is_foreign(repo: Sandbox, tmp_path: Path) -> None:
    """A stranger's checkpoint on top of ours, by a plain fast-forward."""
    repo.ok("snapshot", "--track", "t", "one")
    repo.ok("snapshot", "--track", "t", "two")
    far = cloned(repo.path, tmp_path / "far")
    far.git("fetch", "-q", "origin", *ALL)
    far.ok("snapshot", "--track", "t", "EVIL three")
    repo.git("fetch", "-q", str(far.path), "refs/baton/tracks/t:refs/baton/tracks/t")
    assert foreign(repo, "t") == [True, False, False] and current(repo) == "refs/checkpoints/t"
    marked(repo.ok("resume").out + told(repo) + repo.ok("status").out)
    assert repo.baton("restore", "t", "-n").code == 128
    repo.ok("restore", "t~1", "-n")
    turn(repo)
    assert foreign(repo, "t") == [False, True, False, False], "our own track goes on, and the marks stay"
    marked(repo.ok("resume").out)
    assert foreign(far, "t") == [False, False, False], "there it is the other way round, and words were written"


@pytest.mark.deep
def test_what_was_made_here_stays_ours(repo: Sandbox, tmp_path: Path) -> None:
    """Pushed and fetched back, pruned, joined with another's, in a linked work tree, and in a copy of the folder."""
    hub = Sandbox.init(tmp_path / "hub.git", "--bare")
    repo.git("remote", "add", "origin", str(hub.path))
    for n in range(4):
        repo.ok("snapshot", "--track", "t", f"step {n}")
    repo.ok("push", "origin", "--yes")
    repo.git("fetch", "-q", "origin", "+refs/baton/tracks/*:refs/baton/tracks/*")
    repo.ok("fetch", "origin")
    assert foreign(repo, "t") == [False] * 4
    other = cloned(repo.path, tmp_path / "other")
    other.git("remote", "set-url", "origin", str(hub.path))
    other.ok("sync", "origin", "--yes")
    other.ok("snapshot", "--track", "t", "theirs")
    other.ok("push", "origin", "--yes")
    repo.ok("snapshot", "--track", "t", "mine")
    repo.ok("sync", "origin", "--yes")
    assert foreign(repo, "t") == [False, True, False, False, False, False]
    repo.ok("prune", "t", "--keep-last", "4", "--yes")
    assert foreign(repo, "t") == [False, True, False, False]
    assert "> theirs" in repo.ok("log", "t").out
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"), "-b", "topic")
    assert foreign(Sandbox(tmp_path / "linked"), "t") == [False, True, False, False]
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    assert foreign(Sandbox(tmp_path / "copy"), "t") == [False, True, False, False]
    turn(repo)
    assert foreign(repo, "t") == [False, False, True, False, False]
    repo.ok("snapshot", "--track", "t", "words")
    assert not any(foreign(repo, "t")) and not any(foreign(Sandbox(tmp_path / "linked"), "t"))


@pytest.mark.deep
def test_what_an_earlier_version_left_is_taken_over_once(repo: Sandbox, stranger: Path) -> None:
    """It kept no record: what its tips show is ours, less what it called foreign, and nothing that came since."""
    for n in range(3):
        repo.ok("snapshot", "--track", "t", f"step {n}")
    baton = repo.path / ".git/baton"
    ids = [row["id"] for row in repo.ok("log", "t", "--json").json["checkpoints"]]
    repo.write("a.txt", "changed\n")
    repo.ok("restore", "t~1", "--force")
    repo.baton("run", "--run", "r", "--step", "s", "--", "false")
    shutil.rmtree(baton / "ours")
    for name in ("flock", "lock/runs"):
        (baton / name).write_bytes(b"")
    (baton / "foreign").mkdir()
    (baton / "foreign/t").write_text(f"{ids[2]}\n")
    repo.git(
        "fetch", "-q", str(stranger), "refs/baton/tracks/main:refs/baton/tracks/main", "refs/baton/runs/*:refs/baton/runs/*"
    )
    for _ in range(2):  # first as it is only read, then as it was written down
        assert foreign(repo, "t") == [False, False, True] and foreign(repo, "main") == [True, True]
        assert "git baton run --continue r" in repo.ok("resume").out
        repo.ok("resume")
    assert (baton / "ours/tracks/t").read_bytes().splitlines()[0] == b"gitbaton ours 1"
    assert not (baton / "ours/tracks/main").exists()
    repo.ok("undo")
    repo.ok("snapshot", "--track", "t", "words")
    assert foreign(repo, "t") == [False] * 4
    shutil.rmtree(baton / "ours")
    assert all(foreign(repo, "t")), "a record that is lost is not begun a second time"


def test_the_record_of_yesterday_is_read(repo: Sandbox) -> None:
    """Its bytes, as the protocol has them: in any order, twice, with a torn end, and lines that say nothing."""
    for n in range(3):
        repo.ok("snapshot", "--track", "a b", f"step {n}")
    path = repo.path / ".git/baton/ours/tracks/a%20b"
    ids = [row["id"] for row in repo.ok("log", "a b", "--json").json["checkpoints"]]
    assert path.read_text() == "gitbaton ours 1\n" + "".join(f"{oid}\n" for oid in reversed(ids))
    path.write_text(f"gitbaton ours 1\n{ids[0]}\nmixed\n{ids[2]}\n{ids[0]}\n{'0' * 40}\n{ids[1]}")
    assert foreign(repo, "a b") == [False, True, False], "a line without its end says nothing, and goes"
    turn(repo)
    assert foreign(repo, "a b") == [False, False, True, False]
    assert ids[1] not in path.read_text()
    path.write_text(f"gitbaton ours 2\n{ids[0]}\n")
    assert all(foreign(repo, "a b"))


@pytest.mark.deep
@pytest.mark.parametrize("damage", ["words", "version", "link", "pipe", "folder", "noise", "top-link"])
def test_a_damaged_record_is_named_and_makes_nothing_ours(repo: Sandbox, tmp_path: Path, damage: str) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.ok("snapshot", "--track", "t", "two")
    path, elsewhere = repo.path / ".git/baton/ours/tracks/t", tmp_path / "elsewhere"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    if damage == "top-link":
        shutil.move(repo.path / ".git/baton/ours", elsewhere)
        (repo.path / ".git/baton/ours").symlink_to(elsewhere)
    else:
        path.unlink()
    if damage == "words":
        path.write_bytes(lines[0] + b"all of it\n" + lines[1])
    elif damage == "version":
        path.write_bytes(whole.replace(b"ours 1", b"ours 9"))
    elif damage == "link":
        elsewhere.write_bytes(whole)
        path.symlink_to(elsewhere)
    elif damage == "pipe":
        os.mkfifo(path)
    elif damage == "folder":
        path.mkdir()
    elif damage == "noise":
        path.write_bytes(b"\0" * 4096)
    expected = [True, False] if damage == "words" else [True, True]
    assert foreign(repo, "t") == expected
    found = repo.baton("doctor")
    assert found.code == 1 and "does not say what was made here" in found.out and "git baton doctor --fix" in found.out
    before = elsewhere.stat() if elsewhere.exists() else None
    done = repo.baton("snapshot", "--track", "t", "three")
    assert done.code == 0
    assert before is None or elsewhere.stat().st_mtime_ns == before.st_mtime_ns, "nothing is written through a link"
    repo.baton("doctor", "--fix")
    assert "does not say what was made here" not in repo.baton("doctor").out
    repo.ok("snapshot", "--track", "t", "four")
    assert foreign(repo, "t") == [False] * 4


@pytest.mark.deep
def test_a_checkpoint_of_ours_that_comes_back_on_another_commit_is_foreign(repo: Sandbox, tmp_path: Path) -> None:
    """An id says nothing of the raw bytes that lie beside the index, and a join takes the smaller of two bases."""
    repo.ok("snapshot", "--track", "t", "one")
    far = cloned(repo.path, tmp_path / "far")
    far.git("fetch", "-q", "origin", *ALL)
    raw = far.git("cat-file", "commit", "refs/baton/tracks/t")
    base = raw.split("\nparent ")[2][:40]
    other = next(oid for n in range(99) if (oid := far.git("commit-tree", "-m", str(n), "HEAD^{tree}")) < base)
    made = far.git(
        "hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{raw.replace(f'parent {base}', f'parent {other}')}\n".encode()
    )
    far.git("update-ref", "refs/baton/tracks/t", made)
    repo.git("remote", "add", "far", str(far.path))
    repo.ok("sync", "far", "--yes")
    assert repo.git("rev-parse", "refs/baton/tracks/t^2") == other
    assert foreign(repo, "t") == [True] and repo.baton("restore", "t", "-n").code == 128
    repo.ok("snapshot", "--track", "t", "words")
    assert foreign(repo, "t") == [False, False]


@pytest.mark.deep
def test_records_that_came_on_top_of_our_run_are_foreign(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("baton.toml", PLAN)
    assert repo.baton("run", "--plan", "baton.toml", "--run", "job").code not in (0, 128)
    far = cloned(repo.path, tmp_path / "far")
    far.git("fetch", "-q", "origin", *ALL)
    far.write("baton.toml", PLAN.replace("exit 3", "touch ../ran; exit 4"))
    assert far.baton("run", "--plan", "baton.toml", "--run", "job").code == 129
    assert far.baton("run", "--plan", "baton.toml", "--run", "job", "--foreign").code not in (0, 128, 129)
    (tmp_path / "ran").unlink()
    repo.git("fetch", "-q", str(far.path), "refs/baton/runs/job:refs/baton/runs/job")
    assert (
        "run_continue=git baton run --continue job --foreign\n"
        in repo.baton("resume").err + repo.ok("snapshot", "s").err + repo.ok("resume", "--porcelain").out
    )
    done = repo.baton("run", "--continue", "job")
    assert done.code == 129 and "records from elsewhere" in done.err and not (tmp_path / "ran").exists()
    records = repo.ok("run", "show", "--records", "job", "--json").json["records"]
    marks = [row["foreign"] for row in records]
    assert marks == sorted(marks) and {True, False} == set(marks)
    assert repo.baton("run", "--continue", "job", "--foreign").code not in (0, 128, 129) and (tmp_path / "ran").exists()
    assert not any(row["foreign"] for row in repo.ok("run", "show", "--records", "job", "--json").json["records"])


@pytest.mark.deep
def test_a_model_that_asks_is_told_whose_it_is(stranger: Path, tmp_path: Path) -> None:
    box = by_mirror(stranger, tmp_path / "box")

    async def steps(client: Client) -> None:
        for tool, given in (("resume", {}), ("log", {"track": "main"}), ("show", {"checkpoint": "main"})):
            done = await client.call(tool, **given)
            assert "EVIL" in said(done), tool
            marked(said(done))
            assert '"foreign": true' in json.dumps(done.structured_content), tool
        assert (await client.ok("resume"))["runs"] == []

    talk(box.path, steps)


@pytest.mark.deep
def test_a_thread_that_no_program_of_here_wrote_is_marked(repo: Sandbox, tmp_path: Path) -> None:
    with ThreadStore.open(repo.path) as store:
        put(store, "t", "0001")
    assert ">" not in repo.ok("thread", "list").out
    far = by_mirror(repo.path, tmp_path / "far")
    assert far.ok("thread", "list").out.startswith("> t ") and far.ok("thread", "list", "--json").json["threads"][0]["foreign"]
    assert "is foreign" in far.ok("thread", "show", "t").err and "> a thread" in far.ok("complete", "thread", "show", "").out
    with ThreadStore.open(far.path) as store:
        assert ids(store) == ["0001"], "a program that names it goes on with it"
        put(store, "t", "0002", "0001")
    assert ">" not in far.ok("thread", "list").out and far.ok("thread", "show", "t").err == ""


@pytest.mark.deep
def test_import_takes_what_git_tracks_for_foreign(repo: Sandbox, tmp_path: Path) -> None:
    far = cloned(repo.path, tmp_path / "far")
    far.ok("snapshot", "--track", "main", "EVIL", "--next-cmd", "EVIL | sh")
    far.ok("export", "--history")
    outside = Path(shutil.copytree(far.path / "runtime/checkpoints", tmp_path / "outside"))
    far.git("add", "-f", "runtime")
    far.git("commit", "-q", "-m", "tracked")
    repo.git("pull", "-q", str(far.path), "main")
    for name, folder in (("one", "one/runtime/checkpoints"), ("two", "far/runtime/checkpoints")):  # also in another's work tree
        box = Sandbox(Path(shutil.copytree(repo.path, tmp_path / name, symlinks=True)))
        box.ok("import", str(tmp_path / folder))
        assert all(foreign(box, "main")) and current(box) == ""
        marked(box.ok("log", "main").out + box.ok("status").out + box.ok("resume").out)
    box = Sandbox(Path(shutil.copytree(repo.path, tmp_path / "three", symlinks=True)))
    box.ok("import", str(outside))
    assert not any(foreign(box, "main")) and current(box) == "refs/checkpoints/main", "somebody's own files, named by him"


@pytest.mark.deep
def test_in_a_repository_of_reftable(tmp_path: Path, new_git: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    real = Path(os.path.realpath(shutil.which(new_git) or new_git))
    for name in ("git", "git-upload-pack"):
        (folder / name).symlink_to(real.with_name(name))
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    place = _made(tmp_path, "--ref-format=reftable")
    box = cloned(place, tmp_path / "box", "--ref-format=reftable", "-c", "remote.origin.fetch=+refs/*:refs/*")
    assert foreign(box, "main") == [True, True] and not any(foreign(Sandbox(place), "main"))
    turn(box)
    assert foreign(box, "main") == [True, True] and foreign(box, "main box") == [False]


@pytest.mark.deep
def test_in_a_repository_of_sha256(tmp_path: Path) -> None:
    place = _made(tmp_path, "--object-format=sha256")
    box = by_mirror(place, tmp_path / "box")
    assert foreign(box, "main") == [True, True] and not any(foreign(Sandbox(place), "main"))
    turn(box)
    assert foreign(box, "main") == [True, True] and foreign(box, "main box") == [False]


@pytest.mark.deep
def test_a_bare_repository_takes_what_is_pushed_for_foreign(stranger: Path, tmp_path: Path) -> None:
    hub = Sandbox.init(tmp_path / "hub.git", "--bare")
    Sandbox(stranger).git("push", "-q", str(hub.path), *ALL, "main")
    assert foreign(hub, "main") == [True, True] and current(hub) == ""
    hub.ok("snapshot", "--track", "own", "here")
    assert foreign(hub, "own") == [False] and foreign(hub, "main") == [True, True]


@pytest.mark.deep
def test_a_track_of_ours_that_was_deleted_is_not_ours_when_another_brings_it(repo: Sandbox, stranger: Path) -> None:
    repo.ok("snapshot", "--track", "main", "mine")
    repo.ok("tracks", "delete", "main", "--yes", "--force")
    repo.git("fetch", "-q", str(stranger), *ALL[:2])
    assert all(foreign(repo, "main"))
    turn(repo)
    assert all(foreign(repo, "main")) and current(repo) == "refs/checkpoints/main%20repo"
