"""The full-screen picker of rewind: what keys do, that the plan shown is what is carried out, and the terminal afterwards."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gitbaton.base import terminal
from gitbaton.checkpoints.restore.values import Order
from gitbaton.cli.look import Look
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.manytracks import many_tracks, track
from tests.kit.places import PYTHON
from tests.kit.rewindkit import Screen, spoken_to, take, three
from tests.kit.state import assert_same, state_of
from tests.kit.terminals import Terminal
from tests.kit.tiers import full, some
from tests.kit.tmux import Tmux, needs_tmux

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from gitbaton.cli.commands.picker import Picker

PATIENCE = 60.0


@pytest.fixture
def box(repo: Sandbox) -> Sandbox:
    """Three checkpoints of a track."""
    return three(repo)


Keys = Callable[["Picker", "Pilot[Any]"], Awaitable[None]]


def on_screen(box: Sandbox, keys: Keys, size: tuple[int, int] = (80, 24), track: str = "t", limit: int | None = None) -> Picker:
    """The picker with what was typed into it."""
    from gitbaton.cli.commands.picker import Picker

    async def played(picker: Picker) -> None:
        async with picker.run_test(size=size) as pilot:
            await until(pilot, lambda: bool(picker.rows) and bool(text(picker)))
            await keys(picker, pilot)

    with box.open(door="binary") as baton:
        picker = Picker(baton, Order(), Look(baton, terminal.COLORS), baton.tip(track), limit)
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
    return "\n".join(line.label + line.text for line in picker.details.view.lines)


def above(picker: Picker) -> str:
    """What stands above it."""
    from textual.widgets import Static

    return str(picker.query_one("#head", Static).render())


def planned(picker: Picker) -> list[str]:
    """The lines of the plan as they are shown."""
    return [str(option.prompt) for option in picker.steps.options]


def listed(picker: Picker) -> list[str]:
    return [str(option.prompt) for option in picker.listing.options]


@pytest.mark.deep
def test_the_list_the_views_and_the_filter(box: Sandbox) -> None:
    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert [row.rpartition(" step")[0].split()[-1] for row in listed(picker)] == ["third", "second", "first"]
        assert "third step" in text(picker)
        box.write("a.txt", "spoilt\n")
        await pilot.press("3")
        await until(pilot, lambda: "-three\n+spoilt" in text(picker))
        await pilot.press("3")
        await until(pilot, lambda: "-one\n-two\n+three" in text(picker))
        await pilot.press("1", "slash", *"good")
        await until(pilot, lambda: len(listed(picker)) == 1)
        await until(pilot, lambda: "second step" in text(picker))
        await pilot.press("space", *"nothing")
        await until(pilot, lambda: not listed(picker))
        await pilot.press("escape")
        await until(pilot, lambda: len(listed(picker)) == 3)
        assert not picker.deeds.told

    on_screen(box, keys)


@pytest.mark.deep
def test_a_stranger_s_checkpoints_are_marked_and_restored_by_no_key(box: Sandbox, tmp_path: Path) -> None:
    box.git("clone", "-q", "-c", "remote.origin.fetch=+refs/*:refs/*", str(box.path), str(tmp_path / "mirror"))
    mirror = Sandbox(tmp_path / "mirror")
    then = state_of(mirror)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert len(listed(picker)) == 3 and all("> " in row.partition(" step")[0] for row in listed(picker))
        assert all("> " in line for line in text(picker).splitlines() if "third step" in line)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "--foreign" in text(picker))
        assert picker.shown is None

    on_screen(mirror, keys)
    assert_same(then, state_of(mirror), "looked at")


@pytest.mark.full
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


@pytest.mark.deep
def test_the_plan_that_is_shown_is_carried_out_and_undone(box: Sandbox) -> None:
    box.write("a.txt", "spoilt\n")
    box.write("new.txt", "new\n")
    then, dry = state_of(box), box.ok("restore", "-n", "t~1").out.splitlines()

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: picker.shown is not None)
        assert sorted(" ".join(row.split()[1:]) for row in planned(picker)) == sorted(
            row.removeprefix("would ") for row in dry if row.startswith("would ")
        )
        assert_same(then, state_of(box), "shown")
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 1 and not picker.busy)
        assert (box.path / "a.txt").read_text() == "one\ntwo\n"
        await pilot.press("u")
        await until(pilot, lambda: picker.shown is not None and picker.shown.plan.op == "undo")
        assert (box.path / "a.txt").read_text() == "one\ntwo\n"
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 2 and not picker.busy)
        assert_same(then, state_of(box), "undone")
        await pilot.press("r")
        await until(pilot, lambda: picker.shown is not None and picker.shown.plan.op == "redo")
        await pilot.press("escape", "q")

    assert [done.plan.op for done, _ in on_screen(box, keys).deeds.restored] == ["restore", "undo"]
    assert_same(then, state_of(box), "left")


@pytest.mark.full
def test_what_changed_since_it_was_shown_is_shown_anew(box: Sandbox) -> None:
    box.write("a.txt", "spoilt\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: picker.shown is not None)
        shown = picker.shown
        box.write("b.txt", "mine, since\n")
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown not in (None, shown))
        assert any("b.txt" in row for row in planned(picker)) and not picker.deeds.told
        assert (box.path / "a.txt").read_text() == "spoilt\n"

    on_screen(box, keys)


@pytest.mark.deep
def test_a_conflict_is_left_alone_unless_it_is_marked(box: Sandbox) -> None:
    box.write("b.txt", "somebody else's\n")
    box.write("a.txt", "spoilt\n")
    take(box, "s", "other", set_current=False)
    box.write("a.txt", "mine\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        marked = [row for row in planned(picker) if row.startswith("! conflict")]
        assert marked and all("[ ]" in row for row in marked) and any("b.txt" in row for row in marked)
        at = next(n for n, row in enumerate(planned(picker)) if "b.txt" in row)
        await pilot.press(*["down"] * at, "space")
        await until(pilot, lambda: any("[x] b.txt" in row for row in planned(picker)))
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 1 and not picker.busy)

    on_screen(box, keys)
    assert (box.path / "b.txt").read_text() == "b\n"


@pytest.mark.deep
def test_a_diff_is_by_file_and_whole_when_asked(box: Sandbox) -> None:
    """2,000 lines of it are shown at once."""
    box.write("a.txt", "".join(f"{n}\n" for n in range(2050)))
    box.write("d/\u00e9 b.txt", "new\n")
    (box.path / "b.txt").rename(box.path / "c.txt")
    box.git("config", "diff.noprefix", "true")
    box.git("config", "diff.mnemonicPrefix", "true")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("3")
        await until(pilot, lambda: above(picker).startswith("3 files changed since it, until now; "))
        head = text(picker).split("\n\n")[0].split("\n")
        assert [" ".join(row.split()) for row in head] == ["~ a.txt +2050 -1", "~ c.txt", "+ d/\\303\\251 b.txt +1"]
        assert "rename from b.txt" not in text(picker) and "+2049" not in text(picker).split("\n")
        await pilot.press("a")
        await until(pilot, lambda: "+2049" in text(picker).split("\n"))
        assert "rename from b.txt" in text(picker) and "more: a" not in above(picker)
        styles = {part.spans[-1].style for _, part in picker.details.folded if part.plain[:2] in ("+1", "+2")}
        assert styles == {picker.style_of("green")}
        assert len(picker.details.view.parts) == 3
        await pilot.press("f")
        assert picker.details.folded[int(picker.details.scroll_offset.y)][1].plain.startswith("~ a.txt")
        at = picker.details.scroll_offset.y
        await pilot.press("f")
        assert picker.details.scroll_offset.y > at
        await pilot.press("F")
        assert picker.details.scroll_offset.y == at
        await pilot.press("d")
        await until(pilot, lambda: above(picker) == "1 file changed in it, against the checkpoint before")

    on_screen(box, keys)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder where clients keep what was said."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def sessions(home: Path) -> set[Path]:
    """The files of conversations that are there."""
    return set(home.glob(".claude/projects/*/*.jsonl"))


@pytest.mark.deep
def test_the_conversation_is_shown(box: Sandbox, home: Path) -> None:
    spoken_to(box, home)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("4")
        await until(pilot, lambda: above(picker) == "2 messages, up to it")
        assert text(picker) == "user:\n    please mend it\n\nassistant:\n    mended"
        await pilot.press("down")
        await until(pilot, lambda: "knows of no conversation" in text(picker))

    on_screen(box, keys)


@pytest.mark.deep
@some("key", ["enter", "c", "b"])
def test_files_the_conversation_or_both_come_back(box: Sandbox, home: Path, key: str) -> None:
    spoken_to(box, home)
    box.write("a.txt", "spoilt\n")
    then, before = state_of(box), sessions(home)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        assert "conversation: 2 lines, as a new session of 'claude'" in above(picker)
        await pilot.press(key)
        await until(pilot, lambda: bool(picker.deeds.told) and not picker.busy)
        told = re.search(r"resume it with: (cd \S+ && )?claude --resume ", picker.told)
        assert bool(told) == (key != "enter")
        assert ("u takes it back" in picker.told) == (key != "c")

    picker = on_screen(box, keys)
    assert (box.path / "a.txt").read_text() == ("spoilt\n" if key == "c" else "three\n")
    assert len(sessions(home) - before) == (key != "enter")
    assert len(picker.deeds.restored) == (key != "c")
    if key == "c":
        assert_same(then, state_of(box), "the conversation alone")


@pytest.mark.deep
def test_what_changed_since_it_was_shown_brings_no_conversation_either(box: Sandbox, home: Path) -> None:
    spoken_to(box, home)
    box.write("a.txt", "spoilt\n")
    before = sessions(home)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        shown = picker.shown
        box.write("b.txt", "mine, since\n")
        await pilot.press("b")
        await until(pilot, lambda: picker.shown not in (None, shown) and not picker.busy)
        await until(pilot, lambda: "not what was shown" in picker.told)

    assert not on_screen(box, keys).deeds.told
    assert sessions(home) == before and (box.path / "a.txt").read_text() == "spoilt\n"


@pytest.mark.deep
def test_a_checkpoint_without_a_conversation_says_so(box: Sandbox) -> None:
    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        assert "knows of no conversation" in above(picker)
        await pilot.press("b")
        await until(pilot, lambda: "no conversation comes back" in picker.told)

    assert not on_screen(box, keys).deeds.told


@pytest.mark.deep
def test_a_branch_is_the_verbs_and_a_wrong_name_can_be_mended(box: Sandbox) -> None:
    box.write("a.txt", "spoilt\n")
    then = state_of(box)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "n", *"a..b", "enter")
        await until(pilot, lambda: "'a..b' is not a name that git takes for a branch" in picker.told)
        assert picker.question == "branch" and picker.answer.value == "a..b"
        await pilot.press("backspace", "backspace", "backspace", *"bc", "enter")
        await until(pilot, lambda: picker.told.startswith("branch 'abc' at "))
        await pilot.press("n", *"abc", "enter")
        await until(pilot, lambda: "a branch 'abc' exists already" in picker.told)
        await pilot.press("escape")
        assert picker.focused is picker.listing and len(listed(picker)) == 3

    on_screen(box, keys)
    box.ok("branch", "verb", "t~1")
    assert box.git("rev-parse", "abc^{tree}") == box.git("rev-parse", "verb^{tree}")
    assert state_of(box).files == then.files and box.git("rev-parse", "--abbrev-ref", "HEAD") == "main"


@pytest.mark.deep
def test_a_work_tree_is_the_verbs(box: Sandbox, tmp_path: Path) -> None:
    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "w")
        await until(pilot, lambda: picker.answer.value.endswith(picker.rows[1].stored.id[:10]))
        picker.answer.value = str(box.path)
        await pilot.press("enter")
        await until(pilot, lambda: "already exists" in picker.told)
        picker.answer.value = str(tmp_path / "beside")
        await pilot.press("enter")
        await until(pilot, lambda: picker.told.startswith("checked out "))

    on_screen(box, keys)
    assert (tmp_path / "beside/a.txt").read_text() == "one\ntwo\n"


@pytest.mark.deep
def test_a_pin_a_label_and_the_id(box: Sandbox) -> None:
    box.ok("tracks", "use", "t")
    box.write("a.txt", "spoilt\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "y")
        await pilot.resize_terminal(120, 30)
        await settled(picker, pilot)
        oid = picker.rows[1].stored.id
        assert picker.clipboard == oid and picker.told == f"copied: {oid}"
        await pilot.press("p")
        await until(pilot, lambda: "pinned   no prune removes it" in text(picker))
        assert picker.told.startswith("pinned ")
        await pilot.press("p")
        await until(pilot, lambda: picker.told.startswith("no longer pinned ") and "pinned" not in text(picker))
        await pilot.press("l", "space", "enter")
        await until(pilot, lambda: picker.told == "the label is empty")
        await pilot.press("backspace", *"before", "enter")
        await until(pilot, lambda: len(listed(picker)) == 4 and "[before] before" in listed(picker)[0])

    on_screen(box, keys)
    assert "label=before" in box.ok("show", "--porcelain", "before").out
    assert box.ok("diff", "before").out == "", "it holds the files as they were when it was made"


@pytest.mark.deep
def test_n_limits_the_list_and_m_lists_more(box: Sandbox) -> None:
    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert len(listed(picker)) == 2 and picker.told == "2 checkpoints, m lists more"
        await pilot.press("down", "down", "down")
        assert len(listed(picker)) == 2
        await pilot.press("m")
        await until(pilot, lambda: len(listed(picker)) == 3)
        assert picker.told == "3 checkpoints"

    on_screen(box, keys, limit=2)


@pytest.mark.deep
def test_every_key_of_the_footer_and_of_help_does_something(box: Sandbox) -> None:
    from gitbaton.cli.commands import picker as module

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("question_mark")
        await until(pilot, lambda: above(picker).startswith("keys"))
        assert all(word in text(picker) for word in ("make a branch", "copy its id", "conversation, both"))
        bound = {"slash": "/", "question_mark": "?", "escape": "esc"}
        known = {bound.get(key, key) for key in picker.active_bindings}
        for key, *_ in module.LIST_KEYS:
            assert key in known or key == "1-4", key
        named = " ".join(key for key, word in module.MORE_KEYS if word).replace("or", "").split()
        assert set(named) <= known, named
        await pilot.press("1")
        await until(pilot, lambda: "third step" in text(picker))

    on_screen(box, keys)


@pytest.mark.deep
def test_an_exact_restore_is_a_key_away(box: Sandbox) -> None:
    box.write("later", "x\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: any(row.startswith(". keep") and "later" in row for row in planned(picker)))
        assert ("x", "exact", "exact") in picker.footer()
        await pilot.press("x")
        await until(pilot, lambda: any(row.startswith("- remove") and "later" in row for row in planned(picker)))
        await pilot.press("x")
        await until(pilot, lambda: any(row.startswith(". keep") and "later" in row for row in planned(picker)))
        await pilot.press("x")
        await until(pilot, lambda: any(row.startswith("- remove") and "later" in row for row in planned(picker)))
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 1 and not picker.busy)
        await pilot.press("enter")
        await until(pilot, lambda: picker.planning and picker.shown is not None)
        assert not picker.meant.exact, "it counts for one plan"

    on_screen(box, keys)
    assert not (box.path / "later").exists()


@pytest.mark.deep
@pytest.mark.parametrize(
    "columns, list_keys, plan_keys",
    [
        (80, "enter / tab 1-4 u r ? q", "enter space esc q"),
        (60, "enter / tab u ? q", "enter space esc q"),
        (40, "enter u ? q", "enter esc q"),
        (20, "enter q", "esc q"),
    ],
)
def test_a_narrow_footer_keeps_the_keys_that_matter_most(box: Sandbox, columns: int, list_keys: str, plan_keys: str) -> None:
    take(box, "other", "o")
    box.write("a.txt", "theirs\n")
    take(box, "of another", "o")

    def shown(picker: Picker) -> str:
        from textual.widgets import Static

        row = str(picker.query_one("#keys", Static).render())
        assert len(row.rstrip()) + 2 <= columns
        return " ".join(key for key, *_ in picker.fitting())

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.pause()
        assert shown(picker) == list_keys
        await pilot.press("down", "enter")
        await until(pilot, lambda: picker.planning and bool(planned(picker)))
        await until(pilot, lambda: any("conflict" in row for row in planned(picker)))
        assert shown(picker) == plan_keys

    on_screen(box, keys, size=(columns, 24))


@pytest.mark.full
@some("size", [(80, 24), (200, 60), (40, 10)])
def test_no_line_is_wider_than_its_side_and_resizing_folds_them_anew(box: Sandbox, size: tuple[int, int]) -> None:
    take(box, "s", note="many words, " * 50 + "and a long one " + "x" * 300 + " \u4f60\u597d" * 60)
    box.write("a.txt", "x" * 9000 + "\n")

    def fits(picker: Picker) -> bool:
        room = picker.details.scrollable_content_region.width
        return room - 9 < max(indent + part.cell_len for indent, part in picker.details.folded) <= room

    seen = list[bool]()

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        for view in ("1", "3"):
            await pilot.press(view)
            await until(pilot, lambda: len(text(picker)) > 500)
            for columns, rows in (size, (120, 30), size):
                await pilot.resize_terminal(columns, rows)
                await until(pilot, lambda: fits(picker))
                seen.append(fits(picker))
            await pilot.press("2")

    on_screen(box, keys, size)
    assert seen == [True] * 6


@pytest.mark.deep
def test_tab_opens_other_tracks_and_a_click_restores_nothing(box: Sandbox) -> None:
    take(box, "of another", "other", set_current=False)
    box.write("a.txt", "spoilt\n")
    then = state_of(box)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: len(picker.tracks) == 2)
        await pilot.press("tab")
        await until(pilot, lambda: "of another" in text(picker))
        await pilot.press("shift+tab")
        await until(pilot, lambda: "third step" in text(picker))
        await pilot.click("#list", offset=(3, 1))
        await until(pilot, lambda: "second step" in text(picker))
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        await pilot.click("#steps", offset=(3, 0))
        await pilot.click("#steps", offset=(3, 0))
        await pilot.pause(0.2)
        assert not picker.busy and not picker.deeds.told

    on_screen(box, keys)
    assert_same(then, state_of(box), "clicked")


@pytest.mark.deep
def test_more_rows_come_when_somebody_looks_for_them(box: Sandbox) -> None:
    many_tracks(box.path, 1, depth=600)
    oldest = box.ok("log", track(0), "--json").json["checkpoints"][-1]["id"]

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert len(picker.rows) < 600
        await pilot.press("slash", *oldest[:10])
        await until(pilot, lambda: len(listed(picker)) == 1 and len(picker.rows) == 600)

    on_screen(box, keys, track=track(0))


@pytest.mark.full
def test_stored_words_drive_no_terminal_and_are_no_markup(box: Sandbox) -> None:
    take(box, "[red]\x1b[31mx[/nonsense] [@click=app.leave]y")
    box.write("a.txt", "\x1b]0;title\x07[bold]\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        assert "[red]?[31mx[/non" in listed(picker)[0] and "\x1b" not in text(picker)
        await pilot.press("3")
        await until(pilot, lambda: "+?]0;title?[bold]" in text(picker))

    on_screen(box, keys)


@pytest.mark.full
def test_only_rewind_on_a_terminal_needs_textual(box: Sandbox) -> None:
    for words in (["status"], ["log"], ["restore", "-n"], ["rewind", "-h"], ["undo", "-n"]):
        start = [sys.executable, "-X", "importtime", "-m", "gitbaton", *words]
        said = subprocess.run(start, cwd=box.path, capture_output=True, text=True, check=False).stderr
        assert "gitbaton" in said and " textual" not in said and " rich" not in said, words


@pytest.mark.deep
def test_a_dumb_terminal_gets_the_numbered_list(box: Sandbox) -> None:
    screen = Screen(box, env={"TERM": "dumb"}, listed=False)
    screen.answer("Enter to leave] ", "q\n")
    assert screen.end()[0] == 0


@pytest.mark.deep
def test_without_textual_it_is_the_numbered_list_and_says_so(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "hides").mkdir()
    (tmp_path / "hides/sitecustomize.py").write_text("import sys; sys.modules['textual'] = None")
    for words in ([], ["--list"]):
        with Terminal(box.path, "rewind", *words, env={"PYTHONPATH": str(tmp_path / "hides")}, size=(24, 120)) as terminal:
            terminal.until(b"Enter to leave] ")
            assert (b"hint: to have a full screen: " in terminal.shown) == (not words)
            terminal.press(b"q\n")
            assert terminal.child.wait(60) == 0


# Whatever git is asked for while the picker is on the screen fails as if we had made a mistake.
BREAKS = """
import sys
def hook(event, args):
    if event == "os.posix_spawn" and "textual.app" in sys.modules:
        raise LookupError("no words")
sys.addaudithook(hook)
"""


@pytest.mark.deep
def test_a_mistake_of_ours_is_one_line_and_shows_no_stored_word(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "breaks").mkdir()
    (tmp_path / "breaks/sitecustomize.py").write_text(BREAKS)
    with Terminal(box.path, "rewind", env={"PYTHONPATH": str(tmp_path / "breaks")}, size=(24, 80)) as terminal:
        terminal.until(b"fatal: LookupError: no words")
        terminal.until(b"GIT_BATON_TRACE=1 shows where")
        assert terminal.child.wait(60) == 128 and b"Traceback" not in terminal.shown


# One text that is not written yet, and textual waits with the next.
NARROW = "import textual.drivers._writer_thread as of; of.MAX_QUEUED_WRITES = 1"


@pytest.mark.deep
def test_it_ends_where_the_terminal_hangs_up(box: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "narrow").mkdir()
    (tmp_path / "narrow/sitecustomize.py").write_text(NARROW)
    with Terminal(box.path, "rewind", env={"PYTHONPATH": str(tmp_path / "narrow")}, size=(24, 80)) as terminal:
        terminal.until(b"third step")
        os.dup2(terminal.slave, terminal.master)  # nobody is at its other end any more
        assert terminal.child.wait(60) == 130


SIZES = [(80, 24), full((200, 60))]
SCREENS = [["Down", "Enter"], *map(full, ([], ["/", "s"], ["n", "x"], ["3"], ["4"], ["?"], ["w"]))]
REWIND = f"{PYTHON} -m gitbaton rewind"


@pytest.mark.deep
@needs_tmux
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", SCREENS)
def test_the_terminal_is_as_it_was(box: Sandbox, tmp_path: Path, size: tuple[int, int], keys: list[str]) -> None:
    """However it ends, and whoever ends it, at each of its screens."""
    box.write("a.txt", "spoilt\n")
    with Tmux(box, tmp_path, size) as tmux:
        modes, settings = tmux.modes(), tmux.settings()

        def start(line: str) -> None:
            tmux.type("clear; " + line, "Enter")
            tmux.until("third step")
            tmux.until("1 words")
            tmux.type(*keys)
            time.sleep(0.4)

        def leave() -> None:
            for key in ("Escape", "Escape", "q"):
                tmux.type(key)
                time.sleep(0.4)  # else Escape and the next key are one

        def check(what: object) -> None:
            deadline = time.monotonic() + PATIENCE
            while tmux.modes() != modes:
                assert time.monotonic() < deadline, (what, tmux.modes(), modes)
                time.sleep(0.05)
            assert tmux.settings() == settings, what

        for end in ("q", signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL, "C-c"):
            start(f'sh -c "echo \\$\\$ > .git/pid; exec {REWIND}"; echo code $?')
            if end == "q":
                leave()
            elif end == "C-c":
                tmux.type("C-c")
            else:
                subprocess.run(["kill", f"-{int(end)}", (box.path / ".git/pid").read_text().strip()], check=True)
            if end != signal.SIGKILL:  # whose last words may stand on the screen that goes
                tmux.until("code 0" if end == "q" else "code 130")
            check(end)
        start(REWIND)
        tmux.type("C-z")
        check("stopped")
        tmux.type("fg", "Enter")
        tmux.until("1 words")
        leave()
        check("left after fg")
        start(f'sh -c "echo \\$\\$ > .git/pid; {REWIND}; true"')
        subprocess.run(["kill", "-9", (box.path / ".git/pid").read_text().strip()], check=True)
        check("who started it was killed")
    assert (box.path / "a.txt").read_text() == "spoilt\n"


@pytest.mark.deep
@needs_tmux
def test_an_id_is_in_the_clipboard_also_in_tmux(box: Sandbox, tmp_path: Path) -> None:
    with Tmux(box, tmp_path, (80, 24)) as tmux:
        tmux.type(REWIND, "Enter")
        tmux.until("third step")
        tmux.type("y")
        tmux.until("copied: ")
        shown = subprocess.run([*tmux.base, "show-buffer"], check=True, capture_output=True, text=True).stdout
        assert shown == box.ok("show", "--json", "t").json["checkpoint"]["id"]


@pytest.mark.deep
@needs_tmux
def test_no_colour_and_plain_characters(box: Sandbox, tmp_path: Path) -> None:
    take(box, "a step of many words " * 9)
    box.write("a.txt", "".join(f"{n}\n" for n in range(300)))
    seen: dict[str, str] = {}
    for env in ("LC_ALL=C NO_COLOR=1", "LC_ALL=C.UTF-8"):
        place = tmp_path / str(len(seen))
        place.mkdir()
        with Tmux(box, place, (80, 24)) as tmux:
            tmux.type(f"{env} {REWIND}", "Enter")
            tmux.until("a step of many words")
            tmux.type("3")
            tmux.until("+1")
            seen[env] = tmux.shown("-e")
    bare, rich = seen.values()
    assert "\u2502" in rich and "\u2026" in rich and "\x1b[32m" in rich
    assert bare.isascii() and "..." in bare and "|" in bare
    codes = {code for found in re.findall("\x1b\\[([0-9;]*)m", bare) for code in found.split(";")}
    assert not codes & {*map(str, range(30, 38)), *map(str, range(40, 48))} and "7" in codes


@pytest.fixture
def agent(repo: Sandbox) -> Client:
    """A client whose turn changed a file and made one, after which the user went on in another."""
    take(repo, "first step")
    client = Client("claude", repo.path)
    client.fire("prompt", prompt="make it worse")
    repo.write("a.txt", "worse\n")
    repo.write("junk.txt", "junk\n")
    client.fire("turn")
    repo.write("notes.md", "mine\n")
    return client


def offered(picker: Picker) -> list[str]:
    """What can be done at the row that is selected, each with what would change."""
    from textual.widgets import Static

    place = picker.query_one("#offers", Static)
    return str(place.render()).split("\n") if place.display else []


def test_enter_on_a_turn_takes_it_back_and_tab_goes_back_to_it(agent: Client, repo: Sandbox) -> None:
    then = state_of(repo)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: len(offered(picker)) == 2)
        assert offered(picker) == ["take this turn back: 1 remove, 1 write", "go back to here: 1 keep"]
        assert planned(picker) == ["- remove   junk.txt", "~ write    a.txt"], "beside the list"
        await pilot.press("enter")
        await until(pilot, lambda: picker.planning and picker.shown is not None)
        assert picker.told.startswith("revert of ") and [key[:2] for key in picker.footer()][:2] == [
            ("enter", "take it back"),
            ("tab", "go back to here"),
        ]
        for key in ("tab", "left", "right"):
            await pilot.press(key)
            assert (picker.shown is not None and picker.shown.plan.op) == ("revert" if key == "left" else "restore")
        assert planned(picker) == [". keep     notes.md (not in that checkpoint)"]
        await pilot.press("shift+tab", "enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 1 and not picker.busy)
        assert picker.told.startswith("done: revert of ") and picker.told.endswith("; u takes it back")
        assert (repo.path / "a.txt").read_text() == "one\n" and not (repo.path / "junk.txt").exists()
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        assert offered(picker)[0] == "take this turn back: no file of it is left to take back"
        await pilot.press("escape", "u")
        await until(pilot, lambda: picker.shown is not None and picker.shown.plan.op == "undo")
        assert not offered(picker) and above(picker).startswith("undo: ")
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 2 and not picker.busy)

    assert [done.plan.op for done, _ in on_screen(repo, keys).deeds.restored] == ["revert", "undo"]
    assert_same(then, state_of(repo), "undone")


@pytest.mark.deep
def test_what_a_turn_changed_is_never_nothing(agent: Client, repo: Sandbox) -> None:
    """Where the files are as the turn left them to go back to it changes none, and taking it back does."""
    (repo.path / "notes.md").unlink()

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        assert offered(picker) == ["take this turn back: 1 remove, 1 write", "go back to here: the files are like this now"]
        await pilot.press("tab")
        assert planned(picker) == ["the files are like this now"]
        await pilot.press("escape", "down", "2")
        await until(pilot, lambda: picker.shown is not None and "restore: " in above(picker))
        assert not offered(picker), "the first checkpoint is of no turn"

    assert not on_screen(repo, keys).deeds.told


@pytest.mark.deep
def test_a_conflict_of_a_turn_stays_and_is_no_box(agent: Client, repo: Sandbox) -> None:
    repo.write("a.txt", "mine\n")

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        assert planned(picker)[0] == "! conflict a.txt (changed since at the same lines)"
        await pilot.press("space")
        assert not any(word == "overwrite" for _, word, _ in picker.footer())
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 1 and not picker.busy)

    on_screen(repo, keys)
    assert (repo.path / "a.txt").read_text() == "mine\n" and not (repo.path / "junk.txt").exists()


@pytest.mark.deep
def test_the_open_turn_is_a_row_that_is_seen_and_taken_back(agent: Client, repo: Sandbox) -> None:
    agent.fire("prompt", prompt="and worse")
    repo.write("a.txt", "much worse\n")
    then = state_of(repo)

    async def keys(picker: Picker, pilot: Pilot[Any]) -> None:
        many = len(picker.rows)
        assert len(listed(picker)) == many + 1 and "turn not ended: an" in listed(picker)[0]
        assert picker.told == f"{many} checkpoints" and "and worse" in text(picker) and "a.txt" in text(picker)
        await pilot.press("3")
        await until(pilot, lambda: "-worse\n+much worse" in text(picker))
        await pilot.press("4")
        await until(pilot, lambda: "no checkpoint is taken of it yet" in text(picker))
        for key in ("p", "y", "n", "w"):
            picker.say("")
            await pilot.press(key)
            assert picker.told.startswith("no checkpoint is taken of it yet") and not picker.question, key
        await pilot.press("slash", *"worse and")
        await until(pilot, lambda: len(listed(picker)) == 1 and picker.told == f"0 of {many} checkpoints with 'worse and'")
        await pilot.press("escape")
        await until(pilot, lambda: len(listed(picker)) == many + 1)
        await pilot.press("enter")
        await until(pilot, lambda: picker.shown is not None)
        assert offered(picker) == ["take this turn back: 1 write"] and planned(picker) == ["~ write    a.txt"]
        await pilot.press("tab")
        assert picker.shown is not None, "there is no other"
        await pilot.press("enter")
        await until(pilot, lambda: len(picker.deeds.restored) == 1 and not picker.busy)
        await until(pilot, lambda: len(listed(picker)) == many)
        assert picker.told.startswith("done: revert of the open turn: and worse: 1 write; u takes it back")

    on_screen(repo, keys)
    assert (repo.path / "a.txt").read_text() == "worse\n"
    repo.ok("undo")
    assert_same(then, state_of(repo), "undone")
