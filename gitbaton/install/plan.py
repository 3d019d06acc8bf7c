"""Plan and apply: the steps of an install or uninstall, told before they are done."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from gitbaton.errors import BatonError
from gitbaton.git.repo import Repo, shared
from gitbaton.install.files import drop_folders
from gitbaton.values import value


@value
class Step:
    """One change that a plan makes: what to tell, and the function that does it; ``check`` raises when it must not any more."""

    text: str
    run: Callable[[], object]
    check: Callable[[], object]


@value
class Plan:
    """Steps in their order. ``notices`` always matter; ``remarks`` are for when something is done.

    ``locked`` keeps other installs out meanwhile; ``folders`` go at the end, if they are empty then.
    """

    steps: tuple[Step, ...]
    notices: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    locked: Callable[[], AbstractContextManager[None]] = nullcontext
    folders: tuple[str, ...] = ()


class Draft:
    """A plan in the making."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.notices: list[str] = []

    def step(self, text: str, run: Callable[[], object], check: Callable[[], object] = lambda: None) -> None:
        """Plan a step."""
        self.steps.append(Step(text=text, run=run, check=check))

    def plan(self) -> Plan:
        """The plan."""
        return Plan(steps=tuple(self.steps), notices=tuple(dict.fromkeys(self.notices)))


def apply(plan: Plan, done: Callable[[str], object] | None = None) -> None:
    """Carry out a plan, unless a check fails: then nothing is changed. ``done`` is told each step after it.

    Raises BatonError; what was done by then stays, and the next run goes on from there.
    """
    if not plan.steps:
        return
    about, count = "the records of what is installed cannot be written", 0
    try:
        with plan.locked():
            for step in plan.steps:
                step.check()
            for step in plan.steps:
                about = step.text
                step.run()
                if done is not None:
                    done(step.text)
                    count += 1
    except OSError as error:
        stays = [f"{count} of {len(plan.steps)} steps are done and stay; run it again for the rest"] if count else []
        raise BatonError(f"{about}: {error.strerror or error}", *stays) from None
    drop_folders(plan.folders)


def share(repo: Repo) -> None:
    """Let the others of a shared repository read, change and take back what was installed for all of it."""
    hooks = os.path.join(repo.shared_dir, "hooks")
    scripts = [os.path.join(hooks, name) for name in os.listdir(hooks)] if os.path.isdir(hooks) else []
    for path in (repo.shared_dir, *(os.path.join(repo.shared_dir, name) for name in ("installed", "agents")), hooks, *scripts):
        if os.path.lexists(path):
            shared(repo, path)
