"""Goals: what comes back into a work tree (files, index entries, exact bytes, permissions), wherever it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cached_property

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import MENDS, BatonError, RecordError
from gitbaton.base.model import KEPT, FileState, Oid, Op, Operation, Stored
from gitbaton.checkpoints.restore.attribution import Owner, others
from gitbaton.checkpoints.restore.bytes import HIDDEN, LINKS, kept_in
from gitbaton.checkpoints.restore.scene import PresentState
from gitbaton.checkpoints.restore.values import NOBODY, Order, PathAction
from gitbaton.checkpoints.store.chain import (
    AFTER,
    AFTER_ATTRIBUTES,
    INDEX_AFTER,
    INDEX_FLAGS,
    beside,
    in_beside,
    paths_beside,
)
from gitbaton.checkpoints.store.pathhistory import nothing, tree_of
from gitbaton.git.objects import lookup
from gitbaton.git.repo import Repo
from gitbaton.git.worktree.checkout import Difference, GitEntry, matching
from gitbaton.git.worktree.filetrees import LINK
from gitbaton.git.worktree.gate import has_links
from gitbaton.git.worktree.modes import Modes, Permits
from gitbaton.git.worktree.rawbytes import (
    NAME,
    Conversion,
    LocalAttributes,
    attribute_files,
    attributes_at,
    conversion_of,
    entries,
    local_attributes,
)
from gitbaton.git.worktree.staged import Scope, Staged, read_flags, read_staged

_PRIVATE = 0o700  # permissions of what comes back where they are unknown
FREE: AbstractContextManager[None] = nullcontext()


class Goal:
    """The state that a plan leads to, as the planner asks for it.

    ``tree`` holds all files as they are to be; ``kept`` are the exact bytes that come back in place of git's checkout, by path,
    and ``since`` says from when on a file that was written holds others (None: whenever they differ). ``staged`` is the index
    that comes back, ``entries`` the paths of it as far as that is known beforehand, ``hidden`` those that a sparse checkout had
    left out. ``rules`` is the tree of which the ignore rules count, ``operation`` what was in progress.

    ``target`` is the checkpoint that the plan is named after, ``what`` the step in words, ``position`` how many steps may be
    redone afterwards. ``left``: paths of which it knows nothing, with the reason. ``always``: what stands at its paths goes.
    ``whole``: a checkpoint's whole state comes back. ``further``: what is to be said of paths that do not differ, or of how
    they change. ``converted``: paths at which only attributes make the bytes others; ``links``: symbolic
    links where git made text files of them. ``local``: what this machine had to say of conversions then; None where it is as
    now, or not known. ``composed``: ``staged`` is in no checkpoint. ``again``: the words of a command
    line that mean the same. ``track``: the one of which it is a step, and whose words it may change.
    """

    op: Op
    what: str
    again = ""
    entries: Scope
    position = 0
    always = whole = composed = False
    since: datetime | None = None
    operation: Operation | None = None
    hidden: Collection[str] = ()
    left: Mapping[str, str] = {}
    local: LocalAttributes | None = None
    further: Mapping[str, PathAction] = {}
    converted: Collection[str] = ()
    links: Collection[str] = ()

    def __init__(self, scene: PresentState, target: Stored, order: Order) -> None:
        self.scene, self.target, self.order = scene, target, order
        self.baton, self.store, self.git = scene.baton, scene.baton.store, scene.repo.git
        self.asked, self.track = AskedPaths(scene, order), target.checkpoint.track
        self.tree: Oid
        self.rules: Oid
        self.staged: Staged
        self.kept: Mapping[str, Oid]
        self.permits: Permits
        self.strangers: Collection[str] = ()

    def bring(self, permits: Callable[[Repo, Oid | None], Permits]) -> dict[str, str]:
        """Take over what the target keeps beside its tree, with the permissions that ``permits`` reads there. Where they are
        lost, what comes back is its owner's alone; where the list of exact bytes is, return the paths that do not come back
        without them, with the reason. Raises BatonError."""
        scene, target, lost = self.scene, self.target, dict[str, str]()
        side = beside(self.store, target)
        self.local = attributes_in(scene, target)
        try:
            self.kept = kept_in(self.store, target)
        except RecordError as error:
            skipped = files_of(target).skipped
            self.kept, lost = {}, {s.path: "what stands for its bytes cannot be read" for s in skipped if s.reason in KEPT}
            scene.said.append(f"{error.message}; files come back as git checks them out")
        self.staged = staged_in(scene, target)
        self.hidden, self.links = (paths_beside(self.store, target, name) or () for name in (HIDDEN, LINKS))
        try:
            self.permits = permits(scene.repo, side)
        except RecordError as error:
            scene.said.append(f"{error.message}; what comes back is its owner's alone")
            self.permits = Permits(scene.repo, Modes(rest=_PRIVATE))
        return lost

    @cached_property
    def heads(self) -> tuple[Oid, Oid] | None:
        """The trees of the commit that the target stands on, and of HEAD; None where one is not there."""
        heads = self.target.checkpoint.head, self.scene.head.oid
        before, after = (tree_of(self.store, oid) if oid else nothing(self.store) for oid in heads)
        return (before, after) if before is not None and after is not None else None

    def conversion(self, differing: Sequence[Difference]) -> Conversion | None:
        """Return the conversion of a checkout of then; None where it is as now. Raises GitError."""
        repo, local = self.scene.repo, self.local
        if not any(d.path.rpartition("/")[2] == NAME for d in differing) and (
            local is None or local.converts_as(local_attributes(repo))
        ):
            return None
        return conversion_of(repo, self.scene.folder, self.tree, self.scene.tree, local)

    def is_link(self, path: str) -> bool:
        """Whether a symbolic link of a tree comes back as one, and not as a text file in its place: it was one, or git makes
        links here."""
        local = self.local
        return path in self.links or (local is not None and local.symlinks == "true") or has_links(self.scene.repo)

    def replaced_links(self, differing: Collection[str]) -> list[Difference]:
        """Return the paths at which the trees hold the same symbolic link, and the disk one and a text file in its place."""
        repo = self.scene.repo
        if has_links(repo):
            return []
        found = []
        for path, mode, oid in entries(repo.git, self.tree, modes=(LINK,)):
            there = os.path.join(self.scene.root, path)
            if path not in differing and os.path.lexists(there) and os.path.islink(there) != self.is_link(path):
                entry = GitEntry(mode=mode, oid=oid)
                found.append(Difference(path=path, now=entry, then=entry))
        return found

    def skipped_since(self, differing: Collection[str]) -> list[Difference]:
        """Return further paths, as absent, that git was told to skip meanwhile, and that are not on disk."""
        return []

    def scope(self, differing: Sequence[Difference], in_bytes: Sequence[Difference]) -> list[Difference]:
        """Return the differences that are meant; ``in_bytes`` are paths of which the blobs agree, and the bytes on disk do
        not."""
        return [*differing, *in_bytes]

    def stay(self, wanted: Collection[str]) -> Collection[str]:
        """Return the paths that change, and of which the index entry stays all the same."""
        return ()

    def brought(self) -> Mapping[str, object]:
        """Return the stages of the conflicts that the step brought which is taken back, by path."""
        return {}

    def known(self) -> Collection[str]:
        """Return the paths that it knows not to be there."""
        return ()

    def absent(self, scope: Sequence[Difference]) -> Mapping[str, str]:
        """Return, with the reason, the paths that would have to come back or go and are in no capture."""
        return {}

    def apart(self, path: str, one: Oid, other: Oid) -> bool:
        """Whether two trees hold something else at a path, which may be a folder."""
        raw, objects = os.fsencode(path), self.store.objects
        return lookup(objects, one, raw) != lookup(objects, other, raw)

    def gone(self) -> Mapping[str, str]:
        """Return, with the reason, the folders that were to come back and of which the content is unknown."""
        asked = self.asked.names()
        inside = {p: r for p, r in self.scene.gone.items() if any(name.startswith(p + "/") for name in asked)}
        return inside | {p: r for p, r in self.scene.gone.items() if self.asked.covers(p)}

    def moved(self, changing: Sequence[Difference]) -> Collection[str]:
        """Return the paths that change and may have present content of another."""
        return {d.path for d in changing}

    def owners(self, moved: Sequence[Difference]) -> Mapping[str, str]:
        """Return the owners, in words, of the paths with present content that is not ours."""
        present = {d.path: d.now for d in moved}
        found = others(self.store, self.target, self.scene.head.oid, self.scene.repo.worktree_id(), present)
        return {path: self._told(owner) for path, owner in found.items()}

    def _told(self, owner: Owner) -> str:
        if owner.track is None:
            return f"commit {self.baton.abbreviate(owner.where)}"
        return f"track {in_quotes(owner.track)}, checkpoint {self.baton.short(owner.where)}" if owner.certain else NOBODY

    def unknown(self, paths: Collection[str]) -> Mapping[str, str]:
        """Return the reasons for which some of the paths are kept, where that is not just that the checkpoint does not know
        them."""
        return {}

    def own(self, changing: Sequence[Difference]) -> Sequence[str]:
        """Return the paths that change and are edits of the user's own, which no checkpoint holds yet."""
        return ()

    def notes(self, changing: Sequence[Difference]) -> list[str]:
        """Return what is to be known before the files change."""
        return []

    def warnings(self, changing: Sequence[Difference]) -> list[str]:
        """Return what is to be said of a plan that changes this."""
        return []


class AskedPaths:
    """The PATHs of an order, git's pathspecs as seen from its directory."""

    def __init__(self, scene: PresentState, order: Order) -> None:
        self.scene, self.specs, self.over = scene, order.paths, order.over
        self.directory = scene.root  # or the user's, where that is in the work tree
        if order.directory is not None:
            place, top = os.path.realpath(order.directory), os.path.realpath(scene.root)
            self.directory = place if place == top or place.startswith(top.rstrip("/") + "/") else scene.root

    def __bool__(self) -> bool:
        return bool(self.specs)

    def among(self, trees: Collection[Oid], specs: Sequence[str] | None = None) -> set[str]:
        """Return the paths of trees that the PATHs, or some of them, match."""
        asked = self.specs if specs is None else specs
        return {path for tree in trees for path in matching(self.scene.index, self.directory, tree, asked)}

    def names(self) -> set[str]:
        """Return the PATHs that name one path by itself, as paths of the work tree; with those that were confirmed."""
        names = (os.path.normpath(os.path.join(self.directory, spec)) for spec in self.specs)
        return {os.path.relpath(name, self.scene.root) for name in names}.union(self.over)

    def covers(self, path: str) -> bool:
        """Whether a path that no tree holds is at or below one of them; all are where there is none."""
        names = self.names()
        return not self.specs or any(name in (path, ".") or path.startswith(name + "/") for name in names)


def files_of(target: Stored) -> FileState:
    """Return what a checkpoint holds of the work tree. Raises BatonError where it was recorded without files."""
    files, agent, name = target.checkpoint.files, target.checkpoint.agent, target.id[:12]
    if files is None:
        told = [f"'git baton restore --conversation-only {name}' brings back what was said"]
        hints = [*(told if agent and agent.transcript else ()), "'git baton log --all' lists others"]
        raise BatonError(f"checkpoint '{name}' was recorded without files", *hints)
    return files


def attributes_in(scene: PresentState, stored: Stored) -> LocalAttributes | None:
    """Return what this machine had to say of conversions at a checkpoint; None where it was taken elsewhere."""
    return attributes_at(scene.repo, stored.checkpoint.created) if not stored.foreign else None


def conversion_of_step(scene: PresentState, safety: Stored, target: Stored | None) -> Conversion | None:
    """Return the conversion of the files that a step wrote; None where that was as when it began. ``target``: the checkpoint
    that it brought back."""
    objects, side = scene.baton.store.objects, beside(scene.baton.store, safety)
    files = lookup(objects, side, AFTER_ATTRIBUTES) if side is not None else None
    if files is None:
        return None
    local = attributes_in(scene, target) if target is not None else None
    return Conversion(scene.repo, scene.folder, attribute_files(scene.repo, files.oid), local)


def tree_in(scene: PresentState, stored: Stored) -> Oid:
    """Return the tree of all files at a checkpoint, in which folders that cannot be read are as now. Raises BatonError."""
    tree = files_of(stored).tree
    if scene.baton.store.tree_of(stored.commit) != tree:
        raise RecordError(f"commit {stored.commit} does not hold the tree that it names")
    found = scene.readable(tree)
    if "" in scene.gone:
        raise RecordError(f"checkpoint '{scene.baton.short(stored.id)}' has lost its files: {scene.gone['']}", MENDS)
    return found


def no_match(spec: str, where: str) -> str:
    """Return that a PATH matches no file that was looked for, and perhaps why."""
    option = "; options stand before '--'" if spec.startswith("-") else ""
    return f"{in_quotes(spec)} matches no file that {where}{option}"


def staged_in(scene: PresentState, stored: Stored) -> Staged:
    """Return the staged state of a checkpoint. Raises BatonError."""
    return read_staged(scene.repo, files_of(stored), beside(scene.baton.store, stored))


def staged_by(scene: PresentState, safety: Stored, target: Stored | None) -> Staged:
    """Return the index of which a step brought entries back: that of its target, or where it has none (None) its own. Raises
    BatonError."""
    if target is not None:
        return staged_in(scene, target)
    store = scene.baton.store
    flags = read_flags(store.objects, beside(store, safety), INDEX_FLAGS)
    files, tree = in_beside(store, safety, AFTER), in_beside(store, safety, INDEX_AFTER)
    return Staged(tree=tree, files=files, flags=flags, stages={}, held={})
