"""``git baton forget``."""

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from gitbaton import mirrors, terminal
from gitbaton.codec import Json, plain
from gitbaton.commands.common import opened, print_json, warn_all
from gitbaton.commands.retaining import counted
from gitbaton.render import line
from gitbaton.retention.forgetting import Forgetting, forget, plan
from gitbaton.retention.proof import Held, prove, texts, to_do, unknown
from gitbaton.retention.traces import erase


def command(
    ctx: typer.Context,
    checkpoints: Annotated[
        list[str],
        typer.Argument(metavar="CHECKPOINT...", help="Checkpoints by any name that 'show' takes.", show_default=False),
    ],
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Also from notes' history, reflogs, fetched copies, transcripts; and prove it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", "-n", help="Only print what would be removed.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Remove checkpoints for good, the tip and pinned ones too; a tombstone keeps every clone from bringing them back.

    Automatic checkpoints that carry a forgotten one's words go with it. With --everywhere all that holds its words or files
    goes as well, and exit 1 says what still holds any of it. Git's garbage collection removes the objects in its own time.
    """
    with opened(ctx, dry_run=dry_run) as baton:
        warnings: list[str] = []
        held: tuple[Held, ...] = ()
        if dry_run:
            made = plan(baton, checkpoints, everywhere=everywhere)
        else:
            made, warnings = forget(baton, checkpoints, everywhere=everywhere)
            warnings += erase(baton, made) if everywhere else mirrors.refresh(baton)
            held = prove(baton, made) if everywhere else ()
        if json:
            print_json(document(made, held, dry_run=dry_run))
        else:
            for text in told(made, baton.short, dry_run=dry_run):
                terminal.say(text)
            for text in [] if dry_run else [*texts(held), *_proven(made, held), *to_do(made)]:
                terminal.say(text)
    warn_all(warnings)
    return 1 if held else 0


def told(made: Forgetting, short: Callable[[str], str], *, dry_run: bool) -> Iterator[str]:
    """What goes, one line each."""
    done, went, has = ("would forget", "would go", "would have") if dry_run else ("forgot", "went", "has")
    steps = {stored.id: stored.checkpoint.step for stored in made.stored}
    for oid in made.ids:
        yield f"{done} {short(oid)} {line(steps.get(oid, '(removed before)'))}"
    for stored in made.along:
        yield f"{done} {short(stored.id)} {line(stored.checkpoint.step)}"
    if made.along:
        which = "carries" if len(made.along) == 1 else "carry"
        yield f"{counted(len(made.along), 'automatic checkpoint')} that {which} their words {went} with them"
    for track in (track for track, items in made.stay.items() if not items):
        yield f"track '{plain(track)}' {has} no checkpoint left and is gone"
    parts = [(sum(len(part.remove) for part in made.safety), "safety checkpoint"), (len(made.conversations), "transcript")]
    for count, noun in (*parts, (len(made.fetched), "fetched ref")):
        if count:
            yield f"{counted(count, noun)} {went} as well"


def _proven(made: Forgetting, held: tuple[Held, ...]) -> list[str]:
    if not made.everywhere or held:
        return []
    proven = ["no ref, index or reflog of this repository reaches their record, their note or a file that only they held"]
    return unknown(made) or proven


def document(made: Forgetting, held: tuple[Held, ...], *, dry_run: bool) -> dict[str, Json]:
    """The JSON of what was, or would be, forgotten."""
    safety: list[Json] = [stored.id for part in made.safety for stored in part.remove]
    still: list[Json] = [{"what": item.what, "by": item.by} for item in held]
    result: dict[str, Json] = {"dry_run": dry_run, "everywhere": made.everywhere, "forgotten": list(made.ids)}
    result |= {"along": [stored.id for stored in made.along], "safety": safety, "held": still}
    result["ended"] = [track for track, items in made.stay.items() if not items]
    return result | {"transcripts": [talk.ref for talk in made.conversations], "remotes": list(made.remotes)}
