"""Write files: swapped in one by one where possible, else by git's checkout of a private index."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType

from gitbaton.codec import in_quotes
from gitbaton.errors import GitError, PathError, StaleError
from gitbaton.git.gone import unreadable
from gitbaton.git.objects import Objects, lookup
from gitbaton.model import Oid
from gitbaton.restore.intent import reached
from gitbaton.restore.scene import Scene
from gitbaton.store import Store
from gitbaton.system.files import READ, Signature, umask
from gitbaton.worktree.checkout import Difference, changed_tree, check_out, refuse_remains
from gitbaton.worktree.conversion import Conversion
from gitbaton.worktree.filetrees import parents
from gitbaton.worktree.gate import has_links
from gitbaton.worktree.heldbytes import HeldOid, HeldStore, read_held
from gitbaton.worktree.modes import NOTHING, Folders, Modes, Permits, give, without_list
from gitbaton.worktree.newfiles import make_link
from gitbaton.worktree.rawbytes import write_raw
from gitbaton.worktree.swap import look_at
from gitbaton.worktree.swapall import SwapAll, can_place


class Writing:
    """Differences to be brought into a work tree, and the tree that they lead to.

    ``raw`` are bytes that no filter gives back, by path; ``permits`` says which permissions what comes back gets; ``began`` is
    called before the first file changes; ``conversion`` says how files are checked out, where that is not as now, ``links``
    what becomes a symbolic link, whatever core.symlinks says.
    """

    def __init__(
        self,
        scene: Scene,
        tree: Oid,
        changing: Sequence[Difference],
        raw: Mapping[str, Oid | None],
        permits: Permits,
        began: Callable[[], None],
        conversion: Conversion | None = None,
        links: Collection[str] = (),
    ) -> None:
        self.scene, self.tree, self.changing, self.raw, self.began = scene, tree, changing, raw, began
        self.conversion, self.links = conversion, links if not has_links(scene.repo) else ()
        self.permits = permits
        store, root = scene.baton.store, scene.root
        self.swap: SwapAll | None = None
        if can_place(root, scene.folder, [d.path for d in changing]):
            kept = {path: functools.partial(raw_data, store, path, oid) for path, oid in raw.items() if oid}
            there = {d.path: d.then.oid for d in changing if d.then is not None and d.path in self.links}
            kept |= {path: functools.partial(raw_data, store, path, oid) for path, oid in there.items()}
            git = conversion.git if conversion is not None else None
            self.swap = SwapAll(scene.index, root, scene.folder, scene.marks, kept, began, scene.modes, permits, git)
            self.swap.keep += scene.folders

    def start(self) -> None:
        """Begin what can be done before the first file changes."""
        if self.swap is not None:
            self.swap.start(self.tree, self.changing)

    def stop(self) -> None:
        """End what was begun and is not wanted."""
        if self.swap is not None:
            self.swap.stop()

    def run(self) -> list[str]:
        """Write; what git said comes back. Raises StaleError, PathError, GitError; files may then be on either side."""
        if self.swap is not None:
            return self.swap.run(self.tree, self.changing)
        return self._overwrite()

    def _overwrite(self) -> list[str]:
        """Where nothing can be moved aside, as across file systems: git writes over what it has looked at."""
        scene, raw = self.scene, dict(self.raw)
        store, root = scene.baton.store, scene.root
        if self.conversion is not None:  # git itself knows the attributes of the tree, and not what else counted then
            raw = {d.path: raw.get(d.path) for d in self.changing if d.then is not None and d.then.mode[:3] == "100"}
        scene.refuse_touched()
        modes, folders = self._modes(), Folders(root, self.permits)
        made = {f for d in self.changing if d.then for f in parents(d.path) if not os.path.isdir(os.path.join(root, f))}
        most = {f"{folder}/": 0o777 & ~umask() & self.permits.most.most(f"{folder}/") for folder in made}
        private = any(mode & 0o044 != 0o044 & ~umask() for mode in (*modes.values(), *most.values()))
        self.began()
        with folders.entered({d.path: d.then is not None for d in self.changing}):
            # No filter has a say in these.
            apart = {d.path: d.now for d in self.changing if isinstance(raw.get(d.path), HeldOid)}
            goal = changed_tree(scene.index, apart, self.tree) if apart else self.tree
            try:
                said = list(check_out(scene.index, scene.tree, goal, private=private))
            except (PathError, StaleError):
                raise
            except GitError:
                refuse_torn(store.objects, self.changing)
                raise
            refuse_remains(root, {d.path: d.then for d in self.changing if d.path not in apart})
            for d in self.changing:
                if d.then is not None and d.path in self.links:
                    make_link(root, d.path, raw_data(store, d.path, d.then.oid))
            same = {d.path for d in self.changing if d.now == d.then}
            marks = {path: scene.marks[path] if path in same else look_at(os.path.join(root, path)) for path in raw}
            put_raw(store, root, self.tree, raw, marks=marks, most=self.permits.most, conversions=[self.conversion])
            give(root, {**modes, **most})
        return said

    def _modes(self) -> dict[str, int]:
        """The permissions of the regular files that come: git makes new ones, readable as the umask says."""
        found = {}
        for d in self.changing:
            if d.then is not None and d.then.mode.startswith("100"):
                seen = self.scene.marks.get(d.path)
                old = seen[4] if seen is not None else self.scene.modes.get(d.path, 0)
                new = (0o777 if d.then.mode == "100755" else 0o666) & ~umask()
                found[d.path] = self.permits.file(d.path, without_list(os.path.join(self.scene.root, d.path), old), new)
        return found


def refuse_torn(objects: Objects, changing: Sequence[Difference], raw: Mapping[str, Oid | None] = MappingProxyType({})) -> None:
    """Raise PathError that names the paths of which an object, then or now, cannot be read to its end."""
    ends = [(d.path, end.oid) for d in changing for end in (d.now, d.then) if end is not None]
    ends += [(path, oid) for path, oid in raw.items() if oid is not None and not isinstance(oid, HeldOid)]
    bad = unreadable(objects, [oid for _, oid in ends])
    reasons = {path: bad[oid] for path, oid in ends if oid in bad}
    if reasons:
        path, why = next(iter(reasons.items()))
        raise PathError(f"{in_quotes(path)}: {why}", reasons=reasons)


def put_raw(
    store: Store,
    root: str,
    tree: Oid,
    raw: Mapping[str, Oid | None],
    *,
    known: Mapping[str, Sequence[Oid]] | None = None,
    marks: Mapping[str, Signature | None] | None = None,
    most: Modes = NOTHING,
    conversions: Sequence[Conversion | None] = (None,),
) -> None:
    """Write bytes that no filter gives back over what git checked out; None: what git would check out, by the first of the
    ``conversions`` (None: as now).

    Where ``marks`` tell what a file was just after the checkout, it must be that still; else it must hold what git checks out,
    by one of these, or one of ``known``; ``most``: the permissions of what is new. Raises StaleError where it does not,
    GitError.
    """
    for path, oid in raw.items():
        entry = lookup(store.objects, tree, os.fsencode(path))
        if entry is None or not entry.mode.startswith(b"100"):
            continue
        data = raw_data(store, path, oid) if oid else _checked_out(store, path, entry.oid, conversions[0])
        if marks is not None:
            stands = look_at(os.path.join(root, path)) == marks.get(path)
        else:
            there = read_there(root, path)
            if there == data:
                continue
            others = known.get(path, ()) if known else ()
            stands = there is None and isinstance(oid, HeldOid)  # git was not asked to check it out
            stands = stands or any(there == raw_data(store, path, other) for other in others)
            stands = stands or any(there == _checked_out(store, path, entry.oid, way) for way in conversions)
        if not stands:
            raise StaleError(f"{in_quotes(path)} changed meanwhile")
        reached("raw")
        refused = write_raw(root, path, data, entry.mode.decode("ascii"), make=isinstance(oid, HeldOid), most=most)
        if refused:
            raise GitError(f"{in_quotes(path)}: {refused}")


def _checked_out(store: Store, path: str, oid: Oid, conversion: Conversion | None) -> bytes:
    """What a checkout makes of a blob. Raises GitError."""
    if conversion is not None:
        return conversion.content(path, oid)
    return store.repo.git.out("cat-file", "--filters", f"--path={path}", oid)


def read_there(root: str, path: str) -> bytes | None:
    """The bytes of a regular file; None where there is none."""
    try:
        with open(os.open(os.path.join(root, path), READ), "rb") as file:
            return file.read()
    except OSError:
        return None


def raw_data(store: Store, path: str, oid: Oid) -> bytes:
    """The exact bytes of a path, from the object or from where it says that they are kept. Raises GitError when they are
    gone."""
    if isinstance(oid, HeldOid):
        held = read_held(store.objects, oid)
        if held is None:
            raise GitError(f"{in_quotes(path)}: object {oid} does not say where its bytes are")
        return HeldStore(store.repo).read(path, held)
    found = store.objects.read(oid, 1 << 40)
    if found is None or found.kind != "blob" or found.data is None:
        raise GitError(f"{in_quotes(path)}: object {oid} cannot be read")
    return found.data
