"""``git baton tracks``: the list, ``use``, and ``delete`` with its plan and its question."""

from collections.abc import Iterator
from typing import Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, timestamp
from gitbaton.base.errors import UsageError
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, origin, porcelain, stored_document, title_of
from gitbaton.cli.commands.status import begin
from gitbaton.cli.common import (
    AsJson,
    Nul,
    Porcelain,
    left_out,
    looking,
    one_of,
    opened,
    paged,
    print_json,
    say_broken,
    summed,
    warn_all,
)
from gitbaton.cli.look import Column, Look
from gitbaton.cli.options import Argument, Invocation, Option

_NAMES = {"use": 1, "rename": 2, "delete": 1, "restore": 1}  # how many names go with each word
COLUMNS = ("current", "track", "id", "created", "commit")


def command(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[use NAME | rename OLD NEW | delete NAME | restore NAME]",
            help="Set the current track, rename one, delete one, or bring a deleted one back.",
        ),
    ] = None,
    delete: Annotated[bool, Option("--delete", "-d", help="As 'delete NAME'.")] = False,
    move: Annotated[bool, Option("--move", "-m", help="As 'rename OLD NEW'.")] = False,
    force: Annotated[bool, Option("--force", help="Delete it with pins, and though a run needs it.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Delete it without asking.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="Only print what would be deleted.")] = False,
    json: AsJson = False,
    stable: Porcelain = False,
    nul: Nul = False,
) -> int:
    """List the tracks, newest first; or make one current in this work tree; rename one; or delete one, after asking.

    Renaming gives the checkpoints new ids, and pins go along; other clones follow when they sync. An unfinished run that
    records on the track refuses it, and so does a work tree that stands on what a restore brought back of it.

    'restore' brings a deleted track back while git has its commits, about two weeks; pins and what was forgotten stay gone.

    A deleted track is gone here, and in every clone that syncs; what somebody adds to it elsewhere afterwards is a track of its
    own again. A pin on one of its checkpoints and an unfinished run refuse it. It asks first; where there is no
    terminal it wants --yes.

    Examples:
        git baton tracks
        git baton tracks use parser
        git baton tracks rename attempt lexer
    """
    one_of(json=json, porcelain=stable or nul)
    if delete or move:
        one_of(delete=delete, move=move)
        words = ["delete" if delete else "rename", *(words or [])]
    verb, *names = words or [""]
    if words and len(names) != _NAMES.get(verb):
        meant = "it can be 'use NAME', 'rename OLD NEW', 'delete NAME' or 'restore NAME'"
        hints = () if verb in _NAMES else ("to list them: git baton tracks",)
        raise UsageError(f"{in_quotes(' '.join(words))} is not understood; {meant}", *hints)
    if verb != "delete" and (force or yes or dry_run):
        raise UsageError("--force, --yes and --dry-run go with 'delete NAME'")
    with opened(ctx, dry_run=dry_run, talks="" if json or stable or nul else "looking at tracks") as baton:
        if verb == "use":
            warn_all(baton.use(names[0]))
            return 0
        if verb == "delete":
            return _delete(ctx, baton, names[0], force=force, yes=yes, dry_run=dry_run, json=json)
        if verb:
            return _rename(baton, *names, json=json) if verb == "rename" else _bring_back(baton, names[0], json=json)
        tips, current = baton.readable_tips(), baton.current()
        if json:
            rows: list[Json] = [
                {"current": s.checkpoint.track == current, "checkpoint": stored_document(s)} for s in tips.items
            ]
            print_json({"current": current, "tracks": rows})
        elif stable or nul:
            cells = [(s, s.checkpoint) for s in tips.items]
            flat = [("*" if c.track == current else "", c.track, s.id, timestamp(c.created), s.commit) for s, c in cells]
            terminal.write(porcelain(COLUMNS, flat, nul=nul, foreign=tips.items))
        elif not (tips.items or tips.problems):
            begin(baton, looking(ctx, baton))
        else:
            with paged(ctx, baton) as look:
                ids, listed = look.ids(s.id for s in tips.items), []
                for s in tips.items:
                    c = s.checkpoint
                    said = look.words(s, title_of(c), origin(s, baton.store.origins(c.track)))
                    listed.append((look.track(s, current=c.track == current), ids[s.id], look.age(c.created), said))
                terminal.say_lines(
                    look.table((Column(named=True), Column(goes=2), Column(right=True, goes=1), Column()), listed)
                )
        warn_all(baton.newer(tips.items))
    left_out(tips.problems)
    return 0


def _rename(baton: Baton, old: str, new: str, *, json: bool) -> int:
    """Rename a track; the exit code."""
    from gitbaton.care.retention import removing, renaming

    made, warnings = renaming.rename(baton, renaming.renaming(baton, old, new))
    warnings += removing.refresh(baton)
    if json:
        print_json({"track": made.new, "was": made.old, "checkpoints": len(made.links)})
    else:
        many = counted(len(made.links), "checkpoint")
        terminal.say(f"track {in_quotes(made.old)} is {in_quotes(made.new)} now, {many}; other clones follow when they sync")
    warn_all(warnings)
    return 0


def _bring_back(baton: Baton, name: str, *, json: bool) -> int:
    """Bring a deleted track back; the exit code."""
    from gitbaton.care.retention import removing, renaming

    made = renaming.returning(baton, name)
    warnings = [*renaming.bring_back(baton, made), *removing.refresh(baton)]
    if json:
        print_json({"track": made.track, "checkpoints": len(made.links), "forgotten": made.forgotten})
    else:
        many = counted(len(made.links), "checkpoint")
        left = f"; {counted(made.forgotten, 'checkpoint')} of it stay forgotten" if made.forgotten else ""
        terminal.say(f"track {in_quotes(made.track)} is back with {many}{left}")
        terminal.tell(f"hint: 'git baton tracks use {in_shell(made.track)}' makes it current")
        if made.others:
            terminal.tell(f"hint: {renaming.room(baton.store, made.track)}")
    warn_all(warnings)
    return 0


def _delete(ctx: Invocation, baton: Baton, name: str, *, force: bool, yes: bool, dry_run: bool, json: bool) -> int:
    """Delete a track, after asking, or only say what would go; the exit code."""
    from gitbaton.care.retention import pruning, removing
    from gitbaton.cli.commands.retaining import checkpoint_rows, clean, consented, discreet, freed, laid_out

    def plan_lines(look: Look, made: pruning.Deletion) -> Iterator[str]:
        pinned, needed = ({stored.id for stored in items} for items in (made.pinned, made.needed))
        marks = [", ".join(["pinned"] * (s.id in pinned) + ["a run needs it"] * (s.id in needed)) for s in made.items]
        items = [(stored.id, stored, mark) for stored, mark in zip(made.items, marks, strict=True)]
        rows = zip(marks, checkpoint_rows(baton, look, "would remove", items), strict=True)
        log = f"'git baton log {in_shell(made.track)}'"
        yield from summed(rows, {"": ("would remove {}", "checkpoint")}, verbose=False, lists=log)
        yield look.fit(f"track {in_quotes(made.track)} would be gone, here and in every clone that syncs")

    with discreet(baton):
        made, warnings = pruning.deletion(baton, name), list[str]()
        if yes and not dry_run:
            made, warnings = pruning.delete(baton, made, force=force)
        elif not dry_run:
            made, warnings = consented(
                made,
                lambda: pruning.deletion(baton, made.track),
                lambda made: laid_out(ctx, baton, lambda look: plan_lines(look, made), json=json),
                lambda made: (made, [*pruning.apply_deletion(baton, made), *baton.refresh()]),
                "delete for good?",
                lambda made: pruning.permit(baton, made, force=force),
            )
        if not dry_run:
            warnings += removing.refresh(baton)
        if json:
            said: dict[str, Json] = {
                "dry_run": dry_run,
                "track": made.track,
                "removed": [{"id": s.id, "step": s.checkpoint.step} for s in made.items],
                "pinned": [s.id for s in made.pinned],
                "runs": [one.run for one in made.runs],
            }
            print_json({key: clean(baton, item) for key, item in said.items()})
        else:
            many = counted(len(made.items), "checkpoint")
            gone = f"track {in_quotes(made.track)} is gone with {many}; other clones drop it when they sync"
            back = f"hint: 'git baton tracks restore {in_shell(made.track)}' brings it back while git has it"
            texts = plan_lines(looking(ctx, baton), made) if dry_run else (gone, *freed(made.broken))
            terminal.say_lines(map(baton.redactor.text, texts))
            if not dry_run and made.here:
                terminal.tell(baton.redactor.text(back))
        if dry_run:
            pruning.permit(baton, made, force=force)
    warn_all([baton.redactor.text(text) for text in warnings])
    return 0 if say_broken(made.broken) else 1
