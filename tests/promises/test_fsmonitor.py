"""core.fsmonitor: git's own daemon says what changed where the user has it watch; the walk says the same, and no path runs."""

from __future__ import annotations

import os
import random
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gitbaton.git.repo import discover
from gitbaton.git.run import EXACT, Listings, watched
from tests.kit import Outcome, Sandbox, find_new_git
from tests.kit.capturekit import expected_tree
from tests.promises.test_filedrift import build

HEARD = r"""#!/bin/sh
# What git calls in place of its daemon: all paths that were noted since, by their number.
count=$(wc -l <"$0.noted")
printf '%s\0' "$count"
if [ "$2" -le "$count" ] 2>/dev/null; then tail -n "+$(($2 + 1))" "$0.noted" | tr '\n' '\0'; else printf '/\0'; fi
"""
GIT = r"""#!/bin/sh
# Git, with a daemon that knows what a test notes; each command line is kept.
for word do
    shift
    case $word in
    core.fsmonitor=true) word=core.fsmonitor=@heard@ ;;
    fsmonitor--daemon) exit "$(cat @heard@.code)" ;;
    esac
    set -- "$@" "$word"
done
echo "$*" >>@heard@.words
exec @git@ "$@"
"""


@dataclass(frozen=True)
class Watched:
    """A repository that git watches: by a stand-in that is told of each change, or by its own daemon."""

    box: Sandbox
    heard: Path | None

    def note(self, *paths: str) -> None:
        if self.heard is not None:
            with open(f"{self.heard}.noted", "a") as file:
                file.writelines(f"{path}\n" for path in paths)

    def answers(self, code: int) -> None:
        Path(f"{self.heard}.code").write_text(f"{code}\n")

    def words(self) -> list[str]:
        """The git commands since the last call."""
        path = Path(f"{self.heard}.words")
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    def look(self) -> None:
        """As the user, whose git then knows what has not changed."""
        self.box.git(*(("-c", "core.fsmonitor=true") if self.heard else ()), "status")


def stand_in(box: Sandbox, place: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    place.mkdir()
    heard, git = place / "heard", place / "git"
    for path, text in ((heard, HEARD), (git, GIT)):
        path.write_text(text.replace("@heard@", str(heard)).replace("@git@", shutil.which("git") or "git"))
        path.chmod(0o755)
    Path(f"{heard}.noted").touch()
    monkeypatch.setenv("PATH", f"{place}{os.pathsep}{os.environ['PATH']}")
    folder = box.git("rev-parse", "--absolute-git-dir")
    os.mknod(os.path.join(folder, "fsmonitor--daemon.ipc"), stat.S_IFSOCK | 0o600)
    watched = Watched(box, heard)
    watched.answers(0)
    for key in ("core.fsmonitor", "core.untrackedCache"):
        box.git("config", key, "true")
    watched.look()
    return watched


def with_daemon() -> str | None:
    """A git that has the daemon."""
    for git in dict.fromkeys(("git", find_new_git() or "git")):
        said = subprocess.run([git, "version", "--build-options"], capture_output=True, text=True).stdout
        if "feature: fsmonitor--daemon" in said:
            return git
    return None


@pytest.fixture
def repo(tmp_path: Path) -> Sandbox:
    repo = build(tmp_path)
    repo.git("add", "-A")
    repo.git("commit", "-qm", "second")
    return repo


@pytest.fixture
def told(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Watched:
    return stand_in(repo, tmp_path / "bin", monkeypatch)


@pytest.fixture(params=["stand-in", "daemon"])
def either(request: pytest.FixtureRequest, repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    if request.param == "stand-in":
        yield stand_in(repo, tmp_path / "bin", monkeypatch)
        return
    git = with_daemon()
    if git is None:
        pytest.skip("no git that has the daemon: set GITBATON_TEST_GIT")
    if os.path.isabs(git):
        monkeypatch.setenv("PATH", os.path.dirname(git) + os.pathsep + os.environ["PATH"])
    for key in ("core.fsmonitor", "core.untrackedCache"):
        repo.git("config", key, "true")
    watched = Watched(repo, None)
    watched.look()
    yield watched
    repo.git("fsmonitor--daemon", "stop")
    assert not [*repo.path.rglob("fsmonitor--daemon.ipc")]  # nor was one started within


def taken(repo: Sandbox) -> str:
    """The tree of a snapshot."""
    with repo.open(door="binary") as baton:
        return baton.snapshot("s", track="t").stored.tree


def said(repo: Sandbox) -> str:
    opened = discover(str(repo.path), door="binary")
    try:
        return watched(opened.git, opened.layout.git_dir)
    finally:
        opened.close()


def seen(repo: Sandbox, shown: str) -> tuple[list[tuple[str, str]], list[str]]:
    """What a look finds: tracked paths with their records, and untracked ones."""
    git = discover(str(repo.path), door="binary").git.changed({}, *EXACT)
    links = [row.split("\t")[1] for row in repo.git("ls-files", "-s").splitlines() if row.startswith("160000")]
    look = Listings(git, shown=shown)
    tracked, others = look.tracked(links), look.untracked()
    assert (tracked.code, others.code) == (0, 0), tracked.err + others.err
    fields = os.fsdecode(tracked.out).split("\0")[:-1]
    return sorted(zip(fields[1::2], fields[::2], strict=True)), os.fsdecode(others.out).split("\0")[:-1]


def test_true_is_heeded_and_a_path_is_not(told: Watched) -> None:
    repo = told.box
    assert said(repo) == "normal"
    for value in ("yes", "on", "1"):
        repo.git("config", "core.fsmonitor", value)
        assert said(repo) == "normal"
    for value in ("false", "0", "", str(told.heard), "/bin/true", "true "):
        repo.git("config", "core.fsmonitor", value)
        assert said(repo) == ("normal" if value == "true " and repo.git("config", "core.fsmonitor") == "true" else "")
    repo.git("config", "--add", "core.fsmonitor", "true")
    assert said(repo) == "normal"  # the last one counts
    repo.git("config", "status.showUntrackedFiles", "all")
    assert said(repo) == "all"


def test_nothing_is_asked_where_no_daemon_is(told: Watched) -> None:
    told.answers(1)
    assert said(told.box) == ""
    told.answers(0)
    (told.box.path / ".git/fsmonitor--daemon.ipc").unlink()
    told.words()
    assert said(told.box) == "" and not any("get-regexp ^(core\\.fsmonitor" in line for line in told.words())
    told.box.write(".git/fsmonitor--daemon.ipc", "a file")
    assert said(told.box) == ""


@pytest.mark.deep
def test_a_path_never_runs(told: Watched, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    program = told.box.write("../program", f"#!/bin/sh\ntouch {ran}\n")
    program.chmod(0o755)
    for place in (told.box, Sandbox(told.box.path / "sub")):
        place.git("config", "core.fsmonitor", str(program))
        told.box.write("a.txt", f"{place}\n")
        for words in (("snapshot", "--track", "t", "--step", "s"), ("status",), ("resume", "--live"), ("verify",)):
            told.box.ok(*words)
            assert not ran.exists(), words
        told.box.git("config", "core.fsmonitor", "true")
    assert "t" in told.box.ok("status").out


@pytest.mark.deep
@pytest.mark.parametrize("shown", ["normal", "all"])
def test_both_ways_see_the_same(either: Watched, shown: str) -> None:
    repo = either.box
    repo.git("config", "status.showUntrackedFiles", shown)
    dice = random.Random(shown)
    nested = Sandbox.init(repo.path / "nested")
    nested.commit("first", n_txt="1\n")
    either.note("nested/")
    for count in range(30):
        either.note(*dice.choice(CHANGES)(repo, dice, count))
        if dice.random() < 0.3:
            either.look()
        assert said(repo) == shown
        assert seen(repo, shown) == seen(repo, "")


def edit(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    path = dice.choice(("a.txt", "b.txt", "d/e/f.txt", "empty", ":colon", "new folder/un\ttracked"))
    repo.write(path, f"edited {dice.randrange(3)}\n")
    return [path, str(Path(path).parent)]


def touch(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    path = dice.choice(("same.txt", "run.sh"))
    (repo.path / path).chmod(dice.choice((0o600, 0o644, 0o755)))
    return [path]


def make(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    path = dice.choice((f"new{count}", f"made/{count % 3}/new{count}", f"d/new{count}", f"x{count}.log", "d/e/y.log"))
    repo.write(path, "new\n")
    return [path, "made/"]


def remove(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    path = dice.choice(("d", "made", "d/g.txt", "link"))
    full = repo.path / path
    if full.is_dir() and not full.is_symlink():
        shutil.rmtree(full)
        return [f"{path}/", path]
    full.unlink(missing_ok=True)
    return [path]


def move(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    here, there = dice.choice((("d", "moved"), ("moved", "d"), ("made", "d/made")))
    if not (repo.path / here).is_dir() or (repo.path / there).exists() or not (repo.path / there).parent.is_dir():
        return []
    (repo.path / here).rename(repo.path / there)
    return [here, f"{here}/", there, f"{there}/"]


def ignore(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    path = dice.choice((".gitignore", "d/.gitignore"))
    if not (repo.path / path).parent.is_dir():
        return []
    repo.write(path, dice.choice(("*.log\n", "new*\n", "", "/made/\n")))
    return [path]


def within(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    path = dice.choice(("sub/lib.txt", "sub/more", "nested/more"))
    repo.write(path, f"{dice.randrange(2)}\n")
    if dice.random() < 0.3:
        Sandbox(repo.path / "sub").git("commit", "-qam", "moved on", "--allow-empty")
    return [path]


def stage(repo: Sandbox, dice: random.Random, count: int) -> list[str]:
    repo.git(*dice.choice((("add", "-A", "."), ("reset", "-q"), ("stash", "-q"), ("checkout", "-q", "-f", "HEAD"))))
    listed = repo.git("ls-files").splitlines()
    return [*listed, *(f"{Path(path).parent}/" for path in listed if "/" in path), "made/", "moved/", "d/"]


CHANGES: list[Callable[[Sandbox, random.Random, int], list[str]]] = [
    *(edit, touch, make, remove, move, ignore, within, stage),
]


@pytest.mark.deep
def test_a_snapshot_holds_what_git_would_add(either: Watched) -> None:
    repo = either.box
    for path, text in (
        ("a.txt", "edited\n"),
        ("made/here/new.txt", "new\n"),
        ("x.log", "ignored\n"),
        ("sub/lib.txt", "in it\n"),
    ):
        repo.write(path, text)
        either.note(path, "made/")
        wanted = expected_tree(repo)
        assert taken(repo) == wanted
        either.look()
        assert repo.ok("verify", "t", "--json").code == 0


@pytest.mark.deep
def test_flags_conflicts_and_sparse_checkouts_are_seen_alike(told: Watched) -> None:
    repo = told.box
    repo.git("update-index", "--assume-unchanged", "a.txt")
    repo.git("update-index", "--skip-worktree", "b.txt")
    told.look()
    repo.write("a.txt", "hidden\n")
    repo.write("b.txt", "hidden, too\n")
    tree = taken(repo)
    assert repo.git("show", f"{tree}:a.txt") == "hidden" and repo.git("show", f"{tree}:b.txt") == "hidden, too"
    repo.git("update-index", "--no-assume-unchanged", "a.txt")
    repo.git("update-index", "--no-skip-worktree", "b.txt")
    repo.git("checkout", "-q", "-f", "HEAD")
    repo.git("sparse-checkout", "set", "--cone", "d")
    told.note("sub", "new folder/")
    told.look()
    repo.write("new folder/un\ttracked", "there all the same\n")
    told.note("new folder/un\ttracked")
    tree = taken(repo)
    assert repo.git("show", f"{tree}:new folder/un\ttracked") == "there all the same"


@pytest.mark.deep
def test_what_replaces_files_looks_at_each(told: Watched) -> None:
    repo = told.box
    repo.ok("snapshot", "--track", "t", "--step", "first")
    repo.commit("second", a_txt="two\n")
    told.note("a.txt")
    told.look()
    repo.write("a.txt", "unheard of\n")
    tree = taken(repo)
    assert repo.git("show", f"{tree}:a.txt") == "two"  # the daemon is believed
    repo.ok("restore", "t~1", "--", "a.txt")
    assert (repo.path / "a.txt").read_text() == "content of a.txt\n"
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "unheard of\n"


@pytest.mark.deep
def test_a_hook_asks_the_daemon(told: Watched) -> None:
    repo = told.box
    repo.ok("snapshot", "--track", "t", "--step", "first", "--next", "go on")
    told.words()
    payload = b'{"session_id": "s", "source": "startup", "cwd": "%s"}' % os.fsencode(repo.path)
    done: Outcome = repo.ok("hook", "claude", "SessionStart", stdin=payload)
    asked = [line for line in told.words() if " diff-files " in line or " status " in line]
    whole = [line for line in asked if not line.endswith("-- :(top,literal)sub")]  # no daemon is started in there
    assert "go on" in done.out and len(whole) == 2 and len(asked) == 3
    assert [f"core.fsmonitor={told.heard}" in line for line in asked] == [line in whole for line in asked]


@pytest.mark.deep
def test_a_hook_looks_once_through_a_link(told: Watched, tmp_path: Path) -> None:
    told.box.ok("snapshot", "--track", "t", "--step", "first", "--next", "go on")
    (tmp_path / "linked").symlink_to(told.box.path)
    payload = b'{"session_id": "s", "source": "startup", "cwd": "%s"}' % os.fsencode(tmp_path / "linked")
    told.words()
    assert "go on" in told.box.ok("hook", "claude", "SessionStart", stdin=payload).out
    assert sum(" diff-files " in line for line in told.words() if ":(top,literal)" not in line) == 1
