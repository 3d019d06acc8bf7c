"""Hand the baton over inside git: checkpoints of a coding agent's work, kept in the repository itself.

from gitbaton import Baton

with Baton("path/to/repository") as baton:
    baton.snapshot("parser done", track="main", next_cmd="pytest tests/parser", validation="green")
    print(baton.resume("main", live=True).stored.checkpoint.next_cmd)
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing's: importing typing costs each start 2 ms
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.3.0"
__all__ = ["Baton", "BatonError", "Checkpoint", "Request", "__version__"]

if TYPE_CHECKING:
    from gitbaton.base.errors import BatonError
    from gitbaton.base.model import Checkpoint
    from gitbaton.checkpoints.baton import Baton, Request

_HOMES = {"Baton": "checkpoints.baton", "Request": "checkpoints.baton", "BatonError": "base.errors", "Checkpoint": "base.model"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'gitbaton' has no attribute '{name}'")
    import importlib

    return getattr(importlib.import_module(f"gitbaton.{_HOMES[name]}"), name)
