"""Restore, undo, redo: files put back under a contract that never loses a byte.

``planned`` and ``stepping`` give a plan, ``apply`` carries it out; ``carry_out`` does both; ``recover`` ends what was killed.
"""

from gitbaton.restore.apply import apply, carry_out, open_plan
from gitbaton.restore.plan import planned, stepping
from gitbaton.restore.recover import recover
from gitbaton.restore.values import Order, Plan, Restored, Step

__all__ = ["Order", "Plan", "Restored", "Step", "apply", "carry_out", "open_plan", "planned", "recover", "stepping"]
