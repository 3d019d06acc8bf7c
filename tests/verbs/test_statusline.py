"""Status line: one line of where the track stands, kept as long as it is true, and nothing where something is wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gitbaton.cli.columns import width
from tests.kit import Outcome, Sandbox
from tests.kit.state import snap
from tests.kit.tiers import some

AGE = re.compile(r"words (?:now|[0-9]+m)")
COLOR = "\x1b["


def payload(place: Path | str, used: object = 12, **more: object) -> bytes:
    """What Claude Code writes."""
    fields = {"session_id": "s", "cwd": str(place), "workspace": {"current_dir": str(place), "project_dir": str(place)}}
    return json.dumps({**fields, "context_window": {"used_percentage": used, "context_window_size": 200000}, **more}).encode()


def line(
    box: Sandbox, *words: str, stdin: bytes = b"", cwd: Path | None = None, path: str = os.environ["PATH"], **env: str
) -> str:
    """The line, with its age left out; it is an empty one, and nothing else, or it is whole."""
    done = box.baton("statusline", *words, stdin=stdin, cwd=cwd, env={"PATH": path, **env})
    assert (done.code, done.err) == (0, "")
    return AGE.sub("words A", done.out)


def kept(box: Sandbox) -> Path:
    """The file of a line that is kept: it is not, while something has changed in this very moment."""
    (found,) = {Path(box.git("rev-parse", "--absolute-git-dir")) / "baton" / "statusline"}
    while not found.exists():
        line(box)
    return found


def aged(box: Sandbox, step: str, age: timedelta) -> None:
    """A checkpoint that is as old as that."""
    with box.open(clock=lambda: datetime.now(UTC) - age) as baton:
        baton.snapshot(step, track="t", next_cmd="make test")


def test_it_says_where_the_track_stands(repo: Sandbox) -> None:
    snap(repo, "t", "lexer done", "--validation", "green", "--next-cmd", "make test")
    assert line(repo) == "t  words A  + green  = home  lexer done\n"
    assert line(repo, "--long") == "t  words A  + green  = home  lexer done\nnext: make test\n"
    repo.commit("elsewhere", b_txt="b")
    assert line(repo) == "t  words A  + green  ! 1 ahead  lexer done\n"
    assert line(repo, "--long").endswith("\nsince the words: 1 commit; next: make test\n")
    repo.ok("pause")
    assert "\nsince the words: 1 commit, hooks are paused; next: make test\n" in line(repo, "--long")


def test_a_client_says_where_its_user_is_and_a_track_is_named(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "one")
    snap(repo, "u", "two")
    (repo.path / "d").mkdir()
    plain = {"NO_COLOR": "1"}
    assert line(repo, stdin=payload(repo.path / "d"), cwd=tmp_path, **plain).endswith("two\n")
    assert line(repo, stdin=payload(tmp_path / "gone", cwd=str(repo.path)), cwd=tmp_path, **plain).endswith("two\n")
    assert line(repo, "--track", "t").endswith("one\n")
    assert line(repo, GIT_BATON_TRACK="t").endswith("one\n")
    assert line(repo, GIT_BATON_TRACK="none").endswith("two\n")  # a session that begins it has nothing to show yet
    elsewhere = repo.baton("--repo-root", str(repo.path), "statusline", cwd=tmp_path)
    assert elsewhere.code == 0 and elsewhere.out.endswith("two\n")


@pytest.mark.parametrize(("used", "age", "near"), [(80, 40, True), (80, 1, False), (60, 40, False), (None, 40, False)])
def test_it_says_that_a_compaction_is_near_where_the_words_are_old(repo: Sandbox, used: object, age: int, near: bool) -> None:
    aged(repo, "lexer done", timedelta(minutes=age))
    said = line(repo, stdin=payload(repo.path, used), NO_COLOR="1", COLUMNS="100")
    assert said.startswith("compaction is near: hand over  t  ") == near and "lexer done" in said


def test_what_was_recorded_since_makes_words_old_and_copilot_names_its_context(repo: Sandbox) -> None:
    snap(repo, "t", "lexer done")
    repo.write("a.txt", "more\n")
    repo.baton("hook", "claude", "Stop", stdin=json.dumps({"session_id": "s", "cwd": str(repo.path)}).encode())
    both = {"used_percentage": 12, "current_context_used_percentage": 91}
    said = line(repo, stdin=payload(repo.path, context_window=both), NO_COLOR="1")
    assert said.startswith("compaction is near: hand over  t  ")
    for quiet in (
        {"used_percentage": 12},
        {"used_percentage": 91, "current_context_used_percentage": 0},
        {"used_percentage": "91"},
    ):
        assert "hand over" not in line(repo, stdin=payload(repo.path, context_window=quiet), NO_COLOR="1")
    assert "hand over" in line(repo, stdin=payload(repo.path, 1e400), NO_COLOR="1")


def _torn(box: Sandbox) -> None:
    snap(box)
    (box.path / ".git" / "refs" / "baton" / "tracks" / "t").write_text("0123\n")


@pytest.mark.parametrize(
    "break_it",
    [
        lambda box: None,
        _torn,
        lambda box: (snap(box), (box.path / ".git" / "HEAD").write_text("?\n")),
        lambda box: (snap(box), box.git("config", "core.repositoryFormatVersion", "99")),
        lambda box: (snap(box, "t"), snap(box, "u"), (box.path / ".git" / "BATON_HEAD").unlink()),
    ],
    ids=["no baton", "a torn ref", "a torn HEAD", "a repository of tomorrow", "no track is current"],
)
def test_nothing_is_said_where_nothing_can_be(repo: Sandbox, break_it: Callable[[Sandbox], object]) -> None:
    break_it(repo)
    assert line(repo) == "" == line(repo, stdin=payload(repo.path))


@pytest.mark.parametrize(
    "stdin", [b"", b"\n", b"{", b"[]", b"null", b"[" * 5000, b'{"workspace": 3, "cwd": ["x"], "context_window": []}', b"\xff{}"]
)
def test_what_is_no_payload_is_none(repo: Sandbox, stdin: bytes) -> None:
    snap(repo, "t", "S")
    assert line(repo, stdin=stdin, NO_COLOR="1").endswith("  S\n")


def test_outside_any_repository_and_with_a_wrong_option_it_exits_with_0(repo: Sandbox, tmp_path: Path) -> None:
    assert line(repo, cwd=tmp_path) == ""
    assert "git-baton-statusline - " in repo.baton("statusline", "--help", cwd=tmp_path).out
    snap(repo)
    done = repo.baton("statusline", "--nope")
    assert (done.code, done.out) == (0, "") and done.err.startswith("fatal: unknown option '--nope'\n")
    assert repo.baton("statusline", "-h").out.startswith("Usage: git baton statusline")


@pytest.mark.parametrize("name", ["statusline", "hook"])
def test_a_folder_of_that_name_makes_no_other_verb_exit_with_0(repo: Sandbox, name: str) -> None:
    other = Sandbox.init(repo.path / name)
    assert repo.baton("--repo-root", name, "show", "nope").code == 2
    assert repo.baton("--checkpoint-dir", name, "show", "nope").code == 2
    assert repo.baton("--repo-root", str(other.path), "statusline", "--nope").code == 0


def _commit(box: Sandbox) -> None:
    box.commit("c", b_txt=os.urandom(4).hex())


MOVES: dict[str, Callable[[Sandbox], object]] = {
    "a snapshot": lambda box: snap(box, "t", "another"),
    "a commit": _commit,
    "a branch": lambda box: box.git("switch", "-q", "-c", "feature/x"),
    "a commit on it": _commit,
    "packed refs": lambda box: box.git("pack-refs", "--all"),
    "a commit after": _commit,
    "a reset": lambda box: box.git("reset", "-q", "--hard", "HEAD~1"),
    "an amend": lambda box: box.git("commit", "-q", "--amend", "-m", "other"),
    "another track": lambda box: snap(box, "u", "of u"),
    "the track before": lambda box: box.ok("tracks", "use", "t"),
    "a restore": lambda box: box.ok("restore", "t~1", "--force"),
    "an undo": lambda box: box.ok("undo"),
    "a bisection": lambda box: box.git("bisect", "start"),
    "its end": lambda box: box.git("bisect", "reset"),
    "a detached HEAD": lambda box: box.git("checkout", "-q", "--detach"),
    "a deleted track": lambda box: box.ok("tracks", "delete", "t", "--yes"),
}


@pytest.mark.deep
def test_a_line_that_is_kept_is_true(repo: Sandbox) -> None:
    _commit(repo)
    snap(repo, "t", "first")
    wrong, seen = [], []
    for name, move in MOVES.items():
        kept(repo)
        move(repo)
        again = line(repo)
        (repo.path / ".git" / "baton" / "statusline").unlink(missing_ok=True)
        seen.append(line(repo))
        wrong += [] if again == seen[-1] else [(name, again, seen[-1])]
    assert wrong == [] and len(set(seen)) > 8


def test_a_line_is_kept_no_longer_than_a_pause(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    repo.ok("pause", "--for", "20s")
    end = int(re.findall(rb"until (\d+)", (repo.path / ".git" / "baton" / "paused").read_bytes())[0])
    while not (found := [float(word) for word in kept(repo).read_bytes().split(b"\0\0") if re.fullmatch(rb"\d+\.\d+", word)]):
        line(repo, "--long")
    assert found[0] <= end + 1


def test_a_kept_line_costs_no_git_and_no_import(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    code = "import sys; sys.argv = ['git-baton', 'statusline']; import os; e = os._exit; os._exit = lambda c: (os.write(2, "
    code += "' '.join(sys.modules).encode()), e(c)); from gitbaton.cli.main import run; run()"
    while not (repo.path / ".git" / "baton" / "statusline").exists():
        repo.run(sys.executable, "-c", code)
    done = repo.run(sys.executable, "-c", code, env={"PATH": "/nowhere"})
    assert done.out.startswith("t  words ") and done.out.endswith("  S\n")
    ours = {name for name in done.err.split() if name.startswith("gitbaton")}
    assert ours == {
        *("gitbaton", "gitbaton.base", "gitbaton.base.terminal", "gitbaton.cli", "gitbaton.cli.main", "gitbaton.cli.verbs"),
        *("gitbaton.cli.statusline", "gitbaton.git", "gitbaton.git.places"),
    }
    assert not {"re", "json", "datetime", "typing", "subprocess"}.intersection(done.err.split())


def test_a_kept_line_is_believed_only_as_we_wrote_it(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "S")
    place, good = kept(repo), line(repo)
    held = place.read_bytes()
    for forged in (
        b"",
        b"x",
        held.replace(b"  S\n", b"  \x1b]0;title\x07\n"),
        held.replace(b"  S\n", b"  \x1b[2J\n"),
        held[:-9],
    ):
        place.write_bytes(forged)
        assert line(repo) == good
    other = tmp_path / "other"
    other.write_bytes(held.replace(b"  S\n", b"  X\n"))
    place.unlink()
    place.symlink_to(other)
    assert line(repo) == good
    assert place.stat().st_mode & 0o077 == 0 or place.is_symlink()
    copy = Sandbox(tmp_path / "copy")
    repo.git("clone", "-q", ".", str(copy.path))
    (copy.path / ".git" / "baton").mkdir()
    (copy.path / ".git" / "baton" / "statusline").write_bytes(held)
    assert line(copy) == ""  # what it says is of another repository


def test_words_from_elsewhere_are_marked_and_drive_no_terminal(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "a \x1b[31mred\x1b[m \u202eword", "--next-cmd", "rm \x1b[2J")
    own = line(repo, "--long")
    assert "\x1b" not in own and "\u202e" not in own and "\n> " not in own
    clone = Sandbox(tmp_path / "clone")
    repo.git("clone", "-q", str(repo.path), str(clone.path))
    clone.git("fetch", "-q", "origin", "refs/baton/tracks/*:refs/baton/tracks/*")
    said = line(clone, "--long")
    assert said.startswith("> t  ") and "  > a " in said and "\nnext: > rm " in said and "\x1b" not in said


@some("shape", ["linked", "detached", "sha256", "reftable", "bare", "unborn"], share={"linked", "reftable"})
def test_in_every_kind_of_repository(repo: Sandbox, tmp_path: Path, shape: str, request: pytest.FixtureRequest) -> None:
    box, path = repo, os.environ["PATH"]
    if shape == "linked":
        repo.git("worktree", "add", "-q", str(tmp_path / "w"))
        snap(repo, "other", "elsewhere")
        box = Sandbox(tmp_path / "w")
    elif shape == "detached":
        repo.git("checkout", "-q", "--detach")
    elif shape in ("sha256", "reftable"):
        git = request.getfixturevalue("new_git") if shape == "reftable" else "git"
        path = f"{Path(git).parent}:{path}" if shape == "reftable" else path
        box = Sandbox.init(tmp_path / "x", "--object-format=sha256" if shape == "sha256" else "--ref-format=reftable", git=git)
        assert box.run(git, "commit", "-q", "--allow-empty", "-m", "first").code == 0
    elif shape == "unborn":
        box = Sandbox.init(tmp_path / "x")
    elif shape == "bare":
        box = Sandbox.init(tmp_path / "x.git", "--bare")
        with box.open() as baton:
            baton.snapshot("S", track="t", files=False)
    if shape != "bare":
        assert box.baton("snapshot", "--track", "t", "S", env={"PATH": path}).code == 0
    assert line(box, path=path).startswith("t  words A  ") and line(box, path=path).endswith("  S\n")
    assert box.baton("snapshot", "--track", "t", "T", env={"PATH": path}).code == 0
    assert line(box, path=path).endswith("  T\n")


@pytest.mark.deep
def test_a_track_of_another_work_tree_is_told_with_its_place(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "parser", "lexer done")
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = Sandbox(tmp_path / "side")
    side.commit("ahead", b_txt="1\n")
    there = os.path.relpath(repo.path, side.path)
    assert line(side, NO_COLOR="1").split("  ")[3:] == [f"at {there}", "lexer done\n"], line(side)
    side.ok("snapshot", "--track", "parser", "here now")
    assert "= home" in line(side, NO_COLOR="1") and f"at {os.path.relpath(side.path, repo.path)}" in line(repo, NO_COLOR="1")


@pytest.mark.deep
def test_where_room_is_short_tests_go_last(repo: Sandbox) -> None:
    repo.write("a.txt", "1\n")
    repo.ok("snapshot", "--track", "parser", "--validation", "failed", "words of some length that are cut before")
    said = line(repo, COLUMNS="46", NO_COLOR="1")
    assert "failed" in said and "home" not in said and said.rstrip().endswith("…"), said


@pytest.mark.parametrize("columns", [20, 33, 47, 60, 80, 100, 200])
def test_no_line_is_wider_than_the_screen(repo: Sandbox, columns: int) -> None:
    aged(repo, "構文解析器を書き直した " * 9 + "e\u0301" * 40, timedelta(hours=2))
    said = line(repo, "--long", stdin=payload(repo.path, 90), NO_COLOR="1", COLUMNS=str(columns), LC_ALL="C.UTF-8")
    assert len(said.splitlines()) == 2 and max(map(width, said.splitlines())) <= columns
    assert said.startswith("compaction is near"[: columns - 1])


@pytest.mark.parametrize(
    ("words", "client", "env", "colour"),
    [
        ((), True, {}, True),
        ((), False, {}, False),
        ((), True, {"NO_COLOR": "1"}, False),
        (("--no-color",), True, {}, False),
        (("--color",), False, {}, True),
        (("--color=never",), True, {}, False),
    ],
)
def test_it_is_in_colour_where_a_client_shows_it(
    repo: Sandbox, words: tuple[str, ...], client: bool, env: dict[str, str], colour: bool
) -> None:
    snap(repo, "t", "S")
    for _ in range(2):  # and so where it is kept
        done = repo.baton(*words, "statusline", stdin=payload(repo.path) if client else b"", env={"TERM": "xterm", **env})
        assert (COLOR in done.out) == colour and done.out.endswith("  S\n")


def _begun(box: Sandbox, **env: str) -> subprocess.Popen[bytes]:
    """A call of which standard input stays open and says nothing."""
    argv, pipe = [sys.executable, "-m", "gitbaton", "statusline"], subprocess.PIPE
    return subprocess.Popen(argv, cwd=box.path, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **env})


def test_it_waits_for_no_end_of_input(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    with _begun(repo) as silent:
        assert silent.stdout is not None and silent.stdout.read().endswith(b"  S\n") and silent.wait(20) == 0
    with _begun(repo, CLAUDE_PROJECT_DIR=str(repo.path), NO_COLOR="1") as told:
        assert told.stdin is not None and told.stdout is not None
        told.stdin.write(payload(repo.path))
        told.stdin.flush()  # a client that does not close it
        assert told.stdout.read().endswith(b"  S\n") and told.wait(20) == 0
    closed = repo.run("sh", "-c", f'exec "{sys.executable}" -m gitbaton statusline <&-')
    assert (closed.code, closed.err) == (0, "") and closed.out.endswith("  S\n")


def test_a_client_that_ends_it_hears_nothing(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    with _begun(repo, CLAUDE_PROJECT_DIR=str(repo.path)) as begun:
        begun.send_signal(signal.SIGTERM)
        assert begun.communicate() == (b"", b"") and begun.returncode == -signal.SIGTERM


def test_no_file_of_the_work_tree_is_looked_at(repo: Sandbox) -> None:
    snap(repo, "t", "S", "--validation", "green")
    (repo.path / ".git" / "index").write_bytes(b"torn")
    repo.write("a.txt", "changed")
    assert line(repo) == "t  words A  + green  = home  S\n"


def test_a_name_as_of_a_verb_of_ours_is_no_call(repo: Sandbox) -> None:
    done: Outcome = repo.baton("snapshot", "--track", "statusline", "-m", "S", "--nope")
    assert done.code == 129


SETTINGS = ".claude/settings.json"
OURS = {"type": "command", "command": "git-baton statusline"}


def agent(box: Sandbox, *words: str) -> Outcome:
    """A step of an install that must succeed."""
    return box.ok("agent", *words)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of the test."""
    return tmp_path / "home"


@pytest.mark.parametrize("before", [None, "", '{"model": "opus"}\n', '{"hooks": {}, "model": 1}'])
def test_an_install_sets_it_and_an_uninstall_takes_exactly_that(repo: Sandbox, home: Path, before: str | None) -> None:
    if before is not None:
        repo.write(SETTINGS, before)
    agent(repo, "install", "claude", "--statusline")
    written = (repo.path / SETTINGS).read_text()
    assert json.loads(written)["statusLine"] == OURS and "SessionStart" in json.loads(written)["hooks"]
    for words in (("--statusline",), ()):  # and it stays where an install does not ask for it
        assert agent(repo, "install", "claude", *words).out == "everything is in place\n"
    assert (repo.path / SETTINGS).read_text() == written
    row = next(row for row in agent(repo, "list", "--json").json["agents"] if row["level"] == "project")
    assert (row["state"], row["statusline"]) == ("installed", True)
    assert ", status line\n" in agent(repo, "list").out.splitlines(keepends=True)[0]
    doctor = repo.baton("agent", "doctor").out
    assert f"ok   claude project statusline: in place in '{SETTINGS}'\n" in doctor
    agent(repo, "install", "claude", "--track", "it's")
    line = json.loads((repo.path / SETTINGS).read_text())["statusLine"]["command"]
    assert line == "git-baton statusline --track 'it'\\''s'"
    agent(repo, "uninstall", "claude")
    there = (repo.path / SETTINGS).read_text() if (repo.path / SETTINGS).exists() else None
    assert there == before


def test_the_line_that_is_installed_shows_the_track_of_the_hooks(repo: Sandbox, home: Path) -> None:
    agent(repo, "install", "claude", "--statusline", "--track", "it's")
    snap(repo, "it's", "of the hooks")
    snap(repo, "other", "of another")
    line = json.loads((repo.path / SETTINGS).read_text())["statusLine"]["command"]
    line = line.replace("git-baton", f"'{sys.executable}' -m gitbaton")
    assert repo.run("sh", "-c", line, stdin=payload(repo.path), env={"NO_COLOR": "1"}).out.endswith("  of the hooks\n")


@pytest.mark.parametrize("where", [SETTINGS, ".claude/settings.local.json", "~/.claude/settings.json"])
@pytest.mark.parametrize("value", ['{"type": "command", "command": "theirs --fast"}', '"odd"', "{}", "null"])
def test_one_that_is_set_stays_and_is_named(repo: Sandbox, home: Path, where: str, value: str) -> None:
    file = home / where[2:] if where.startswith("~") else repo.path / where
    file.parent.mkdir(parents=True)
    file.write_text(f'{{"statusLine": {value}}}')
    done = agent(repo, "install", "claude", "--statusline")
    assert f"warning: '{where}' sets a status line already, and it stays: " in done.err
    settings = json.loads((repo.path / SETTINGS).read_text())
    assert "SessionStart" in settings["hooks"] and settings.get("statusLine") == (
        json.loads(value) if where == SETTINGS else None
    )
    agent(repo, "uninstall", "claude")
    assert file.read_text() == f'{{"statusLine": {value}}}'


def test_one_that_stands_twice_keeps_no_hooks_back(repo: Sandbox) -> None:
    written = '{"statusLine": {"command": "git-baton statusline"}, "statusLine": 5}'
    repo.write(SETTINGS, written)
    done = agent(repo, "install", "claude", "--statusline")
    assert "sets a status line already, and it stays: 5\n" in done.err and (repo.path / SETTINGS).read_text() != written
    agent(repo, "uninstall", "claude")
    assert (repo.path / SETTINGS).read_text() == written


def test_a_line_set_by_hand_is_no_install(repo: Sandbox, home: Path) -> None:
    repo.write(SETTINGS, '{"statusLine": {"type": "command", "command": "git-baton statusline --long"}}')
    assert "not installed" in agent(repo, "list").out.splitlines()[0]
    agent(repo, "install", "claude")
    assert json.loads((repo.path / SETTINGS).read_text())["statusLine"]["command"] == "git-baton statusline --long"


def test_copilot_has_one_for_its_user(repo: Sandbox, home: Path) -> None:
    done = agent(repo, "install", "copilot", "--statusline")
    assert "warning: GitHub Copilot CLI has no status line for a project: install it with --user\n" in done.err
    file = home / ".copilot" / "settings.json"
    agent(repo, "install", "copilot", "--user")
    assert not file.exists(), "it is not written for no line"
    agent(repo, "uninstall", "copilot", "--user")
    file.parent.mkdir(exist_ok=True)
    file.write_text('// mine\n{"theme": "dim"}\n')
    agent(repo, "install", "copilot", "--statusline", "--user")
    assert '"git-baton statusline"' in file.read_text() and file.read_text().startswith("// mine\n")
    agent(repo, "uninstall", "copilot", "--user")
    assert file.read_text() == '// mine\n{"theme": "dim"}\n'
    file.unlink()
    agent(repo, "install", "copilot", "--statusline", "--user")
    agent(repo, "uninstall", "copilot", "--user")
    assert not file.exists()
    agent(repo, "install", "copilot", "--user")
    assert not file.exists(), "an install that does not ask for one writes no settings"


def test_no_other_client_has_one(repo: Sandbox, home: Path) -> None:
    for words in (("codex",), ("--plugin", "claude")):
        done = repo.baton("agent", "install", *words, "--statusline")
        assert done.code == 129 and "hint: git baton agent install claude --user --statusline\n" in done.err


def test_something_else_in_the_place_of_the_kept_line_is_named_and_hinders_nothing(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    place = kept(repo)
    assert "statusline" not in repo.baton("doctor").out
    for make in (os.mkfifo, os.mkdir):
        place.unlink()
        make(place)
        assert line(repo) == "t  words A  . -  = home  S\n"
    done = repo.baton("doctor")
    assert done.code == 1 and "baton/statusline' is a folder, and no file of ours" in done.out
