"""``git baton prune``."""

from collections.abc import Iterator
from typing import Annotated, Optional

import typer

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, counted, plain, timestamp
from gitbaton.commands.common import AsJson, apart_document, askable, opened, paged, print_json, told_apart
from gitbaton.commands.retaining import amount, clean, consented, discreet, laid_out
from gitbaton.errors import UsageError
from gitbaton.render import line
from gitbaton.retention.pruning import Plan, apply, plan, prune
from gitbaton.retention.rules import Wish, parse_rules

OPTIONS = {"keepLast": "--keep-last", "keepWithin": "--keep-within", "keepDaily": "--keep-daily", "keepWeekly": "--keep-weekly"}

THREADS = typer.Option("--threads", help="Prune threads of LangGraph instead; without a rule all but the newest checkpoint.")


def command(
    ctx: typer.Context,
    tracks: Annotated[
        Optional[list[str]],
        typer.Argument(metavar="[TRACK]...", help="Only these; with --threads, threads. Default: all, and what is stale."),
    ] = None,
    keep_last: Annotated[Optional[str], typer.Option(metavar="N", help="Keep the newest N of each track.")] = None,
    keep_within: Annotated[
        Optional[str], typer.Option(metavar="DURATION", help="Keep those within 24h, 14d, 8w, 6m, 1y, 2d12h of the newest.")
    ] = None,
    keep_daily: Annotated[
        Optional[str], typer.Option(metavar="N", help="Keep the newest of each of the last N days (UTC) that have any.")
    ] = None,
    keep_weekly: Annotated[
        Optional[str], typer.Option(metavar="N", help="Keep the newest of each of the last N ISO weeks that have any.")
    ] = None,
    drop_milestones: Annotated[
        bool, typer.Option("--drop-milestones", help="Let labelled checkpoints go like others.")
    ] = False,
    threads: Annotated[bool, THREADS] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="On a terminal: do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only print what would be kept and removed.")] = False,
    json: AsJson = False,
) -> int:
    """Remove the checkpoints that no rule keeps; other clones drop them when they sync.

    What any rule keeps stays, and always each track's newest checkpoint, its last manual one, pinned and labelled ones, and
    what an unfinished run needs. Rules may stand in the configuration: baton.keepLast or baton.<track>.keepLast, and so on.
    With --threads only the rules given there count; each namespace's newest stays, and what delta channels are made of.
    On a terminal the plan is shown, and asked for; without one it is carried out.
    """
    rules = parse_rules(lambda key: OPTIONS[key], keep_last, keep_within, keep_daily, keep_weekly)
    ask = not (yes or dry_run) and askable()
    if not threads:
        wish = Wish(tracks=tuple(tracks or ()), rules=rules, milestones=not drop_milestones)
        return _prune(ctx, wish, ask=ask, dry_run=dry_run, json=json)
    if drop_milestones:
        raise UsageError("--drop-milestones does not go with --threads")
    from gitbaton.commands import threadpruning

    return threadpruning.prune(ctx, tracks or (), rules, ask=ask, dry_run=dry_run, json=json)


def _prune(ctx: typer.Context, wish: Wish, *, ask: bool, dry_run: bool, json: bool) -> int:
    with opened(ctx, dry_run=dry_run) as baton, discreet(baton):
        made = plan(baton, wish, weigh=True) if dry_run or ask else prune(baton, wish)
        if ask and not made.empty:
            made = consented(
                made,
                lambda: plan(baton, wish, weigh=True),
                lambda made: laid_out(ctx, baton, planned(baton, made), json=json),
                lambda made: apply(baton, made),
                "remove them?",
            )
        if json:
            print_json({key: clean(baton, item) for key, item in document(made, dry_run=dry_run).items()})
        else:
            with paged(ctx, baton):
                for text in planned(baton, made) if dry_run else done(made):
                    terminal.say(baton.redactor.text(text))
    return 0 if told_apart(made.broken) else 1


def planned(baton: Baton, made: Plan) -> Iterator[str]:
    """What would stay and go, one line each, and what that would free."""
    for part in made.tracks:
        yield f"track '{plain(part.track)}': {counted(len(part.remove), 'checkpoint')} to remove, {len(part.keep)} to keep"
        for stored, reasons in part.keep:
            yield f"keep {baton.short(stored.id)} {line(stored.checkpoint.step)}: {plain(', '.join(reasons))}"
        for stored in part.remove:
            yield f"remove {baton.short(stored.id)} {line(stored.checkpoint.step)}"
    for piece in made.safety:
        for stored in piece.remove:
            yield f"remove safety {baton.short(stored.id)} {line(stored.checkpoint.step)}"
    for talk in made.conversations:
        yield f"remove transcript {talk.agent} {plain(talk.session)}"
    yield (
        f"about {amount(made.bytes or 0)} would be free once git has collected garbage"
        if not made.empty
        else "nothing to remove"
    )


def done(made: Plan) -> Iterator[str]:
    """What was removed."""
    for part in made.tracks:
        if part.remove:
            yield f"track '{plain(part.track)}': {counted(len(part.remove), 'checkpoint')} removed, {len(part.keep)} kept"
    safety = sum(len(piece.remove) for piece in made.safety)
    if safety:
        yield f"{counted(safety, 'safety checkpoint')} removed"
    if made.conversations:
        yield f"{counted(len(made.conversations), 'transcript')} removed"
    if made.empty:
        yield "nothing to remove"
    else:
        yield "their bytes are free once git has collected garbage; 'git gc' does, in its own time"


def document(made: Plan, *, dry_run: bool) -> dict[str, Json]:
    """The JSON of a plan, carried out or not."""
    tracks: list[Json] = []
    for part in made.tracks:
        keep: list[Json] = [
            {"id": s.id, "step": s.checkpoint.step, "created": timestamp(s.checkpoint.created), "reasons": list(reasons)}
            for s, reasons in part.keep
        ]
        remove: list[Json] = [
            {"id": s.id, "step": s.checkpoint.step, "created": timestamp(s.checkpoint.created), "kind": s.checkpoint.kind}
            for s in part.remove
        ]
        tracks.append({"track": part.track, "keep": keep, "remove": remove})
    safety: list[Json] = [{"ref": p.chain.ref, "remove": [s.id for s in p.remove]} for p in made.safety]
    talks: list[Json] = [{"agent": t.agent, "session": t.session, "ref": t.ref} for t in made.conversations]
    result: dict[str, Json] = {"dry_run": dry_run, "tracks": tracks, "safety": safety, "transcripts": talks}
    return {**result, "bytes": made.bytes, "broken": apart_document(made.broken)}
