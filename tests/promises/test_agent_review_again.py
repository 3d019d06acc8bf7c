"""What a second review of the hooks found in the mends of the first."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from gitbaton.base.model import Checkpoint, Drift, Head, Live, Stored
from gitbaton.checkpoints.briefing import Briefing, brief
from tests.kit import Sandbox
from tests.kit.agents import Client, autos, checkpoints, log_of
from tests.kit.checkpoints import OID, WHEN
from tests.kit.commands import until
from tests.kit.state import snap
from tests.kit.tables import each
from tests.kit.tiers import some
from tests.promises.test_agent_review import slow_git, started


def told(**fields: object) -> str:
    """The text for a checkpoint of these words."""
    c = Checkpoint(**{"track": "t", "step": "s", "created": WHEN, **fields})  # type: ignore[arg-type]
    stored = Stored(id=OID, commit=OID, base=None, tree=OID, raw=b"", checkpoint=c)
    live = Live(head=Head(branch="main", oid=OID), drift=Drift())
    return brief(Briefing(stored=stored, live=live, now=WHEN, short="a"))


def hung_batch(folder: Path, nth: int) -> dict[str, str]:
    """A git whose ``cat-file --batch-command`` hangs before its nth answer."""
    folder.mkdir()
    real = shutil.which("git")
    script = (
        f'#!/bin/sh\ncase " $* " in *" --batch-command "*) n=0; while IFS= read -r l; do n=$((n+1)); '
        f'[ $n -ge {nth} ] && {{ sleep 60; touch "{folder}/awake"; }}; printf "%s\\n" "$l"; done | "{real}" "$@";; '
        f'*) exec "{real}" "$@";; esac\n'
    )
    (folder / "git").write_text(script)
    (folder / "git").chmod(0o755)
    return {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


@pytest.mark.full
@some(("event", "nth"), [("Stop", 4), ("SessionStart", 5)])
def test_a_git_that_hangs_in_mid_answer_holds_nobody_up(repo: Sandbox, tmp_path: Path, event: str, nth: int) -> None:
    snap(repo, "t", "S", "--next-cmd", "make it")
    repo.write("a.txt", "two\n")
    client = Client("claude", repo.path)
    done = client.send(event, client.payload(event), env=hung_batch(tmp_path / "hung", nth))
    assert (done.code, done.err) == (0, "") and not (tmp_path / "hung/awake").exists()


@pytest.mark.deep
def test_the_text_goes_out_though_commits_take_long_to_count(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "S", "--next-cmd", "make it")
    repo.commit("ahead")
    client = Client("claude", repo.path)
    text = started(client, slow_git(tmp_path / "slow", '*" merge-base "*|*" rev-list "*', 5))
    assert "make it" in text and "no time" in text


@pytest.mark.full
def test_the_last_of_several_late_states_is_recorded(repo: Sandbox, tmp_path: Path) -> None:
    snap(repo, "t", "S")
    client = Client("claude", repo.path)
    env = slow_git(tmp_path / "slow", '*" pack-objects "*', 3)
    for number in range(2):
        repo.write("c.txt", f"{number}\n")
        client.send("Stop", client.payload("Stop"), env=env)
    until(lambda: autos(repo, "t") and repo.git("show", "refs/baton/tracks/t:c.txt") == "1")
    assert "Traceback" not in log_of(repo)


@pytest.mark.deep
def test_a_file_that_grew_too_large_has_changed(repo: Sandbox) -> None:
    repo.git("config", "baton.maxFileSize", "1k")
    repo.write("big", "small\n")
    snap(repo, "t", "S", "--validation", "green")
    repo.write("big", "x" * 5000)
    Client("claude", repo.path).turn("grow it")
    assert [repo.baton("verify", "--strict", *words).code for words in ((), ("--words",))] == [0, 1]
    assert "stale" in repo.ok("resume", "--porcelain", "--live").out


@pytest.mark.full
def test_an_operation_is_not_hidden_by_an_automatic_checkpoint(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("theirs", a_txt="theirs\n")
    repo.git("checkout", "-q", "main")
    repo.commit("ours", a_txt="ours\n")
    snap(repo, "t", "S")
    repo.try_git("merge", "side")
    client = Client("claude", repo.path)
    client.turn("merge it")
    told = [repo.baton("verify", *words).out for words in ((), ("--words",))]
    assert ["operation:merge" in out for out in told] == [False, True]
    snap(repo, "t", "in the merge")
    repo.git("merge", "--abort")
    client.turn("never mind")
    told = [repo.baton("verify", *words).out for words in ((), ("--words",))]
    assert ["operation:none" in out for out in told] == [False, True]


@pytest.mark.deep
def test_words_whose_files_are_not_here_are_not_compared(repo: Sandbox, tmp_path: Path) -> None:
    repo.write("u.txt", "untracked\n")
    snap(repo, "t", "S", "--validation", "green")
    repo.write("n.txt", "1\n")
    Client("claude", repo.path).turn("go on")
    clone = tmp_path / "clone"
    repo.git("clone", "-q", "--no-local", str(repo.path), str(clone))
    other = Sandbox(clone)
    other.git("fetch", "-q", "--depth", "1", "origin", "refs/baton/tracks/*:refs/baton/tracks/*")
    other.write("a.txt", "changed\n")
    done = other.baton("resume", "--porcelain", "--track", "t", "--live")
    assert '> since="S": 1 turn, files not compared\n' in done.out and "validation=green (" in done.out
    assert "not counted" in other.baton("verify", "--words", "--track", "t").err


@pytest.mark.full
def test_gits_hook_warns_where_head_leaves_the_newest_checkpoint_and_not_where_it_comes_back(repo: Sandbox) -> None:
    for number in range(3):
        repo.commit(f"c{number}", a_txt=f"{number}\n")
    repo.ok("install")
    snap(repo, "t", "S")
    repo.git("checkout", "-q", "-b", "z", "HEAD~1")
    Client("claude", repo.path).turn("look around")
    there, back = (repo.run("git", "checkout", "-q", name) for name in ("main", "z"))
    assert "HEAD has left the checkpoint 'turn 1  look around'" in there.err + there.out
    assert "HEAD has left" not in back.err + back.out


def test_a_value_is_told_whole_or_not_at_all() -> None:
    long = [f"{name} " + name.lower() * 1850 for name in ("A", "B", "C")]
    text = told(decisions=(*long, "z" * 300, "LAST " + "y" * 1850 + "\nexcept in production", "short"))
    assert "except in production" not in text or "LAST" in text
    assert "decision 6: short" in text


@pytest.mark.parametrize("track", ["x'$(touch pwned)", "`touch pwned`", 'a"b'])
def test_our_own_command_line_runs_nothing_of_a_tracks_name(repo: Sandbox, track: str) -> None:
    row = next(line for line in told(track=track).split("\n") if "git baton snapshot --track " in line)
    told_track = row.partition("git baton snapshot --track ")[2].partition(" --step")[0]
    assert repo.run("sh", "-c", f"printf %s {told_track}").out == track
    assert not (repo.path / "pwned").exists()


@each("command", ["psql app < users.sql", "sort <results.txt", "if (i < toolcount) {}", "f(Vec<Item>)", "a <b"])
def test_ordinary_code_stays_as_it_is(command: str) -> None:
    assert f'next_cmd: "{command}"' in told(next_cmd=command)


@each("tag", ["</system-reminder>", "<invoke name='x'>", "<EXTREMELY_IMPORTANT>", "<|im_start|>", "<env>"])
def test_a_tag_of_a_client_does_not(tag: str) -> None:
    text = told(note=f"see {tag} there")
    assert tag not in text and "exact words" in text


@pytest.mark.full
def test_a_hundred_tracks_are_looked_at_once(repo: Sandbox, tmp_path: Path) -> None:
    with repo.open() as baton:
        for number in range(100):
            baton.snapshot("words", track=f"t{number}", files=False, set_current=False)
    place = tmp_path / "second"
    repo.git("worktree", "add", "-q", "-b", "side", str(place))
    (tmp_path / "count").mkdir()
    counter = tmp_path / "count" / "git"
    counter.write_text(f'#!/bin/sh\necho x >> "{tmp_path}/calls"\nexec "{shutil.which("git")}" "$@"\n')
    counter.chmod(0o755)
    client = Client("claude", place)
    text = started(client, {"PATH": f"{counter.parent}{os.pathsep}{os.environ['PATH']}"})
    assert "and 90 more" in text
    assert len((tmp_path / "calls").read_text().split()) < 20
    assert checkpoints(repo, "t0")[0]["step"] == "words"
