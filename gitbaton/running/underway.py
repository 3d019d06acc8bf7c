"""Which attempt has its hands on the files of this work tree: a note in its git directory, which a kill leaves behind.

Only such a note makes files of an unfinished attempt ours to put back; the names and paths of a machine do not.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

from gitbaton.codec import encode_track
from gitbaton.errors import GitError
from gitbaton.git.repo import put
from gitbaton.model import Oid
from gitbaton.running.context import Context
from gitbaton.running.writeset import same
from gitbaton.values import value
from gitbaton.worktree.filesets import Entry

TYPE_CHECKING = False
if TYPE_CHECKING:
    Brought = Mapping[str, tuple[str, Oid] | None]
else:
    Brought = dict
_LARGEST = 1 << 30


@value
class Underway:
    """An attempt, by the commit of its begin. ``brings``: the mode and blob of each file that it brings into the work tree
    (None: that it removes); None of one that works in the work tree itself."""

    begin: Oid
    brings: Brought | None = None

    def its_own(self, have: Mapping[str, Entry], want: Mapping[str, Entry | None]) -> dict[str, Entry | None]:
        """Of what must change for the write set to be as before, that which the attempt did."""
        if self.brings is None:
            return dict(want)
        own = {}
        for path, entry in want.items():
            there, brought = have.get(path), self.brings.get(path, ())
            if brought != () and (brought is None if there is None else brought == (there.mode, there.oid)):
                own[path] = entry
        return own


def note(ctx: Context, step: str, begin: Oid, brings: Mapping[str, Entry | None] | None = None) -> None:
    """Say, before anything is done to the files of this work tree, which attempt does it. Raises GitError."""
    import json

    files = None if brings is None else {p: None if e is None else [e.mode, e.oid] for p, e in brings.items()}
    path = _path(ctx, step)
    try:
        put(ctx.repo, path, json.dumps({"v": 1, "begin": begin, "brings": files}).encode("ascii"))
    except OSError as error:
        raise GitError(f"'{path}' cannot be written: {error.strerror}") from None


def noted(ctx: Context, step: str) -> Underway | None:
    """The attempt at a step of this run that has not put its files in order here; None where there is none."""
    import json

    try:
        with open(_path(ctx, step), encoding="ascii") as file:
            found = json.loads(file.read(_LARGEST))
        files = found["brings"]
        brings = None if files is None else {p: None if e is None else (str(e[0]), str(e[1])) for p, e in files.items()}
        return Underway(begin=str(found["begin"]), brings=brings)
    except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError):
        return None


def forget(ctx: Context, step: str) -> None:
    """Say that the files of the step are in order here."""
    try:
        os.unlink(_path(ctx, step))
    except OSError:  # there is none; or it names a begin that has its end
        return


def with_its_own(
    ctx: Context, step: str, begin: Oid, before: Mapping[str, Entry], have: Mapping[str, Entry]
) -> dict[str, Entry]:
    """The files of before with what an attempt did to them, of all that has become different since."""
    mine = noted(ctx, step)
    other = {p: before.get(p) for p in before.keys() | have.keys() if not same(before.get(p), have.get(p))}
    own = mine.its_own(have, other) if mine is not None and mine.begin == begin else {}
    return {path: entry for path, entry in {**before, **{p: have.get(p) for p in own}}.items() if entry is not None}


def _path(ctx: Context, step: str) -> str:
    name = hashlib.sha256(step.encode("utf-8", "surrogateescape")).hexdigest()[:32]
    return os.path.join(ctx.repo.own_dir, "attempts", encode_track(ctx.run), name)
