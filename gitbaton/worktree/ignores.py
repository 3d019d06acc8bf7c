"""Ignore rules of a tree: which paths its ``.gitignore`` files and the rules outside of trees cover."""

from __future__ import annotations

import os

from gitbaton.git.objects import lookup
from gitbaton.git.repo import Repo
from gitbaton.git.run import checked, zsplit
from gitbaton.model import Oid


def ignored_by(repo: Repo, folder: str, tree: Oid, paths: list[str]) -> set[str]:
    """Those of the paths that the ``.gitignore`` files of a tree cover, or ``info/exclude`` and ``core.excludesFile``.

    The rules are laid out in an empty work tree below ``folder``; nothing else is read from the real one. Raises GitError.
    """
    place = os.path.join(folder, "ignores")
    os.makedirs(place, exist_ok=True)
    for directory in sorted({above for path in paths for above in _folders(path)}):
        name = f"{directory}/.gitignore" if directory else ".gitignore"
        entry = lookup(repo.objects, tree, os.fsencode(name))
        found = repo.objects.read(entry.oid, 64 << 20) if entry is not None and entry.mode[:3] == b"100" else None
        if found is not None and found.data is not None:
            os.makedirs(os.path.join(place, directory), exist_ok=True)
            with open(os.path.join(place, name), "wb") as file:
                file.write(found.data)
    env = {"GIT_DIR": repo.layout.git_dir, "GIT_WORK_TREE": place, "GIT_INDEX_FILE": os.path.join(folder, "no-index")}
    git = repo.git.changed(env, directory=place)
    stdin = b"".join(b"./" + os.fsencode(path) + b"\0" for path in paths)
    result = git.run("check-ignore", "--no-index", "-z", "--stdin", stdin=stdin)
    if result.code not in (0, 1):
        checked(result, "check-ignore")
    return {path[2:] for path in zsplit(result.out)}


def _folders(path: str) -> list[str]:
    """The top and every directory above a path."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:n]) for n in range(len(parts) + 1)]
