"""Hooks of git and of the coding agents. A guard never breaks the guarded: whatever goes wrong, the caller continues."""

from __future__ import annotations


def dispatch(words: list[str]) -> None:
    """``git baton hook CALLER EVENT ARGS``. Never raises."""
    if words[:1] == ["git"]:
        from gitbaton.agents.hooks import git

        git.run(words[1:])
    elif len(words) > 1:
        from gitbaton.agents.hooks import agent

        agent.run(words)
