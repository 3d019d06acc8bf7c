"""A checkpoint as people and agents read it: its step, then a line or a block for each thing that is known of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from gitbaton.base.codec import bare, counted, first_line, plain
from gitbaton.base.model import Checkpoint, DecisionChanges, FileState, Live, Since, Stored, Told
from gitbaton.base.values import value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import (
    NO_CHANGES,
    Changed,
    decision_facts,
    first_few,
    kept_names,
    observed_pairs,
    passed,
    path_in_line,
    quoting,
    sentences,
    since_run,
    skipped_lines,
    some,
    test_changes,
    test_result,
    title_of,
    tokens,
    turn_of,
    validation,
    verdict,
)
from gitbaton.cli.columns import broken, width
from gitbaton.cli.look import Cell, Look

_LEAST, _MOST = 10, 14  # columns of the names
_ROOM = 24  # columns that a text gets beside its name
_NAMES = 8  # of a list of files
_MANY = 1000  # changed files, of which counting the lines takes long
NOTHING = "nothing known"  # of tests
KINDS = {"manual": "manual", "auto": "automatic", "safety": "before a restore", "imported": "imported"}
_BITS = {"a": "assume-unchanged", "s": "skip-worktree", "i": "intent-to-add"}
_LISTS = ("read", "found", "edited")
_STAT = re.compile(r"(.* \| .*?)(\+*)(-*)")


@value
class ViewFacts:
    """Facts about a checkpoint beside itself: how it stands now, what has happened ``since`` its words, for each test run
    what changed ``later``, what was ``told``, and what changed the files that decisions are about."""

    later: Sequence[Changed]
    told: Told | None = None
    changes: Mapping[int, DecisionChanges] = NO_CHANGES
    since: Since | None = None
    live: Live | None = None


@value
class ViewRow:
    """Row of a view, under a name: a ``state``, and a text of one or more lines that nothing cuts. ``strange``: it is quoted
    though the checkpoint is not; ``ours``: it is of this repository, and never quoted; ``copied``: no line of it is broken;
    ``table``: of git's, how much changed in each file."""

    name: str
    text: str
    state: Cell = ()
    strange: bool = False
    ours: bool = False
    copied: bool = False
    table: bool = False


def lines(look: Look, stored: Stored, rows: Sequence[ViewRow]) -> Iterator[str]:
    """Yield the headline of a checkpoint, and the rows: a name begins at the first column or the third, a text never. Those of
    a foreign one are quoted, and each line of it that a screen would break."""
    mark, c = quoting(stored), stored.checkpoint
    said = c.headline if c.kind != "auto" or c.carried is not None else title_of(c)
    head: Cell = ((plain(c.track), "current"), ("  ", ""), *look.ids([stored.id])[stored.id])
    wide = min(max([_LEAST, *(len(row.name) + 2 for row in rows)]), _MOST)
    yield from _lines(look, head, ViewRow(name="", text=said), mark, wide, sum(width(text) for text, _ in head) + 2)
    for row in rows:
        quote = "" if row.ours else "> " if row.strange else mark
        yield from _lines(look, ((row.name, "heading"),), row, quote, wide, max(width(row.name) + 2, wide))


def _lines(look: Look, head: Cell, row: ViewRow, mark: str, wide: int, taken: int) -> Iterator[str]:
    """Yield a name, and beside it its text, or below it where there is little room."""
    room = None if look.columns is None else max(look.columns - len(mark) - taken, 1)
    quote, state = look.paint(mark, "foreign"), "".join(text for text, _ in row.state)
    text = plain(f"{state}  {row.text}" if state and row.text else state + row.text, keep="\n\t").expandtabs(4).strip("\n")
    start = look.text(head) + " " * (taken - sum(width(text) for text, _ in head))
    if room is not None and room < min(_ROOM, width(text)):
        yield f"{quote}{look.text(head)}"
        room, taken, start = max((look.columns or 0) - len(mark) - wide, 1), wide, " " * wide
    for each in text.split("\n"):
        parts = [each] if row.copied and not mark else broken(each, room, "")
        for part in (piece for one in parts for piece in _pieces(one, room if mark else None)):
            if start.strip() and state and part.startswith(state):
                part = look.text(row.state) + part[len(state) :]
            elif row.table and (found := _STAT.fullmatch(part)):
                part = found[1] + look.paint(found[2], "green") + look.paint(found[3], "failed")
            yield quote + f"{start}{part}".rstrip()
            start = " " * taken


def _pieces(text: str, room: int | None) -> list[str]:
    """A line in pieces that fit, so that no screen breaks it: what stands behind that would look like a line of its own."""
    found = [""]
    for char in text if room is not None and width(text) > room else "":
        if width(found[-1] + char) > (room or 0):
            found.append("")
        found[-1] += char
    return found if found[0] else [text]


def words(baton: Baton, look: Look, stored: Stored, facts: ViewFacts) -> list[ViewRow]:
    """Return when a checkpoint was taken, how its tests and HEAD stand, what comes next, the note and the decisions."""
    c, live, since = stored.checkpoint, facts.live, facts.since
    by = f" by {first_line(c.agent.name)}" if c.agent else ""
    on = f", on {bare(c.branch) if c.branch else 'a detached HEAD'} at {baton.abbreviate(c.head)}" if c.head else ""
    kind = (look.kind(stored)[0], (f" {KINDS.get(c.kind, c.kind)}", look.kind(stored)[0][1]))
    turn = f", turn {turn_of(c)}" if title_of(c).startswith(f"turn {turn_of(c)}  ") else ""
    rows = [ViewRow(name="taken", text=f"{_when(look, c.created)}{by}{turn}{on}", state=kind), *_model(c), *_during(c.files)]
    if c.turn is not None and c.turn.unheard:
        known = some(len(c.turn.edited), first_few(c.turn.edited)) if c.turn.edited else "nothing"
        rows.append(ViewRow(name="turn", text=f"no hook heard its prompt, and its tools are known to have edited {known}"))
    if c.carried is not None:
        rows += [] if turn else [ViewRow(name="title", text=title_of(c))]
        then = f": {passed(since) or 'nothing'}" if since is not None else ""
        rows.append(
            ViewRow(
                name="since" if then else "words", text=f"{'the words, ' * bool(then)}written {_when(look, c.written)}{then}"
            )
        )
    rows += _tests(look, stored, facts)
    if live is not None:
        said = [first_line(text) for text in sentences(live)]
        rows.append(ViewRow(name="drift", text="\n".join(["", *said]), state=look.drift(live)))
    rows += [ViewRow(name="restored", text=stored.restored)] if stored.restored else []
    commits = [baton.abbreviate(oid) for oid in c.imported.commits] if c.imported is not None else []
    rows += [ViewRow(name="commits", text=some(len(commits), commits[:_NAMES]))] if commits else []
    rows += [ViewRow(name="next", text=c.next_cmd, copied=True)] if c.next_cmd else []
    rows += [ViewRow(name="note", text=c.note)] if c.note else []
    for one in c.decided:
        rows.append(ViewRow(name=f"decision {one.number}", text=one.text, strange=one.foreign))
        made = f"{_when(look, one.made)}{decision_facts(c, one, facts.changes)}"
        rows.append(ViewRow(name="  made", text=made, strange=one.foreign))
    rows += [ViewRow(name=f"extra.{key}", text=text) for key, text in c.extra]
    return rows + ([ViewRow(name="kept", text=kept_names(c))] if kept_names(c) else [])


def observed(look: Look, stored: Stored, facts: ViewFacts) -> list[ViewRow]:
    """Return what the records of its client tell, the newest prompt first."""
    ago = look.ago
    pairs = observed_pairs(stored.checkpoint.observed, facts.later, facts.told, ago, lambda at: f"{ago(at)}:")
    asked = [pair for pair in pairs if pair[0] == "asked"]
    rest = [(name, text) for name, text in pairs if name not in ("asked", "tests")]
    rest = list({text: (name, text) for name, text in reversed(rest)}.values())[::-1]  # what failed last is also what ran
    rest = [(name, some(len(names := text.split("\n")), names[:_NAMES]) if name in _LISTS else text) for name, text in rest]
    return [ViewRow(name=name, text=text) for name, text in (*reversed(asked), *rest)]


def amount(look: Look, stored: Stored, *, listed: bool = False) -> ViewRow:
    """Return how many files changed in a checkpoint, and, where that is not ``listed`` beside it, how many it left out."""
    files = stored.checkpoint.files
    if files is None:
        return ViewRow(name="files", text="", state=look.state("pending", "none taken"))
    left = 0 if listed else len(files.skipped) + files.skipped_more
    said = f"{counted(files.changed, 'file') if files.changed else 'none'} changed"
    said += f", {counted(left, 'path')} left out" if left else ""
    names = f"{look.name(stored.id)}{' --name-only' if files.changed > _MANY else ''}"
    more = files.changed > _MANY if listed else files.changed or left
    return ViewRow(name="files", text=f"{said}: git baton show {names}" if more else said)


def form(look: Look, stored: Stored) -> list[str]:
    """Return the options of git's for the table of ``files``: as wide as there is room, at most a screen of it; empty where
    counting lines takes long, or nothing changed."""
    files = stored.checkpoint.files
    if files is None or not 0 < files.changed <= _MANY:
        return []
    room = (look.columns or 120) - _MOST - 2
    return [f"--stat={max(room, 20)},,{max((look.rows or 30) - 10, 5)}", "--stat-graph-width=20", "--no-color"]


def files(look: Look, stored: Stored, table: str) -> list[ViewRow]:
    """Return how much changed in each file, as git's ``table`` has it, and what is left out."""
    found, rows = stored.checkpoint.files, [amount(look, stored, listed=True)]
    if found is None:
        return rows
    name = look.name(stored.id)
    if table:
        *shown, said = [text[1:] for text in table.split("\n")]
        if shown[-1:] == ["..."]:
            shown[-1] = f"and {int(said.split()[0]) - len(shown) + 1} more: git baton show {name} --stat"
        said = re.sub(r"(\d+) [a-z]+\(([+-])\)", r"\2\1", said)
        rows = [ViewRow(name="files", text="\n".join([said, *shown]), table=True, copied=True)]
    rest = [f"and {counted(found.skipped_more, 'path')} more"] if found.skipped_more else []
    left = [*skipped_lines(found.skipped, name), *rest]
    flagged = [
        f"{', '.join(_BITS.get(bit, bit) for bit in flag.bits)}: {path_in_line(flag.path)}" for flag in found.index.flags
    ]
    flagged += [f"and {counted(found.index.flags_more, 'path')} more"] if found.index.flags_more else []
    return [
        *rows,
        *(ViewRow(name=key, text="\n".join(said)) for key, said in (("left out", left), ("in index", flagged)) if said),
    ]


def _model(c: Checkpoint) -> Iterator[ViewRow]:
    """Yield which model was at work in the turn of a checkpoint, and its tokens."""
    said = [first_line(c.agent.model)] if c.agent and c.agent.model else []
    said += [tokens(c.agent.usage)] if c.agent and c.agent.usage else []
    if said:
        yield ViewRow(name="model", text=", ".join(said))


def _during(files: FileState | None) -> Iterator[ViewRow]:
    """Yield what git was in the middle of."""
    going = [f"a {first_line(files.operation.kind)} in progress"] if files and files.operation else []
    going += [f"{counted(files.index.unmerged, 'path')} in conflict"] if files and files.index.unmerged else []
    if going:
        yield ViewRow(name="during", text=", ".join(going))


def _tests(look: Look, stored: Stored, facts: ViewFacts) -> Iterator[ViewRow]:
    """Yield the state of tests as asserted, and of those that were seen to run; one of both at least."""
    c, seen = stored.checkpoint, stored.checkpoint.observed
    runs = list(zip(seen.tests, facts.later, strict=True)) if seen else []
    if c.validation != "pending" or not runs:
        word, _, why = validation(c, facts.since).partition(" (")
        how = verdict(stored, facts.since)
        said = f"asserted{f' {word}' if how != word else ''}{why and '; ' + why.rstrip(')').removeprefix('stale: ')}"
        yield ViewRow(name="tests", text=NOTHING if word == "pending" else said, state=look.state(how))
    for run, later in runs:
        changed = since_run(run, later)
        state = look.state(run.result) if changed == () else look.state("stale", f"{run.result}, stale")
        counts = test_result(run).removeprefix(run.result).strip(" ()")
        text = f"{bare(first_line(run.command), blanks=True)}{counts and f': {counts}'}, {look.ago(run.ended)}"
        text += test_changes(changed, run.edited_more).replace("; stale:", ";")
        yield ViewRow(name="tests", text="\n".join([text, *(f"failed: {first_line(name)}" for name in run.names)]), state=state)


def _when(look: Look, then: datetime) -> str:
    """An age, and the local time: ``31m ago (12:04)``."""
    here, today = then.astimezone(), look.now.astimezone().date()
    if not look.age(then)[-1].isalpha():
        return f"on {here:%Y-%m-%d at %H:%M}"
    return f"{look.ago(then)} ({here:{'%H:%M' if here.date() == today else '%Y-%m-%d %H:%M'}})"
