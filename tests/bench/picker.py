"""The bench of rewind's screen: its first list beside a bare list of textual's with the same rows."""

from __future__ import annotations

import fcntl
import os
import pty
import resource
import select
import statistics
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from gitbaton import Baton
from gitbaton.care.tools import rewinding
from tests.bench.baton import make
from tests.bench.harness import Command
from tests.kit.manytracks import many_tracks, track

SIZE = (24, 80)
BARE = """
import sys
from textual.app import App
from textual.widgets import OptionList
class Bare(App):
    def compose(self):
        yield OptionList(*open(sys.argv[1]).read().splitlines(), markup=False)
Bare().run()
"""


def first(command: Command, cwd: Path, env: dict[str, str], wanted: bytes) -> tuple[float, float]:
    """Milliseconds until a text is on the screen of a terminal, and of processor time until then, when the program is ended."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *SIZE, 0, 0))
    before, start, seen = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter(), b""
    child = subprocess.Popen(command, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    while wanted not in seen:
        if not select.select([master], [], [], 60)[0]:
            raise SystemExit(f"{command[0]} shows nothing: {seen[-500:]!r}")
        seen += os.read(master, 1 << 16)
    spent = (time.perf_counter() - start) * 1000
    child.kill()
    child.wait()
    os.close(master)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def prepared(folder: Path, env: dict[str, str], history: int) -> tuple[Path, Path]:
    """A repository with so many checkpoints, of which the newest 200 changed a file, and a file with the rows of them all."""
    from gitbaton.cli.commands.pickerviews import Views
    from gitbaton.cli.look import Look

    path, rows = folder / f"picker{history}", folder / f"picker{history}.rows"
    if not path.exists():
        make(path, 1000, env)
        many_tracks(path, 1, depth=max(history - 200, 1), env=env)
        with Baton(path) as baton:
            for i in range(max(history - 200, 0), history):
                (path / "d0" / "f0.txt").write_text(f"{i}\n")
                baton.snapshot(f"step {i}", track=track(0))
    with Baton(path) as baton:
        look, tip = Look(baton, {}), baton.tip(track(0))
        views, found = Views(baton, look), rewinding.page(baton, track(0), tip.commit, history).rows
        views.names |= look.ids(row.stored.id for row in found)
        rows.write_text("".join("".join(text for text, _ in views.row(row, SIZE[1])) + "\n" for row in found))
    return path, rows


def main(folder: Path, env: dict[str, str], runs: int, history: int) -> list[str]:
    """Both in turn; medians of what they take until the newest row is shown."""
    path, rows = prepared(folder, env, history)
    script = folder / "bare.py"
    script.write_text(BARE)
    env = {**env, "TERM": "xterm-256color"}
    newest = rows.read_text().partition("\n")[0].split("step ")[1].encode()
    took: dict[str, list[tuple[float, float]]] = {"ours": [], "bare": []}
    for count in range(runs + 1):
        found = {
            "ours": first(("git-baton", "rewind"), path, env, b"step " + newest),
            "bare": first((sys.executable, str(script), str(rows)), path, env, b"step " + newest),
        }
        for name, one in found.items():
            took[name] += [one] if count else []  # the first pair warms up
    lines = []
    for at, what in enumerate(("until the first list is shown", "of processor time")):
        ours, bare = (statistics.median(one[at] for one in took[name]) for name in ("ours", "bare"))
        ratio = statistics.median(a[at] / b[at] for a, b in zip(took["ours"], took["bare"], strict=True))
        verdict = f"; 1.6x {'ok' if ratio <= 1.6 else 'MISSED'}" if at == 0 else ""
        lines.append(f"rewind, {history:,} checkpoints, {what}: {ours:.0f} ms; bare list {bare:.0f} ms; {ratio:.2f}x{verdict}")
    return lines
