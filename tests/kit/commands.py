"""A command of the user's run by a test, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from gitbaton.base.system.children import CommandResult, UserCommand, run
from gitbaton.base.system.groups import ChildProcess

# Runs a command of its arguments as a process of its own, and leaves what came of it in a file.
DRIVER = """
import json, os, sys
from gitbaton.base.system.children import UserCommand, run
options = json.loads(sys.argv[2])
print(os.getpid(), file=open(sys.argv[1] + ".driver", "w"))
def started(child):
    with open(sys.argv[1] + ".begun", "w") as file:
        print(child.word, child.pid, child.mark, file=file)
    os.rename(sys.argv[1] + ".begun", sys.argv[1] + ".child")  # whoever kills this process reads it whole
    if options.get("die") == ("started" if child.pid else "before"):
        os.kill(os.getpid(), 9)
made = {k: v for k, v in options.items() if k != "die"}
ended = run(UserCommand(argv=tuple(sys.argv[3:]), cwd=os.getcwd(), env=dict(os.environ), **made), started=started)
with open(sys.argv[1] + ".new", "w") as file:
    json.dump([ended.exit, ended.signal, ended.timeout, ended.interrupted, ended.out.decode()], file)
os.rename(sys.argv[1] + ".new", sys.argv[1])
"""


def sh(line: str, cwd: Path, **fields: Any) -> UserCommand:
    """A shell line as a command."""
    env = fields.pop("env", dict(os.environ))
    return UserCommand(argv=("sh", "-c", line), cwd=str(cwd), env=env, **fields)


def ran(command: UserCommand, **options: Any) -> CommandResult:
    """A command run to its end."""
    return run(command, started=options.pop("started", lambda _child: None), **options)


def driver(result: Path, *argv: str, **options: Any) -> list[str]:
    """The command line of a process that runs a command and leaves what came of it in ``result``."""
    return [sys.executable, "-c", DRIVER, str(result), json.dumps(options), *argv]


def noted(result: Path) -> ChildProcess:
    """The child that the driver noted last."""
    word, pid, *mark = result.with_suffix(".child").read_text().split()
    return ChildProcess(word=word, pid=int(pid), mark="".join(mark))


def until(condition: Any, seconds: float = 60.0) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def runs(path: Path) -> bool:
    """Whether the process that wrote its number into a file still runs."""
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    try:
        return "\nState:\tZ" not in Path(f"/proc/{int(path.read_text())}/status").read_text()
    except OSError:
        return False


def sweep(folder: Path) -> None:
    """End what wrote its process id into a ``*.pid`` there."""
    for file in folder.glob("*.pid"):
        if runs(file):
            os.kill(int(file.read_text()), signal.SIGKILL)
