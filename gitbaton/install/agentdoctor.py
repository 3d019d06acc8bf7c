"""Whether the hooks of coding agents would run: in place and current, git-baton found, trusted, and only once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitbaton.agents.client import folder
from gitbaton.agents.settings import Document, MalformedError
from gitbaton.errors import BatonError, GitTimeoutError
from gitbaton.git.questions import everywhere
from gitbaton.install import codex
from gitbaton.install.levels import EVERYWHERE, ONLY_USED, UNHEEDED, Place, Row, doubled, program, rows, shown
from gitbaton.install.plan import read
from gitbaton.model import Finding
from gitbaton.system.process import begin
from gitbaton.values import replace

SECONDS = 5.0
_FIND = "command -v git-baton && { git-baton --version >/dev/null 2>&1 && echo runs; true; }"


def examine(places: Iterable[Place], cwd: str) -> list[Finding]:
    """Every check, for a client started in ``cwd``. Only looks."""
    known = {where.level: where for where in places}
    found = rows(known.values())
    there = [row for row in found if row.state != "not installed"]
    result = [_path(next(iter(known.values())).env)]
    if not there:
        result.append(Finding(name="agents", ok=True, text="none is installed: git baton agent install AGENT"))
    root = known["project"].root if "project" in known else None
    for row in there:
        result += _row(row, known[row.level], root, cwd)
        if row.level == "project" and not row.client.upward:
            result += _start(row, known[row.level], found, cwd)
    twice = doubled(found)
    return [*result, *(Finding(name="levels", ok=False, text=text, mend=text.rpartition("keep one: ")[2]) for text in twice)]


def _path(env: Mapping[str, str]) -> Finding:
    """Whether a shell that is no login shell finds our program, and it runs."""
    mend = "put it on the PATH that your clients are started with"
    try:
        said = begin(["sh", "-c", _FIND], env, SECONDS).finish()
    except BatonError as error:
        late = isinstance(error, GitTimeoutError)
        text = "'sh' did not end in its time and was stopped" if late else error.message
        return Finding(name="path", ok=False, text=text, mend=mend)
    where, *runs = (os.fsdecode(said.out) if said.code == 0 else "\n").splitlines()
    if not where:
        return Finding(name="path", ok=False, text="a shell does not find git-baton, so every hook stays silent", mend=mend)
    text = f"a shell finds git-baton, '{where}'"
    if not runs:
        again = "install gitbaton again, or put one that runs before it on PATH"
        return Finding(name="path", ok=False, text=f"{text}, which does not run, so every hook stays silent", mend=again)
    if sys.prefix != sys.base_prefix and os.path.dirname(where) == os.path.join(sys.prefix, "bin"):
        text += "; it is in a virtual environment, and found only where that one is on PATH"
    return Finding(name="path", ok=True, text=text)


def _row(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[Finding]:
    """One client at one level; ``root``: the work tree's, whatever the level."""
    name = f"{row.client.name} {row.level}"
    if row.state == "unreadable":
        yield Finding(name=name, ok=False, text=row.reason, mend="mend the file")
        return
    several = " --track NAME" if len(row.tracks) > 1 else ""
    line = f"git baton agent install {row.client.name} --{row.level}{several}"
    if row.state == "outdated":
        yield Finding(name=name, ok=False, text=f"'{row.file}' is not as this version writes it", mend=line)
    else:
        yield Finding(name=name, ok=True, text=f"in place in '{row.file}'")
    if program(row.client, where.env) is None:
        text = f"'{row.client.programs[0]}' is not on PATH, so nothing calls these hooks from here"
        yield Finding(name=f"{name} program", ok=False, text=text, mend=f"install {row.client.title}, or put it on PATH")
    if row.level == "user":
        on, unheeded = everywhere(root)
        text = "baton.everywhere is true: it acts in every repository"
        if not on:
            text = f"such hooks {ONLY_USED}; '{EVERYWHERE}' lets them act in every one"
        if unheeded and not on:
            text += f"; {UNHEEDED}"
        yield Finding(name=f"{name} reach", ok=on or not unheeded, text=text, mend=EVERYWHERE if unheeded and not on else "")
    asks = {"claude": _claude, "codex": _codex, "gemini": _gemini, "copilot": _copilot}.get(row.client.name)
    for finding in asks(row, where, root, cwd) if asks else ():
        yield replace(finding, name=f"{name} {finding.name}")


def _start(row: Row, where: Place, found: list[Row], cwd: str) -> Iterator[Finding]:
    """A client that looks for its file in the directory it is started in."""
    other = any(r.client == row.client and r.level == "user" and r.state == "installed" for r in found)
    root = os.path.realpath(where.root or "")
    if other or not os.path.realpath(cwd).startswith(os.path.join(root, "")):
        return
    text = f"started in this subdirectory, {row.client.title} does not see '{row.file}'"
    mend = f"start it in '{root}', or: git baton agent install {row.client.name} --user"
    yield Finding(name=f"{row.client.name} start", ok=False, text=text, mend=mend)


def _settings(path: str) -> dict[str, Any]:
    """The settings of a client; nothing where they cannot be read."""
    try:
        document = Document((read(path) or b"").decode("utf-8"), comments=True)
        data = document.plain(document.root) if document.root is not None else {}
    except (ValueError, MalformedError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _layers(row: Row, where: Place, root: str | None, *names: str) -> list[tuple[str, dict[str, Any]]]:
    """The settings that a client reads, each with its path: those of the work tree (``names``) before the user's."""
    home = os.path.join(os.path.abspath(folder(row.client, where.env)), "settings.json")
    paths = [*(os.path.join(root, name) for name in names if root is not None), home]
    return [(path, _settings(path)) for path in dict.fromkeys(paths)]


def _said(layers: list[tuple[str, dict[str, Any]]], *keys: str) -> tuple[str, object]:
    """What the first of the settings says that says anything of a switch, and where."""
    found = ((path, _inner(data, *keys)) for path, data in layers)
    return next(((path, on) for path, on in found if isinstance(on, bool)), ("", None))


def _claude(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[Finding]:
    layers = _layers(row, where, root, ".claude/settings.local.json", ".claude/settings.json")
    path, off = _said(layers, "disableAllHooks")
    if off is True:
        text = f"'disableAllHooks' in '{shown(where, path)}' switches every hook off"
        yield Finding(name="hooks", ok=False, text=text, mend="take that setting out")


def _codex(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[Finding]:
    found = program(row.client, where.env)
    if found is None:
        return  # said already
    wanted = codex.wanted(row.client, row.tracks[0] if row.tracks else None)
    of = codex.Question(program=found, env=where.env, cwd=where.root or cwd, path=row.path, wanted=wanted)
    try:
        listed = codex.asked(of)
    except BatonError as error:
        yield Finding(name="trust", ok=False, text=f"cannot be asked: {error.message}", mend="codex app-server")
        return
    open_ones = [item for item in listed if item.status not in codex.TRUSTED]
    line = f"git baton agent install codex --{row.level} --trust"
    if len(listed) < len(wanted) and where.root is not None:
        text = f"codex lists {len(listed)} of our {len(wanted)} hooks: it does not trust this project"
        yield Finding(name="trust", ok=False, text=text, mend=f"start codex in '{where.root}' and accept; then: {line}")
    elif open_ones or len(listed) < len(wanted):
        text = f"codex trusts {len(listed) - len(open_ones)} of our {len(wanted)} hooks, and runs no other"
        yield Finding(name="trust", ok=False, text=text, mend=line)
    else:
        yield Finding(name="trust", ok=True, text=f"codex trusts our {len(wanted)} hooks")


def _gemini(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[Finding]:
    home, layers = os.path.abspath(folder(row.client, where.env)), _layers(row, where, root, row.client.project)
    path, on = _said(layers, "hooksConfig", "enabled")
    if on is False:
        text = f"'hooksConfig.enabled' is false in '{shown(where, path)}', so no hook runs"
        yield Finding(name="hooks", ok=False, text=text, mend="take that setting out")
    off = [name for _, data in layers for name in _list(_inner(data, "hooksConfig", "disabled")) if name in row.names]
    if off:
        text = f"'hooksConfig.disabled' names {', '.join(dict.fromkeys(off))}"
        yield Finding(name="hooks", ok=False, text=text, mend="gemini, then /hooks enable")
    unasked = _inner(layers[-1][1], "security", "folderTrust", "enabled") is False
    if where.root is None or unasked or where.env.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        return
    rules = _settings(where.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(home, "trustedFolders.json"))
    covered = {path: os.path.dirname(path) if level == "TRUST_PARENT" else path for path, level in rules.items()}
    longest = max((path for path in rules if _covers(covered[path], where.root)), key=len, default=None)
    trusted = longest is not None and rules[longest] in ("TRUST_FOLDER", "TRUST_PARENT")
    yield _trusted(trusted, "gemini", where.root)


def _copilot(row: Row, where: Place, root: str | None, cwd: str) -> Iterator[Finding]:
    if where.root is None or where.env.get("COPILOT_ALLOW_ALL") == "true":
        return
    home, root = os.path.abspath(folder(row.client, where.env)), where.root
    named = [_settings(os.path.join(home, name)) for name in ("config.json", "settings.json")]
    folders = [f for data in named for key in ("trustedFolders", "trusted_folders") for f in _list(data.get(key))]
    yield _trusted(any(_covers(path, root) for path in folders), "copilot", root)


def _trusted(yes: bool, agent: str, root: str) -> Finding:
    if yes:
        return Finding(name="trust", ok=True, text=f"{agent} trusts this folder")
    text = f"{agent} does not trust this folder yet, and runs no hook of it"
    return Finding(name="trust", ok=False, text=text, mend=f"start {agent} in '{root}' and accept")


def _covers(path: str, root: str) -> bool:
    real = os.path.realpath(path)
    return os.path.realpath(root) == real or os.path.realpath(root).startswith(os.path.join(real, ""))


def _inner(data: object, *keys: str) -> object:
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def _list(data: object) -> list[str]:
    return [item for item in data if isinstance(item, str)] if isinstance(data, list) else []
