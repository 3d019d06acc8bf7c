"""Inputs that move while a run is under way: it is said before an effect, and what may happen only once waits."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.planned import toml

LINE = "cat in > app; echo built >> ../log"
BUILD = {"run": LINE, "reads": ["in"], "writes": ["app"]}
MOVES = {**BUILD, "run": LINE + '; test -e ../calm || echo new > "$WHERE/in"'}


def deploy(effect: str = "once", **more: Any) -> dict[str, Any]:
    said = {"run": "echo deployed $(cat app) >> ../log", "reads": ["app"], "after": ["build"], "effect": effect}
    return {**said, **more}


@pytest.fixture
def moving(repo: Sandbox, monkeypatch: pytest.MonkeyPatch) -> Sandbox:
    """Where the build's input is changed by somebody else while it is built, as long as it is not calm."""
    monkeypatch.setenv("WHERE", str(repo.path))
    repo.write("in", "old\n")
    repo.write("p.toml", toml({"build": MOVES, "deploy": deploy()}))
    return repo


def log(repo: Sandbox) -> list[str]:
    path = repo.path.parent / "log"
    return path.read_text().splitlines() if path.exists() else []


def calm(repo: Sandbox) -> None:
    (repo.path.parent / "calm").touch()


@pytest.mark.parametrize("isolate", ["none", "tree"])
def test_once_waits_where_an_input_moved_while_what_it_uses_was_made(moving: Sandbox, isolate: str) -> None:
    moving.write("p.toml", toml({"build": {**MOVES, "isolate": isolate}, "deploy": deploy()}))
    held = moving.baton("run", "--plan", "p.toml", "--run", "r")
    assert held.code == 75 and log(moving) == ["built"], held
    assert "baton: build: 'in' changed while it ran; its result may not be of what is there now" in held.err
    assert "baton: deploy: waits at the gate: what it uses is stale: 'in' changed since step 'build' read it" in held.err
    assert "'git baton run --continue r' makes that anew" in held.err
    assert "waiting at its gate" in moving.ok("run", "show", "r").out
    calm(moving)
    moving.ok("run", "--continue", "r")
    assert log(moving) == ["built", "built", "deployed new"] and "finished" in moving.ok("run", "list").out


def test_a_person_may_take_what_is_stale(moving: Sandbox) -> None:
    held = moving.baton("run", "--plan", "p.toml", "--run", "r")
    assert held.code == 75 and moving.baton("run", "--step", "other", "--run", "r", "--", "true").code == 0
    moving.ok("run", "approve", "deploy", "--run", "r")
    once = ("--step", "deploy", "--run", "r", "--reads", "app", "--after", "build", "--effect", "once", "--", "sh", "-c")
    done = moving.baton("run", *once, "echo deployed $(cat app) >> ../log")
    assert done.code == 0 and log(moving) == ["built", "deployed old"], done


def test_what_a_person_refuses_stays_refused(moving: Sandbox) -> None:
    assert moving.baton("run", "--plan", "p.toml", "--run", "r").code == 75
    moving.ok("run", "approve", "deploy", "--reject", "--run", "r")
    once = ("--step", "deploy", "--run", "r", "--reads", "app", "--after", "build", "--effect", "once", "--", "sh", "-c")
    refused = moving.baton("run", *once, "echo deployed $(cat app) >> ../log")
    assert refused.code == 1 and log(moving) == ["built"], refused


def test_a_single_step_that_uses_a_stale_result_waits_and_is_told_how_it_goes_on(repo: Sandbox) -> None:
    repo.write("in", "old\n")
    build = ("--step", "build", "--run", "r", "--reads", "in", "--writes", "app", "--", "sh", "-c", LINE)
    once = ("--step", "deploy", "--run", "r", "--reads", "app", "--after", "build", "--effect", "once", "--", "sh", "-c")
    repo.ok("run", *build)
    repo.write("in", "new\n")
    held = repo.baton("run", *once, "echo deployed $(cat app) >> ../log")
    assert held.code == 75 and "'in' changed since step 'build' read it" in held.err
    assert "'git baton run repair --step build' makes that anew" in held.err and log(repo) == ["built"]
    repo.ok("run", "repair", "--step", "build")
    repo.ok("run", *once, "echo deployed $(cat app) >> ../log")
    assert log(repo)[-1] == "deployed new"


def test_an_idempotent_effect_goes_on_and_it_is_said_before(moving: Sandbox) -> None:
    moving.write("p.toml", toml({"build": MOVES, "deploy": deploy("idempotent", run="echo deploys; echo done >> ../log")}))
    done = moving.baton("run", "--plan", "p.toml", "--run", "r")
    assert done.code == 0 and log(moving) == ["built", "done"]
    said = "baton: deploy: what it uses is stale: 'in' changed since step 'build' read it"
    assert said in done.err and done.err.index(said) < done.err.index("baton: deploy: runs")


@pytest.mark.parametrize("where", ["served", "two-up", "retried", "gated"])
def test_it_is_seen_wherever_the_input_moves(moving: Sandbox, where: str) -> None:
    """While a result further up is served, two steps up, while an attempt is made again, and behind a gate that is open."""
    calm(moving)
    move = 'test ! -e ../go || { rm ../go; echo new > "$WHERE/in"; }'
    test = {"run": f"cat app > tested; {move}", "reads": ["app"], "writes": ["tested"], "key": ["1"]}
    more: dict[str, Any] = {"reads": ["app", "tested"]}
    if where == "retried":
        more |= {"run": f"{move}; exit 3", "retries": 2, "backoff": "1ms", "probe": "exit 1"}
    if where == "gated":
        more["gate"] = "sure?"
    plan = {"build": MOVES, "test": test}
    moving.write("p.toml", toml(plan))
    if where == "served":
        moving.ok("run", "--plan", "p.toml", "--run", "r")
    plan |= {"test": {**test, "key": ["2"]}, "deploy": deploy(**more)}
    moving.write("p.toml", toml(plan))
    if where == "gated":
        assert moving.baton("run", "--plan", "p.toml", "--run", "r").code == 75
        moving.ok("run", "approve", "deploy", "--run", "r")
        moving.write("p.toml", toml({**plan, "test": {**test, "key": ["3"]}}))
    (moving.path.parent / "go").touch()
    held = moving.baton("run", "--plan", "p.toml", "--run", "r")
    assert held.code == 75 and "'in' changed since step 'build' read it" in held.err, held
    assert log(moving) == ["built"]


@pytest.mark.parametrize("how", [{"isolate": "tree"}, {"on-undeclared": "restore"}])
def test_a_step_whose_changes_of_its_own_inputs_do_not_stay_keeps_nobody_waiting(repo: Sandbox, how: dict[str, str]) -> None:
    repo.write("in", "old\n")
    build = {**BUILD, "run": LINE + "; echo more >> in", **how}
    repo.write("p.toml", toml({"build": build, "deploy": deploy()}))
    done = repo.baton("run", "--plan", "p.toml", "--run", "r")
    assert done.code == 0 and log(repo) == ["built", "deployed old"], done
    assert "changed while it ran" not in done.err and (repo.path / "in").read_text() == "old\n"
