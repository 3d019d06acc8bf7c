"""Values of a restore: order, step, plan and result."""

from __future__ import annotations

from gitbaton.base.model import COMPOSED, STEPPING, Oid, Op, Stored
from gitbaton.base.values import TYPE_CHECKING, value

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Literal

    from gitbaton.checkpoints.restore.scene import PresentState
    from gitbaton.git.worktree.checkout import GitEntry
    from gitbaton.git.worktree.modes import Permits
    from gitbaton.git.worktree.rawbytes import Conversion
    from gitbaton.git.worktree.staged import Scope, Staged

    Action = Literal["write", "create", "remove", "keep", "conflict", "refuse"]
else:
    Action = str

SHORT, LONGEST = 10, 500  # of an id, and of what is said of a checkpoint
CHANGING: tuple[Action, ...] = ("write", "create", "remove")
TEXT = "changed since at the same lines"  # why a path is left whose text does not merge
UNDECIDED = "either may have changed it"  # how the reason ends why a path is left that nobody can attribute
MARKED = "with conflict markers"  # why a path that was written still asks for work
UNKNOWN = "not in that checkpoint"  # why a path is kept
COMMITTED = "committed here since"  # as UNKNOWN, of a path that HEAD has
IGNORED_THEN = "ignored at the checkpoint"  # why a path is kept that it may not know
NOBODY = "changed since, nobody knows by whom"  # why a path is left that no checkpoint shows to be anybody's
UNMERGED = "unmerged, and not at the checkpoint"  # why a path is left that waits in the middle of a merge


@value
class Order:
    """The order of a restore. ``paths`` are git's pathspecs as seen from ``directory`` (default: the top of the work tree).

    ``exact`` removes what the checkpoint does not hold; ``index`` brings the whole index back; ``force`` also what is
    another's, ``over`` those paths of it; ``foreign`` allows a checkpoint that was fetched and that no local snapshot
    follows. ``left`` are paths to leave alone, with the reason.

    Of a revert ``checkpoint`` names a turn, or the turns of a range ``A..B``, and "" the newest one; ``session`` is an id, or
    the beginning of one, of the session of the turns; ``merge`` writes conflicts into the files; ``track`` is that of
    the newest turn, and of ``@``, by default the current one.

    Of a merge ``checkpoint`` names the other track, or a checkpoint of it; ``merge`` is as of a revert.
    """

    checkpoint: str = "@"
    paths: tuple[str, ...] = ()
    directory: str | None = None
    exact: bool = False
    index: bool = False
    force: bool = False
    over: tuple[str, ...] = ()
    foreign: bool = False
    left: tuple[tuple[str, str], ...] = ()
    session: str = ""
    merge: bool = False
    track: str = ""


@value
class PathAction:
    """The action on one path: written, created or removed; kept, because the checkpoint does not know it; left as a conflict
    or because it is not safe to touch. ``reason`` says why a path is left."""

    path: str
    action: Action
    reason: str = ""


@value
class RestorePlan:
    """The plan of a restore against the state that it was made of; good for that state alone, while ``scene`` is open.

    ``target`` is the checkpoint of the files that come back, ``what`` the restore that is carried out, or stepped over, in
    words; ``scope`` the paths of the index entries that come back, ``staged`` and ``hidden`` the index that they are of;
    ``wanted`` what each path that changes will be, ``tree`` the work tree's tree afterwards; ``raw`` the bytes that no filter
    gives back, by path (None: what git would check out), ``same`` the paths of which only such bytes change, and those in a
    repository of its own, which ``tree`` cannot hold; ``permits`` says which permissions what comes back gets, ``conversion``
    how files are checked out where that is not as now, ``links`` what becomes a symbolic link whatever core.symlinks says;
    ``digest`` is the same for the same plan. ``whole``: a checkpoint's whole state comes back. ``composed``: ``staged`` is in
    no checkpoint.
    ``again``: the words of a command line that mean the same. ``track``: the one of which it is a step.

    ``notes`` are to be read before it is carried out; ``own`` are the paths that change and are edits of the user's own, which
    no checkpoint holds yet, ``strangers`` those that are left because another session wrote them.
    """

    op: Op
    target: Stored
    steps: tuple[PathAction, ...]
    index: bool
    scope: Scope
    position: int
    wanted: Mapping[str, GitEntry | None]
    raw: Mapping[str, Oid | None]
    same: tuple[str, ...]
    permits: Permits
    tree: Oid
    digest: str
    warnings: tuple[str, ...]
    scene: PresentState
    what: str
    track: str
    staged: Staged
    hidden: Collection[str] = ()
    conversion: Conversion | None = None
    links: Collection[str] = ()
    whole: bool = True
    composed: bool = False
    again: str = ""
    notes: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The restore that is carried out, with the undo or redo that steps over it."""
        return f"{self.op} of {self.what}" if self.op in STEPPING else self.what

    @property
    def doubtful(self) -> bool:
        """Whether the plan takes back, or leaves, what its user may have meant to keep."""
        return bool(self.own or self.strangers)

    @property
    def unknown(self) -> int:
        """Number of files that stay though the checkpoint does not hold them; an exact restore would remove them."""
        if self.op in COMPOSED:
            return 0
        return sum(step.action == "keep" and step.reason != IGNORED_THEN for step in self.steps)

    @property
    def complete(self) -> bool:
        """Whether every path that was asked for comes back."""
        return not any(step.action in ("conflict", "refuse") or step.reason == MARKED for step in self.steps)


@value
class Restored:
    """A restore that was carried out. ``safety`` is the state before it; None where nothing had to change."""

    plan: RestorePlan
    safety: Stored | None
    warnings: tuple[str, ...]
