"""What reviews of the hooks found: late and failing hooks, unknown files, words that are somebody else's, odd settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.agents import PROGRAM, Client, autos, checkpoints, log_of, tracks, written_tree
from tests.kit.state import snap
from tests.kit.tiers import some


def slow_git(folder: Path, pattern: str, seconds: float) -> dict[str, str]:
    """A git that sleeps before calls of that pattern."""
    folder.mkdir()
    body = f'case " $* " in {pattern}) sleep {seconds};; esac\nexec "{shutil.which("git")}" "$@"\n'
    (folder / "git").write_text("#!/bin/sh\n" + body)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def started(client: Client, env: dict[str, str] | None = None) -> str:
    """The text at a session's start, with an environment of the test's."""
    return client.send("SessionStart", client.payload("SessionStart"), env=env).out


@pytest.mark.full
def test_the_text_goes_out_though_files_cannot_be_compared_in_time(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "S", "--next-cmd", "make it", "--validation", "green")
    client = Client("claude", repo.path)
    text = started(client, slow_git(tmp_path / "slow", '*" diff-files "*', 6))
    assert "make it" in text and "not compared" in text and "there was no time" in text
    assert "validation: green (not compared" in text


@pytest.mark.full
def test_drift_is_unknown_where_not_even_head_was_looked_at_in_time(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "S")
    repo.commit("more", b_txt="b\n")
    text = started(Client("claude", repo.path), slow_git(tmp_path / "slow", '*" diff-files "*|*" rev-list "*', 6))
    assert "drift: unknown" in text and "nothing is compared: there was no time for it" in text


@pytest.mark.full
@some("below", [False, True])
def test_green_is_not_shown_where_it_is_known_to_be_stale(repo: Sandbox, tmp_path: Path, below: bool) -> None:
    (repo.path / "sub").mkdir()
    snap(repo, "t", "S", "--validation", "green")
    client = Client("claude", repo.path / "sub" if below else repo.path)
    repo.write("a.txt", "two\n")
    client.turn("edit")
    text = started(client, slow_git(tmp_path / "slow", '*" diff-files "*', 6))
    assert "validation: green (stale: files changed since)" in text
    assert "validation=green (stale: files changed since)" in (repo.path / "runtime/checkpoints/LATEST.md").read_text()
    assert "validation=green (stale" in repo.ok("show", "--porcelain").out


@pytest.mark.deep
def test_green_of_a_checkpoint_without_files_is_not_taken_for_that_of_today(repo: Sandbox) -> None:
    snap(repo, "t", "S", "--validation", "green", "--no-files")
    Client("claude", repo.path).turn("talk")
    assert "validation=green (not compared" in repo.ok("resume", "--porcelain", "--live").out
    assert " stale " in repo.ok("status").out and "stale" in repo.ok("log").out.splitlines()[0]


@pytest.mark.full
def test_no_older_files_on_top_of_a_newer_manual_checkpoint(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "one")
    client = Client("claude", repo.path)
    repo.write("a.txt", "old\n")
    env = slow_git(tmp_path / "slow", '*" write-tree "*', 1.0)
    with subprocess.Popen(
        [PROGRAM, "hook", "claude", "Stop"], stdin=subprocess.PIPE, cwd=repo.path, env={**os.environ, **client.env(), **env}
    ) as late:
        assert late.stdin is not None
        late.stdin.write(b'{"session_id":"s","cwd":"%s"}' % os.fsencode(repo.path))
        late.stdin.close()
        time.sleep(0.5)  # it sleeps before write-tree now
        repo.write("a.txt", "new\n")
        snap(repo, "t", "all done", "--validation", "green")
        assert late.wait() == 0
    time.sleep(2.5)
    records = checkpoints(repo, "t")
    done = [c["step"] for c in records].index("all done")
    assert all(c["files"]["tree"] == written_tree(repo) for c in records[done:])
    assert repo.ok("restore").out.startswith("nothing has to change")


@pytest.mark.full
def test_a_late_process_heeds_that_checkpoints_are_off(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "one")
    repo.git("config", "baton.auto", "off")
    repo.write("a.txt", "two\n")
    client = Client("claude", repo.path)
    env = slow_git(tmp_path / "slow", '*" config "*', 2.6)
    for event in ("PostToolUse", "Stop"):
        client.send(event, client.payload(event), env=env)
    time.sleep(4)
    assert autos(repo, "t") == []


@pytest.mark.full
def test_two_detached_agents_at_once_write_two_tracks(repo: Sandbox, tmp_path: Path) -> None:
    places = [repo.path, tmp_path / "second"]
    repo.git("checkout", "-q", "--detach")
    repo.git("worktree", "add", "-q", "--detach", str(places[1]))
    (repo.path / ".git/baton").mkdir(exist_ok=True)
    for attempt in range(3):
        running = []
        for number, place in enumerate(places):
            (place / f"w{attempt}.txt").write_text("x\n")
            client = Client("claude", place, session=f"s{number}")
            running.append(
                subprocess.Popen(
                    [PROGRAM, "hook", "claude", "Stop"],
                    stdin=subprocess.PIPE,
                    cwd=place,
                    env={**os.environ, **client.env()},
                )
            )
            said = running[-1].stdin
            assert said is not None
            said.write(b'{"session_id":"s%d","cwd":"%s"}' % (number, os.fsencode(place)))
            said.close()
        assert [process.wait() for process in running] == [0, 0]
    wrote = {track: {c["agent"]["session"] for c in autos(repo, track)} for track in tracks(repo)}
    assert sorted(wrote.values(), key=sorted) == [{"s0"}, {"s1"}], wrote


@pytest.mark.deep
def test_a_hook_does_not_choose_among_tracks_that_have_words(repo: Sandbox) -> None:
    snap(repo, "A", "words of A")
    snap(repo, "B", "words of B")
    repo.git("symbolic-ref", "--delete", "BATON_HEAD")
    client = Client("claude", repo.path)
    text = client.fire("start")
    assert "'A'" in text and "words of B" in text and "tracks use" in text
    repo.write("a.txt", "two\n")
    client.turn("go")
    assert tracks(repo) == ["A", "B", "main"]
    assert repo.try_git("symbolic-ref", "-q", "BATON_HEAD").code == 1
    assert "words of A" in client.fire("start")


def test_an_automatic_checkpoint_without_words_says_so(repo: Sandbox) -> None:
    (repo.path / ".git/baton").mkdir(exist_ok=True)
    client = Client("claude", repo.path)
    repo.write("a.txt", "two\n")
    client.turn("go")
    assert "nobody has written words" in client.fire("start")


@pytest.mark.full
def test_many_paths_left_out_are_no_news_each_time(repo: Sandbox) -> None:
    for number in range(1005):
        repo.write(f".env.{number}", "")
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    for _ in range(3):
        client.turn("talk")
    assert autos(repo, "t") == []


@pytest.mark.deep
@pytest.mark.parametrize("sink", ["/dev/full", "closed"])
def test_a_text_that_cannot_be_said_keeps_no_checkpoint_back(repo: Sandbox, sink: str) -> None:
    snap(repo, "t", "S")
    repo.write("a.txt", "two\n")
    payload = '{"sessionID":"s","directory":"%s"}' % repo.path  # noqa: UP031
    target = "> /dev/full" if sink == "/dev/full" else "| true"
    done = repo.run("sh", "-c", f"printf '%s' '{payload}' | git-baton hook opencode compacting {target}")
    assert done.code == 0
    assert [c["step"] for c in autos(repo, "t")] == ["before compaction (auto)"]


@pytest.mark.deep
def test_the_manual_checkpoint_has_a_name(repo: Sandbox) -> None:
    written = snap(repo, "t", "good")
    repo.write("a.txt", "bad\n")
    Client("claude", repo.path).turn("break it")
    done = repo.ok("restore")
    assert done.out.startswith("nothing has to change") and done.err == ""
    assert repo.ok("show", "@{manual}", "--json").json["checkpoint"]["id"] == written
    assert repo.ok("show", "t@{manual}", "--json").json["checkpoint"]["id"] == written
    repo.ok("restore", "@{manual}")
    assert (repo.path / "a.txt").read_text() == "one\n"


def test_a_track_without_a_manual_checkpoint(repo: Sandbox) -> None:
    (repo.path / ".git/baton").mkdir(exist_ok=True)
    repo.write("a.txt", "two\n")
    Client("claude", repo.path).turn("go")
    done = repo.baton("show", "main@{manual}")
    assert (done.code, done.err) == (
        2,
        "fatal: track 'main' has no manual checkpoint\nhint: to list them: git baton log --track main\n",
    )


@pytest.mark.deep
def test_a_setting_that_cannot_be_understood_silences_nothing(repo: Sandbox) -> None:
    snap(repo, "t", "S", "--next-cmd", "make it")
    repo.git("config", "baton.auto", "turns")
    repo.git("config", "baton.maxFileSize", "big")
    client = Client("claude", repo.path)
    assert "make it" in client.fire("start")
    repo.write("a.txt", "two\n")
    client.turn("go")
    assert len(autos(repo, "t")) == 1 and "baton.auto is 'turns'" in log_of(repo)
    found = repo.baton("doctor")
    assert "baton.auto is 'turns'" in found.out and "baton.maxFileSize is 'big'" in found.out and found.code == 1


@pytest.mark.deep
@pytest.mark.parametrize("where", ["gone", "outside"])
def test_a_directory_that_says_nothing_is_not_the_end(repo: Sandbox, tmp_path: Path, where: str) -> None:
    snap(repo, "t", "S")
    repo.write("a.txt", "two\n")
    client = Client("claude", repo.path)
    client.send("Stop", client.payload("Stop", cwd=str(tmp_path if where == "outside" else tmp_path / "gone")))
    assert len(autos(repo, "t")) == 1


def test_settings_that_only_mention_us_want_nothing(repo: Sandbox) -> None:
    (repo.path / ".claude").mkdir()
    repo.write(".claude/settings.json", '{"permissions":{"deny":["Bash(git-baton:*)"]}}')
    Client("claude", repo.path).turn("go")
    assert tracks(repo) == []


@pytest.mark.deep
def test_no_checkpoint_of_a_restore_that_waits(repo: Sandbox) -> None:
    snap(repo, "t", "S", "--next-cmd", "make it")
    (repo.path / ".git/baton/restore").write_text("{}")
    repo.write("a.txt", "two\n")
    client = Client("claude", repo.path)
    client.turn("go")
    assert autos(repo, "t") == [] and "restore" in log_of(repo)
    assert "A restore was interrupted" in client.fire("start")
