"""Conversion lookup: which paths git converts on checkout, by attributes and core.autocrlf."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from gitbaton.git.repo import Repo
from gitbaton.git.run import Git, zsplit
from gitbaton.system.files import open_file

_ATTRIBUTES = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")
_PLAIN = ("unspecified", "unset")
_OFF = ("false", "no", "off", "0", "")
_CHUNK = 1 << 20


def may_convert(repo: Repo, root: str, paths: Collection[str], git: Git | None = None) -> list[str]:
    """Those of ``paths`` whose bytes on disk git may change on the way in or out; the rest come back as they are.

    No process is started where neither attributes nor core.autocrlf are in play. ``git`` says which index counts.
    """
    auto = _setting(repo, "core.autocrlf") not in _OFF
    if not paths or not (auto or _has_attributes(repo, root, paths)):
        return []
    asked = git or repo.git
    stdin = b"".join(os.fsencode(p) + b"\0" for p in dict.fromkeys(paths))
    fields = zsplit(asked.out("check-attr", "-z", "--stdin", *_ATTRIBUTES, stdin=stdin))
    width = 3 * len(_ATTRIBUTES)  # path, name, value
    crlf = _setting(repo, "core.autocrlf") not in (*_OFF, "input") or _setting(repo, "core.eol") == "crlf"
    found = []
    for at in range(0, len(fields), width):
        path, attributes = fields[at], dict(zip(_ATTRIBUTES, fields[at + 2 : at + width : 3], strict=True))
        kind = _conversion(attributes, auto=auto)
        if kind == "any" or (kind == "eol" and (crlf or attributes["eol"] == "crlf" or _has_return(root, path))):
            found.append(path)
    return found


def _conversion(attributes: Mapping[str, str], *, auto: bool) -> str:
    """What may happen to a file: ``any`` conversion, only one of line ends (``eol``), or none."""
    driver, encoding = attributes["filter"], attributes["working-tree-encoding"]
    if attributes["ident"] == "set" or driver not in (*_PLAIN, "set") or encoding not in _PLAIN:
        return "any"
    text = attributes["text"] if attributes["text"] != "unspecified" else attributes["crlf"]
    if text == "unset":
        return ""
    return "eol" if auto or text != "unspecified" or attributes["eol"] not in _PLAIN else ""


def _setting(repo: Repo, key: str) -> str:
    return repo.settings().get(key, [""])[-1].lower()


def _has_return(root: str, path: str) -> bool:
    """Whether a file has a carriage return, without which a checkout with plain line feeds has nothing to convert."""
    fd = open_file(root, path)
    if fd is None:
        return True
    with open(fd, "rb", buffering=0) as file:
        return any(b"\r" in chunk for chunk in iter(lambda: file.read(_CHUNK), b""))


def _has_attributes(repo: Repo, root: str, paths: Collection[str]) -> bool:
    """Whether any attributes file may speak of ``paths``: one on disk, or one that only a tree or a sparse index holds."""
    env, settings = repo.git.env, repo.settings()
    if any(settings.get(key, [""])[-1] for key in ("core.attributesfile", "attr.tree")) or env.get("GIT_ATTR_SOURCE"):
        return True
    if repo.boolean("core.sparsecheckout"):
        return True
    if any(p.endswith(".gitattributes") for p in paths):
        return True
    home, config = env.get("HOME", ""), env.get("XDG_CONFIG_HOME", "")
    places = [os.path.join(repo.layout.common_dir, "info", "attributes")]
    places.append(os.path.join(config or os.path.join(home, ".config"), "git", "attributes"))
    places += () if env.get("GIT_ATTR_NOSYSTEM", "").lower() not in _OFF else _system(env.get("PATH", os.defpath))
    folders = {""}
    for path in paths:
        folder = os.path.dirname(path)
        while folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    places += (os.path.join(root, folder, ".gitattributes") for folder in folders)
    return any(os.path.lexists(place) for place in places)


def _system(search: str) -> list[str]:
    """Where the git that is on PATH may keep the system's attributes."""
    places = ["/etc/gitattributes"]
    program = next((p for folder in search.split(os.pathsep) if os.access(p := os.path.join(folder, "git"), os.X_OK)), None)
    for name in {program, os.path.realpath(program)} if program else ():
        prefix = os.path.dirname(os.path.dirname(name))
        places += [os.path.join(prefix, "etc", "gitattributes"), os.path.join(prefix, "share", "git-core", "gitattributes")]
    return places


def filters(git: Git, paths: Sequence[str]) -> dict[str, str]:
    """The filter that each of ``paths`` goes through, if it has one."""
    stdin = b"".join(os.fsencode(p) + b"\0" for p in paths)
    fields = zsplit(git.out("check-attr", "-z", "--stdin", "filter", stdin=stdin)) if paths else []
    pairs = zip(fields[0::3], fields[2::3], strict=True)
    return {path: name for path, name in pairs if name not in ("unspecified", "unset", "set")}
