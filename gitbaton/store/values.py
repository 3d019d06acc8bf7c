"""What reading tracks gives back beside checkpoints: histories, and what is wrong among them."""

from __future__ import annotations

from gitbaton.model import Stored
from gitbaton.values import value


@value
class Problem:
    """Something in our namespace that is not ours or breaks the format; ``where`` is a ref or a commit id."""

    where: str
    reason: str


@value
class History:
    """Checkpoints, newest first, and what could not be read among them."""

    items: tuple[Stored, ...]
    problems: tuple[Problem, ...] = ()
