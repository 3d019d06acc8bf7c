"""Queries of the search index, and their results: turns, newest first, each with its passages."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime

from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.model import Stored
from gitbaton.base.values import replace, value
from gitbaton.care.search.index import (
    AGENT,
    CALL,
    FAULTS,
    OTHER,
    OUTPUT,
    PROMPT,
    USER,
    WORDS,
    SearchIndex,
    is_damaged,
    opened_index,
    update,
    wanted_refs,
)
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Problem
from gitbaton.checkpoints.store.refs import META
from gitbaton.checkpoints.store.state import drop_search_index, search_index

PLACES = {
    "words": (WORDS,),
    "prompts": (PROMPT, USER),
    "conversations": (PROMPT, USER, AGENT, CALL, OUTPUT, OTHER),
}
"""Places to look into, and the passages of each."""
CALLED = {WORDS: "words", PROMPT: "prompt", USER: "prompt", AGENT: "agent", CALL: "call", OUTPUT: "output", OTHER: "other"}
SHOWN = 3  # passages of one turn that are told
_LINES = 2  # of one passage that are told
_WIDE = 240  # characters of such a line
_MANY = 64  # three letters each, by which the index is asked
_TERMS = 1000  # of the index that a word of two letters may begin
_CONTROL = re.compile(r"[\0-\x1f\x7f]+")


@value
class SearchQuery:
    """A search for texts that one passage holds all: in which places, which track, since when, in how many turns at most."""

    texts: tuple[str, ...]
    places: tuple[str, ...] = ("words", "conversations")
    track: str | None = None
    since: datetime | None = None
    limit: int = 20


@value
class FoundPassage:
    """A passage that was found: its kind (of ``CALLED``), the lines that hold what was looked for, and where in each."""

    who: str
    lines: tuple[str, ...]
    hits: tuple[tuple[tuple[int, int], ...], ...]
    line: int


@value
class TurnHit:
    """A checkpoint with the passages of its words and turn, and how many ``more`` there are. ``stored``: None for the end of a
    conversation that no checkpoint holds yet: that of the ``session`` of an ``agent``."""

    stored: Stored | None
    passages: tuple[FoundPassage, ...]
    more: int
    agent: str = ""
    session: str = ""
    at: int = 0


@value
class SearchResult:
    """The turns that were found, newest first, whether there is ``more``, and what could not be read. ``behind``: how many refs
    are not in the index yet; ``note``: why the index was of no use."""

    turns: tuple[TurnHit, ...]
    more: bool
    problems: tuple[Problem, ...]
    behind: int = 0
    note: str = ""


def texts_of_line(text: str) -> tuple[str, ...]:
    """Return what is looked for by a line: words, and what stands in double quotes as it is."""
    return tuple(quoted or word for quoted, word in re.findall(r'"([^"]+)"|(\S+)', text))


def refuse_nothing(texts: Sequence[str]) -> None:
    """Raise UsageError where nothing is looked for, or what can be in no words that are stored."""
    for text in texts:
        if not text.strip():
            raise UsageError("what is looked for is empty")
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            raise UsageError(f"{in_quotes(text)} is not UTF-8, as all words are that are stored")
    if not texts:
        raise UsageError("nothing is given to look for")


def search(baton: Baton, query: SearchQuery) -> SearchResult:
    """Bring the index up to date, and look into it; an index that is damaged is made anew. Raises UsageError as above,
    GitError."""
    refuse_nothing(query.texts)
    if not query.places or (not os.path.lexists(search_index(baton.repo)) and wanted_refs(baton).keys() == {META}):
        return SearchResult(turns=(), more=False, problems=())  # where nothing is, no index is made
    note, discarded = "", False
    while True:
        with opened_index(baton, note) as index:
            try:
                behind = update(baton, index)
                baton.repo.progress("", 0, 0)
                turns, more = _found(baton, index, query)
                return SearchResult(
                    turns=tuple(turns), more=more, problems=tuple(index.problems()), behind=behind, note=index.note
                )
            except FAULTS as error:
                if note:
                    raise
                note = str(error) if discarded or not is_damaged(error) else ""
        if not note:
            drop_search_index(baton.repo)
            discarded = True


def _found(baton: Baton, index: SearchIndex, query: SearchQuery) -> tuple[Iterator[TurnHit], bool]:
    """Return the turns with a passage that holds all, and whether there are more than are wanted."""
    patterns = [_pattern(text) for text in query.texts]
    shown, kinds = dict[tuple[int, int], list[FoundPassage]](), {kind for place in query.places for kind in PLACES[place]}
    counts, times, seen = dict[tuple[int, int], int](), dict[tuple[int, int], int](), set[tuple[tuple[int, int], int]]()
    for number, at, kind, turn, talk, line, total in _candidates(index, query, kinds):
        key = (turn, 0 if turn else talk)
        if len(shown) == query.limit and key not in shown:
            text = index.text(number)
            if all(pattern.search(text) for pattern in patterns):
                return _turns(baton, index, shown, counts, times), True
            continue
        text = index.text(number)
        if (
            (key, total) in seen
            or (kind == PROMPT and (key, USER) in seen)
            or not all(pattern.search(text) for pattern in patterns)
        ):
            continue
        seen |= {(key, total), (key, kind)}
        others = 0
        if len(shown.get(key, ())) < SHOWN:
            clean = baton.redactor.text(text)
            if not all(pattern.search(clean) for pattern in patterns):
                continue  # it was part of a secret
            passage = _excerpt(clean, patterns, CALLED[kind], line)
            if kind == WORDS:
                passage, others = _with_rest(clean, patterns, passage)
            shown.setdefault(key, []).append(passage)
        counts[key], times[key] = counts.get(key, 0) + 1 + others, at
    return _turns(baton, index, shown, counts, times), False


def _candidates(index: SearchIndex, query: SearchQuery, kinds: Collection[int]) -> Iterator[tuple[int, ...]]:
    """Yield the passages in which all may be, newest first."""
    where, values = [f"kind IN ({', '.join(map(str, sorted(kinds)))})"], list[object]()
    narrowed = _narrowed(index, query.texts) if index.narrow else ""
    if narrowed:
        where, values = [*where, "ft MATCH ?"], [*values, narrowed]
    if query.since is not None:
        where, values = [*where, "mark.at >= ?"], [*values, int(query.since.timestamp() * 1000)]
    if query.track is not None:
        where, values = [*where, "mark.turn IN (SELECT id FROM turn WHERE track = ?)"], [*values, query.track]
    tables = "ft JOIN mark ON mark.id = ft.rowid" if narrowed else "mark"
    sql = f"SELECT mark.id, mark.at, kind, turn, talk, line, sum FROM {tables} WHERE {' AND '.join(where)}"
    yield from index.database.execute(f"{sql} ORDER BY mark.at DESC, mark.turn DESC, talk = 0, mark.id", values)


def _narrowed(index: SearchIndex, texts: Sequence[str]) -> str:
    """Return a question for the index that all passages with these texts answer; empty where it has none for them."""
    grams, groups = dict[str, None](), list[str]()
    for piece in (_lowered(piece) for text in texts for piece in text.split()):
        if len(piece) > 2:
            grams |= {piece[at : at + 3]: None for at in range(len(piece) - 2)}
            continue
        terms = index.starting(piece, _TERMS)
        if terms is not None:
            groups.append(f"({' OR '.join(map(_term, terms))})" if terms else _term("\1\1\1"))
    return " AND ".join([*map(_term, [*grams][:_MANY]), *groups])


def _lowered(text: str) -> str:
    """Return a text in small letters as the index has them: each by itself, and one for one."""
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


def _term(text: str) -> str:
    doubled = text.replace('"', '""')
    return f'"{doubled}"'


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)


def excerpt(text: str, query: SearchQuery, who: str) -> FoundPassage:
    """Return a passage of another place, in which all of a query is, as one of the index."""
    return _excerpt(text, [_pattern(one) for one in query.texts], plain(who), 0)


def _excerpt(text: str, patterns: Sequence[re.Pattern[str]], who: str, line: int) -> FoundPassage:
    """Return the lines of a passage that tell of it: the one with the most of what is looked for, and one with more of it."""
    left, rows, hits = [*patterns], list[str](), list[tuple[tuple[int, int], ...]]()
    while left and len(rows) < _LINES:
        best, most = (0, 0, 0), 0
        for match in left[0].finditer(text):
            start, end = text.rfind("\n", 0, match.start()) + 1, text.find("\n", match.end())
            end = end if end >= 0 else len(text)
            count = sum(pattern.search(text, start, end) is not None for pattern in left)
            best, most = ((start, match.start(), end), count) if count > most else (best, most)
            if count == len(left):
                break
        row = _cut(text, *best)
        rows.append(row)
        hits.append(_spans(row, patterns))
        left = [pattern for pattern in left[1:] if not pattern.search(row)]
    return FoundPassage(who=who, lines=tuple(rows), hits=tuple(hits), line=line)


def _with_rest(text: str, patterns: Sequence[re.Pattern[str]], passage: FoundPassage) -> tuple[FoundPassage, int]:
    """Add the other lines of a checkpoint's words with something of what is looked for; return how many are left out, too."""
    rows, starts = (
        dict.fromkeys(passage.lines),
        dict.fromkeys(text.rfind("\n", 0, match.start()) + 1 for pattern in patterns for match in pattern.finditer(text)),
    )
    for start in sorted(starts):
        hit = min(match.start() for pattern in patterns if (match := pattern.search(text, start)))
        end = text.find("\n", hit)
        rows[_cut(text, start, hit, end if end >= 0 else len(text))] = None
    lines = (*rows,)[:SHOWN]
    hits = tuple(_spans(row, patterns) for row in lines)
    return replace(passage, lines=lines, hits=hits), len(rows) - len(lines)


def _spans(row: str, patterns: Sequence[re.Pattern[str]]) -> tuple[tuple[int, int], ...]:
    return tuple(sorted({match.span() for pattern in patterns for match in pattern.finditer(row)}))


def _cut(text: str, start: int, hit: int, end: int) -> str:
    """Return a line of a text, or what is around a hit in a long one, as one line."""
    begin = start if hit - start < _WIDE // 2 else hit - _WIDE // 4
    row = text[begin : min(end, begin + _WIDE)]
    return plain(f"{'...' if begin > start else ''}{_CONTROL.sub(' ', row).strip()}{'...' if begin + _WIDE < end else ''}")


def _turns(
    baton: Baton,
    index: SearchIndex,
    shown: Mapping[tuple[int, int], list[FoundPassage]],
    counts: Mapping[tuple[int, int], int],
    times: Mapping[tuple[int, int], int],
) -> Iterator[TurnHit]:
    """Yield what was found with its checkpoints, as they lie in git; one that cannot be read is none."""
    store = baton.store
    store.chains()  # so that it is known which are only fetched
    for (turn, talk), passages in shown.items():
        stored, agent, session = None, "", ""
        for oid, track in index.all("SELECT link.oid, track FROM link JOIN turn ON id = turn WHERE turn = ?", turn):
            with suppress(RecordError):
                stored = store.stored(store.objects.read(oid, MAX_COMMIT), track, oid)
                break
        for (name,) in index.all("SELECT session FROM talk WHERE id = ?", talk):
            agent, _, session = str(name).partition("/")
        yield TurnHit(
            stored=stored,
            passages=tuple(passages),
            more=counts[turn, talk] - len(passages),
            agent=agent,
            session=session,
            at=times[turn, talk],
        )
