"""What restore, undo and redo share: the plan or what was done, one line a path."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from gitbaton import restore, terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, path_document, plain
from gitbaton.commands.common import print_json, warn_all
from gitbaton.errors import StoppedError
from gitbaton.model import Op, Stored
from gitbaton.render import quoted
from gitbaton.restore import Order, Plan, Step, intent
from gitbaton.restore.values import UNMERGED
from gitbaton.store import safety_ref


def carry_out(baton: Baton, op: Op, order: Order, *, dry_run: bool, json: bool) -> int:
    """Do it, or only say what would be done; the exit code."""
    if dry_run:
        with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
            baton.redirect(folder)
            with restore.open_plan(baton, op, order) as plan:
                show_plan(baton, plan, None, plan.warnings, dry_run=True, json=json)
                return 0 if plan.complete else 1
    with interruptible(baton, op):
        done, said = restore.carry_out(baton, op, order)
    show_plan(baton, done.plan, done.safety, (*said, *done.warnings), dry_run=False, json=json)
    return 0 if done.plan.complete else 1


@contextmanager
def interruptible(baton: Baton, op: Op) -> Iterator[None]:
    """Let Ctrl-C end it, with a word on what has become of the files. Raises StoppedError."""
    ref = safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir)
    found = baton.repo.objects.info(ref)
    try:
        yield
    except KeyboardInterrupt:
        what = f"the {op} was interrupted"
        if os.path.lexists(intent.path(baton.repo)):
            raise StoppedError(f"{what} halfway", "the next 'git baton' command puts that right: git baton status") from None
        now = baton.repo.git.run("rev-parse", "-q", "--verify", ref).out  # the open reader may have been ended, too
        if now.decode("ascii").strip() == (found.oid if found else ""):
            raise StoppedError(f"{what}, and nothing is changed") from None
        raise StoppedError(f"{what} when all was done", _back(op)) from None


def _back(op: Op) -> str:
    return f"'git baton {'redo' if op == 'undo' else 'undo'}' takes it back"


def show_plan(baton: Baton, plan: Plan, safety: Stored | None, said: tuple[str, ...], *, dry_run: bool, json: bool) -> None:
    """Print what would be done, or what was: one line a path, how to take it back, and the warnings ``said``."""
    if json:
        print_json(_document(plan, safety, said))
        return
    for step in plan.steps:
        terminal.say(f"{'would ' if dry_run else ''}{_row(step)}")
    if safety is not None:
        terminal.say({"restore": "done: ", "undo": "undone: ", "redo": "redone: "}[plan.op] + plan.what)
        terminal.tell(f"hint: {_back(plan.op)}")
    elif not plan.wanted and not dry_run:
        terminal.say(f"nothing {'has to change' if plan.complete else 'is changed'}: {plan.name}")
        if plan.target.checkpoint.carried is not None:
            terminal.tell("hint: that checkpoint is automatic; '@{manual}' is the one whose words it carries")
    reasons = {step.reason for step in plan.steps if step.action == "conflict"}
    if reasons - {UNMERGED}:
        terminal.tell("hint: a conflict is somebody else's work; --force changes it all the same, and undo brings it back")
    if UNMERGED in reasons:
        terminal.tell("hint: an unmerged path is yours to resolve; --force writes the file and leaves it unmerged")
    warn_all(said)


def _row(step: Step) -> str:
    reason = f" ({plain(step.reason)})" if step.reason else ""
    return f"{step.action} {quoted(step.path)}{reason}"


def _document(plan: Plan, safety: Stored | None, said: tuple[str, ...]) -> dict[str, Json]:
    paths: list[Json] = [{"path": path_document(s.path), "action": s.action, "reason": s.reason} for s in plan.steps]
    return {
        "op": plan.op,
        "plan": plan.digest,
        "target": plan.target.id,
        "safety": safety.id if safety else None,
        "paths": paths,
        "index": plan.index,
        "warnings": list(said),
    }
