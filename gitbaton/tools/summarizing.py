"""Summary of a track in Markdown, for a pull request: what was done, decisions, tests, files and what is open."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import counted, first_line
from gitbaton.errors import NotFoundError
from gitbaton.git.run import zsplit
from gitbaton.model import Oid, Stored
from gitbaton.observed import current_plans, since_run, test_result
from gitbaton.render import quoted, verdict
from gitbaton.scanning.objects import scanner
from gitbaton.survey import tests_then
from gitbaton.values import value

_FILES = 50
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~&]|^[-+#]|^[0-9]+(?=[.)]))")
_MENTION = re.compile(r"([@#]|\bGH-|/(?:issues|pull)/)(?=\w)")


@value
class Part:
    """The checkpoints that are told of, oldest first, and the tree that they began with."""

    items: tuple[Stored, ...]
    begin: Oid


def part(baton: Baton, name: str | None, track: str | None) -> Part:
    """What ``TRACK``, ``CHECKPOINT`` or ``A..B`` means: a track from its first checkpoint on, or what came after A until B.
    Raises NotFoundError where nothing did."""
    first, dots, last = (name or "").partition("..")
    end = baton.lead(last or None, track) if dots else baton.lead(name, track)
    start = baton.lead(first or None, track) if dots else None
    chain = baton.store.below(end).items[::-1]
    items = chain if start is None else tuple(s for s in chain if s.checkpoint.created > start.checkpoint.created)
    if not items:
        raise NotFoundError(f"nothing came after '{first}' until '{last or end.checkpoint.track}'")
    return Part(items=items, begin=start.tree if start else baton.store.base_tree(items[0].checkpoint.head))


def summary(baton: Baton, given: Part, home: str) -> list[str]:
    """The lines of the summary; secrets are replaced, and so are the paths of this machine. Raises ScanError."""
    redact, items, last = scanner(baton), given.items, given.items[-1]
    places = {s.checkpoint.files.worktree.path for s in items if s.checkpoint.files}
    paths = [(f"{os.path.normpath(path)}/", "") for path in sorted(places, key=len, reverse=True) if path]
    paths += [(f"{home}/", "~/")] if len(home) > 1 else []

    def text(said: str) -> str:
        said = redact.text(said)
        for path, short in paths:
            said = said.replace(path, short)
        return markdown(first_line(said))

    decisions = dict.fromkeys(text(said) for s in items if s.checkpoint.carried is None for said in s.checkpoint.decisions)
    parts = [
        ("What was done", list(dict.fromkeys(_done(items, text)))),
        ("Decisions", [f"- {said}" for said in decisions]),
        ("Tests", list(_tests(baton, last, text))),
        ("Files", list(_files(baton, given.begin, last, text))),
        ("Open", list(_open(last, text))),
    ]
    lines: list[str] = []
    for heading, rows in parts:
        lines += [f"## {heading}", "", *rows, ""] if rows else []
    return lines[:-1]


def markdown(text: str) -> str:
    """A text that Markdown shows as it is: nothing becomes markup, mentions somebody or closes an issue."""
    escaped = _SPECIAL.sub(lambda found: f"{found[0]}\\" if found[0].isdigit() else f"\\{found[0]}", text)
    return _MENTION.sub(r"\1<!-- -->", escaped)


def _done(items: Sequence[Stored], text: Callable[[str], str]) -> Iterator[str]:
    """A line for each step that somebody wrote, and for each turn that changed a file."""
    for stored in items:
        c = stored.checkpoint
        foreign = " (foreign)" if stored.foreign_words else ""
        if c.kind == "manual":
            note = f": {text(c.note)}" if c.note else ""
            state = f" ({verdict(stored)})" if c.validation != "pending" else ""
            yield f"- **{text(c.step)}**{note}{state}{foreign}"
        elif c.observed and c.observed.asked and c.files and c.files.changed:
            yield f"- {text(c.observed.asked[-1].text)} ({counted(c.files.changed, 'file')}){foreign}"


def _tests(baton: Baton, last: Stored, text: Callable[[str], str]) -> Iterator[str]:
    """How each test command ended when it was last seen, and whether files changed since."""
    seen = last.checkpoint.observed
    for run, later in zip(seen.tests if seen else (), tests_then(baton.store, last), strict=True):
        changed = since_run(run, later)
        stale = "" if changed == () else ", before the last changes" if changed else ", what changed since is unknown"
        yield f"- {text(run.command)}: {test_result(run)}{stale}"
        yield from (f"  - failed: {text(name)}" for name in run.names)


def _files(baton: Baton, begin: Oid, last: Stored, text: Callable[[str], str]) -> Iterator[str]:
    """The files that differ between the two ends, with the lines that came and went."""
    if last.checkpoint.files is None:
        return
    told = zsplit(baton.repo.git.out("diff-tree", "-r", "-z", "--numstat", "--no-renames", begin, last.tree))
    for row in told[:_FILES]:
        added, removed, path = row.split("\t", 2)
        count = "binary" if added == "-" else f"+{added} -{removed}"
        yield f"- {text(quoted(path))} ({count})"
    if len(told) > _FILES:
        yield f"- and {len(told) - _FILES} more"


def _open(last: Stored, text: Callable[[str], str]) -> Iterator[str]:
    """What is left of the agents' plans, and what was to come next."""
    c = last.checkpoint
    for plan in current_plans(c.observed) if c.observed else ():
        yield from (f"- [ ] {text(item.text)}" for item in plan.items if item.state in ("doing", "open"))
    if c.next_cmd:
        yield f"- next: {text(c.next_cmd)}"
