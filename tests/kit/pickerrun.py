"""``git baton restore``, ``undo`` and ``redo`` as somebody at the picker would have them: keys pressed, the plan that is shown
carried out. What cannot be asked for there is left to the command line."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gitbaton.base import terminal
from gitbaton.base.errors import BatonError
from gitbaton.base.model import Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.restore.values import RestorePlan
from gitbaton.cli.commands import picker, pickerviews, restore
from gitbaton.cli.main import run
from tests.kit.pickerdoor import KEYS, PICKED

if TYPE_CHECKING:
    from textual.pilot import Pilot

OURS = {"restore": ("--exact", "--index", "--force", "--foreign"), "undo": ("--force",), "redo": ("--force",)}
SAYING = ("--json", "-v", "--verbose")
PATIENCE = 60.0


def steps(plan: RestorePlan) -> list[tuple[str, str, str]]:
    """What a plan does to which path."""
    return [(step.path, step.action, step.reason or "") for step in plan.steps]


class Hands:
    """Somebody at the picker who wants one thing. ``errors``: what it said."""

    def __init__(self, verb: str) -> None:
        self.verb, self.errors = verb, list[BatonError]()

    def sit_down(self, app: picker.Picker) -> int:
        """Do it, and leave. Raises BatonError as the picker showed it."""
        asyncio.run(self.work(app))
        if self.errors and not app.deeds.restored:
            raise self.errors[-1]
        return 0

    async def work(self, app: picker.Picker) -> None:
        async with app.run_test(size=(100, 30)) as pilot:
            await self.until(pilot, lambda: bool(app.rows) and app.selected is not None)
            if app.chosen is None:  # the open turn stands above the newest checkpoint
                await pilot.press("down")
            await pilot.press(KEYS[self.verb])
            while not app.deeds.restored and not self.errors:
                await self.until(pilot, lambda: app.shown is not None or bool(self.errors))
                shown = app.shown
                if shown is None:
                    break
                if shown.plan.op != self.verb:  # of a turn both are offered
                    await pilot.press("tab")
                    continue
                await pilot.press("enter")
                await self.until(pilot, lambda: not app.busy)
                await self.until(pilot, lambda: app.shown is not shown or bool(self.errors))  # noqa: B023
                if app.deeds.restored:
                    assert steps(app.deeds.restored[0][0].plan) == steps(shown.plan), "it is not what was shown"
            await pilot.press("q")

    async def until(self, pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "nothing happens"
            await pilot.pause(0.01)


def able(words: list[str]) -> bool:
    """Whether the picker can be asked for it."""
    if not words or words[0] not in KEYS:
        return False
    rest = [word for word in words[1:] if word not in (*OURS[words[0]], *SAYING)]
    with Baton(door="binary") as baton:
        try:
            stored: Stored = baton.lead(*rest[:1])
        except BatonError:
            return False
    return stored.checkpoint.kind != "safety" and len(rest) <= (words[0] == "restore")


def main(words: list[str]) -> int:
    """Run it; the exit code."""
    if not able(words):
        return run()
    hands, verb = Hands(words[0]), words[0]
    really = pickerviews.failed

    def failed(error: BatonError) -> Any:
        hands.errors.append(error)
        return really(error)

    def told(plan: RestorePlan, *given: Any, **words_: Any) -> None:
        with open(os.environ.get(PICKED, os.devnull), "a") as file:
            file.write(f"{verb}\n")
        restore.show_plan(
            plan, *given, **{**words_, "json": "--json" in words, "verbose": bool({*words} & {"-v", "--verbose"})}
        )

    picker.failed = failed  # type: ignore[attr-defined]
    picker.Picker.complain = lambda self, error: hands.errors.append(error)  # type: ignore
    picker.Picker.run = lambda self: hands.sit_down(self)  # type: ignore
    terminal.given_back = contextlib.nullcontext  # type: ignore
    pickerviews.show_plan = told  # type: ignore[attr-defined]
    os.isatty = lambda _: True
    os.environ["TERM"] = "xterm"
    sys.argv[1:] = ["rewind", *(word for word in words[1:] if word not in SAYING)]
    return run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
