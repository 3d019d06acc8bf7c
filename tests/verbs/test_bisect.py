"""``git baton bisect``: the first bad checkpoint, found in a work tree that nobody sees afterwards."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitbaton.base.errors import BatonError
from gitbaton.care.tools import bisection
from gitbaton.cli.look import Look
from tests.kit import Outcome, Sandbox
from tests.kit.tiers import some


def state(repo: Sandbox) -> tuple[object, ...]:
    """What a bisection must not touch, byte for byte."""
    index = repo.path / ".git/index"
    return (
        (repo.path / ".git/HEAD").read_bytes(),
        index.read_bytes(),
        repo.git("for-each-ref"),
        repo.git("worktree", "list", "--porcelain"),
        repo.git("--no-optional-locks", "status", "--porcelain=v2", "--branch", "--ignored"),
        sorted(p.name for p in (repo.path / ".git").iterdir()),
        (repo.path / ".git/config").read_bytes(),
    )


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The system's temporary directory, as a test sees it."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)  # it remembers the one before
    return folder


@pytest.fixture
def track(repo: Sandbox, temp: Path) -> Sandbox:
    """Eight checkpoints of a growing file, an untracked one among them; ``bad`` is in it from the sixth on."""
    with repo.open() as baton:
        for number in range(8):
            repo.write("a.txt", "".join(f"line {n}\n" for n in range(number)) + ("bad\n" if number >= 5 else ""))
            repo.write(f"new{number}.txt", f"{number}\n")
            baton.snapshot(f"step {number}", track="t", note=f"note {number}\nmore")
    repo.write("a.txt", "the user's own\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "and not staged\n")
    return repo


@contextmanager
def untouched(repo: Sandbox, temp: Path) -> Iterator[None]:
    """Nothing of the user's differs afterwards, and nothing of ours is left."""
    before = state(repo)
    yield
    check_gone(repo, temp)
    assert state(repo) == before


def check_gone(repo: Sandbox, temp: Path) -> None:
    assert list(temp.iterdir()) == []
    assert not (repo.path / ".git/worktrees").exists()


def ids(repo: Sandbox, track: str = "t") -> list[str]:
    """The track's checkpoints, oldest first."""
    return [c["id"] for c in reversed(repo.ok("log", track, "--json").json["checkpoints"])]


def bisect(repo: Sandbox, *command: str, options: tuple[str, ...] = ("--good", "t~7")) -> Outcome:
    return repo.baton("bisect", *options, "--", *command)


def without(name: str) -> tuple[str, ...]:
    """A command that succeeds where a file is not there."""
    return ("test", "!", "-e", name)


def short(track: Sandbox, number: int) -> str:
    """The digits by which a checkpoint is shown."""
    with track.open(door="binary") as baton:
        return Look(baton, {}).id(ids(track)[number])


NOT_BAD = ("sh", "-c", "! grep -q bad a.txt")


@pytest.mark.full
def test_finds_the_first_bad_one(track: Sandbox, temp: Path) -> None:
    with untouched(track, temp):
        done = bisect(track, *NOT_BAD)
    assert (done.code, done.err) == (0, "")
    ends, tried = done.out.splitlines()[:2], done.out.splitlines()[2:5]
    assert ends == [f"trying the bad one: {short(track, 7)} step 7", f"trying the good one: {short(track, 0)} step 0"]
    assert tried[0] == f"trying (3 left after this, about 2 steps): {short(track, 4)} step 4"
    assert tried[-1].startswith("trying (0 left after this, about 0 steps): ")
    rows = done.out.splitlines()[5:]
    at = rows.index(f"against {short(track, 4)} step 4")
    assert rows[0] == f"{short(track, 5)} is the first bad checkpoint"
    assert rows[1:at] == track.ok("show", short(track, 5)).out.splitlines()[: at - 1], "as show has it"
    assert rows[at - 2 : at] == ["note      note 5", "          more"]
    assert "\n".join(rows[at + 1 :]) == track.git(
        "diff", "--stat=80", "--summary", "refs/baton/tracks/t~3", "refs/baton/tracks/t~2"
    )


@pytest.mark.full
def test_without_a_good_one_the_oldest_is_offered(track: Sandbox) -> None:
    done = track.baton("bisect", "--", "sh", "-c", "exit 1")
    assert (done.code, done.out) == (129, "") and done.err.startswith("fatal: --good is missing: ")
    oldest = ids(track)[0][:10]
    line = f"git baton bisect --good {oldest} -- sh -c 'exit 1'"
    assert f"hint: from the oldest one, if CMD succeeds there: {line}\n" in done.err
    assert f"--good {oldest} --bad 't^' -- true\n" in track.baton("bisect", "--bad", "t^", "--", "true").err


@pytest.mark.full
def test_finds_each_place(track: Sandbox, temp: Path) -> None:
    with untouched(track, temp), track.open() as baton:
        for first in range(1, 8):
            plan = bisection.plan(baton, "t~7", None)
            verdict = bisection.search(baton, plan, ("test", "!", "-e", f"new{first}.txt"), say=lambda step: None)
            assert verdict.found and verdict.tried <= 5
            assert [verdict.good.id, verdict.candidates[0].id] == ids(track)[first - 1 : first + 1]
            assert [c.added for c in verdict.changes if c.path == f"new{first}.txt"] == [1]


@pytest.mark.full
def test_bad_may_be_named_and_both_by_id(track: Sandbox) -> None:
    oids = ids(track)
    found = bisect(track, *without("new3.txt"), options=("--json", "--good", oids[2], "--bad", oids[6][:12]))
    assert found.json["first_bad"]["id"] == oids[3] and found.json["good"]["id"] == oids[2]
    found = bisect(track, *without("new6.txt"), options=("--json", "--good", oids[2], "--bad", oids[6][:12]))
    assert found.json["first_bad"]["id"] == oids[6]
    neighbours = bisect(track, *without("new3.txt"), options=("--good", oids[2], "--bad", oids[3]))
    assert neighbours.code == 0 and f"\n{short(track, 3)} is the first bad checkpoint\n" in neighbours.out


@pytest.mark.full
def test_the_command_runs_as_is_in_a_repository_of_its_own(track: Sandbox, temp: Path, tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys\n"
        "def git(*args): return subprocess.run(['git', *args], capture_output=True, text=True).stdout.strip()\n"
        "top = git('rev-parse', '--show-toplevel')\n"
        "names = sorted(n for n in os.environ if n.startswith('GIT_') and n in sys.argv[3].split())\n"
        "here = os.getcwd() == top == os.environ['PWD']\n"
        "says = [here, git('status', '--porcelain'), names, sys.argv[1:3], os.environ['MINE']]\n"
        f"open({str(tmp_path / 'said')!r}, 'a').write(repr(says) + '\\n')\n"
        "sys.exit(os.path.exists('new7.txt'))\n"
    )
    local = track.git("rev-parse", "--local-env-vars").replace("\n", " ")
    env = {"GIT_DIR": str(track.path / ".git"), "GIT_WORK_TREE": str(track.path), "MINE": "x y", "GIT_INDEX_FILE": ".git/index"}
    words = ("bisect", "--good", "t~7", "--", sys.executable, "-c", code, "$HOME *", "", local)
    with untouched(track, temp):
        assert track.baton(*words, env=env).code == 0
    said = (tmp_path / "said").read_text().splitlines()
    assert set(said) == {repr([True, "", [], ["$HOME *", ""], "x y"])}


@pytest.mark.full
def test_output_passes_through_and_json_stays_alone(track: Sandbox) -> None:
    done = bisect(track, "sh", "-c", "echo out; echo err >&2; ! test -e new1.txt")
    assert done.out.splitlines()[1] == "out" and "err\n" in done.err
    found = bisect(track, "sh", "-c", "echo out; ! test -e new1.txt", options=("--json", "--good", "t~7"))
    assert found.json["first_bad"]["id"] == ids(track)[1]
    assert found.err.splitlines()[4:6] == [
        f"trying (3 left after this, about 2 steps): {short(track, 4)} step 4",
        "out",
    ]


@pytest.mark.full
def test_standard_input_is_the_users(track: Sandbox) -> None:
    script = "read -r word && test $word = good"
    found = track.baton("bisect", "--json", "--good", "t~2", "--", "sh", "-c", script, stdin=b"bad\ngood\ngood\n")
    assert found.json["first_bad"]["id"] == ids(track)[7]


@pytest.mark.deep
def test_125_skips(track: Sandbox, temp: Path) -> None:
    script = "test -e new4.txt && ! test -e new6.txt && exit 125; ! test -e new7.txt"
    found = bisect(track, "sh", "-c", script, options=("--json", "--good", "t~7"))
    assert found.json["first_bad"]["id"] == ids(track)[7]
    with untouched(track, temp):
        done = bisect(track, "sh", "-c", "test -e new4.txt && ! test -e new6.txt && exit 125; ! test -e new6.txt")
    assert done.code == 1
    rows = done.out.splitlines()
    at = rows.index("only checkpoints that cannot be tried are left; the first bad one is one of")
    assert rows[at + 1 :] == [f"{short(track, n)} step {n}" for n in (4, 5, 6)]
    script = "test -e new7.txt && exit 1; ! test -e new1.txt || exit 125"
    found = bisect(track, "sh", "-c", script, options=("--json", "--good", "t~7"))
    assert found.code == 1 and found.json["first_bad"] is None
    assert [c["id"] for c in found.json["candidates"]] == ids(track)[1:]


@some("script", ["exit 128", "exit 255", "kill -9 $$", "kill -15 $$"], share=0)
def test_128_and_more_end_it(track: Sandbox, temp: Path, script: str) -> None:
    with untouched(track, temp):
        done = bisect(track, "sh", "-c", script)
    assert done.code == 128
    code = {"exit 128": 128, "exit 255": 255, "kill -9 $$": 137, "kill -15 $$": 143}[script]
    said = f"fatal: the bisection ends: 'sh' exited with {code} on checkpoint '{ids(track)[7][:10]}'"
    assert done.err.splitlines()[-1] == said


@pytest.mark.full
def test_a_command_that_is_not_there_makes_no_checkpoint_bad(track: Sandbox, temp: Path) -> None:
    with untouched(track, temp):
        done = bisect(track, "no-such-command")
    assert done.code == 128 and "is the first bad" not in done.out
    said = f"'no-such-command' exited with 127 on the good checkpoint '{ids(track)[0][:10]}', too; it cannot be run"
    assert done.err.splitlines()[-1] == f"fatal: the bisection ends: {said}"
    found = bisect(track, "sh", "-c", "test -e new5.txt && exit 127; exit 0", options=("--json", "--good", "t~7"))
    assert found.json["first_bad"]["id"] == ids(track)[5]


@pytest.mark.deep
def test_checkpoints_without_files_are_skipped(track: Sandbox) -> None:
    track.ok("snapshot", "--track", "t", "--step", "words only", "--no-files")
    track.write("new9.txt", "9\n")
    track.ok("snapshot", "--track", "t", "--step", "last")
    done = bisect(track, "test", "!", "-e", "new9.txt", options=("--good", "t~4"))
    assert f"warning: checkpoint '{ids(track)[8][:10]}' has no files and is skipped\n" in done.err
    assert done.code == 1
    assert done.out.splitlines()[-2:] == [f"{short(track, 8)} words only", f"{short(track, 9)} last"]


@pytest.mark.full
def test_good_must_come_before_bad_on_one_chain(track: Sandbox, temp: Path) -> None:
    track.ok("snapshot", "--track", "u", "--step", "other")
    oids = ids(track)
    g, b, other = oids[5][:10], oids[2][:10], ids(track, "u")[0][:10]
    cases = {
        (oids[5], oids[2]): f"fatal: the good checkpoint '{g}' comes after the bad one '{b}' on track 't'\n",
        (oids[5], oids[5]): f"fatal: the good checkpoint '{g}' is also the bad one on track 't'\n",
        (oids[5], "u"): f"fatal: the good checkpoint '{g}' and the bad one '{other}' are on different tracks, 't' and 'u'\n",
    }
    for (good, bad), said in cases.items():
        with untouched(track, temp):
            done = bisect(track, "touch", str(temp / "ran"), options=("--good", good, "--bad", bad))
        assert (done.code, done.out, done.err) == (128, "", said)
    assert bisect(track, "true", options=("--good", "nothing")).code == 2
    assert track.baton("bisect", "--good", "t~7").code == 129
    assert track.baton("bisect", "--", "true").code == 129


@pytest.mark.full
def test_foreign_checkpoints_must_be_asked_for(track: Sandbox, temp: Path) -> None:
    with track.open() as baton:
        with baton.repo.lock(()):
            baton.store.mark("t", [ids(track)[4]])
        with pytest.raises(BatonError, match=f"checkpoint '{ids(track)[4][:10]}' is foreign") as raised:
            bisection.plan(baton, "t~7", None)
        assert raised.value.hints == ("--foreign lets it",)
        assert len(bisection.plan(baton, "t~7", None, foreign=True).candidates) == 7
        assert len(bisection.plan(baton, "t~2", None).candidates) == 2
        with pytest.raises(BatonError, match="is foreign"):
            bisection.plan(baton, "t~3", None)
        assert len(bisection.plan(baton, "t~3", None, trust_good=True).candidates) == 3
    assert list(temp.iterdir()) == []
