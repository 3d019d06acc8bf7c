"""The bench of overlaps: a prompt among twenty live tracks of ten thousand files, and the day of eight agents as told."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.bench.baton import make
from tests.bench.harness import Row, pair
from tests.bench.sync import git
from tests.kit.eightagents import Day

TRACKS, EDITED = 20, 12  # and files that each has changed; one line of one of them is in every track's way


def prepared(folder: Path, env: dict[str, str], files: int) -> list[Path]:
    """Work trees of one repository, a live track each. They are sparse, and their trees are whole."""
    path = folder / f"overlap{files}"
    places = [folder / f"overlap{files}-{n}" for n in range(TRACKS)]
    if not path.exists():
        make(path, files, env)
        listed = git(path, env, "ls-files").split("\n")[:-1]
        common, rest = listed[0], listed[1:]
        for n, place in enumerate(places):
            git(path, env, "worktree", "add", "-q", "--no-checkout", "-b", f"t{n}", str(place))
            mine = [common, *rest[n * EDITED : (n + 1) * EDITED]]
            git(place, env, "sparse-checkout", "set", "--no-cone", *(f"/{name}" for name in mine))
            git(place, env, "checkout", "-q")
            edit(place, mine, f"t{n}")
            snapshot(place, env)
    return places


def edit(place: Path, names: list[str], text: str) -> None:
    """Change the first line of files."""
    for name in names:
        file = place / name
        file.write_text(f"{text}\n{file.read_text().partition(chr(10))[2]}")


def snapshot(place: Path, env: dict[str, str]) -> None:
    words = ("git-baton", "snapshot", "s", "--track", place.name.rpartition("-")[2])
    subprocess.run(words, cwd=place, env=env, check=True, stdout=subprocess.DEVNULL)


def main(folder: Path, env: dict[str, str], runs: int, files: int) -> list[Row]:
    """A row for each state of what is known when a prompt comes, beside the same prompt with ``baton.overlap=false``."""
    places = prepared(folder, env, files)
    known = places[0].parent / f"overlap{files}" / ".git" / "baton" / "overlaps"
    payload = folder / "prompt.json"
    payload.write_text(json.dumps({"session_id": "bench", "cwd": str(places[0]), "prompt": "go on", "hook_event_name": "x"}))
    off = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "baton.overlap", "GIT_CONFIG_VALUE_0": "false"}
    silent = " ".join(f"{key}={text}" for key, text in off.items())
    hook = "git-baton hook claude UserPromptSubmit"
    count = iter(range(1 << 20))

    def nothing() -> None:
        pass

    def one_moved() -> None:
        edit(places[1], [git(places[1], env, "ls-files", "-t").split("\n")[0][2:]], f"again {next(count)}")
        snapshot(places[1], env)

    def none_known() -> None:
        known.unlink(missing_ok=True)

    works: tuple[tuple[str, Callable[[], None]], ...] = (
        ("all pairs known", nothing),
        ("one track moved", one_moved),
        ("no pair known", none_known),
    )
    subprocess.run(("git-baton", "overlap"), cwd=places[0], env=env, stdout=subprocess.DEVNULL)
    rows = [
        pair(
            f"prompt, {TRACKS} tracks of {files:,} files: {name}",
            ("sh", "-c", f"{hook} <'{payload}'"),
            ("sh", "-c", f"{silent} {hook} <'{payload}'"),
            places[0],
            env,
            runs=runs,
            before=before,
            yardstick="the same, baton.overlap=false",
        )
        for name, before in works
    ]
    for name, before in (("all pairs known", nothing), ("no pair known", none_known)):
        words = ("sh", "-c", "git-baton overlap; test $? -le 1")
        rows.append(pair(f"overlap, {name}", words, ("git", "status", "-uall"), places[0], env, runs=runs, before=before))
    return rows


def day(folder: Path, env: dict[str, str], turns: int) -> Iterator[str]:
    """Yield what eight agents did in so many turns, and what each prompt told them."""
    os.environ |= env
    told = 0
    for said in Day(folder / "day", folder / "day-home", 39).turns(turns):
        told += len(said.rows)
        yield from (f"turn {said.turn:3}  {said.who:7} is told: {row}" for row in said.rows)
        yield f"turn {said.turn:3}  {said.who:7} edits {said.did or 'nothing'}"
    yield f"{turns} turns, {told} lines told"
