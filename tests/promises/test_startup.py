"""Start-up: no verb imports more than it needs; each is looked at as it starts, with nothing imported before."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

from tests.kit import Sandbox
from tests.promises.test_house import OURS

ROOMS = {name.rpartition(".")[0] for name in OURS if name.count(".") > 1}
# What takes long to import, or belongs to few verbs.
DEAR = {
    *("typer", "click", "pydantic", "rich", "textual", "pygit2", "langgraph", "mcp", "asyncio", "dataclasses", "inspect"),
    *("difflib", "html", "http", "pathlib", "shutil", "socket", "ssl", "subprocess", "tempfile", "textwrap", "threading"),
    *(
        room
        for room in ROOMS
        if not room.endswith((".base", ".system", ".git", ".codec", ".checkpoints", ".store", ".care", ".cli", ".commands"))
    ),
    *(f"gitbaton.{name}" for name in ("cli.look", "cli.pages", "cli.usage", "git.remotes")),
}
WORDS = {"gitbaton.base.secrets"}
LISTED = {"gitbaton.cli.look"}
FOLDER = {"tempfile", "shutil"}  # the one imports the other
# A command line, and what of it is needed.
NEEDED: dict[str, set[str]] = {
    "": LISTED | {"gitbaton.runs", "gitbaton.git.worktree"},
    "resume": LISTED | {"gitbaton.runs"},
    "resume --porcelain": {"gitbaton.runs"},
    "verify": {"gitbaton.git.worktree"},
    "status": LISTED | {"gitbaton.git.worktree"},
    "statusline": LISTED,
    "log": LISTED,
    "tracks": LISTED,
    "show": LISTED | WORDS | {"gitbaton.care.tools"},
    "diff": FOLDER | {"gitbaton.care.tools", "gitbaton.git.worktree"},
    "snapshot -m two": WORDS | {"gitbaton.git.worktree"},
    "restore t~2": WORDS | {"gitbaton.checkpoints.restore", "gitbaton.git.worktree"},
    "pin t": LISTED | {"gitbaton.care.retention"},
    "summary": WORDS | {"gitbaton.care.scanning", "gitbaton.care.tools"},
    "page -o ../page.html": WORDS | {"gitbaton.care.scanning", "gitbaton.care.tools", "html"},
    "blame a.txt": LISTED | FOLDER | {"gitbaton.care.tools", "gitbaton.git.worktree"},
    "agent list": {"gitbaton.agents", "gitbaton.agents.install", "shutil"},
    "completion bash": set(),
    "complete show t": set(),
    "help verify": {"gitbaton.cli.pages", "textwrap"},
}
# Each line in a child of an interpreter that has imported nothing of ours.
LOOK = """
    import json, os, sys
    for line in json.loads(sys.argv[1]):
        reader, writer = os.pipe()
        if not os.fork():
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            sys.argv = ["git-baton", *line.split()]
            leave = os._exit
            os._exit = lambda code: (os.write(writer, json.dumps([code, *sys.modules]).encode()), leave(code))
            from gitbaton.cli.main import run
            run()
        os.close(writer)
        print(open(reader).read())
        os.wait()
"""


def imported(repo: Sandbox, lines: list[str]) -> dict[str, tuple[int, set[str]]]:
    """The exit status of command lines, and what each had imported at its end."""
    code = textwrap.dedent(LOOK)
    words = [sys.executable, "-c", code, json.dumps(lines)]
    told = subprocess.run(words, cwd=repo.path, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line: (found[0], set(found[1:])) for line, found in zip(lines, map(json.loads, told), strict=True)}


def test_no_verb_imports_more_than_it_needs(repo: Sandbox) -> None:
    for text in ("one\n", "two\n"):
        repo.write("a.txt", text)
        repo.ok("snapshot", "--track", "t", text.strip())
    found = imported(repo, list(NEEDED))
    assert {line: code for line, (code, _) in found.items() if code} == {}
    assert {line: names & DEAR for line, (_, names) in found.items()} == NEEDED
