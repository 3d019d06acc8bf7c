"""``import --client``: clients' own transcripts as conversations here, with the prompts of the commits made in them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
import tracemalloc
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gitbaton.agents.claude import folder_of
from gitbaton.agents.client import client as client_of
from gitbaton.agents.transcripts import past
from gitbaton.care.retention.pruning import prune
from gitbaton.care.retention.rules import KeepRules, Wish
from gitbaton.care.tools.importing import apply, plan
from tests.kit import Sandbox
from tests.kit.agents import PROGRAM, Client
from tests.kit.commands import until
from tests.kit.killkit import DRIVER, killed
from tests.kit.past import CLIENTS, Past, home
from tests.kit.places import DATA
from tests.kit.state import assert_same, state_of
from tests.kit.talks import Talk

CODEX = "01a20383-5016-7a02-9eec-169dfd2aaee2"  # a recorded session
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def planned(repo: Sandbox, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(repo.ok("import", *words, "--dry-run", "--json").out)
    return found


def turns(repo: Sandbox) -> list[dict[str, Any]]:
    """The imported turns, oldest first."""
    listed = json.loads(repo.ok("log", "--kind", "imported", "--json").out)["checkpoints"]
    return list(reversed(listed))


def prompts(repo: Sandbox) -> list[str]:
    return [turn["imported"]["prompt"] for turn in turns(repo)]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_past_of_each_client_is_told(repo: Sandbox, client: str) -> None:
    past = Past(repo, client)
    first = past.turn("Halve it, please", "half.py", "x / 2\n", "half: begun", "It halves.")
    second = past.turn("and integers", "half.py", "x / 2\ny // 2\n", "half: integers")
    before = state_of(repo)
    plan = planned(repo, "--client", client)
    assert_same(before, state_of(repo), "a dry run")
    assert [(one["client"], len(one["turns"]), one["known"]) for one in plan["sessions"]] == [(client, 2, 0)]
    assert repo.ok("import", "--client", client, "--yes").out.startswith("imported 1 session: 2 turns, 2 commits, ")
    assert [turn["imported"]["commits"] for turn in turns(repo)] == [[first], [second]]
    why = repo.ok("why", "half.py:1").out
    assert "prompt   Halve it, please" in why and "said     It halves." in why
    told = json.loads(repo.ok("blame", "half.py", "--json").out)["lines"]
    assert [line["turn"]["prompt"] for line in told] == ["Halve it, please", "and integers"]
    shown = repo.ok("show", second).out
    assert "and integers" in shown and f"commits   {second[:7]}" in shown
    said = repo.ok("transcript", "show", turns(repo)[0]["id"]).out
    assert "Halve it, please" in said and "and integers" not in said
    assert "and integers" in repo.ok("transcript", "show", turns(repo)[1]["id"]).out
    assert repo.ok("import", "--client", client, "--yes").out == f"nothing to import of {client}\n1 session here already\n"


@pytest.mark.deep
def test_the_index_of_searches_is_begun_while_nobody_waits(repo: Sandbox) -> None:
    Past(repo, "claude").turn("Halve it, please", "half.py", "x / 2\n", "half: begun")
    index = repo.path / ".git/baton/search.sqlite"
    repo.ok("import", "--all", "--dry-run")
    assert not index.exists()
    repo.run(PROGRAM, "import", "--all", "--yes")
    until(index.exists)
    assert index.exists() and json.loads(repo.ok("search", "halve", "--json").out)["found"]


def test_all_takes_every_client_and_the_log_lists_their_turns(repo: Sandbox) -> None:
    for number, client in enumerate(CLIENTS, 1):
        Past(repo, client, number=number, ago=7200 - 60 * number).turn(f"do {client}", f"{client}.py", "1\n", f"{client}: done")
    repo.ok("snapshot", "words")
    assert repo.ok("import", "--all", "--yes").out.startswith("imported 5 sessions: 5 turns, 5 commits, ")
    assert prompts(repo) == [f"do {client}" for client in CLIENTS]
    everything = repo.ok("log", "--all").out
    assert all(f"do {client}" in everything for client in CLIENTS)
    assert "do claude" not in repo.ok("log").out
    assert [
        one["imported"]["prompt"] for one in json.loads(repo.ok("log", "--all", "--json", "--grep", "codex").out)["checkpoints"]
    ] == ["do codex"]
    for words in (("status",), ("tracks",), ("resume",)):
        assert "imported" not in repo.ok(*words).out
    assert repo.baton("resume", "imported/claude").code == 2
    leads_to_them(repo)
    assert repo.baton("show", "@~1").code == 2


def leads_to_them(repo: Sandbox) -> None:
    """Where the name that stands for a track in a turn is taken for one, the hint lists the turns."""
    for words in (("log",), ("show",), ("verify",), ("restore",), ("resume", "--track"), ("log", "--track")):
        done = repo.baton(*words, "imported/claude")
        assert done.code == 2 and "hint: imported turns are of no track: git baton log --kind imported" in done.err, (
            words,
            done,
        )
        assert "snapshot" not in done.err, words


def test_without_a_checkpoint_too_the_name_of_imported_turns_leads_to_them(repo: Sandbox) -> None:
    Past(repo).turn("first", "a.py", "1\n", "one")
    assert "imported turns" not in repo.baton("log", "imported/claude").err
    repo.ok("import", "--all", "--yes")
    leads_to_them(repo)
    assert "first" in repo.ok("log", "--kind", "imported").out


def test_a_session_that_grew_is_extended_and_a_turn_that_goes_on_waits(repo: Sandbox) -> None:
    past = Past(repo)
    past.turn("first", "a.py", "1\n", "one")
    repo.ok("import", "--all", "--yes")
    kept = turns(repo)[0]["id"]
    past.commit("a.py", "2\n", "two")
    past.turn("second", "a.py", "3\n", "three")
    plan = planned(repo, "--all")["sessions"]
    assert [(one["grows"], len(one["turns"])) for one in plan] == [(True, 2)]
    repo.ok("import", "--all", "--yes")
    assert prompts(repo) == ["first", "second"]
    assert len(turns(repo)[0]["imported"]["commits"]) == 2
    assert turns(repo)[0]["id"] != kept
    now = Past(repo, number=2, ago=60)
    now.turn("third", "a.py", "4\n", "four")
    now.ask("and still at work")
    assert repo.ok("import", "--all", "--yes").out.startswith("imported 1 session: 1 turn, 1 commit, ")
    assert prompts(repo) == ["first", "second", "third"]


def test_only_commits_that_the_transcript_shows_and_that_are_here_are_claimed(repo: Sandbox) -> None:
    past = Past(repo)
    past.ask("all of it")
    made = past.commit("a.py", "1\n", "made")
    quiet = past.commit("a.py", "2\n", "quiet", said="")
    past.run("git commit -m 'made'", f"[main {repo.git('rev-parse', '--short', 'HEAD~2')}] base")  # of another time
    past.run("git commit -m other", f"[main {quiet[:7]}] another subject")
    past.run("git commit -m gone", "[main 0123456] never was here")
    past.run("cat notes", f"[main {quiet[:7]}] quiet")
    past.say("Done.")
    repo.ok("import", "--all", "--yes")
    assert [turn["imported"]["commits"] for turn in turns(repo)] == [[made]]


@pytest.mark.deep
def test_a_long_transcript_takes_little_memory(repo: Sandbox) -> None:
    past = Past(repo)
    past.ask("look at it")
    for _ in range(12):
        past.run("cat image", "A" * (6 << 20))
    made = past.commit("a.py", "1\n", "made", said=None)
    past.say("Seen.")
    code = (
        "from gitbaton.agents.client import client\n"
        "from gitbaton.agents.transcripts import past\n"
        "of = client('claude')\n"
        f"one = past.PastSession(client='claude', session='s', path={str(past.path)!r})\n"
        "found = past.turns(of, one, lambda place: True)\n"
        "print(len(found.turns), found.turns[0].said, len(found.turns[0].commits))\n"
        "print(next(row.split()[1] for row in open('/proc/self/status') if row.startswith('VmHWM')))\n"  # ru_maxrss is pytest's
    )
    told, peak = repo.run(sys.executable, "-c", code).out.splitlines()
    assert told == "1 Seen. 1" and made
    assert past.path.stat().st_size > 140 << 20 and int(peak) < 140 << 10


@pytest.mark.deep
def test_where_a_repository_has_no_work_tree_transcripts_are_not_held_in_memory(repo: Sandbox) -> None:
    session = Past(repo)
    session.run("cat image", "A" * (6 << 20))
    of = client_of("claude")
    assert of is not None
    one = past.PastSession(client="claude", session="s", path=str(session.path))
    tracemalloc.start()
    try:
        assert past.placed(of, one, (), {}) is None
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_a_commit_that_was_rewritten_keeps_its_prompt(repo: Sandbox) -> None:
    past = Past(repo)
    old = past.turn("make it", "a.py", "1\n", "made")
    repo.git("commit", "-q", "--amend", "--no-edit", env={"GIT_COMMITTER_DATE": f"{int(time.time())} +0000"})
    new = repo.git("rev-parse", "HEAD")
    assert new != old
    repo.ok("import", "--all", "--yes")
    assert turns(repo)[0]["imported"]["commits"] == [old, new]
    assert "make it" in repo.ok("why", "a.py:1").out


def test_secrets_are_redacted_everywhere(repo: Sandbox) -> None:
    past = Past(repo)
    past.turn(f"use {SECRET}", "a.py", "1\n", "made", f"used {SECRET}")
    assert SECRET not in repo.ok("import", "--all", "--dry-run").out
    assert SECRET not in repo.ok("import", "--all", "--dry-run", "--json").out
    repo.ok("import", "--all", "--yes")
    assert SECRET not in repo.everything()
    assert "[redacted:" in repo.ok("transcript", "show", turns(repo)[0]["id"]).out


def test_what_hooks_recorded_is_not_taken_in_again(repo: Sandbox) -> None:
    past = Past(repo, ago=30)
    client = Client("claude", repo.path, session=past.session)
    repo.ok("snapshot", "begun")
    past.turn("before the hooks", "a.py", "1\n", "one")
    past.ask("seen by hooks")
    client.fire("prompt", prompt="seen by hooks", transcript_path=str(past.path))
    past.commit("a.py", "2\n", "two")
    past.say("Done.")
    client.fire("turn", last_assistant_message="Done.", transcript_path=str(past.path))
    repo.ok("import", "--all", "--yes")
    assert prompts(repo) == ["before the hooks"]
    assert len(json.loads(repo.ok("log", "--json").out)["checkpoints"]) >= 2


@pytest.mark.deep
@pytest.mark.parametrize("client", ["claude", "codex", "gemini"])
@pytest.mark.parametrize("hooked", [True, False])
def test_a_conversation_that_was_written_back_is_no_past_of_its_own(repo: Sandbox, client: str, hooked: bool) -> None:
    begun = datetime.now(UTC) - timedelta(hours=1)
    if hooked:
        repo.ok("snapshot", "begin")
        session = "5e551011-0000-4000-8000-000000000001"
        path = home() / ".claude/projects" / folder_of(str(repo.path)) / f"{session}.jsonl"
        path.parent.mkdir(parents=True)
        talk = Talk(repo, path, session)
        talk.clock = lambda: datetime.fromtimestamp(time.time_ns() // 10**6 / 1000, UTC)  # clients write milliseconds
        talk.now = talk.clock()
        talk.fire("start")
        for prompt in (f"use {SECRET}", "and test it"):
            talk.fire("prompt", prompt=prompt)
            talk.ask(prompt)
            talk.edit("a.py", prompt)
            talk.say("Done.")
            talk.stop()
    else:
        past = Past(repo)
        past.turn(f"use {SECRET}", "a.py", "1\n", "one")
        past.turn("and test it", "a.py", "2\n", "two")
        repo.ok("import", "--all", "--yes")
    assert planned(repo, "--all")["sessions"] == []
    kept, listed = prompts(repo), repo.ok("log", "--all", "--json").json["checkpoints"]
    known = {asked["text"] for one in listed for asked in one.get("observed", {}).get("asked", ())}  # a busy machine sees less
    repo.ok("restore", "--conversation-only", "--as", client, listed[0]["id"])
    assert known and not known & {turn["prompt"] for one in planned(repo, "--all")["sessions"] for turn in one["turns"]}
    written = max((one for one in home().rglob("*.jsonl")), key=lambda one: one.stat().st_mtime_ns)
    if client == "codex":
        more = {"type": "user_message", "message": "go on in the other client"}
        row = {
            "timestamp": (begun + timedelta(minutes=9)).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "type": "event_msg",
            "payload": more,
        }
        with written.open("a") as file:
            file.write(json.dumps(row) + "\n")
        repo.ok("import", "--all", "--yes")
        assert prompts(repo)[-1] == "go on in the other client" and not known & {*prompts(repo)} - {*kept}


def test_a_session_belongs_where_it_worked(repo: Sandbox, tmp_path: Path) -> None:
    other = Sandbox.begun(tmp_path / "other")
    Past(other).turn("elsewhere", "a.py", "1\n", "one")
    Past(repo, number=2, place=str(repo.path / "sub")).turn("below", "a.py", "2\n", "two")
    moved = Past(repo, number=3)
    moved.turn("here first", "a.py", "3\n", "three")
    moved.place = str(tmp_path / "other")
    moved.turn("then there", "b.py", "4\n", "four")
    inner = Sandbox.begun(repo.path / "vendor")
    Past(inner, number=4).turn("in a repository inside", "a.py", "5\n", "five")
    Past(repo, number=5, place=str(tmp_path / "before")).turn("before it moved", "a.py", "6\n", "six")
    tree = tmp_path / "gone"
    repo.git("worktree", "add", "-q", str(tree), "-b", "gone")
    Past(Sandbox(tree), number=6).turn("in a work tree", "c.py", "7\n", "seven")
    shutil.rmtree(tree)
    repo.ok("import", "--all", "--yes")
    assert sorted(prompts(repo)) == ["below", "here first", "in a work tree"]
    repo.ok("import", "--all", "--yes", "--from", str(tmp_path / "before"))
    assert sorted(prompts(repo)) == ["before it moved", "below", "here first", "in a work tree"]
    other.ok("import", "--all", "--yes")
    assert prompts(other) == ["elsewhere", "then there"]
    assert "here first" not in other.everything() and "then there" in other.everything()
    moved.path.unlink()
    said = other.ok("transcript", "show", turns(other)[-1]["id"]).out
    assert "then there" in said and "here first" not in said


def test_nothing_odd_in_a_clients_folder_is_followed_or_stops_the_rest(repo: Sandbox, tmp_path: Path) -> None:
    past = Past(repo)
    past.turn("good", "a.py", "1\n", "one")
    folder = past.path.parent
    outside = tmp_path / "outside.jsonl"
    outside.write_bytes(past.path.read_bytes())
    (folder / "link.jsonl").symlink_to(outside)
    (folder.parent / "linked").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.jsonl")
    (folder / "empty.jsonl").touch()
    with past.path.open("ab") as file:
        file.write(b'{"type": "user", "cwd": broken\n\xff\xfe\n[1, 2]\n{"type": "user", "message": 7, "cwd": 3}\n{"half')
    done = repo.ok("import", "--all", "--yes")
    assert prompts(repo) == ["good"]
    assert done.err.count("leads out of the client's folder, and is not followed") == 2
    assert "pipe.jsonl' is a pipe, and no transcript" in done.err
    assert f"warning: 1 line of session '{past.session}' of claude is no record, and tells nothing\n" in done.err


@pytest.mark.deep
@pytest.mark.parametrize("alone", [True, False])
def test_a_prompt_that_is_too_long_to_be_read_is_said(repo: Sandbox, alone: bool) -> None:
    past = Past(repo)
    if not alone:
        past.turn("short", "a.py", "1\n", "one")
    past.ask("look at it " * (800 << 10))
    past.say("Seen.")
    done = repo.ok("import", "--client", "claude", "--yes")
    said = (
        f"1 line of session '{past.session}' of claude is longer than 8 MiB, and tells nothing: no prompt, no edit, no answer"
    )
    assert " ".join(done.err.split()).count(f"warning: {said}") == 1, done
    assert prompts(repo) == ([] if alone else ["short"])
    assert repo.baton("import", "--client", "claude", "--json", "--dry-run").json["problems"] == [said]


def test_a_forgotten_turn_stays_so_when_its_commit_is_rewritten(repo: Sandbox) -> None:
    past = Past(repo)
    past.turn("stays", "a.py", "1\n", "one")
    past.turn("to be forgotten", "a.py", "2\n", "two")
    repo.ok("import", "--all", "--yes")
    repo.ok("forget", turns(repo)[1]["id"], "--yes")
    tip = repo.git("rev-parse", "HEAD")
    repo.git("commit", "-q", "--amend", "--no-edit", env={"GIT_COMMITTER_DATE": f"{int(time.time())} +0000"})
    assert tip != repo.git("rev-parse", "HEAD")
    assert repo.ok("import", "--all", "--yes").out.startswith("nothing to import") and prompts(repo) == ["stays"]


@pytest.mark.deep
@pytest.mark.parametrize("how", [("forget",), ("forget", "--everywhere")])
def test_a_forgotten_turn_stays_so_when_it_goes_on_and_git_has_collected_its_commit(
    repo: Sandbox, how: tuple[str, ...]
) -> None:
    past = Past(repo)
    past.turn("to be forgotten", "a.py", "1\n", "one")
    repo.ok("import", "--all", "--yes")
    repo.ok(*how, turns(repo)[0]["id"], "--yes")
    repo.git("commit", "-q", "--amend", "-m", "other", env={"GIT_COMMITTER_DATE": f"{int(time.time())} +0000"})
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "--quiet", "--prune=now")
    past.say("And that was all.")
    assert repo.ok("import", "--all", "--yes").out.startswith("nothing to import")
    past.turn("new", "a.py", "2\n", "two")
    assert repo.baton("import", "--all", "--yes").code == 0
    assert prompts(repo) == (["new"] if how == ("forget",) else [])


def test_a_turn_that_may_go_on_is_told_also_where_nothing_else_is_new(repo: Sandbox) -> None:
    past = Past(repo, ago=60)
    past.ask("begun a minute ago")
    said = "nothing to import of claude\n1 session may still be at work: the last turn is left for the next time\n"
    assert repo.ok("import", "--client", "claude", "--yes").out == said
    assert planned(repo, "--client", "claude")["going_on"] == 1
    Past(repo, number=2, ago=120).turn("done", "a.py", "1\n", "one")
    assert planned(repo, "--client", "claude")["going_on"] == 2


def test_where_only_the_past_is_here_it_is_named(repo: Sandbox) -> None:
    Past(repo).turn("Halve it", "a.py", "1\n", "one")
    assert "imported" not in repo.ok("log").out
    repo.ok("import", "--all", "--yes")
    for verb in ("log", "status", "tracks", "resume"):
        row = next(line for line in repo.ok(verb).out.splitlines() if "imported" in line)
        command, _, said = row.partition("  ")
        assert said.strip() == "list 1 imported turn"
        assert "Halve it" in repo.ok(*command.split()[2:]).out


def test_forgetting_takes_a_turn_out_and_it_does_not_come_back(repo: Sandbox) -> None:
    past = Past(repo)
    past.turn("to be forgotten whole", "a.py", "1\n", "one", "The answer is forty-two.")
    past.turn("stays", "a.py", "2\n", "two")
    repo.ok("import", "--all", "--yes")
    first, second = (turn["id"] for turn in turns(repo))
    assert "forgot" in repo.ok("forget", first, "--yes").out
    assert prompts(repo) == ["stays"]
    assert repo.ok("import", "--all", "--yes").out.startswith("nothing to import")
    repo.ok("forget", "--everywhere", second, "--yes")
    assert turns(repo) == []
    assert repo.ok("import", "--all", "--yes").out.endswith("1 session forgotten, and left out\n")
    assert "imported" not in repo.git("for-each-ref") and "transcripts" not in repo.git("for-each-ref")


@pytest.mark.deep
def test_prune_keeps_the_past_and_the_rest_knows_its_refs(repo: Sandbox) -> None:
    past = Past(repo)
    past.turn("long ago", "a.py", "1\n", "one")
    repo.ok("snapshot", "words")
    repo.ok("import", "--all", "--yes")
    refs = repo.git("for-each-ref", "refs/baton/imported", "refs/baton/transcripts")
    assert refs.count("\n") == 1
    with repo.open(clock=lambda: datetime.now(UTC) + timedelta(days=30)) as baton:  # conversations are old by then
        prune(baton, Wish(rules=KeepRules(last=1)))
    assert repo.git("for-each-ref", "refs/baton/imported", "refs/baton/transcripts") == refs
    assert "imported turns" in repo.ok("du").out
    assert "MEND" not in repo.ok("doctor").out
    repo.ok("scan", "--all")
    repo.ok("uninstall", "--purge", "--yes")
    assert repo.git("for-each-ref", "refs/baton") == ""


def test_the_past_leaves_only_with_the_conversations_and_is_foreign_elsewhere(repo: Sandbox, tmp_path: Path) -> None:
    past = Past(repo)
    past.turn("said at home", "a.py", "1\n", "one")
    repo.ok("snapshot", "words", "--track", "t")
    repo.ok("import", "--all", "--yes")
    far = Sandbox.init(tmp_path / "far.git", "--bare")
    repo.git("remote", "add", "origin", str(far.path))
    repo.git("push", "-q", "origin", "main")
    repo.ok("push", "origin", "--yes")
    repo.ok("push", "origin", "t", "--with-transcripts", "--yes")
    assert far.git("for-each-ref", "refs/baton/imported", "refs/baton/transcripts") == ""
    repo.ok("push", "origin", "--with-transcripts", "--yes")
    assert far.git("for-each-ref", "refs/baton/imported", "refs/baton/transcripts").count("\n") == 1
    past.commit("a.py", "2\n", "two")
    past.turn("said later", "a.py", "3\n", "three")
    repo.ok("import", "--all", "--yes")
    repo.git("push", "-q", "origin", "main")
    repo.ok("push", "origin", "--with-transcripts", "--yes")  # the first turn had gone on
    past.path.unlink()
    repo.git("clone", "-q", "-b", "main", str(far.path), str(tmp_path / "clone"))
    clone = Sandbox(tmp_path / "clone")
    clone.ok("fetch", "origin", "--with-transcripts")
    assert prompts(clone) == ["said at home", "said later"]
    assert all(turn["foreign"] for turn in turns(clone))
    assert "> user:\n>     said at home" in clone.ok("transcript", "show", turns(clone)[0]["id"]).out
    assert "> " in clone.ok("why", "a.py:1").out and "said later" in clone.ok("why", "a.py:1").out
    assert "MEND" not in clone.ok("doctor").out


@pytest.mark.deep
def test_recorded_sessions_of_real_clients_are_taken_in(repo: Sandbox) -> None:
    for name, place in {
        "codex/rollout.plan.jsonl": f".codex/sessions/2026/11/22/rollout-2026-11-22T13-47-47-{CODEX}.jsonl",
        "copilot/events.todos.jsonl": ".copilot/session-state/3fe735fd-80d2-45f3-a846-d8c71f664254/events.jsonl",
        "gemini/chat.todos-and-compression.jsonl": ".gemini/tmp/repo/chats/session-2026-11-22T13-55-4d7081c4.jsonl",
        "claude/transcript.tasks.jsonl": ".claude/projects/-repo/056582bc-023c-4634-a46f-6bfcfb882cd3.jsonl",
    }.items():
        path = home() / place
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(DATA / "plans" / name, path)
    (home() / ".gemini/tmp/repo/.project_root").write_text("/repo")
    assert repo.ok("import", "--all", "--yes").out.startswith("nothing to import")
    repo.ok("import", "--all", "--yes", "--from", "/repo")
    told = {(turn["agent"]["name"], turn["imported"]["prompt"]) for turn in turns(repo)}
    asked = {(name, "Do the release of half()") for name in ("claude", "codex", "copilot", "gemini")}
    assert asked <= told and all(turn["imported"]["said"] for turn in turns(repo))


@pytest.mark.deep
def test_what_a_disk_damages_of_the_past_is_mended_as_far_as_it_goes(repo: Sandbox) -> None:
    past = Past(repo)
    for number in range(3):
        past.turn(f"number {number}", "a.py", f"{number}\n", f"made {number}")
    repo.ok("snapshot", "words")
    repo.ok("import", "--all", "--yes")
    for path in (repo.path / ".git/objects/pack").glob("pack-*.pack"):  # so that each object is a file
        raw = path.read_bytes()
        for part in path.parent.glob(path.stem + ".*"):
            part.unlink()
        repo.git("unpack-objects", "-q", stdin=raw)
    torn = repo.loose(repo.git("rev-parse", f"refs/baton/imported/claude/{past.session}~1"))
    torn.chmod(0o644)
    torn.write_bytes(b"torn")
    assert repo.ok("status").code == 0
    listed = repo.baton("log", "--kind", "imported")
    assert "number 2" in listed.out and "number 0" not in listed.out
    assert repo.baton("prune", "--keep-last", "1", "--yes").code == 1
    mended = repo.baton("doctor", "--mend")
    assert mended.code == 1 and "2 checkpoints can be read\n" in mended.out  # what was lost is said
    assert "number 2" in repo.ok("log", "--kind", "imported").out
    repo.ok("import", "--all", "--yes")
    assert prompts(repo) == ["number 0", "number 1", "number 2"]


def test_import_asks_and_names_what_is_wrong(repo: Sandbox) -> None:
    Past(repo).turn("something", "a.py", "1\n", "one")
    before = state_of(repo)
    for words, code, said in (
        (("import", "--all"), 129, "nothing is imported without asking, and there is no terminal"),
        (("import",), 129, "name a client or a folder"),
        (("import", "--client", "cursor"), 129, "--client is 'cursor'"),
        (("import", "--all", "older"), 129, "--all and the folder 'older' exclude each other"),
        (("import", "older", "--yes"), 129, "--yes goes with --client or --all"),
        (("-c", "baton.transcripts=off", "import", "--all", "--yes"), 129, ""),
    ):
        done = repo.baton(*words)
        assert done.code == code and said in done.err, done.err
    repo.git("config", "baton.transcripts", "position")
    done = repo.baton("import", "--all", "--yes")
    assert done.code == 128 and "nothing is imported: baton.transcripts is 'position'" in done.err
    repo.git("config", "--unset", "baton.transcripts")
    assert_same(before, state_of(repo), "refused")


@pytest.mark.deep
def test_times_that_no_clock_has_stop_no_import(repo: Sandbox) -> None:
    past = Past(repo)
    past.turn("something", "a.py", "1\n", "one")
    for text in ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00"):
        past.claude("user", [{"type": "text", "text": f"at {text}"}], timestamp=text)
    planned = repo.baton("import", "--all", "--dry-run")
    assert planned.code == 0, planned.err
    repo.ok("import", "--all", "--yes")
    assert len(prompts(repo)) == 4
    newest = repo.ok("log", "--kind", "imported", "--json").json["checkpoints"][0]["id"]
    assert "at 0001" in repo.ok("transcript", "show", newest).out


@pytest.mark.deep
def test_an_import_holds_no_session_twice_and_has_git_put_its_packs_together(repo: Sandbox) -> None:
    for number in range(1, 20):
        past = Past(repo, number=number, ago=9000 - number)
        past.ask(f"look at {number}")
        past.run("cat noise", os.urandom(20_000).hex())
    own, held = repo.path / ".git/baton", list[int]()

    def told(what: str, done: int, total: int) -> None:
        if what == "storing bytes":  # also when a session begins
            held.append(sum(file.stat().st_size for file in (own / "tmp").rglob("*") if file.is_file()))

    with repo.open(progress=told) as baton, TemporaryDirectory() as scratch:
        assert apply(baton, plan(baton, ["claude"], os.environ, scratch)).sessions == 19
    assert held.count(0) == 19 and max(held) < 60_000
    with (own / "repacking").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # once it has ended
    assert len(list((repo.path / ".git/objects/pack").glob("*.pack"))) < 19


@pytest.mark.deep
def test_an_import_that_is_killed_goes_on(repo: Sandbox) -> None:
    for number in (1, 2, 3):
        past = Past(repo, number=number, ago=9000 - number)
        past.turn(f"first of {number}", f"{number}.py", "1\n", f"one of {number}")
        past.turn(f"second of {number}", f"{number}.py", "2\n", f"two of {number}")
    at, count = 5, 0
    while killed(repo, ["-c", DRIVER, str(at), "import", "--all", "--yes"]):
        at, count = at + 9, count + 1
    repo.ok("import", "--all", "--yes")
    assert count > 3
    assert len(prompts(repo)) == len(set(prompts(repo))) == 6
    assert repo.ok("import", "--all", "--yes").out.endswith("\n3 sessions here already\n")
    assert "MEND" not in repo.ok("doctor").out
    assert home().joinpath(".claude").is_dir()


@pytest.mark.deep
def test_where_a_client_or_its_file_is_named_as_a_folder_the_way_is_shown(repo: Sandbox) -> None:
    repo.write("talk.jsonl", "{}\n")
    for words, line in (
        (("import", "claude"), "git baton import --client claude --dry-run"),
        (("import", "talk.jsonl"), "git baton import --all --dry-run"),
        (("import",), "git baton import --all --dry-run"),
        (("install", "claude"), "git baton agent install claude"),
        (("restore", "--as", "codex"), "git baton restore --conversation-only --as codex"),
        (("cost",), "git baton summary"),
        (("ci",), "git baton verify --ci"),
        (("trailers",), "git baton install --trailers"),
        (("plugin",), "git baton agent install --plugin"),
    ):
        done = repo.baton(*words)
        assert done.code == 129 and line in done.err, done
