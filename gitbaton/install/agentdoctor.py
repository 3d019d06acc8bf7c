"""Whether the hooks of coding agents would run: in place and current, git-baton found, trusted, and only once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitbaton.agents.client import Installed, folder
from gitbaton.agents.settings import Document, MalformedError
from gitbaton.errors import BatonError, GitTimeoutError
from gitbaton.git.questions import everywhere
from gitbaton.install import codex
from gitbaton.install.levels import EVERYWHERE, ONLY_USED, UNHEEDED, Place, Row, doubled, program, rows, shown
from gitbaton.install.plan import read
from gitbaton.model import DoctorFinding
from gitbaton.system.process import begin
from gitbaton.values import replace

SECONDS = 5.0
_FIND = "command -v git-baton && { git-baton --version >/dev/null 2>&1 && echo runs; true; }"


def examine(places: Iterable[Place], cwd: str) -> list[DoctorFinding]:
    """Every check, for a client started in ``cwd``. Only looks."""
    known = {where.level: where for where in places}
    found = rows(known.values())
    there = [row for row in found if row.state != "not installed"]
    result = [_path(next(iter(known.values())).env)]
    if not there:
        result.append(DoctorFinding(name="agents", ok=True, text="none is installed: git baton agent install AGENT"))
    root = known["project"].root if "project" in known else None
    for row in there:
        result += _row(row, known[row.level], root, cwd)
        if row.level == "project" and not row.client.upward:
            result += _start(row, known[row.level], found, cwd)
    twice = doubled(found)
    return [
        *result,
        *(DoctorFinding(name="levels", ok=False, text=text, mend=text.rpartition("keep one: ")[2]) for text in twice),
    ]


def _path(env: Mapping[str, str]) -> DoctorFinding:
    """Whether a shell that is no login shell finds our program, and it runs."""
    mend = "put it on the PATH that your clients are started with"
    try:
        said = begin(["sh", "-c", _FIND], env, SECONDS).finish()
    except BatonError as error:
        late = isinstance(error, GitTimeoutError)
        text = "'sh' did not end in its time and was stopped" if late else error.message
        return DoctorFinding(name="path", ok=False, text=text, mend=mend)
    where, *runs = (os.fsdecode(said.out) if said.code == 0 else "\n").splitlines()
    if not where:
        return DoctorFinding(
            name="path", ok=False, text="a shell does not find git-baton, so every hook stays silent", mend=mend
        )
    text = f"a shell finds git-baton, '{where}'"
    if not runs:
        again = "install gitbaton again, or put one that runs before it on PATH"
        return DoctorFinding(name="path", ok=False, text=f"{text}, which does not run, so every hook stays silent", mend=again)
    if sys.prefix != sys.base_prefix and os.path.dirname(where) == os.path.join(sys.prefix, "bin"):
        text += "; it is in a virtual environment, and found only where that one is on PATH"
    return DoctorFinding(name="path", ok=True, text=text)


def _row(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[DoctorFinding]:
    """One client at one level; ``root``: the work tree's, whatever the level."""
    name = f"{row.client.name} {row.level}"
    if row.state == "unreadable":
        yield DoctorFinding(name=name, ok=False, text=row.reason, mend="mend the file")
        return
    several = " --track NAME" if len(row.tracks) > 1 else ""
    line = f"git baton agent install {row.client.name} --{row.level}{several}"
    if row.state == "outdated":
        text = f"'{row.file}' is not as this version writes it"
        text += f": it lacks {' and '.join(row.lacks)}" if row.lacks else ""
        yield DoctorFinding(name=name, ok=False, text=text, mend=line)
    else:
        yield DoctorFinding(name=name, ok=True, text=f"in place in '{row.file}'")
    if program(row.client, where.env) is None:
        text = f"'{row.client.programs[0]}' is not on PATH, so nothing calls these hooks from here"
        yield DoctorFinding(name=f"{name} program", ok=False, text=text, mend=f"install {row.client.title}, or put it on PATH")
    if row.level == "user":
        on, unheeded = everywhere(root)
        text = "baton.everywhere is true: it acts in every repository"
        if not on:
            text = f"such hooks {ONLY_USED}; '{EVERYWHERE}' lets them act in every one"
        if unheeded and not on:
            text += f"; {UNHEEDED}"
        yield DoctorFinding(
            name=f"{name} reach", ok=on or not unheeded, text=text, mend=EVERYWHERE if unheeded and not on else ""
        )
    found = _codex(row, where, cwd) if row.client.name == "codex" else row.client.doubts(_installed(row, where, root))
    for finding in found:
        yield replace(finding, name=f"{name} {finding.name}")


def _start(row: Row, where: Place, found: list[Row], cwd: str) -> Iterator[DoctorFinding]:
    """A client that looks for its file in the directory it is started in."""
    other = any(r.client == row.client and r.level == "user" and r.state == "installed" for r in found)
    root = os.path.realpath(where.root or "")
    if other or not os.path.realpath(cwd).startswith(os.path.join(root, "")):
        return
    text = f"started in this subdirectory, {row.client.title} does not see '{row.file}'"
    mend = f"start it in '{root}', or: git baton agent install {row.client.name} --user"
    yield DoctorFinding(name=f"{row.client.name} start", ok=False, text=text, mend=mend)


def _settings(path: str) -> dict[str, Any]:
    """The settings of a client; nothing where they cannot be read."""
    try:
        document = Document((read(path) or b"").decode("utf-8"), comments=True)
        data = document.plain(document.root) if document.root is not None else {}
    except (ValueError, MalformedError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _installed(row: Row, where: Place, root: str | None) -> Installed:
    """Our hooks of a client at a level, as its own module asks of them; ``root``: the work tree's, whatever the level."""
    return Installed(
        project=where.root,
        tree=root,
        home=os.path.abspath(folder(row.client, where.env)),
        env=where.env,
        names=row.names,
        settings=_settings,
        shown=lambda path: shown(where, path),
        holds=_covers,
    )


def _codex(row: Row, where: Place, cwd: str) -> Iterator[DoctorFinding]:
    found = program(row.client, where.env)
    if found is None:
        return  # said already
    wanted = codex.wanted(row.client, row.tracks[0] if row.tracks else None)
    of = codex.Question(program=found, env=where.env, cwd=where.root or cwd, path=row.path, wanted=wanted)
    try:
        listed = codex.asked(of)
    except BatonError as error:
        yield DoctorFinding(name="trust", ok=False, text=f"cannot be asked: {error.message}", mend="codex app-server")
        return
    open_ones = [item for item in listed if item.status not in codex.TRUSTED]
    line = f"git baton agent install codex --{row.level} --trust"
    if len(listed) < len(wanted) and where.root is not None:
        text = f"codex lists {len(listed)} of our {len(wanted)} hooks: it does not trust this project"
        yield DoctorFinding(name="trust", ok=False, text=text, mend=f"start codex in '{where.root}' and accept; then: {line}")
    elif open_ones or len(listed) < len(wanted):
        text = f"codex trusts {len(listed) - len(open_ones)} of our {len(wanted)} hooks, and runs no other"
        yield DoctorFinding(name="trust", ok=False, text=text, mend=line)
    else:
        yield DoctorFinding(name="trust", ok=True, text=f"codex trusts our {len(wanted)} hooks")


def _covers(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return os.path.realpath(root) == real or os.path.realpath(root).startswith(os.path.join(real, ""))
