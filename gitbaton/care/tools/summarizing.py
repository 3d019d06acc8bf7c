"""Summary of a track in Markdown, for a pull request: what was done, decisions, tests, commits, files and what is open."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from itertools import islice

from gitbaton.base.codec import counted, cut, digest, earlier_ids, first_line, in_quotes
from gitbaton.base.errors import BatonError, NotFoundError
from gitbaton.base.model import BEFORE_PROMPT, LAST_PROMPT, Checkpoint, Oid, Stored, at_prompt, is_turn
from gitbaton.base.values import replace, value
from gitbaton.care.scanning.objects import scanner
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.names import parted
from gitbaton.checkpoints.render import (
    current_plans,
    quoted,
    since_run,
    test_result,
    turn_of,
    turn_prompt,
    turns_tokens,
    verdict,
)
from gitbaton.checkpoints.store import SAFETY
from gitbaton.checkpoints.store.chain import AFTER, in_beside, replay
from gitbaton.checkpoints.store.turns import turn_key, turns_usage
from gitbaton.checkpoints.survey import tests_then
from gitbaton.git.questions import is_ancestor, worktrees
from gitbaton.git.run import zsplit
from gitbaton.git.treediff import differences

_FILES = 50
_LONGEST = 500  # characters of a step, a note, a decision
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&$]|^[-+#]|^[0-9]+(?=[.)]))")
# What stands before a path and goes with it: nothing that is of a longer path, or the beginning of an address of a file here.
_BEFORE = (
    r"(?:(?<![\w.~/\\%+$)}-])|(?<=\B-[A-Z]))"
    r"(?:(?:[a-z][a-z0-9+.-]*:/+|[/\\]{2,})(?:localhost|file|wsl(?:\+|%2b|(?:\$|\.localhost)[/\\]+)[\w.-]+)?)?"
)
_SLASH = r"[/\\]+"
_HOME = re.compile(r"(?:/mnt/[a-z])?/(?:home|Users)/[^/]+|/root(?=/|\Z)")
# What a forge makes a link of without any markup: addresses with a scheme or "www", mail and mentions, issues, commits.
_PLAIN_NAME = re.compile(r"[\w.:@/+-]+")
_LINK = re.compile(r":(?=//)|www(?=\.)|@(?=\S)|#(?=\w)|GH-(?=\w)|/(?:issues|pull)/(?=\w)|[0-9a-f]{6}(?=[0-9a-f])", re.I)


@value
class SummaryPart:
    """The checkpoints that are told of, oldest first, the tree and the commit that they began with, and the commit that they
    came to."""

    items: tuple[Stored, ...]
    begin: Oid
    base: Oid | None
    head: Oid | None


def part(baton: Baton, name: str | None, track: str | None, since: datetime | None = None) -> SummaryPart:
    """Return the checkpoints that ``TRACK``, ``CHECKPOINT`` or ``A..B`` means: a track from its first checkpoint on, or what
    came after A until B; with ``since`` only what is not older. Raises NotFoundError where nothing did."""
    ends = parted(name or "", "..")
    first, last = ends or ("", "")
    end = baton.lead(last or None, track) if ends else baton.lead(name, track)
    start = baton.lead(first or None, track) if ends else None
    chain = baton.store.below(end).items[::-1]
    if since is not None:
        older = [s for s in chain if s.checkpoint.created < since]
        start = max([*([start] if start else []), *older[-1:]], key=lambda s: s.checkpoint.created, default=None)
    items = tuple(s for s in chain if start is None or s.checkpoint.created > start.checkpoint.created)
    if not items:
        track = end.checkpoint.track
        after = f"nothing came after {in_quotes(first)} until {in_quotes(last or track)}"
        raise NotFoundError(after if since is None else f"track {in_quotes(track)} has no checkpoint since then")
    oldest = next((s for s in items if s.checkpoint.turn and s.checkpoint.turn.head), items[0])  # its turn began before all
    base = start.checkpoint.head if start else baton.store.first_base(oldest.checkpoint)
    begin = start.tree if start else _first_tree(baton, oldest.checkpoint)
    return SummaryPart(items=items, begin=begin, base=base, head=_head(baton, end))


def _head(baton: Baton, end: Stored) -> Oid | None:
    """Return the commit that a checkpoint stands on, or HEAD where its branch has gone on from there and no other one came
    after."""
    c, now = end.checkpoint, baton.repo.objects.head()
    if c.head is None or now.oid is None or now.branch != c.branch or baton.tip(c.track).id != end.id:
        return c.head
    return now.oid if is_ancestor(baton.repo, c.head, now.oid) else c.head


def taken_back(baton: Baton, items: Sequence[Stored]) -> frozenset[Oid]:
    """Return the checkpoints of a track with changes that a restore, which was not undone, took back whole."""
    track = items[0].checkpoint.track
    known = {oid: s for s in items for oid in (s.id, *earlier_ids(s.raw))}
    before = dict(zip((s.id for s in items[1:]), items, strict=False))
    done: list[tuple[Stored, Stored]] = []
    reverted: list[Stored] = []
    for ref in baton.repo.objects.refs(SAFETY):
        with suppress(BatonError):
            chain = {s.id: s for s in baton.store.chain(ref, None).items}
            steps = replay(baton.store, list(chain.values()))
            for stored in steps.undo:
                first = chain[steps.begun.get(stored.id, stored.id)].checkpoint.restore
                if first is not None and first.op == "merge":  # it took nothing back
                    continue
                if first is not None and first.op == "revert":
                    reverted.append(stored)
                    continue
                target: Stored | None = stored
                while target is not None and target.checkpoint.restore:
                    target = chain.get(oid := target.checkpoint.restore.target) or known.get(oid)
                if target is not None and target.checkpoint.track == track:
                    done.append((stored, target))
    away: dict[Oid, datetime] = {}
    for stored, target in sorted(done, key=lambda pair: pair[0].checkpoint.created):
        when, to = stored.checkpoint.created, target.checkpoint.created
        away = {oid: then for oid, then in away.items() if known[oid].checkpoint.created > to or then < to}
        with suppress(BatonError):
            after = (target.tree, in_beside(baton.store, stored, AFTER))
            left = differences(baton.repo, [after])[after].keys()
            pairs = {s.id: (before[s.id].tree, s.tree) for s in items if to < s.checkpoint.created < when and s.id in before}
            changed = differences(baton.repo, pairs.values())
            away |= {oid: when for oid, pair in pairs.items() if changed[pair] and not changed[pair].keys() & left}
    return frozenset(away).union(_reverted(baton, items, before, reverted))


def _reverted(baton: Baton, items: Sequence[Stored], before: Mapping[Oid, Stored], steps: Sequence[Stored]) -> set[Oid]:
    """Return the checkpoints with changes that some reverts, which were not undone, took back whole."""
    found = set[Oid]()
    for step in steps:
        with suppress(BatonError):
            after = in_beside(baton.store, step, AFTER)
            touched = differences(baton.repo, [(step.tree, after)])[step.tree, after].keys()
            earlier = [s for s in items if s.id in before and s.checkpoint.created < step.checkpoint.created]
            older = [s for s in earlier if s.checkpoint.turn or is_turn(s.checkpoint.kind, s.checkpoint.step)]
            pairs = {s.id: (before[s.id].tree, s.tree) for s in older}
            changed = differences(baton.repo, pairs.values())
            mine = {oid: pair for oid, pair in pairs.items() if changed[pair] and changed[pair].keys() <= touched}
            left = differences(baton.repo, [(first, after) for first, _ in mine.values()])
            found |= {oid for oid, pair in mine.items() if not changed[pair].keys() & left[pair[0], after].keys()}
    return found


def summary(baton: Baton, given: SummaryPart, folders: Mapping[str, str]) -> list[str]:
    """Return the lines of the summary. Secrets are replaced, and so are the paths of work trees and home folders, and of the
    ``folders`` given, each with what it is called. Raises ScanError."""
    redact, away = scanner(baton), taken_back(baton, baton.store.below(given.items[-1]).items[::-1])
    items = tuple(s for s in given.items if s.id not in away) or given.items
    last = items[-1]
    roots = {s.checkpoint.files.worktree.path for s in given.items if s.checkpoint.files}
    beside = {root: f"../{os.path.basename(root)}" for _, _, root in worktrees(baton.repo)}
    homes = {found[0]: "~" for found in map(_HOME.match, roots) if found}  # also of the machines that others worked on
    located = unlocated({**homes, **folders, **beside, **dict.fromkeys(roots, ".")})

    def text(said: str) -> str:
        return markdown(cut(first_line(located(redact.text(said))), _LONGEST))

    end = given.items[-1].checkpoint
    gone = {one.digest for one in end.standing.withdrawn} if end.standing else set[str]()
    gone = gone.difference(map(digest, end.decisions)) if gone else gone
    decisions: dict[str, str] = {}
    for stored, one in ((s, one) for s in given.items if s.checkpoint.carried is None for one in s.checkpoint.decided):
        origin = " (foreign)" if one.foreign else _origin(stored)
        decisions[one.text] = f"{text(one.text)}{' (withdrawn)' if digest(one.text) in gone else ''}{origin}"
    parts = [
        ("What was done", list(dict.fromkeys(_done(baton, items, text)))),
        ("Decisions", [f"- {said}" for said in decisions.values()]),
        ("Tests", list(_tests(baton, last, text))),
        ("Models and tokens", list(_used(given.items, text))),
        ("Commits", list(_commits(baton, given, text))),
        ("Files", list(_files(baton, given.begin, last, text))),
        ("Open", list(_open(last, text))),
    ]
    lines: list[str] = []
    for heading, rows in parts:
        lines += [f"## {heading}", "", *rows, ""] if rows else []
    return lines[:-1]


def unlocated(folders: Mapping[str, str]) -> Callable[[str], str]:
    """Return what replaces the paths of folders in a text by what each is called, and those below ``.`` by their names in it.
    A path may be quoted, encoded, an address, as a shell writes it (``~``, ``$HOME``) or as Windows does."""
    known = {os.path.normpath(path): called for path, called in folders.items() if path.strip("/")}
    forms: dict[str, str] = {}
    for path in sorted(known, key=len):
        above = next((home for home, called in known.items() if called == "~" and path.startswith(f"{home}/")), "")
        names = path.removeprefix(above).strip("/").split("/")
        begin = rf"(?:{forms[above]}|~|\$HOME|\$\{{HOME\}})" if above else ""
        if names[0] == "mnt" and len(names) > 2 and len(names[1]) == 1:  # a drive of Windows, as its Linux has it
            begin, names = rf"(?:{_SLASH}mnt{_SLASH}{names[1]}|{names[1]}:)", names[2:]
        forms[path] = begin + "".join(_SLASH + "".join(map(_letter, name)) for name in names)
    called, either = [known[path] for path in reversed(forms)], "|".join(f"({form})" for form in reversed(forms.values()))
    pattern = re.compile(rf"{_BEFORE}(?:{either or '(?!)'})(?:{_SLASH}(?=[\w.])|(?![\w+~-]|\.\w))", re.I)

    def short(found: re.Match[str]) -> str:
        name = called[(found.lastindex or 1) - 1]
        slash = found[0][-1] if found[0][-1] in "/\\" else ""
        return "" if slash and name == "." else name + slash

    return lambda text: pattern.sub(short, text)


def _letter(char: str) -> str:
    """Return the pattern of a character of a file's name."""
    return char if char.isalnum() and char.isascii() else rf"(?:\\?{re.escape(char)}|%{os.fsencode(char).hex('%')})"


def markdown(text: str) -> str:
    """Escape a text so that Markdown shows it as it is: no markup, no link, no mention, no reference that closes an issue."""
    broken = _LINK.sub("\\g<0>\0", text)
    escaped = _SPECIAL.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", broken)
    return escaped.replace("\0", "<!-- -->")  # which no reader sees, and no address holds


def _origin(stored: Stored) -> str:
    """Return the mark behind words that came from elsewhere."""
    return " (foreign)" if stored.foreign_words else ""


def _done(baton: Baton, items: Sequence[Stored], text: Callable[[str], str]) -> Iterator[str]:
    """Yield a line for each written step, and for each turn that changed a file, at its last checkpoint."""
    parts: dict[object, list[Stored]] = {}
    for stored in items:
        parts.setdefault(turn_key(stored.checkpoint) or stored.id, []).append(stored)
    last = {found[-1].id: found for found in parts.values()}
    for stored in items:
        c = stored.checkpoint
        foreign, of = _origin(stored), last.get(stored.id, ())
        if c.kind == "manual":
            note = f": {text(c.note)}" if c.note else ""
            state = f" ({verdict(stored)})" if c.validation != "pending" else ""
            yield f"- **{text(c.step)}**{note}{state}{foreign}"
        elif (prompt := _prompt(c)) and (many := _many(baton, of)):
            cut_off = ", not ended" if at_prompt(c.kind, c.step) else ""
            yield f"- {text(prompt)} ({counted(many, 'file')}{cut_off}){foreign}"


def _many(baton: Baton, turn: Sequence[Stored]) -> int:
    """Return how many files a turn changed, by its checkpoints; of a track's first turn also where it committed them before the
    first checkpoint of all."""
    of = [one for one in turn if _changed(one)]
    if not of and turn and (c := turn[-1].checkpoint).turn and c.turn.head:
        pair = _first_tree(baton, c), turn[-1].tree
        return len(differences(baton.repo, [pair])[pair])
    return _changed(of[0]) if len(of) == 1 else _count(baton, of)


def _first_tree(baton: Baton, c: Checkpoint) -> Oid:
    return baton.store.base_tree(baton.store.first_base(c))


def _changed(stored: Stored) -> int:
    files = stored.checkpoint.files
    return files.changed if files is not None else 0


def _count(baton: Baton, items: Sequence[Stored]) -> int:
    """Count the paths that checkpoints changed."""
    pairs: list[tuple[Oid, Oid]] = []
    for stored in items:
        below = next(islice(baton.store.newest(stored), 1, None), None)
        pairs.append((below.tree if below is not None else _first_tree(baton, stored.checkpoint), stored.tree))
    return len({path for found in differences(baton.repo, pairs).values() for path in found})


def _prompt(c: Checkpoint) -> str:
    """Return the prompt of the turn of a checkpoint; empty where it is of none."""
    if c.step == BEFORE_PROMPT:
        return ""
    asked = c.observed.asked if c.observed is not None else ()
    if asked and (turn_of(c) or not is_turn(c.kind, c.step)):
        return turn_prompt(c.step, asked).text
    return c.step.partition(": ")[2].rpartition(LAST_PROMPT)[2] if is_turn(c.kind, c.step) else ""


def _tests(baton: Baton, last: Stored, text: Callable[[str], str]) -> Iterator[str]:
    """Yield the newest result of each test command, and whether files changed since."""
    seen = last.checkpoint.observed
    for run, later in zip(seen.tests if seen else (), tests_then(baton.store, last), strict=True):
        changed = since_run(run, later)
        stale = "" if changed == () else ", before the last changes" if changed else ", what changed since is unknown"
        yield f"- {text(run.command)}: {test_result(run)}{stale}"
        yield from (f"  - failed: {text(name)}" for name in run.names)


def _used(items: Sequence[Stored], text: Callable[[str], str]) -> Iterator[str]:
    """Yield the tokens of each day's turns, also of those with changes that were taken back, and of all."""
    days: dict[date, list[Stored]] = {}
    for stored in reversed(items):
        days.setdefault(stored.checkpoint.created.astimezone().date(), []).append(stored)
    found = {str(day): turns_usage(of) for day, of in reversed(days.items())}
    found |= {"in all": turns_usage(items[::-1])} if len(found) > 1 else {}
    for name, used in found.items():
        models = (f"`{name}`" if _PLAIN_NAME.fullmatch(name) else text(name) for name in used.models)  # no number is a link
        if said := turns_tokens(replace(used, models=tuple(models))):
            yield f"- {name}: {said}"


def _commits(baton: Baton, given: SummaryPart, text: Callable[[str], str]) -> Iterator[str]:
    """Yield the commits of the branch that the checkpoints stand on, since they began; the oldest first."""
    if given.head is None or given.head == given.base:
        return
    range_ = [given.head, *([f"^{given.base}"] if given.base else [])]
    form = ("--reverse", "--no-merges", "--no-color", "--no-show-signature", "--encoding=UTF-8", "-z", "--format=%h %s")
    told = baton.repo.git.run("log", *form, *range_, "--").out.decode("utf-8", "replace").split("\0")
    rows = [row for row in told if row.strip()]
    yield from (f"- {oid} {text(said)}".rstrip() for oid, _, said in (row.partition(" ") for row in rows[-_FILES:]))
    if len(rows) > _FILES:
        yield f"- and {len(rows) - _FILES} before them"


def _files(baton: Baton, begin: Oid, last: Stored, text: Callable[[str], str]) -> Iterator[str]:
    """Yield the files that differ between the two ends, with the lines that came and went."""
    if last.checkpoint.files is None:
        return
    told = zsplit(baton.repo.git.out("diff-tree", "-r", "-z", "--numstat", "--no-renames", begin, last.tree))
    for row in told[:_FILES]:
        added, removed, path = row.split("\t", 2)
        yield f"- {text(quoted(path))} ({'binary' if added == '-' else f'+{added} -{removed}'})"
    if len(told) > _FILES:
        yield f"- and {len(told) - _FILES} more"


def _open(last: Stored, text: Callable[[str], str]) -> Iterator[str]:
    """Yield the open items of the agents' plans, and the next command."""
    c = last.checkpoint
    for plan in current_plans(c.observed) if c.observed else ():
        yield from (f"- [ ] {text(item.text)}" for item in plan.items if item.state in ("doing", "open"))
    if c.next_cmd:
        yield f"- next: {text(c.next_cmd)}{_origin(last)}"
