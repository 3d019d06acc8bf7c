"""``baton.trailers``: a commit that an agent makes in its turn says so, once; no other commit does, and none fails."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gitbaton.base.clients import KNOWN, agents_of
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.places import ROOT
from tests.kit.tables import each
from tests.kit.talks import Talk

SESSION = "5e551011-0000-4000-8000-000000000001"
CLAUDE = {"CLAUDE_CODE_SESSION_ID": SESSION}
LINE = "Assisted-by: claude:claude-opus-4-5"


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """A turn that goes on, in a repository with trailers."""
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("snapshot", "--track", "t", "begin")
    repo.ok("install", "--trailers")
    talk = Talk(repo, tmp_path / "talk.jsonl", SESSION)
    talk.ask("commit it")
    talk.fire("prompt", prompt="commit it")
    talk.answer("m1", 10, 1)
    return talk


def commit(repo: Sandbox, *words: str, env: dict[str, str] | None = None, stdin: bytes | None = None) -> str:
    """A commit's whole message; by the agent unless another environment is given."""
    done = repo.run("git", "commit", "-q", "--allow-empty", *words, env=CLAUDE if env is None else env, stdin=stdin)
    assert done.code == 0, done
    return repo.git("log", "-1", "--format=%B").rstrip("\n")


def test_an_agents_commit_names_it_and_the_users_own_does_not(talk: Talk) -> None:
    repo = talk.repo
    assert commit(repo, "-m", "by the agent") == f"by the agent\n\n{LINE}"
    assert commit(repo, "-m", "by the user, beside it", env={}) == "by the user, beside it"
    talk.stop()
    assert commit(repo, "-m", "by what it left running") == "by what it left running"
    assert commit(repo, "-m", "x", env={"CLAUDE_CODE_SESSION_ID": "another"}) == "x\n\nAssisted-by: claude", (
        "no hook tells of it"
    )
    assert commit(repo, "-m", "x", env={**CLAUDE, "GIT_BATON": "0"}) == "x"


def test_a_session_that_was_cut_off_makes_no_commits(talk: Talk) -> None:
    """As of a terminal that it once opened, in which its user works now."""
    old = time.time() - 3600
    for path in (talk.path, *(talk.repo.path / ".git/baton/sessions").iterdir()):
        os.utime(path, (old, old))
    assert commit(talk.repo, "-m", "by hand") == "by hand"
    talk.say("and now")
    assert commit(talk.repo, "-m", "after a long silence") == f"after a long silence\n\n{LINE}"


FORMS: list[tuple[tuple[str, ...], str, str]] = [
    (("-m", "one", "-m", "two"), "", f"one\n\ntwo\n\n{LINE}"),
    (("-F", "-"), "one\n\n---\nno divider\n", f"one\n\n---\nno divider\n\n{LINE}"),
    (("-m", "one\n\nSigned-off-by: A <a@b>"), "", f"one\n\nSigned-off-by: A <a@b>\n{LINE}"),
    (("-m", f"one\n\n{LINE}"), "", f"one\n\n{LINE}"),
    (("-m", "one\n\nAssisted-by: codex"), "", f"one\n\nAssisted-by: codex\n{LINE}"),
    (("-m", "#1 is mended"), "", f"#1 is mended\n\n{LINE}"),
    (("-s", "-m", "one"), "", f"one\n\nSigned-off-by: A U Thor <author@example.com>\n{LINE}"),
    (("-e", "-v", "-m", "one"), "", f"one\n\n{LINE}"),
    (("-e", "--cleanup=scissors", "-m", "one"), "", f"one\n\n{LINE}"),
    (("--cleanup=verbatim", "-m", "one"), "", f"one\n\n{LINE}"),
    (("-C", "HEAD"), "", f"first\n\n{LINE}"),
    (("--amend", "--no-edit"), "", f"first\n\n{LINE}"),
]


@each("words, stdin, message", FORMS)
def test_every_way_to_give_a_message_gets_one_line(repo: Sandbox, words: tuple[str, ...], stdin: str, message: str) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    repo.ok("install", "--trailers")
    env = {"GEMINI_CLI": "1", "GIT_EDITOR": "true"}
    line = "Assisted-by: gemini"
    found = commit(repo, *(word.replace(LINE, line) for word in words), env=env, stdin=stdin.encode())
    name = repo.git("var", "GIT_AUTHOR_IDENT").rsplit(" ", 2)[0]
    assert found == message.replace(LINE, line).replace("A U Thor <author@example.com>", name)


def test_a_message_that_is_not_written_stays_empty(talk: Talk) -> None:
    repo = talk.repo
    template = repo.write("../template", "fill me in\n")
    for words in (("-m", ""), (), ("-t", str(template)), ("-e", "-m", ""), ("-e", "-v", "-m", "")):
        done = repo.run("git", "commit", "--allow-empty", *words, env={**CLAUDE, "GIT_EDITOR": "true"})
        assert done.code == 1 and "Abort" in done.err, done


def test_what_is_made_again_keeps_what_it_has(talk: Talk) -> None:
    repo = talk.repo
    repo.commit("base", a="1\n")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("b", "1\n")
    repo.git("add", "-A")
    commit(repo, "-m", "the agent's")
    repo.commit("the user's", c="1\n")
    repo.git("checkout", "-q", "main")
    repo.commit("more", d="1\n")
    for words in (
        ("cherry-pick", "side~1", "side"),
        ("rebase", "-q", "--force-rebase", "HEAD~2"),
        ("revert", "--no-edit", "HEAD"),
    ):
        done = repo.run("git", *words, env={**CLAUDE, "GIT_EDITOR": "true"})
        assert done.code == 0, done
    bodies = repo.git("log", "-3", "--format=%s|%(trailers:key=Assisted-by,separator=%x2C)").splitlines()
    assert bodies == [f'Revert "the user\'s"|{LINE}', "the user's|", f"the agent's|{LINE}"]
    assert repo.run("git", "merge", "-q", "--no-edit", "side", env=CLAUDE).code == 0
    assert repo.git("log", "-1", "--format=%B").count(LINE) == 1 and len(repo.git("log", "-1", "--format=%P").split()) == 2
    assert commit(repo, "--amend", "--no-edit", env={}).count("Assisted-by") == 1
    assert commit(repo, "--amend", "--no-edit").count("Assisted-by") == 1


def test_the_hook_asks_for_every_variable_that_a_client_sets() -> None:
    script = (ROOT / "hooks/prepare-commit-msg").read_text()
    for name, of in KNOWN.items():
        for variable in filter(None, (of.session, of.mark)):
            assert f"${{{variable}-}}" in script, name
            assert f"`{variable}`" in (ROOT / "gitbaton/data/guides/agents.md").read_text(), name


# What the shells of the clients had beside the user's own, recorded; a fork keeps names of what it comes from.
SHELLS: list[tuple[str, str]] = [
    (
        "claude",
        "AI_AGENT=claude-code_2-1-332_agent CLAUDECODE=1 CLAUDE_CODE_CHILD_SESSION=1 CLAUDE_CODE_SESSION_ID=s GIT_EDITOR=true",
    ),
    ("codex", "CODEX_CI=1 CODEX_SESSION_ID=s CODEX_THREAD_ID=s CODEX_TOOL_CALL_ID=call_2 CODEX_VERSION=0.171.0 GIT_PAGER=cat"),
    ("copilot", "COPILOT_AGENT_SESSION_ID=s COPILOT_CLI=1 COPILOT_CLI_BINARY_VERSION=1.0.102 GIT_OPTIONAL_LOCKS=0"),
    ("droid", "GIT_BATON_DROID_SESSION=s GIT_EDITOR=true GIT_SEQUENCE_EDITOR=true FORCE_COLOR=0"),
    ("gemini", "GEMINI_CLI=1 GEMINI_CLI_NO_RELAUNCH=true GIT_PAGER=cat"),
    (
        "kilo",
        "AGENT=1 KILO=1 KILOCODE_VERSION=7.7.9 KILO_PID=2127 KILO_PROCESS_ROLE=main OPENCODE=1 GIT_BATON_KILO_SESSION=s",
    ),
    ("opencode", "AGENT=1 OPENCODE=1 OPENCODE_PID=14931 GIT_BATON_OPENCODE_SESSION=s"),
    ("qwen", "QWEN_CODE=1 QWEN_CODE_AGENT_ID= QWEN_CODE_MODEL=scripted QWEN_CODE_PROMPT_ID=s#0 QWEN_CODE_SESSION_ID=s"),
]


@each("name, shell", SHELLS)
def test_what_a_client_sets_for_its_commands_names_it_alone(name: str, shell: str) -> None:
    env = dict(variable.split("=") for variable in shell.split())
    assert [(agent.name, agent.session) for agent in agents_of(env)] == [(name, "s" if KNOWN[name].session else None)]


def test_a_session_that_is_told_no_prompts_is_at_work_until_it_ends(repo: Sandbox) -> None:
    repo.ok("install", "--trailers")
    repo.ok("snapshot", "--track", "t", "begin")
    client = Client("droid", repo.path)
    client.fire("start")
    env = {"GIT_BATON_DROID_SESSION": client.session}
    assert commit(repo, "-m", "one", env=env) == "one\n\nAssisted-by: droid"
    client.fire("end")
    assert commit(repo, "-m", "two", env=env) == "two"


def test_two_agents_are_two_lines(talk: Talk) -> None:
    both = {**CLAUDE, "CODEX_SESSION_ID": "another"}
    assert commit(talk.repo, "-m", "one", env=both) == f"one\n\n{LINE}\nAssisted-by: codex"


@pytest.mark.parametrize(("agent", "mark"), [("gemini", "GEMINI_CLI"), ("opencode", "OPENCODE_PID"), ("kilo", "KILO")])
def test_a_client_without_a_sessions_name_needs_a_turn_where_hooks_tell(repo: Sandbox, agent: str, mark: str) -> None:
    repo.ok("install", "--trailers")
    repo.ok("snapshot", "--track", "t", "begin")
    client = Client(agent, repo.path)
    client.fire("prompt", prompt="go")
    assert commit(repo, "-m", "one", env={mark: "1"}) == f"one\n\nAssisted-by: {agent}"
    client.fire("turn")
    assert commit(repo, "-m", "two", env={mark: "1"}) == "two"


def test_the_hook_is_there_while_it_is_wanted_and_gives_the_place_back(repo: Sandbox) -> None:
    hook = repo.path / ".git/hooks/prepare-commit-msg"
    hook.parent.mkdir(exist_ok=True)
    own = '#!/bin/sh\necho own >> "$1"\n'
    hook.write_text(own)
    hook.chmod(0o755)
    repo.write(".git/hooks/post-commit", '#!/bin/sh\n. "${0%/*}/lib"\n').chmod(0o755)
    repo.write(".git/hooks/lib", ":\n")
    repo.ok("install")
    assert hook.read_text() == own and repo.git("config", "--default", "unset", "baton.trailers") == "unset"
    assert commit(repo, "-m", "one", env={"GEMINI_CLI": "1"}) == "one\nown"
    repo.ok("install", "--trailers")
    assert commit(repo, "-m", "two", env={"GEMINI_CLI": "1"}) == "two\nown\n\nAssisted-by: gemini"
    assert commit(repo, "-m", "two", env={}) == "two\nown"
    assert "everything is in place" in repo.ok("install").out
    assert "prepare-commit-msg" not in repo.ok("doctor").out
    repo.ok("install", "--no-trailers")
    assert hook.read_text() == own and commit(repo, "-m", "three", env={"GEMINI_CLI": "1"}) == "three\nown"
    repo.ok("install", "--trailers")
    repo.ok("uninstall")
    assert hook.read_text() == own and repo.git("config", "--default", "unset", "baton.trailers") == "unset"
    assert not (repo.path / ".git/hooks.baton-legacy").exists() and not (repo.path / ".git/baton/hooks").exists()


def test_whatever_is_broken_the_commit_is_made(talk: Talk, tmp_path: Path) -> None:
    repo = talk.repo
    shim = tmp_path / "shim"
    shim.mkdir()
    (shim / "git-baton").write_text("#!/bin/sh\necho no; exit 3\n")
    (shim / "git-baton").chmod(0o755)
    done = repo.run(
        "git", "commit", "--allow-empty", "-qm", "one", env={**CLAUDE, "PATH": f"{shim}{os.pathsep}{os.environ['PATH']}"}
    )
    assert (done.code, done.out, done.err) == (0, "", "")
    talk.path.write_bytes(b"\xff\x00{" * 1000)
    assert commit(repo, "-m", "two") == "two\n\nAssisted-by: claude"
    (repo.path / ".git/baton/tracks").mkdir(exist_ok=True)
    repo.git("config", "baton.trailers", "neither")
    assert commit(repo, "-m", "three") == "three"


def test_a_linked_work_tree_knows_the_turn_of_its_repository(talk: Talk, tmp_path: Path) -> None:
    other = talk.repo.path.parent / "other"
    talk.repo.git("worktree", "add", "-q", str(other))
    assert commit(Sandbox(other), "-m", "one") == f"one\n\n{LINE}"
    done = Sandbox(other).run("git", "rebase", "-q", "--force-rebase", "HEAD~1", env=CLAUDE)
    assert done.code == 0 and talk.repo.git("-C", str(other), "log", "-1", "--format=%B").count(LINE) == 1
