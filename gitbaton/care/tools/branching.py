"""Branch or linked work tree of a checkpoint: its ``head`` plus its files. HEAD, index and this work tree stay."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection
from contextlib import closing, suppress

from gitbaton.base.codec import first_line, in_quotes, os_error, plain
from gitbaton.base.errors import MENDS, BatonError, GitError, RecordError, RefConflictError, UsageError
from gitbaton.base.model import KEPT, Checkpoint, FileState, Oid, Stored
from gitbaton.base.system.files import remove_folder
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, path_in_quotes, some
from gitbaton.checkpoints.store.chain import beside
from gitbaton.git.objects import (
    NewObject,
    Objects,
    RefChange,
    TreeEntry,
    author_at,
    commit_data,
    lookup,
    new_object,
    parse_tree,
    tree_data,
)
from gitbaton.git.repo import Repo, discover
from gitbaton.git.run import zsplit
from gitbaton.git.worktree.heldbytes import HeldOid, exact_bytes
from gitbaton.git.worktree.include import Included, copied, listed
from gitbaton.git.worktree.index import IndexFacts, PrivateIndex
from gitbaton.git.worktree.modes import NOTHING, confine, recorded
from gitbaton.git.worktree.rawbytes import read_kept, read_raw
from gitbaton.git.worktree.untracked import ours

BRANCHES = "refs/heads/"


@value
class BranchPlan:
    """Plan of a branch. ``commit`` is the commit to be added to ``parent`` (None for a root commit), or None where the branch
    is at ``parent`` itself; ``reason`` then says why. ``trees``: what must be written for it."""

    name: str
    checkpoint: Stored
    parent: Oid | None
    commit: NewObject | None
    trees: tuple[NewObject, ...]
    reason: str
    warnings: tuple[str, ...]

    @property
    def ref(self) -> str:
        """The branch's full name."""
        return BRANCHES + self.name


def plan(baton: Baton, name: str, stored: Stored) -> BranchPlan:
    """Return the branch that a checkpoint would become; writes nothing.

    Raises UsageError for what git does not take as a branch's name, BatonError when the name is taken or there is nothing to
    make a branch of, RecordError when the checkpoint names objects that are not there.
    """
    result = baton.repo.git.run("check-ref-format", "--branch", name)
    if result.code != 0:
        raise UsageError(f"{in_quotes(name)} is not a name that git takes for a branch")
    name = zsplit(result.out.removesuffix(b"\n") + b"\0")[0]  # as git reads it: ``@{-1}`` is one that exists
    _refuse_taken(baton, name)
    head, files = stored.checkpoint.head, stored.checkpoint.files
    if head is None and files is None:
        what = f"checkpoint '{baton.short(stored.id)}'"
        raise BatonError(f"{what} has no files and no head: there is nothing to make a branch of")
    tree = baton.store.tree_of(head) if head else None
    if head and tree is None:
        raise RecordError(f"checkpoint '{baton.short(stored.id)}' names the head {head}, which is no commit here")
    warnings: list[str] = []
    commit, reason, trees = None, "", tuple[NewObject, ...]()
    if files is None:
        reason = "the checkpoint has no files; the branch is at its head"
    else:
        goal, made = _goal(baton, stored)
        if goal == tree:
            reason = "the checkpoint's files are those of its head; no commit is added"
        else:
            commit, warnings = _commit(baton, stored, head, goal)
            trees = tuple(made)
    modes = recorded(baton.repo.objects, beside(baton.store, stored)) if files is not None else NOTHING
    closed = [path for path in modes.listed if not path.endswith("/")]
    if modes:
        named = f" ({some(len(closed), first_few(closed))})" if closed else ""
        warnings.append(f"git keeps no permissions in a branch: a checkout of it gives some files more than they had{named}")
    if files is not None and files.skipped:
        count = len(files.skipped) + files.skipped_more
        paths = "1 path is" if count == 1 else f"{count} paths are"
        listed = f"'git baton show {baton.short(stored.id)}' lists what was left out"
        warnings.append(f"{paths} not on the branch as on disk at the checkpoint; {listed}")
    return BranchPlan(
        name=name, checkpoint=stored, parent=head, commit=commit, trees=trees, reason=reason, warnings=tuple(warnings)
    )


def _refuse_taken(baton: Baton, name: str) -> None:
    """Refuse a name that a branch has, that one is in the way of, or that a work tree stands on without a commit."""
    ref = BRANCHES + name
    found = baton.repo.objects.refs(BRANCHES)
    if ref in found or baton.repo.git.run("symbolic-ref", "-q", ref).code == 0:
        raise BatonError(f"a branch {in_quotes(name)} exists already")
    for other in found:
        if other.startswith(ref + "/") or ref.startswith(other + "/"):
            raise BatonError(
                f"the branch {in_quotes(other.removeprefix(BRANCHES))} is in the way of a branch {in_quotes(name)}"
            )
    listed = zsplit(baton.repo.git.out("worktree", "list", "--porcelain", "-z"))
    if f"branch {ref}" in listed or baton.repo.objects.head().branch == name:
        raise BatonError(f"HEAD stands on the branch {in_quotes(name)}, which has no commit yet; making it would move HEAD")


def _goal(baton: Baton, stored: Stored) -> tuple[Oid, list[NewObject]]:
    """Return the tree of the commit, and the objects to write for it: it has nothing that only stands for unfiltered bytes.
    Raises RecordError."""
    files, side = stored.checkpoint.files, beside(baton.store, stored)
    if files is None or not files.held or side is None:
        return stored.tree, []
    held = read_raw(baton.store.objects, side, b"held")
    found = {path: lookup(baton.repo.objects, stored.tree, os.fsencode(path)) for path in held}
    standing = [os.fsencode(path) for path, entry in found.items() if entry is not None and entry.oid == held[path]]
    made: list[NewObject] = []
    tree = _without(baton.repo.objects, stored.tree, standing, made)
    if tree is None:
        made.append(new_object(baton.repo.layout.algorithm, "tree", b""))
    return tree or made[-1].oid, made


def _without(objects: Objects, tree: Oid, paths: Collection[bytes], made: list[NewObject]) -> Oid | None:
    """Return the tree without some files; None where nothing is left. What must be written for it is added to ``made``."""
    found, kept = objects.read(tree), list[TreeEntry]()
    if found is None or found.data is None:
        raise RecordError(f"tree {tree} cannot be read")
    for entry in parse_tree(found.data, objects.algorithm):
        below = [path.partition(b"/")[2] for path in paths if path.partition(b"/")[0] == entry.name]
        oid = entry.oid if not below else _without(objects, entry.oid, below, made) if entry.is_tree else None
        kept += [replace(entry, oid=oid)] if oid is not None else []
    if kept:
        made.append(new_object(objects.algorithm, "tree", tree_data(kept)))
    return made[-1].oid if kept else None


def _commit(baton: Baton, stored: Stored, head: Oid | None, tree: Oid) -> tuple[NewObject, list[str]]:
    """Return the commit of the files, and the warnings about its author."""
    found = baton.repo.objects.info(stored.tree)
    if found is None or found.kind != "tree":
        raise RecordError(f"checkpoint '{baton.short(stored.id)}' names the tree {stored.tree}, which is not here", MENDS)
    author, warnings = baton.author()
    parents = (head,) if head else ()
    words = message(stored.id, baton.redactor.checkpoint(stored.checkpoint))
    data = commit_data(tree=tree, parents=parents, author=author_at(author, baton.clock()), message=words)
    return new_object(baton.repo.layout.algorithm, "commit", data), warnings


def message(oid: Oid, checkpoint: Checkpoint) -> bytes:
    """Return the commit's message: the step's first line, the rest of the step, the note, and the checkpoint's id."""
    lines = checkpoint.step.split("\n")
    start = next((number for number, text in enumerate(lines) if text.strip()), len(lines))
    subject = first_line(checkpoint.step) or "?"
    rest = [_clean("\n".join(lines[start + 1 :])), _clean(checkpoint.note), f"checkpoint {oid}"]
    return ("\n\n".join([subject, *filter(None, rest)]) + "\n").encode("utf-8")


def _clean(text: str) -> str:
    """Return lines that drive no terminal, without blanks at their ends and without empty ones around them."""
    return "\n".join(line.rstrip() for line in plain(text, keep="\n\t").split("\n")).strip("\n")


def apply(baton: Baton, plan: BranchPlan) -> Oid:
    """Write the commit and create the branch; return the commit that it is at. Raises BatonError when the branch was made
    meanwhile by another process."""
    baton.repo.settings()  # who writes must know the hooks to switch off
    at = plan.commit.oid if plan.commit else plan.parent
    assert at is not None
    if plan.commit:
        baton.repo.objects.write([*plan.trees, plan.commit])
    try:
        baton.repo.objects.update([RefChange(name=plan.ref, new=at, old=None)])
    except (RefConflictError, GitError):
        _refuse_taken(baton, plan.name)
        raise
    return at


_NAMED_PATHS = 10  # paths that are named


@value
class WorktreePlan:
    """Plan of a linked work tree; ``head`` is the commit that HEAD will be detached at, ``included`` the ignored files of this
    work tree that are copied."""

    stored: Stored
    files: FileState
    place: str
    head: Oid
    warnings: tuple[str, ...]
    included: Included


def plan_worktree(baton: Baton, stored: Stored, directory: str, *, include: bool = False) -> WorktreePlan:
    """Return the linked work tree that a checkpoint would get. ``include``: with the ignored files that ``.worktreeinclude``
    lists. Raises BatonError: one without files, a directory that is in use."""
    from gitbaton.checkpoints.restore.bytes import absent

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
    warnings += [f"{path_in_quotes(path)}: {reason}" for path, reason in [*away.items(), *cleaned.items()][:_NAMED_PATHS]]
    left = sum(s.reason not in KEPT for s in files.skipped) + files.skipped_more
    if left:
        warnings.append(
            f"{left} path{'s are' if left > 1 else ' is'} not in the checkpoint; 'git baton show {short}' lists them"
        )
    never = baton.rules().never
    included = listed(baton.repo, lambda path: ours(path, never)) if include else Included()
    return WorktreePlan(stored=stored, files=files, place=place, head=head, warnings=tuple(warnings), included=included)


def apply_worktree(baton: Baton, plan: WorktreePlan) -> Included:
    """Make the work tree, and return what was copied into it. When that fails, git's record of it and its files are removed
    again, as far as the system allows; an empty folder that was there stays. Raises GitError."""
    git, end = baton.repo.git, "--end-of-options"
    baton.repo.settings()  # who may run hooks must know those to switch off
    there = stat.S_IMODE(os.stat(plan.place).st_mode) if os.path.isdir(plan.place) else None
    # Outside the try: where this fails git removes what it made, and what stands there may be another's.
    git.out("worktree", "add", "--detach", "--no-checkout", end, plan.place, plan.head)
    try:
        top = stat.S_IMODE(os.stat(plan.place).st_mode)
        with suppress(PermissionError):  # another user's folder stays as it is
            os.chmod(plan.place, 0o700)  # nobody else enters before all have their permissions
        with closing(discover(plan.place, door="binary")) as repo:
            _fill(baton, repo, plan)
            found = copied(baton.repo, plan.included.paths, repo)
        root = baton.repo.layout.root
        with suppress(PermissionError):  # what another tree with the same files allows
            allowed = stat.S_IMODE(os.stat(root).st_mode) | 0o7000 if root is not None else 0o7777
            os.chmod(plan.place, top & allowed | 0o700)
    except BaseException as error:
        git.run("worktree", "remove", "--force", end, plan.place)
        remove_folder(plan.place)  # git leaves what stands in folders that their owner cannot write
        if there is not None:
            with suppress(OSError):
                os.mkdir(plan.place, 0o700)
                os.chmod(plan.place, there)
        if isinstance(error, OSError):
            raise GitError(os_error(error)) from None
        raise
    return replace(found, left_out=(*plan.included.left_out, *found.left_out))


def _fill(baton: Baton, repo: Repo, plan: WorktreePlan) -> None:
    """Write files first, then what no filter gives back and their permissions, then the index, which knows them by their
    times."""
    from gitbaton.checkpoints.restore.bytes import absent
    from gitbaton.git.worktree.capture import private_folder
    from gitbaton.git.worktree.checkout import changed_tree, check_out, entry_at
    from gitbaton.git.worktree.locks import MARK
    from gitbaton.git.worktree.place import make_file
    from gitbaton.git.worktree.staged import IndexLock, Restaging, Scope, read_staged

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
        new = Restaging(repo, IndexFacts(tree=goal), read_staged(repo, plan.files, tree), Scope()).build(folder, index.path)
        lock = IndexLock(repo.layout.index, f"{MARK}{os.getpid()}\n")
        lock.take()
        try:
            lock.replace(new)
        finally:
            lock.release()
