"""Worktree of a checkpoint: its head, files and index, checked out beside this work tree."""

from __future__ import annotations

import os
import stat
from contextlib import closing, suppress

from gitbaton.baton import Baton
from gitbaton.codec import in_quotes
from gitbaton.errors import BatonError, GitError, UsageError
from gitbaton.git.objects import new_object
from gitbaton.git.repo import Repo, discover
from gitbaton.model import KEPT, FileState, Oid, Stored
from gitbaton.render import path_in_quotes
from gitbaton.restore.bytes import absent
from gitbaton.store.chain import beside
from gitbaton.values import value
from gitbaton.worktree.capture import private_folder
from gitbaton.worktree.checkout import changed_tree, check_out, entry_at
from gitbaton.worktree.heldbytes import HeldOid, exact_bytes
from gitbaton.worktree.index import IndexFacts, PrivateIndex
from gitbaton.worktree.locks import MARK
from gitbaton.worktree.modes import confine, recorded
from gitbaton.worktree.place import make_file
from gitbaton.worktree.rawbytes import read_kept
from gitbaton.worktree.staged import IndexLock, Restaging, Scope, read_staged

_TOLD = 10  # paths that are named


@value
class WorktreePlan:
    """Plan of a linked work tree; ``head`` is the commit that HEAD will be detached at."""

    stored: Stored
    files: FileState
    place: str
    head: Oid
    warnings: tuple[str, ...]


def plan(baton: Baton, stored: Stored, directory: str) -> WorktreePlan:
    """Return the linked work tree that a checkpoint would get. Raises BatonError: one without files, a directory that is in
    use."""
    if not directory:
        raise UsageError("the directory's name is empty")
    files = stored.checkpoint.files
    short = baton.short(stored.id)
    if files is None:
        raise BatonError(f"checkpoint '{short}' was recorded without files", "'git baton log --all' lists others")
    place = os.path.abspath(directory)
    if os.path.lexists(place) and not (os.path.isdir(place) and not os.path.islink(place) and not os.listdir(place)):
        raise BatonError(f"{in_quotes(directory)} already exists")
    head = stored.checkpoint.head
    warnings = []
    if head is None or baton.store.tree_of(head) is None:
        warnings.append("the checkpoint stands on no commit; HEAD is detached at the commit of its chain")
        head = stored.commit
    tree = beside(baton.store, stored) if files.held else None
    away, cleaned = absent(baton.store, read_kept(baton.store.objects, tree) if tree else {})
    warnings += [f"{path_in_quotes(path)}: {reason}" for path, reason in [*away.items(), *cleaned.items()][:_TOLD]]
    left = sum(s.reason not in KEPT for s in files.skipped) + files.skipped_more
    if left:
        warnings.append(
            f"{left} path{'s are' if left > 1 else ' is'} not in the checkpoint; 'git baton show {short}' lists them"
        )
    return WorktreePlan(stored=stored, files=files, place=place, head=head, warnings=tuple(warnings))


def apply(baton: Baton, plan: WorktreePlan) -> None:
    """Make the work tree; when that fails nothing of it is left. Raises GitError."""
    git, end = baton.repo.git, "--end-of-options"
    baton.repo.settings()  # who may run hooks must know those to switch off
    git.out("worktree", "add", "--detach", "--no-checkout", end, plan.place, plan.head)
    try:
        top = stat.S_IMODE(os.stat(plan.place).st_mode)
        with suppress(PermissionError):  # another user's folder stays as it is
            os.chmod(plan.place, 0o700)  # nobody else enters before all have their permissions
        with closing(discover(plan.place, door="binary")) as repo:
            _fill(baton, repo, plan)
        with suppress(PermissionError):
            os.chmod(plan.place, top & _allowed(baton.repo) | 0o700)
    except BaseException:
        git.run("worktree", "remove", "--force", end, plan.place)
        raise


def _allowed(repo: Repo) -> int:
    """Return the permissions that the top of a work tree with the same files has; all where there is none."""
    root = repo.layout.root
    return stat.S_IMODE(os.stat(root).st_mode) | 0o7000 if root is not None else 0o7777


def _fill(baton: Baton, repo: Repo, plan: WorktreePlan) -> None:
    """Write files first, then what no filter gives back and their permissions, then the index, which knows them by their
    times."""
    store = baton.store
    empty = new_object(repo.layout.algorithm, "tree", b"")
    repo.objects.write([empty])
    tree = beside(store, plan.stored)
    with private_folder(repo) as folder:
        index = PrivateIndex(repo, repo.layout.index, os.path.join(folder, "index"))
        index.git = repo.writing(index.git)
        index.copy()
        kept = read_kept(store.objects, tree) if tree and (plan.files.raw or plan.files.held) else {}
        away, cleaned = absent(store, kept)
        here = {path: oid for path, oid in kept.items() if path not in away and path not in cleaned}
        apart = [path for path, oid in kept.items() if path in away or (path in here and isinstance(oid, HeldOid))]
        goal = changed_tree(index, dict.fromkeys(apart), plan.files.tree) if apart else plan.files.tree
        check_out(index, empty.oid, goal)
        for path, oid in here.items():
            entry = entry_at(store.objects, plan.files.tree, path)
            if entry is not None and entry.mode.startswith("100"):
                try:
                    make_file(plan.place, path, entry.mode, exact_bytes(baton.repo, path, oid))
                except OSError as error:
                    raise GitError(f"{in_quotes(path)}: it cannot be written: {error.strerror}") from None
        confine(plan.place, recorded(store.objects, tree))
        then = read_staged(repo, plan.files, tree)
        new = Restaging(repo, IndexFacts(tree=goal), then, Scope()).build(folder, index.path)
        lock = IndexLock(repo.layout.index, f"{MARK}{os.getpid()}\n")
        lock.take()
        try:
            lock.replace(new)
        finally:
            lock.release()
