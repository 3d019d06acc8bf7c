"""Staged files in front of the filter gate: what ``git add`` stored as it was, because a filter that is not required does not
run. Nobody has committed it, so git has not published it either."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress

from gitbaton.errors import GitError
from gitbaton.git.objects import NewObject, Objects, lookup, new_object, parse_commit
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.system.files import memory_file
from gitbaton.values import value
from gitbaton.worktree.gate import gated, has_attributes, may_have_attributes, requiring
from gitbaton.worktree.heldbytes import HeldOid, HeldStore, read_held
from gitbaton.worktree.index import Facts, PrivateIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.worktree.checkout import Entry

ROOM = "held-index"  # beside the stages: stand-ins for entries of the index


@value
class Doubtful:
    """A staged file that its filter may not have made: ``staged`` is its entry, ``committed`` HEAD's, ``driver`` the filter."""

    staged: Entry
    committed: Entry | None
    driver: str


def doubtful(index: PrivateIndex, facts: Facts, root: str, untracked: Collection[str]) -> dict[str, Doubtful]:
    """The staged files that differ from HEAD, and from a commit that is just being merged or picked, and stand behind a filter
    that does not run now. Asks git only where something is staged and filters may be in play. Raises GitError."""
    repo, head = index.repo, None
    with suppress(GitError):  # of a commit that cannot be read, nobody knows what it holds
        head = _tree(repo.objects, repo.objects.head().oid)
    if head == facts.tree:
        return {}
    deeper = any(path.endswith("/.gitattributes") for path in untracked) or may_have_attributes(repo)
    if not (deeper or has_attributes(repo, root, (), b"filter")):
        return {}
    from gitbaton.worktree.checkout import differences  # late: of most captures nothing is staged behind a filter

    base = head or new_object(repo.layout.algorithm, "tree", b"").oid
    if head is None:
        repo.objects.write([new_object(repo.layout.algorithm, "tree", b"")])
    staged = {d.path: d for d in differences(index.git, base, facts.tree) if d.then is not None and d.then.mode[:3] == "100"}
    behind = gated(repo, root, list(staged), index.git)
    dead = {name for name in set(behind.values()) if not _cleans(index, name, behind)}
    found = {
        p: Doubtful(staged=d.then, committed=d.now, driver=behind[p])
        for p, d in staged.items()
        if d.then and behind.get(p) in dead
    }
    operation = repo.operation() if found else None
    others = [_tree(repo.objects, oid) for _, oid in operation.refs] if operation is not None else []
    others += [_tree(repo.objects, operation.head)] if operation is not None else []
    return {path: d for path, d in found.items() if not any(_holds(repo.objects, tree, path, d.staged.oid) for tree in others)}


def _cleans(index: PrivateIndex, name: str, behind: Mapping[str, str]) -> bool:
    path = next(path for path, driver in behind.items() if driver == name)
    return requiring(index.git, (name,)).run("hash-object", "--stdin", f"--path={path}", stdin=b"").code == 0


def _tree(objects: Objects, commit: str | None) -> Oid | None:
    found = objects.read(commit) if commit else None
    return parse_commit(found.data).tree if found is not None and found.kind == "commit" and found.data else None


def _holds(objects: Objects, tree: Oid | None, path: str, oid: Oid) -> bool:
    entry = lookup(objects, tree, os.fsencode(path)) if tree is not None else None
    return entry is not None and entry.oid == oid


def without(index: PrivateIndex, facts: Facts, found: Mapping[str, Doubtful]) -> tuple[Facts, list[tuple[str, str, Oid]]]:
    """What the index says, with stand-ins for these files; and the stand-ins: path, mode and blob. The bytes are kept here.
    Raises GitError."""
    from gitbaton.worktree.checkout import Entry, changed_tree

    repo, store, texts = index.repo, HeldStore(index.repo), dict[str, NewObject]()
    for path, d in found.items():
        item = repo.objects.read(d.staged.oid, 1 << 40)
        if item is None or item.data is None:
            raise GitError(f"object {d.staged.oid} of the index cannot be read")
        fd = memory_file(item.data)
        try:
            held, _ = store.hold(path, fd, d.driver, cleaned=False)
        finally:
            os.close(fd)
        texts[path] = new_object(repo.layout.algorithm, "blob", held.text)
    repo.stow(list(texts.values()))
    entries = {path: Entry(mode=found[path].staged.mode, oid=text.oid) for path, text in texts.items()}
    tree = changed_tree(index, entries, facts.tree)
    return Facts(tree=tree, flags=facts.flags, stages=facts.stages, gitlinks=facts.gitlinks), [
        (path, entry.mode, entry.oid) for path, entry in entries.items()
    ]


def real_entry(repo: Repo, path: str, entry: Entry, held: Mapping[str, HeldOid]) -> Entry | None:
    """What an entry of a staged state stands for, written as git had it; itself where it stands for nothing, and None where the
    bytes are not here. Raises GitError."""
    if held.get(path) != entry.oid:
        return entry
    from gitbaton.worktree.checkout import Entry

    said, store = read_held(repo.objects, entry.oid), HeldStore(repo)
    if said is None or not store.has(said):
        return None
    blob = new_object(repo.layout.algorithm, "blob", store.read(path, said))
    repo.objects.write([blob])
    return Entry(mode=entry.mode, oid=blob.oid)
