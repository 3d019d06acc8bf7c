"""``git baton restore``, ``revert``, ``merge``, ``undo`` and ``redo``: carry a plan out, show it, write a conversation back."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, path_document, plain
from gitbaton.base.errors import BatonError, NoAnswerError, NotFoundError, StoppedError, UsageError
from gitbaton.base.model import COMPOSED, Op, Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints import restore
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.names import only_branch, parted, unknown
from gitbaton.checkpoints.render import in_shell, path_in_quotes, quoted, some
from gitbaton.checkpoints.restore.goal import files_of
from gitbaton.checkpoints.restore.recover import intent_path
from gitbaton.checkpoints.restore.values import TEXT, UNDECIDED, UNMERGED, Order, RestorePlan
from gitbaton.checkpoints.store import safety_ref, tip_ref
from gitbaton.cli.columns import brief, fitted
from gitbaton.cli.common import (
    AsJson,
    Track,
    Verbose,
    askable,
    confirmed,
    divided,
    is_path,
    one_meant,
    one_of,
    opened,
    print_json,
    refuse,
    summed,
    warn_all,
)
from gitbaton.cli.options import Argument, Invocation, Option

if TYPE_CHECKING:
    from gitbaton.agents.converting import Converted
    from gitbaton.care.tools import conversations

DryRun = Annotated[bool, Option("--dry-run", "-n", help="Print the plan and change nothing.")]
Exact = Annotated[bool, Option("--exact", help="Also remove files that the checkpoint does not know, unless they are ignored.")]
Index = Annotated[bool, Option("--index/--no-index", help="Bring the whole index back, too.")]
Force = Annotated[bool, Option("--force", help="Also change what is somebody else's work.")]
Foreign = Annotated[bool, Option("--foreign", help="Allow a checkpoint that was fetched from elsewhere.")]
_NAMED = 3  # of the user's own edits
_SUMS = {  # of many paths: what was done, or would be, and to what
    "write": ("wrote {}", "write {}", "file"),
    "create": ("created {}", "create {}", "file"),
    "remove": ("removed {}", "remove {}", "file"),
    "keep": ("kept {}", "keep {}", "other file"),
    "conflict": ("left {}", "leave {}", "conflict"),
    "refuse": ("refused {}", "refuse {}", "path"),
}


def command(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[CHECKPOINT] [--] [PATH]...", help="Default: the newest of the current track, all files."),
    ] = None,
    track: Track = None,
    dry_run: DryRun = False,
    exact: Exact = False,
    index: Index = False,
    force: Force = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    foreign: Foreign = False,
    talk: Annotated[
        bool, Option("--conversation", help="Also write the conversation back, as a new session of its client.")
    ] = False,
    only: Annotated[bool, Option("--conversation-only", help="Write the conversation back, and no files.")] = False,
    client: Annotated[
        Optional[str],
        Option("--as", metavar="claude|codex|gemini|opencode", help="Write the conversation as a session of this client."),
    ] = None,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Put the files back as they were at a checkpoint.

    Every byte that is overwritten or removed is in a safety checkpoint first: 'git baton undo' brings it back. HEAD, branches
    and stashes stay; ignored files, and what is somebody else's work, are left alone and named. The words come back, too: until
    somebody writes others, 'git baton resume' and agents are told those of the checkpoint, and what was taken back; with PATH
    the words stay.

    One line a path says what is done: write, create, remove, keep, conflict, refuse. Files that the checkpoint does not know
    are kept; --exact removes them. Of the files that are touched the index entries come back, too, but for what was committed
    since; with --index the whole index does.

    What another track or session brought, or a later commit that the checkpoint's own track had not captured before, is a
    conflict and left alone, unless PATH names that very file or --force is given; so is what only commits changed where the
    checkpoint is of another branch, and a path that is unmerged now and was not then: its stages stay in any case without
    --index. Edits that no checkpoint holds yet are taken back, and counted in a line before; on a terminal it asks first, and
    where another session's work is left (--yes: it does not). PATH is a pathspec, as seen from the current directory.

    --conversation also writes the agent's conversation up to there as a new session of its client, or with --as of another, and
    prints the line that resumes it; nothing comes back where the conversation cannot. Another client gets what was said, with
    commands and other calls as what they gave, redacted; what cannot be carried is counted: thoughts, images, what the system
    said. Exits with 1 when a path was left as a conflict or refused.

    Examples:
        git baton restore --dry-run   # what would be done to which file
        git baton restore parser~1
        git baton restore parser~2 -- a.txt   # one file
        git baton restore --conversation --as codex claude   # go on in another client
    """
    checkpoints, paths = divided(ctx, words or [], 1)
    one_of(**{"conversation": talk, "conversation-only": only})
    one_of(conversation=talk, json=json)
    if client is not None and not (talk or only):
        raise UsageError(
            "--as goes with --conversation or --conversation-only",
            f"without files: git baton restore --conversation-only --as {' '.join(map(in_shell, [client, *checkpoints]))}",
        )
    if only and paths:
        raise UsageError("paths and --conversation-only exclude each other")
    for name, given in (("exact", exact), ("index", index), ("force", force)):
        one_of(**{name: given, "conversation-only": only})
    typed, directory = checkpoints[0] if checkpoints else None, ctx.obj.repo_root or os.getcwd()
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        order = Order(
            checkpoint=_name(baton, typed, track),
            paths=tuple(paths),
            directory=directory,
            exact=exact,
            index=index,
            force=force,
            foreign=foreign,
        )
        ask = not (yes or force or json or dry_run) and askable()

        def works() -> bool:
            return foreign or not baton.tip(track).foreign

        hint = "to restore that path: git baton restore"
        with _path_hint(None if only or paths else typed, directory, hint, works):
            if not talk and not only:
                return carry_out(baton, "restore", order, dry_run=dry_run, json=json, verbose=verbose, ask=ask)
            target = baton.resolve(order.checkpoint)
        return _with_conversation(
            baton, target, order, files=talk, client=client, dry_run=dry_run, json=json, verbose=verbose, ask=ask
        )


@contextmanager
def _path_hint(word: Optional[str], place: str, hint: str, works: Callable[[], bool]) -> Iterator[None]:
    """Give a word that names no checkpoint, but a path as seen from a directory, a hint at how to name the path, where that
    ``works``; BatonError means that it does not."""
    can = False
    if word and is_path(place, word):  # asked before: a dry run leaves nothing open
        with suppress(BatonError):
            can = works()
    try:
        yield
    except NotFoundError as error:
        names = (word, *(parted(word, "..") or ())) if word else ()  # '../a.txt' reads as a range, too
        if word and can and error.message in [say(name) for name in names for say in (unknown, only_branch)]:
            error.hints = (f"{hint} -- {in_shell(word)}",)
        raise


def _name(baton: Baton, name: Optional[str], track: Optional[str]) -> str:
    """Return the name that alone says which checkpoint an argument and ``--track`` mean."""
    one_meant(name, track)
    if name is None or (name == "@" and track is not None):
        return "@" if track is None and baton.current() is not None else tip_ref(baton.tip(track).checkpoint.track)
    return name if track is None else track + name.removeprefix("@" if name.startswith(("@~", "@^")) else "")


def _with_conversation(
    baton: Baton,
    target: Stored,
    order: Order,
    *,
    files: bool,
    client: Optional[str],
    dry_run: bool,
    json: bool,
    verbose: bool,
    ask: bool,
) -> int:
    """Restore with the conversation, which is planned before a file is touched, and written after them; a conflict does not
    keep it back."""
    order = replace(order, checkpoint=target.id)
    held = target.checkpoint.files is not None
    try:
        talk = plan_conversation(baton, target, foreign=order.foreign, client=client)
    except BatonError as error:
        if files and held and (order.foreign or not target.foreign):
            error.hints += ("nothing is restored; without --conversation the files are",)
        raise
    if files and not held:
        if order.paths or order.exact or order.index or order.force:
            files_of(target)
        terminal.warn(f"no files come back: checkpoint {in_quotes(baton.short(target.id))} was recorded without them")
        files = False
    if dry_run:  # the files last: afterwards nothing else can be done with what is open
        write_back(talk, target, dry_run=True, json=json)
        return carry_out(baton, "restore", order, dry_run=True, json=False, verbose=verbose) if files else 0
    code = carry_out(baton, "restore", order, dry_run=False, json=False, verbose=verbose, ask=ask) if files else 0
    write_back(talk, target, dry_run=False, json=json)
    return code


def plan_conversation(
    baton: Baton, target: Stored, *, foreign: bool, client: Optional[str] = None
) -> "conversations.ConversationPlan":
    """Plan to write a checkpoint's conversation back as a new session, of its client or another. Raises as
    conversations.plan."""
    from gitbaton.care.tools import conversations

    return conversations.plan(baton, target, os.environ, conversations.new_id(), foreign=foreign, to=client)


def write_back(plan: "conversations.ConversationPlan", target: Stored, *, dry_run: bool, json: bool = False) -> None:
    """Write a conversation back as planned, and say so. Raises BatonError."""
    from gitbaton.care.tools import conversations

    if not dry_run:
        conversations.apply(plan)
    tell_written(plan, target, dry_run=dry_run, json=json)


def tell_written(plan: "conversations.ConversationPlan", target: Stored, *, dry_run: bool, json: bool = False) -> None:
    """Say what was written of a conversation, or would be, how to resume it, and what the new session lacks."""
    line = plan.line(os.getcwd())
    if json:
        path = path_document(plan.path)
        of = plan.converted
        told: dict[str, Json] = {}
        if of is not None:
            left = {name.replace(" ", "_"): number for name, number in of.left_out.items()}
            told = {"messages": of.said, "left_out": left, "cut": of.cut}
        print_json({"target": target.id, "agent": plan.agent, "session": plan.session, "path": path, "command": line, **told})
    else:
        terminal.say(f"{'would write' if dry_run else 'written'}: {path_in_quotes(plan.path)}")
        if plan.converted is not None:
            terminal.say(carried(plan.converted))
    if plan.left_out:
        lines = "1 line is" if plan.left_out == 1 else f"{plan.left_out} lines are"
        terminal.warn(f"{lines} left out: no JSON object that can be written again")
    if plan.call is not None:
        tool, by = in_quotes(plan.call), "it" if plan.converted else in_quotes(plan.agent)
        terminal.warn(f"it ends within a call of the tool {tool}; {by} tells the model that it was interrupted")
    if not dry_run and not json:
        terminal.say(f"resume it with: {line}")


def carried(found: "Converted") -> str:
    """Return how many messages a converted conversation holds, and what of it could not be carried."""
    left = [counted(number, noun) for noun, number in found.left_out.items()]
    parts = [counted(found.said, "message"), *([f"left out: {', '.join(left)}"] if left else [])]
    return "; ".join([*parts, *([f"cut: {found.cut} of the calls and results"] if found.cut else [])])


class _AskError(Exception):
    """A plan that is to be asked about first."""

    def __init__(self, plan: RestorePlan) -> None:
        self.plan = plan


def _asked(baton: Baton, op: Op, order: Order, *, verbose: bool) -> tuple[restore.Restored, list[str]]:
    """Carry out a plan that needs no question, or the very one that was shown and agreed to. Raises NoAnswerError."""
    agreed = set[str]()

    def permit(plan: RestorePlan) -> None:
        if plan.doubtful and plan.wanted and plan.digest not in agreed:
            raise _AskError(plan)

    while True:
        try:
            return restore.carry_out(baton, op, order, permit)
        except _AskError as error:  # the lock is free again while somebody thinks
            plan = error.plan
        if agreed:
            terminal.warn("files changed meanwhile, and nothing is restored yet; now it would be:")
        show_plan(plan, None, plan.warnings, dry_run=True, json=False, verbose=verbose)
        if not confirmed("restore them?"):
            raise NoAnswerError("nothing is restored")
        agreed.add(plan.digest)


def carry_out(baton: Baton, op: Op, order: Order, *, dry_run: bool, json: bool, verbose: bool, ask: bool = False) -> int:
    """Restore, revert, undo or redo, or only say what would be done; the exit code. ``ask``: first, on the terminal, where it
    would take back edits that no checkpoint holds, or leave what another session wrote. Raises NoAnswerError without a yes."""
    if dry_run:
        import tempfile

        with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
            baton.redirect(folder)
            with restore.open_plan(baton, op, order) as plan:
                show_plan(plan, None, plan.warnings, dry_run=True, json=json, verbose=verbose)
                return 0 if plan.complete else 1
    with interruptible(baton, op):
        done, said = _asked(baton, op, order, verbose=verbose) if ask else restore.carry_out(baton, op, order)
    show_plan(done.plan, done.safety, (*said, *done.warnings), dry_run=False, json=json, verbose=verbose)
    track = done.plan.target.checkpoint.track
    if op == "restore" and done.plan.target.foreign and not json and baton.current() != track:
        terminal.tell(f"hint: 'git baton snapshot --track {in_shell(track)} \"what is done\"' goes on from it")
    return 0 if done.plan.complete else 1


@contextmanager
def interruptible(baton: Baton, op: Op) -> Iterator[None]:
    """End cleanly on Ctrl-C, with a word on the state of the files. Raises StoppedError."""
    ref = safety_ref(baton.repo.layout.git_dir, baton.repo.layout.common_dir)
    found = baton.repo.objects.info(ref)
    try:
        yield
    except KeyboardInterrupt:
        what = f"the {op} was interrupted"
        if os.path.lexists(intent_path(baton.repo)):
            raise StoppedError(f"{what} halfway", "the next 'git baton' command puts that right: git baton status") from None
        now = baton.repo.git.run("rev-parse", "-q", "--verify", ref).out  # the open reader may have been ended, too
        if now.decode("ascii").strip() == (found.oid if found else ""):
            raise StoppedError(f"{what}, and nothing is changed") from None
        raise StoppedError(f"{what} when all was done", _back(op)) from None


def _back(op: Op) -> str:
    return f"'git baton {'redo' if op == 'undo' else 'undo'}' takes it back"


def show_plan(
    plan: RestorePlan, safety: Stored | None, said: tuple[str, ...], *, dry_run: bool, json: bool, verbose: bool = False
) -> None:
    """Print what would be done, or what was: one line a path, or of many how many, how to take it back, and the warnings
    ``said``."""
    if json:
        from gitbaton.care.tools import rewinding

        print_json(rewinding.document(plan, safety, (*facts(plan), *said)))
        return
    if plan.op in COMPOSED and dry_run and plan.wanted:
        terminal.say(fitted(f"would be done: {brief(plan.what)}"))
    terminal.say_lines([*facts(plan), *step_lines(plan, safety, dry_run=dry_run, verbose=verbose)])
    if safety is not None:
        terminal.say(fitted({"undo": "undone: ", "redo": "redone: "}.get(plan.op, "done: ") + brief(plan.what)))
        terminal.tell(f"hint: {_back(plan.op)}")
    elif not plan.wanted:
        left = "would be changed" if dry_run else "is changed"
        terminal.say(fitted(f"nothing {'has to change' if plan.complete else left}: {brief(plan.name)}"))
    if later := plan.unknown:
        stay = "1 file not in that checkpoint stays" if later == 1 else f"{later:,} files not in that checkpoint stay"
        terminal.tell(f"hint: {stay}; --exact removes what it does not hold, and undo brings it back")
    terminal.tell_hints(plan_hints(plan))
    warn_all(said)


def facts(plan: RestorePlan) -> list[str]:
    """Return facts about a plan to know before it is carried out, a line each."""
    if not any(step.action != "keep" for step in plan.steps):
        return []
    edits, named = counted(len(plan.own), "edit"), tuple(map(quoted, plan.own[:_NAMED]))
    own = [f"also takes back {edits} of your own since: {some(len(plan.own), named)}"] if plan.own else []
    return [*plan.notes, *own]


def plan_hints(plan: RestorePlan) -> list[str]:
    """Return hints for paths that were left as conflicts."""
    from gitbaton.checkpoints.overlap import BOTH

    lost = any(step.action == "refuse" and step.reason.endswith(" is not here, or torn") for step in plan.steps)
    reasons = {step.reason for step in plan.steps if step.action == "conflict"}
    back, undecided = plan.op in COMPOSED, any(reason.endswith(UNDECIDED) for reason in reasons)
    others, unmerged = bool(reasons - {UNMERGED}), UNMERGED in reasons
    rows = (
        (lost, "'git baton doctor --mend' finds again what is gone, where it is anywhere; --from-remote asks a remote, too"),
        (
            back and any(reason.endswith((TEXT, *BOTH)) for reason in reasons),
            "--merge writes both sides of such a text into the file, with markers",
        ),
        (back and undecided, "a path that is named is taken back all the same, and undo brings it back"),
        (back and unmerged, "an unmerged path is yours to resolve"),
        (not back and others, "a conflict is somebody else's change; --force overwrites it, and undo brings it back"),
        (not back and unmerged, "an unmerged path is yours to resolve; --force writes the file and leaves it unmerged"),
    )
    return [text for holds, text in rows if holds]


def step_lines(plan: RestorePlan, safety: Stored | None, *, dry_run: bool, verbose: bool) -> Iterator[str]:
    """Yield what would become, or became, of each path, or of how many."""
    would = "would " if dry_run else ""
    rows = [(s.action, f"{would}{s.action} {quoted(s.path)}{f' ({plain(s.reason)})' if s.reason else ''}") for s in plan.steps]
    preview = f"'git baton {plan.op} -n -v{f' {plan.again}' if plan.again else ''}'"
    back = f"'git baton {'redo' if plan.op == 'undo' else 'undo'} -n -v'" if safety is not None else preview
    words = {action: (now if dry_run else past, noun) for action, (past, now, noun) in _SUMS.items()}
    return summed(rows, words, start=would, verbose=verbose, lists=back, named=("conflict", "refuse"), names=preview)


def revert(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[TURN | A..B] [--] [PATH]...", help="Default: the newest turn that changed something, all its files."
        ),
    ] = None,
    session: Annotated[
        Optional[str], Option("--session", metavar="ID", help="All turns of a session; the beginning of its id is enough.")
    ] = None,
    track: Track = None,
    dry_run: DryRun = False,
    merge: Annotated[bool, Option("--merge", help="Where a change does not merge, write the conflict into the file.")] = False,
    foreign: Annotated[bool, Option("--foreign", help="Allow a turn that was fetched from elsewhere.")] = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Take back what a turn of an agent changed, and nothing else.

    A turn is what happened from a prompt to its end; one that goes on, or was cut short, up to now. TURN is its number in the
    log, as turn2, or any name of a checkpoint of it; A..B are the turns after A up to B, and A.. up to now. Several are taken
    back newest first, as one.

    Each path that the turn changed becomes what it was before. Where it was changed since, by whomever, that change stays: git
    merges the texts. What does not merge is a conflict and left alone; with --merge its markers are in the file. A path that a
    turn of another session may have changed meanwhile is a conflict, too, unless its client's records tell whose it is, or PATH
    names it. Whatever else is in the work tree stays as it is. PATH is a pathspec, as seen from the current directory.

    HEAD and branches stay, and what the turn committed is named. Of the files the index entries come back, too, where they are
    still as the turn left them. Every byte is in a safety checkpoint first: 'git baton undo' brings it back. Exits with 1 when
    a path was left as a conflict or refused.

    Examples:
        git baton revert --dry-run   # what would be done to which file
        git baton revert
        git baton revert parser~2..parser   # the last two turns
    """
    turns, paths = divided(ctx, words or [], 1)
    name, directory = turns[0] if turns else "", ctx.obj.repo_root or os.getcwd()
    ranged = parted(name, "..") is not None
    one_meant(name or None, track)
    both = "TURN and --session exclude each other; a range A..B and --session do not"
    refuse(
        (bool(turns) and not name, "the turn's name is empty"),
        (session == "", "the session's id is empty"),
        (bool(name and session) and not ranged, both),
    )
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        order = Order(
            checkpoint=name,
            session=session or "",
            track=track or "",
            paths=tuple(paths),
            directory=directory,
            merge=merge,
            foreign=foreign,
        )

        def works() -> bool:
            from gitbaton.checkpoints.restore.turnchoice import chosen

            return bool(chosen(baton, Order(track=track or "", foreign=foreign)))

        hint = "to take back what a turn did to that path: git baton revert"
        with _path_hint(None if paths else name, directory, hint, works):
            return carry_out(baton, "revert", order, dry_run=dry_run, json=json, verbose=verbose)


def merge(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="TRACK [--] [PATH]...", help="The other track; any name of a checkpoint does."),
    ] = None,
    dry_run: DryRun = False,
    mark: Annotated[bool, Option("--merge", help="Where texts do not merge, write the conflict into the file.")] = False,
    foreign: Annotated[bool, Option("--foreign", help="Allow a track that was fetched from elsewhere.")] = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Merge another track's newest checkpoint into this work tree, and commit nothing.

    It and the files as they are here are merged as 'git merge' would merge commits of them: three-way,
    against what the histories of both have in common, with renames. Neither has to commit for it, and nothing is committed:
    HEAD, branches and index stay.

    What does not merge is a conflict, named and left alone; with --merge its markers are in the file. No merge driver is run.
    What a merge of the track before brought, or HEAD has, is not taken in twice, and what was done with it since stays; a PATH
    that is named is merged anew. PATH is a pathspec, as seen from the current directory.

    Every byte is in a safety checkpoint first: 'git baton undo' brings it back. Exits with 1 when a path was left as a conflict
    or refused.

    Examples:
        git baton merge api --dry-run   # what would be done to which file
        git baton merge api
        git baton merge api --merge -- src   # only there, with markers where texts do not merge
    """
    tracks, paths = divided(ctx, words or [], 1)
    name = tracks[0] if tracks else None
    if name is None:
        raise UsageError("merge needs the name of a track", "'git baton tracks' lists them")
    with opened(ctx, dry_run=dry_run, talks="" if json else "merging files") as baton:
        order = Order(
            checkpoint=name,
            paths=tuple(paths),
            directory=ctx.obj.repo_root or os.getcwd(),
            merge=mark,
            foreign=foreign or dry_run,
        )
        return carry_out(baton, "merge", order, dry_run=dry_run, json=json, verbose=verbose)


def undo(ctx: Invocation, dry_run: DryRun = False, force: Force = False, verbose: Verbose = False, json: AsJson = False) -> int:
    """Take back the newest restore, revert or merge of this work tree.

    It touches what that step touched, and nothing else. What was changed there since is in a safety checkpoint:
    'git baton redo' brings it back. What you staged or committed since stays so: of the index only comes back what is as
    that restore left it.

    Examples:
        git baton undo --dry-run
        git baton undo
    """
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        return carry_out(baton, "undo", Order(force=force), dry_run=dry_run, json=json, verbose=verbose)


def redo(ctx: Invocation, dry_run: DryRun = False, force: Force = False, verbose: Verbose = False, json: AsJson = False) -> int:
    """Carry out again what undo took back.

    It touches what that undo touched. A new restore ends what could be redone.

    Examples:
        git baton redo --dry-run   # after an undo
    """
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at files") as baton:
        return carry_out(baton, "redo", Order(force=force), dry_run=dry_run, json=json, verbose=verbose)
