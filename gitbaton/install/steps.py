"""Steps that a plan of install or uninstall is made of."""

from __future__ import annotations

from collections.abc import Callable

from gitbaton.values import value


@value
class Step:
    """One change that a plan makes: what to tell, and the function that does it."""

    text: str
    run: Callable[[], None]


@value
class Plan:
    """Steps in their order, and lines for the user that no step can carry out."""

    steps: tuple[Step, ...]
    notices: tuple[str, ...] = ()
