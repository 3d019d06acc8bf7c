"""LangGraph's own tests on GitSaver: all that have a checkpointer, of the very version that is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.kit.langgraphplugin import ALLOW, FIXTURES
from tests.kit.places import ROOT
from tests.kit.tiers import full

pytest.importorskip("langgraph.graph")

# What they use beside what we have; neither needs anything more.
MORE = ("syrupy", "pytest-mock")
# These fail by design: a class that nobody allowed comes back as its plain content. The other savers build any class, and warn;
# GitSaver builds what it is told to.
NOT_ALLOWED = {
    "tests/test_large_cases.py::test_conditional_state_graph[git]": [
        f"tests.agents Agent{word}" for word in ("Action", "Finish")
    ],
    "tests/test_large_cases_async.py::test_conditional_graph_state[git]": [
        f"langchain_core.agents Agent{word}" for word in ("Action", "Finish")
    ],
    "tests/test_pydantic.py::test_interrupt_functional_pydantic[git]": ["tests.test_pydantic FunctionalState"],
}
LEAST = 600  # 648 of 1.2.22


def pip(*words: str) -> None:
    """Let pip get something; skip the test where it cannot."""
    done = subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, text=True, timeout=300)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        pytest.skip(f"LangGraph's own tests are not to be had: pip {words[0]}: {said[-1] if said else done.returncode}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Their tests, from the source distribution of the installed version, with our fixtures after theirs."""
    place, wanted = tmp_path_factory.mktemp("langgraph"), f"langgraph=={version('langgraph')}"
    pip("download", "-q", "--no-deps", "--no-binary", "langgraph", "--dest", os.fspath(place), wanted)
    pip("install", "-q", "--no-deps", "--target", os.fspath(place / "more"), *MORE)
    (found,) = place.glob("langgraph-*.tar.gz")
    with tarfile.open(found) as archive:
        archive.extractall(place, filter="data")
    (tests,) = place.glob("langgraph-*/tests")
    tests.rename(place / "tests")
    shutil.copy(ROOT / "tests" / "kit" / "langgraphplugin.py", place)
    with (place / "tests" / "conftest.py").open("a") as file:
        file.write(f"\n\nfrom langgraphplugin import {', '.join(FIXTURES)}  # noqa\n")
    return place


def asked(folder: Path, *words: str, allow: Sequence[str] = ()) -> str:
    """What pytest says of their tests; some may fail, and an error is no answer."""
    env = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST")}
    paths = os.pathsep.join([os.fspath(folder), os.fspath(folder / "more")])
    env |= {"PYTHONPATH": paths, "NO_DOCKER": "true", ALLOW: ",".join(allow)}
    options = ["-q", "-p", "langgraphplugin", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", "."]
    argv = [sys.executable, "-m", "pytest", *options, *words]
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-2000:]
    return done.stdout


def run(folder: Path, *words: str, allow: Sequence[str] = ()) -> tuple[set[str], set[str]]:
    """The names of the tests that passed, and of those that failed; an error is no result."""
    asked(folder, "--tb=short", "--junitxml=result.xml", *words, allow=allow)
    passed, failed = set[str](), set[str]()
    for case in ElementTree.parse(folder / "result.xml").iter("testcase"):
        name = f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
        assert case.find("error") is None, f"{name}: {case.find('error')}"
        if case.find("skipped") is None:
            (failed if case.find("failure") is not None else passed).add(name)
    return passed, failed


def listed(folder: Path) -> list[str]:
    """The names of those that have a checkpointer of ours, in the order of their files."""
    files = sorted((folder / "tests").glob("test_*.py"))
    having = [os.fspath(path.relative_to(folder)) for path in files if any(name in path.read_text() for name in FIXTURES)]
    return [row for row in asked(folder, "--collect-only", *having).splitlines() if "::" in row]


@pytest.mark.parametrize("share", [20, full(1)], ids=["a twentieth", "all"])
def test_all_pass_but_those_that_unpack_classes_of_their_own(folder: Path, share: int) -> None:
    chosen = listed(folder)[::share]
    passed, failed = run(folder, "-n", "2", *chosen)
    assert failed == {*NOT_ALLOWED} & {*chosen} and len(passed) >= LEAST // share, (failed, len(passed))


def test_those_pass_when_the_classes_are_allowed(folder: Path) -> None:
    passed, failed = run(folder, *NOT_ALLOWED, allow=[*chain(*NOT_ALLOWED.values())])
    assert not failed and passed == {*NOT_ALLOWED}, (passed, failed)
