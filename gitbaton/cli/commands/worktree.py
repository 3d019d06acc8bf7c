"""``git baton worktree``."""

import os
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import counted, in_quotes, path_document
from gitbaton.base.errors import AmbiguousNameError, NotFoundError, UsageError
from gitbaton.base.model import Stored
from gitbaton.base.system.files import read_or_none
from gitbaton.care.tools import branching
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import names_secrets
from gitbaton.checkpoints.render import first_few, in_shell, path_in_quotes, some, stored_document
from gitbaton.cli.common import MOST, AsJson, Newest, Track, looking, one_meant, opened, print_json, warn_all
from gitbaton.cli.options import Argument, Invocation, Option
from gitbaton.git.worktree.include import FILE

_LOOK = 1 << 16  # bytes of a file that are looked at for a token
_OF_GIT = {"list": "", "prune": ""} | dict.fromkeys(("add", "lock", "move", "remove", "repair", "unlock"), " PATH")


def command(
    ctx: Invocation,
    path: Annotated[str, Argument(metavar="PATH", help="The new work tree's directory; it must not exist.")],
    checkpoint: Newest = None,
    track: Track = None,
    without: Annotated[bool, Option("--no-include", help="Leave out the ignored files that .worktreeinclude lists.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Print what would be done, and do nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Check a checkpoint out beside this work tree: its head, its files and its index, in a linked work tree.

    'git worktree remove -f PATH' takes it away again, with the files that differ from its head. The other order,
    CHECKPOINT PATH, is understood where only one of the two names a checkpoint.

    Where the top of this work tree has a file .worktreeinclude, in the syntax of .gitignore, the files that it lists and git
    ignores are copied, too, as Claude Code and others do it: by reflink where the file system can, over nothing that is there.
    Tracked files, symbolic links and nested repositories are not. Those whose names say that they hold secrets are named.

    Examples:
        git baton worktree ../beside parser~1
    """
    with opened(ctx, talks="" if json else "writing files") as baton:
        directory, stored = _meant(baton, path, checkpoint, track)
        plan = branching.plan_worktree(baton, stored, directory, include=not without)
        done = plan.included if dry_run else branching.apply_worktree(baton, plan)
        root = baton.repo.layout.root or ""
        secret = [path for path in done.paths if path.endswith(".key") or names_secrets(path, _beginning(root, path))]
        if json:
            print_json(
                {
                    "checkpoint": stored_document(plan.stored),
                    "directory": path_document(plan.place),
                    "head": plan.head,
                    "included": [path_document(path) for path in done.paths],
                    "secret": [path_document(path) for path in secret],
                    "left_out": [{"path": path_document(path), "reason": reason} for path, reason in done.left_out],
                    "dry_run": dry_run,
                    "warnings": list(plan.warnings),
                }
            )
        else:
            look, said = looking(ctx, baton), "would check out" if dry_run else "checked out"
            terminal.say(look.fit(f"{said} in {in_quotes(directory)}: ", look.named(plan.stored)))
            if done.paths:
                said, many = "would copy" if dry_run else "copied", counted(len(done.paths), "ignored file")
                terminal.say(look.fit(f"{said} {many} that {FILE} lists: {some(len(done.paths), first_few(done.paths))}"))
            if secret:
                holds = "whose name says that it holds" if len(secret) == 1 else "whose names say that they hold"
                terminal.say(f"of them {len(secret)} {holds} secrets: {', '.join(map(path_in_quotes, secret))}")
    warn_all([*plan.warnings, *(f"{path_in_quotes(path)} is not copied: {why}" for path, why in done.left_out[:MOST])])
    if done.exposed:
        is_not = "is not ignored" if len(done.exposed) == 1 else "are not ignored"
        warn_all(
            [f"{some(len(done.exposed), first_few(done.exposed))} {is_not} in the new work tree: 'git add' takes such files"]
        )
    return 0


def _beginning(root: str, path: str) -> bytes:
    return read_or_none(os.path.join(root, path), _LOOK) or b""


def _meant(baton: Baton, path: str, checkpoint: Optional[str], track: Optional[str]) -> tuple[str, Stored]:
    """The directory and the checkpoint, in whichever order. Raises NotFoundError, AmbiguousNameError, UsageError."""
    one_meant(checkpoint, track)
    if path in _OF_GIT:
        hint = f"'git worktree {path}{_OF_GIT[path]}' does that; './{path}' is a directory"
        place = in_shell(checkpoint) if path == "add" and checkpoint and baton.current() is not None else ""
        hints = [f"to check a checkpoint out: git baton worktree {place}"] if place else []
        raise UsageError(f"{in_quotes(path)} is a verb of git worktree, and no directory", *hints, hint)
    if checkpoint is None:
        if track is None and _named(baton, path):
            hint = f"name the directory first: git baton worktree PATH {in_shell(path)}"
            raise UsageError(f"{in_quotes(path)} names a checkpoint, and no directory is given", hint)
        return path, baton.tip(track)
    try:
        return path, baton.resolve(checkpoint, track)
    except (NotFoundError, UsageError) as error:
        if not _named(baton, path):
            said = f"neither {in_quotes(checkpoint)} nor {in_quotes(path)} names a checkpoint"
            raise NotFoundError(said, error.message, *error.hints[:-1], "see 'git baton log --all'") from None
    return checkpoint, baton.resolve(path)


def _named(baton: Baton, word: str) -> bool:
    """Whether a word names a checkpoint, or several."""
    try:
        baton.resolve(word)
    except AmbiguousNameError:
        return True
    except (NotFoundError, UsageError):
        return False
    return True
