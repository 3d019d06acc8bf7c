"""The full-screen picker of rewind: what keys do, that the plan shown is what is carried out, and the terminal afterwards."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gitbaton.commands.look import Look
from gitbaton.restore.values import Order
from tests.kit import Sandbox
from tests.kit.rewindkit import Screen, take, three
from tests.kit.state import assert_same, state_of
from tests.kit.tiers import some

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from gitbaton.commands.picker import Picker

PATIENCE = 10.0


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """Three checkpoints of a track."""
    return three(repo)


Keys = Callable[["Picker", "Pilot[Any]"], Awaitable[None]]


def on_screen(box: Sandbox, keys: Keys, size: tuple[int, int] = (80, 24), track: str = "t") -> Picker:
    """The picker with what was typed into it."""
    from gitbaton.commands.picker import Picker

    async def played(picker: Picker) -> None:
        async with picker.run_test(size=size) as pilot:
            await until(pilot, lambda: bool(picker.rows) and bool(text(picker)))
            await keys(picker, pilot)

    with box.open(door="binary") as baton:
        picker = Picker(baton, Order(), Look(baton, {}), baton.tip(track))
        asyncio.run(played(picker))
    return picker


async def until(pilot: Pilot[Any], holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "nothing happens"
        await pilot.pause(0.02)


async def settled(picker: Picker, pilot: Pilot[Any]) -> int:
    """The columns of the list, once the rows are fitted to it."""
    await until(pilot, lambda: picker.fitted == picker.listing.size.width and bool(listed(picker)))
    return max(picker.listing.size.width, 20)


def text(picker: Picker) -> str:
    """What the right side shows of a checkpoint."""
    from textual.widgets import Static

    return str(picker.query_one("#text", Static).render())


def planned(picker: Picker) -> list[str]:
    """The lines of the plan as they are shown."""
    return [str(option.prompt) for option in picker.steps.options]


def listed(picker: Picker) -> list[str]:
    return [str(option.prompt) for option in picker.listing.options]


def test_the_list_the_views_and_the_filter(box: Sandbox) -> None:
    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert [row.rpartition(" step")[0].split()[-1] for row in listed(picker)] == ["third", "second", "first"]
        assert "step=third step" in text(picker)
        box.write("a.txt", "spoilt\n")
        await pilot.press("3")
        await until(pilot, lambda: "-three\n+spoilt\n" in text(picker))
        await pilot.press("4")
        await until(pilot, lambda: "-one\n-two\n+three\n" in text(picker))
        await pilot.press("1", "slash", *"good")
        await until(pilot, lambda: len(listed(picker)) == 1)
        await until(pilot, lambda: "step=second step" in text(picker))
        await pilot.press("space", *"nothing")
        await until(pilot, lambda: not listed(picker))
        await pilot.press("escape")
        await until(pilot, lambda: len(listed(picker)) == 3)
        assert not picker.deeds

    on_screen(box, keys)


@some("size", [(80, 24), (200, 60), (60, 15)])
def test_no_row_is_wider_than_the_list_and_resizing_fits_them(box: Sandbox, size: tuple[int, int]) -> None:
    take(box, "a step of many words " * 20)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        for columns, rows in (size, (120, 30), size):
            await pilot.resize_terminal(columns, rows)
            room = await settled(picker, pilot)
            assert room - 4 < max(map(len, listed(picker))) < room, listed(picker)
            assert len(listed(picker)) == 4

    on_screen(box, keys, size)


def test_the_plan_that_is_shown_is_carried_out_and_undone(box: Sandbox) -> None:
    box.write("a.txt", "spoilt\n")
    box.write("new.txt", "new\n")
    then, dry = state_of(box), box.ok("restore", "-n", "t~1").out.splitlines()

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: picker.plan is not None)
        assert sorted(" ".join(row.split()[1:]) for row in planned(picker)) == sorted(row.removeprefix("would ") for row in dry)
        assert_same(then, state_of(box), "shown")
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds) == 1 and not picker.busy)
        assert (box.path / "a.txt").read_text() == "one\ntwo\n"
        await pilot.press("u")
        await until(pilot, lambda: picker.plan is not None and picker.plan.op == "undo")
        assert (box.path / "a.txt").read_text() == "one\ntwo\n"
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds) == 2 and not picker.busy)
        assert_same(then, state_of(box), "undone")
        await pilot.press("r")
        await until(pilot, lambda: picker.plan is not None and picker.plan.op == "redo")
        await pilot.press("escape", "q")

    assert [done.plan.op for done, _ in on_screen(box, keys).deeds] == ["restore", "undo"]
    assert_same(then, state_of(box), "left")


def test_what_changed_since_it_was_shown_is_shown_anew(box: Sandbox) -> None:
    box.write("a.txt", "spoilt\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: picker.plan is not None)
        shown = picker.plan
        box.write("b.txt", "mine, since\n")
        await pilot.press("enter")
        await until(pilot, lambda: picker.plan not in (None, shown))
        assert any("b.txt" in row for row in planned(picker)) and not picker.deeds
        assert (box.path / "a.txt").read_text() == "spoilt\n"

    on_screen(box, keys)


def test_a_conflict_is_left_alone_unless_it_is_marked(box: Sandbox) -> None:
    box.write("b.txt", "somebody else's\n")
    box.write("a.txt", "spoilt\n")
    take(box, "s", "other", set_current=False)
    box.write("a.txt", "mine\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.plan is not None)
        marked = [row for row in planned(picker) if row.startswith("! conflict")]
        assert marked and all("[ ]" in row for row in marked) and any("b.txt" in row for row in marked)
        at = next(n for n, row in enumerate(planned(picker)) if "b.txt" in row)
        await pilot.press(*["down"] * at, "space")
        await until(pilot, lambda: any("[x] b.txt" in row for row in planned(picker)))
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds) == 1 and not picker.busy)

    on_screen(box, keys)
    assert (box.path / "b.txt").read_text() == "b\n"


def test_tab_opens_other_tracks_and_a_click_restores_nothing(box: Sandbox) -> None:
    take(box, "of another", "other", set_current=False)
    box.write("a.txt", "spoilt\n")
    then = state_of(box)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(picker.tracks) == 2)
        await pilot.press("tab")
        await until(pilot, lambda: "step=of another" in text(picker))
        await pilot.press("shift+tab")
        await until(pilot, lambda: "step=third step" in text(picker))
        await pilot.click("#list", offset=(3, 1))
        await until(pilot, lambda: "step=second step" in text(picker))
        await pilot.press("enter")
        await until(pilot, lambda: picker.plan is not None)
        await pilot.click("#steps", offset=(3, 0))
        await pilot.click("#steps", offset=(3, 0))
        await pilot.pause(0.2)
        assert not picker.busy and not picker.deeds

    on_screen(box, keys)
    assert_same(then, state_of(box), "clicked")


@pytest.mark.deep
def test_more_rows_come_when_somebody_looks_for_them(box: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitbaton.commands.picker.PAGE", 3)
    monkeypatch.setattr("gitbaton.commands.picker.NEAR", 2)
    for number in range(30):
        take(box, f"number {number}", files=False)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert len(picker.rows) < 33
        await pilot.press("slash", *"first")
        await until(pilot, lambda: len(listed(picker)) == 1 and len(picker.rows) == 33)

    on_screen(box, keys)


def test_stored_words_drive_no_terminal_and_are_no_markup(box: Sandbox) -> None:
    take(box, "[red]\x1b[31mx[/nonsense] [@click=app.leave]y")
    box.write("a.txt", "\x1b]0;title\x07[bold]\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert "[red]?[31mx[/non" in listed(picker)[0] and "\x1b" not in text(picker)
        await pilot.press("3")
        await until(pilot, lambda: "+?]0;title?[bold]\n" in text(picker))

    on_screen(box, keys)


def test_only_rewind_on_a_terminal_needs_textual(box: Sandbox) -> None:
    for words in (["status"], ["log"], ["restore", "-n"], ["rewind", "-h"], ["undo", "-n"]):
        start = [sys.executable, "-X", "importtime", "-m", "gitbaton", *words]
        said = subprocess.run(start, cwd=box.path, capture_output=True, text=True, check=False).stderr
        assert "gitbaton" in said and " textual" not in said and " rich" not in said, words


def test_a_dumb_terminal_gets_the_numbered_list(box: Sandbox) -> None:
    screen = Screen(box, env={"TERM": "dumb"}, listed=False)
    screen.answer("Enter to leave] ", "q\n")
    assert screen.end()[0] == 0


class Tmux:
    """A shell in a terminal of tmux's own."""

    def __init__(self, box: Sandbox, folder: Path, size: tuple[int, int]) -> None:
        self.base = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        columns, rows = map(str, size)
        subprocess.run([*self.base, "new-session", "-d", "-x", columns, "-y", rows, "-c", str(box.path), "sh"], check=True)
        self.type("PS1='ready$ '; clear", "Enter")
        self.until("ready$")

    def type(self, *keys: str) -> None:
        subprocess.run([*self.base, "send-keys", *keys], check=True)

    def shown(self) -> str:
        return subprocess.run([*self.base, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout

    def until(self, text: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while text not in (shown := self.shown()):
            assert time.monotonic() < deadline, shown
            time.sleep(0.05)
        return shown

    def modes(self) -> str:
        """What programs may leave behind: the other screen, the cursor, the mouse, keys."""
        names = [
            "alternate_on",
            "cursor_flag",
            "mouse_any_flag",
            "mouse_sgr_flag",
            "keypad_flag",
            "keypad_cursor_flag",
            "wrap_flag",
        ]
        form = " ".join(f"#{{{name}}}" for name in names)
        return subprocess.run([*self.base, "display", "-p", form], check=True, capture_output=True, text=True).stdout

    def settings(self) -> str:
        """The settings of the terminal, as stty has them."""
        self.type("clear; stty -a; echo 'that is' all", "Enter")
        return self.until("that is all").partition("ready$")[0]

    def close(self) -> None:
        subprocess.run([*self.base, "kill-server"], check=False)


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
@some("size", [(80, 24), (200, 60)])
@some("keys", [[], ["/"], ["Down", "Enter"], ["3"]])
def test_the_terminal_is_as_it_was(box: Sandbox, tmp_path: Path, size: tuple[int, int], keys: list[str]) -> None:
    box.write("a.txt", "spoilt\n")
    tmux = Tmux(box, tmp_path, size)
    try:
        modes, settings = tmux.modes(), tmux.settings()
        for end in ("q", signal.SIGTERM, signal.SIGINT):
            start = f"echo \\$\\$ > .git/pid; exec {sys.executable} -m gitbaton rewind"
            tmux.type(f'clear; sh -c "{start}"; echo code $?', "Enter")
            tmux.until("third step")
            tmux.until("1 words")
            if keys:
                tmux.type(*keys)
                time.sleep(0.5)
            if end == "q":
                for key in ("Escape", "Escape", "q"):
                    tmux.type(key)
                    time.sleep(0.5)  # else Escape and the next key are one
            else:
                subprocess.run(["kill", f"-{int(end)}", (box.path / ".git/pid").read_text().strip()], check=True)
            tmux.until("code 0" if end == "q" else "code 130")
            assert tmux.modes() == modes and tmux.settings() == settings, end
    finally:
        tmux.close()
    assert (box.path / "a.txt").read_text() == "spoilt\n"
