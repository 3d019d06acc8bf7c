"""The budgets of part 4: each event of a client's hook beside `python -c pass` and `git status -uall`, by history."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from gitbaton import Baton
from tests.bench.baton import STATUS, editor, make
from tests.bench.harness import Row, pair

PASS = (sys.executable, "-c", "pass")
FILES = 10_000


def hook(event: str) -> tuple[str, ...]:
    """The command line that the client's settings hold."""
    return ("git-baton", "hook", "claude", event)


def prepared(folder: Path, env: dict[str, str], count: int) -> Path:
    """A repository of 10,000 files and one track of ``count`` checkpoints, the newest a manual one with files."""
    path = make(folder / f"agents{count}", FILES, env)
    with Baton(path) as baton:
        have = len(baton.store.history("bench").items) if baton.store.chains()[0] else 0
        for number in range(have, count - 1):
            baton.snapshot(f"step {number}", track="bench", files=False)
        if have < count:
            subprocess.run(["git", "repack", "-q", "-a", "-d"], cwd=path, env=env, check=True)
            baton.snapshot("parser done", track="bench", next_cmd="pytest", validation="green")
    return path


def payload(path: Path, cwd: Path, **more: str) -> Path:
    """The payload that every event gets: what the client says of its session."""
    words = {"session_id": "bench", "cwd": str(cwd), "prompt": "Go on\nplease", "source": "startup", "trigger": "auto", **more}
    path.write_text(json.dumps(words))
    return path


def quiet(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """What costs a client that has nothing to say to us, and a repository that has nothing to say to it."""
    outside = payload(folder / "outside.json", folder)
    empty = make(folder / "agents-empty", 100, env)
    (empty / ".git/baton").mkdir(exist_ok=True)
    nothing = payload(folder / "empty.json", empty)
    words = {"runs": runs, "budget": 5.0, "yardstick": "python -c pass"}
    return [
        pair("SessionStart, no repository", hook("SessionStart"), PASS, folder, env, stdin=outside, **words),  # type: ignore
        pair("SessionStart, no track", hook("SessionStart"), PASS, empty, env, stdin=nothing, **words),  # type: ignore
    ]


def events(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """The events of a session in a repository of 10,000 files."""
    path = prepared(folder, env, count)
    stdin = payload(folder / f"agents{count}.json", path)
    subprocess.run(["git", "checkout", "-q", "."], cwd=path, env=env, check=True)
    rows = []
    told: list[tuple[str, tuple[str, ...], float, Callable[[], None]]] = [
        ("UserPromptSubmit", PASS, 5.0, lambda: None),
        ("PostToolUse", PASS, 5.0, lambda: None),
        ("SessionStart", PASS, 5.0, lambda: None),
        ("Stop, nothing new", STATUS, 4.5, lambda: None),
        ("Stop, 10 files changed", STATUS, 4.5, editor(path, 10, FILES)),
        ("PreCompact, 10 files changed", STATUS, 4.5, editor(path, 10, FILES)),
    ]
    for name, theirs, budget, before in told:
        words = hook(name.split(",")[0])
        yardstick = "python -c pass" if theirs is PASS else " ".join(theirs)
        title = f"{name}, {count:,} checkpoints"
        rows.append(
            pair(title, words, theirs, path, env, runs=runs, budget=budget, before=before, yardstick=yardstick, stdin=stdin)
        )
    return rows


def talk(path: Path, size: int) -> Callable[[], None]:
    """A conversation of so many bytes, as a client writes it; each call goes on with 20 lines."""
    words = (Path(__file__).parents[1] / "bench/harness.py").read_text()
    number = 0

    def line() -> bytes:
        nonlocal number
        number += 1
        start = number * 97 % len(words)
        said = {"role": "assistant", "content": [{"type": "tool_result", "content": words[start : start + 2500]}]}
        row = {"type": "user", "uuid": f"{number:08x}-0000-4000-8000-000000000000", "sessionId": "bench", "message": said}
        return json.dumps(row).encode() + b"\n"

    with path.open("wb") as file:
        while file.tell() < size:
            file.write(line())

    def more() -> None:
        with path.open("ab") as file:
            file.write(b"".join(line() for _ in range(20)))

    return more


def conversations(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """The end of a turn whose conversation is stored, redacted, as it is by default."""
    path = prepared(folder, env, 200)
    subprocess.run(["git", "checkout", "-q", "."], cwd=path, env=env, check=True)
    edit, rows = editor(path, 10, FILES), []
    for size in (1, 20):
        said = folder / f"talk{size}.jsonl"
        more = talk(said, size << 20)
        stdin = payload(folder / f"talk{size}.json", path, session_id=f"talk{size}", transcript_path=str(said))
        edit()
        stored_all(path, stdin, env)

        def before(more: Callable[[], None] = more) -> None:
            edit()
            more()

        words = {"runs": runs, "budget": 6.5, "yardstick": " ".join(STATUS), "stdin": stdin}
        title = f"Stop, 20 lines more than {size} MiB"
        rows.append(pair(title, hook("Stop"), STATUS, path, env, before=before, **words))  # type: ignore
    return rows


def stored_all(path: Path, stdin: Path, env: dict[str, str]) -> None:
    """The whole conversation is stored, by the process that nobody waits for."""
    size, session = Path(json.loads(stdin.read_bytes())["transcript_path"]).stat().st_size, stdin.stem
    meta = ["git", "cat-file", "blob", f"refs/baton/transcripts/claude/{session}:meta"]
    while True:
        subprocess.run(hook("Stop"), stdin=stdin.open(), cwd=path, env=env, check=True)
        for _ in range(120):
            done = subprocess.run(meta, cwd=path, env=env, capture_output=True)
            if done.returncode == 0 and json.loads(done.stdout)["bytes"] == size:
                return
            time.sleep(0.5)


def growing(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """What a conversation adds to a hook: the end of a turn that brings 200 KB, beside the same without a transcript; before a
    compaction, and at a start after a session of 50 MB died, beside `git status`."""
    path = prepared(folder, env, 200)
    subprocess.run(["git", "checkout", "-q", "."], cwd=path, env=env, check=True)
    edit, rows = editor(path, 10, FILES), []
    none = payload(folder / "none.json", path, session_id="none")
    for size in (1, 20, 50):
        said = folder / f"growing{size}.jsonl"
        more = calls(said, size << 20)
        stdin = payload(folder / f"growing{size}.json", path, session_id=f"growing{size}", transcript_path=str(said))
        edit()
        stored_all(path, stdin, env)

        def before(more: Callable[[], None] = more) -> None:
            edit()
            more()

        ours, theirs = (("sh", "-c", f"{' '.join(hook('Stop'))} <{each}") for each in (stdin, none))
        words = {"runs": runs, "before": before, "yardstick": "the same without a transcript"}
        rows.append(pair(f"Stop, 200 KB more than {size} MiB", ours, theirs, path, env, **words))  # type: ignore
    status = {"runs": max(1, runs // 3), "before": before, "yardstick": " ".join(STATUS)}
    rows.append(pair("PreCompact, 200 KB more than 50 MiB", hook("PreCompact"), STATUS, path, env, stdin=stdin, **status))  # type: ignore
    other = payload(folder / "other.json", path, session_id="other")

    def died() -> None:
        before()
        subprocess.run(hook("UserPromptSubmit"), stdin=stdin.open(), cwd=path, env=env, check=True)
        for left in path.glob(".git/baton/sessions/*.facts"):
            left.unlink()

    words = {**status, "before": died}
    rows.append(pair("SessionStart, a session of 50 MiB died", hook("SessionStart"), STATUS, path, env, stdin=other, **words))  # type: ignore
    return rows


def calls(path: Path, size: int) -> Callable[[], None]:
    """A session's transcript of so many bytes, commands and their output; each call goes on with 200 KB."""
    number = 0

    def lines() -> bytes:
        nonlocal number
        number += 1
        at, key = f"2026-11-22T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000Z", f"t{number}"
        ran = "pytest -q" if number % 5 == 0 else f"grep -rn word{number} src"
        result = {"type": "tool_result", "tool_use_id": key, "content": "x" * 3000 + "\n3 passed in 0.1s"}
        use = {"type": "tool_use", "id": key, "name": "Bash", "input": {"command": ran}}
        told = [("assistant", use), ("user", result)]
        rows = [
            {"type": who, "timestamp": at, "uuid": f"{number}-{who}", "message": {"role": who, "content": [part]}}
            for who, part in told
        ]
        return b"".join(json.dumps(row).encode() + b"\n" for row in rows)

    def more() -> None:
        with path.open("ab") as file:
            while size > 0 and file.write(b"".join(lines() for _ in range(60))) < 200_000:
                pass

    with path.open("wb") as file:
        while file.tell() < size:
            file.write(lines())
    return more


def observing(folder: Path, env: dict[str, str], runs: int) -> list[Row]:
    """The end of a turn beside the same with ``baton.observe`` none: 200 KB more, and the first look at 20 MiB."""
    path, said = prepared(folder, env, 200), folder / "calls.jsonl"
    subprocess.run(["git", "checkout", "-q", "."], cwd=path, env=env, check=True)
    env = {**env, "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "baton.transcripts", "GIT_CONFIG_VALUE_0": "position"}
    none = "GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_1=baton.observe GIT_CONFIG_VALUE_1=none"
    edit, rows = editor(path, 10, FILES), []
    more = calls(said, 20 << 20)
    stdin = payload(folder / "calls.json", path, session_id="calls", transcript_path=str(said))
    stop = f"{' '.join(hook('Stop'))} <{stdin}"

    def grown() -> None:
        edit()
        more()

    def fresh() -> None:
        edit()
        for left in path.glob(".git/baton/sessions/*.facts"):
            left.unlink()

    for title, before in (("200 KB more than", grown), ("first look at", fresh)):
        words = {"runs": runs, "before": before, "yardstick": "the same, baton.observe none"}
        rows.append(pair(f"Stop, {title} 20 MiB", ("sh", "-c", stop), ("sh", "-c", f"{none} {stop}"), path, env, **words))  # type: ignore
    return rows


def main(folder: Path, env: dict[str, str], runs: int, histories: list[int]) -> list[Row]:
    """All rows of part 4, and what a stored conversation adds to them."""
    rows = [row for count in histories for row in events(folder, env, runs, count)]
    more = [conversations, growing, observing]
    return [*quiet(folder, env, runs), *rows, *(row for each in more for row in each(folder, env, runs))]
