"""``git baton branch``."""

from typing import Annotated

from gitbaton.base import terminal
from gitbaton.base.codec import Json, in_quotes, path_document
from gitbaton.care.tools import branching
from gitbaton.checkpoints.render import quoting
from gitbaton.cli.columns import brief, fitted
from gitbaton.cli.common import AsJson, Newest, Track, checkpoint_of, opened, picked, print_json, warn_all
from gitbaton.cli.options import Argument, Invocation, Option


def command(
    ctx: Invocation,
    name: Annotated[str, Argument(metavar="NAME", help="The branch to make; it must not exist.")],
    checkpoint: Newest = None,
    track: Track = None,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Say what would be made; write nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Make a branch of a checkpoint: its head plus one commit of the files.

    HEAD, index and work tree stay as they are. Where the files are those of the head, the branch is at the head.

    Examples:
        git baton branch idea parser~1
    """
    with opened(ctx) as baton:
        plan = branching.plan(baton, name, checkpoint_of(baton, checkpoint, track))
        at = None if dry_run else branching.apply(baton, plan)
        if json:
            made: dict[str, Json] = {
                "name": path_document(plan.name),
                "commit": at,
                "parent": plan.parent,
                "added": plan.commit is not None,
                "reason": plan.reason,
                "checkpoint": plan.checkpoint.id,
            }
            print_json({"plan" if dry_run else "branch": made, **picked(plan, "warnings")})
        else:
            parent = baton.abbreviate(plan.parent)
            said = f"would make branch {in_quotes(plan.name)} at {parent}"
            if at:
                text = brief(plan.checkpoint.checkpoint.step) if plan.commit else ""
                mark = quoting(plan.checkpoint) if text else ""
                said = f"made branch {in_quotes(plan.name)} at {baton.abbreviate(at)} {mark}{text}".rstrip()
                said = fitted(said) if text else said
            elif plan.commit:
                said = f"would make branch {in_quotes(plan.name)}: a commit of the files on {parent or 'no parent'}"
            terminal.say(said)
            if plan.reason:
                terminal.tell(plan.reason)
    warn_all(plan.warnings)
    return 0
