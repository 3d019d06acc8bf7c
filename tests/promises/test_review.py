"""What a review and a first user found: each a test that would have caught it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gitbaton import Baton
from gitbaton.checkpoints.baton import Request
from tests.kit import Sandbox
from tests.kit.places import PYTHON
from tests.kit.tiers import some

CHAIN = ".git/refs/baton/tracks/t"


@pytest.mark.deep
def test_t08_objects_that_gc_took_meanwhile_are_stored_again(repo: Sandbox) -> None:
    with Baton(repo.path) as baton:
        repo.write("a.txt", "staged\n")
        repo.git("add", "a.txt")
        repo.write("a.txt", "one\n")
        plan = baton.plan(Request(track="t", step="s"))
        repo.git("reset", "-q", "--hard")
        repo.git("gc", "-q", "--prune=now")
        assert baton.apply(plan).stored.checkpoint.previous is None
    repo.fsck()


@pytest.mark.deep
def test_what_is_piped_into_a_snapshot_is_waited_for(repo: Sandbox) -> None:
    program = f"{PYTHON} -m gitbaton"
    script = f"(sleep 0.7; echo changed >a.txt; echo new >b; echo hi) | {program} snapshot --track t --step s --note -"
    assert repo.run("sh", "-c", script).code == 0
    assert repo.git("show", "refs/baton/tracks/t:a.txt") == "changed"
    assert repo.git("show", "refs/baton/tracks/t:b") == "new"


@pytest.mark.deep
def test_t24_filters_keep_the_users_characters(repo: Sandbox) -> None:
    repo.git("config", "filter.f.clean", f'{PYTHON} -c "import sys; sys.stdout.write(sys.stdin.read()[1:])"')
    repo.write(".gitattributes", "*.u filter=f\n")
    repo.write("x.u", "éa\n".encode())
    env = {"LC_ALL": "C.UTF-8", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    assert repo.baton("snapshot", "--track", "t", "--step", "s", env=env).code == 0
    assert repo.git("show", "refs/baton/tracks/t:x.u") == "a"


@pytest.mark.deep
@some("content", ["", "junk\n"])
def test_t17_a_broken_track_ref_is_named_and_latest_never_shrinks(repo: Sandbox, content: str) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "precious")
    latest = repo.path / "runtime/checkpoints/LATEST.json"
    row = json.loads(latest.read_text())["tracks"]["t"]
    (repo.path / CHAIN).write_text(content)
    for verb, code in ((["resume", "--track", "t"], 0), (["log", "t"], 0), (["snapshot", "--track", "t", "--step", "s"], 128)):
        done = repo.baton(*verb)
        assert done.code == code and ("precious" in done.out or code), verb
        assert "refs/baton/tracks/t" in done.err and "broken" in done.err, (verb, done.err)
    assert "refs/baton/tracks/t" in repo.baton("status").err
    repo.baton("export")
    repo.ok("snapshot", "--track", "other", "--step", "s")
    told = json.loads(latest.read_text())
    assert (told["current_track"], told["tracks"]["t"], sorted(told["tracks"])) == ("other", row, ["other", "t"])


@pytest.mark.deep
@pytest.mark.parametrize("ref", ["refs/checkpoints/t", "refs/notes/checkpoints"])
def test_a_broken_derived_ref_is_repaired(repo: Sandbox, ref: str) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.write(f".git/{ref}", "")
    repo.baton("snapshot", "--track", "t", "--step", "two")
    done = repo.ok("snapshot", "--track", "t", "--step", "three")
    assert done.err == ""
    assert "three" in repo.git("cat-file", "-p", "refs/checkpoints/t")
    assert "three" in repo.git("notes", "--ref=checkpoints", "show", "HEAD")


@pytest.mark.deep
def test_a_missing_commit_in_a_chain_hides_no_newer_one(repo: Sandbox) -> None:
    for step in ("one", "two", "three"):
        repo.ok("snapshot", "--track", "t", "--step", step)
    lost = repo.git("rev-parse", "refs/baton/tracks/t~1")
    repo.loose(lost).unlink()
    done = repo.ok("log", "t")
    assert "three" in done.out and lost in done.err
    assert "three" in repo.ok("log", "t", "-n", "1").out


@pytest.mark.deep
def test_t19_an_undone_amend_is_measured_from_the_commit_itself(repo: Sandbox) -> None:
    x = repo.commit("x", x="1")
    repo.ok("snapshot", "--track", "first", "--step", "f")
    y = repo.commit("y", x="bad")
    (repo.path / ".git/baton").mkdir(exist_ok=True)
    (repo.path / ".git/baton/rewritten").write_text(f"{x} {y}\n")
    repo.git("reset", "-q", "--hard", x)
    repo.commit("z", z="1")
    assert repo.baton("verify").out.startswith("head-ahead:1: ")
    repo.git("reset", "-q", "--hard", x)
    repo.ok("snapshot", "--track", "t", "--step", "back on x")
    assert (repo.path / ".git/baton/expect").read_text().strip() == x
    repo.git("reset", "-q", "--hard", y)
    assert repo.baton("verify", "--track", "t").code == 1


@pytest.mark.deep
def test_a_note_never_outgrows_its_reader(repo: Sandbox) -> None:
    with Baton(repo.path) as baton:
        for number in range(40):
            baton.snapshot(f"s{number}", track=f"t{number % 10}", note="n" * 60_000, files=False)
        assert baton.snapshot("last", track="t", files=False).warnings == ()
    note = repo.git("notes", "--ref=checkpoints", "show", "HEAD")
    assert "step: last" in note and len(note) < 2 << 20 and "older entries" in note


def test_a_head_that_cannot_be_read_is_not_unborn(repo: Sandbox) -> None:
    head = repo.head()
    repo.loose(head).unlink()
    done = repo.ok("snapshot", "--track", "t", "--step", "s")
    assert done.err == "warning: HEAD's commit cannot be read; the checkpoint names none\n"
    assert repo.git("show", "refs/baton/tracks/t:a.txt") == "one"


@pytest.mark.deep
def test_a_current_track_that_is_gone_is_not_replaced(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "other", "--step", "s", "--no-set-current")
    repo.git("symbolic-ref", "BATON_HEAD", "refs/checkpoints/gone")
    done = repo.baton("resume")
    assert done.code == 2 and "'gone'" in done.err


def test_nul_in_a_stored_text_forges_no_field(repo: Sandbox) -> None:
    with Baton(repo.path) as baton:
        baton.snapshot("x\0*\0evil", track="t", files=False)
    fields = repo.ok("status", "-z").out.split("\0")
    assert fields[2:] == ["*", "t", fields[4], fields[5], "pending", "none", "x?*?evil", str(repo.path), "", ""]


def test_a_full_output_is_one_line(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "s")
    done = repo.run("sh", "-c", f"{PYTHON} -m gitbaton resume >/dev/full")
    assert done.code == 128 and "Traceback" not in done.err and done.err.startswith("fatal: ")


@pytest.mark.deep
def test_an_early_interrupt_prints_no_traceback(repo: Sandbox) -> None:
    for wait in (0.03, 0.06, 0.1, 0.15):
        child = subprocess.Popen(
            [sys.executable, "-m", "gitbaton", "status"], cwd=repo.path, stderr=subprocess.PIPE, start_new_session=True
        )
        time.sleep(wait)
        child.send_signal(signal.SIGINT)
        err = child.communicate()[1].decode()
        # Until a function of ours is called, Python is not ours, and its own words are not ours either.
        assert not re.search(r"/gitbaton/.*, in \w", err), err


@pytest.mark.deep
def test_other_work_trees_on_the_track_expect_the_same_head(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    linked = Sandbox(tmp_path / "linked")
    linked.ok("tracks", "use", "t")
    moved = repo.commit("more")
    repo.ok("snapshot", "--track", "t", "--step", "two")
    assert Path(linked.git("rev-parse", "--absolute-git-dir"), "baton/expect").read_text().strip() == moved


def test_names_in_another_form(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "é", "--step", "s")
    assert "track=é" in repo.ok("show", "--porcelain", "e\u0301").out


def test_hooks_from_the_configuration_do_not_run_for_our_calls(tmp_path: Path, new_git: str) -> None:
    env = {"PATH": os.path.dirname(new_git) + os.pathsep + os.environ["PATH"]}
    repo = Sandbox.init(tmp_path / "new", git=new_git)
    repo.commit("first", a_txt="one\n")
    log = tmp_path / "log"
    for event in ("reference-transaction", "post-index-change"):
        repo.git("config", f"hook.mine-{event}.event", event)
        repo.git("config", f"hook.mine-{event}.command", f"echo {event} >>'{log}'; false")
    done = repo.baton("snapshot", "--track", "t", "--step", "s", env=env)
    assert done.code == 0, done.err
    assert not log.exists()


def test_t18_a_track_that_another_writer_has_just_made_is_read(repo: Sandbox) -> None:
    with Baton(repo.path) as baton:
        real = baton.repo.objects.read
        asked: list[str] = []

        def read(spec: str, limit: int = 4 << 20) -> object:
            asked.append(spec)
            if len(asked) == 1:  # not there yet; and now it is
                repo.ok("snapshot", "--track", "t", "--step", "theirs")
                return None
            return real(spec, limit)

        baton.repo.objects.read = read  # type: ignore[method-assign,assignment]
        tip = baton.store.tip("t")
        assert tip is not None and tip.checkpoint.step == "theirs" and asked[0] == "refs/baton/tracks/t"
