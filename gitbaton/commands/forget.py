"""``git baton forget``."""

from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from gitbaton import mirrors, terminal
from gitbaton.codec import Json, counted, path_document, plain
from gitbaton.commands.common import opened, print_json, warn_all
from gitbaton.commands.retaining import clean, discreet
from gitbaton.render import line
from gitbaton.retention.forgetting import Forgetting, forget, plan
from gitbaton.retention.proof import Proof, prove, texts, to_do, unknown
from gitbaton.retention.traces import erase

_MOST = 10


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
    with opened(ctx, dry_run=dry_run) as baton, discreet(baton):
        say = baton.redactor.text
        warnings: list[str] = []
        proof = Proof()
        if dry_run:
            made = plan(baton, checkpoints, everywhere=everywhere)
        else:
            made, warnings = forget(baton, checkpoints, everywhere=everywhere)
            warnings += erase(baton, made) if everywhere else mirrors.refresh(baton)
            proof = prove(baton, made) if everywhere else Proof()
        if json:
            print_json({key: clean(baton, item) for key, item in document(made, proof, dry_run=dry_run).items()})
        else:
            for text in told(made, baton.short, dry_run=dry_run):
                terminal.say(say(text))
            for text in [] if dry_run else [*texts(baton, proof.held), *proof.said, *_proven(made, proof), *to_do(baton, made)]:
                terminal.say(say(text))
        warnings = [say(text) for text in warnings]
    warn_all(warnings)
    return 1 if proof.held else 0


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
    yield from _rewritten(made, short, "would be" if dry_run else "is")
    for count, noun in ((len(made.conversations), "transcript"), (len(made.fetched), "fetched ref")):
        if count:
            yield f"{counted(count, noun)} {went} as well"


def _rewritten(made: Forgetting, short: Callable[[str], str], verb: str) -> Iterator[str]:
    """Which safety checkpoints lose their words, and which files."""
    for part in made.safety:
        for stored in part.rewritten:
            paths = [f"'{plain(path)}'" for path in part.taken.get(stored.id, ())]
            what = ", ".join(paths[:_MOST]) + (f" and {len(paths) - _MOST} more" if len(paths) > _MOST else "")
            lost = f"; no longer in it: {what}" if paths else ""
            yield f"safety checkpoint {short(stored.id)} {verb} written again without what is forgotten{lost}"


def _proven(made: Forgetting, proof: Proof) -> list[str]:
    if not made.everywhere or proof.held:
        return []
    proven = ["no ref, index or reflog of this repository reaches their record, their note or a file that only they held"]
    return unknown(made) or proven


def document(made: Forgetting, proof: Proof, *, dry_run: bool) -> dict[str, Json]:
    """The JSON of what was, or would be, forgotten."""
    rewritten = [(stored.id, part.taken.get(stored.id, ())) for part in made.safety for stored in part.rewritten]
    safety: list[Json] = [{"id": oid, "taken": [path_document(path) for path in paths]} for oid, paths in rewritten]
    still: list[Json] = [{"what": item.what, "by": item.by, "checkpoints": list(item.ids)} for item in proof.held]
    result: dict[str, Json] = {"dry_run": dry_run, "everywhere": made.everywhere, "forgotten": list(made.ids)}
    result |= {"along": [stored.id for stored in made.along], "safety": safety, "held": still, "said": list(proof.said)}
    result["ended"] = [track for track, items in made.stay.items() if not items]
    return result | {"transcripts": [talk.ref for talk in made.conversations], "remotes": list(made.remotes)}
