"""GitSaver as the checkpointer of LangGraph's own tests: a plugin of pytest, which is copied beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

FIXTURES = ("sync_checkpointer", "async_checkpointer")
ALLOW = "GITSAVER_ALLOW"  # "module Class" for each class, separated by commas
POSTGRES = [f"langgraph.{of}.postgres{end}" for of in ("checkpoint", "store") for end in ("", ".aio")]
SERVERS = ("redis", "psycopg", "psycopg_pool", "langgraph.cache.redis", *POSTGRES)


def pytest_load_initial_conftests() -> None:
    """Their fixtures import what asks servers that are not here, whether it is used or not."""
    for name in SERVERS:
        sys.modules.setdefault(name, MagicMock())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Only tests that have a checkpointer."""
    mine = [item for item in items if any(name in getattr(item, "fixturenames", ()) for name in FIXTURES)]
    config.hook.pytest_deselected(items=[item for item in items if item not in mine])
    items[:] = mine


def _saver(folder: Path) -> Any:
    from gitbaton.langgraph import GitSaver

    allow = [(module, name) for module, name in (each.split() for each in os.environ.get(ALLOW, "").split(",") if each)]
    return GitSaver(folder / "threads.git", fsync=False, allow=allow)


@pytest.fixture(params=["git"])
def sync_checkpointer(tmp_path: Path) -> Iterator[Any]:
    """In place of theirs."""
    with _saver(tmp_path) as saver:
        yield saver


@pytest.fixture(params=["git"])
async def async_checkpointer(tmp_path: Path) -> AsyncIterator[Any]:
    """In place of theirs."""
    async with _saver(tmp_path) as saver:
        yield saver
