"""After a restore, an undo or a redo the words are those of the state that is here, and one line says what was taken back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton
from gitbaton.base.codec import decode, document
from gitbaton.cli.commands import mcptools as tools
from tests.kit import Sandbox
from tests.kit.agents import Client, checkpoints
from tests.kit.state import snap
from tests.kit.talks import Talk

LINE = 'restored to "A done"; taken back: "B done" and 1 turn (asked: "do B")'
OTHER = "5e551011-0000-4000-8000-00000000000f"


def told(repo: Sandbox) -> str:
    """What a session that begins cold is told."""
    return Client("claude", repo.path, session=OTHER).fire("start")


def step(repo: Sandbox, *, back: str = "", next_cmd: str = "", drift: str = "none", track: str = "t") -> str:
    """The step that every reader tells, which must be one and the same, with the same line of what was taken back."""
    found = dict(row.split("=", 1) for row in repo.ok("resume", "--porcelain", "--live").out.splitlines() if "=" in row)
    assert (found["next_cmd"], found.get("restored", ""), found["drift"]) == (next_cmd, back, drift)
    said, name = told(repo), found["step"]
    assert f"step: {name}\n" in said and (f'next_cmd: "{next_cmd}"' in said or not next_cmd)
    assert ("in this work tree: " in said) == bool(back) and back in said
    shown = repo.ok("status").out
    assert name in shown and ("\n" + back + "\n" in shown or not back) and ("restored" in shown) == ("restored" in back)
    (row,) = [one for one in repo.ok("status", "--json").json["tracks"] if one["current"]]
    assert row["checkpoint"].get("restored", "") == back and (",".join(row["live"]["drift"]) or "none") == drift
    assert name in repo.ok().out and back in repo.ok().out
    latest = json.loads((repo.path / "runtime/checkpoints/LATEST.json").read_text())["tracks"][track]
    assert latest["carried"]["step"] == name if "carried" in latest else latest["step"] == name
    assert latest.get("restored", "") == back and latest["next_cmd"] == next_cmd
    section = (repo.path / "runtime/checkpoints/LATEST.md").read_text().split("## CURRENT")[1].split("\n## ")[0]
    assert f"    step={name}\n" in section and ("    restored=" in section) == bool(back)
    with Baton(repo.path) as baton:
        answer = tools.resume(baton, tools.ToolCall(given={"live": True}, place=str(repo.path)))
    document: Any = answer.document["checkpoint"]
    assert document.get("restored", "") == back and f"step={name}" in answer.text
    assert repo.baton("verify", "--quiet").code == 0 or "head" in drift or "branch" in drift
    return name


@pytest.fixture
def begun(repo: Sandbox) -> Sandbox:
    """A is done; a turn and B followed."""
    snap(repo, "t", "A done", "--next-cmd", "do B", "--validation", "green", "--decision", "keep A")
    repo.write("b.txt", "b\n")
    Client("claude", repo.path).turn("do B")
    snap(repo, "t", "B done", "--next-cmd", "do C", "--decision", "keep B")
    return repo


def test_the_words_come_back_with_the_state(begun: Sandbox) -> None:
    assert step(begun, next_cmd="do C") == "B done"
    begun.ok("restore", "--exact", "@~2")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    assert "decision 1: keep A\n" in told(begun) and "decision 2: keep B (decided in what was taken back)" in told(begun)
    assert "\nvalidation=green\n" in begun.ok("resume", "--porcelain", "--live").out, "what was green is there again"
    begun.ok("undo")
    assert step(begun, next_cmd="do C") == "B done"
    begun.ok("redo")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    assert begun.ok("diff").out == "" and "b.txt" in begun.ok("diff", "--stat", "@").out
    assert "step=B done" in begun.ok("show", "--porcelain", "@").out and "B done" in begun.ok("log").out, "nothing is gone"


@pytest.mark.deep
def test_what_follows_carries_them(begun: Sandbox) -> None:
    begun.ok("restore", "--exact", "@~2")
    client = Client("claude", begun.path)
    client.fire("prompt", prompt="try another way")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    begun.write("c.txt", "c\n")
    client.fire("turn")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    last = checkpoints(begun, "t")[-1]
    assert last["carried"]["step"] == "A done" and last["decisions"] == ["keep A", "keep B"]
    shown = begun.baton("verify", "--words", "--strict").err.partition("'git ")[2].partition("'")[0]
    assert "c.txt" in begun.ok(*shown.split()[1:], "--stat").out and "b.txt" not in begun.ok(*shown.split()[1:]).out, shown
    assert '\nsince="A done": 1 turn, 1 file\n' in begun.ok("resume", "--porcelain", "--live").out
    assert (
        "carried.restored" not in begun.ok("show", "--porcelain", "@").out and "stale" in begun.ok("resume", "--porcelain").out
    )
    snap(begun, "t", "C done", "--next-cmd", "do D", "--decision", "keep C")
    assert step(begun, next_cmd="do D") == "C done", "who writes words has the last"
    last = checkpoints(begun, "t")[-1]
    assert last["decisions"] == ["keep A", "keep B", "keep C"], "a restore takes files back, and withdraws no decision"


@pytest.mark.deep
def test_a_turn_that_changes_nothing_after_a_restore_is_not_lost(begun: Sandbox) -> None:
    begun.ok("restore", "--exact", "@~2")
    Client("claude", begun.path).turn("look")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    assert checkpoints(begun, "t")[-1]["carried"]["turns"] == 1


@pytest.mark.deep
def test_an_undo_after_a_turn_brings_the_words_back_and_after_words_of_ones_own_it_does_not(begun: Sandbox) -> None:
    begun.ok("restore", "--exact", "@~2")
    begun.write("c.txt", "c\n")
    Client("claude", begun.path).turn("try another way")
    begun.ok("undo")
    line = 'restored to "B done"; not taken back: 1 turn (asked: "try another way")'
    assert step(begun, next_cmd="do C", back=line, drift="files-changed:1") == "B done"
    begun.ok("redo")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    snap(begun, "t", "C done")
    begun.ok("undo")
    assert step(begun, drift="files-changed:1") == "C done"


@pytest.mark.deep
def test_the_turn_that_came_back_is_named_also_after_the_next_one(begun: Sandbox) -> None:
    begun.write("c.txt", "c\n")
    snap(begun, "t", "C done")
    begun.ok("restore", "--exact", "@~2")
    line = 'restored to "turn ended: do B"; taken back: "C done" and "B done"'
    assert step(begun, next_cmd="do B", back=line) == "A done"
    begun.write("d.txt", "d\n")
    Client("claude", begun.path).turn("do it otherwise")
    for verb in ("resume", "status", ""):
        assert line in begun.ok(*filter(None, [verb])).out
    assert f"in this work tree: {line}\n" in told(begun)


FIRST = "now write B with a list, as the others are"
NEW = "no, try it with a table, and measure both"
THIRD = "then hash the names in a third way of your own"


class Story:
    """Turns of a session whose client writes what is said and done."""

    def __init__(self, repo: Sandbox, folder: Path, *options: str) -> None:
        self.repo, self.talk, self.options = repo, Talk(repo, folder / "talk.jsonl"), options

    def turn(self, prompt: str, name: str) -> None:
        """The user asks for something, and a file is written for it."""
        path = str(self.talk.path)
        self.talk.client.asked(prompt, *self.options, transcript_path=path)
        self.talk.ask(prompt)
        self.talk.edit(name, f"{name}\n")
        self.talk.say(f"{name} is written.")
        self.talk.client.fire("turn", *self.options, transcript_path=path, last_assistant_message=None)


@pytest.fixture
def story(repo: Sandbox, tmp_path: Path) -> Story:
    """A is done, a turn and B followed; A was restored, and another turn followed."""
    found = Story(repo, tmp_path)
    snap(repo, "t", "A done", "--next-cmd", "do B")
    found.turn(FIRST, "b.txt")
    snap(repo, "t", "B done", "--next-cmd", "do C")
    repo.ok("restore", "--exact", "@~2")
    found.turn(NEW, "c.txt")
    return found


def asked(repo: Sandbox, *options: str) -> list[str]:
    """What ``resume`` says that the user asked for, which a new session is told, too."""
    rows = repo.ok("resume", "--porcelain", *options).out.splitlines()
    found = [row.split(" ", 1)[1] for row in rows if row.startswith("asked=")]
    said = told(repo) if not options else repo.ok("resume", "--porcelain", *options).out
    assert not [one for one in found if one not in said], said
    return found


def newest(repo: Sandbox) -> str:
    """What a new session is told that the user said last."""
    return told(repo).partition("Newest request")[2].partition("\n")[0].partition(": ")[2]


@pytest.mark.deep
def test_what_was_asked_after_a_restore_is_told_after_its_undo(story: Story) -> None:
    repo = story.repo
    repo.ok("undo")
    line = f'restored to "B done"; not taken back: 1 turn (asked: "{NEW}")'
    assert step(repo, next_cmd="do C", back=line, drift="files-changed:1") == "B done"
    assert asked(repo) == [FIRST, NEW] and newest(repo) == NEW and "and taken back" not in told(repo)
    story.turn(THIRD, "d.txt")
    assert step(repo, next_cmd="do C", back=line) == "B done", "the line stays, and counts no later turn"
    assert asked(repo) == [FIRST, NEW, THIRD] and newest(repo) == THIRD
    assert '\nsince="B done": 2 turns, 2 files\n' in repo.ok("resume", "--porcelain", "--live").out
    snap(repo, "t", "C done")
    assert asked(repo) == [FIRST, NEW, THIRD] and "restored" not in repo.ok("resume", "--porcelain").out


@pytest.mark.deep
def test_what_was_asked_after_a_restore_is_told_after_its_undo_and_redo(story: Story) -> None:
    repo = story.repo
    for verb, name, told_last in (("undo", "B done", NEW), ("redo", "A done", NEW), ("undo", "B done", NEW)):
        repo.ok(verb)
        assert f"step={name}\n" in repo.ok("resume", "--porcelain").out and newest(repo) == told_last, verb
        assert NEW in asked(repo)


@pytest.mark.deep
def test_what_was_asked_in_what_a_restore_took_back_is_told(story: Story) -> None:
    repo = story.repo
    repo.ok("restore", "--exact", "@~3")
    line = f'restored to "A done"; taken back: "B done" and 2 turns (asked: "{NEW}", "{FIRST}")'
    assert step(repo, next_cmd="do B", back=line) == "A done"
    said = told(repo)
    assert f", and taken back: {NEW}\n" in said and f", and taken back: {FIRST}\n" in said
    assert not newest(repo), "nothing that stands was asked for"
    story.turn(THIRD, "d.txt")
    assert step(repo, next_cmd="do B", back=line) == "A done" and newest(repo) == THIRD
    said = told(repo)
    assert f", and taken back: {NEW}\n" in said and f", and taken back: {FIRST}\n" in said


@pytest.mark.deep
def test_what_was_asked_is_told_after_two_undos_and_two_redos(story: Story) -> None:
    repo = story.repo
    repo.ok("restore", "--exact", "@~2")
    assert f'taken back: "B done" and 1 turn (asked: "{NEW}")' in repo.ok("resume", "--porcelain").out and NEW in told(repo)
    story.turn(THIRD, "d.txt")
    for _ in range(2):
        repo.ok("undo")
        assert NEW in told(repo) and newest(repo) == THIRD and asked(repo)[-2:] == [NEW, THIRD]
    assert "step=B done\n" in repo.ok("resume", "--porcelain").out and asked(repo) == [FIRST, NEW, THIRD]
    assert "not taken back: 2 turns" in repo.ok("status").out
    for _ in range(2):
        repo.ok("redo")
        assert NEW in told(repo) and newest(repo) == THIRD


@pytest.mark.deep
@pytest.mark.parametrize("way", ["undo", "restore"])
def test_what_was_asked_on_a_second_track_is_told(repo: Sandbox, tmp_path: Path, way: str) -> None:
    story, on = Story(repo, tmp_path, "--track", "u"), ("--track", "u")
    snap(repo, "t", "T done")
    snap(repo, "u", "U done", "--next-cmd", "do V", "--no-set-current")
    story.turn(FIRST, "u.txt")
    snap(repo, "u", "V done", "--no-set-current")
    repo.ok("restore", "--exact", "u~2")
    assert f'taken back: "V done" and 1 turn (asked: "{FIRST}")' in repo.ok("resume", "--porcelain", *on).out
    story.turn(NEW, "w.txt")
    repo.ok(*(["undo"] if way == "undo" else ["restore", "--exact", "u~3"]))
    said = repo.ok("resume", "--porcelain", *on).out
    if way == "undo":
        assert "step=V done\n" in said and f'not taken back: 1 turn (asked: "{NEW}")' in said
        assert asked(repo, *on) == [FIRST, NEW]
    else:
        assert f'taken back: "V done" and 2 turns (asked: "{NEW}", "{FIRST}")' in said
    assert "step=T done\n" in repo.ok("resume", "--porcelain").out


@pytest.mark.deep
@pytest.mark.parametrize("way", ["undo", "restore"])
def test_what_was_asked_is_told_after_a_prune(story: Story, way: str) -> None:
    repo = story.repo
    story.turn(THIRD, "d.txt")
    repo.ok(*(["undo"] if way == "undo" else ["restore", "--exact", "@~2"]))
    before = repo.ok("resume", "--porcelain").out
    repo.ok("prune", "--yes", "--keep-last", "1", "--kind", "auto")
    after, said = repo.ok("resume", "--porcelain").out, told(repo)
    assert "step=B done\n" in before and "step=B done\n" in after
    assert all(text in found for text in (NEW, THIRD) for found in (before, after, said)), after


@pytest.mark.deep
def test_restores_on_top_of_each_other(begun: Sandbox) -> None:
    begun.write("c.txt", "c\n")
    snap(begun, "t", "C done")
    begun.ok("restore", "--exact", "@~1")
    assert step(begun, next_cmd="do C", back='restored to "B done"; taken back: "C done"') == "B done"
    begun.ok("restore", "--exact", "@~3")
    line = 'restored to "A done"; taken back: "C done", "B done" and 1 turn (asked: "do B")'
    assert step(begun, next_cmd="do B", back=line) == "A done"
    begun.ok("undo")
    assert step(begun, next_cmd="do C", back='restored to "B done"; taken back: "C done"') == "B done"
    begun.ok("undo")
    assert step(begun) == "C done"
    begun.ok("restore", "--exact", "@~2")
    assert step(begun, next_cmd="do B", back='restored to "turn ended: do B"; taken back: "C done" and "B done"') == "A done"
    begun.ok("restore", "--exact")
    assert step(begun) == "C done", "the newest is here again"


@pytest.mark.deep
def test_where_only_some_paths_come_back_the_words_stay(begun: Sandbox) -> None:
    begun.write("a.txt", "two\n")
    snap(begun, "t", "C done", "--next-cmd", "do D")
    begun.ok("restore", "@~3", "--", "a.txt")
    line = "put back from \"A done\": 'a.txt'"
    assert step(begun, next_cmd="do D", back=line, drift="files-changed:1") == "C done"
    begun.ok("undo")
    assert step(begun, next_cmd="do D") == "C done"
    begun.ok("restore", "--exact", "@~1")
    whole = 'restored to "B done"; taken back: "C done"'
    assert step(begun, next_cmd="do C", back=whole) == "B done"
    (begun.path / "b.txt").unlink()
    begun.ok("restore", "@~1", "--", "b.txt")
    assert step(begun, next_cmd="do C", back="put back from \"B done\": 'b.txt'") == "B done", "the words of before"


@pytest.mark.deep
def test_another_track_is_no_state_of_this_one(begun: Sandbox) -> None:
    begun.write("x.txt", "x\n")
    snap(begun, "other", "X done", "--no-set-current")
    begun.ok("restore", "--exact", "other")
    (begun.path / "x.txt").unlink()
    begun.ok("restore", "--exact", "other")
    line = "the files are those of \"X done\" of track 'other'"
    assert step(begun, next_cmd="do C", back=line, drift="files-changed:1") == "B done"
    assert "\nstep=X done\n" in begun.ok("resume", "--porcelain", "--track", "other").out
    begun.ok("undo")
    assert step(begun, next_cmd="do C") == "B done"


@pytest.mark.deep
def test_a_second_machine_is_told_once_a_checkpoint_followed(begun: Sandbox, tmp_path: Path) -> None:
    begun.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    begun.git("remote", "add", "origin", str(tmp_path / "far.git"))
    begun.ok("restore", "--exact", "@~2")
    Client("claude", begun.path).turn("look")
    begun.git("push", "-q", "origin", "main")
    begun.ok("push", "--yes", "origin")
    begun.git("clone", "-q", str(tmp_path / "far.git"), str(tmp_path / "second"))
    second = Sandbox(tmp_path / "second")
    second.ok("fetch", "origin")
    said = second.ok("resume", "--porcelain", "--track", "t", "--live").out
    assert '\n> restored=restored to "A done"; taken back: 2 checkpoints\n' in said or f"\n> restored={LINE}\n" in said
    assert "> step=A done\n" in said and "> next_cmd=do B\n" in said
    second.ok("restore", "--foreign", "--exact", "t~1")
    said = second.ok("resume", "--porcelain", "--track", "t").out
    assert "> step=B done\n" in said and "> restored=restored to " in said, "what is foreign is quoted"


@pytest.mark.deep
def test_a_checkpoint_that_is_gone_is_no_state(begun: Sandbox) -> None:
    target = checkpoints(begun, "t")[0]["id"]
    begun.ok("restore", "--exact", target)
    begun.ok("forget", "--yes", target)
    assert (
        step(begun, next_cmd="do C", back="restored to a checkpoint that is not here any more", drift="files-changed:1")
        == "B done"
    )


@pytest.mark.deep
def test_another_work_tree_is_where_it_was(begun: Sandbox, tmp_path: Path) -> None:
    begun.git("worktree", "add", "-q", "--detach", str(tmp_path / "second"))
    second = Sandbox(tmp_path / "second")
    begun.ok("restore", "--exact", "@~2")
    assert "step=B done" in second.ok("resume", "--porcelain", "--track", "t").out
    assert "step=A done" in begun.ok("resume", "--porcelain").out
    shown = second.ok("status", "--json").json["tracks"][0]
    assert shown["checkpoint"]["step"] == "A done", "a track is shown as it is where its newest checkpoint was taken"


def test_safety_checkpoints_of_yesterday_still_read(begun: Sandbox) -> None:
    begun.ok("restore", "--exact", "@~2")
    (ref,) = begun.git("for-each-ref", "--format=%(refname)", "refs/baton/safety/").split()
    raw = begun.git("cat-file", "commit", ref).split("\n\n", 2)[2]
    new: Any = json.loads(raw)
    tip, first = checkpoints(begun, "t")[-1]["id"], checkpoints(begun, "t")[0]["id"]
    assert new["restore"]["tip"] == tip and new["restore"]["before"] == {"at": tip, "top": tip}
    assert new["restore"]["after"] == {"at": first, "top": tip}
    for key in ("tip", "before", "after"):
        del new["restore"][key]
    old = decode(json.dumps(new).encode())
    assert old.restore is not None and old.restore.after is None and document(old)["restore"] == new["restore"]


@pytest.mark.deep
def test_what_others_wrote_meanwhile_is_newer(begun: Sandbox, tmp_path: Path) -> None:
    begun.git("init", "-q", "--bare", str(tmp_path / "far.git"))
    begun.git("remote", "add", "origin", str(tmp_path / "far.git"))
    begun.git("push", "-q", "origin", "main")
    begun.ok("push", "--yes", "origin")
    begun.git("clone", "-q", str(tmp_path / "far.git"), str(tmp_path / "second"))
    second = Sandbox(tmp_path / "second")
    second.ok("fetch", "origin")
    second.ok("restore", "--foreign", "t")
    snap(second, "t", "C done")
    second.ok("push", "--yes", "origin")
    begun.ok("restore", "--exact", "@~2")
    assert step(begun, next_cmd="do B", back=LINE) == "A done"
    begun.ok("sync", "--yes", "origin")
    found = begun.ok("resume", "--porcelain").out
    assert "step=C done" in found and "restored" not in found, "who came in between has the newest words"
    begun.ok("undo")
    assert "step=C done" in begun.ok("resume", "--porcelain").out
