"""What restore and rewind share: a conversation written back, or what would be written."""

import os

from gitbaton import conversations, terminal
from gitbaton.baton import Baton
from gitbaton.codec import path_document
from gitbaton.commands.common import print_json
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
        return
    terminal.say(f"{'would write' if dry_run else 'written'}: {in_quotes(plan.path)}")
    if plan.call is not None:
        terminal.warn(
            f"it ends within a call of the tool '{plan.call}'; '{plan.agent}' tells the model that it was interrupted"
        )
    if not dry_run:
        terminal.say(f"resume it with: {line}")
