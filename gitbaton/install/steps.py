"""Steps that a plan of install or uninstall is made of."""

from __future__ import annotations

import os
from collections.abc import Callable

from gitbaton.git.repo import Repo, shared
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


def share(repo: Repo) -> None:
    """Let the others of a shared repository read, change and take back what was installed for all of it."""
    hooks = os.path.join(repo.shared_dir, "hooks")
    scripts = [os.path.join(hooks, name) for name in os.listdir(hooks)] if os.path.isdir(hooks) else []
    for path in (repo.shared_dir, *(os.path.join(repo.shared_dir, name) for name in ("installed", "agents")), hooks, *scripts):
        if os.path.lexists(path):
            shared(repo, path)
