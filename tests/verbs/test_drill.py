"""``git baton drill``: recovery proven in a scratch copy; each step notices what is broken, and the repository stays."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.base.system.process import Result
from gitbaton.base.values import replace
from gitbaton.care.tools import drilling
from gitbaton.care.tools.drilling import Drill
from gitbaton.checkpoints.baton import Baton
from gitbaton.git.worktree.scratch import ScratchClone
from tests.kit import Sandbox
from tests.kit.doors import build
from tests.kit.repos import loose
from tests.kit.tiers import some
from tests.verbs.test_bisect import state, temp

__all__ = ["temp"]

QUICK = ("place", "record", "change", "resume", "restore", "undo")


@pytest.fixture
def track(repo: Sandbox, temp: Path) -> Sandbox:
    """Two tracks, and work that is not recorded."""
    repo.write("dir/b.txt", "b\n")
    repo.ok("snapshot", "--track", "other", "--step", "s")
    repo.write("a.txt", "edited\n")
    repo.write("dir/c.txt", "c\n")
    repo.ok("snapshot", "--track", "the track", "--step", "s")
    repo.write("a.txt", "staged\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "the user's own\n")
    repo.write("stray.txt", "stray\n")
    return repo


@contextmanager
def drilled(repo: Sandbox, *steps: str) -> Iterator[Drill]:
    """A drill in a copy of its own, in which some steps have held."""
    with Baton(repo.path, door="binary") as baton:
        stored = drilling.chosen(baton)
        with drilling.copied(baton, stored) as copy:
            drill = Drill(Liar(copy), stored)
            for step in steps:
                check_holds(drill, step)
            yield drill


def check_holds(drill: Drill, name: str) -> None:
    step = drill.step(name)
    assert step.ok and step.name == name and step.milliseconds >= 0, step.text


def check_fails(drill: Drill, name: str, words: str) -> None:
    step = drill.step(name)
    assert not step.ok and words in step.text, step.text


class Liar(ScratchClone):
    """A copy with a ``git baton`` whose verb does nothing, or says something else than the truth."""

    def __init__(self, copy: ScratchClone) -> None:
        vars(self).update(vars(copy))
        self.lies: dict[str, tuple[Callable[[Result], Result], bool]] = {}

    def baton(self, *words: str, kill: tuple[str, str] | None = None) -> Result:
        lie, runs = self.lies.get(words[0], (lambda told: told, True))
        return lie(super().baton(*words, kill=kill)) if runs else Result(code=0, out=b"", err="")


@contextmanager
def lying(copy: ScratchClone, verb: str, lie: Callable[[Result], Result] = lambda r: r, *, runs: bool = True) -> Iterator[None]:
    """Within the block a verb of the copy lies; without ``runs`` it does nothing."""
    assert isinstance(copy, Liar)
    copy.lies[verb] = lie, runs
    try:
        yield
    finally:
        del copy.lies[verb]


def path(drill: Drill, name: str) -> Path:
    """A file that a drill made."""
    return Path(drill.copy.path, drill.folder, name)


def blob(copy: ScratchClone, content: bytes) -> Path:
    """The file of a loose object of the copy, by its content."""
    oid = copy.git.out("hash-object", "--stdin", stdin=content).decode().strip()
    return loose(Path(copy.path), oid)


@contextmanager
def corrupt(path: Path) -> Iterator[None]:
    """Half of a file is not what it was."""
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(whole[: len(whole) // 2])
    try:
        yield
    finally:
        path.write_bytes(whole)


@pytest.mark.deep
def test_it_proves_recovery_and_changes_nothing(track: Sandbox, temp: Path) -> None:
    before = state(track)
    done = track.baton("drill")
    assert (done.code, done.err) == (0, "")
    rows = done.out.splitlines()
    assert [row[:7] for row in rows] == ["ok     "] * 11 and all(row.endswith(" ms)") for row in rows)
    names = [row[7:].split(":")[0] for row in rows]
    assert names == ["copy", *drilling.STEPS, "untouched"]
    assert "2 tracks" in rows[0] and "'the track'" in rows[1] and "completed" in rows[8] and "rolled back" in rows[8]
    assert state(track) == before and list(temp.iterdir()) == []


@pytest.mark.deep
def test_what_came_from_elsewhere_is_pinned_by_name_and_is_not_signed(track: Sandbox, bare: Sandbox, tmp_path: Path) -> None:
    track.git("remote", "add", "hub", str(bare.path))
    track.ok("sync", "--yes", "hub")
    other = Sandbox.begun(tmp_path / "other")
    other.git("remote", "add", "hub", str(bare.path))
    other.ok("sync", "--yes", "hub")
    other.ok("tracks", "use", "the track")
    other.ok("pin", "@", "keep me")
    other.git("config", "baton.sign", "true")
    said = other.ok("show", "--json").json["checkpoint"]
    assert (said["foreign"], said["name"], said["signed"]["signature"]) == (True, "keep me", "missing")
    with drilled(other, "place", "record", "resume") as drill:
        assert drill.stored.foreign  # and each step held


@pytest.mark.deep
def test_files_that_filters_and_line_ends_change(repo: Sandbox, temp: Path) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.git("config", "core.safecrlf", "true")
    repo.git("config", "filter.up.clean", "tr a-z A-Z")
    repo.git("config", "filter.up.smudge", "tr A-Z a-z")
    repo.git("config", "filter.up.required", "true")
    repo.git("config", "baton.checkpointDir", str(temp / "elsewhere"))
    repo.write(".gitattributes", "*.up filter=up\n*.u16 working-tree-encoding=UTF-16LE-BOM\n")
    repo.write("a.up", "filtered\n")
    repo.write("a.u16", "\ufefftext\n".encode("utf-16-le"))
    repo.write("crlf.txt", "one\r\ntwo\r\n")
    repo.write(".gitignore", "*.log\n")
    repo.write("x.log", "ignored\n")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    before, latest = state(repo), (temp / "elsewhere/LATEST.json").read_bytes()
    with drilled(repo, *QUICK):
        pass
    assert state(repo) == before and (temp / "elsewhere/LATEST.json").read_bytes() == latest


@pytest.mark.full
@some("name", ["sha256", "reftable", "libgit2"])
def test_in_every_format(tmp_path: Path, temp: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    repo = build(tmp_path / name, name, monkeypatch).sandbox
    repo.ok("snapshot", "--track", "t", "--step", "s")
    with drilled(repo, *QUICK) as drill:
        assert set(drill.states), "what the steps proved is compared with these"


@pytest.mark.deep
def test_unborn_detached_linked_and_shallow(repo: Sandbox, temp: Path, tmp_path: Path) -> None:
    empty = Sandbox.init(tmp_path / "empty")
    empty.ok("snapshot", "--track", "t", "--step", "s")
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = Sandbox(tmp_path / "linked")
    linked.ok("snapshot", "--track", "t", "--step", "s", "--no-files")
    repo.commit("second", b_txt="b\n")
    repo.git("clone", "-q", "--depth=1", f"file://{repo.path}", str(tmp_path / "shallow"))
    shallow = Sandbox(tmp_path / "shallow")
    shallow.ok("snapshot", "--track", "t", "--step", "s")
    for place in (empty, linked, shallow):
        before = place.git("for-each-ref"), place.git("status", "--porcelain=v2", "--branch")
        with drilled(place, *QUICK):
            pass
        assert (place.git("for-each-ref"), place.git("status", "--porcelain=v2", "--branch")) == before
    assert list(temp.iterdir()) == []


@pytest.mark.deep
def test_files_that_are_tracked_and_ignored(repo: Sandbox, temp: Path) -> None:
    repo.write(".gitignore", "build/\n")
    for name in ("build/one", "build/two", "z.txt"):
        repo.write(name, f"{name}\n")
    repo.git("add", "-f", ".")
    repo.git("commit", "-qm", "all")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    assert repo.baton("drill").code == 0


@pytest.mark.deep
def test_names_like_options_and_a_cdpath(repo: Sandbox, temp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("-a", "-b", "--"):
        repo.write(name, f"{name}\n")
    repo.git("add", "-A")
    repo.ok("snapshot", "--step", "s")
    (tmp_path / "other" / drilling.FOLDER).mkdir(parents=True)
    monkeypatch.setenv("CDPATH", str(tmp_path / "other"))
    with drilled(repo, "place", "record", "change") as drill:
        assert Path(drill.copy.path, drilling.FOLDER, "one.txt").read_text() == "one, edited\n"
        assert not Path(drill.copy.path, "-a").exists()
    assert not list((tmp_path / "other" / drilling.FOLDER).iterdir())


def test_without_a_checkpoint_there_is_nothing_to_prove(repo: Sandbox) -> None:
    done = repo.baton("drill")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("fatal: there is no checkpoint in this repository\nhint: take one with 'git baton snapshot")
    repo.ok("snapshot", "--track", "t", "--step", "s", "--no-set-current")
    with drilled(repo, "place"):
        pass
    repo.ok("snapshot", "--track", "u", "--step", "s", "--no-set-current")
    done = repo.baton("drill")
    assert done.code == 128 and "hint: set one with 'git baton tracks use NAME'" in done.err


@pytest.mark.deep
def test_what_is_broken_before_fails_the_first_steps(track: Sandbox) -> None:
    track.git("checkout", "-q", "-f", "main")
    oid = track.git("rev-parse", "refs/baton/tracks/the%20track:dir/c.txt")
    with corrupt(track.loose(oid)), drilled(track) as drill:
        check_fails(drill, "place", "'git read-tree' failed")
        check_fails(drill, "restore", "an earlier step has failed")
    track.write(".git/refs/baton/tracks/gone", "1" * 40 + "\n")
    done = track.baton("drill", "--json")
    assert done.code == 1 and done.json["ok"] is False
    steps = {step["name"]: step for step in done.json["steps"]}
    assert list(steps) == ["copy", "untouched"] and not steps["copy"]["ok"]
    assert "refs/baton/tracks/gone" in steps["copy"]["text"]


@pytest.mark.full
def test_recording_that_leaves_out_or_makes_up(track: Sandbox) -> None:
    with drilled(track, "place") as drill:
        drill.copy.git.out("config", "baton.exclude", "two*")
        check_fails(drill, "record", "the recorded tree is")
        drill.copy.git.out("config", "--unset", "baton.exclude")
        path(drill, "link").unlink()
        with lying(drill.copy, "snapshot", lambda r: replace(r, out=r.out.replace(b'"previous": "', b'"previous": "0'))):
            check_fails(drill, "record", "'previous' is")
    with (
        drilled(track, "place", "record") as drill,
        lying(drill.copy, "snapshot", lambda r: replace(r, out=r.out.replace(b'"changed": ', b'"changed": 9'))),
    ):
        check_fails(drill, "change", "the number of changed paths is")


@pytest.mark.deep
def test_a_snapshot_that_is_not_killed_or_leaves_half(track: Sandbox) -> None:
    with drilled(track, "place", "record", "change") as drill:
        with lying(drill.copy, "snapshot", runs=False):
            check_fails(drill, "kill snapshot", "was not killed at 'write-tree': it exited with 0")
        chain, git = "refs/baton/tracks/the%20track", drill.copy.git
        tip = git.out("rev-parse", chain).decode().strip()
        git.out("update-ref", chain, git.out("rev-parse", f"{chain}~1").decode().strip())

        def half(result: Result) -> Result:
            git.out("update-ref", chain, tip)
            git.out("update-ref", chain, git.out("commit-tree", "-p", tip, "-m", "half", f"{tip}^{{tree}}").decode().strip())
            return result

        with lying(drill.copy, "snapshot", half):
            check_fails(drill, "kill snapshot", "commit message holds no checkpoint")


@pytest.mark.full
def test_a_resume_that_changes_a_word_or_mends_nothing(track: Sandbox) -> None:
    with drilled(track, "place", "record") as drill:
        with lying(drill.copy, "resume", lambda r: replace(r, out=r.out.replace(b"never run", b"ever run"))):
            check_fails(drill, "resume", "what 'resume' says is")
        with lying(drill.copy, "show", lambda r: replace(r, out=r.out.replace(b'"step": "s"', b'"step": "t"'))):
            check_fails(drill, "resume", "what 'show' says of the checkpoint before the drill is")

        def unmended(result: Result) -> Result:
            drill.copy.git.out("update-ref", "-d", "refs/checkpoints/the%20track")
            return result

        with lying(drill.copy, "resume", unmended):
            check_fails(drill, "resume", "the list of tips is")

        def no_latest(result: Result) -> Result:
            path(drill, "latest/LATEST.json").unlink()
            return result

        with lying(drill.copy, "resume", no_latest):
            check_fails(drill, "resume", "LATEST.json")
        check_holds(drill, "resume")


@pytest.mark.deep
def test_a_restore_that_gives_back_something_else(track: Sandbox, temp: Path) -> None:
    with drilled(track, "place", "record", "change", "resume") as drill:
        with lying(drill.copy, "restore", runs=False):
            check_fails(drill, "restore", "the tree of the files is")
        with corrupt(blob(drill.copy, b"one, edited\n")):
            check_fails(drill, "restore", "'git baton restore' exited with 1")
        check_holds(drill, "restore")
        with lying(drill.copy, "undo", runs=False):
            check_fails(drill, "undo", "the tree of the files is")
        check_holds(drill, "undo")
        with lying(drill.copy, "restore", runs=False):
            check_fails(drill, "kill restore", "was not killed at 'begin': it exited with 0")

        def forgotten(result: Result) -> Result:
            for name in ("baton/restore", "index.lock"):
                (Path(drill.copy.path) / ".git" / name).unlink(missing_ok=True)
            return result

        with lying(drill.copy, "restore", forgotten):
            check_fails(drill, "kill restore", "neither the old nor the new ones")


@pytest.mark.full
def test_what_garbage_collection_took_is_missed(track: Sandbox) -> None:
    with drilled(track, *QUICK) as drill:
        assert drill.copy.baton("restore", str(drill.documents["words"]["id"]), "--exact", "--index", "--force").code == 0
        git = drill.copy.git
        for name in git.out("for-each-ref", "--format=%(refname)", "refs/baton/safety").decode().split():
            git.out("update-ref", "-d", name)
        check_fails(drill, "collect", "'git baton undo' exited with 1")


def test_the_repository_is_watched(track: Sandbox) -> None:
    track.write(".git/refs/baton/tracks/gone", "1" * 40 + "\n")  # so that it soon ends
    with Baton(track.path, door="binary") as baton:
        steps = drilling.drill(baton)
        assert next(steps).name == "copy"
        track.git("branch", "made-meanwhile")
        track.write("a.txt", "and again\n")
        track.git("add", "a.txt")
        (last,) = steps
    assert (last.name, last.ok, last.text) == ("untouched", False, "changed meanwhile: refs, index, status")


@pytest.mark.deep
@some("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_killed_it_leaves_nothing(track: Sandbox, temp: Path, number: signal.Signals) -> None:
    before = state(track)
    words = [sys.executable, "-m", "gitbaton", "drill"]
    with subprocess.Popen(words, cwd=track.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        while not child.stdout.readline().startswith("ok     record"):
            assert child.poll() is None
        assert len(list(temp.iterdir())) == 1
        child.send_signal(number)
        child.wait()
    assert child.returncode == (130 if number == signal.SIGINT else -number)
    if number == signal.SIGKILL:
        assert len(list(temp.iterdir())) == 1
        track.baton("doctor", "--fix")
    assert list(temp.iterdir()) == []
    assert state(track) == before


def test_a_look_at_the_copy_leaves_nothing_beside_it(repo: Sandbox, temp: Path) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    with drilled(repo) as drill:
        drill.copy.git.out("config", "filter.x.clean", f"cat; echo $GIT_INDEX_FILE >'{temp}/seen'")
        Path(drill.copy.path, ".gitattributes").write_text("*.txt filter=x\n")
        Path(drill.copy.path, "new.txt").write_text("new\n")
        drill.copy.tree(files=True)
        assert (temp / "seen").read_text().startswith(drill.copy.path + "/")
