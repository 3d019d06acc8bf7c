"""Makes the logs that lie beside it with the gitbaton that is imported: of a saver that was killed, and of one that was killed
in the middle of a flush, after the refs had moved and before the log let go.

    PYTHONPATH=<the package of that version> python tests/data/logs/make.py NAME

Not to be made again with a later one: the point is that these bytes are old."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from gitbaton.langgraph.threads import edit as flushing
from gitbaton.langgraph.threads.store import ThreadStore


def work(place: str, midway: bool) -> None:
    store = ThreadStore.open(place, every=1 << 30, idle=1e6)

    def put(number: int) -> None:
        above = store.entry("t", "", f"{number - 1:02}") if number else None
        channels: dict[str, Any] = {"c": ("str", b"value %d" % number), "big": ("str", b"x" * 500)}
        if above is not None:
            channels["big"] = above.channels["big"]
        assert store.put("t", "", f"{number:02}", f"{number - 1:02}" if number else None, b'{"v":1}', b"{}", channels)
        store.put_writes("t", "", f"{number:02}", [("", "task", 0, "c", "str", b"write %d" % number)], replace=False)

    for number in range(12):
        put(number)
        if number == 3:
            store.flush()
    put(5)  # once more
    if midway:
        flushing.settle = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        store.flush()
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    name = sys.argv[1]
    for kind in ("killed", "midway"):
        with tempfile.TemporaryDirectory() as top:
            place = os.path.join(top, "r.git")
            subprocess.run(["git", "init", "-q", "--bare", place], check=True)
            pid = os.fork()
            if not pid:
                work(place, kind == "midway")
            os.waitpid(pid, 0)
            subprocess.run(["rm", "-rf", os.path.join(place, "hooks")], check=True)
            with tarfile.open(Path(__file__).parent / f"{name}-{kind}.tar.xz", "w:xz", preset=9) as tar:
                tar.add(place, "r.git")


main()
