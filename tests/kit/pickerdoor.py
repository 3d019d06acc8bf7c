"""Tests of a module once more, with restore, undo and redo done in the picker wherever it can be asked for them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from tests.kit.forkserver import python
from tests.kit.places import ROOT
from tests.kit.repos import Outcome, Sandbox

KEYS = {"restore": "enter", "undo": "u", "redo": "r"}
PICKED = "GITBATON_TEST_PICKED"  # names a file that gets a line for each deed
JOURNEYS = {
    "test_t01_untracked_files_of_somebody_else_are_kept_and_named",
    "test_t03_a_commit_after_the_checkpoint_stays_where_it_is",
    "test_t04_deleted_after_the_checkpoint_is_present_again",
    "test_t05_another_tracks_work_is_a_conflict_and_left_alone",
    "test_t24_crlf_exec_links_and_names_are_what_they_were",
}
# Tests of how a process is started, and not of what it restores; and where files never stay as the plan had shown them.
HOW = ("hook", "by_environment", "current_directory", "written_while_restore_runs")


def contract(wanted: Callable[[str], bool], *modules: ModuleType) -> dict[str, object]:
    """Their fixtures, and those of their tests whose names are wanted, by name."""
    named = {name: item for module in modules for name, item in vars(module).items()}
    fixtures = {name: item for name, item in named.items() if "fixture" in type(item).__name__.lower()}
    tests = {name: item for name, item in named.items() if name.startswith("test_") and inspect.isfunction(item)}
    return fixtures | {name: item for name, item in tests.items() if wanted(name) and not any(word in name for word in HOW)}


@pytest.fixture(autouse=True)
def picked(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The picker in the place of the verbs; the file that says what was done in it."""
    told = tmp_path_factory.mktemp("picked") / "told"
    really = Sandbox.baton

    def baton(
        box: Sandbox, *args: str, env: Mapping[str, str] | None = None, stdin: bytes | None = None, cwd: Path | None = None
    ) -> Outcome:
        if not args or args[0] not in KEYS:
            return really(box, *args, env=env, stdin=stdin, cwd=cwd)
        given = {**os.environ, **(env or {}), "PYTHONPATH": str(ROOT), PICKED: str(told)}
        done = python(["-m", "tests.kit.pickerrun", *args], os.fspath(cwd or box.path), given, stdin or b"")
        return Outcome(done.code, done.out.decode("utf-8", "surrogateescape"), done.err.decode("utf-8", "surrogateescape"))

    monkeypatch.setattr(Sandbox, "baton", baton)
    return told
