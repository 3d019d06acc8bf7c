"""Pause: hooks of agents and of git are silent until a moment, and say so; what was said meanwhile is no lie afterwards."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import Client, autos, log_of, steps
from tests.kit.state import snap
from tests.kit.tiers import some

HINT = "hint: 'git baton pause --end' ends it\n"


def turn(client: Client, prompt: str, text: str) -> None:
    """A turn that changes a file."""
    client.fire("prompt", prompt=prompt)
    (client.place / "a.txt").write_text(text)
    client.fire("turn")


def test_agents_hooks_are_silent_and_act_again(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    done = repo.ok("pause")
    assert (done.out, done.err) == ("the hooks of this repository are silent until somebody ends it\n", HINT)
    client = Client("claude", repo.path)
    told = client.fire("start")
    assert "gitbaton: the hooks of this repository are silent until somebody ends it; 'git baton pause --end' ends that" in told
    assert "\\n" not in told and "S" not in told.split("gitbaton", 1)[0].replace("SessionStart", "").replace("hookSpecific", "")
    turn(client, "one", "1")
    assert client.fire("compact") == "" and autos(repo, "t") == []
    shown = repo.ok("status")
    assert shown.out.endswith(
        "the hooks of this repository are silent until somebody ends it; 'git baton pause --end' ends that\n"
    )
    assert repo.ok("status", "--json").json["paused"]["until"] is None
    assert repo.ok("pause", "--end").out == "the hooks act again\n"
    assert "silent" not in repo.ok("status").out and "paused" not in repo.ok("status", "--json").json
    client.fire("turn")
    assert steps(autos(repo, "t")) == ["turn ended: one"]  # what was said meanwhile is what the turn is called
    assert log_of(repo) == ""


@pytest.mark.deep
def test_both_doctors_say_that_the_hooks_are_paused(repo: Sandbox) -> None:
    repo.ok("pause", "--for", "2h")
    for words in (("doctor",), ("agent", "doctor")):
        (row, mend) = re.search(r"^note paused: (.*)\n +(.*)\n", repo.baton(*words).out, re.M).groups()  # type: ignore
        assert row.startswith("the hooks of this repository are silent until 2") and mend == "git baton pause --end"
    repo.ok("pause", "--end")
    assert all("paused" not in repo.baton(*words, "--json").out for words in (("doctor",), ("agent", "doctor")))


def test_it_ends_by_itself(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    repo.ok("pause", "--for", "1h30m")
    until = datetime.fromisoformat(repo.ok("status", "--json").json["paused"]["until"])
    assert timedelta(minutes=89) < until - datetime.now(until.tzinfo) <= timedelta(minutes=90)
    client = Client("claude", repo.path)
    turn(client, "one", "1")
    assert autos(repo, "t") == []
    path = repo.path / ".git" / "baton" / "paused"
    first, _, last = path.read_text().splitlines()
    path.write_text(f"{first}\nuntil {int(time.time()) - 1}\n{last}\n")
    assert "silent" not in repo.ok("status").out and repo.baton("pause", "--end").code == 1
    turn(client, "two", "2")
    assert steps(autos(repo, "t")) == ["before a prompt (auto)", "turn ended: one; last prompt: two"]


def test_a_file_that_cannot_be_read_silences_nothing(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    (repo.path / ".git" / "baton" / "paused").write_text("gitbaton paused 2\nuntil -\n")
    turn(Client("claude", repo.path), "one", "1")
    assert len(autos(repo, "t")) == 1 and "silent" not in repo.ok("status").out


def test_a_time_of_the_day_is_the_next_one(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    before = datetime.now().astimezone() - timedelta(minutes=2)
    assert before.strftime("%H:%M\n") in repo.ok("pause", "--until", before.strftime("%H:%M")).out
    until = datetime.fromisoformat(repo.ok("status", "--json").json["paused"]["until"])
    assert timedelta(0) < until - before <= timedelta(days=1)
    day = (before + timedelta(days=40)).date()
    assert repo.ok("pause", "--until", str(day)).out.endswith(f"until {day} 00:00\n")
    assert repo.ok("pause", "--until", f"{day} 09:00").out.endswith(f"until {day} 09:00\n")


@some(
    ("words", "said"),
    [
        (("--for", "soon"), "fatal: --for is 'soon'; it must be a duration like 500ms, 10s, 1h30m or 1d\n"),
        (("--for", "0"), "fatal: --for is '0'; it must be a second at least\n"),
        (("--until", "noon"), "fatal: --until is 'noon'; it must be like 18:00, 2026-01-31 or '2026-01-31 09:00'\n"),
        (("--until", "2020-01-01"), "fatal: --until is '2020-01-01', and that is over\n"),
        (
            ("--until", "0001-01-01T00:00+05:00"),
            "fatal: --until is '0001-01-01T00:00+05:00'; its year must lie between 2 and 9998\n",
        ),
    ],
    2,
)
def test_what_is_no_time_is_refused(repo: Sandbox, words: tuple[str, ...], said: str) -> None:
    snap(repo, "t", "S")
    done = repo.baton("pause", *words)
    assert (done.code, done.err) == (129, said)
    assert not (repo.path / ".git" / "baton" / "paused").exists()


def test_nothing_to_end(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    done = repo.baton("pause", "--end")
    assert (done.code, done.err) == (1, "fatal: the hooks of this repository are not silent\n")
    assert repo.baton("pause", "--end", "--for", "1h").code == 129


@pytest.mark.deep
def test_gits_hooks_are_silent_in_every_work_tree(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("install")
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Sandbox(tmp_path / "linked")
    for place in (repo, linked):
        place.git("commit", "-q", "--allow-empty", "-m", "next")
        snap(place, f"t-{place.path.name}", "S")
    linked.ok("pause", "--for", "1d")
    for place in (repo, linked):
        done = place.try_git("checkout", "-q", "--detach", "HEAD~1")
        assert "checkpoint" not in done.err
    repo.ok("pause", "--end")
    for place in (repo, linked):
        done = place.try_git("checkout", "-q", "-")
        place.try_git("checkout", "-q", "--detach", "HEAD~1")
        assert done.code == 0
    lost = linked.git("commit-tree", "-m", "lost", "-p", "HEAD", "HEAD^{tree}").strip()
    linked.git("checkout", "-q", "--detach", lost)
    snap(linked, "other", "S")
    linked.git("checkout", "-q", "--detach", "HEAD~1")
    linked.git("checkout", "-q", "--detach", lost)
    assert "on no branch" in linked.try_git("checkout", "-q", "side").err
    linked.git("checkout", "-q", "--detach", lost)
    linked.ok("pause")
    assert linked.try_git("checkout", "-q", "side").err == ""
