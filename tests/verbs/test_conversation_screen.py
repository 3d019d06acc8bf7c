"""Conversations on a terminal: nothing that was said, and no name of a directory, drives it; what is lacking is told."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.tiers import some
from tests.rooms.agents.test_conversation_formats import CLAUDE
from tests.rooms.agents.test_conversation_formats import rows as lines
from tests.verbs.test_conversation_verbs import TALK, assert_wrote_nothing, sessions, talk, written
from tests.verbs.test_tty import on_terminal

CONTROL = b"\x1b]0;forged\x07\x1b[2J\xc2\x9b\xe2\x80\xae\xff"
RAW = TALK["claude"] + b'{"odd": "' + CONTROL + b'"}\n'


def check_drives_nothing(shown: str) -> None:
    """No control or format character but line ends."""
    assert "?[2J" in shown and not [c for c in shown if not c.isprintable() and c not in "\n\t"], shown


@pytest.mark.full
def test_export_to_a_terminal_is_refused(repo: Sandbox, tmp_path: Path) -> None:
    talk(repo, "claude", RAW)
    code, shown = on_terminal(repo, "transcript", "export", "claude")
    assert code == 129 and shown == (
        "fatal: export writes bytes as they are, and this is a terminal\n"
        "hint: '-o FILE' writes them into a new file\nhint: 'git baton transcript show claude' shows what was said\n"
    )
    assert on_terminal(repo, "transcript", "export", "-o", str(tmp_path / "out"), "claude") == (0, "")
    assert (tmp_path / "out").read_bytes() == RAW
    assert repo.ok("transcript", "export", "claude").out.encode("utf-8", "surrogateescape") == RAW


@pytest.mark.full
@some("pager", ["cat", "cat >&1"])
def test_what_is_shown_is_plain_with_a_pager_and_without(repo: Sandbox, pager: str) -> None:
    talk(repo, "claude", RAW)
    for words in (("--no-pager",), ()):
        code, shown = on_terminal(repo, *words, "transcript", "show", "--json", "claude", env={"GIT_PAGER": pager})
        assert code == 0
        check_drives_nothing(shown)
    done = repo.ok("transcript", "show", "--json", "claude", env={"GIT_PAGER_IN_USE": "true"})
    check_drives_nothing(done.out)
    assert repo.ok("transcript", "show", "--json", "claude").out.encode("utf-8", "surrogateescape") == RAW


NAMES = (
    b"a b",
    b"\x1b[2J\x07",
    b"it's \\033 \x7f",
    "\u202ebidi\u2028 \u00fc\U0001f600".encode(),
    b"\x1b\xff1",
    b"$(id)`id`",
)


@some("name", NAMES, 2, share=0)
def test_the_line_that_resumes_names_any_directory(tmp_path: Path, name: bytes) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    os.mkdir(place)
    box = Sandbox.init(Path(place))
    box.commit("first")
    talk(box, "claude")
    done = box.run("git", "baton", "--repo-root", place, "restore", "--conversation-only", "claude", cwd=tmp_path)
    line = next(row for row in done.out.split("\n") if row.startswith("resume it with: ")).removeprefix("resume it with: ")
    assert not [c for c in line if not c.isprintable()], line
    shell = "claude() { pwd; printf '%s\\n' \"$@\"; }; "
    out = subprocess.run(["bash", "-c", shell + line], cwd=tmp_path, capture_output=True, check=True).stdout
    assert out.startswith(os.fsencode(os.path.realpath(place)) + b"\n--resume\n")


@pytest.mark.deep
def test_lines_that_are_left_out_are_told(repo: Sandbox) -> None:
    odd = b'{"n": 1e999}\n{"type": "user", "half\n'
    talk(repo, "claude", lines(CLAUDE[0]) + odd + lines(*CLAUDE[1:]))
    warning = "warning: 2 lines are left out: no JSON object that can be written again\n"
    there = sessions()
    for words in (("--conversation-only", "-n"), ("--conversation", "-n")):
        assert warning in repo.ok("restore", *words, "claude").err and sessions() == there
    assert warning in repo.ok("restore", "--conversation", "claude").err
    assert warning in repo.ok("restore", "--conversation-only", "--json", "claude").err
    path, _ = written(repo.ok("restore", "--conversation-only", "claude").out, "claude")
    assert len(path.read_bytes().splitlines()) == len(CLAUDE)
    assert all(isinstance(json.loads(row), dict) for row in path.read_bytes().splitlines())
    talk(repo, "claude")
    assert "left out" not in repo.ok("restore", "--conversation-only", "claude").err


def test_an_export_that_is_refused_reads_nothing(repo: Sandbox) -> None:
    assert "fatal: " in assert_wrote_nothing(repo, "transcript", "export", "nothing", code=2)
    code, shown = on_terminal(repo, "transcript", "export", "nothing")
    assert code == 129 and "this is a terminal" in shown
