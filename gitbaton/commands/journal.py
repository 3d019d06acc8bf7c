"""``git baton journal``."""

from collections.abc import Sequence
from typing import Annotated, Optional

from gitbaton import terminal
from gitbaton.baton import Baton
from gitbaton.codec import Json, counted, plain
from gitbaton.commands.columns import padded, width
from gitbaton.commands.common import AsJson, opened, paged, picked, print_json
from gitbaton.commands.options import Argument, Call, Option
from gitbaton.errors import MENDS, NotFoundError, UsageError
from gitbaton.journal.chain import Journal, chosen, in_use
from gitbaton.journal.codec import document
from gitbaton.journal.state import fold
from gitbaton.render import line

VERBS = {
    "show": ("step",),
    "verify": (),
    "export": ("output", "foreign", "dry-run"),
    "prune": ("keep", "older", "force", "dry-run"),
}


def command(
    ctx: Call,
    words: Annotated[
        Optional[list[str]],
        Argument(metavar="[show|verify|export|prune] [RUN]...", help="Default: show, of this work tree's run."),
    ] = None,
    step: Annotated[Optional[str], Option("--step", "-p", metavar="NAME", help="show: only this step's records.")] = None,
    output: Annotated[Optional[str], Option(metavar="DIR", help="export: where the files go (the run's name).")] = None,
    foreign: Annotated[bool, Option("--foreign", help="export: allow a run that was fetched from elsewhere.")] = False,
    keep: Annotated[Optional[int], Option(metavar="N", min=0, help="prune: keep so many of the newest (20).")] = None,
    older: Annotated[Optional[str], Option(metavar="TIME", help="prune: only what is older: 30d, 12h.")] = None,
    force: Annotated[bool, Option("--force", help="prune: also a named run that is unfinished or unreadable.")] = False,
    dry_run: Annotated[bool, Option("--dry-run", "-n", help="export, prune: print the plan; change nothing.")] = False,
    json: AsJson = False,
) -> int:
    """Look at the journal of a run: its records; whether they hold; as files; and drop finished runs."""
    words = words or []
    verb = words.pop(0) if words and words[0] in VERBS else "show"
    given = {"step": step, "output": output, "foreign": foreign, "keep": keep, "older": older, "force": force}
    given["dry-run"] = dry_run
    for name, value in given.items():
        if value not in (None, False) and name not in VERBS[verb]:
            raise UsageError(f"--{name} does not go with '{verb}'")
    if len(words) > 1 and verb != "prune":
        raise UsageError(f"unexpected argument '{line(words[1])}'")
    with opened(ctx) as baton:
        journal = Journal(baton.repo, author=b"", clock=baton.clock)
        if verb == "prune":
            return _prune(baton, journal, words, (keep, older), force=force, dry_run=dry_run, json=json)
        run = chosen(journal, words[0] if words else None)
        if verb == "verify":
            return _verify(journal, run, json=json)
        if verb == "export":
            return _export(journal, run, output or run, dry_run=dry_run, foreign=foreign, json=json)
        return _show(ctx, baton, journal, run, step, json=json)


def _show(ctx: Call, baton: Baton, journal: Journal, run: str, step: str | None, *, json: bool) -> int:
    records = journal.records(run)
    rows = [logged for logged in records if step is None or logged.record.step == step]
    if step is not None and not rows:
        names = dict.fromkeys(logged.record.step for logged in records if logged.record.step is not None)
        raise NotFoundError(f"run '{run}' has no step '{line(step)}'", f"steps: {', '.join(map(line, names))}")
    if json:
        state = fold(records)
        listed: list[Json] = []
        for logged in rows:
            parts: dict[str, Json] = dict(sorted(logged.parts.items()))
            row: dict[str, Json] = {"commit": logged.commit, "foreign": logged.foreign, "parts": parts}
            listed.append({**row, "record": document(logged.record)})
        print_json({"run": run, **picked(state, "lineage", "foreign", "finished", "why"), "records": listed})
        return 0
    with paged(ctx, baton) as paint:
        wide = max((width(line(logged.record.step or "-")) for logged in rows), default=0)
        for logged in rows:
            record = logged.record
            colour = "failed" if record.type in ("fail", "abort", "comp-fail") else "green" if record.type == "end" else None
            mark, name = "> " if logged.foreign else "", padded(line(record.step or "-"), wide, right=False)
            changed = len(record.undeclared) + record.undeclared_more
            details = (
                f"attempt {record.attempt}" if record.attempt is not None else "",
                f"exit {record.exit}" if record.exit is not None else "",
                "timeout" if record.timeout else "",
                plain(record.signal or ""),
                record.state or "",
                (record.key or "")[:8],
                counted(changed, "undeclared change") if changed else "",
                line(record.text or ""),
            )
            said = " ".join([paint(f"{record.type:10}", colour), *(text for text in details if text)]).rstrip()
            terminal.say(f"{mark}{record.at:%Y-%m-%d %H:%M:%S} {record.seq:>4} {name} {said}")
    return 0


def _verify(journal: Journal, run: str, *, json: bool) -> int:
    from gitbaton.journal.verify import verify

    report = verify(journal, run)
    if json:
        print_json({"run": run, **picked(report, "records", "keys", "unproved", "problems")})
        return 1 if report.problems else 0
    for text in report.problems:
        terminal.say(plain(text))
    more = f", {report.unproved} could not be" if report.unproved else ""
    found = counted(len(report.problems), "problem") if report.problems else "whole"
    terminal.say(f"run '{run}': {counted(report.records, 'record')}, {counted(report.keys, 'key')} made again{more}: {found}")
    return 1 if report.problems else 0


def _export(journal: Journal, run: str, folder: str, *, dry_run: bool, foreign: bool, json: bool) -> int:
    from gitbaton.journal import export

    if not foreign and any(logged.foreign for logged in journal.records(run)):
        raise UsageError(
            f"run '{run}' was fetched from elsewhere", f"look at it with 'git baton journal show {run}'; --foreign allows it"
        )
    planned = export.plan(journal, run, folder)
    if not dry_run:
        export.apply(journal, planned)
    if json:
        print_json({"run": run, "dry_run": dry_run, "folder": folder, "files": [file.path for file in planned.files]})
    elif dry_run:
        for file in planned.files:
            terminal.say(plain(f"would write {folder}/{file.path}"))
    else:
        terminal.say(f"{counted(len(planned.files), 'file')} written into '{plain(folder)}'")
    return 0


def _prune(
    baton: Baton,
    journal: Journal,
    runs: Sequence[str],
    rule: tuple[int | None, str | None],
    *,
    force: bool,
    dry_run: bool,
    json: bool,
) -> int:
    from gitbaton.journal import prune
    from gitbaton.running.claims import Claims
    from gitbaton.running.plans import duration

    if force and not runs:
        raise UsageError("--force goes with the name of a run", "git baton journal prune --dry-run")
    keep, older = rule
    age = None if older is None else duration(older, "--older")
    busy = {claim.run for claim in Claims(baton.repo).others()} | (set() if runs else set(in_use(baton.repo)))
    many, now = prune.KEEP if keep is None else keep, baton.clock()
    planned = prune.plan(journal, runs, keep=many, older=age, now=now, busy=busy, force=force)
    gone, kept = (planned.drops, ()) if dry_run else prune.apply(journal, planned)
    stay = (*planned.kept, *kept)
    code = 1 if kept or any(row.torn for row in stay) else 0
    if json:
        drops: list[Json] = [picked(drop, "run", "was", "records", "effects") for drop in gone]
        print_json({"dry_run": dry_run, "dropped": drops, "kept": [picked(row, "run", "why") for row in stay]})
        return code
    for row in stay:
        terminal.say(plain(f"run '{row.run}' stays: {row.why}"))
    for drop in gone:
        stand = f"{counted(drop.effects, 'effect')} of its steps {'stands' if drop.effects == 1 else 'stand'}, "
        said = f"run '{drop.run}': {counted(drop.records, 'record')}, {stand if drop.effects else ''}was {drop.was}"
        terminal.say(f"would drop {said}" if dry_run else f"dropped {said}")
    if not gone:
        terminal.say("no run to drop")
    if any(row.torn for row in stay):
        terminal.tell(f"hint: {MENDS}")
    return code
