"""A LangGraph checkpointer on git, GitSaver. It needs the extra ``langgraph``, and only when it is asked for."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.langgraph.saver import GitSaver

__all__ = ["GitSaver"]


def __getattr__(name: str) -> object:
    if name != "GitSaver":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    try:
        from gitbaton.langgraph.saver import GitSaver
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "gitbaton":
            raise
        from gitbaton.base.system.extras import adding

        message = f"GitSaver needs LangGraph, and there is no module '{error.name}': {adding('langgraph')}"
        raise ImportError(message, name=error.name) from None
    return GitSaver
