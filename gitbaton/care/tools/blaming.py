"""Blame: the checkpoint in which each line of a file first stood before it was committed; else the commit that brought it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import groupby

from gitbaton.base.errors import BatonError, NotFoundError, RecordError, UsageError
from gitbaton.base.model import STEPPING, TURN_ENDED, Oid, Restore, Stored, session_key
from gitbaton.base.values import all_of, replace, value
from gitbaton.care.tools.comparing import tree_now
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import names_prompt, path_in_quotes
from gitbaton.checkpoints.store import SAFETY
from gitbaton.checkpoints.store.facts import Outline
from gitbaton.checkpoints.store.imported import makers
from gitbaton.checkpoints.store.turns import Span, begun_at, since, span_of, turns, until, windows
from gitbaton.git.objects import commit_data, new_object, parse_commit
from gitbaton.git.questions import is_ancestor
from gitbaton.git.run import checked, mends

_LATEST = 253_402_300_799  # the last second of the year 9999
_ALIKE = 0.6  # of a line that one was made of, at least
_FEW = 20  # lines that are looked for one by one
_SECOND = timedelta(microseconds=999_999)
_PART = timedelta(milliseconds=1)  # of a time that a record may have lost
_LARGE_LIST = 2000  # of trees in which a path is looked for
_LARGE = 1 << 30  # bytes of a file: git blame reads it whole, too
_NOBODY = b"gitbaton <> %d +0000"

_Held = dict[Oid, dict[str, Oid]]  # of a commit the names that the file has there, and its content


@value
class _Moment:
    """A checkpoint that was read, as far as it counts for what was there before what, by the names that it has in outline."""

    track: str
    id: Oid
    commit: Oid
    tree: Oid
    head: Oid | None
    previous: Oid | None
    created: datetime
    place: datetime | None
    restore: Restore | None
    stored: Callable[[], Stored]


_Moments = Sequence[_Moment | Outline]


def _as_read(stored: Stored) -> _Moment:
    c = stored.checkpoint
    return _Moment(
        track=c.track,
        id=stored.id,
        commit=stored.commit,
        tree=stored.tree,
        head=c.head,
        previous=c.previous,
        created=c.created,
        place=c.files.worktree.created if c.files is not None else None,
        restore=c.restore,
        stored=lambda: stored,
    )


@value
class BlamedCommit:
    """A commit; ``created`` is when its author or, where that is said, its committer made it."""

    oid: Oid
    author: str
    created: datetime
    summary: str


@value
class BlamedLine:
    """One line of a file; ``number`` counts from 1. ``origin`` is the checkpoint or the commit that it came with, None where no
    checkpoint holds it yet. There it was line ``then`` of ``path``. ``made``: the commit that brought it first, where HEAD has
    another one in its place: an amended, rebased or picked one."""

    number: int
    text: bytes
    origin: Stored | BlamedCommit | None
    path: str
    then: int
    made: BlamedCommit | None = None


def blame(
    baton: Baton, path: str, folder: str, ranges: Sequence[str] = (), at: BlamedCommit | None = None
) -> tuple[list[BlamedLine], list[str]]:
    """Return the lines of a file as it is now, those of ``ranges`` (as ``git blame -L`` takes them) or all, and the warnings;
    or as it is in a commit, ``at``: the origin of a line that no checkpoint before it holds, nor its parent, is the commit.

    A line's origin is the earliest checkpoint of any track here that holds it and has a ``head`` that does not; else the
    commit, that of HEAD's history where another one brought it there. ``path`` is relative to the top of the work tree. The
    scratch ``folder`` takes the objects that are made; with ``at`` the repository is redirected to it already. Raises
    NotFoundError for a path that no snapshot would hold, UsageError for a range that git does not take.
    """
    head, looked = baton.head()[0].oid if at is None else None, list[tuple[Oid, list[str]]]()

    def found(brief: bool) -> tuple[_Moments, dict[Oid, Oid]]:
        history = baton.store.whole(brief=brief)
        items: _Moments = [*history.outlines, *map(_as_read, history.items)]
        items = [one for one in items if one.place is not None]
        if at is not None:
            return [one for one in items if one.created < at.created + _SECOND], {}
        newest = max(items, key=lambda one: (one.created, one.id), default=None)

        def look() -> None:
            if not looked:
                looked.append(tree_now(baton, newest.stored() if newest is not None else None, folder))

        return items, _contents(baton, _trees(items), path, look)

    items, there = baton.store.surely(found)
    before_steps = [s for states in safety_chains(baton) for s in states]
    brought: _Moments = [_as_read(s) for s in before_steps if s.checkpoint.restore and s.checkpoint.restore.op not in STEPPING]
    if at is None:
        known, (tree, warnings) = {path: there}, looked[0]
    else:
        known, brought = {}, [one for one in brought if one.created < at.created + _SECOND]
        above = baton.repo.objects.first_parents(at.oid, 2)
        head, tree, warnings = (above[1] if above[1:] else None), baton.store.base_tree(at.oid), []
    git = baton.repo.git
    if git.run("ls-tree", "-z", tree, "--", f":(literal){path}").out.split(b" ")[1:2] != [b"blob"]:
        raise NotFoundError(f"{path_in_quotes(path)} is no file that a snapshot would hold now")
    author = _NOBODY % int(baton.clock().timestamp())
    now = new_object(baton.repo.layout.algorithm, "commit", commit_data(tree=tree, parents=(), author=author, message=b"now\n"))
    baton.repo.objects.write([now])
    checkpoints = {one.commit: one for one in items}
    asked = [word for given in ranges for word in ("-L", given)]
    names, moments = [path], _in_order(items, brought)
    while True:
        parents, held = _parents(baton, moments, names, now.oid, head, known)
        first, rounds = _first_alone(parents, held, checkpoints), 2
        while True:
            # git blame follows these parents instead of the commits' own: its -S is made for histories that git does not know.
            ancestry = os.path.join(folder, "ancestry")
            with open(ancestry, "w", encoding="ascii") as file:
                file.writelines(f"{' '.join([oid, *(of[:1] if oid in first else of)])}\n" for oid, of in parents.items())
            told = git.run("blame", "--porcelain", "--no-textconv", "-S", ancestry, *asked, now.oid, "--", path)
            if told.code != 0:
                raise UsageError(told.fatal()) if ranges else BatonError(f"'git blame' failed: {told.fatal()}", *mends(told))
            lines = list(_lines(told.out, checkpoints, now.oid))
            back = _came_back(baton, lines, parents, held) & first
            if not back:
                break
            first, rounds = (first - back if rounds else set()), rounds - 1
        older = {line.path for line in lines} - {*names}
        if not older:
            break
        names += sorted(older)  # the file had another name before: what checkpoints hold there counts, too
    with open(ancestry, "w", encoding="ascii") as file:
        file.write(f"{' '.join([now.oid, *([head] if head else [])])}\n")
    named = {line.origin.oid for line in lines if isinstance(line.origin, BlamedCommit)}
    gone = _not_below(baton, named, at.oid if at is not None else head)
    words = ("--porcelain", "--no-textconv", "-S", ancestry, *asked, now.oid, "--", path)
    here = {one.number: one for one in _lines(git.out("blame", *words), {}, now.oid)} if gone else {}
    for n, line in enumerate(lines):
        if isinstance(line.origin, BlamedCommit) and line.origin.oid in gone and line.number in here:
            one = here[line.number]
            lines[n] = replace(one, made=line.origin) if one.origin is not None or at is not None else line
    return [replace(line, origin=at) if line.origin is None else line for line in lines], warnings


def _not_below(baton: Baton, oids: Iterable[Oid], head: Oid | None) -> set[Oid]:
    """Return the commits that a commit does not reach; none of them without one."""
    asked = [*oids]
    if not asked or head is None:
        return set()
    stdin = "".join(f"{oid}\n" for oid in [*asked, f"^{head}"]).encode()
    return {*baton.repo.git.out("rev-list", "--ignore-missing", "--stdin", stdin=stdin).decode("ascii").split()} & {*asked}


def commits(baton: Baton, oids: Iterable[Oid | None]) -> list[BlamedCommit]:
    """Return the commits of some ids that are here."""
    return reading_commits(baton, oids)()


def reading_commits(baton: Baton, oids: Iterable[Oid | None]) -> Callable[[], list[BlamedCommit]]:
    """Begin to read commits; return a function that waits for the end, and gives what ``commits`` does."""
    asked = "".join(f"{oid}\n" for oid in dict.fromkeys(oids) if oid).encode()
    form = ("--encoding=UTF-8", "--no-color", "--no-show-signature", "--format=%H%x00%ct%x00%an%x00%s%x00")
    words = ("log", "--no-walk=unsorted", "--ignore-missing", *form, "--stdin")
    process = baton.repo.git.start(*words, stdin=asked) if asked else None  # it would tell of HEAD

    def found() -> list[BlamedCommit]:
        told = checked(process.finish(), "log").decode("utf-8", "replace").split("\0") if process is not None else []
        oids = [oid.strip() for oid in told[:-1:4]]
        return all_of(
            BlamedCommit, len(oids), oid=oids, created=map(_moment, told[1::4]), author=told[2::4], summary=told[3::4]
        )

    return found


def placed(
    baton: Baton, found: Iterable[BlamedCommit], known: Mapping[Oid | None, datetime]
) -> list[tuple[datetime, BlamedCommit]]:
    """Return commits, newest first, each with the latest moment at which it can have been made.

    ``known`` says when the first checkpoint was taken on each. Git's times are of whole seconds, and may be another machine's.
    """
    found = sorted(found, key=lambda one: one.created, reverse=True)
    places: list[tuple[datetime, BlamedCommit]] = []
    for second, group in groupby(found, key=lambda one: one.created):
        made = {one.oid: one for one in group}
        if len(made) > 1:
            told = baton.repo.git.run("rev-list", "--topo-order", f"--max-age={int(second.timestamp())}", *made, "--").out
            made = {oid: made[oid] for oid in dict.fromkeys([*told.decode("ascii").split(), *made]) if oid in made}
        last: dict[Oid, datetime] = {}
        for oid, one in made.items():  # children before their parents
            least = min(second + _SECOND, known[oid])
            above = [then for child, then in last.items() if then < least and is_ancestor(baton.repo, oid, child)]
            last[oid] = min([least, *above])
            places.append((last[oid], one))
    return sorted(places, key=lambda place: place[0], reverse=True)


def before(baton: Baton, line: BlamedLine) -> tuple[str, ...]:
    """Return the lines that stood in the place of one before its origin changed it; none where it was added."""
    one = line.origin
    if one is None:
        return ()
    new = one.commit if isinstance(one, Stored) else one.oid
    raw = baton.repo.objects.read(new)
    old = parse_commit(raw.data).parents[:1] if raw is not None and raw.data else ()
    if isinstance(one, Stored) and one.checkpoint.previous is None:  # below a track's first checkpoint nothing is
        base = baton.store.first_base(one.checkpoint)
        old = (base,) if base else ()
    if not old:
        return ()
    options = ("--no-ext-diff", "--no-textconv", "--no-color", "-U0", "--no-prefix", "-M", "--diff-algorithm=histogram")
    told = baton.repo.git.run("diff-tree", "-p", *options, old[0], new, "--", f":(top,literal){line.path}").out
    hunks = re.split(rb"^@@ -\S+ \+(\d+)(?:,(\d+))? @@.*\n", told, flags=re.M)[1:]
    for start, count, body in zip(hunks[::3], hunks[1::3], hunks[2::3], strict=True):
        at, many = line.then - int(start), int(count or 1)
        if 0 <= at < many:
            gone, come = (
                [row[1:].decode("utf-8", "replace") for row in body.split(b"\n") if row[:1] == sign] for sign in (b"-", b"+")
            )
            if many == 1:
                return tuple(gone)
            return tuple(gone[at : at + 1] if len(gone) == many else _became(gone, come, at))
    return ()


def _became(gone: Sequence[str], come: Sequence[str], at: int) -> list[str]:
    """Return the line that the one ``at`` a place was made of, of lines that gave way to a different number of lines: the most
    alike, unless another one is more so; none where no line is alike."""
    from difflib import SequenceMatcher

    def alike(one: str, texts: Sequence[str]) -> tuple[float, int]:
        matcher = SequenceMatcher(b=one.strip(), autojunk=False)
        rates = list[float]()
        for text in texts:
            matcher.set_seq1(text.strip())
            rates.append(matcher.ratio() if matcher.quick_ratio() > _ALIKE else 0)
        best = max(rates, default=0)
        return best, rates.index(best) if best else -1

    rate, which = alike(come[at], gone)
    return [gone[which]] if rate > _ALIKE and alike(gone[which], come)[1] == at else []


def turn_around(baton: Baton, stored: Stored) -> Stored | None:
    """Return the end of the turn in which a checkpoint was recorded: the first one that follows, of its session and work tree,
    with a last prompt from before it and records that continue after it. None where that is not sure."""
    c = stored.checkpoint
    items = baton.store.everything([c.track]).items
    place = next((n for n, one in enumerate(items) if one.id == stored.id), None)
    if place is None or stored.foreign or c.files is None:
        return None

    def ends(one: Stored) -> bool:
        agent, it = one.checkpoint.agent, one.checkpoint
        session = c.agent is None or (agent is not None and (agent.name, agent.session) == (c.agent.name, c.agent.session))
        return session and it.kind == "auto" and it.step.startswith(TURN_ENDED) and it.observed is not None

    after, before = next(filter(ends, reversed(items[:place])), None), next(filter(ends, items[place:]), None)
    seen = after.checkpoint.observed if after is not None else None
    if after is None or after.foreign_words or seen is None or not seen.asked or seen.until is None:
        return None
    last, files = max(seen.asked, key=lambda one: one.at), after.checkpoint.files
    if files is None or not files.worktree.same(c.files.worktree) or not last.at <= c.created <= seen.until:
        return None
    # Prompts of other sessions of the track are in the list, too, and such as say nothing are not: the step has the turn's own.
    known = before.checkpoint.observed.asked if before is not None and before.checkpoint.observed is not None else ()
    over = any(abs(one.at - last.at) < _PART for one in known)
    return after if names_prompt(after.checkpoint.step, last) and not over else None


def turns_behind(baton: Baton, lines: Iterable[BlamedLine]) -> dict[int, Span]:
    """Return the turns of agents in which lines came into a work tree, by the number of the line: the one that its checkpoint
    is of, or in which its commit was made, as hooks saw or a client's transcript shows; a line of which that is not sure is
    left out."""
    asked = [line for line in lines if line.origin is not None]
    tips = baton.store.tips().items if asked else ()
    known = {tip.checkpoint.track: _Turns(turns(baton.store, tip.checkpoint.track)) for tip in tips}
    times = windows(baton.store, tips) if any(isinstance(line.origin, BlamedCommit) for line in asked) else {}
    made: dict[tuple[Oid, str], list[tuple[Span, set[bytes] | None]]] = {}
    past = makers(baton.store) if any(isinstance(line.origin, BlamedCommit) for line in asked) else {}
    found: dict[int, Span] = {}
    for line in asked:
        one, span = line.origin, None
        if isinstance(one, Stored):
            if one.checkpoint.kind == "auto" and one.checkpoint.track in known:
                span = span_of(one, known[one.checkpoint.track])
        elif one is not None:
            one = line.made or one
            key = one.oid, line.path
            if key not in made:
                at = one.created.timestamp()
                near = [track for track, spans in times.items() if any(start - 1 < at <= end for start, end in spans)]
                around = [span for track in near for span in known[track] if _made_in(baton, span, one, line.path)]
                made[key] = [(span, _lines_after(baton, span, line.path)) for span in around]
            those = [span for span, after in made[key] if after is None or line.text in after]
            those = [span for span in those if line.path in span.edited] or those
            span = those[0] if len({session_key(each.session) for each in those}) == 1 else None
            span = span or (_imported(past[one.oid]) if one.oid in past else None)
        if span is not None and span.owns(line.path):
            found[line.number] = span
    return found


def _imported(stored: Stored) -> Span:
    c = stored.checkpoint
    prompt = c.imported.prompt if c.imported is not None else ""
    session = c.agent and replace(c.agent, transcript=None)
    return Span(session=session, prompt=prompt, began=None, end=stored, edited=frozenset(), open=False)


class _Turns:
    """Turns that are read as far as they are asked for, and once."""

    def __init__(self, rest: Iterator[Span]) -> None:
        self.rest, self.read = rest, list[Span]()

    def __iter__(self) -> Iterator[Span]:
        yield from self.read
        for span in self.rest:
            self.read.append(span)
            yield span


def _made_in(baton: Baton, span: Span, commit: BlamedCommit, path: str) -> bool:
    """Whether a commit with a file was made in a turn. Of one that the commit of anybody has ended only what the agent's own
    tools edited is known to be the turn's."""
    at = commit.created.timestamp()  # of whole seconds
    if span.before is None or not span.owns(path) or not since(span) - 1 < at <= until(span):
        return False
    if span.end is None and not span.open and path not in span.edited:
        return False
    if span.began is None and not span.open and (span.end is None or span.end.checkpoint.turn is None):
        return False
    head = begun_at(baton.store, span)
    return head is None or not is_ancestor(baton.repo, commit.oid, head)


def _lines_after(baton: Baton, span: Span, path: str) -> set[bytes] | None:
    """Return the lines of a file at the end of a turn; None where that is now."""
    if span.after is None or span.open:
        return None
    blob = _contents(baton, [span.after], path).get(span.after)
    found = baton.repo.objects.read(blob, _LARGE) if blob is not None else None
    return {*found.data.split(b"\n")} if found is not None and found.data else set()


def safety_chains(baton: Baton) -> Iterator[tuple[Stored, ...]]:
    """Yield the states before each restore, revert, undo and redo, newest first, of each work tree."""
    for ref in baton.repo.objects.refs(SAFETY):
        with suppress(RecordError, NotFoundError):
            yield tuple(s for s in baton.store.chain(ref, None).items if not s.foreign and s.checkpoint.restore)


def _parents(
    baton: Baton,
    moments: _Moments,
    names: Sequence[str],
    now: Oid,
    head: Oid | None,
    contents: dict[str, dict[Oid, Oid]],
) -> tuple[dict[Oid, list[Oid]], _Held]:
    """Return the commits that each commit may pass lines to, preferred ones first; the file has one of these names. Then what
    the file is, by name, in each checkpoint and in what it may pass lines to. ``contents``: by name what ``_contents`` says of
    the trees of checkpoints, as far as that is known; the rest is put in.

    ``moments`` are the checkpoints and the states before restores, the oldest first. A checkpoint has the one before it, what
    was restored in its work tree since, the newest of every other track then, and its head. A commit has the newest checkpoint
    of every track before the first that knows it, what was restored since in any work tree, then its own parents. A checkpoint
    in which the file is as in an earlier one is that one. So every arrow leads to what was there before.
    """
    items = [one for one in moments if one.restore is None]
    heads = dict.fromkeys(one.head for one in items if one.head)
    held: _Held = {}

    def hold(name: str, there: Mapping[Oid, Oid], places: Iterable[tuple[Oid, Oid]]) -> None:
        for commit, tree in places:
            found = there.get(tree)
            if found is not None:
                held[commit] = {**held.get(commit, {}), name: found}

    for name in names:
        if name not in contents:
            contents[name] = _contents(baton, _trees(items), name)
        hold(name, contents[name], ((one.commit, one.tree) for one in items))
    known = _commits(baton, [*heads, head])
    commit_of = {one.id: one.commit for one in items}
    parents: dict[Oid, list[Oid]] = {}
    first: dict[tuple[tuple[str, Oid], ...], Oid] = {}
    newest: dict[str, Oid] = {}  # of each track
    last: dict[datetime | None, Oid] = {}  # of each work tree
    places: dict[str, datetime | None] = {}  # of each track's newest
    brought: dict[datetime | None, list[Oid]] = {}  # by restores into a work tree
    passed: set[Oid] = set()
    met: list[list[Oid]] = []  # those of ``newest`` and ``brought`` that hold the file, once they were asked for

    def stands(commit: Oid) -> Oid:
        return first.setdefault((*held[commit].items(),), commit) if commit in held else commit

    def arrive(oid: Oid | None) -> list[Oid]:
        if oid is None or oid not in known:
            return [oid] if oid else []
        if not met:  # since something was met last
            met.append([*newest.values(), *(found for restored in brought.values() for found in restored)])
            met[0] = list(dict.fromkeys(found for found in met[0] if found in held))
        todo, before = [oid], met[0]
        while todo:
            at = todo.pop()
            if at in known:
                above = known.pop(at)
                if before:
                    parents[at] = [*before, *above]
                todo += above
        return [oid]

    for one in moments:
        done, track, place, commit = one.restore, one.track, one.place, one.commit
        if done is not None:
            if done.target in passed:  # a clock may have been ahead
                brought.setdefault(place, []).append(stands(commit_of[done.target]))
                met.clear()
            continue
        passed.add(one.id)
        base, restored, it = arrive(one.head), brought.pop(place, []), stands(commit)
        if restored or newest.get(track) != it:
            met.clear()
        if it == commit:
            # Of the other tracks in one work tree the newest holds what its files were before.
            others = [found for name, found in newest.items() if places.get(name) != place and found in held]
            own = [found for found in (last.get(place), newest.get(track)) if found]
            parents[commit] = list(dict.fromkeys([*own, *restored, *others, *base]))
        newest[track] = last[place] = it
        places[track] = place
    above = dict.fromkeys(oid for commit in held.keys() & parents.keys() for oid in parents[commit] if oid in heads)
    for name in names if above else ():
        hold(name, _contents(baton, [*above], name), ((oid, oid) for oid in above))
    base = arrive(head)
    here = brought.get(baton.repo.worktree_id().created, [])
    parents[now] = list(dict.fromkeys([*here, *(found for found in newest.values() if found in held), *base]))
    return parents, held


def _first_alone(parents: Mapping[Oid, Sequence[Oid]], held: _Held, checkpoints: Container[Oid]) -> set[Oid]:
    """Return the checkpoints that may pass lines to their first parent alone until a line turns out to have come back: git
    compares whole files with each parent. Not where the file has another name there, nor where it is the same in another
    parent."""
    many = {oid: [held.get(parent, {}) for parent in of] for oid, of in parents.items() if oid in checkpoints and len(of) > 1}
    return {
        oid
        for oid, (first, *others) in many.items()
        if oid in held and held[oid].keys() <= first.keys() and not any(held[oid].items() & other.items() for other in others)
    }


def _came_back(baton: Baton, lines: Iterable[BlamedLine], parents: Mapping[Oid, Sequence[Oid]], held: _Held) -> set[Oid]:
    """Return the checkpoints with a line that one of their parents holds, but not the first."""
    brought: dict[Oid, set[bytes]] = {}
    for line in lines:
        if isinstance(line.origin, Stored):
            brought.setdefault(line.origin.commit, set()).add(line.text)

    def holding(asked: Iterable[tuple[Oid, Sequence[Oid], set[bytes]]]) -> dict[Oid, set[bytes]]:
        asked, wanted = list(asked), dict[Oid, set[bytes]]()
        for _, of, texts in asked:
            for blob in (blob for parent in of for blob in held.get(parent, {}).values()):
                wanted.setdefault(blob, set()).update(texts)
        read = zip(wanted.items(), baton.repo.objects.read_many(list(wanted), _LARGE), strict=True)
        there = {blob: _among(texts, found.data) if found and found.data else set() for (blob, texts), found in read}
        return {
            oid: {text for parent in of for blob in held.get(parent, {}).values() for text in there[blob] & texts}
            for oid, of, texts in asked
        }

    again = holding((oid, parents[oid][1:], texts) for oid, texts in brought.items())
    before = holding((oid, parents[oid][:1], texts) for oid, texts in again.items() if texts)
    return {oid for oid, texts in before.items() if again[oid] - texts}


def _among(texts: set[bytes], data: bytes) -> set[bytes]:
    """Return the lines of a set that a file holds."""
    if len(texts) > _FEW:
        return texts & {*data.split(b"\n")}
    framed = b"\n%b\n" % data
    return {text for text in texts if b"\n%b\n" % text in framed}


def _in_order(items: _Moments, brought: _Moments) -> _Moments:
    """Sort by time, and where times are equal as in their chain."""
    moments = sorted((*items, *brought), key=lambda one: one.created)
    if len({one.created for one in moments}) == len(moments):
        return moments
    known = {one.id: one for one in moments}

    def after(one: _Moment | Outline) -> int:
        above, count = known.get(one.previous or ""), 0
        while above is not None and above.created == one.created:
            above, count = known.get(above.previous or ""), count + 1
        return count

    found = list[_Moment | Outline]()
    for _, group in groupby(moments, key=lambda one: one.created):
        together = sorted(group, key=lambda one: one.id, reverse=True)
        found += sorted(together, key=lambda one: (after(one), one.restore is not None))
    return found


def _trees(items: _Moments) -> list[Oid]:
    """Return the trees of checkpoints."""
    return [*dict.fromkeys(one.tree for one in items)]


def _contents(
    baton: Baton, commits: Sequence[Oid], path: str, meanwhile: Callable[[], object] = lambda: None
) -> dict[Oid, Oid]:
    """Return the blob at a path in each of these commits, where it is a file. What is to be done ``meanwhile`` is called
    once."""
    git = baton.repo.opened  # what a look at the work tree stores meanwhile, of what is gone, is in no checkpoint
    if "\n" in path:  # git cat-file reads a name a line
        meanwhile()
        found = ((oid, git.run("ls-tree", "-z", oid, "--", f":(literal){path}").out.split(b"\t")[0].split()) for oid in commits)
        return {oid: words[2].decode() for oid, words in found if words[1:2] == [b"blob"]}
    lines = [f"{oid}:{path}\n".encode("utf-8", "surrogateescape") for oid in commits]
    words = ("cat-file", "--batch-check=%(objecttype) %(objectname)", "--buffer")
    said = git.divided(*words, lines=lines, large=_LARGE_LIST, meanwhile=meanwhile).split(b"\n")[:-1]
    return {oid: line[5:].decode() for oid, line in zip(commits, said, strict=True) if line.startswith(b"blob ")}


def _commits(baton: Baton, heads: Iterable[Oid | None]) -> dict[Oid, list[Oid]]:
    """Return the commits after the first of these heads, each with its parents."""
    wanted = [oid for oid in dict.fromkeys(heads) if oid]
    if not wanted:
        return {}
    asked = "".join(f"{oid}\n" for oid in [*wanted, f"^{wanted[0]}"]).encode()
    said = baton.repo.git.out("rev-list", "--ignore-missing", "--parents", "--stdin", stdin=asked).decode("ascii")
    return {oid: parents for oid, *parents in (line.split() for line in said.splitlines())}


def _lines(told: bytes, checkpoints: Mapping[Oid, _Moment | Outline], now: Oid) -> Iterator[BlamedLine]:
    """Parse the output of ``git blame --porcelain``."""
    found: dict[Oid, Stored] = {}
    facts: dict[Oid, dict[bytes, bytes]] = {}
    oid, then, number = "", 0, 0
    for row in told.split(b"\n"):
        if row.startswith(b"\t"):
            about, one = facts[oid], checkpoints.get(oid)
            if one is not None and oid not in found:
                found[oid] = one.stored()
            yield BlamedLine(
                number=number,
                text=row[1:],
                origin=found.get(oid) or (None if oid == now else _commit(oid, about)),
                path=_unquoted(about[b"filename"]),
                then=then,
            )
            oid = ""
        elif not oid:
            words = row.split()
            if words:
                oid, then, number = words[0].decode(), int(words[1]), int(words[2])
                facts.setdefault(oid, {})
        else:
            key, _, rest = row.partition(b" ")
            facts[oid][key] = rest


def _commit(oid: Oid, about: Mapping[bytes, bytes]) -> BlamedCommit:
    author, summary = (about[key].decode("utf-8", "replace") for key in (b"author", b"summary"))
    return BlamedCommit(oid=oid, author=author, created=_moment(about[b"author-time"]), summary=summary)


def _moment(seconds: str | bytes) -> datetime:
    return datetime.fromtimestamp(min(max(int(seconds), 0), _LATEST), UTC)


def _unquoted(name: bytes) -> str:
    """Return a path from git's C-quoted form, where it has odd characters."""
    if name.startswith(b'"'):
        import ast

        name = ast.literal_eval("b" + name.decode("ascii"))
    return os.fsdecode(name)
