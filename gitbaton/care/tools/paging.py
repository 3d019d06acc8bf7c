"""Page: tracks over time as one HTML file that asks for nothing else, and is a plain list without its script."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from html import escape
from itertools import groupby, islice

from gitbaton.base.codec import counted, first_line, plain, timestamp
from gitbaton.base.model import Observed, Oid, Stored
from gitbaton.base.secrets import Redactor
from gitbaton.base.system.files import shipped
from gitbaton.base.values import replace, value
from gitbaton.care.scanning.objects import is_clean, scanner
from gitbaton.care.tools.blaming import commits, placed, safety_chains
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.overlap import at_hand, sentence
from gitbaton.checkpoints.render import age, current_plans, decision_texts, done, plan_items, quoted, test_line, title, verdict
from gitbaton.checkpoints.store.chain import replay
from gitbaton.git.treediff import patch, patches, raw_differences

DIFFS = 200  # checkpoints whose changes are shown
DIFF_BYTES = 20 << 10
_PATHS = 20  # of a checkpoint that are named
_ROWS = 100  # of one list: a browser lays out the lists that can be seen
_DIGITS = 10  # of an id
_LONG = 400  # characters of a text that is not remembered
_LANES = 12  # colours; further tracks begin again
_SIGNS = {"green": "+", "failed": "x", "stale": "~"}
MARK = b'<meta name="generator" content="git baton">'


@value
class HtmlPage:
    """A page's bytes, how many checkpoints it shows, and how many diffs are left out of it because of what looks like a
    secret."""

    data: bytes
    checkpoints: int
    left_out: int


def page(baton: Baton, items: Sequence[Stored], name: str) -> HtmlPage:
    """Return the page of checkpoints; ``name`` is the repository's. Their words are redacted. Raises ScanError, GitError."""
    redact = scanner(baton)
    name = redact.text(name)
    shown = sorted(items, key=lambda s: s.checkpoint.created, reverse=True)
    lanes = _Lanes(shown, redact)
    changes = _PageChanges(baton, shown, redact, _judged(baton, items))
    known = {s.id: s for s in shown}
    beside = _overlaps(baton, redact)

    def row(stored: Stored) -> tuple[str, bool]:
        clean = _clean(baton.store.read(stored), redact)
        diff, withheld = changes.diff(stored)
        return _checkpoint(clean, lanes, changes, diff, beside.get(stored.id, ())), withheld

    made = list(baton.store.mapped(row, shown, lambda s: (s,)))
    rows = [(s.checkpoint.created, html) for s, (html, _) in zip(shown, made, strict=True)]
    rows += [row for states in safety_chains(baton) for row in _restores(baton, states, known, lanes, redact)]
    rows += _commits(baton, shown, lanes, redact)
    rows.sort(key=lambda row: row[0], reverse=True)
    return HtmlPage(
        data=_whole(name, baton.clock(), lanes.numbers, list(_by_day(rows)), len(shown)).encode("utf-8"),
        checkpoints=len(shown),
        left_out=sum(withheld for _, withheld in made),
    )


def _overlaps(baton: Baton, redact: Redactor) -> dict[Oid, list[str]]:
    """The newest checkpoints of live tracks that overlap, each with a line for each file."""
    found: dict[Oid, list[str]] = {}
    for one in at_hand(baton).found:
        for side in (one, one.turned()):
            lines = [redact.text(sentence(file, side.other, baton.clock())) for file in side.files]
            found.setdefault(side.mine.stored.id, []).extend(lines)
    return found


def _clean(stored: Stored, redact: Redactor) -> Stored:
    """Return a checkpoint without secrets in its words and names, also where baton.redact is off: a page is given away."""
    if is_clean(redact, stored):
        return stored
    c = redact.checkpoint(stored.checkpoint)
    branch = None if c.branch is None else redact.text(c.branch)
    return replace(stored, checkpoint=replace(c, track=redact.text(c.track), branch=branch))


class _Lanes:
    """Lanes of the tracks that are shown, each by its name as it is told, in the order in which they are met."""

    def __init__(self, shown: Sequence[Stored], redact: Redactor) -> None:
        self.names = {track: redact.text(track) for track in dict.fromkeys(s.checkpoint.track for s in shown)}
        self.numbers = {name: number for number, name in enumerate(dict.fromkeys(self.names.values()))}

    def of(self, stored: Stored) -> int:
        """The lane of a checkpoint's track."""
        track = stored.checkpoint.track
        return self.numbers[self.names.get(track, track)]


class _PageChanges:
    """Changes of each checkpoint against the one before it, of a track's first one against HEAD when its turn began."""

    def __init__(self, baton: Baton, shown: Sequence[Stored], redactor: Redactor, signed: Mapping[Oid, str]) -> None:
        self.baton, self.redactor, self.signed = baton, redactor, signed
        trees = {s.id: s.tree for s in shown if s.checkpoint.files}
        self.steps: dict[Oid, tuple[Oid, Oid]] = {}
        for stored in shown:
            c = stored.checkpoint
            before = trees.get(c.previous) if c.previous else baton.store.base_tree(baton.store.first_base(c))
            if c.files is not None and before is not None:
                self.steps[stored.id] = (before, stored.tree)
        self.paths = raw_differences(baton.repo, sorted({step for step in self.steps.values() if step[0] != step[1]}))
        self.newest = {s.id for s in islice((s for s in shown if self.named(s)), DIFFS)}
        self.patches = patches(baton.repo, [self.steps[oid] for oid in self.newest], DIFF_BYTES)

    def named(self, stored: Stored) -> Sequence[str]:
        """The paths that a checkpoint changed."""
        step = self.steps.get(stored.id)
        return list(self.paths.get(step, ())) if step else []

    def html(self, stored: Stored, diff: str) -> str:
        """The paths, and the diff or how to see it."""
        paths = self.named(stored)
        if not paths:
            return ""
        more = f"<li>and {len(paths) - _PATHS} more" if len(paths) > _PATHS else ""
        listed = f"<ul>{''.join(f'<li>{_text(self.redactor.text(quoted(path)))}' for path in paths[:_PATHS])}{more}</ul>"
        shows = self._shows(stored)
        diff = diff or (f"<p>The diff is not here{shows}</p>" if shows else "")
        return f"<h3>{counted(len(paths), 'file')}</h3>{listed}{diff}"

    def _shows(self, stored: Stored) -> str:
        """The command that shows a diff; empty where there is none."""
        previous = stored.checkpoint.previous
        return f": <code>git baton diff {previous[:_DIGITS]} {stored.id[:_DIGITS]}</code> shows it" if previous else ""

    def diff(self, stored: Stored) -> tuple[str, bool]:
        """The diff of one of the newest checkpoints, and whether that is left out because of what looks like a secret."""
        if stored.id not in self.newest:
            return "", False
        shows = self._shows(stored)
        step = self.steps[stored.id]
        raw = self.patches[step] if step in self.patches else patch(self.baton.repo, step)
        if len(raw) > DIFF_BYTES:
            return f"<p>The diff is too long{shows}</p>", False
        text = raw.decode("utf-8", "replace")
        if self.redactor.find(text, sure=True):
            return f"<p>The diff is left out: it holds what looks like a secret{shows}</p>", True
        lines = "".join(map(_line, text.split("\n")))
        return f"<details><summary>diff</summary><pre>{lines}</pre></details>", False


def _judged(baton: Baton, items: Sequence[Stored]) -> Mapping[Oid, str]:
    """Return what is said of the signatures of the newest checkpoints, where there are any in their tracks."""
    tracks = {s.checkpoint.track for s in items}
    there = tracks if baton.settings.sign else baton.store.signed(tracks)
    newest = sorted(items, key=lambda s: s.checkpoint.created, reverse=True)
    asked = [s for s in newest if s.checkpoint.track in there][:DIFFS]
    if not asked:
        return {}
    from gitbaton.checkpoints.store.signatures import verdicts  # late: most pages show none

    return {oid: verdict.words for (_, oid), verdict in verdicts(baton.store, asked)[0].items()}


def _line(row: str) -> str:
    """A line of a diff."""
    tag = {"+": "ins", "-": "del", "@": "b"}.get(row[:1], "")
    said = _text(row)
    return f"<{tag}>{said}</{tag}>\n" if tag and not row.startswith(("+++", "---")) else f"{said}\n"


def _checkpoint(stored: Stored, lanes: _Lanes, changes: _PageChanges, diff: str, overlaps: Sequence[str]) -> str:
    c = stored.checkpoint
    step, ran = title(stored)
    result = ran.result if ran else verdict(stored)
    state = "green" if result == "passed" else result
    word = f"{_SIGNS[state]} {result}" if state in _SIGNS else ""
    seen = c.observed or Observed()
    pairs = [
        *(("step", c.step), ("note", c.note), ("next", c.next_cmd), ("label", c.label or "")),
        *(("overlap", text) for text in overlaps),
        *(("decision", text) for text in decision_texts(stored)),
        *(("prompt", one.text) for one in seen.asked),
        *(("tests", test_line(run, age(run.ended, c.created), run.edited)) for run in seen.tests),
        *(("plan", "\n".join(plan_items(plan))) for plan in current_plans(seen)),
        *(("agent", c.agent.name if c.agent else ""), ("branch", c.branch or "")),
        ("signature", changes.signed.get(stored.id, "")),
    ]
    words = "".join(f"<dt>{key}<dd>{_text(text)}" for key, text in pairs if text.strip())
    ends = f'<dt>head<dd class="o">{c.head}' if c.head else ""
    inside = f'<dl><dt>id<dd class="o">{stored.id}{words}{ends}</dl>{changes.html(stored, diff)}'
    count = len(changes.named(stored))
    about = f'<span class="s {state}">{word}</span><small>{counted(count, "file") if count else ""}</small>'
    return _row(
        "c m" if c.kind == "manual" else "c a",
        lanes.of(stored),
        stored,
        first_line(step),
        about,
        inside,
        "overlaps" if overlaps else "",
    )


def _restores(
    baton: Baton, states: Sequence[Stored], known: Mapping[Oid, Stored], lanes: _Lanes, redact: Redactor
) -> Iterator[tuple[datetime, str]]:
    """Yield what was restored, undone and redone in a work tree, in the lanes of the checkpoints that were restored."""
    steps, there = replay(baton.store, states), {s.id: s for s in states}
    for stored in states:
        begun = there[steps.begun.get(stored.id, stored.id)].checkpoint.restore
        target = known.get(begun.target) if begun is not None else None
        if target is not None and stored.checkpoint.restore is not None:
            classes = "r g" if stored.checkpoint.restore.op == "redo" else "r"
            mark = "undone" if stored.id in steps.undone else ""
            row = _row(classes, lanes.of(target), stored, done(_clean(stored, redact).checkpoint), mark=mark)
            yield stored.checkpoint.created, row


def _row(classes: str, lane: int, stored: Stored, title: str, about: str = "", inside: str = "", mark: str = "") -> str:
    """A line of the list, which opens where there is something inside."""
    c = stored.checkpoint
    when = f'<time datetime="{timestamp(c.created)}">{_clock(c.created)}</time>'
    oid = f"<code>{stored.id[:_DIGITS]}</code>" if inside else ""
    mark = ", ".join(filter(None, ("foreign" if stored.foreign_words else "", mark)))
    marked = f'<em class="f">{mark}</em>' if mark else ""
    head = f"<i></i>{when}{oid}{marked}<span>{_text(title)}</span>{about}<small class=t>{_text(c.track)}</small>"
    body = f"<details><summary>{head}</summary><div>{inside}</div></details>" if inside else f"<p>{head}</p>"
    return f'<li class="{classes} l{lane % _LANES}" data-t="{lane}">{body}</li>'


def _clock(moment: datetime) -> str:
    """Return the hour and minute of a time, where the page is made; ``strftime`` takes longer."""
    return moment.astimezone().isoformat()[11:16]


def _commits(baton: Baton, shown: Sequence[Stored], lanes: _Lanes, redact: Redactor) -> Iterator[tuple[datetime, str]]:
    """The commits that checkpoints stand on, each beside the lane of the first track that knew it."""
    first = {s.checkpoint.head: lanes.of(s) for s in shown}
    known = {s.checkpoint.head: s.checkpoint.created for s in shown}
    for place, commit in placed(baton, commits(baton, known), known):
        at, lane = commit.created, first[commit.oid]
        head = f'<i></i><time datetime="{timestamp(at)}">{_clock(at)}</time><code>{commit.oid[:_DIGITS]}</code>'
        said = f"<span>commit: {_text(redact.text(commit.summary))}</span>"
        yield place, f'<li class="k l{lane % _LANES}" data-t="{lane}"><p>{head}{said}</p></li>'


def _by_day(rows: Sequence[tuple[datetime, str]]) -> Iterator[str]:
    for day, group in groupby(rows, key=lambda row: row[0].astimezone().date()):
        yield f'<li class="day"><h2>{day:%A, %Y-%m-%d}</h2></li>'
        yield from (row for _, row in group)


def _whole(name: str, now: datetime, lanes: Mapping[str, int], rows: Sequence[str], count: int) -> str:
    style, script = (shipped(file) for file in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )
    legend = "".join(
        f'<label class="l{lane % _LANES}"><input type="checkbox" hidden checked value="{lane}"><i></i>{_text(track)}</label>'
        for track, lane in lanes.items()
    )
    lists = "\n".join("\n".join(["<ol>", *rows[at : at + _ROWS], "</ol>"]) for at in range(0, len(rows), _ROWS))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="git baton">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width,initial-scale=1"><meta name="referrer" content="no-referrer">
<title>{_text(name)}: {counted(count, "checkpoint")}</title>
<style>{style}</style></head>
<body><header><h1>{_text(name)}</h1><p>{counted(count, "checkpoint")} of {counted(len(lanes), "track")}, \
written <time datetime="{timestamp(now)}">{now.astimezone():%Y-%m-%d %H:%M}</time> by git baton</p>
<form role="search" hidden><input type="search" id="q" placeholder="search words and paths" aria-label="search words and paths">
<output for="q"></output><kbd>/ search, j k move, enter unfolds</kbd></form>
<fieldset><legend>tracks</legend>{legend}</fieldset></header>
<main class="n{min(len(lanes), _LANES)}">
{lists}
</main>
<script>{script}</script></body></html>
"""


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _text(text: str) -> str:
    """A text as HTML shows it, whatever it holds; each checkpoint of a track repeats what the one before it says."""
    return _short_text(text) if len(text) < _LONG else _short_text.__wrapped__(text)


@lru_cache(maxsize=4096)
def _short_text(text: str) -> str:
    return escape(plain(text, keep="\n\t"))
