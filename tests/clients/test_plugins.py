"""The plugin in the real clients, alone and beside a project's own hooks: the baton is in the request after start, compaction
and cold start, and each event is acted on once."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clients import hands as all_hands
from tests.clients.client_codex import BYPASS
from tests.clients.hands import Hands, said
from tests.clients.judge import assert_once, assert_quiet, assert_told
from tests.clients.model import Reply, strings
from tests.clients.test_handover import HALF, MAKERS, RIGHT
from tests.clients.workshop import STEP, client
from tests.kit.places import ROOT

DATA = ROOT / "gitbaton" / "data"
NAMES = ("claude", "codex", "gemini", "opencode", "copilot")


def by_claude(hands: all_hands.ClaudeHands) -> None:
    hands.options += ("--plugin-dir", str(DATA / "plugin"))


def from_a_marketplace(hands: all_hands.ClaudeHands) -> None:
    words = ("plugin", "install", "gitbaton", "--marketplace", str(ROOT), "--scope", "user")
    done = hands.workshop.run(hands.client.program, *words, env=hands.client.env)
    assert done.code == 0, done


def by_codex(hands: all_hands.CodexHands) -> None:
    for words in (("marketplace", "add", str(ROOT)), ("add", "gitbaton@gitbaton")):
        done = hands.workshop.run(hands.client.program, "plugin", *words, env=hands.client.env)
        assert done.code == 0, done
    hands.options += (BYPASS,)


def by_copilot(hands: all_hands.CopilotHands) -> None:
    for words in (("marketplace", "add", str(ROOT)), ("install", "gitbaton@gitbaton")):
        done = hands.workshop.run(hands.client.program, "plugin", *words, env=hands.client.env)
        assert done.code == 0, done


def by_gemini(hands: all_hands.GeminiHands) -> None:
    words = ("extensions", "install", str(DATA / "extension"), "--consent")
    done = hands.workshop.run(hands.client.program, *words, env=hands.client.env)
    assert done.code == 0, done


def by_opencode(hands: all_hands.OpenCodeHands) -> None:
    settings = hands.workshop.home / ".config" / "opencode" / "opencode.json"
    whole = {**json.loads(settings.read_text()), "plugin": [(DATA / "opencode" / "plugins" / "gitbaton-plugin.js").as_uri()]}
    settings.write_text(json.dumps(whole))


WAYS: dict[str, Callable[..., None]] = {
    "claude": by_claude,
    "claude from a marketplace": from_a_marketplace,
    "codex": by_codex,
    "copilot": by_copilot,
    "gemini": by_gemini,
    "opencode": by_opencode,
}


def with_plugin(request: pytest.FixtureRequest, way: str) -> Hands:
    """A client with the plugin, in a project whose half() rounds down."""
    name = way.split()[0]
    hands = MAKERS[name](request.getfixturevalue(name))
    hands.workshop.repo.write("half.py", HALF)
    hands.workshop.repo.commit("half of it")
    WAYS[way](hands)
    return hands


def drive(hands: Hands) -> list[str]:
    """A turn, a compaction, a cold start; the steps of the automatic checkpoints, oldest first."""
    first, *_ = said(hands, "Round up.", *hands.changes("half.py", HALF, RIGHT), Reply("It rounds up."))
    assert_told(first)
    assert_once(first)
    assert_told(hands.compacted("Is that all?"))
    hands.workshop.drift()
    (cold,) = said(hands, "And anew", Reply("Yes."))
    assert_told(cold)
    assert_once(cold)
    assert_quiet(hands.workshop, hands.model)
    return [c["step"] for c in reversed(hands.workshop.checkpoints()) if c["kind"] == "auto"]


def calls(hands: Hands) -> list[tuple[int, int]]:
    """For each payload how many hooks got it, and how many of them answered."""
    runs = [(f"{run.event} {json.dumps(run.payload)}", bool(run.out)) for run in hands.workshop.hooks()]
    return [
        (sum(key == one for key, _ in runs), sum(said for key, said in runs if key == one)) for one in {key for key, _ in runs}
    ]


@pytest.mark.parametrize("way", list(WAYS))
def test_the_plugin_alone(way: str, request: pytest.FixtureRequest) -> None:
    hands = with_plugin(request, way)
    steps = drive(hands)
    assert "turn ended: Round up." in steps and steps[-1] == "turn ended: And anew"


@pytest.mark.parametrize("name", NAMES)
def test_the_plugin_as_agent_install_writes_it(name: str, request: pytest.FixtureRequest) -> None:
    """With what --user installs beside it: Claude Code has the skill of both in one folder."""
    hands = MAKERS[name](request.getfixturevalue(name))
    hands.workshop.repo.write("half.py", HALF)
    hands.workshop.repo.commit("half of it")
    path = f"{Path(hands.client.program).parent}:{hands.workshop.env['PATH']}"
    trust = ["--trust"] if name == "codex" else []
    for level in ("--plugin", "--user"):
        hands.workshop.install(name, level, *trust, env={**hands.client.env, "PATH": path})
    steps = drive(hands)
    assert steps.count("turn ended: Round up.") == 1 and steps[-1] == "turn ended: And anew"
    assert name == "opencode" or all(heard % 2 == 0 and said <= heard / 2 for heard, said in calls(hands)), calls(hands)
    if name == "claude":
        assert "gitbaton:gitbaton" in hands.model.turns[-1].text
    said = hands.workshop.run(str(hands.workshop.bin / "git-baton"), "agent", "doctor", env={**hands.client.env, "PATH": path})
    assert f"{name} plugin" in said.out and f"MEND {name}" not in said.out, said.out


@pytest.mark.parametrize("name", [name for name in NAMES if name != "claude"])
def test_installed_at_both_levels_each_event_is_acted_on_once(name: str, request: pytest.FixtureRequest) -> None:
    hands = MAKERS[name](request.getfixturevalue(name))
    hands.workshop.repo.write("half.py", HALF)
    hands.workshop.repo.commit("half of it")
    hands.install("--user")
    hands.install()
    steps = drive(hands)
    assert steps.count("turn ended: Round up.") == 1
    twice = name in ("codex", "copilot")
    assert all(said <= heard / (2 if twice else 1) for heard, said in calls(hands)), calls(hands)


@pytest.mark.parametrize("way", list(WAYS))
def test_the_plugin_beside_a_projects_own_hooks(way: str, request: pytest.FixtureRequest) -> None:
    hands = with_plugin(request, way)
    hands.install()
    steps = drive(hands)
    assert steps.count("turn ended: Round up.") == 1 and steps[-1] == "turn ended: And anew"
    if hands.name != "opencode":  # there one of the two does not call at all
        assert all(heard % 2 == 0 and answered <= heard / 2 for heard, answered in calls(hands)), calls(hands)


@pytest.mark.parametrize("way", list(WAYS))
def test_the_plugin_begins_where_nothing_is(way: str, request: pytest.FixtureRequest) -> None:
    hands = with_plugin(request, way)
    repo = hands.workshop.repo
    for ref in repo.git("for-each-ref", "--format=%(refname)", "refs/baton", "refs/checkpoints", "refs/notes").splitlines():
        repo.git("update-ref", "-d", ref)
    repo.run("rm", "-rf", ".git/baton")
    said(hands, "Round up.", *hands.changes("half.py", HALF, RIGHT), Reply("It rounds up."))
    (cold,) = said(hands, "And anew", Reply("Yes."))
    (track,) = repo.git("for-each-ref", "--format=%(refname:lstrip=3)", "refs/baton/tracks").splitlines()
    assert f"git baton: the state of track '{track}'" in cold.text and STEP not in cold.text
    steps = [c["step"] for c in repo.ok("log", track, "--json").json["checkpoints"]]
    assert steps.count("turn ended: Round up.") == 1


@pytest.mark.parametrize(
    ("name", "typed"),
    [("claude", ["/gitbaton:baton revert turn2"]), ("opencode", ["--command", "baton", "revert turn2"])],
)
def test_the_command_is_there(name: str, typed: list[str], request: pytest.FixtureRequest) -> None:
    hands = MAKERS[name](request.getfixturevalue(name))
    hands.install("--plugin")
    *options, prompt = typed
    hands.model.will_say(Reply("Looking."))
    hands.client.ask(prompt, *options, *getattr(hands, "options", ()))
    asked = [text for turn in hands.model.turns for text in strings(turn.body) if "The user asks git baton for:" in text]
    assert asked and all("revert turn2" in text and "git baton revert --dry-run" in text for text in asked), asked


def test_claude_says_that_it_is_valid(request: pytest.FixtureRequest) -> None:
    hands = MAKERS["claude"](request.getfixturevalue("claude"))
    for words in ((str(ROOT),), ("--profile", "directory", str(DATA / "plugin"))):
        done = hands.workshop.run(client("claude"), "plugin", "validate", "--strict", *words, env=hands.client.env)
        assert done.code == 0 and "Validation passed" in done.out, done
        assert Path(words[-1]).is_dir()
