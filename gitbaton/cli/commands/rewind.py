"""``git baton rewind``: the list, the questions on a terminal in their order, and the restore that was shown."""

import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Optional, Union

from gitbaton.base import terminal
from gitbaton.base.codec import counted, in_quotes, plain
from gitbaton.base.errors import BatonError, NotFoundError, UsageError
from gitbaton.base.model import Stored
from gitbaton.base.values import replace
from gitbaton.care.tools import rewinding
from gitbaton.care.tools.rewinding import URGENT, Changes, RewindRow, counts
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import age, line, quoted, quoting, sentences, title, title_of, verdict
from gitbaton.checkpoints.restore.values import Order, PathAction, RestorePlan
from gitbaton.checkpoints.survey import Surveyor
from gitbaton.cli.columns import brief, cut, screen
from gitbaton.cli.commands.restore import Exact, Force, Foreign, Index, interruptible, plan_conversation, show_plan, write_back
from gitbaton.cli.common import From, Track, left_out, looking, one_meant, opened, tell_error, warn_all
from gitbaton.cli.look import Cell, Column, Look, turn_step
from gitbaton.cli.options import Invocation, Option

if TYPE_CHECKING:
    from gitbaton.care.tools import conversations
    from gitbaton.checkpoints.store.turns import UnderWay

ANSWER_END = re.compile(rb"[\r\n\x03\x04]")
BESIDE_THE_LIST = 4  # rows of the terminal that the prompt and what was typed before may take
BESIDE_THE_PLAN = 14
INTERRUPTED = 130
LISTED = 20  # checkpoints of the numbered list at once
MAX_AGENT = 8
COLUMNS = (
    Column(right=True),
    Column(goes=5),  # the id; a number names it as well
    Column(goes=7),
    Column(right=True, goes=2),
    Column(goes=1),  # how tests stood
    Column(right=True, goes=3),
    Column(right=True, goes=4),
    Column(right=True, goes=4),
    Column(goes=8),
    Column(),
)
WITHOUT_A_TERMINAL = (
    "list the checkpoints: git baton log",
    "to see what would change: git baton restore --dry-run CHECKPOINT",
    "take back what a turn changed: git baton revert TURN",
    "go back to a checkpoint: git baton restore CHECKPOINT",
    "go back with its conversation: git baton restore --conversation CHECKPOINT",
)


def command(
    ctx: Invocation,
    checkpoint: From = None,
    track: Track = None,
    limit: Annotated[
        Optional[int],
        Option("-n", "--max-count", metavar="N", min=1, help="List at most N at once; m lists more. By default 20 by number."),
    ] = None,
    exact: Exact = False,
    index: Index = False,
    force: Force = False,
    foreign: Foreign = False,
    listed: Annotated[bool, Option("--list", help="Ask with a numbered list, not on a screen of its own.")] = False,
) -> int:
    """Pick a turn or a checkpoint from a list, see what would change, and take the turn back, or go back to it.

    To take a turn back is 'git baton revert' of it: what it changed goes, and nothing else. To go back is 'git baton restore'
    of the checkpoint: its files, its conversation or both. Both are offered, each with what would change. A turn that is open
    here, for it goes on or was cut short, and has changed files is the first row; it can be taken back.

    Where the Python package 'textual' is installed (the extra 'ui') it takes the whole terminal: the checkpoints of a track,
    and beside them the words, the plan, the changes file by file and the conversation of the one that is selected. Enter shows
    the plan, Tab the other one, and Enter carries out what is shown; c writes the conversation back, b both; x switches --exact
    on and off; u and r are undo and redo. n makes a branch of a checkpoint, w a work tree, p pins it, y copies its id; l labels
    the files as they are now, as a new checkpoint. '?' shows all keys. Without textual, with TERM=dumb or with --list it is a
    numbered list.

    It asks on a terminal, and changes nothing before the last answer; Enter, q or the end of input leave with 0, Ctrl-C with
    130. What is done is exactly what was shown, and ends as 'git baton revert' or 'git baton restore' does: 'git baton undo'
    takes it back. What is somebody else's work is named, and left alone or, in a restore and when you say so, overwritten,
    exactly that.

    Examples:
        git baton rewind --track parser   # on a terminal
    """
    one_meant(checkpoint, track)
    with opened(ctx) as baton:
        if not (os.isatty(0) and os.isatty(1)):
            lead = baton.lead(checkpoint, track)  # where there is none the hints lead nowhere
            agent, looks = lead.checkpoint.agent, baton.repo.layout.root is None or lead.foreign
            known = 1 if looks else 4 if agent is None or agent.transcript is None else None
            raise UsageError("rewind asks on a terminal, and this is none", *WITHOUT_A_TERMINAL[:known])
        order = Order(exact=exact, index=index, force=force, foreign=foreign)
        if not listed and os.isatty(2) and os.environ.get("TERM", "dumb") != "dumb":
            if find_spec("textual") is not None:
                return _on_a_screen(baton, order, looking(ctx, baton), baton.lead(checkpoint, track), limit)
            from gitbaton.base.system.extras import adding

            terminal.tell(f"hint: to have a full screen: {adding('ui')}")
        talk = RewindDialog(baton, order, limit or LISTED, looking(ctx, baton))
        try:
            return talk.run(baton.lead(checkpoint, track))
        except (EOFError, KeyboardInterrupt) as error:
            terminal.say("")  # the shell's prompt begins a line of its own
            if isinstance(error, KeyboardInterrupt):
                raise
            return 0


def _on_a_screen(baton: Baton, order: Order, look: Look, tip: Stored, limit: Optional[int]) -> int:
    """Run the full-screen picker; afterwards print what was done, as restore prints it. The exit code."""
    from gitbaton.cli.commands.picker import Picker

    picker = Picker(baton, order, look, tip, limit)
    with terminal.given_back():
        code = picker.run() or picker.return_code or 0
    if picker.failed is not None:
        raise picker.failed
    left_out(picker.problems)
    for tell in picker.deeds.told:
        tell()
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    return code or int(any(not done.plan.complete for done, _ in picker.deeds.restored[-1:]))


def table(rows: Sequence[RewindRow], look: Look, going: "UnderWay | None" = None) -> list[str]:
    """Return the list, one line a checkpoint, before them one for the open turn, and none longer than the terminal is wide."""
    ids = look.ids(row.stored.id for row in rows)
    first = [_open_cells(going, look)] if going is not None else []
    return list(look.table(COLUMNS, first + [_cells(row, look, ids[row.stored.id]) for row in rows]))


def _open_cells(one: "UnderWay", look: Look) -> list[Union[Cell, str]]:
    """Return the cells of the open turn's line, by column."""
    agent = line(one.span.session.name) if one.span.session else ""
    files, since = counted(len(one.paths), "file"), one.span.since
    return [
        "0",
        "",
        ".",
        look.age(since) if since else "",
        look.state("pending"),
        files,
        "",
        "",
        cut(agent, MAX_AGENT),
        turn_step(one),
    ]


def _cells(row: RewindRow, look: Look, name: Cell) -> list[Union[Cell, str]]:
    """Return the cells of a line of the list, by column; the step last."""
    c, changes = row.stored.checkpoint, row.changes
    step, ran = title(row.stored)
    said = brief(step) + (f" (after: {brief(c.headline)})" if c.carried and step == c.step else "")
    return [
        str(row.number),
        name,
        look.kind(row.stored),
        look.age(c.created),
        look.state(ran.result if ran else verdict(row.stored)),
        counted(changes.files, "file") if changes else ("? files" if c.files else "no files"),
        f"+{changes.added}" if changes else "",
        f"-{changes.removed}" if changes else "",
        cut(line(row.agent or ""), MAX_AGENT),
        look.words(row.stored, said + (f" [{line(c.label)}]" if c.label else "")),
    ]


class _Answers:
    """Lines typed on the terminal, as they are, also where it leaves carriage returns and control keys to the program."""

    def __init__(self) -> None:
        self.typed, self.returned = b"", False

    def ask(self, prompt: str) -> str:
        """One answer, without blanks around it. Raises EOFError; an unfinished line is no answer."""
        terminal.write(prompt)
        sys.stdout.flush()
        sys.stderr.flush()
        while True:
            if self.returned and self.typed[:1] == b"\n":
                self.typed = self.typed[1:]
            self.returned = self.returned and not self.typed
            end = ANSWER_END.search(self.typed)
            if end is not None:
                break
            try:
                terminal.await_input()
                more = os.read(0, 4096)
            except OSError:  # the terminal is gone
                more = b""
            if not more:
                raise EOFError
            self.typed += more
        answer, key, self.typed = self.typed[: end.start()], end.group(), self.typed[end.end() :]
        self.returned = key == b"\r"
        if key == b"\x03":
            raise KeyboardInterrupt
        if key == b"\x04":
            raise EOFError
        return answer.decode("utf-8", "surrogateescape").strip()


class RewindDialog:
    """Questions in their order, until something is restored or the user leaves."""

    def __init__(self, baton: Baton, order: Order, limit: int, look: Look) -> None:
        self.baton, self.order, self.limit, self.look = baton, order, limit, look
        self.ask = _Answers().ask
        self.listed: list[RewindRow] = []
        self.going: Optional[UnderWay] = None
        self.after: Optional[str] = None

    def run(self, tip: Stored) -> int:
        """List, pick, show, choose; return the exit code."""
        self.track = tip.checkpoint.track
        self.after = tip.commit
        self.going = rewinding.going(self.baton, self.track)
        self._list()
        while True:
            more = "m for more, " if self.after else ""
            answer = self.ask(f"rewind to which? [number or checkpoint, {more}Enter to leave] ")
            if answer in ("", "q"):
                return 0
            if answer == "m":
                self._list()
                continue
            try:
                target = self._meant(answer)
            except BatonError as error:
                tell_error(error.message, error.hints)
                continue
            code = self._picked(target, replace(self.order, checkpoint=target.id) if target else self.order)
            if code is not None:
                return code

    def _list(self) -> None:
        """The next checkpoints, as many as the terminal has room for."""
        if not self.after:
            terminal.say(f"these are all checkpoints of track {in_quotes(self.track)}")
            return
        columns, height = screen()
        self.look.columns = (columns or 80) - 1  # a full last column makes some terminals begin another line
        count = max(1, min(self.limit, (height or 24) - BESIDE_THE_LIST))
        found = rewinding.page(self.baton, self.track, self.after, count, len(self.listed) + 1)
        terminal.say_lines(table(found.rows, self.look, None if self.listed else self.going))
        left_out(found.problems)
        self.listed += found.rows
        self.after = found.after

    def _meant(self, answer: str) -> Optional[Stored]:
        """A number of the list, else any name of a checkpoint; it is introduced. None is the open turn. Raises BatonError."""
        if answer == "0" and self.going is not None:
            terminal.say_lines(["", turn_step(self.going), f"changed so far: {counted(len(self.going.paths), 'file')}"])
            return None
        number = int(answer) if answer.isascii() and answer.isdecimal() and len(answer) < 10 else 0
        row = self.listed[number - 1] if 0 < number <= len(self.listed) else None
        try:
            target = self.baton.resolve(row.stored.id if row else answer)
        except NotFoundError as error:
            hint = f"a number from {0 if self.going else 1} to {len(self.listed)}, or what 'git baton show' takes"
            raise NotFoundError(error.message, hint if self.listed else "see 'git baton log --all'") from None
        self._introduce(target, row.changes if row else None)
        return target

    def _picked(self, target: Optional[Stored], order: Order) -> Optional[int]:
        """Show what taking the turn back and what a restore would do, and carry out one of them, the exit code; None to go on
        with the list."""
        talk = self._conversation(target) if target is not None else None
        back = rewinding.of_turn(order, target)
        while True:
            taken = self._turn(back)
            shown = self._shown(order, "go back to here" if taken else "files") if target is not None else None
            exact = shown is not None and bool(order.exact or shown.unknown)
            choice = self._choice(turn=taken is not None, files=shown is not None, talk=talk is not None, exact=exact)
            if choice == "x":
                order = replace(order, exact=not order.exact)
                continue
            plan = taken if choice == "t" else shown
            if plan is None or choice not in ("t", "f", "b"):
                break
            conflicts = [step for step in plan.steps if step.action == "conflict"]
            answer = self._sure(conflicts, over=choice != "t")
            if conflicts and choice != "t" and answer in ("o", "overwrite"):
                order = replace(order, over=(*order.over, *(step.path for step in conflicts)))
                terminal.say("they are overwritten, too; now it would be:")
                continue
            if answer not in ("y", "yes"):
                return None
            with interruptible(self.baton, plan.op):
                outcome = rewinding.carry_out(self.baton, back if choice == "t" else order, plan.op, plan.digest)
            done = outcome.restored
            if done is not None:
                show_plan(done.plan, done.safety, (*outcome.said, *done.warnings), dry_run=False, json=False)
                if choice == "b" and talk is not None and target is not None:
                    write_back(talk, target, dry_run=False)
                return 0 if done.plan.complete else 1
            warn_all(outcome.said)
            terminal.warn("it is not what was shown any more, and nothing is changed; now it would be:")
            back, order = replace(back, left=outcome.order.left), replace(order, left=outcome.order.left)
        if choice == "c" and talk is not None and target is not None:
            write_back(talk, target, dry_run=False)
        return 0 if choice else None

    def _turn(self, order: Order) -> Optional[RestorePlan]:
        """Print the plan to take a turn back; None where there is none, with the reason."""
        plan, why = rewinding.turn_back(self.baton, order)
        if plan is None and why:
            terminal.say(f"take this turn back: not offered: {plain(why)}")
        if plan is not None:
            self._tell(plan, order, "take this turn back")
        return plan

    def _introduce(self, target: Stored, changes: Optional[Changes]) -> None:
        """Print the checkpoint, and how many are newer."""
        c, quote = target.checkpoint, quoting(target)
        ago = age(c.created, self.baton.clock())
        terminal.say(f"\ncheckpoint {target.id} of track {in_quotes(c.track)}, {c.kind}, {verdict(target)}, {ago}")
        terminal.say(f"{quote}step: {brief(c.headline)}")
        if c.carried is not None:
            terminal.say(f"{quote}then: {brief(title_of(c))}")
        if changes is not None:
            terminal.say(f"changed in it: {counted(changes.files, 'file')} +{changes.added} -{changes.removed}")
        if newer := rewinding.newer(self.baton, target):
            terminal.say(f"newer: {counted(newer, 'checkpoint')} of the track, which stay")
        live = Surveyor(self.baton.store, self.baton.settings.short).live(target)
        terminal.say_lines(f"since: {text}" for text in sentences(live))

    def _conversation(self, target: Stored) -> "Optional[conversations.ConversationPlan]":
        """Print what becomes of the conversation; return the plan to write it back, None where it cannot be."""
        try:
            plan = plan_conversation(self.baton, target, foreign=self.order.foreign)
        except BatonError as error:
            terminal.say(f"conversation: not offered: {plain(error.message)}")
            return None
        size = counted(plan.converted.said, "message") if plan.converted else counted(plan.data.count(b"\n"), "line")
        terminal.say(f"conversation: {size}, as a new session of {in_quotes(plan.agent)}")
        return plan

    def _shown(self, order: Order, label: str) -> Optional[RestorePlan]:
        """Print the plan of a restore; None where there is none, with the reason."""
        try:
            found = rewinding.preview(self.baton, order)
        except BatonError as error:
            tell_error(error.message, error.hints)
            return None
        self._tell(found, order, label)
        return found

    def _tell(self, found: RestorePlan, order: Order, label: str) -> None:
        """Print a plan, as much as there is room for, and what it does in all."""
        few = max(5, (screen()[1] or 24) - BESIDE_THE_PLAN)
        steps, more = found.steps, len(found.steps) - few
        if more > 0:
            steps = tuple(sorted(steps, key=lambda step: URGENT.index(step.action))[:few])
        show_plan(replace(found, steps=steps), None, found.warnings, dry_run=True, json=False, verbose=True)
        if more > 0:
            checkpoint = self.baton.short(order.checkpoint) if order.checkpoint else ""
            whole = f"git baton {found.op} --dry-run -v {checkpoint}".rstrip()
            terminal.say(f"and {more} more; '{whole}' lists them")
        terminal.say(f"{label}: {counts(found)}")

    def _choice(self, *, turn: bool, files: bool, talk: bool, exact: bool) -> str:
        """``t``, ``f``, ``c``, ``b``, ``x`` or ``q``, of those that can be had; empty where nothing can."""
        if not turn and not files and not talk:
            return ""
        words = {
            "t": "[t]ake this turn back",
            "f": "[f]iles",
            "c": "[c]onversation",
            "b": "[b]oth",
            "x": "e[x]act",
            "q": "[q]uit",
        }
        able = {"t": turn, "f": files, "c": talk, "b": files and talk, "x": exact, "q": True}
        offered = [key for key, can in able.items() if can]
        kinds = ", ".join(words[key] for key in offered if key in ("f", "c", "b", "x"))
        prompt = ", ".join([*([words["t"]] if turn else []), *([f"restore {kinds}"] if kinds else [])]) + f" or {words['q']}? "
        while True:
            answer = self.ask(prompt)
            if not answer:
                return "q"
            meant = next(
                (key for key in offered if answer.lower() in (key, words[key].replace("[", "").replace("]", ""))), None
            )
            if meant:
                return meant
            terminal.tell(f"'{cut(plain(answer), 40)}' is not understood; it can be {', '.join(offered)}")

    def _sure(self, conflicts: list[PathAction], *, over: bool) -> str:
        """Ask whether to go on where another's work is touched or left in the way; every path of it is named. ``over``: it may
        be overwritten."""
        terminal.say_lines(f"in conflict: {quoted(step.path)} ({plain(step.reason)})" for step in conflicts)
        many = len(conflicts)
        if many:
            question = f"{many} conflict{' is' if many == 1 else 's are'} left alone, all else comes back"
            question += f"; 'o' overwrites exactly {'that one' if many == 1 else 'those'}, too" if over else ""
        elif self.order.force and over:
            question = "somebody else's work is changed, too"
        else:
            return "y"
        return self.ask(f"{question}; go on? [y/N] ").lower()
