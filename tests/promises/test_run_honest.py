"""What a run says of itself is true: whose exit status it is, and which effects stand that its plan does not name any more."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.planned import toml
from tests.kit.tiers import some

OURS = (75, 76, 77, 78, 79, 124, 125)


def log(repo: Sandbox) -> list[str]:
    """What was done outside."""
    path = repo.path.parent / "log"
    return path.read_text().split() if path.exists() else []


@some("code", OURS)
def test_an_exit_status_of_a_command_is_not_taken_for_one_of_ours(repo: Sandbox, code: int) -> None:
    line = f"exit {code}"
    one = repo.baton("run", "--run", "s", "--step", "a", "--", "sh", "-c", line)
    assert one.code == 1 and f"a: failed with {code} (its command's own exit status; git baton exits with 1)" in one.err
    repo.write("p.toml", toml({"a": {"run": line}, "b": {"run": "touch b"}}))
    both = repo.baton("run", "--run", "p", "--plan", "p.toml")
    assert both.code == 1 and not (repo.path / "b").exists(), "it is no gate, by which only what depends on it is kept"
    assert repo.baton("run", "--run", "s", "--step", "a", "--json", "--", "sh", "-c", line).code == 1
    assert f"failed with {code}" in repo.ok("run", "show", "s").out


def test_a_retry_on_an_exit_status_means_the_commands_own(repo: Sandbox) -> None:
    line = "echo try >> ../log; test $GIT_BATON_ATTEMPT = 2 || exit 75"
    done = repo.baton("run", "--step", "a", "--retries", "3", "--retry-on", "75", "--backoff", "1ms", "--", "sh", "-c", line)
    assert done.code == 0 and len(log(repo)) == 2


def effect(name: str, **more: str) -> dict[str, Any]:
    return {"run": f"echo {name} >> ../log", "reads": ["a.txt"], "effect": "once", **more}


@pytest.mark.parametrize("renamed", [True, False])
def test_an_effect_that_stands_is_told_when_its_step_leaves_the_plan(repo: Sandbox, renamed: bool) -> None:
    undo = "echo undo >> ../log"
    plan = {"build": {"run": "true", "reads": ["a.txt"]}, "deploy": effect("deploy", compensate=undo), "mail": effect("mail")}
    repo.write("p.toml", toml(plan))
    assert "any more" not in repo.ok("run", "--plan", "p.toml").err
    plan.pop("mail")
    deploy = plan.pop("deploy")
    repo.write("p.toml", toml({**plan, "release": deploy} if renamed else plan))
    deployed = "baton: deploy: its effect stands, and the plan does not name the step any more; "
    for words in (("--plan", "p.toml", "--dry-run"), ("--plan", "p.toml"), ("--plan", "p.toml")):
        told = repo.ok("run", *words)
        assert deployed + "'git baton run compensate deploy' undoes it\n" in told.err
        assert "mail: its effect stands, and the plan does not name the step any more; nothing undoes it" in told.err
    assert "any more" not in repo.ok("run", "--plan", "p.toml", "--dry-run", "--json").err
    assert deployed in repo.ok("run", "repair", "--step", "build").err
    repo.ok("run", "compensate", "deploy")
    repo.ok("run", "settle", "mail", "--undone")
    again = repo.ok("run", "--plan", "p.toml")
    assert "any more" not in again.err and log(repo) == ["deploy", "mail", *["deploy"] * renamed, "undo"]


def test_an_effect_that_nobody_knows_of_is_told_when_its_step_leaves_the_plan(repo: Sandbox) -> None:
    deploy = {**effect("deploy"), "run": "echo deploy >> ../log; exit 3"}
    repo.write("p.toml", toml({"build": {"run": "true"}, "deploy": deploy}))
    assert repo.baton("run", "--plan", "p.toml").code == 3
    repo.write("p.toml", toml({"build": {"run": "true"}}))
    told = repo.baton("run", "--plan", "p.toml")
    assert "deploy: nobody knows whether its effect happened, and the plan does not name the step any more" in told.err


def test_a_step_of_the_command_line_is_missed_by_no_plan(repo: Sandbox) -> None:
    repo.write("p.toml", toml({"build": {"run": "true"}}))
    repo.ok("run", "--plan", "p.toml", "--run", "r")
    repo.ok("run", "--run", "r", "--step", "deploy", "--effect", "once", "--", "sh", "-c", "echo deploy >> ../log")
    assert "any more" not in repo.ok("run", "--plan", "p.toml", "--run", "r").err and log(repo) == ["deploy"]
