"""What restore and rewind share: a conversation written back, or what would be written."""

import os

from gitbaton import conversations, terminal
from gitbaton.baton import Baton
from gitbaton.codec import path_document
from gitbaton.commands.common import print_json, warn_all
from gitbaton.model import Stored
from gitbaton.render import in_quotes


def planned(baton: Baton, target: Stored, *, foreign: bool) -> conversations.Plan:
    """How a checkpoint's conversation would be written back as a new session. Raises as conversations.plan."""
    return conversations.plan(baton, target, os.environ, conversations.new_id(), foreign=foreign)


def write_back(plan: conversations.Plan, target: Stored, *, dry_run: bool, json: bool = False) -> None:
    """Write a conversation back as planned and say how to resume it. Raises BatonError."""
    if not dry_run:
        conversations.apply(plan)
    line = plan.line(os.getcwd())
    if json:
        path = path_document(plan.path)
        print_json({"target": target.id, "agent": plan.agent, "session": plan.session, "path": path, "command": line})
    else:
        terminal.say(f"{'would write' if dry_run else 'written'}: {in_quotes(plan.path)}")
    warn_all(_lacks(plan))
    if not dry_run and not json:
        terminal.say(f"resume it with: {line}")


def _lacks(plan: conversations.Plan) -> list[str]:
    """What the new session will not have."""
    said = []
    if plan.left_out:
        lines = "1 line is" if plan.left_out == 1 else f"{plan.left_out} lines are"
        said.append(f"{lines} left out: no JSON object that can be written again")
    if plan.call is not None:
        said.append(f"it ends within a call of the tool '{plan.call}'; '{plan.agent}' tells the model that it was interrupted")
    return said
