"""``python -m tests.bench``: the table of medians and ratios beside plain git in the same run."""

from __future__ import annotations

import argparse
import platform
import subprocess
import tempfile
from pathlib import Path

from tests.bench import (
    agents,
    baton,
    durable,
    eight,
    files,
    harness,
    hooks,
    looking,
    overlap,
    packs,
    picker,
    restore,
    retention,
    savers,
    statusline,
    sync,
    tracks,
    year,
)

SIZES = "1000,10000,100000"


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--sizes", default=SIZES, help="how many files, comma-separated")
    parser.add_argument("--runs", type=int, default=11, help="counted pairs of each row")
    parser.add_argument("--history", type=int, default=10_000, help="checkpoints before the measured one; 0 leaves it out")
    parser.add_argument("--histories", default="10,1000,10000", help="checkpoints before an agent's event, comma-separated")
    parser.add_argument("--no-crowd", action="store_true", help="leave out the fifty writers")
    parser.add_argument("--folder", help="keep the repositories here and use them again")
    parser.add_argument("--seeds", type=int, default=20, help="plans with faults, each repaired and started again")
    parser.add_argument("--steps", type=int, default=12, help="steps of each plan")
    parser.add_argument("--savers", default=",".join(savers.NAMES), help="LangGraph's savers, comma-separated")
    parser.add_argument("--counts", default="1000,10000", help="checkpoints of a thread, comma-separated")
    parser.add_argument("--states", default="2048,51200", help="bytes of a checkpoint, comma-separated")
    parser.add_argument("--tracks", type=int, default=5_000, help="tracks of the repository with many")
    parser.add_argument("--reads", type=int, default=500, help="reads of each kind")
    parser.add_argument("--threads", type=int, default=3_000, help="threads with a checkpoint each; 0 leaves them out")
    parser.add_argument("--large", type=int, default=50, help="MiB of one large state; 0 leaves it out")
    parser.add_argument("--messages", type=int, default=500, help="messages of a channel that grows; 0 leaves it out")
    parser.add_argument("--turns", type=int, default=60, help="turns in the day of eight agents")
    parser.add_argument("--verb", default="", help="of the year only the lines with this word")
    parts = (
        "baton",
        "hooks",
        "restore",
        "agents",
        "sync",
        "retention",
        "durable",
        "savers",
        "tracks",
        "looking",
        "picker",
        "statusline",
        "year",
        "eight",
        "overlap",
        "files",
        "packs",
    )
    parser.add_argument("--seconds", type=int, default=600, help="how long eight agents work at once")
    parser.add_argument("--only", choices=parts, help="measure one part only")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    chosen = options()
    sizes = [int(size) for size in chosen.sizes.split(",")]
    git = subprocess.run(["git", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{git}, Python {platform.python_version()}, {chosen.runs} pairs a row\n")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:  # git may still be packing
        folder = Path(chosen.folder or temporary)
        env, only = baton.prepare(folder), chosen.only
        rows: list[harness.Row] = []
        lines: list[str] = []
        if only in (None, "baton"):
            rows, lines = baton.main(folder, env, sizes, chosen.runs, chosen.history, not chosen.no_crowd)
        if only in (None, "restore"):
            rows += restore.main(folder, sizes, env, chosen.runs)
        if only in (None, "hooks"):
            rows += hooks.main(folder, env, chosen.runs)
        if only in (None, "agents"):
            rows += agents.main(folder, env, chosen.runs, [int(count) for count in chosen.histories.split(",")])
        if only in (None, "sync"):
            more, said = sync.main(folder, env, chosen.runs, chosen.history)
            rows, lines = [*rows, *more], [*lines, *said]
        if only in (None, "retention"):
            rows += retention.main(folder, env, chosen.runs, chosen.history)
        if only in (None, "durable"):
            more, said = durable.main(folder, env, chosen.runs, chosen.seeds, chosen.steps)
            rows, lines = [*rows, *more], [*lines, *said]
        if only in (None, "tracks"):
            rows += tracks.main(folder, env, chosen.runs, chosen.tracks)
        if only in (None, "looking"):
            more, said = looking.main(folder, env, chosen.runs)
            rows, lines = [*rows, *more], [*lines, *said]
        if only in (None, "statusline"):
            more, said = statusline.main(folder, env, chosen.runs)
            rows, lines = [*rows, *more], [*lines, *said]
        if only in (None, "eight"):
            lines += eight.main(folder, env, chosen.seconds, chosen.seeds)
        if only in (None, "overlap"):
            rows += overlap.main(folder, env, chosen.runs, 10_000)
            lines.append("\n".join(overlap.day(folder, env, chosen.turns)))
        if only in (None, "picker"):
            lines += picker.main(folder, env, chosen.runs, chosen.history or 10_000)
        if only in (None, "savers"):
            counts, states = ([int(number) for number in text.split(",")] for text in (chosen.counts, chosen.states))
            wide = {"threads": chosen.threads, "large": chosen.large}
            lines += savers.main(folder, chosen.savers.split(","), counts, states, chosen.reads, chosen.messages, **wide)
        if only == "packs":  # nor are 400 turns
            lines += packs.main(folder, env)
        if only == "files":  # not among all: 200,000 files take minutes to be made
            for line in files.main(folder, env, chosen.runs, sizes if chosen.sizes != SIZES else files.SIZES):
                print(line, flush=True)
        if only == "year":  # not among all: it takes many minutes
            for line in year.main(folder, env, min(chosen.runs, 3), chosen.verb):
                print(line, flush=True)
    if rows:
        harness.show(rows)
    for line in filter(None, lines):
        print("\n" + line)


main()
