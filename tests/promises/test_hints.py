"""Every command that a hint, a warning or a text for agents names is understood as it is typed, and does its work."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitbaton.cli.usage import Verbs
from gitbaton.cli.verbs import OLD, VERBS, find
from gitbaton.git.repo import discover
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox, hinted
from tests.kit.agents import Client
from tests.kit.places import ROOT
from tests.kit.threads import QUIET, numbered
from tests.kit.tiers import full
from tests.verbs.test_conversation_verbs import talk
from tests.verbs.test_porting import lay

NAMES = "|".join([*VERBS, *OLD, "-h"])
QUOTED = re.compile(rf"'(git baton (?:{NAMES})\b[^']*)'")
PLAIN = re.compile(rf"(?:^|: |\[the rest: |\[more: )(git baton (?:{NAMES})\b[^\]]*?)(?:\]|$)")
# What stands in a literal for what is told when it is said.
FIELDS = {
    "'redo' if op == 'undo' else 'undo'": "undo",
    "' '.join(ids[:MAX_IDS])": "t",
    "' '.join(words)": "lexer done",
    "' '.join(map(in_shell, [client, *checkpoints]))": "codex t",
    "baton.short(stored.id)": "t",
    "names": "t",
    "plain(shlex.join(line))": "lexer done",
    "baton.short(one.id)": "t",
    "baton.short(one.stored.id)": "t",
    "baton.short(end.id)": "t",
    "baton.short(previous)": "t",
    "newest": "t",
    "other": "t",
    "target": "t",
    "file": "a.txt",
    "there": "a.txt",
    "manual": "",
    "previous": "t",
    "previous[:_DIGITS]": "t",
    "stored.id[:_DIGITS]": "t",
    "in_shell(row.run)": "r",
    "target.id[:12]": "t",
    "folder": "claude",
    "given": "claude",
    "client.name": "claude",
    "how": "show",
    "in_shell(client)": "codex",
    "in_shell(commit)": "HEAD",
    "stored.id": "t",
    "baton.short(target.id)": "t",
    "self.baton.short(self.target.id)": "t",
    "checkpoint": "t",
    "act": "uninstall",
    "again": "--continue r",
    "cmd_name": "log",
    "ctx.run": "r",
    "does": "",
    "in_shell(' '.join(words))": "'lexer done'",
    "in_shell(c.track)": "t",
    "in_shell(made.track)": "t",
    "in_shell(spelled)": "t",
    "in_shell(name)": "t",
    "in_shell(other)": "t-2",
    "in_shell(row.item[1])": "t",
    "in_shell(include)": "a.txt",
    "in_shell(newest)": "t",
    "in_shell(first)": "t~1",
    "in_shell(last)": "t",
    "seen": "t",
    "in_shell(track)": "t",
    "in_shell(fetched)": "t",
    "in_shell(folder)": "origin",
    "in_shell(parent)": "older",
    "in_shell(checkpoint)": "@",
    "in_shell(order.checkpoint)": "a.txt",
    "theirs": "side",
    "in_shell(path)": "t",
    "in_shell(place)": "origin",
    "in_shell(remote)": "origin",
    "in_shell(renamed[remote])": "origin",
    "in_shell(remote.shown)": "origin",
    "in_shell(self.shown)": "origin",
    "in_shell(shown)": "origin",
    "in_shell(thread)": "demo",
    "quote(plain(track))": "t",
    "in_shell(word)": "t",
    "in_shell(done)": "'lexer done'",
    "in_shell(then)": "true",
    "line(run.step or '')": "go",
    "made.runs[0]": "r",
    "baton.short(made.pinned[0])": "t",
    "baton.short(made.pinned[0].id)": "t",
    "name": "t",
    "named": "t",
    "one.run": "r",
    "outcome.run": "r",
    "plain(name)": "r",
    "plain(remote)": "origin",
    "remote": "origin",
    "row.client.name": "claude",
    "row.level": "project",
    "run": "r",
    "scene.short": "t",
    "self.baton.short(order.checkpoint)": "t",
    "self.run": "r",
    "before": "~1",
    "several": "",
    "shell": "bash",
    "short": "t~1",
    "space": "",
    "more": "",
    "place": "../beside",
    "these": "",
    "ends": "t~1 -- true",
    "shlex.join(words)": "true",
    "turn": "",
    "step.name": "go",
    "verb": "push",
    "word": " t",
    "option": "--track",
}
# What stands in a hint for the user's own word.
WORDS = {
    "NAME": "t",
    "TEXT": "text",
    "CHECKPOINT": "t",
    "DIR": "older",
    "PATH": "../beside",
    "RUN": "r",
    "STEP": "'a step'",
    "TRACK": "side",
}
WORDS |= {
    "TURN": "t~1",
    "VERB": "log",
    "TOPIC": "files",
    "THREAD": "demo",
    "AGENT": "claude",
    "CMD": "true",
    "CMD...": "true",
    "ID": "t",
    "FILE": "plan.toml",
    "...": "text",
}
FINE = {0, 1, 75, 76}  # done; the answer is no; a gate and an unknown outcome, which are said


def literals() -> Iterator[str]:
    """Every text of the package that is no docstring, an f-string with the sources of its fields."""
    for path in sorted((ROOT / "gitbaton").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(source))) if "git baton" in source else []
        parts = {id(value) for node in nodes if isinstance(node, ast.JoinedStr) for value in node.values}
        parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.JoinedStr):
                yield "".join(v.value if isinstance(v, ast.Constant) else f"{{{_source(v)}}}" for v in node.values)  # type: ignore
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
                yield node.value


def _source(field: ast.expr) -> str:
    return ast.unparse(field.value) if isinstance(field, ast.FormattedValue) else ""


def told() -> Iterator[str]:
    """The commands in texts for agents."""
    for name in ("AGENTS.md", "SKILL.md"):
        text = (ROOT / "gitbaton/data/agents" / name).read_text().replace("\\\n        ", "")
        yield from re.findall(r"`(git baton (?:[a-z]+)[^`]*)`", text)
        yield from (row.split("  #")[0].strip() for row in re.findall(r"^    (git baton .*)$", text, re.M))


def commands() -> list[list[str]]:
    """The words of every command that is named, each once, as somebody would type them."""
    found = dict.fromkeys(told())
    for text in literals():
        filled = re.sub(r"\{([^{}]+)\}", lambda match: FIELDS.get(match[1], match[0]), text)
        named = QUOTED.findall(filled) or PLAIN.findall(filled)
        if text.startswith("to {verb} only that"):  # the one hint whose verb is told
            named = [filled.partition(": ")[2]]
        found |= dict.fromkeys(named)
    return [_typed(text) for text in found]


def _typed(text: str) -> list[str]:
    text = text.replace("green|pending|failed", "green").replace("--validation ...", "--validation green")
    words = [WORDS.get(word, word).strip("'") for word in shlex.split(text)[2:]]
    other = {"settle": "pub", "approve": "go", "compensate": "eff", "transcript": "claude", "agent": "claude"}.get(
        words[words[0] == "run"]
    )
    if other is None and words[0] == "run":
        other = "plan.toml" if "--plan" in words else "r"
        words = [{"r": "p"}.get(word, word) if "--plan" in words else word for word in words]
    elif other is None and "--conversation" in words:
        other = "claude"
    if words[0] == "transcript":
        words = ["said.jsonl" if word == "plan.toml" else word for word in words]
    return [other if other is not None and word in ("t", "go", "{}", "a step") else word for word in words]


@pytest.fixture(scope="module")
def named() -> list[list[str]]:
    return commands()


def test_there_are_as_many_as_are_seen(named: list[list[str]]) -> None:
    """Nothing that looks like a command in quotes is passed over, and no field of one is unknown."""
    assert len(named) > 60
    assert [words for words in named if any("{" in word and word != "{}" for word in words)] == []


def test_no_hint_names_a_verb_by_its_old_name(named: list[list[str]]) -> None:
    assert [words for words in named if words[0] in OLD] == []


def test_every_command_that_is_named_is_understood(named: list[list[str]]) -> None:
    group, wrong = Verbs(name="git baton"), []
    for words in named:
        if words[0] == "-h":
            continue
        try:
            verb, rest = find(words)
            group.get_command(None, verb).make_context(verb, rest)
        except Exception as error:
            wrong.append((words, str(error)))
    assert wrong == []


def furnish(repo: Sandbox) -> None:
    """Something for each verb to work on."""
    talk(repo, "claude")
    repo.ok("snapshot", "another line of work", "--track", "side", "--no-set-current")
    for text in ("one\n", "two\n"):
        repo.write("a.txt", text)
        repo.write("src/num.py", text)
        repo.ok("snapshot", text, "--track", "t")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="three")
    repo.write("a.txt", "three\n")
    client.fire("turn")
    repo.ok("snapshot", "four", "--track", "t", "--decision", "the api stays as it is")
    for words in (("restore", "t~2"), ("restore", "t~1"), ("undo",)):
        repo.ok(*words)
    repo.write("plan.toml", '[step.lint]\nrun = "true"\n')
    lay(repo.path / "older", "plain", repo.head())
    effect = ("--effect", "once", "--compensate", "true")
    repo.ok("run", "--plan", "plan.toml", "--run", "p")
    assert repo.baton("run", "--run", "r", "--step", "eff", *effect, "--", "true").code == 0
    assert repo.baton("run", "--run", "r", "--step", "pub", "--effect", "once", "--", "false").code == 1
    assert repo.baton("run", "--run", "r", "--step", "go", "--gate", "look", "--", "true").code == 75
    with ThreadStore(discover(str(repo.path)), **QUIET) as store:
        numbered(store, 2, "demo")
        store.flush()
    hub = repo.path.parent / "hub.git"
    repo.git("init", "-q", "--bare", str(hub))
    repo.git("remote", "add", "origin", str(hub))
    repo.git("config", "baton.push", "true")
    repo.ok("push", "--threads", "--runs", "origin")
    repo.ok("pause", "--for", "1d")


MAIN = ("ordinary", "empty", "bare", "foreign", "ambiguous", "torn tree")  # of the deep tier; the full one has all states
FEW = (["restore", "@~1"], ["restore", "a.txt"], ["revert", "a.txt"], ["undo"], ["rewind"], ["log", "x"], ["scan", "--all"])


def test_what_is_named_where_nothing_is_yet_can_be_obeyed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = hinted.scene("unborn", tmp_path / "place")
    wrong = hinted.faults(found, "unborn", FEW, capfd.readouterr)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("torn ref-gone", "verify"),
        ("torn safety", "forget @ --yes"),
        ("torn safety", "tracks delete t --yes"),
        ("torn safety", "prune --keep-last 1 --yes"),
        ("torn run", "forget @ --yes"),
        ("torn blob", "resume @~1"),
        ("torn baton-head", "undo @~1"),
    ],
)
def test_nothing_is_led_to_what_fails_before_damage_is_mended(
    state: str, line: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = hinted.scene(state, tmp_path / "place")
    wrong = hinted.faults(found, state, [line.split()], capfd.readouterr)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.deep
@pytest.mark.parametrize("state", [state if state in MAIN else full(state) for state in hinted.STATES])
def test_what_is_named_can_be_obeyed_in_every_state(state: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = hinted.scene(state, tmp_path / "place")
    wrong = hinted.faults(found, state, hinted.ROWS, capfd.readouterr)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.deep
@pytest.mark.parametrize("state", ["ordinary", "empty", "bare", "foreign", "torn commit"])
def test_what_tools_name_can_be_obeyed(state: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = hinted.scene(state, tmp_path / "place")
    wrong = hinted.tool_faults(found, state, capfd.readouterr)
    assert wrong == [], "\n".join(wrong)


@pytest.mark.deep
def test_every_command_that_is_named_works(repo: Sandbox, named: list[list[str]]) -> None:
    """Each in a repository that has something of everything, as it was before."""
    furnish(repo)
    kept, wrong = repo.path.parent / "kept", []
    shutil.copytree(repo.path, kept, symlinks=True)
    for words in named:
        if "--trust" in words:  # no codex is here: tests/rooms/install has one that answers
            continue
        if "--conversation-only" in words:  # no client has spoken here: tests/verbs/test_conversation_verbs.py
            continue
        shutil.rmtree(repo.path)
        shutil.copytree(kept, repo.path, symlinks=True)
        shutil.rmtree(repo.path.parent / "beside", ignore_errors=True)
        if "--include" in words:
            repo.write(words[-1], "what is to be taken in\n")
        asks = words[0] == "forget" or words[:2] == ["tracks", "delete"]  # and here is nobody to answer
        done = repo.baton(*words, *(["--yes"] if asks else []))
        if done.code not in FINE or "bug in gitbaton" in done.err:
            wrong.append((" ".join(words), done.code, done.err))
    assert wrong == [], "\n".join(map(str, wrong))
