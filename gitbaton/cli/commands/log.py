"""``git baton log``."""

import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, Annotated, Optional

from gitbaton.base import terminal
from gitbaton.base.codec import counted, first_line, in_quotes, plain, timestamp
from gitbaton.base.errors import GitError, NoCheckpointError, NotFoundError, RecordError, UsageError
from gitbaton.base.model import BESIDE, INSIDE, KINDS, STEPPING, TURN_ENDED, Oid, Stored, is_turn
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.overlap import at_hand
from gitbaton.checkpoints.render import done, first_few, origin, porcelain, some, stored_json, title, verdict
from gitbaton.checkpoints.store import History, safety_ref
from gitbaton.checkpoints.store.chain import replay
from gitbaton.checkpoints.store.meta import Meta
from gitbaton.checkpoints.store.sealed import MANY
from gitbaton.checkpoints.store.titles import Title, Titles
from gitbaton.cli.columns import brief
from gitbaton.cli.commands.retaining import marked
from gitbaton.cli.commands.status import begin, overlap_words
from gitbaton.cli.common import (
    AsJson,
    Nul,
    Porcelain,
    Track,
    divided,
    is_path,
    left_out,
    looking,
    one_meant,
    one_of,
    opened,
    print_json_list,
    refuse_no_paths,
    through_pager,
    warn_all,
)
from gitbaton.cli.look import TAKE_BACK, Cell, Column, Look, turn_document, turn_header, turn_step
from gitbaton.cli.options import AFTER, Argument, Invocation, Option

if TYPE_CHECKING:
    from datetime import datetime

    from gitbaton.base.model import Restore
    from gitbaton.care.tools.blaming import BlamedCommit
    from gitbaton.checkpoints.store.selection import Selection
    from gitbaton.checkpoints.store.turns import UnderWay

_NAMED = re.compile(r"(?<= of |red |ted )[0-9a-f]{7,64}(?=:)")  # an id in the step of a safety checkpoint
_LANES = 8  # tracks that have a lane of their own in a graph; all others share the last one
COLUMNS = ("id", "track", "created", "kind", "validation", "label", "branch", "head", "step")


def command(
    ctx: Invocation,
    words: Annotated[
        Optional[list[str]],
        Argument(
            metavar="[CHECKPOINT] [--] [PATH]...",
            help="A track, or as for show: list from there on. Only those that changed a file that PATH matches.",
        ),
    ] = None,
    track: Track = None,
    limit: Annotated[Optional[int], Option("-n", "--max-count", metavar="N", min=0, help="List at most N; -3 is -n 3.")] = None,
    everything: Annotated[bool, Option("--all", help="List those of every track, and imported turns.")] = False,
    since: Annotated[
        Optional[str], Option("--since", "--after", metavar="DATE", help="Not older: '2 hours ago', '2026-01-31'.")
    ] = None,
    until: Annotated[Optional[str], Option("--until", "--before", metavar="DATE", help="Not newer.")] = None,
    grep: Annotated[
        Optional[list[str]],
        Option("--grep", metavar="PATTERN", help="In whose own step, note, decision, next_cmd, label or prompt it matches."),
    ] = None,
    ignore_case: Annotated[
        bool, Option("--regexp-ignore-case", "-i", help="PATTERN: upper and lower case are the same.")
    ] = False,
    extended: Annotated[
        bool, Option("--extended-regexp", "-E", help="PATTERN: an extended regular expression, not git's basic one.")
    ] = False,
    fixed: Annotated[bool, Option("--fixed-strings", "-F", help="PATTERN: just a text.")] = False,
    text: Annotated[
        Optional[str], Option("-S", metavar="STRING", help="That changed how often STRING occurs in the files.")
    ] = None,
    kind: Annotated[
        Optional[list[str]], Option("--kind", metavar="KIND", help="Of this kind: manual, auto, safety or imported.")
    ] = None,
    agent: Annotated[Optional[list[str]], Option("--agent", metavar="CLIENT", help="That this agent took, as claude.")] = None,
    stat: Annotated[bool, Option("--stat", help="Show how much each changed in which files.")] = False,
    patch: Annotated[bool, Option("--patch", "-p", help="Show what each changed, as git log shows it.")] = False,
    no_fold: Annotated[
        bool, Option("--no-fold", help="Show also turns without an edit, which else are one line. N does not count that line.")
    ] = False,
    graph: Annotated[
        bool, Option("--graph", help="Draw every track as a lane, and the commits that checkpoints stand on.")
    ] = False,
    json: AsJson = False,
    stable: Porcelain = False,
    nul: Nul = False,
) -> int:
    """List the checkpoints of a track, newest first; with options those that all of them ask for.

    --grep, --kind and --agent may be given several times, for one or the other. What changed is told against the checkpoint
    before, of a track's first one against HEAD when its turn began. Carried words count where they were written.

    DATE is in git's words ('2 hours ago'), PATTERN a basic regular expression as 'git log' has it, held against the lines of a
    checkpoint's own step, note, decisions, next_cmd, label and prompt. KIND is manual, auto, safety (before a restore), or
    imported (of a client's past, see import). With STRING those whose files changed how often it occurs in them; PATH is a
    pathspec as seen from the current directory. N counts what is left. --stat and --patch show what each changed as 'git log'
    shows it, with its settings; with STRING or PATH no more than that.

    Automatic checkpoints that follow each other and changed no file are one line, which N does not count, unless --no-fold is
    given or some are picked by PATTERN, KIND, CLIENT, STRING or PATH; the newest, one with a label and one that is pinned stay.
    A restore is one line with the undos and redos of it that follow, and says what holds now. A turn that is open here, for it
    goes on or was cut short, and has changed files stands first, without an id and beside N: 'git baton revert' takes it back,
    and '@~1' is the checkpoint below it. 'o' stands before a manual checkpoint, '.' before an automatic one, and '<' where
    files were restored in this work tree, which N counts; with a CHECKPOINT, or a diff and N,
    those above the first line are left out.

    --graph draws all tracks, or the one that is named, each as a lane; '*' is a commit, in the lanes of those that stood on it.

    Examples:
        git baton log -3   # the newest three
        git baton log --graph
        git baton log parser --stat
        git baton log --all --since "2 hours ago"
        git baton log -- a.txt
    """
    one_of(stat=stat, patch=patch and not stat, graph=graph, json=json, porcelain=stable or nul)
    one_of(**{"extended-regexp": extended, "fixed-strings": fixed})
    forms = [name for name, given in (("--stat", stat), ("--patch", patch), ("--graph", graph)) if given]
    with opened(ctx) as baton:
        name, paths = _meant(ctx, baton, words or [], track)
        if everything and (name is not None or track is not None):
            raise UsageError(f"{'a checkpoint or track' if track is None else '--track'} and --all exclude each other")
        one_meant(name, track)
        everything = everything or (graph and name is None and track is None)
        place = ctx.obj.repo_root or os.getcwd()
        form = "extended" if extended else "fixed" if fixed else "basic"
        patterns = [(pattern, form, ignore_case) for pattern in grep or ()]
        wanted = _selection(baton, since, until, kind, agent, patterns, text, paths, place)
        chosen = any((grep, text, kind, agent, paths))  # what is asked for is shown
        whole, pins = json or stable or nul or no_fold or chosen, marked(baton)
        asked = partial(baton.history, track, everything=everything, name=name, wanted=wanted)
        inside = name is not None and not baton.is_track(name)
        newest = wanted is None and not (graph or inside)
        is_all = everything and wanted is None and limit is None
        below = inside or bool(forms and limit is not None)
        look = None if json or stable or nul else looking(ctx, baton)

        def listing(brief: bool) -> tuple[LogRows, Iterator[str]]:
            try:
                history, rows = _found(partial(asked, brief=brief), pins, limit, whole=whole)
            except NoCheckpointError:
                if name is not None:
                    raise
                history, rows = History(items=(), problems=()), []
            going = _under_way(baton, history, everything=everything) if newest else None
            found = LogRows(history=history, rows=rows, pins=pins, going=going, whole=is_all)
            if look is None:
                return found, iter(())
            if rows and not chosen and until is None:
                found = _with_restores(baton, found, limit, everything=everything, below=below, fold=not no_fold)
            told = _lines(baton, look, found, everything=everything and not graph, graph=graph)
            return found, chain([*islice(told, 1)], told)

        found, told = baton.store.surely(listing)
        history, going = found.history, found.going
        if json:
            listed = [*baton.store.mapped(partial(_object, baton, pins), history.items, lambda s: (s,))]
            print_json_list("checkpoints", listed, {"open_turn": turn_document(going)} if going else {})
        elif stable or nul:
            more = [turn_header(going)] if going else []
            fields = baton.store.mapped(partial(_fields, baton), history.items, lambda s: (s,))
            terminal.write(porcelain(COLUMNS, fields, nul=nul, foreign=history.items, more=more))
        elif look is not None:
            forms += [f"-S{text}"] if forms and text is not None else []
            _say(ctx, baton, look, found, told, forms, paths, place)
        if newest and not (everything and limit is not None):  # a few rows of all tracks do not ask what remotes have
            warn_all(baton.newer(baton.store.tips().items if everything else history.items[:1]))
    left_out(history.problems)
    return 0


@value
class LogRows:
    """Rows of a history, newest first: each a checkpoint, a restore with the undos and redos of it, or turns without an edit;
    the turn that is open, and the restores that are not in force. ``whole``: whether all that there is is listed; ``unread``:
    why no restores are."""

    history: History
    rows: Sequence[list[Stored]]
    pins: Meta
    going: "UnderWay | None"
    undone: frozenset[Oid] = frozenset()
    whole: bool = False
    unread: str = ""


def _say(
    ctx: Invocation,
    baton: Baton,
    look: Look,
    found: LogRows,
    told: Iterator[str],
    forms: list[str],
    paths: list[str],
    place: str,
) -> None:
    """Print for people what is told of the rows, with the ``forms`` that git's log has for changes; or how to begin."""
    if found.unread:
        terminal.warn(f"restores are not shown: {found.unread}")
    if not (found.rows or found.history.problems or baton.store.meant()):
        begin(baton, look)
    with through_pager(ctx, baton.repo.pager):
        if forms and "--graph" not in forms:
            changes = _changes(baton, look, found, forms, paths, place)
            told = map("".join, zip(told, chain([""] if found.going else [], changes), strict=True))
        terminal.say_lines(told)
    warn_all(_inside(found.history.items))


def _inside(items: Sequence[Stored]) -> list[str]:
    """Warn that no turn holds what was changed inside other repositories."""
    left = [c for s in items if (c := s.checkpoint).files and c.files.skipped and is_turn(c.kind, c.step)]  # few are read
    inside = sorted({one.path for c in left if c.files for one in c.files.skipped if one.reason in INSIDE})
    there = some(len(inside), first_few(inside))
    return [f"what was changed inside {there} is in no turn, and in no checkpoint"] if inside else []


def _under_way(baton: Baton, history: History, *, everything: bool) -> "UnderWay | None":
    """Return the turn that is open in this work tree, of the track that is listed, or of the current one."""
    track = baton.current() if everything else history.items[0].checkpoint.track if history.items else None
    return baton.under_way(track) if track is not None else None


def _selection(
    baton: Baton,
    since: Optional[str],
    until: Optional[str],
    kinds: Optional[list[str]],
    agents: Optional[list[str]],
    patterns: Sequence[tuple[str, str, bool]],
    text: Optional[str],
    paths: Sequence[str],
    place: str,
) -> "Selection | None":
    """Return the selection of the options, if any is given; a pattern has its form, and whether case does not count. Raises
    UsageError."""
    if not (patterns or paths or any(given is not None for given in (since, until, kinds, agents, text))):
        return None
    from gitbaton.checkpoints.names import moment_of
    from gitbaton.checkpoints.store.selection import Expression, Selection

    for one in kinds or ():
        if one not in KINDS:
            raise UsageError(f"--kind is {in_quotes(one)}; it can be {', '.join(map(repr, KINDS[:-1]))} or '{KINDS[-1]}'")
    if text == "":
        raise UsageError("-S has nothing to look for")
    hint = "as in '2 hours ago' or '2026-01-31'"
    return Selection(
        since=None if since is None else moment_of(baton.store, since, hint),
        until=None if until is None else moment_of(baton.store, until, hint).replace(microsecond=999_999),
        kinds=tuple(kinds or ()),
        agents=tuple(agents or ()),
        words=tuple(Expression(pattern, form, ignore_case=ignore_case) for pattern, form, ignore_case in patterns),
        text=text,
        paths=tuple(paths),
        directory=place,
    )


def _found(ask: Callable[..., History], pins: Meta, limit: Optional[int], *, whole: bool) -> tuple[History, list[list[Stored]]]:
    """Return the checkpoints that are asked for, and their rows, of which ``limit`` are no folded ones, however many those
    are."""
    if whole or limit is None:
        history = ask(limit=limit)
        return history, [[s] for s in history.items] if whole else _folded(history.items, pins)
    most = limit + 1
    while True:
        history = ask(limit=most)
        rows = _folded(history.items, pins)
        first = _first(rows, limit)
        if len(first) < len(rows) or len(history.items) < most:
            return history, first
        most *= 4


def _first(rows: list[list[Stored]], limit: Optional[int]) -> list[list[Stored]]:
    """Return the first rows, of which so many are no folded turns."""
    shown = [at for at, row in enumerate(rows, 1) if len(row) == 1 or row[0].checkpoint.restore]
    return rows if limit is None or len(shown) <= limit else rows[: (0, *shown)[limit]]


def _object(baton: Baton, pins: Meta, stored: Stored) -> str:
    """Return the text of a checkpoint's JSON object."""
    from gitbaton.base.codec.shape import texts_in

    read = baton.store.read(stored)
    written = baton.store.facts.vouches(stored.commit, stored.id) or texts_in(read.raw) is not None
    return stored_json(read, pins.document(stored.id), written=written)


def _fields(baton: Baton, stored: Stored) -> tuple[str, ...]:
    stored = baton.store.read(stored)
    c, said = stored.checkpoint, verdict(stored)
    return stored.id, c.track, timestamp(c.created), c.kind, said, c.label or "", c.branch or "", c.head or "", c.step


def _changes(baton: Baton, look: Look, found: LogRows, forms: list[str], paths: list[str], place: str) -> Iterator[str]:
    """Yield git's output of each row's change, to stand below the row; nothing of a restore and of a folded row."""
    from gitbaton.care.tools import comparing

    listed = {s.id for s in found.history.items}
    alone = [len(row) == 1 and row[0].id in listed for row in found.rows]
    each = [row[0] for row, is_one in zip(found.rows, alone, strict=True) if is_one]
    colour = "--color=always" if look.colors else "--color=never"
    shown = comparing.changes(baton, each, [colour, *forms], paths, place, look.columns)
    return (f"\n\n{os.fsdecode(text)}\n" if is_one and (text := next(shown)) else "" for is_one in alone)


def _changed(baton: Baton, items: Sequence[Stored], listed: set[Oid]) -> dict[Oid, int]:
    """Return how many files those checkpoints changed that changed none against the one before them and stand on an earlier one
    now: those between were removed."""
    asked = [
        s
        for s in items
        if (c := s.checkpoint).files and not c.files.changed and c.previous is not None and c.previous not in listed
    ]
    if not asked:
        return {}
    from gitbaton.care.tools import comparing

    place = baton.repo.layout.root or baton.repo.layout.git_dir
    try:
        told = list(comparing.changes(baton, asked, ["--raw", "--no-renames", "--no-color"], (), place, None))
    except GitError:  # what stands below cannot be read; what was counted then is told
        return {}
    return {s.id: len([row for row in raw.split(b"\n") if row.startswith(b":")]) for s, raw in zip(asked, told, strict=True)}


def _folded(items: Sequence[Stored], pins: Meta) -> list[list[Stored]]:
    """Return a row for each checkpoint, and one for automatic ones that follow each other and changed no file; the newest is
    never among those, nor one with a label or a pin."""
    idle, trees = set[Oid](), dict[str, Oid]()
    for stored in reversed(items[1:]):
        c, before = stored.checkpoint, trees.get(stored.checkpoint.track, stored.tree)
        trees[c.track] = stored.tree  # after a prune the one before is another than the one that was counted against
        if c.kind == "auto" and c.files and not c.files.changed and before == stored.tree and not c.label:
            idle |= set() if pins.pinned(stored.id) else {stored.id}
    found: list[list[Stored]] = []
    for stored in items:
        if stored.id in idle and found and found[-1][0].id in idle:
            found[-1].append(stored)
        else:
            found.append([stored])
    return found


def _with_restores(
    baton: Baton, listing: LogRows, limit: Optional[int], *, everything: bool, below: bool, fold: bool
) -> LogRows:
    """Add the restores of this work tree since the oldest row, of its track; only ``below`` the newest. With ``fold`` a restore
    and its undos and redos, between two checkpoints, are one row, the newest of them first."""
    rows = listing.rows
    layout, newest, oldest = baton.repo.layout, rows[0][0].checkpoint, rows[-1][-1].checkpoint
    found = list(rows)
    try:
        tip = baton.store.tip_at(safety_ref(layout.git_dir, layout.common_dir))
    except RecordError as error:
        return replace(listing, unread=error.message)
    from gitbaton.checkpoints.store.standing import called_now

    since = takewhile(lambda s: s.checkpoint.created > oldest.created, baton.store.newest(tip) if tip is not None else ())
    steps = tuple(since)
    origins = dict[Oid, Oid]()
    named = (s for row in rows for s in row if baton.store.facts.plain(s.commit) is None)  # others had no other id
    for stored in called_now(reversed(steps), named):
        c, step = stored.checkpoint, stored.checkpoint.restore
        origins[stored.id] = origins.get(step.target, step.target) if step and step.op in STEPPING else stored.id
        if not stored.foreign and (everything or c.track == newest.track) and not (below and c.created > newest.created):
            found.append([stored])
    if len(found) == len(rows):
        return listing
    found.sort(key=lambda row: row[0].checkpoint.created, reverse=True)
    joined, block = list[list[Stored]](), dict[Oid, list[Stored]]()
    for row in found:
        origin = origins.get(row[0].id) if fold else None
        if origin is not None and origin in block:
            block[origin] += row
            continue
        block = {} if origin is None else {**block, origin: row}
        joined.append(row)
    return replace(listing, rows=_first(joined, limit), undone=replay(baton.store, steps).undone)


def _lines(baton: Baton, look: Look, found: LogRows, *, everything: bool, graph: bool) -> Iterator[str]:
    """Yield a line for each row, before them one for the open turn; with ``graph`` also the names of the lanes, and the commits
    that the checkpoints stand on."""
    going, rows = found.going, found.rows
    teller = _RowTeller(baton, look, found, everything=everything)
    cells = list[tuple[Cell | str, ...]]()
    entries: Sequence[list[Stored] | BlamedCommit] = rows
    drawn: Iterator[Cell] = iter(())
    if graph:
        entries, drawn, names = _drawn(baton, look, rows, teller.prepare)
        yield from names
    else:
        teller.prepare()
    if going is not None:
        said, track = turn_step(going), plain(going.track) if everything else ""
        taken = ((said, ""), (f"  {TAKE_BACK}", "home"))
        cells.append(
            ("", ".", look.age(going.span.since), track, look.state("pending"), counted(len(going.paths), "file"), taken)
        )
    told: Iterable[tuple[Cell | str, ...]] = chain(cells, teller.told(entries))
    columns = (Column(), Column(), Column(right=True), Column(goes=1), Column(goes=2), Column(goes=3, right=True), Column())
    if graph:
        told = ((lane, *row[:1], *row[2:]) for lane, row in zip(drawn, told, strict=True))
    yield from look.table(columns, told)


class _RowTeller:
    """Rows of a listing in cells; of many checkpoints the titles are kept, so that those need not be read again."""

    def __init__(self, baton: Baton, look: Look, found: LogRows, *, everything: bool) -> None:
        self.baton, self.look, self.found, self.everything = baton, look, found, everything
        self.listed = {s.id for s in found.history.items}
        self.titles = Titles(baton.store)

    def prepare(self) -> None:
        """Find out what is to be known of all rows before the first is told."""
        own, ids = list[Stored](), list[Oid]()
        for row in self.found.rows:
            if row[0].id not in self.listed:
                one = _told(row)
                ids.append(step.target if (step := self._restore(one)) is not None else one.id)
            elif len(row) == 1:
                own.append(row[0])
                ids.append(row[0].id)
        self.ids = self.look.ids(ids)
        self.changed = _changed(self.baton, own, self.listed)
        if len(self.listed) >= MANY:  # of fewer they are sooner read
            self.titles.load()

    def told(self, entries: "Sequence[list[Stored] | BlamedCommit]") -> Iterator[tuple[Cell | str, ...]]:
        """Yield the cells of each row, or commit that rows stand on."""
        for row, lines in self.baton.store.mapped(self._row, entries, self._unread):
            self.titles.learn(lines)
            yield row
        self.titles.keep(self.listed if self.found.whole else None)

    def _restore(self, stored: Stored) -> "Restore | None":
        """Return the restore of a checkpoint, of one that is told as such: beside the checkpoints that are listed."""
        return stored.checkpoint.restore if stored.id not in self.listed else None

    def _unread(self, row: "list[Stored] | BlamedCommit") -> list[Stored]:
        """Return those of a row that are to be read."""
        return [s for s in row if self.titles.get(s.id) is None] if isinstance(row, list) else []

    def _row(self, row: "list[Stored] | BlamedCommit") -> tuple[tuple[Cell | str, ...], list[str]]:
        """Return the cells of a row, and lines of titles that were not known."""
        if not isinstance(row, list):
            said = brief(f"commit: {row.summary}")
            return (((row.oid[:7], ""),), "", self.look.age(row.created), "", "", "", ((said, "home"),)), []
        if self._restore(row[0]) is not None:
            return self._restored([*map(self.baton.store.read, row)]), []
        known = [self.titles.get(s.id) for s in row]
        titles = [told or _title(self.baton.store.read(s)) for s, told in zip(row, known, strict=True)]
        all_three = zip(row, titles, known, strict=True)
        fresh = [told.line(s.id) for s, told, before in all_three if before is None and self._is_here(s)]
        if len(row) == 1:
            return self._checkpoint(row[0], titles[0]), fresh
        turns = all(one.ended for one in titles)
        said = f"({counted(len(row), 'turn' if turns else 'automatic checkpoint')} without an edit)"
        return ("", "", "", "", "", "", ((said, "home"),)), fresh

    def _is_here(self, stored: Stored) -> bool:
        """Whether a checkpoint is in the chain of a track that is here: only what goes from those is noticed when it goes."""
        return stored.checkpoint.kind not in BESIDE and not self._remotes(stored)

    def _remotes(self, stored: Stored) -> Sequence[str]:
        """Return the remotes that a checkpoint is from which only they have."""
        return self.found.history.origins.get(stored.id) or self.baton.store.origins(stored.checkpoint.track)

    def _restored(self, row: list[Stored]) -> tuple[Cell | str, ...]:
        one, newest, pins = _told(row), row[0].checkpoint, self.found.pins
        back = one.checkpoint.restore or newest.restore
        assert back is not None
        said, digits = brief(done(one.checkpoint)), sum(len(text) for text, _ in self.ids[back.target])
        if named := _NAMED.search(said):
            gone = any(oid.startswith(named[0]) for oid in pins.forgotten)  # its words are still here
            rest = "a forgotten checkpoint" if gone else named[0][:digits] + said[named.end() :]
            said = said[: named.start()] + rest
        said = f"undo and redo, {len(row)} times; last: {said}" if len(row) > 1 and one is row[0] else said
        said = f"(undone) {said}" if one.id in self.found.undone else said
        track = plain(newest.track) if self.everything else ""
        return "", self.look.kind(one), self.look.age(newest.created), track, "", "", ((said, "restored"),)

    def _checkpoint(self, s: Stored, told: Title) -> tuple[Cell | str, ...]:
        look, c, pins = self.look, s.checkpoint, self.found.pins
        words = look.words(s, told.words, origin(s, self._remotes(s)))
        label = "".join(f"[{brief(name)}] " for name in dict.fromkeys((pins.names.get(s.id), told.label)) if name)
        at = int(s.foreign_words)  # behind the sign that quotes
        words = (*words[:at], (label, "manual"), ("(pinned) " if pins.pinned(s.id) else "", ""), *words[at:])
        files = counted(self.changed.get(s.id, c.files.changed), "file") if c.files else ""
        track = plain(c.track) if self.everything else ""
        return self.ids[s.id], look.kind(s), look.age(c.created), track, look.state(told.state), files, words


def _title(stored: Stored) -> Title:
    """Return the title of a checkpoint that was read."""
    words, ran = title(stored)
    return Title(
        words=first_line(words),
        label=first_line(stored.checkpoint.label or ""),
        state=ran.result if ran else verdict(stored),
        ended=stored.checkpoint.step.startswith(TURN_ENDED),
    )


def _told(row: Sequence[Stored]) -> Stored:
    """The one of a row that is told of: a restore, and not the undos and redos of it that follow."""
    step = row[-1].checkpoint.restore if row[1:] else None
    return row[0] if step is None or step.op in STEPPING else row[-1]


def _drawn(
    baton: Baton, look: Look, rows: Sequence[list[Stored]], meanwhile: Callable[[], object]
) -> "tuple[list[list[Stored] | BlamedCommit], Iterator[Cell], list[str]]":
    """Return rows and the commits that they stand on, newest first; the lanes beside each, and a line for the name of each
    lane. What is to be done ``meanwhile`` is called while git reads the commits."""
    from gitbaton.care.tools.blaming import placed, reading_commits

    heads = defaultdict[Oid | None, set[str]](set)
    known: dict[Oid | None, datetime] = {}
    times: list[tuple[datetime, list[Stored] | BlamedCommit]] = []
    for row in sorted(rows, key=lambda row: row[0].checkpoint.created, reverse=True):
        created = row[0].checkpoint.created
        times.append((created, row))
        for stored in row:
            c = stored.checkpoint
            heads[c.head].add(c.track)
            known[c.head] = created
    read = reading_commits(baton, known)
    meanwhile()
    beside = at_hand(baton)
    # The commit that a checkpoint stands on is below it, also where both are of one moment.
    found = [entry for _, entry in sorted([*times, *placed(baton, read(), known)], key=lambda pair: pair[0], reverse=True)]
    begins, ends = dict[str, int](), dict[str, int]()  # the rows between which each track is drawn
    for at, entry in enumerate(found):
        if isinstance(entry, list):
            track = entry[0].checkpoint.track
            begins.setdefault(track, at)
            ends[track] = at
        else:
            ends |= dict.fromkeys(begins.keys() & heads[entry.oid], at)
    lane = {track: min(number, _LANES - 1) for number, track in enumerate(begins)}
    overlapping = {track: overlap_words(beside.of(track)) for track in lane}
    named = [plain(track) + (f" (overlaps: {overlapping[track]})" if overlapping[track] else "") for track in lane]
    names = ["| " * number + name for number, name in enumerate(named[: _LANES - 1])]
    rest = ", ".join(named[_LANES - 1 :])
    span = {track: (at, ends[track]) for track, at in begins.items()}
    return found, _lanes(look, found, lane, span, heads), names + (["| " * (_LANES - 1) + rest] if rest else [])


def _lanes(
    look: Look,
    rows: "Sequence[list[Stored] | BlamedCommit]",
    lane: Mapping[str, int],
    span: Mapping[str, tuple[int, int]],
    heads: Mapping[Oid | None, Collection[str]],
) -> Iterator[Cell]:
    """Yield the lanes beside each row; ``span``: a track's first row and its last, ``heads``: the tracks that stood on a
    commit."""
    under_way, moves = [0] * _LANES, dict[int, list[tuple[int, int]]]()
    for track, (first, last) in span.items():
        for at, by in ((first + 1, 1), (max(last, first + 1), -1)):
            moves.setdefault(at, []).append((lane[track], by))
    for at, entry in enumerate(rows):
        for number, by in moves.get(at, ()):
            under_way[number] += by
        marks = ["|" if count else " " for count in under_way]
        if isinstance(entry, list):
            folded = len(entry) > 1 and entry[0].checkpoint.restore is None
            marks[lane[entry[0].checkpoint.track]] = ":" if folded else look.kind(entry[0])[0][0]
        elif on := {lane[track] for track in heads[entry.oid] if track in lane}:
            marks[min(on) : max(on) + 1] = ["-".join("*" if n in on else "-" for n in range(min(on), max(on) + 1))]
        yield ((" ".join(marks).rstrip(), ""),)


def _meant(ctx: Invocation, baton: Baton, words: list[str], track: Optional[str]) -> tuple[Optional[str], list[str]]:
    """Return the checkpoint or track, if one is named, and the paths. Without ``--`` the first word is a path where there is
    one and no checkpoint is called so. Raises NotFoundError."""
    names, paths = divided(ctx, words, 1)
    if ctx.meta.get(AFTER) is None:
        place = ctx.obj.repo_root or ""
        if names and is_path(place, names[0]):
            try:
                baton.lead(names[0], track)
            except NotFoundError:
                names, paths = [], words
        try:
            refuse_no_paths(place, paths)
        except NotFoundError:
            if names:
                baton.lead(names[0], track)  # of two wrong words the first is named
            raise
    return (names[0] if names else None), paths
