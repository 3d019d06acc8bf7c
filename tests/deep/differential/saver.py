"""What a LangGraph saver is asked for in one sitting, all from a seed, whichever version it is: arguments SEED SITTING."""

from __future__ import annotations

import json
import random
import sys
from typing import Any

THREADS = ("chat", "tool/é", "x" * 450)
SPACES = ("", "child:1|a")
CHANNELS = ("messages", "plan", "c.d/é")


def play(seed: int, sitting: int) -> None:
    """Put, write, copy, prune and delete; then print all that is there."""
    from gitbaton.langgraph import GitSaver

    chance = random.Random(f"{seed} {sitting}")
    with GitSaver(".") as saver:
        for number in range(chance.randrange(4, 60)):
            call(saver, chance, sitting * 100 + number)
        if chance.random() < 0.5:
            saver.flush()
            call(saver, chance, sitting * 100 + 99)
        for found in saver.list(None):
            print(json.dumps([found.config, found.checkpoint, found.metadata, found.parent_config, found.pending_writes]))


def call(saver: Any, chance: random.Random, number: int) -> None:
    """One call; what it raises is printed."""
    thread, space = chance.choice(THREADS), chance.choice(SPACES)
    config: dict[str, Any] = {"configurable": {"thread_id": thread, "checkpoint_ns": space}}
    kind, other = chance.random(), chance.choice(THREADS)
    try:
        if kind < 0.7:
            newest = saver.get_tuple(config)
            old = newest.checkpoint if newest is not None and chance.random() < 0.9 else {}
            if old:
                config["configurable"]["checkpoint_id"] = old["id"]
            values, versions = dict(old.get("channel_values", {})), dict(old.get("channel_versions", {}))
            changed = {name: number for name in CHANNELS if not old or chance.random() < 0.5}
            versions |= changed
            values |= {name: [*values.get(name, [])[-40:], "word " * chance.randrange(9) + str(number)] for name in changed}
            id = number if chance.random() < 0.8 else chance.randrange(number + 1)  # or one far below, or there already
            checkpoint = {"v": 1, "ts": f"2026-02-01T00:{number % 60:02}:00+00:00", "id": f"id-{id:05}", "versions_seen": {}}
            about = {"source": "loop", "step": number, "run_id": f"run-{number % 7}"}
            saver.put(config, checkpoint | {"channel_values": values, "channel_versions": versions}, about, changed)
        elif kind < 0.9:
            config["configurable"]["checkpoint_id"] = f"id-{chance.randrange(number + 2):05}"
            channel = chance.choice((*CHANNELS, "__error__"))
            saver.put_writes(config, [(channel, number)] * chance.randrange(1, 3), f"task-{number % 3}", "~p")
        elif kind < 0.93:
            saver.flush()
        elif kind < 0.95:
            saver.copy_thread(thread, other)
        elif kind < 0.97:
            saver.delete_for_runs([f"run-{chance.randrange(7)}"])
        else:
            saver.prune([thread], strategy=chance.choice(("keep_latest", "keep_latest", "delete")))
    except Exception as error:  # both sides raise the same, or the test says so
        print(type(error).__name__, error)


if __name__ == "__main__":
    play(*map(int, sys.argv[1:]))
