"""``git baton tracks delete``: the plan, the question, and what is said afterwards."""

from collections.abc import Iterator

import typer

from gitbaton import mirrors, terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, counted, plain
from gitbaton.commands.common import print_json, told_apart, warn_all
from gitbaton.commands.retaining import clean, consented, discreet, laid_out
from gitbaton.render import line
from gitbaton.retention.deleting import Deletion, apply, permit, plan
from gitbaton.retention.deleting import delete as insist


def delete(ctx: typer.Context, baton: Baton, name: str, *, force: bool, yes: bool, dry_run: bool, json: bool) -> int:
    """Delete a track, or only say what would go."""
    with discreet(baton):
        made, warnings = plan(baton, name), list[str]()
        if not dry_run:
            made, warnings = _carried_out(ctx, baton, made, force=force, yes=yes, json=json)
            warnings += mirrors.refresh(baton)
        if json:
            print_json({key: clean(baton, item) for key, item in document(made, dry_run=dry_run).items()})
        else:
            for text in told(baton, made) if dry_run else done(made):
                terminal.say(baton.redactor.text(text))
        if dry_run:
            permit(baton, made, force=force)
    warn_all([baton.redactor.text(text) for text in warnings])
    return 0 if told_apart(made.broken) else 1


def _carried_out(
    ctx: typer.Context, baton: Baton, made: Deletion, *, force: bool, yes: bool, json: bool
) -> tuple[Deletion, list[str]]:
    """Carry a plan out: as it was shown, where somebody is asked."""
    if yes:
        return insist(baton, made, force=force)
    return consented(
        made,
        lambda: plan(baton, made.track),
        lambda made: laid_out(ctx, baton, told(baton, made), json=json),
        lambda made: (made, apply(baton, made)),
        "delete for good?",
        lambda made: permit(baton, made, force=force),
    )


def told(baton: Baton, made: Deletion) -> Iterator[str]:
    """What would go, one line each."""
    marks = [({stored.id for stored in made.pinned}, " (pinned)"), ({stored.id for stored in made.needed}, " (a run needs it)")]
    for stored in made.items:
        mark = "".join(text for ids, text in marks if stored.id in ids)
        yield f"would remove {baton.short(stored.id)} {line(stored.checkpoint.step)}{mark}"
    yield f"track '{plain(made.track)}' would be gone, here and in every clone that syncs"


def done(made: Deletion) -> Iterator[str]:
    """What was removed."""
    many = counted(len(made.items), "checkpoint")
    yield f"track '{plain(made.track)}' is gone with {many}; other clones drop it when they sync"
    yield "their bytes are free once git has collected garbage; 'git gc' does, in its own time"


def document(made: Deletion, *, dry_run: bool) -> dict[str, Json]:
    """The JSON of a deletion, carried out or not."""
    removed: list[Json] = [{"id": s.id, "step": s.checkpoint.step} for s in made.items]
    pinned: list[Json] = [s.id for s in made.pinned]
    return {
        "dry_run": dry_run,
        "track": made.track,
        "removed": removed,
        "pinned": pinned,
        "runs": [one.run for one in made.runs],
    }
