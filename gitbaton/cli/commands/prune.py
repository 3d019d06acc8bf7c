"""``git baton prune``: of tracks and what is stale, or of threads; the plan, the question, and what is said of both."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Annotated, Any, Optional, Union

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, plain, timestamp
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.model import KINDS, Stored
from gitbaton.care.retention.pruning import PrunePlan, apply, plan, prune
from gitbaton.care.retention.rules import KeepRules, Wish, parse_rules
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import line, title
from gitbaton.cli.commands.retaining import clean, consented, discreet, freed, laid_out
from gitbaton.cli.common import (
    AsJson,
    Verbose,
    amount,
    askable,
    broken_document,
    is_listed,
    opened,
    paged,
    picked,
    print_json,
    say_broken,
    summed,
)
from gitbaton.cli.look import Cell, Column, Look
from gitbaton.cli.options import Argument, Invocation, Option

if TYPE_CHECKING:
    from gitbaton.care.retention import threads as of_threads
    from gitbaton.langgraph.threads.codec import ThreadCheckpoint
    from gitbaton.langgraph.threads.reports import CheckpointFacts
    from gitbaton.langgraph.threads.store import ThreadStore

_SUMS = {
    "keep": ("keep {}", "checkpoint"),
    "remove": ("remove {}", "checkpoint"),
    "safety": ("{}", "safety checkpoint"),
    "transcript": ("{}", "transcript"),
}
Told = dict[tuple[str, str, str], "CheckpointFacts"]  # by thread, namespace and id of a checkpoint
_PLAN = (Column(), Column(), Column(right=True), Column(named=True), Column())
OPTIONS = {"keepLast": "--keep-last", "keepWithin": "--keep-within", "keepDaily": "--keep-daily", "keepWeekly": "--keep-weekly"}


def command(
    ctx: Invocation,
    tracks: Annotated[
        Optional[list[str]],
        Argument(metavar="[TRACK]...", help="Only these; with --threads, threads. Default: all, and what is stale."),
    ] = None,
    keep_last: Annotated[Optional[str], Option(metavar="N", help="Keep the newest N of each track.")] = None,
    keep_within: Annotated[
        Optional[str], Option(metavar="DURATION", help="Keep those within 24h, 14d, 8w, 6m, 1y, 2d12h of the newest.")
    ] = None,
    keep_daily: Annotated[
        Optional[str], Option(metavar="N", help="Keep the newest of each of the last N days (UTC) that have any.")
    ] = None,
    keep_weekly: Annotated[
        Optional[str], Option(metavar="N", help="Keep the newest of each of the last N ISO weeks that have any.")
    ] = None,
    kind: Annotated[
        Optional[str], Option(metavar="KIND", help="Rules are about this kind alone, auto or manual; the other one stays.")
    ] = None,
    drop_milestones: Annotated[bool, Option("--drop-milestones", help="Let labelled checkpoints go like others.")] = False,
    threads: Annotated[
        bool,
        Option("--threads", help="Prune threads of LangGraph instead; without a rule all but the newest checkpoint."),
    ] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="On a terminal: do not ask.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Only print what would be kept and removed.")] = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Remove the checkpoints that no rule keeps; other clones drop them when they sync.

    What any rule keeps stays, and always each track's newest checkpoint, its last manual one, pinned and labelled ones, and
    what an unfinished run needs. Rules may stand in the configuration: baton.keepLast or baton.<track>.keepLast, and so on.
    With --threads only the rules given there count; each namespace's newest stays, and what delta channels are made of.
    On a terminal the plan is shown, and asked for; without one, or with --json, it is carried out.

    Rules add up: what any of them keeps stays; see git-baton(1), RETENTION. --dry-run names exactly what would go and about how
    many bytes git would free, without what it may gain by packing the rest anew. When anything of ours cannot be read, or
    somebody else's ref is in our namespace, nothing is removed.

    Examples:
        git baton prune --keep-last 20 --dry-run
        git baton prune --keep-within 14d --keep-weekly 8 --yes
        git baton prune --kind auto --keep-within 7d   # what somebody wrote stays
    """
    rules = parse_rules(lambda key: OPTIONS[key], keep_last, keep_within, keep_daily, keep_weekly)
    ask = not (yes or json or dry_run) and askable()
    if threads:
        if drop_milestones or kind:
            raise UsageError(f"{'--kind' if kind else '--drop-milestones'} does not go with --threads")
        return _prune_threads(ctx, tracks or (), rules, ask=ask, dry_run=dry_run, json=json, verbose=verbose)
    only = next((one for one in KINDS if one == kind and one != "safety"), None)
    if kind is not None and only is None:
        raise UsageError(f"--kind is {in_quotes(kind)}; it can be 'auto' or 'manual'")
    wish = Wish(tracks=tuple(tracks or ()), rules=rules, milestones=not drop_milestones, kind=only)
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at tracks") as baton, discreet(baton):
        made = plan(baton, wish, weigh=True) if dry_run or ask else prune(baton, wish)
        if ask and not made.empty:
            made = consented(
                made,
                lambda: plan(baton, wish, weigh=True),
                lambda made: laid_out(ctx, baton, lambda look: _planned(baton, look, made, verbose)),
                lambda made: apply(baton, made),
                "remove them?",
            )
        if json:
            print_json({key: clean(baton, item) for key, item in _document(made, dry_run=dry_run).items()})
        else:
            with paged(ctx, baton) as look:
                texts = _planned(baton, look, made, verbose) if dry_run else _done(made)
                terminal.say_lines(map(baton.redactor.text, texts))
    return 0 if say_broken(made.broken) else 1


def _planned(baton: Baton, look: Look, made: PrunePlan, verbose: bool) -> Iterator[str]:
    items = [stored for part in made.tracks for stored in (*(stored for stored, _ in part.keep), *part.remove)]
    goes = sum(len(part.remove) for part in made.tracks)
    counts = {"": len(made.tracks), "keep": len(items) - goes, "remove": goes}
    counts |= {"safety": sum(len(piece.remove) for piece in made.safety), "transcript": len(made.conversations)}
    listed = any(counts[kind] and is_listed(kind, counts, _SUMS, verbose=verbose) for kind in ("keep", "remove"))
    ids = look.ids(stored.id for stored in items) if listed else {}

    def step(stored: Stored) -> str:  # without secrets before it is cut
        return baton.redactor.text(line(title(stored)[0]))

    parts = [(f"track {look.quoted(part.track)}", part) for part in made.tracks]
    rows = _stays_and_goes(
        look,
        parts,
        lambda _, stored: (ids[stored.id], look.age(stored.checkpoint.created), look.words(stored, step(stored))),
        listed=listed,
    )
    old = (stored for piece in made.safety for stored in piece.remove)
    rows += [
        *(("safety", look.fit("remove safety checkpoint ", look.named(stored, step(stored)))) for stored in old),
        *(("transcript", look.fit(f"remove transcript {talk.agent} {plain(talk.session)}")) for talk in made.conversations),
    ]
    yield from summed(rows, _SUMS, verbose=verbose, lists="--dry-run --verbose")
    yield _would_free(made)


def _done(made: PrunePlan) -> Iterator[str]:
    yield from _went((f"track {in_quotes(part.track)}", part) for part in made.tracks)
    safety = sum(len(piece.remove) for piece in made.safety)
    for many, noun in ((safety, "safety checkpoint"), (len(made.conversations), "transcript")):
        if many:
            yield f"{counted(many, noun)} removed"
    yield from ["nothing to remove"] if made.empty else freed(made.broken)


def _document(made: PrunePlan, *, dry_run: bool) -> dict[str, Json]:
    """Return the JSON of a plan, carried out or not."""

    def row(stored: Stored) -> dict[str, Json]:
        return {"id": stored.id, "step": stored.checkpoint.step, "created": timestamp(stored.checkpoint.created)}

    return {
        "dry_run": dry_run,
        "tracks": [
            {
                "track": part.track,
                "keep": [{**row(stored), "reasons": reasons} for stored, reasons in part.keep],
                "remove": [{**row(stored), "kind": stored.checkpoint.kind} for stored in part.remove],
            }
            for part in made.tracks
        ],
        "safety": [{"ref": part.chain.ref, "remove": [stored.id for stored in part.remove]} for part in made.safety],
        "transcripts": [picked(talk, "agent", "session", "ref") for talk in made.conversations],
        "bytes": made.bytes,
        "broken": broken_document(made.broken),
    }


def _prune_threads(
    ctx: Invocation, threads: Sequence[str], rules: KeepRules, *, ask: bool, dry_run: bool, json: bool, verbose: bool
) -> int:
    """Remove checkpoints of LangGraph's threads that no rule keeps, or only print which; return the exit code."""
    from gitbaton.care.retention.threads import ThreadPrunePlan, apply, broken, plan, weighed
    from gitbaton.cli.commands.thread import meant, store_of
    from gitbaton.langgraph.threads.reports import missing

    with opened(ctx, dry_run=dry_run, door=None, talks="" if json else "looking at threads") as baton, store_of(baton) as store:
        if store is None:
            if threads:
                raise missing(threads[0], {})
            made, told = ThreadPrunePlan(parts=(), bytes=0), Told()
        else:
            names = {thread for thread, _ in store.chains()}
            wanted = [meant(thread, names) for thread in threads]
            made = plan(store, wanted, rules)
            told = _facts(store, made) if json or dry_run else Told()  # read before they go

            def show(made: ThreadPrunePlan) -> None:
                told.update(_facts(store, made))
                seen = weighed(store, baton.repo, made)
                laid_out(ctx, baton, lambda look: _planned_threads(look, seen, told, verbose))

            def carry_out(made: ThreadPrunePlan) -> ThreadPrunePlan:
                try:
                    return apply(store, made)
                except BatonError:
                    left = broken(store, made)
                    if not left:
                        raise
                return apply(store, plan(store, wanted, rules, left))

            if ask and not made.empty:
                made = consented(made, lambda: plan(store, wanted, rules), show, carry_out, "remove them?")
            else:
                made = weighed(store, baton.repo, made) if dry_run else carry_out(made)
        if json:
            print_json(_document_of_threads(made, told, dry_run=dry_run))
        else:
            with paged(ctx, baton) as look:
                went = [*_went(_named(made)), *(["nothing to remove"] if made.empty else freed(made.broken))]
                terminal.say_lines(_planned_threads(look, made, told, verbose) if dry_run else went)
    return 0 if say_broken(made.broken) else 1


def _facts(store: "ThreadStore", made: "of_threads.ThreadPrunePlan") -> Told:
    from gitbaton.langgraph.threads.reports import facts

    every = [(part, entry) for part in made.parts for entry in (*(entry for entry, _ in part.keep), *part.remove)]
    return {(part.thread, part.namespace, entry.id): facts(store, entry) for part, entry in every}


def _named(made: "of_threads.ThreadPrunePlan") -> "Iterator[tuple[str, of_threads.NamespacePlan]]":
    from gitbaton.cli.commands.thread import name

    for part in made.parts:
        yield (
            f"thread {in_quotes(name(part.thread))}"
            + (f" namespace {in_quotes(name(part.namespace))}" if part.namespace else ""),
            part,
        )


def _planned_threads(look: Look, made: "of_threads.ThreadPrunePlan", told: Told, verbose: bool) -> Iterator[str]:
    from gitbaton.cli.commands.thread import name

    def said(part: "of_threads.NamespacePlan", entry: "ThreadCheckpoint") -> tuple[Cell | str, str, Cell | str]:
        known = told[part.thread, part.namespace, entry.id]
        return name(entry.id), look.age(known.ts), f"{known.source} {known.step}".rstrip()

    yield from summed(_stays_and_goes(look, [*_named(made)], said), _SUMS, verbose=verbose, lists="--dry-run --verbose")
    yield _would_free(made)


def _document_of_threads(made: "of_threads.ThreadPrunePlan", told: Told, *, dry_run: bool) -> dict[str, Json]:
    def row(part: "of_threads.NamespacePlan", entry: "ThreadCheckpoint") -> dict[str, Json]:
        ts = told[part.thread, part.namespace, entry.id].ts
        return {"id": entry.id, "ts": timestamp(ts) if ts is not None else None}

    rows = [
        {
            **picked(part, "thread", "namespace"),
            "keep": [{**row(part, entry), "reasons": reasons} for entry, reasons in part.keep],
            "remove": [row(part, entry) for entry in part.remove],
        }
        for part in made.parts
    ]
    return {"dry_run": dry_run, "threads": rows, "bytes": made.bytes, "broken": broken_document(made.broken)}


def _stays_and_goes(
    look: Look,
    parts: Sequence[tuple[str, Any]],
    said: Callable[[Any, Any], tuple[Cell | str, str, Cell | str]],
    *,
    listed: bool = True,
) -> list[tuple[str, str]]:
    """Return lines of what stays and goes of each track or thread, one a checkpoint, by kind; ``said``: its id, its age, and
    words. Where they are not ``listed``, none says anything: they are only counted."""
    cells = list[tuple[Cell | str, ...]]()
    for _, part in parts if listed else ():
        for item, reasons in (*part.keep, *((item, None) for item in part.remove)):
            oid, age, words = said(part, item)
            what = (("remove", "drift"),) if reasons is None else (("keep", "home"),)
            cells.append((what, oid, age, plain(", ".join(reasons or ())), words))
    lines, rows = look.table(_PLAN, cells) if listed else repeat(""), list[tuple[str, str]]()
    for label, part in parts:
        many = f"{label}: {counted(len(part.remove), 'checkpoint')} to remove, {len(part.keep)} to keep"
        rows.append(("", look.fit(many)))
        rows += [("keep", next(lines)) for _ in part.keep] + [("remove", next(lines)) for _ in part.remove]
    return rows


def _went(parts: Iterable[tuple[str, Any]]) -> Iterator[str]:
    """Yield how much of each track or thread was removed."""
    for label, part in parts:
        if part.remove:
            yield f"{label}: {counted(len(part.remove), 'checkpoint')} removed, {len(part.keep)} kept"


def _would_free(made: "Union[PrunePlan, of_threads.ThreadPrunePlan]") -> str:
    if made.empty:
        return "nothing to remove"
    return f"about {amount(made.bytes or 0)} would be free once git has collected garbage"
