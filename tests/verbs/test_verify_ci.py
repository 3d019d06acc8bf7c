"""``verify --ci``: whether all tests were seen green on exactly the files of a commit, and what is known otherwise."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.signers import needs_ssh, signs_with, ssh_key, trusts
from tests.kit.tables import each
from tests.kit.talks import Talk
from tests.kit.testruns import GENUINE, JEST, forgeries

GREEN = "...                                                                      [100%]\n3 passed in 0.12s\n"
RED = "=== short test summary info ===\nFAILED tests/test_x.py::test_half - assert 1\n1 failed, 2 passed in 0.10s\n"


@pytest.fixture
def talk(repo: Sandbox, tmp_path: Path) -> Talk:
    """A session in a repository with a commit, that has changed a file which is committed when the turn has ended."""
    repo.commit("first", **{"x.py": "one\n", "tests/test_x.py": "def test_x(): pass\n", "sub/y.py": "y\n"})
    repo.ok("snapshot", "--track", "t", "begun")
    talk = Talk(repo, tmp_path / "talk.jsonl")
    talk.ask("go through it")
    talk.edit("x.py", "two\n")
    later(talk)
    return talk


def later(talk: Talk) -> None:
    """The clock of files, which is coarse, goes on beyond what is recorded and on disk now."""
    newest = max(path.lstat().st_ctime for path in talk.repo.path.rglob("*") if ".git" not in path.parts)
    tick = talk.path.with_name("tick")
    tick.touch()
    while tick.stat().st_mtime <= max(newest, talk.now.timestamp()):
        tick.touch()


def commit(talk: Talk) -> None:
    talk.repo.git("add", "-A")
    talk.repo.git("commit", "-qm", "work")


def proof(talk: Talk, *words: str) -> dict[str, Any]:
    """What ``verify --ci --json`` says; its exit status is what ``green`` says."""
    done = talk.repo.baton("verify", "--ci", "--json", *words)
    found: dict[str, Any] = json.loads(done.out)
    assert done.code == (0 if found["green"] else 1), done
    return found


def lacks(talk: Talk) -> str:
    """Why the newest run on record proves nothing."""
    found = proof(talk)
    run = max(found["runs"], key=lambda run: str(run["ended"]))
    assert not found["green"] and run["result"] == "passed", found
    return str(run["lacks"])


def test_a_run_of_all_tests_on_exactly_the_files_of_the_commit_is_green(talk: Talk) -> None:
    talk.run("pytest -q", GREEN)
    talk.stop()
    assert not proof(talk)["green"], "the commit has other files"
    commit(talk)
    assert proof(talk)["green"] and not proof(talk, "HEAD~1")["green"]
    done = talk.repo.baton("verify", "--ci")
    assert (done.code, done.out.count("pytest -q: passed (3 passed)")) == (0, 1)
    assert talk.repo.baton("verify", "--ci", "--quiet").out == "", "the exit status says it"


@pytest.mark.deep
@each(
    "command, then, why",
    [
        ("pytest -q -k half", "", "-k may leave tests out"),
        ("pytest -q tests/test_x.py", "", "tests/test_x.py may leave tests out"),
        ("pytest -q --lf", "", "--lf may leave tests out"),
        ("pytest -q | tail -3", "", "its own exit status is not known"),
        ("cd /tmp && pytest -q", "", "it ran in '/tmp'"),
        ("cd sub && pytest -q", "", "it ran in 'sub'"),
        ("cd $ELSEWHERE && pytest -q", "", "the folder that it ran in is not known"),
        ("pytest -q && git stash pop", "", "'git stash' may have changed files after it"),
        ("pytest -q", "edit x.py", "files changed after it"),
        ("pytest -q", "edit .env", "files changed after it"),
        ("pytest -q", "printf 'two\\n' >x.py", "'x.py' was written since it began"),
        ("pytest -q", "touch -d '2001-01-01' x.py", "'x.py' was written since it began"),
        ("pytest -q", "touch z && rm z", "'.' was written since it began"),
        ("pytest -q", "mv sub/y.py y.py", "'y.py' was written since it began"),
        ("pytest -q", "mv sub/y.py /tmp/y.$$ && rm /tmp/y.$$", "'sub' was written since it began"),
    ],
)
def test_a_run_that_leaves_something_open_proves_nothing(talk: Talk, command: str, then: str, why: str) -> None:
    talk.repo.write(".git/info/exclude", ".env\n")
    talk.ask("and now this")
    talk.edit("x.py", "two\n")
    talk.edit("new.txt", f"{talk.now}")
    talk.repo.write("sub/y.py", "y\n")
    talk.repo.write("sub/other.py", "z\n")
    later(talk)
    talk.run(command, GREEN)
    later(talk)
    if then.startswith("edit "):
        talk.edit(then[len("edit ") :], "three\n")
    else:
        subprocess.run(["sh", "-c", then], cwd=talk.repo.path, check=True)
    talk.stop()
    commit(talk)
    assert lacks(talk) == why


@pytest.mark.deep
@each(
    "command, why",
    [
        ("rm helper.py", "'rm' beside it may change files or what is shown"),
        ("sleep 1; rm helper.py", "'rm' beside it may change files or what is shown"),
        ("ls; git status", ""),
    ],
)
def test_what_another_command_did_while_tests_ran_is_not_known(talk: Talk, command: str, why: str) -> None:
    """As that a file, which the tests had read already, is gone."""
    talk.ask("the next one")
    talk.edit("x.py", f"{command}\n")
    later(talk)
    keys = [f"toolu_{next(talk.ids)}" for _ in range(2)]
    for key, line in zip(keys, ("pytest -q", command), strict=True):
        talk.record("assistant", [{"type": "tool_use", "id": key, "name": "Bash", "input": {"command": line}}])
    for key, text in zip(reversed(keys), ("", GREEN), strict=True):
        result = {"type": "tool_result", "tool_use_id": key, "content": text, "is_error": False}
        talk.record("user", [result], toolUseResult={"stdout": text})
    talk.stop()
    commit(talk)
    assert (lacks(talk) if why else proof(talk)["green"]) == (why or True)


@pytest.mark.deep
def test_an_edit_while_tests_ran_counts(talk: Talk) -> None:
    talk.repo.write(".git/info/exclude", ".env\n")
    talk.record("assistant", [{"type": "tool_use", "id": "run", "name": "Bash", "input": {"command": "pytest -q"}}])
    talk.edit(".env", "MODE=test\n")
    talk.record(
        "user",
        [{"type": "tool_result", "tool_use_id": "run", "content": GREEN, "is_error": False}],
        toolUseResult={"stdout": GREEN},
    )
    talk.stop()
    commit(talk)
    assert lacks(talk) == "files changed after it"


@pytest.mark.deep
def test_a_shell_that_has_gone_elsewhere_runs_the_tests_of_others(talk: Talk, tmp_path: Path) -> None:
    talk.cwd = tmp_path
    talk.run("pytest -q", GREEN)
    talk.stop()
    commit(talk)
    assert lacks(talk).startswith("it ran in ")


@pytest.mark.deep
def test_a_file_that_was_not_added_is_what_the_commit_lacks(talk: Talk) -> None:
    talk.repo.write("helper.py", "needed\n")
    talk.repo.write("sub/__pycache__/y.cpython-311.pyc", "made by python\n")
    later(talk)
    talk.run("pytest -q", GREEN)
    talk.stop()
    talk.repo.git("add", "x.py")
    talk.repo.git("commit", "-qm", "work")
    found = proof(talk)
    assert (found["green"], found["runs"][0]["differs"]) == (False, ["helper.py"])
    assert "1 file differs: helper.py" in talk.repo.baton("verify", "--ci").out
    talk.repo.git("add", "helper.py")
    talk.repo.git("commit", "-qm", "more")
    assert proof(talk)["green"], "byte code stands for nothing without its source"


@pytest.mark.deep
def test_a_later_failure_on_the_same_files_outweighs_it_until_it_is_mended(talk: Talk) -> None:
    for output, status, green in ((GREEN, 0, True), (RED, 1, False), (GREEN, 0, True)):
        talk.ask("once more")
        talk.run("pytest -q", output, status)
        talk.stop()
        if talk.repo.git("status", "--porcelain", "-uno"):
            commit(talk)
        assert proof(talk)["green"] is green
    talk.ask("and this one")
    talk.run("npm test", "> x@1.0.0 test\n> jest\n\nTests:       1 failed, 2 passed, 3 total\n", 1)
    talk.stop()
    assert not proof(talk)["green"], "another program's failure, too"
    assert "npm test: failed" in talk.repo.baton("verify", "--ci").out.splitlines()[1]


@pytest.mark.deep
def test_the_same_result_on_other_files_is_recorded_anew(talk: Talk) -> None:
    talk.run("pytest -q", GREEN)
    talk.stop()
    talk.ask("the next part")
    talk.edit("x.py", "three\n")
    talk.stop()
    commit(talk)
    assert not proof(talk)["green"]
    later(talk)
    talk.ask("and test it")
    talk.run("pytest -q", GREEN)
    talk.stop()
    assert proof(talk)["green"], "no file has changed since the checkpoint before, and it says the same"


@pytest.mark.deep
@each(
    "command, output",
    [
        ("pytest -q tests", GREEN),
        ("./test.sh", GREEN),
        ("bash test.sh", GREEN),
        ("make -C sub test", GREEN),
        ("make test", f"pytest -q tests\n{GREEN}"),
        ("npm test", f"> x@1.0.0 test\n> jest src\n\n{JEST}"),
        ("npx jest src", JEST.replace("Ran all test suites.", "Ran all test suites matching /src/i.")),
    ],
)
def test_a_command_of_ones_own_is_all_of_the_tests(talk: Talk, command: str, output: str) -> None:
    talk.ask("the next one")
    talk.edit("x.py", f"{command}\n")
    later(talk)
    talk.run(command, output)
    talk.stop()
    commit(talk)
    hint, own = talk.repo.baton("verify", "--ci").err, command.removeprefix("npx ")
    assert f"git config --add baton.testCommand {shlex.quote(own)}" in hint
    talk.repo.git("config", "--add", "baton.testCommand", own)
    talk.ask("again")
    talk.run(command, output)
    talk.stop()
    assert proof(talk)["green"]


def clone_after(talk: Talk, place: Path, command: str) -> Sandbox:
    """A clone that has fetched what there is after a turn in which a command was green, and a commit of its files."""
    talk.run(command, GREEN)
    talk.stop()
    commit(talk)
    talk.repo.git("clone", "-q", str(talk.repo.path), str(place))
    clone = Sandbox(place)
    clone.ok("fetch")
    return clone


@pytest.mark.deep
def test_what_was_fetched_counts_only_where_it_is_asked_for(talk: Talk, tmp_path: Path) -> None:
    clone = clone_after(talk, tmp_path / "clone", "pytest -q")
    done = clone.baton("verify", "--ci")
    assert done.code == 1 and "'git baton verify --ci --foreign HEAD'" in done.err and "no test run is on record" in done.out
    done = clone.baton("verify", "--ci", "--foreign")
    assert done.code == 0 and "  > pytest -q: passed" in done.out and "fetched" in done.out
    found = json.loads(clone.ok("verify", "--ci", "--foreign", "--json").out)
    assert (found["green"], found["runs"][0]["foreign"]) == (True, True)


@pytest.mark.deep
@needs_ssh
def test_with_signed_only_what_a_signed_checkpoint_tells_counts(talk: Talk, tmp_path: Path) -> None:
    talk.run("pytest -q", GREEN)
    talk.stop()
    commit(talk)
    assert proof(talk)["green"] and not proof(talk, "--signed")["green"]
    done = talk.repo.baton("verify", "--ci", "--signed")
    assert "1 run would do, and no checkpoint with a good signature tells of it: 'git baton verify --signatures'" in done.err
    signs_with(talk.repo, ssh_key(tmp_path, "key"), "author@example.com")
    talk.ask("and the rest")  # the hook's next checkpoint, which is signed, signs the one before
    talk.edit("z.py", "z\n")
    talk.stop()
    assert proof(talk, "--signed")["green"]
    clone = Sandbox(tmp_path / "clone")
    talk.repo.git("clone", "-q", str(talk.repo.path), str(clone.path))
    clone.ok("fetch")
    assert clone.baton("verify", "--ci", "--foreign").code == 0
    assert clone.baton("verify", "--ci", "--foreign", "--signed").code == 1, "nobody is trusted there"
    trusts(clone, {"author@example.com": tmp_path / "key"})
    assert clone.baton("verify", "--ci", "--foreign", "--signed").code == 0
    assert clone.baton("verify", "--ci", "--signed").code == 1, "what was fetched counts where it is asked for"


@pytest.mark.deep
@needs_ssh
def test_a_signature_vouches_for_what_its_checkpoint_tells_of_a_run_and_for_no_other_words(talk: Talk, tmp_path: Path) -> None:
    signs_with(talk.repo, ssh_key(tmp_path, "key"), "author@example.com")
    clone = clone_after(talk, tmp_path / "clone", "pytest -q -k half")
    trusts(clone, {"author@example.com": tmp_path / "key"})
    chain = "refs/baton/remotes/origin/tracks/"
    for track, created in (("aaa", "2001"), ("zzz", "")):  # who may push tells of the very run, as if before and beside it
        head, _, message = clone.run("git", "cat-file", "commit", f"{chain}t").out.partition("\n\n")
        start = message.index("{")
        record = json.loads(message[start:])
        (run,) = record["observed"]["tests"]
        del run["lacks"]
        run["exact"], record["track"] = True, track
        record["created"] = created + record["created"][len(created) :]
        body = json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False)
        forged = clone.git(
            "hash-object", "-t", "commit", "-w", "--stdin", stdin=f"{head}\n\n{message[:start]}{body}\n".encode()
        )
        clone.git("update-ref", f"{chain}{track}", forged)
        if created:  # of two of the same moment either may be told
            assert clone.baton("verify", "--ci", "--foreign").code == 0, "the forgery is a record"
        assert clone.baton("verify", "--ci", "--foreign", "--signed").code == 1
        clone.git("update-ref", "-d", f"{chain}{track}")


def test_where_nothing_ran_it_says_so(repo: Sandbox) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    done = repo.baton("verify", "--ci")
    assert (done.code, done.out.splitlines()[1]) == (1, "  no test run is on record")
    assert json.loads(repo.baton("verify", "--ci", "--json").out)["runs"] == []


@each(
    "words, code, said",
    [
        ("--ci nowhere", 128, "fatal: 'nowhere' names no commit that is here"),
        ("--ci HEAD^{tree}", 128, "fatal: 'HEAD^{tree}' names no commit"),
        ("--ci --output=x", 129, "fatal: "),
        ("--ci -- --all", 128, "fatal: '--all' names no commit"),
        ("--ci --words", 129, "fatal: --ci goes with"),
        ("--ci --strict", 129, "fatal: --ci goes with"),
        ("--foreign", 129, "fatal: --foreign goes with --ci"),
        ("--signed", 129, "fatal: --signed goes with --ci"),
        ("--ci --signatures", 129, "fatal: --ci and --signatures exclude each other"),
    ],
)
def test_what_is_no_commit_is_refused(repo: Sandbox, words: str, code: int, said: str) -> None:
    repo.commit("first", **{"x.py": "one\n"})
    done = repo.baton("verify", *words.split())
    assert (done.code, done.err[: len(said)]) == (code, said), done


@pytest.mark.deep
def test_of_what_agents_run_the_genuine_counts_and_no_forgery_does(talk: Talk) -> None:
    """Through the client's transcript and hooks, four of each list in a turn."""
    lists = [(line, output) for _, lines, output in GENUINE for line in lines], forgeries()
    counted = []
    for cases in lists:
        turns = -(-len(cases) // 4)
        before = sum(run["exact"] for run in proof(talk)["runs"])
        for turn in range(turns):
            talk.ask(f"part {turn}")
            talk.edit("new.txt", f"{talk.now}")
            later(talk)
            for line, output in cases[turn::turns]:
                talk.run(line, output)
            talk.stop()
        counted.append(sum(run["exact"] for run in proof(talk)["runs"]) - before)
    assert len(lists[0]) >= 100 and counted[0] >= 98
    assert len(lists[1]) >= 100 and counted[1] == 0
