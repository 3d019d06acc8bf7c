"""Tree contents at a few paths, and what changes there from one tree to the next."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gitbaton.errors import GitError, RecordError
from gitbaton.git.objects import is_oid, new_object, parse_tree
from gitbaton.git.treediff import TREES
from gitbaton.model import Oid
from gitbaton.store.read import Store

Step = tuple[Oid, Oid]  # two trees, before and after
Contents = dict[str, str]  # by path: ``mode id``; empty for an absent path
_FEW_PATHS = 500
_FEW_BYTES = 64 << 10  # of paths on a command line
_UNREADABLE = "?"  # a content that no path has


def nothing(store: Store) -> Oid:
    """The empty tree."""
    return new_object(store.objects.algorithm, "tree", b"").oid


def tree_of(store: Store, commit: Oid | None) -> Oid | None:
    """The tree of a commit; None where it cannot be read."""
    try:
        return store.tree_of(commit) if commit and is_oid(store.objects.algorithm, commit) else None
    except (GitError, RecordError):
        return None


def changes(store: Store, steps: Iterable[Step], wanted: Contents) -> dict[Step, Contents]:
    """What each step makes of the wanted paths that it changes, by one process."""
    ordered = sorted({step for step in steps if step[0] != step[1]})
    if not ordered:
        return {}
    specs = specs_of(wanted) or []
    stdin = "".join(f"{before} {after}\n" for before, after in ordered).encode()
    result = store.repo.git.run(*TREES, "--", *specs, stdin=stdin)
    found = _parsed(result.out, wanted) if result.code == 0 else {}
    # Git passes over a tree that is not there without failing.
    return found if len(found) == len(ordered) else _compared(store, ordered, wanted)


def specs_of(wanted: Contents) -> list[str] | None:
    """The wanted paths as words of a git command; None when they are too many for one."""
    small = len(wanted) <= _FEW_PATHS and sum(len(os.fsencode(p)) for p in wanted) <= _FEW_BYTES
    return [f":(top,literal){path}" for path in wanted] if small else None


def _parsed(out: bytes, wanted: Contents) -> dict[Step, Contents]:
    """``diff-tree -z``: a line with two trees, then records that begin with a colon and their paths."""
    found: dict[Step, Contents] = {}
    names = {os.fsencode(path): path for path in wanted}
    contents: Contents = {}
    at = 0
    while at < len(out):
        if out[at] != 0x3A:
            end = out.index(b"\n", at)
            before, after = out[at:end].decode("ascii").split(" ")
            contents = found[before, after] = {}
            at = end + 1
            continue
        middle = out.index(b"\0", at)
        end = out.index(b"\0", middle + 1)
        path = names.get(out[middle + 1 : end])
        if path is not None:
            _, mode, _, oid, _ = out[at:middle].decode("ascii").split(" ")
            contents[path] = "" if mode == "000000" else f"{mode} {oid}"
        at = end + 1
    return found


def _compared(store: Store, steps: Iterable[Step], wanted: Contents) -> dict[Step, Contents]:
    """As ``_parsed``, where git cannot read every tree: what lies behind an unreadable one has no content that counts."""
    trees: dict[Oid, dict[bytes, str] | None] = {nothing(store): {}}

    def entries(oid: Oid) -> dict[bytes, str] | None:
        if oid not in trees:
            try:
                found = store.objects.read(oid, 64 << 20)
                raw = found.data if found is not None and found.kind == "tree" else None
                rows = parse_tree(raw, store.objects.algorithm) if raw is not None else None
            except (GitError, RecordError):
                rows = None
            known = {e.name: f"{e.mode.decode('ascii', 'replace')} {e.oid}" for e in rows or ()}
            trees[oid] = known if rows is not None else None
        return trees[oid]

    def content(tree: Oid, path: str) -> str:
        *folders, name = os.fsencode(path).split(b"/")
        for folder in folders:
            rows = entries(tree)
            mode, _, tree = (rows or {}).get(folder, "").partition(" ")
            if mode != "40000":
                return "" if rows is not None else _UNREADABLE
        rows = entries(tree)
        found = (rows or {}).get(name, "")
        return _UNREADABLE if rows is None else "" if found.startswith("40000 ") else found

    found = {}
    for before, after in steps:
        pairs = ((path, content(before, path), content(after, path)) for path in wanted)
        found[before, after] = {path: new for path, old, new in pairs if new != old}
    return found
