"""Restore, undo, redo: files put back under a contract that never loses a byte.

``planned`` gives the plan of a restore, ``open_plan`` that of an undo or a redo, too; ``apply`` carries out one that was made
with the lock of ``alone`` held; ``carry_out`` does both; ``recover`` ends what was killed.
"""

from gitbaton.checkpoints.restore.apply import apply, carry_out, open_plan
from gitbaton.checkpoints.restore.checkpointgoal import planned
from gitbaton.checkpoints.restore.recover import alone, recover
from gitbaton.checkpoints.restore.values import Order, PathAction, Restored, RestorePlan

__all__ = ["Order", "PathAction", "RestorePlan", "Restored", "alone", "apply", "carry_out", "open_plan", "planned", "recover"]
