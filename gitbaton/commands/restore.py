"""``git baton restore``."""

import os
from typing import Annotated, Optional

import typer

from gitbaton.baton import Baton
from gitbaton.commands.common import Track, divided, name_of, one_of, opened
from gitbaton.commands.putting import carry_out
from gitbaton.errors import BatonError, NotFoundError, UsageError
from gitbaton.model import Stored
from gitbaton.render import in_shell
from gitbaton.restore.values import Order
from gitbaton.values import replace


def command(
    ctx: typer.Context,
    words: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[CHECKPOINT] [--] [PATH]...", help="Default: the newest of the current track, all files."),
    ] = None,
    track: Track = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Print the plan and change nothing.")] = False,
    exact: Annotated[
        bool, typer.Option("--exact", help="Also remove files that the checkpoint does not know, unless they are ignored.")
    ] = False,
    index: Annotated[bool, typer.Option("--index/--no-index", help="Bring the whole index back, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also change what is somebody else's work.")] = False,
    foreign: Annotated[bool, typer.Option("--foreign", help="Allow a checkpoint that was fetched from elsewhere.")] = False,
    talk: Annotated[
        bool, typer.Option("--conversation", help="Also write the conversation back, as a new session of its client.")
    ] = False,
    only: Annotated[bool, typer.Option("--conversation-only", help="Write the conversation back, and no files.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Put the files back as they were at a checkpoint.

    Every byte that is overwritten or removed is in a safety checkpoint first: 'git baton undo' brings it back. HEAD, branches
    and stashes stay; ignored files, and what is somebody else's work, are left alone and named.
    """
    checkpoints, paths = divided(ctx, words or [], 1)
    _fitting(only, paths, conversation=talk, json=json, exact=exact, index=index, force=force)
    given, directory = checkpoints[0] if checkpoints else None, ctx.obj.repo_root or os.getcwd()
    with opened(ctx, dry_run=dry_run) as baton:
        order = Order(checkpoint=name_of(baton, given, track), paths=tuple(paths), directory=directory, foreign=foreign)
        order = replace(order, exact=exact, index=index, force=force)
        try:
            if not talk and not only:
                return carry_out(baton, "restore", order, dry_run=dry_run, json=json)
            target = baton.resolve(order.checkpoint)
        except NotFoundError as error:
            raise _or_file(error, order) from None
        return _with_conversation(baton, target, order, files=talk, dry_run=dry_run, json=json)


def _or_file(error: NotFoundError, order: Order) -> NotFoundError:
    """The error; with a hint where a file has the name of the checkpoint that is not there."""
    if order.paths or not os.path.lexists(order.checkpoint):
        return error
    return NotFoundError(error.message, f"to restore the file of that name: git baton restore -- {in_shell(order.checkpoint)}")


def _fitting(only: bool, paths: list[str], *, conversation: bool, json: bool, **files: bool) -> None:
    """Refuse options that say something about what does not come back."""
    one_of(**{"conversation": conversation, "conversation-only": only})
    one_of(conversation=conversation, json=json)
    if only and paths:
        raise UsageError("paths and --conversation-only exclude each other")
    for name, given in files.items():
        one_of(**{name: given, "conversation-only": only})


def _with_conversation(baton: Baton, target: Stored, order: Order, *, files: bool, dry_run: bool, json: bool) -> int:
    """The conversation is planned before a file is touched, and written after them; a conflict does not keep it back."""
    from gitbaton.commands.conversing import planned, write_back

    order = replace(order, checkpoint=target.id)
    try:
        talk = planned(baton, target, foreign=order.foreign)
    except BatonError as error:
        if files and (order.foreign or not target.foreign):
            error.hints += ("nothing is restored; without --conversation the files are",)
        raise
    code = carry_out(baton, "restore", order, dry_run=False, json=False) if files and not dry_run else 0
    write_back(talk, target, dry_run=dry_run, json=json)
    if files and dry_run:  # last: afterwards nothing else can be done with what is open
        code = carry_out(baton, "restore", order, dry_run=True, json=False)
    return code
