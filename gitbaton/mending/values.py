"""What a mend comes to: values only."""

from __future__ import annotations

from gitbaton.git.objects import NewObject
from gitbaton.model import Oid
from gitbaton.values import value

UNFINISHED = "unfinished"  # the file in the folder of what is put aside, while a mend is carried out


@value
class Lost:
    """Something of ours that nobody can read any more: ``where`` names the checkpoint, run or thread, ``what`` a path, or what
    else of it went."""

    where: str
    what: str


@value
class Move:
    """A ref that is to point elsewhere. ``old``: what it points at now, None where it holds no id; ``raw``: its file's bytes,
    as they are put aside; ``new``: None where nothing is left for it to point at; ``said``: why, for people."""

    name: str
    new: Oid | None
    old: Oid | None
    raw: bytes | None
    said: str


@value
class Theirs:
    """Damage that is not ours to touch: what, and the command of git's that helps."""

    text: str
    hint: str


@value
class Mend:
    """What a mend will do. ``torn``: objects whose file is put aside, with its path; ``objects``: what is written, ``found`` of
    it elsewhere; ``moves``: refs; ``lines``: what goes from git's file of packed refs; ``logs``: logs of refs that are written
    anew without the lines that cannot be read; ``packs``: those that only lack an index; ``files``: what else of ours is put
    aside; ``lost``: what is gone for good; ``left``: what is ours and stays as it is, and why; ``theirs``: what is not ours;
    ``unfinished``: the marks of mends that were killed."""

    torn: tuple[tuple[Oid, str], ...] = ()
    objects: tuple[NewObject, ...] = ()
    found: int = 0
    moves: tuple[Move, ...] = ()
    lines: tuple[bytes, ...] = ()
    logs: tuple[tuple[str, tuple[bytes, ...]], ...] = ()
    packs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    lost: tuple[Lost, ...] = ()
    left: tuple[Lost, ...] = ()
    theirs: tuple[Theirs, ...] = ()
    warnings: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.torn or self.objects or self.moves or self.lines or self.logs or self.packs or self.files)


@value
class Made:
    """What became of one ref: where it is to point (None: nowhere), what is lost; ``said``: why, for people; ``left``: why it
    stays as it is instead."""

    new: Oid | None
    lost: tuple[Lost, ...] = ()
    said: str = ""
    left: str = ""
