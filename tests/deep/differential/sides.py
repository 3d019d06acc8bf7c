"""The two sides: the package at a commit of its history, taken out of git, and the work tree's own; one fork server each."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from tests.kit.forkserver import python
from tests.kit.places import DATA, ROOT
from tests.kit.repos import Outcome

COMMIT = (DATA / "old" / "COMMIT").read_text("ascii").strip()
CLOCK = Path(__file__).parent / "clock"
SAVER = (Path(__file__).parent / "saver.py").read_text("utf-8")


@dataclass(frozen=True)
class Side:
    """One version of the package: where it is imported from, and what starts it where git or a hook looks for ``git-baton``."""

    source: Path
    programs: Path

    def env(self, now: int) -> dict[str, str]:
        """The environment of a command at a moment of the injected clock."""
        return {
            **os.environ,
            "PYTHONPATH": f"{CLOCK}{os.pathsep}{self.source}",
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "DIFFERENTIAL_NOW": str(now),
            "GIT_AUTHOR_DATE": f"{now} +0000",
            "GIT_COMMITTER_DATE": f"{now} +0000",
        }

    def baton(self, words: Sequence[str], place: Path, now: int, stdin: bytes = b"") -> Outcome:
        """A command of this version; ``saver SEED SITTING`` is one of saver.py."""
        program = ["-c", SAVER, *words[1:]] if words[0] == "saver" else ["-m", "gitbaton", *words]
        done = python(program, os.fspath(place), self.env(now), stdin)
        assert words[0] != "saver" or (done.code, done.err) == (0, b""), done.err.decode()
        return Outcome(done.code, done.out.decode("utf-8", "surrogateescape"), done.err.decode("utf-8", "surrogateescape"))


def sides(folder: Path) -> tuple[Side, Side]:
    """The old package and the new one; the test is skipped where the history does not hold the old one."""
    old = folder / "old-package"
    done = subprocess.run(["git", "-C", str(ROOT), "archive", COMMIT, "gitbaton", "hooks"], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"the history here does not hold {COMMIT}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        how: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(old, **how)
    programs = folder / "programs"
    programs.mkdir()
    (programs / "git-baton").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitbaton "$@"\n')
    (programs / "git-baton").chmod(0o755)
    return Side(old, programs), Side(ROOT, programs)
