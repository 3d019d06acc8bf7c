"""Where things lie: the checkout, the package and the data of the tests; and Python for a shell, wherever that is."""

from __future__ import annotations

import shlex
import sys
import tarfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gitbaton"
DATA = ROOT / "tests" / "data"
PYTHON = shlex.quote(sys.executable)  # in a line of a shell


def program(source: str) -> str:
    """The text of a program in Python: the checkout lies anywhere, and a first line that names Python may hold no blank."""
    return f"#!/bin/sh\n'''exec' {PYTHON} \"$0\" \"$@\"\n' '''\n{source}"


def unpacked(archive: Path, place: Path, *tops: str) -> None:
    """Unpack an archive of ours, or what lies in some of its folders, as it is."""
    # The argument came with a late release of Python 3.11, and some later one warns without it.
    how: Any = {"filter": "fully_trusted"} if hasattr(tarfile, "fully_trusted_filter") else {}
    with tarfile.open(archive) as opened:
        opened.extractall(place, [each for each in opened.getmembers() if not tops or each.name.split("/")[0] in tops], **how)
