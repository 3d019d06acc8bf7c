"""What removes checkpoints shows its plan on a terminal and asks; without a terminal only prune goes on."""

from __future__ import annotations

import pytest

from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.terminals import Terminal
from tests.kit.threads import put

NOBODY = "fatal: nothing is removed without asking, and there is no terminal\nhint: --dry-run prints the plan; --yes answers\n"


@pytest.fixture
def three(repo: Sandbox) -> Sandbox:
    """A track of three checkpoints."""
    for n in range(3):
        repo.ok("snapshot", "--track", "t", "--step", f"step {n}", "--no-files")
    return repo


def left(repo: Sandbox) -> list[str]:
    return [row["step"] for row in repo.ok("log", "--all", "--json").json["checkpoints"]]


def asked(repo: Sandbox, answer: bytes, *words: str) -> tuple[int, str]:
    """The exit code of a command that asks on a terminal, and all that was shown."""
    with Terminal(repo.path, "--no-pager", *words) as screen:
        screen.until(b"[y/N] ")
        before = left(repo)
        assert len(before) == 3, "it went before anybody answered"
        screen.press(answer)
        return screen.end(), screen.shown.decode().replace("\r\n", "\n")


@pytest.mark.full
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1), (b"no\n", 1)])
def test_prune_shows_its_plan_and_asks(three: Sandbox, answer: bytes, code: int) -> None:
    ended, shown = asked(three, answer, "prune", "--keep-last", "1")
    assert ended == code and left(three) == ["step 2", "step 1", "step 0"][: 1 if code == 0 else 3]
    plan, _, after = shown.partition("remove them? [y/N] ")
    assert "track 't': 2 checkpoints to remove, 1 to keep" in plan and plan.count("\n\x1b[33mremove\x1b[m ") == 2
    assert ("2 checkpoints removed, 1 kept" in after) == (code == 0)
    assert ("fatal: nothing is removed\n" in after) == (code == 1)


@pytest.mark.full
def test_prune_does_not_ask_with_yes_nor_without_a_terminal_nor_for_nothing(three: Sandbox) -> None:
    with Terminal(three.path, "prune", "--keep-last", "3") as screen:
        assert screen.end() == 0 and b"nothing to remove" in screen.shown and b"[y/N]" not in screen.shown
    with Terminal(three.path, "prune", "--keep-last", "2", "--yes") as screen:
        assert screen.end() == 0 and b"[y/N]" not in screen.shown
    assert left(three) == ["step 2", "step 1"]
    with Terminal(three.path, "prune", "--keep-last", "1", "--json") as screen:
        assert screen.end() == 0 and b"[y/N]" not in screen.shown
    assert left(three) == ["step 2"]


@pytest.mark.deep
def test_prune_of_threads_asks_too(three: Sandbox) -> None:
    with three.open() as baton, ThreadStore(baton.repo) as store:
        for n in range(2):
            put(store, "job", f"id-{n}", f"id-{n - 1}" if n else None)
    before = three.ok("thread", "log", "job", "--json").json
    assert len(before["checkpoints"]) == 2
    with Terminal(three.path, "--no-pager", "prune", "--threads") as screen:
        screen.until(b"remove them? [y/N] ")
        screen.press(b"n\n")
        assert screen.end() == 1 and b"1 checkpoint to remove, 1 to keep" in screen.shown
    assert three.ok("thread", "log", "job", "--json").json == before


@pytest.mark.deep
def test_deleting_a_thread_asks(three: Sandbox) -> None:
    for n, (words, answer, code) in enumerate((([], b"n\n", 1), ([], b"y\n", 0), (["--yes"], b"", 0), (["--json"], b"", 0))):
        with three.open() as baton, ThreadStore(baton.repo) as store:
            put(store, f"job{n}", "id-0", None)
        with Terminal(three.path, "thread", "delete", f"job{n}", *words) as screen:
            if answer:
                screen.until(f"delete thread 'job{n}' with 1 checkpoint? [y/N] ".encode())
                screen.press(answer)
            assert screen.end() == code
        assert three.baton("thread", "log", f"job{n}").code == (0 if code else 2)


@pytest.mark.deep
@pytest.mark.parametrize(("answer", "code"), [(b"y\n", 0), (b"\n", 1)])
def test_forget_shows_its_plan_and_asks(three: Sandbox, answer: bytes, code: int) -> None:
    ended, shown = asked(three, answer, "forget", "t~1")
    assert ended == code and ("step 1" in left(three)) == (code == 1)
    plan, _, after = shown.partition("forget for good? [y/N] ")
    assert "would forget " in plan and " step 1\n" in plan and (" step 1\n" in after) == (code == 0)


@pytest.mark.deep
def test_what_came_while_somebody_read_the_plan_is_shown_before_it_goes(three: Sandbox) -> None:
    with Terminal(three.path, "--no-pager", "prune", "t", "--keep-last", "1") as screen:
        screen.until(b"[y/N] ")
        three.ok("snapshot", "--track", "t", "--step", "step 3", "--no-files")
        screen.press(b"y\n")
        screen.until(b"now it would be:")
        assert len(left(three)) == 4
        screen.until(b"3 checkpoints to remove")
        screen.press(b"y\n")
        assert screen.end() == 0
    assert left(three) == ["step 3"]


@pytest.mark.deep
def test_forget_without_a_terminal_wants_yes(three: Sandbox) -> None:
    done = three.baton("forget", "t~1", stdin=b"y\n")
    assert (done.code, done.out, done.err) == (129, "", NOBODY) and len(left(three)) == 3
    assert three.baton("forget", "nothing").code == 2
    assert three.ok("forget", "t~1", "-n").err == ""
    three.ok("forget", "t~1", "--yes")
    assert left(three) == ["step 2", "step 0"]


@pytest.mark.full
def test_forget_of_a_track_says_that_it_means_only_its_newest(three: Sandbox) -> None:
    said = (
        "warning: 't' means only the newest checkpoint of the track; its 2 others stay; "
        "to delete all: git baton tracks delete t\n"
    )
    _, shown = asked(three, b"\n", "forget", "t")
    assert shown.index(said) < shown.index("would forget ") < shown.index("[y/N] ")
    for words in (("-n",), ("--yes",)):
        assert three.ok("forget", "t", *words).err == said
    assert left(three) == ["step 1", "step 0"]
    assert three.ok("forget", "t~1", "-n").err == ""
    assert "its 1 other stays" in three.ok("forget", "t", "-n").err
    three.ok("forget", "t~1", "--yes")
    assert three.ok("forget", "t", "--yes").err == ""


@pytest.mark.deep
def test_a_pinned_checkpoint_is_forgotten_with_force_only(three: Sandbox) -> None:
    pinned = three.ok("show", "t~1", "--json").json["checkpoint"]["id"]
    three.ok("pin", "t~1")
    for words in (("--yes",), (), ("-n",)):
        done = three.baton("forget", "t~1", "t~2", *words)
        assert done.code == 1 and done.err == (
            f"fatal: nothing is forgotten: '{pinned[:10]}' is pinned\n"
            f"hint: 'git baton unpin {pinned[:10]}' takes the pin back\n"
        )
        assert (f"would forget  {pinned[:4]}" in done.out and "  pinned  step 1\n" in done.out) == (words == ("-n",))
    assert len(left(three)) == 3
    assert three.ok("forget", "t~1", "--yes", "--force", "--json").json["pinned"] == [pinned]
    assert left(three) == ["step 2", "step 0"]
    three.ok("pin", "t~1")
    three.ok(*done.err.partition("'git baton ")[2].partition(" ")[0].split(), "t~1")
    three.ok("forget", "t~1", "--yes")
    assert left(three) == ["step 2"]
