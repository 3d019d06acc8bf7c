"""``git baton forget``."""

import unicodedata
from collections.abc import Iterator
from typing import Annotated

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, path_document
from gitbaton.base.errors import MENDS
from gitbaton.care.retention import removing
from gitbaton.care.retention.forgetting import Forgetting, apply, forget, permit, plan
from gitbaton.care.retention.proof import ForgetProof, erase, prove, texts, to_do, unknown
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, in_shell, some
from gitbaton.cli.commands.retaining import checkpoint_rows, clean, consented, discreet, laid_out
from gitbaton.cli.common import (
    AsJson,
    Verbose,
    broken_document,
    looking,
    opened,
    picked,
    print_json,
    say_broken,
    summed,
    tell_error,
    warn_all,
)
from gitbaton.cli.look import Look
from gitbaton.cli.options import Argument, Invocation, Option

_PROVEN = "no ref, index or reflog of this repository reaches their record, their note or a file that only they held"


def command(
    ctx: Invocation,
    checkpoints: Annotated[
        list[str],
        Argument(metavar="CHECKPOINT...", help="Checkpoints by any name that 'show' takes.", show_default=False),
    ],
    everywhere: Annotated[
        bool, Option("--everywhere", help="Also from notes' history, reflogs, fetched copies, transcripts; and prove it.")
    ] = False,
    force: Annotated[bool, Option("--force", help="Forget what is pinned, or only in a safety checkpoint.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Only print what would be removed.")] = False,
    verbose: Verbose = False,
    json: AsJson = False,
) -> int:
    """Remove checkpoints for good, after asking, the tip, too; a tombstone keeps every clone from bringing them back.

    TRACK means only its newest checkpoint ('git baton tracks delete TRACK' removes all). Automatic checkpoints that carry a
    forgotten one's words go with it. With --everywhere all that holds its words or files goes as well, and exit 1 says what
    still holds any of it. Git's garbage collection removes the objects in its own time. Without a terminal it needs --yes.

    With --force pinned ones go, too. --everywhere cleans the notes' history, reflogs, fetched copies, safety checkpoints,
    conversations, LATEST and exported files, proves that nothing reaches the text any more, and says what is to be done on
    remotes. A safety checkpoint that holds a file of theirs goes whole, and undo and redo end there; where nothing else holds
    another file of it, that needs --force. With --everywhere a safety checkpoint may be named, too.

    Examples:
        git baton forget parser~1 --dry-run
    """
    with opened(ctx, dry_run=dry_run, talks="" if json else "looking at checkpoints") as baton, discreet(baton):
        say = baton.redactor.text
        warnings: list[str] = []
        proof = ForgetProof()
        made = plan(baton, checkpoints, everywhere=everywhere)
        for name in dict.fromkeys(unicodedata.normalize("NFC", name) for name in checkpoints):
            others = len(made.stay.get(name, ()))
            if others:  # a track was named, and all of it may have been meant
                stay = "1 other stays" if others == 1 else f"{others} others stay"
                more = f"its {stay}; to delete all: git baton tracks delete {in_shell(name)}"
                terminal.warn(say(f"{in_quotes(name)} means only the newest checkpoint of the track; {more}"))
        if yes and not dry_run:
            made, warnings = forget(baton, made.names, everywhere=everywhere, force=force, made=made)
        elif not dry_run:
            made, warnings = consented(
                made,
                lambda: plan(baton, made.names, everywhere=everywhere),
                lambda made: laid_out(ctx, baton, lambda look: plan_lines(baton, look, made, True, verbose), json=json),
                lambda made: (made, apply(baton, made)),
                "forget for good?",
                lambda made: permit(baton, made, force=force),
            )
        if not dry_run:
            warnings += erase(baton, made) if everywhere else removing.refresh(baton)
            proof = prove(baton, made) if everywhere else ForgetProof()
        if json:
            print_json({key: clean(baton, item) for key, item in document(made, proof, dry_run=dry_run).items()})
        else:
            terminal.say_lines(map(say, plan_lines(baton, looking(ctx, baton), made, dry_run, verbose)))
            if not dry_run:
                ends = (unknown(made) or [_PROVEN]) if everywhere and not (proof.held or proof.unread) else []
                terminal.say_lines(map(say, [*texts(baton, proof.held), *proof.said, *ends, *to_do(baton, made)]))
            terminal.say_lines(f"not looked at: {say(text)}" for text in proof.unread)
        warnings = [say(text) for text in warnings]
        if dry_run:
            permit(baton, made, force=force)
    warn_all(warnings)
    whole = say_broken(made.broken)
    if proof.unread:
        tell_error("nothing is proven", [] if made.broken else [MENDS])
        named = " ".join(made.names)
        terminal.tell(f"hint: then once more: git baton forget --everywhere {named}")
    return 1 if proof.held or proof.unread or not whole else 0


def plan_lines(baton: Baton, look: Look, made: Forgetting, dry_run: bool, verbose: bool) -> Iterator[str]:
    """Yield what goes, one line each, or how much."""
    done, went, has = ("would forget", "would go", "would have") if dry_run else ("forgot", "went", "has")
    known = {stored.id: stored for stored in (*made.stored, *made.along)}
    gone = [(oid, known.get(oid)) for oid in (*made.ids, *(stored.id for stored in made.along))]
    rows = checkpoint_rows(baton, look, done, [(oid, stored, "pinned" * (oid in made.pinned)) for oid, stored in gone])
    yield from summed([("", row) for row in rows], {"": (f"{done} {{}}", "checkpoint")}, verbose=verbose, lists="--verbose")
    if made.along:
        which = "carries" if len(made.along) == 1 else "carry"
        yield f"{counted(len(made.along), 'automatic checkpoint')} that {which} their words {went} with them"
    for track in (track for track, items in made.stay.items() if not items):
        yield f"track {in_quotes(track)} {has} no checkpoint left and is gone"
    for stored in (stored for part in made.safety for stored in part.remove):
        paths = [path + word for path, word in made.lost[stored.id]]
        lost = f"; nothing else {'holds' if dry_run else 'held'} {some(len(paths), first_few(paths))}" if paths else ""
        yield f"safety checkpoint {look.id(stored.id)} {went} whole, and undo and redo end there{lost}"
    for count, noun in ((len(made.conversations), "transcript"), (len(made.fetched), "fetched ref")):
        if count:
            yield f"{counted(count, noun)} {went} as well"


def document(made: Forgetting, proof: ForgetProof, *, dry_run: bool) -> dict[str, Json]:
    """Return the JSON of what was, or would be, forgotten."""
    return {
        "dry_run": dry_run,
        "everywhere": made.everywhere,
        "forgotten": list(made.ids),
        "along": [stored.id for stored in made.along],
        "safety": [
            {"id": oid, "taken": [path_document(path) for path in dict.fromkeys(path for path, _ in files)]}
            for oid, files in made.lost.items()
        ],
        "held": [{"what": item.what, "by": item.by, "checkpoints": list(item.ids)} for item in proof.held],
        **picked(proof, "said", "unread"),
        "broken": broken_document(made.broken),
        "ended": [track for track, items in made.stay.items() if not items],
        "pinned": list(made.pinned),
        "transcripts": [talk.ref for talk in made.conversations],
        "remotes": list(made.remotes),
    }
