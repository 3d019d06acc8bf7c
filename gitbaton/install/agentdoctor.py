"""Whether the hooks of coding agents would run: in place and current, git-baton found, trusted, and only once."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitbaton.agents.clients import folder
from gitbaton.agents.settings import Document, MalformedError
from gitbaton.errors import BatonError
from gitbaton.git.appserver import says
from gitbaton.git.hookfiles import read
from gitbaton.install import trust
from gitbaton.install.agents import Place, Row, doubled, program, rows
from gitbaton.values import value

SECONDS = 5.0


@value
class Finding:
    """One thing that was looked at. ``ok`` is False where something would not run; ``mend`` is the line that helps."""

    name: str
    ok: bool
    text: str
    mend: str = ""


def examine(places: Iterable[Place], cwd: str) -> list[Finding]:
    """Every check, for a client started in ``cwd``. Only looks."""
    known = {where.level: where for where in places}
    found = rows(known.values())
    there = [row for row in found if row.state != "not installed"]
    result = [_path(next(iter(known.values())).env)]
    if not there:
        result.append(Finding(name="agents", ok=True, text="none is installed: git baton agent install AGENT"))
    for row in there:
        result += _row(row, known[row.level], cwd)
        if row.level == "project" and not row.client.upward:
            result += _start(row, known[row.level], found, cwd)
    result += [Finding(name="levels", ok=False, text=text, mend=_keep_one(text)) for text in doubled(found)]
    return result


def _keep_one(text: str) -> str:
    return "git baton agent " + text.rpartition("keep one: ")[2]


def _path(env: Mapping[str, str]) -> Finding:
    """Whether a shell that is no login shell finds our program."""
    mend = "put it on the PATH that your clients are started with"
    try:
        where = (says(["sh", "-c", "command -v git-baton"], env, SECONDS) or "").strip()
    except BatonError as error:
        return Finding(name="path", ok=False, text=error.message, mend=mend)
    if not where:
        return Finding(name="path", ok=False, text="a shell does not find git-baton, so every hook stays silent", mend=mend)
    text = f"a shell finds git-baton, '{where}'"
    if sys.prefix != sys.base_prefix and os.path.dirname(where) == os.path.join(sys.prefix, "bin"):
        text += "; it is in a virtual environment, and found only where that one is on PATH"
    return Finding(name="path", ok=True, text=text)


def _row(row: Row, where: Place, cwd: str) -> Iterator[Finding]:
    """One client at one level."""
    name = f"{row.client.name} {row.level}"
    if row.state == "unreadable":
        yield Finding(name=name, ok=False, text=row.reason, mend="mend the file")
        return
    track = _words(row.tracks)
    line = f"git baton agent install {row.client.name} --{row.level}{track}"
    if row.state == "outdated":
        yield Finding(name=name, ok=False, text=f"'{row.file}' is not as this version writes it", mend=line)
    else:
        yield Finding(name=name, ok=True, text=f"in place in '{row.file}'")
    if program(row.client, where.env) is None:
        text = f"'{row.client.programs[0]}' is not on PATH, so nothing calls these hooks from here"
        yield Finding(name=f"{name} program", ok=True, text=text)
    checks = {"claude": _claude, "codex": _codex, "gemini": _gemini, "copilot": _copilot}
    check = checks.get(row.client.name)
    if check is not None:
        for finding in check(row, where, cwd):
            yield Finding(name=f"{name} {finding.name}", ok=finding.ok, text=finding.text, mend=finding.mend)


def _words(tracks: tuple[str | None, ...]) -> str:
    import shlex

    return f" --track {shlex.quote(tracks[0])}" if len(tracks) == 1 and tracks[0] is not None else ""


def _start(row: Row, where: Place, found: list[Row], cwd: str) -> Iterator[Finding]:
    """A client that looks for its file in the directory it is started in."""
    other = any(r.client == row.client and r.level == "user" and r.state == "installed" for r in found)
    root = os.path.realpath(where.root or "")
    if other or not os.path.realpath(cwd).startswith(os.path.join(root, "")):
        return
    text = f"started in this subdirectory, {row.client.title} does not see '{row.file}'"
    mend = f"start it in '{root}', or: git baton agent install {row.client.name} --user"
    yield Finding(name=f"{row.client.name} start", ok=False, text=text, mend=mend)


def _settings(path: str, *, comments: bool) -> dict[str, Any]:
    """The settings of a client; nothing where they cannot be read."""
    try:
        text = (read(path, limit=-1) or b"").decode("utf-8")
        document = Document(text, comments=comments)
        data = document.plain(document.root) if document.root is not None else {}
    except (ValueError, MalformedError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _claude(row: Row, where: Place, cwd: str) -> Iterator[Finding]:
    if _settings(row.path, comments=False).get("disableAllHooks") is True:
        text = f"'disableAllHooks' in '{row.file}' switches every hook off"
        yield Finding(name="hooks", ok=False, text=text, mend="take that setting out")


def _codex(row: Row, where: Place, cwd: str) -> Iterator[Finding]:
    codex = program(row.client, where.env)
    if codex is None:
        yield Finding(name="trust", ok=True, text="cannot be asked: codex is not on PATH")
        return
    wanted = trust.wanted(row.client, row.tracks[0] if row.tracks else None)
    try:
        listed = trust.asked(codex, where.env, where.root or cwd, row.path, wanted)
    except BatonError as error:
        yield Finding(name="trust", ok=False, text=f"cannot be asked: {error.message}", mend="codex app-server")
        return
    open_ones = [item for item in listed if item.status not in trust.TRUSTED]
    line = f"git baton agent install codex --{row.level}{_words(row.tracks)} --trust"
    if len(listed) < len(wanted) and where.root is not None:
        text = f"codex lists {len(listed)} of our {len(wanted)} hooks: it does not trust this project"
        yield Finding(name="trust", ok=False, text=text, mend=f"start codex in '{where.root}' and accept; then: {line}")
    elif open_ones or len(listed) < len(wanted):
        text = f"codex trusts {len(listed) - len(open_ones)} of our {len(wanted)} hooks, and runs no other"
        yield Finding(name="trust", ok=False, text=text, mend=line)
    else:
        yield Finding(name="trust", ok=True, text=f"codex trusts our {len(wanted)} hooks")


def _gemini(row: Row, where: Place, cwd: str) -> Iterator[Finding]:
    home = os.path.abspath(folder(row.client, where.env))
    named = [_settings(path, comments=True) for path in (os.path.join(home, "settings.json"), row.path)]
    if any(_inner(data, "hooksConfig", "enabled") is False for data in named):
        text = "'hooksConfig.enabled' is false, so no hook runs"
        yield Finding(name="hooks", ok=False, text=text, mend="take that setting out")
    off = [name for data in named for name in _list(_inner(data, "hooksConfig", "disabled")) if name.startswith("gitbaton-")]
    if off:
        text = f"'hooksConfig.disabled' names {', '.join(dict.fromkeys(off))}"
        yield Finding(name="hooks", ok=False, text=text, mend="gemini, then /hooks enable")
    unasked = _inner(named[0], "security", "folderTrust", "enabled") is False
    if where.root is None or unasked or where.env.get("GEMINI_CLI_TRUST_WORKSPACE") == "true":
        return
    path = where.env.get("GEMINI_CLI_TRUSTED_FOLDERS_PATH") or os.path.join(home, "trustedFolders.json")
    yield _trusted(_gemini_rule(_settings(path, comments=True), where.root) is True, "gemini", where.root)


def _gemini_rule(rules: dict[str, Any], root: str) -> bool | None:
    """What the longest rule that covers a folder says; None without one."""
    best, answer = -1, None
    for path, level in rules.items():
        covered = os.path.dirname(path) if level == "TRUST_PARENT" else path
        if len(path) > best and _covers(covered, root):
            best, answer = len(path), level in ("TRUST_FOLDER", "TRUST_PARENT")
    return answer


def _copilot(row: Row, where: Place, cwd: str) -> Iterator[Finding]:
    if where.root is None or where.env.get("COPILOT_ALLOW_ALL") == "true":
        return
    home, root = os.path.abspath(folder(row.client, where.env)), where.root
    named = [_settings(os.path.join(home, name), comments=True) for name in ("config.json", "settings.json")]
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
