"""An automatic checkpoint keeps somebody's words visible, says what happened since, and never hides newer words."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.agents import PROGRAM, Client, autos, checkpoints, log_of, steps, untouched
from tests.kit.state import snap
from tests.kit.tiers import some

MANUAL = ("--note", "N1\nN2", "--next-cmd", "C && D", "--validation", "green", "--decision", "D1", "--decision", "D2")
EXTRA = ("--extra", "k=v")
CARRIED = ("note", "next_cmd", "validation", "decisions", "extra")


def resumed(repo: Sandbox, *options: str) -> dict[str, str]:
    """The lines of ``git baton resume`` by key, in their order."""
    found: dict[str, str] = {}
    key = ""
    for row in repo.ok("resume", "--porcelain", "--track", "t", *options).out.splitlines():
        if row.startswith("\t"):
            found[key] += "\n" + row[1:]
        else:
            key, value = row.split("=", 1)
            found[key] = found[key] + "\n" + value if key in found else value
    return found


def since(repo: Sandbox, *options: str) -> dict[str, Any]:
    """What ``resume --json`` says has happened since."""
    found: dict[str, Any] = repo.ok("resume", "--track", "t", "--json", *options).json["since"]
    return found


def check_carried(repo: Sandbox, track: str = "t") -> None:
    """Every automatic checkpoint of a chain carries exactly the words of the last manual one before it."""
    last: dict[str, Any] | None = None
    for record in checkpoints(repo, track):
        if record["kind"] == "manual":
            last = record
            continue
        if record["kind"] != "auto":
            continue
        assert (record.get("carried") is None) == (last is None), record["step"]
        if last is not None:
            assert record["carried"]["id"] == last["id"], (
                f"{record['step']} carries {record['carried']['step']!r}, not {last['step']!r}"
            )
            assert {k: record[k] for k in CARRIED} == {k: last[k] for k in CARRIED}
            assert (record["carried"]["step"], record["carried"]["created"]) == (last["step"], last["created"])


@pytest.mark.full
def test_words_first_then_what_happened(repo: Sandbox) -> None:
    written = snap(repo, "t", "S\nmore", *MANUAL, *EXTRA)
    client = Client("claude", repo.path)
    for number in range(3):
        repo.write(f"f{number}.txt", "x\n")
        client.turn(f"prompt {number}")
    repo.write("late.txt", "x\n")
    client.fire("compact", trigger="auto")
    repo.commit("work", a_txt="two\n")
    client.turn("commit it")
    said = resumed(repo)
    assert said["step"].startswith("S") and said["note"] == "N1\nN2" and said["next_cmd"] == "C && D"
    assert said["decision"] == "D1\nD2" and said["extra.k"] == "v"
    order = list(said)
    assert max(order.index(k) for k in ("step", "note", "next_cmd", "decision", "extra.k")) < order.index("since")
    assert said["carried"].startswith(written)
    assert said["validation"] != "green" and said["validation"].startswith("green") and "stale" in said["validation"]
    assert said["title"] == "turn 4  commit it" and said["since"] == '"S": 4 turns, 5 files, 1 commit'
    assert since(repo) == {"turns": 4, "files_changed": 5, "commits": 1, "gone": 0, "stale": True}
    assert since(repo, "--live") == since(repo)
    live = repo.ok("resume", "--live", "--json").json
    assert live["checkpoint"]["kind"] == "auto" and live["checkpoint"]["carried"]["id"] == written
    assert live["live"]["drift"] == [] and live["live"]["files_changed"] == 0, "the newest checkpoint is of now"
    assert live["live"]["words"] == {"drift": ["head-ahead:1", "files-changed:5"], "moved": True, "files_changed": 5}
    check_carried(repo)


@pytest.mark.full
def test_nothing_changed_is_not_stale(repo: Sandbox) -> None:
    snap(repo, "t", "S", *MANUAL)
    client = Client("codex", repo.path)
    client.turn("talk")
    repo.commit("nothing")
    client.turn("talk more")
    assert autos(repo, "t"), "a commit was made"
    assert resumed(repo)["validation"] == "green"
    assert since(repo)["stale"] is False and since(repo)["commits"] == 1
    assert "stale" not in client.fire("start")


@pytest.mark.full
def test_a_change_that_was_taken_back_is_not_stale(repo: Sandbox) -> None:
    snap(repo, "t", "S", *MANUAL)
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("change")
    assert "stale" in resumed(repo)["validation"] and "stale" in client.fire("start")
    repo.write("a.txt", "one\n")
    client.turn("change back")
    assert resumed(repo)["validation"] == "green"
    assert since(repo)["stale"] is False and since(repo)["turns"] == 2


@pytest.mark.full
def test_staging_and_committing_what_was_validated_is_not_stale(repo: Sandbox) -> None:
    repo.write("a.txt", "two\n")
    snap(repo, "t", "S", *MANUAL)
    client = Client("claude", repo.path)
    repo.git("add", "-A")
    client.turn("stage")
    repo.commit("work")
    client.turn("commit")
    assert resumed(repo)["validation"] == "green" and since(repo)["commits"] == 1


@pytest.mark.full
@some("after", ["manual", "auto"])
def test_an_edit_that_no_checkpoint_holds_yet_makes_it_stale(repo: Sandbox, after: str) -> None:
    snap(repo, "t", "S", *MANUAL)
    client = Client("claude", repo.path)
    if after == "auto":
        repo.commit("nothing")
        client.turn("talk")
    assert "stale" not in client.fire("start")
    repo.write("new.txt", "x\n")
    text = client.fire("start")
    assert "stale" in next(row for row in text.splitlines() if row.startswith("validation"))
    assert "stale" in resumed(repo, "--live")["validation"]
    assert since(repo, "--live")["stale"] is True


@pytest.mark.full
@some("validation", ["pending", "failed"])
def test_other_validations_stay_what_they_are(repo: Sandbox, validation: str) -> None:
    snap(repo, "t", "S", "--validation", validation)
    repo.write("a.txt", "two\n")
    Client("claude", repo.path).turn("change")
    assert resumed(repo)["validation"].startswith(validation)


@pytest.mark.deep
def test_a_manual_checkpoint_without_files(repo: Sandbox) -> None:
    snap(repo, "t", "S", *MANUAL, "--no-files")
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("change")
    assert resumed(repo)["step"] == "S"
    assert since(repo)["turns"] == 1
    assert "S" in client.fire("start")
    check_carried(repo)


@pytest.mark.full
def test_a_new_manual_one_between(repo: Sandbox) -> None:
    client = Client("gemini", repo.path)
    for number in range(3):
        snap(repo, "t", f"S{number}", "--next-cmd", f"C{number}")
        for turn in range(2):
            repo.write("a.txt", f"{number} {turn}\n")
            client.turn(f"p{number}{turn}")
        assert resumed(repo)["step"] == f"S{number}" and resumed(repo)["next_cmd"] == f"C{number}"
        assert since(repo)["turns"] == 2
        assert f"S{number}" in client.fire("start") and f"C{number}" in client.fire("prompt", prompt="x")
    check_carried(repo)
    snap(repo, "t", "last")
    assert resumed(repo)["next_cmd"] == "" and "carried" not in resumed(repo)
    assert "C2" not in client.fire("start")


@pytest.mark.deep
def test_every_turn_that_ended_is_counted(repo: Sandbox) -> None:
    snap(repo, "t", "S", *MANUAL)
    client = Client("claude", repo.path)
    for number, edits in enumerate((True, False, True)):
        if edits:
            repo.write("a.txt", f"{number}\n")
        client.turn(f"p{number}")
    assert since(repo)["turns"] == 3


@some("turns", [0, 1])
def test_the_ground_moved_below_the_words(repo: Sandbox, turns: int) -> None:
    """Commits that the words stand on are gone from HEAD: an automatic checkpoint on the new ground must not hide that."""
    for number in range(3):
        repo.commit(f"c{number}", **{f"f{number}_txt": "x\n"})
    snap(repo, "t", "S", *MANUAL)
    client = Client("claude", repo.path)
    repo.git("reset", "-q", "--hard", "HEAD~2")
    for _ in range(turns):
        client.turn("take it back")
    for said in (client.fire("start"), repo.ok("resume", "--porcelain", "--live").out):
        assert re.search("behind|rewritten|missing|no longer|gone", said), f"nobody is told that HEAD went back\n{said}"


@pytest.mark.deep
@some("turns", [0, 1])
def test_the_branch_changed_since_the_words(repo: Sandbox, turns: int) -> None:
    snap(repo, "t", "S", *MANUAL)
    client = Client("claude", repo.path)
    repo.git("checkout", "-q", "-b", "elsewhere")
    repo.write("a.txt", "two\n")
    for _ in range(turns):
        client.turn("go on")
    for said in (client.fire("start"), repo.ok("resume", "--porcelain", "--live").out):
        assert "main" in said, f"nobody is told that the words were written on another branch\n{said}"


@pytest.mark.full
def test_only_auto_checkpoints_have_no_words_to_carry(repo: Sandbox) -> None:
    snap(repo, "elsewhere", "S", *MANUAL)
    client = Client("claude", repo.path)
    for number in range(3):
        repo.write("a.txt", f"{number}\n")
        client.turn(f"p{number}", "--track", "t")
    assert steps(checkpoints(repo, "t")) == ["turn ended: p0", *(f"turn ended: p0; last prompt: p{n}" for n in (1, 2))]
    check_carried(repo)
    assert resumed(repo)["step"] == "turn ended: p0; last prompt: p2" and resumed(repo)["next_cmd"] == ""
    text = client.fire("start", "--track", "t")
    assert "Newest request, 0 seconds ago: p2\n" in text and "step: " not in text, "nobody wrote words"


def test_a_label_is_not_carried(repo: Sandbox) -> None:
    snap(repo, "t", "S", "--label", "milestone")
    repo.write("a.txt", "two\n")
    Client("claude", repo.path).turn("p")
    assert autos(repo, "t")[0]["label"] is None


def race(repo: Sandbox, clients: list[Client], number: int) -> None:
    """Hooks of all clients and a manual snapshot, all at once."""
    repo.write("a.txt", f"{number}\n")
    words = ["snapshot", "--track", "t", "--step", f"M{number}", "--next-cmd", f"C{number}", "--porcelain"]
    manual = [sys.executable, "-m", "gitbaton", *words] if number % 2 else [PROGRAM, *words]
    with ThreadPoolExecutor(len(clients)) as pool:
        hooks = [pool.submit(c.fire, "compact" if number % 3 == 0 else "turn") for c in clients]
        done = subprocess.run(manual, cwd=repo.path, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        for job in hooks:
            job.result()


@pytest.mark.full
def test_a_manual_snapshot_that_races_with_hooks(repo: Sandbox) -> None:
    snap(repo, "t", "M")
    clients = [Client("claude", repo.path, session=f"s{n}") for n in range(3)]
    for number in range(12):
        race(repo, clients, number)
        said = resumed(repo)
        assert (said["step"], said["next_cmd"]) == (f"M{number}", f"C{number}"), "older words hide newer ones"
    records = checkpoints(repo, "t")
    assert [r["step"] for r in records if r["kind"] == "manual"] == ["M", *(f"M{n}" for n in range(12))]
    assert len(autos(repo, "t")) >= 1
    check_carried(repo)
    repo.fsck()


@pytest.mark.deep
def test_a_manual_snapshot_after_the_capture_began(repo: Sandbox, tmp_path: Path) -> None:
    """A hook that has already looked at the tip waits in ``git add``; the words written meanwhile must win."""
    snap(repo, "t", "old", "--next-cmd", "old cmd")
    gate, real = tmp_path / "gate", subprocess.run(["which", "git"], capture_output=True, text=True).stdout.strip()
    folder = tmp_path / "slow"
    folder.mkdir()
    script = f'#!/bin/sh\ncase " $* " in *" add "*|*" write-tree "*) touch "{gate}"; sleep 0.7;; esac\nexec "{real}" "$@"\n'
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    repo.write("a.txt", "two\n")
    client = Client("claude", repo.path)
    env = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(client.send, "Stop", client.payload("Stop"), env=env)
        while not gate.exists() and not job.done():
            time.sleep(0.01)
        assert gate.exists(), "the hook has captured nothing"
        snap(repo, "t", "new", "--next-cmd", "new cmd")
        assert job.result().code == 0
    assert (resumed(repo)["step"], resumed(repo)["next_cmd"]) == ("new", "new cmd")
    check_carried(repo)


@pytest.mark.full
def test_no_note_and_nothing_of_the_users_changes(repo: Sandbox) -> None:
    snap(repo, "t", "S", *MANUAL)
    notes = repo.git("rev-parse", "refs/notes/checkpoints")
    repo.git("rm", "-q", "--cached", "a.txt")
    repo.write("staged.txt", "x\n")
    repo.git("add", "staged.txt")
    repo.write("staged.txt", "y\n")
    exclude = repo.path / ".git" / "info" / "exclude"
    exclude.write_text(exclude.read_text() + "*.log\n")
    repo.write("ignored.log", "x\n")
    for agent in ("claude", "gemini", "copilot"):
        client = Client(agent, repo.path)
        for number, moment in enumerate(("start", "prompt", "edit", "compact", "turn", "end")):
            repo.write("churn.txt", f"{agent} {number}\n")
            state = untouched(repo)
            client.fire(moment, prompt="p")
            assert untouched(repo) == state, f"{agent} {moment}"
    assert len(autos(repo, "t")) >= 6
    assert repo.git("rev-parse", "refs/notes/checkpoints") == notes


@pytest.mark.deep
def test_latest_is_brought_up_to_date_only_where_it_is(repo: Sandbox) -> None:
    folder = repo.path / "runtime" / "checkpoints"
    snap(repo, "t", "S", *MANUAL)
    assert sorted(p.name for p in folder.iterdir()) == ["LATEST.json", "LATEST.md"]
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("one")
    assert json.loads((folder / "LATEST.json").read_bytes())["tracks"]["t"]["id"] == autos(repo, "t")[-1]["id"]
    assert "S" in (folder / "LATEST.md").read_text()
    (folder / "LATEST.md").unlink()
    repo.write("a.txt", "three\n")
    client.turn("two")
    assert json.loads((folder / "LATEST.json").read_bytes())["tracks"]["t"]["id"] == autos(repo, "t")[-1]["id"]
    assert sorted(p.name for p in folder.iterdir()) == ["LATEST.json"]
    (folder / "LATEST.json").unlink()
    repo.write("a.txt", "four\n")
    client.turn("three")
    assert list(folder.iterdir()) == [] and len(autos(repo, "t")) == 3
    folder.rmdir()
    repo.write("a.txt", "five\n")
    client.turn("four")
    assert not folder.exists() and log_of(repo) == ""
