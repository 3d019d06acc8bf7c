"""Declared variables of a step: their values are nowhere, and nobody finds them by trying, but a change of one is noticed."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.places import DATA
from tests.kit.repos import Outcome

PIN = "4711"


def step(repo: Sandbox, *options: str, run: str = "x", name: str = "s", pin: str = PIN, says: str = "ran") -> Outcome:
    """A step that depends on DB_PIN and a file."""
    words = (
        "run",
        "--run",
        run,
        "--step",
        name,
        "--env",
        "DB_PIN",
        "--reads",
        "a.txt",
        *options,
        "--",
        "sh",
        "-c",
        f"echo {says}",
    )
    return repo.baton(*words, env={"DB_PIN": pin})


def env_of(repo: Sandbox, run: str = "x") -> str:
    record = json.loads(repo.git("cat-file", "-p", f"refs/baton/runs/{run}:record.json"))
    return str(record["env"]["DB_PIN"])


def test_a_short_value_is_not_found_by_trying(repo: Sandbox, tmp_path: Path) -> None:
    assert step(repo).code == 0
    repo.git("init", "-q", "--bare", str(tmp_path / "hub"))
    repo.git("remote", "add", "origin", str(tmp_path / "hub"))
    repo.ok("snapshot", "s")
    repo.ok("push", "--yes", "--runs")
    key = repo.path / ".git/baton/key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600 and len(key.read_bytes()) == 32
    said = Sandbox(tmp_path / "hub").everything()
    assert "hmac-sha256:" in said and key.read_bytes().hex() not in said
    for text in (PIN, f"DB_PIN{PIN}", f"DB_PIN={PIN}", f"DB_PIN\0{PIN}"):
        assert hashlib.sha256(text.encode()).hexdigest() not in said


@pytest.mark.deep
def test_a_change_is_noticed_and_the_same_value_is_known(repo: Sandbox, tmp_path: Path) -> None:
    assert "runs" in step(repo).err
    assert "cached" in step(repo).err
    assert "'DB_PIN' changed" in step(repo, pin="4712").err
    assert "cached" in step(repo, pin="4712").err
    assert "cached" in step(repo, run="y").err, "in another run, too"
    repo.git("worktree", "add", "-q", str(tmp_path / "second"))
    assert "cached" in step(Sandbox(tmp_path / "second"), run="z").err, "and in another work tree"


@pytest.mark.deep
def test_two_repositories_say_nothing_of_each_other(repo: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other")
    other.commit("first", a_txt="one\n")
    assert step(repo).code == step(other).code == 0
    assert env_of(repo) != env_of(other) and env_of(repo).split(":")[1] != env_of(other).split(":")[1]


@pytest.mark.deep
def test_once_is_once_also_where_the_variable_cannot_be_compared(repo: Sandbox, tmp_path: Path) -> None:
    """The key of a digest stays where it was made: somewhere else nobody knows whether the value is another."""
    assert step(repo, "--effect", "once").out == "ran\n"
    hub = tmp_path / "hub"
    repo.git("init", "-q", "--bare", str(hub))
    repo.git("remote", "add", "origin", str(hub))
    repo.git("push", "-q", "origin", "HEAD:refs/heads/main", "refs/baton/runs/*:refs/baton/runs/*")
    repo.git("clone", "-q", "--branch", "main", str(hub), str(tmp_path / "clone"))
    clone = Sandbox(tmp_path / "clone")
    clone.git("fetch", "-q", "origin", "refs/baton/runs/*:refs/baton/runs/*")
    for _ in range(2):
        done = step(clone, "--effect", "once", "--foreign")
        assert done.code == 76 and done.out == "" and "git baton run settle s" in done.err
    clone.ok("run", "settle", "s", "--run", "x", "--done")
    done = step(clone, "--effect", "once", "--foreign")
    assert done.code == 0 and done.out == ""


@pytest.mark.deep
def test_what_an_older_version_recorded_is_still_known(repo: Sandbox) -> None:
    """A bundle of runs whose records have bare digests: ``x`` with the steps s and o (once), ``y`` with p."""
    repo.write("a.txt", "a\n")
    repo.commit("as then")
    repo.git("fetch", "-q", str(DATA / "env-digests.bundle"), "refs/baton/runs/*:refs/baton/runs/*")
    before = env_of(repo)
    assert before == f"sha256:{hashlib.sha256(PIN.encode()).hexdigest()}"
    assert "cached" in step(repo, "--foreign").err
    done = step(repo, "--effect", "once", "--foreign", name="o", says="did")
    assert done.code == 0 and "cached" in done.err, "it does not happen twice"
    assert "'DB_PIN' changed" in step(repo, "--foreign", pin="4712").err
    assert env_of(repo).startswith("hmac-sha256:"), "what is new is keyed"


@pytest.mark.deep
def test_a_look_makes_no_key(repo: Sandbox) -> None:
    repo.write("plan.toml", '[step.s]\nrun = "true"\nenv = ["DB_PIN"]\nreads = ["a.txt"]\n')
    done = repo.baton("run", "--plan", "plan.toml", "--dry-run", env={"DB_PIN": PIN})
    assert done.code == 0 and not (repo.path / ".git/baton/key").exists()


def linked(path: Path) -> None:
    (path.parent / "elsewhere").write_bytes(b"k" * 32)
    path.symlink_to("elsewhere")


@pytest.mark.deep
@pytest.mark.parametrize(
    "made", [Path.touch, Path.mkdir, os.mkfifo, linked, lambda path: path.write_bytes(b"short")], ids=range(5)
)
def test_what_is_no_key_is_named(repo: Sandbox, made: Callable[[Path], object]) -> None:
    repo.ok("snapshot", "s")
    made(repo.path / ".git/baton/key")
    done = step(repo)
    assert done.code == 128 and done.out == "" and done.err.count("fatal: the key") == 1 and "Traceback" not in done.err
