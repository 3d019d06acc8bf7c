"""``git baton search``."""

import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import Json, counted, in_quotes, os_error, plain, timestamp
from gitbaton.base.errors import BatonError, GitError, NotARepositoryError, UsageError
from gitbaton.base.model import Stored
from gitbaton.base.values import cast, replace
from gitbaton.care.search.finding import (
    PLACES,
    SHOWN,
    FoundPassage,
    SearchQuery,
    SearchResult,
    TurnHit,
    excerpt,
    refuse_nothing,
    search,
)
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell, porcelain, stored_document, title
from gitbaton.checkpoints.store.imported import commits
from gitbaton.cli.common import (
    AsJson,
    Nul,
    Porcelain,
    left_out,
    located,
    looking,
    one_of,
    opened,
    paged,
    print_json,
    through_pager,
)
from gitbaton.cli.look import Look
from gitbaton.cli.options import AFTER, Argument, Invocation, Option
from gitbaton.git.registry import listed, place_of, remember
from gitbaton.git.repo import discover

if TYPE_CHECKING:
    from datetime import datetime

DIFFS = "diffs"
COLUMNS = ("id", "track", "created", "in", "command", "passage")
_COUNT = 20
_NO_DIFFS = "imported turns have no files, so --in diffs does not look at them; --in conversations looks at their edits"


def command(
    ctx: Invocation,
    words: Annotated[list[str], Argument(metavar="WORDS...", help='All of them; "of several words" as they stand.')],
    places: Annotated[
        Optional[list[str]],
        Option("--in", metavar="PLACE", help="In words, prompts, conversations or diffs; default: all but diffs."),
    ] = None,
    track: Annotated[Optional[str], Option("--track", metavar="NAME", help="Only in this track; default: all.")] = None,
    since: Annotated[
        Optional[str], Option("--since", "--after", metavar="DATE", help="Not older: '2 hours ago', '2026-01-31'.")
    ] = None,
    limit: Annotated[int, Option("-n", "--max-count", metavar="N", min=1, help="Find at most N turns; -3 is -n 3.")] = _COUNT,
    everywhere: Annotated[
        bool, Option("--all-repos", help="In all repositories of yours with checkpoints, not in this one alone.")
    ] = False,
    json: AsJson = False,
    stable: Porcelain = False,
    nul: Nul = False,
) -> int:
    """Find what was said and written, in all tracks and stored conversations, newest first.

    A turn is found where all WORDS stand together: in a checkpoint's own words (step, note, decisions, next_cmd, label), or in
    one message of its conversation: a prompt, what the agent said, a tool's call or output (of a long one, in one part of some
    fifty lines). Upper and lower case are the same, and a part of a word counts: 'refund' finds 'refunds'. Below each turn
    stand the passages, and the command that shows them.

    PLACE is words, prompts (what the user asked), conversations (prompts included) or diffs, and may be given several times. In
    diffs a turn is found that brought all WORDS into one file, or took them out of it, letter for letter; git compares, which
    takes longer. Else an index in the git directory makes it fast: it follows the refs at every search, and may be removed at
    any time.

    --all-repos looks into every repository on the list that is kept in ~/.local/state/gitbaton/repositories (XDG_STATE_HOME):
    those in which you took a checkpoint or searched, but for those with baton.registry=false. It works outside of any, too.

    Exit status: 0 where something is found, 1 where nothing is.

    Examples:
        git baton search refund webhook
        git baton search "rate limit" --in prompts --since "2 weeks ago"
        git baton search parse_config --track parser
        git baton search "connection pool" --all-repos
    """
    one_of(json=json, porcelain=stable or nul)
    quiet = json or stable or nul
    for place in places or ():
        if place not in (*PLACES, DIFFS):
            *others, last = map(in_quotes, (*PLACES, DIFFS))
            raise UsageError(f"--in is {in_quotes(place)}; it can be {', '.join(others)} or {last}")
    if 0 < (ctx.meta.get(AFTER) or 0) < len(words):
        *_, path = words
        hint = f"'git baton log -- {in_shell(path)}' lists what changed it; '--in diffs' finds words in what changed"
        raise UsageError(f"{in_quotes(path)} comes after '--', and search takes no paths", hint)
    texts = tuple(word[1:-1] if len(word) > 2 and word[0] == word[-1] == '"' else word for word in words)
    refuse_nothing(texts)

    def asked(baton: Baton) -> SearchQuery:
        return SearchQuery(
            texts=texts,
            places=tuple(place for place in places or ("words", "conversations") if place != DIFFS),
            track=track,
            since=_moment(baton, since),
            limit=limit,
        )

    unseen = list[str]()

    def find(baton: Baton, query: SearchQuery, place: str) -> SearchResult:
        found = search(baton, query)
        if DIFFS in (places or ()) and track is None and not unseen and commits(baton.store, limit=1):
            unseen.append(_NO_DIFFS)
        return _with_diffs(baton, query, found, place) if DIFFS in (places or ()) else found

    if everywhere:
        any_found = _everywhere(ctx, asked, find, limit, json=json, stable=stable, nul=nul)
        if not any_found:
            _say_nothing(words, places or [], track, since, quiet=quiet, everywhere=True)
        terminal.tell_hints([] if quiet else unseen)
        return 0 if any_found else 1
    with opened(ctx, talks="indexing for search") as baton:
        remember(baton.repo)
        found = find(baton, asked(baton), ctx.obj.repo_root or os.getcwd())
        if json:
            print_json(document(baton, found))
        elif stable or nul:
            rows = [_fields(baton, one, passage) for one in found.turns for passage in one.passages]
            foreign = [one.stored for one in found.turns if one.stored is not None]
            terminal.write(porcelain(COLUMNS, rows, nul=nul, foreign=foreign, more=["# more"] if found.more else []))
        elif found.turns:
            with paged(ctx, baton) as look:
                terminal.say_lines(lines(baton, look, found))
        elif track is None or baton.tip(track):
            _say_nothing(words, places or [], track, since)
        terminal.tell_hints([] if quiet else unseen)
        left_out(found.problems)
        if found.behind:
            terminal.warn(f"{counted(found.behind, 'ref')} not searched yet: another process is indexing them")
        if found.note:
            terminal.warn(f"the search index cannot be used: {plain(found.note)}")
        if track is not None and not found.turns:
            baton.tip(track)  # says that there is none
    return 0 if found.turns else 1


def _everywhere(
    ctx: Invocation,
    asked: Callable[[Baton], SearchQuery],
    find: Callable[[Baton, SearchQuery, str], SearchResult],
    limit: int,
    *,
    json: bool,
    stable: bool,
    nul: bool,
) -> bool:
    """Search all repositories on the user's list, and this one; print what is found, newest first. Whether anything is. Raises
    UsageError where it is the question that is wrong, and no repository."""
    with suppress(NotARepositoryError):
        remember(located(ctx))
    turns, more, behind = list[tuple[int, str, tuple[str, ...], Json, list[tuple[str, ...]]]](), False, 0
    foreign, show, query = list[Stored](), not json and not stable and not nul, None
    for place in listed():
        try:
            repo = discover(place, door="binary", named=True)
            if place_of(repo.layout) != place:
                continue  # it is gone, and lay in another
            with Baton(repo=repo) as baton:
                query = query or asked(baton)
                found = find(baton, query, repo.layout.root or repo.layout.git_dir)
                look = looking(ctx, baton)
                for one in found.turns:
                    alone = replace(found, turns=(one,), more=False)
                    rows = [(*_fields(baton, one, passage, place), plain(place)) for passage in one.passages]
                    [item] = cast(list[dict[str, Json]], document(baton, alone, place)["found"])
                    text = tuple(lines(baton, look, alone, place)) if show else ()
                    turns.append((one.at, place, text, {**item, "repository": place}, rows))
                    foreign += [one.stored] if one.stored is not None else []
                more, behind = more or found.more, behind + found.behind
                left_out(found.problems)
        except (BatonError, OSError) as error:
            if query is None and isinstance(error, UsageError):
                raise
            terminal.warn(f"the repository {in_quotes(place)} is left out: {plain(os_error(error))}")
    turns.sort(key=lambda turn: turn[0], reverse=True)
    more, turns = more or len(turns) > limit, turns[:limit]
    if json:
        print_json({"found": [item for *_, item, _ in turns], "more": more, "not_indexed": behind})
    elif not show:
        fields = [row for *_, rows in turns for row in rows]
        marks = ["# more"] if more else []
        terminal.write(porcelain((*COLUMNS, "repository"), fields, nul=nul, foreign=foreign, more=marks))
    elif turns:
        texts, before = list[str](), ""
        for _, place, text, *_ in turns:
            texts += [""] if texts else []
            texts += [plain(place)] if place != before else []
            texts, before = [*texts, *text], place
        with through_pager(ctx, lambda: discover(turns[0][1], named=True).pager()):
            terminal.say_lines([*texts, *(["", "there is more: a greater -n finds it"] if more else [])])
    return bool(turns)


def _say_nothing(
    words: Sequence[str],
    places: Sequence[str],
    track: Optional[str],
    since: Optional[str],
    *,
    quiet: bool = False,
    everywhere: bool = False,
) -> None:
    """Say where nothing was found, and which places are left to look into."""
    if quiet:
        return
    looked = [*dict.fromkeys(places)] or ["words", "conversations"]
    where = f"the track {in_quotes(track)}" if track is not None else "all tracks"
    where += " of all repositories" if everywhere else ""
    narrowed = f" since {in_quotes(since)}" if since is not None else ""
    every = ("words", "conversations", DIFFS)
    left = [p for p in every if p not in looked]
    end = "" if left else ": there are no other places to look into"
    terminal.tell(f"nothing is found in the {' and '.join(looked)} of {where}{narrowed}{end}")
    if left:
        options = [
            *(["--all-repos"] if everywhere else []),
            *(["--track", track] if track is not None else []),
            *(["--since", since] if since is not None else []),
        ]
        line = [
            *(word for place in every for word in ("--in", place)),
            *options,
            *(["--"] if words[0][:1] == "-" else []),
            *words,
        ]
        terminal.tell(f"hint: look into {' and '.join(left)}, too: git baton search {plain(shlex.join(line))}")


def _moment(baton: Baton, since: Optional[str]) -> "Optional[datetime]":
    if since is None:
        return None
    from gitbaton.checkpoints.names import moment_of

    return moment_of(baton.store, since, "as in '2 hours ago' or '2026-01-31'")


def _with_diffs(baton: Baton, query: SearchQuery, found: SearchResult, place: str) -> SearchResult:
    """Add the turns that changed how often all is in a file, with those lines, to what was found."""
    from gitbaton.care.tools.comparing import changing
    from gitbaton.checkpoints.store import Problem

    try:
        items, problems = changing(baton, query.texts, query.track, query.since, query.limit + 1, place)
    except GitError as error:  # of one object that git cannot read
        items, problems = [], (Problem(where="what turns changed", reason=error.message),)
    known = {one.stored.id: one for one in found.turns if one.stored is not None}
    for stored, files in items:
        passages = [excerpt("\n".join(file.lines), query, f"diff of {file.path}") for file in files]
        one = known.get(stored.id) or TurnHit(
            stored=stored, passages=(), more=0, at=int(stored.checkpoint.created.timestamp() * 1000)
        )
        more = one.more + len(passages[SHOWN:])
        known[stored.id] = replace(one, passages=(*one.passages, *passages[:SHOWN]), more=more)
    turns = [*(one for one in found.turns if one.stored is None), *known.values()]
    turns.sort(key=lambda one: one.at, reverse=True)
    more = found.more or len(turns) > query.limit
    every = dict.fromkeys((*found.problems, *problems))
    return replace(found, turns=tuple(turns[: query.limit]), more=more, problems=tuple(every))


def shows(baton: Baton, one: TurnHit, passage: FoundPassage, repository: str = "") -> str:
    """Return the command that shows a passage; empty where no checkpoint goes as far yet."""
    if one.stored is None:
        return ""
    how = "transcript show" if passage.line else "show -p" if passage.who.startswith("diff ") else "show"
    git = f"git -C {in_shell(repository)}" if repository else "git"
    return f"{git} baton {how} {baton.short(one.stored.id)}"


def lines(baton: Baton, look: Look, found: SearchResult, repository: str = "") -> Iterator[str]:
    """Yield what was found for people: of each turn the checkpoint, its passages, and the command that shows them."""
    ids = look.ids(one.stored.id for one in found.turns if one.stored is not None)
    for number, one in enumerate(found.turns):
        mark = look.text(look.mark(one.stored)) if one.stored is not None else ""
        if one.stored is not None:
            c, cell = one.stored.checkpoint, ids[one.stored.id]
            head = (*cell, (f"  {look.age(c.created)}  {plain(c.track)}  ", ""), *look.words(one.stored, title(one.stored)[0]))
        else:
            head = ((f"{one.agent} {one.session}  a turn that no checkpoint holds yet", ""),)
        yield from [""] if number else []
        yield look.fit(head)
        for passage in one.passages:
            for row, hits in zip(passage.lines, passage.hits, strict=True):
                yield f"{mark}    {look.paint(f'{passage.who}:', 'heading')} {_marked(look, row, hits)}"
        commands = dict.fromkeys(filter(None, (shows(baton, one, passage, repository) for passage in one.passages)))
        more = f"    and {counted(one.more, 'passage')} more: " if one.more else "    "
        yield from [look.paint(f"{more}{' and '.join(commands)}", "home")] if commands else []
    if found.more:
        yield ""
        yield look.paint("there is more: a greater -n finds it", "home")


def _marked(look: Look, row: str, hits: Sequence[tuple[int, int]]) -> str:
    """Return a line with what was looked for in its colour."""
    parts, at = list[str](), 0
    for start, end in hits:
        if start >= at:
            parts += [row[at:start], look.paint(row[start:end], "match")]
            at = end
    return "".join([*parts, row[at:]])


def document(baton: Baton, found: SearchResult, repository: str = "") -> dict[str, Json]:
    """Return what was found for ``--json``."""
    turns: list[Json] = []
    for one in found.turns:
        passages: list[Json] = [
            {
                "in": passage.who,
                "lines": list(passage.lines),
                "hits": [[list(span) for span in spans] for spans in passage.hits],
                "line": passage.line or None,
                "command": shows(baton, one, passage, repository) or None,
            }
            for passage in one.passages
        ]
        checkpoint = stored_document(one.stored) if one.stored is not None else None
        session: Json = {"agent": one.agent, "session": one.session} if one.stored is None else None
        turns.append({"passages": passages, "more": one.more, "checkpoint": checkpoint, "conversation": session})
    return {"found": turns, "more": found.more, "not_indexed": found.behind}


def _fields(baton: Baton, one: TurnHit, passage: FoundPassage, repository: str = "") -> tuple[str, ...]:
    c = one.stored.checkpoint if one.stored is not None else None
    who = (one.stored.id, c.track, timestamp(c.created)) if one.stored is not None and c is not None else ("", "", "")
    return (*who, passage.who, shows(baton, one, passage, repository), " ... ".join(passage.lines))
