"""A plan made and carried out, again where the work tree moved meanwhile or a file cannot be written."""

from __future__ import annotations

from contextlib import AbstractContextManager

from gitbaton.baton import Baton
from gitbaton.errors import CollectedError, PathError, StaleError
from gitbaton.model import Op
from gitbaton.restore.apply import apply
from gitbaton.restore.plan import planned, stepping
from gitbaton.restore.recover import recover
from gitbaton.restore.values import Order, Plan, Restored
from gitbaton.values import replace

_MOVED = 3
_UNWRITABLE = 20
_PATIENCE = 3  # files that a filter may fail on before it is not asked any more


def carry_out(baton: Baton, op: Op, order: Order) -> tuple[Restored, list[str]]:
    """Restore, undo or redo; what recovering an interrupted one had to say comes along.

    A file that cannot be written or removed, or that is never still, is left alone, and the rest comes back. Raises
    BatonError.
    """
    said = recover(baton)
    moved, rounds, collected, left = 0, 0, 0, dict(order.left)
    while True:
        try:
            with open_plan(baton, op, replace(order, left=tuple(left.items()))) as plan:
                return apply(plan), said
        except CollectedError:  # git has just collected what the index named that was read; the next look reads another
            collected += 1
            if collected == _MOVED:
                raise
        except StaleError as error:
            said += error.hints  # what was written late, and where it is kept
            moved += 1
            if moved >= _MOVED:
                if moved == _UNWRITABLE or not set(error.paths).difference(left):
                    raise
                left |= dict.fromkeys(error.paths, "unstable")
        except PathError as error:
            said += error.hints
            rounds += 1
            if rounds == _UNWRITABLE or not set(error.paths).difference(left):
                raise
            left |= dict.fromkeys((*error.paths, *(error.alike if rounds >= _PATIENCE else ())), error.reason)


def open_plan(baton: Baton, op: Op, order: Order) -> AbstractContextManager[Plan]:
    """The plan of a restore, an undo or a redo, good until the block ends."""
    return planned(baton, order) if op == "restore" else stepping(baton, op, force=order.force, left=order.left)
