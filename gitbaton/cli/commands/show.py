"""``git baton show``."""

import os
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, plain, usage_document
from gitbaton.base.errors import BatonError, GitError, NotFoundError, UsageError
from gitbaton.base.model import FileState, Stored
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.names import parted
from gitbaton.checkpoints.render import in_shell, key_value, observed_pairs, quote, quoted, resume_lines, stored_document
from gitbaton.checkpoints.survey import tests_then
from gitbaton.cli.commands.retaining import marked
from gitbaton.cli.common import (
    AsJson,
    Lines,
    Track,
    checkpoint_of,
    divided,
    is_path,
    one_of,
    opened,
    paged,
    print_json,
    refuse_no_paths,
    signature_of,
    tell_foreign,
    through_pager,
)
from gitbaton.cli.options import AFTER, Argument, Invocation, Option

if TYPE_CHECKING:
    from gitbaton.cli.look import Look


def command(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[CHECKPOINT[:PATH]] [--] [PATH]...",
            help="Default: the newest of the current track, or the only one. After --: show what changed there.",
        ),
    ] = None,
    track: Track = None,
    stat: Annotated[bool, Option("--stat", help="Show also how much it changed in each file.")] = False,
    name_only: Annotated[bool, Option("--name-only", help="Show also the names of the files that it changed.")] = False,
    patch: Annotated[bool, Option("--patch", "-p", help="Show also what it changed, as git show does.")] = False,
    json: AsJson = False,
    stable: Lines = False,
) -> int:
    """Show one checkpoint whole, or a file of it.

    CHECKPOINT is a track (its newest), TRACK~3 (three before), TRACK^ (the one before), 'TRACK@{2 hours ago}', turn2 (by its
    number in the log; 'TRACK@{turn2}' of another track), an id or its first four or more digits, a label, the name that pin
    gave, a commit (the newest checkpoint on it; a branch's by its full name), @ (the newest of the current track, or
    of the only one), or REMOTE/TRACK (what was fetched of it). ^ goes after any of them.

    CHECKPOINT:PATH prints a file just as a restore would write it, or lists a folder. PATH is seen from the top of the work
    tree, and from the current directory where it begins with ./ or ../, as git has it.

    --stat, --name-only and --patch show what changed since the checkpoint before, of a track's first one since HEAD when its
    turn began, with git's own settings; PATH after -- is a pathspec as seen from the current directory, and shows the changes
    there.

    Examples:
        git baton show
        git baton show @^:src/num.py   # a file as it was one checkpoint ago
        git baton show parser~1 --stat
        git baton show "parser@{manual}"
    """
    forms = [form for form, on in (("--stat", stat), ("--name-only", name_only), ("--patch", patch)) if on]
    one_of(json=json, porcelain=stable)
    with opened(ctx) as baton:
        stored, inside, paths = _meant(ctx, baton, words or [], track)
        forms = forms or ["--patch"] * bool(paths)
        if json and (forms or inside is not None):
            raise UsageError(f"{'CHECKPOINT:PATH' if inside is not None else forms[0]} and --json exclude each other")
        if inside is not None and stable:
            raise UsageError("CHECKPOINT:PATH and --porcelain exclude each other")
        if inside is not None and (forms or paths):
            raise UsageError(f"CHECKPOINT:PATH and {'PATH' if paths else forms[0]} exclude each other")
        if inside is not None:
            return _print(ctx, baton, stored, (words or [""])[0], inside)
        if json:
            signed = signature_of(baton, stored)
            also: dict[str, Json] = {"signed": signed.document} if signed is not None else {}
            print_json({"checkpoint": {**stored_document(stored), **marked(baton).document(stored.id), **also}})
            return 0
        with paged(ctx, baton) as look:
            from gitbaton.care.tools import comparing

            place = ctx.obj.repo_root or os.getcwd()
            if stable:
                _lines(baton, look, stored)
            else:
                _page(baton, look, stored, place, table=not forms)
            if forms:
                colour = "--color=always" if look.colors else "--color=never"
                changed = b"".join(comparing.changes(baton, [stored], [colour, *forms], paths, place, look.columns))
                terminal.write(f"\n{os.fsdecode(changed)}\n" if changed else "")
        if len(words or []) == 1 and paths == words and ctx.meta.get(AFTER) is None:
            _hint_file(baton, stored, paths[0], place)
    return 0


def _hint_file(baton: Baton, stored: Stored, path: str, place: str) -> None:
    """Hint at how a file of a checkpoint is printed, where only its path was typed."""
    from gitbaton.care.tools.content import content

    inside = f"./{path}" if os.path.realpath(place) != baton.repo.layout.root else path
    with suppress(BatonError):
        if isinstance(content(baton, stored, inside, place), bytes):
            name = f"@:{inside}"
            terminal.tell(f"hint: the file as it is there: git baton show {in_shell(name)}")


def _meant(ctx: Invocation, baton: Baton, words: list[str], track: Optional[str]) -> tuple[Stored, Optional[str], list[str]]:
    """The checkpoint, a path in it where one is asked for, and the pathspecs. Without ``--`` the first word is a path where
    there is one and no checkpoint is called so. Raises NotFoundError, UsageError."""
    names, paths = divided(ctx, words, 1)
    name, inside, place = names[0] if names else None, None, ctx.obj.repo_root or ""
    try:
        stored, inside = _named(baton, name, track)
    except NotFoundError:
        if name is None or ctx.meta.get(AFTER) is not None or not is_path(place, name):
            raise
        stored, paths = baton.tip(track), words
    if ctx.meta.get(AFTER) is None:
        refuse_no_paths(place, paths)
    return stored, inside, paths


def _named(baton: Baton, name: Optional[str], track: Optional[str]) -> tuple[Stored, Optional[str]]:
    """The checkpoint that a word means, and the path behind its colon; there is none in one that is a name as a whole, as a
    label may be. Raises NotFoundError, UsageError."""
    parts = parted(name, ":") if name is not None else None
    if parts is None or name is None or name.startswith((":/", ":(", ":!", ":^")):
        return checkpoint_of(baton, name, track), None
    if not parts[0]:
        spelled = f"@{name}"
        raise UsageError("the checkpoint's name is empty", f"of the newest one: git baton show {in_shell(spelled)}")
    try:
        return checkpoint_of(baton, parts[0], track), parts[1]
    except NotFoundError as error:
        try:
            return checkpoint_of(baton, name, track), None
        except NotFoundError:
            raise error from None


def _print(ctx: Invocation, baton: Baton, stored: Stored, name: str, path: str) -> int:
    """A file as it is, or the names in a folder."""
    from gitbaton.care.tools.content import content

    tell_foreign(baton, stored)
    found = content(baton, stored, path, ctx.obj.repo_root)
    with through_pager(ctx, baton.repo.pager):
        if isinstance(found, bytes):
            terminal.write(found.decode("utf-8", "surrogateescape"))  # the same bytes come out again
        else:
            terminal.say_lines([f"tree {plain(name)}\n", *map(quoted, found)])
    return 0


def _page(baton: Baton, look: "Look", stored: Stored, place: str, *, table: bool) -> None:
    """Print a checkpoint for people, with a ``table`` of how much changed in each file."""
    from gitbaton.care.tools import comparing
    from gitbaton.cli import view

    pins, c, stands = marked(baton), stored.checkpoint, baton.with_standing(stored)  # joined: numbered as 'resume' has it
    facts = view.ViewFacts(
        later=tests_then(baton.store, stored), told=baton.told(stored), changes=baton.decision_changes(stands)
    )
    form = view.form(look, stored) if table else []
    try:
        changed = b"".join(comparing.changes(baton, [stored], form, (), place, None)) if form else b""
    except GitError as error:  # a file of it, or of the one before, cannot be read
        changed = b""
        terminal.warn(f"how much changed in each file cannot be told: {error.message}")
        terminal.tell_hints(error.hints)
    named = [f"label {c.label}"] if c.label else []
    pinned = [f"pinned as {name}" if (name := pins.names.get(stored.id)) else "pinned"] if pins.pinned(stored.id) else []
    ids = [("commit", stored.commit), ("base", stored.base), ("before", c.previous)]
    signed = signature_of(baton, stored)
    rows = [
        *([view.ViewRow(name="signed", text=signed.words.removeprefix("signed "), ours=True)] if signed is not None else []),
        *([view.ViewRow(name="kept as", text=", ".join([*named, *pinned]))] if named or pinned else []),
        *view.words(baton, look, stands, facts),
        *(view.ViewRow(name=f"withdrew {one.number}", text=one.text) for one in baton.withdrew(stored)),
        *view.observed(look, stored, facts),
        *(view.files(look, stored, baton.redactor.text(os.fsdecode(changed))) if table else [view.amount(look, stored)]),
        view.ViewRow(name="ids", text=", ".join(f"{name} {baton.abbreviate(oid)}" for name, oid in ids if oid)),
    ]
    terminal.say_lines(view.lines(look, stored, rows))


def _lines(baton: Baton, look: "Look", stored: Stored) -> None:
    """Print a checkpoint as KEY=VALUE lines."""
    c = stored.checkpoint
    terminal.say(f"checkpoint {stored.id}")
    pins, usage = marked(baton), c.agent.usage if c.agent else None
    name = pins.names.get(stored.id)
    marks = (("foreign=yes", stored.foreign_words), ("pinned=yes", pins.pinned(stored.id)))
    terminal.say_lines([*(text for text, on in marks if on), *([key_value("name", name)] if name else [])])
    signed = signature_of(baton, stored)
    terminal.say_lines([key_value("signature", f"{signed.state}: {signed.words}")] if signed is not None else [])
    head = [
        ("kind", c.kind),
        ("label", c.label or ""),
        ("created", look.beside(c.created)),
        ("previous", c.previous or ""),
        ("commit", stored.commit),
        ("base", stored.base or ""),
        *([("agent", f"{c.agent.name} {c.agent.session or ''}".strip())] if c.agent else []),
        *([("model", c.agent.model)] if c.agent and c.agent.model else []),
        *((f"tokens.{name}", str(count)) for name, count in (usage_document(usage) if usage else {}).items()),
    ]
    stands = baton.with_standing(stored)  # where chains were joined: numbered as 'resume' numbers them
    seen = observed_pairs(c.observed, tests_then(baton.store, stored), baton.told(stored))
    changes = baton.decision_changes(stands)
    said = resume_lines(stands.checkpoint, c.head or "", None, "", observed=seen, changes=changes)
    said += [key_value("withdrew", f"{one.number}: {one.text}") for one in baton.withdrew(stored)]
    terminal.say_lines(quote([*(key_value(*pair) for pair in head), *said, *_files(c.files)], stored))


def _files(files: FileState | None) -> list[str]:
    if files is None:
        return ["files="]
    return [
        *(f"files={files.tree}", f"changed={files.changed}", f"index={files.index.tree}"),
        *([f"unmerged={files.index.unmerged}"] if files.index.unmerged else []),
        *(f"flag={f.bits} {quoted(f.path)}" for f in files.index.flags),
        *([key_value("operation", files.operation.kind)] if files.operation else []),
        *(f"skipped={s.reason} {quoted(s.path)}" for s in files.skipped),
        *([f"skipped_more={files.skipped_more}"] if files.skipped_more else []),
    ]
