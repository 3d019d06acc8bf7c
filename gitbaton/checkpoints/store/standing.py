"""Standing words: decisions of a track until they are withdrawn, with the note and extras that are kept; and the checkpoint of
a track at which a work tree is after a restore.

A snapshot takes them over; where two chains were joined, their union stands. They are an LWW-element-set: a withdrawal ends
what any writer gave before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import islice

from gitbaton.base.codec import counted, digest, earlier_ids, first_line, in_quotes, plain
from gitbaton.base.codec.checkpoint import MAX_ABOUT
from gitbaton.base.errors import AmbiguousNameError, GitError, RecordError, UsageError
from gitbaton.base.model import (
    BESIDE,
    STEPPING,
    Back,
    Checkpoint,
    Decided,
    Decision,
    DecisionChanges,
    Here,
    Observed,
    Oid,
    Prompt,
    Standing,
    Stored,
    Told,
    Withdrawn,
    is_turn,
    prompt_in,
)
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.store.chain import AFTER, MAX_COMMIT, Chains, in_beside, payload_in
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.read import Store
from gitbaton.checkpoints.store.refs import chain_ref, safety_ref
from gitbaton.git.objects import Object, object_id
from gitbaton.git.questions import met
from gitbaton.git.treediff import differences

MAX_SIZE = 256 << 10  # bytes of the decisions that stand: automatic checkpoints, which carry them, have room beside them
MANY = 50  # decisions after which it is said that they are many
LOOKED = 200  # checkpoints of a joined track in which a reader looks for what stands
_WALKED = 1000  # checkpoints in which a change of a path is looked for
_GREATEST = 100_000  # a number above is a stranger's jest, and given anew
_LISTED = 10
_REMEMBERED = 50  # decisions that were withdrawn: until every clone has heard of it
_NEVER = datetime.min.replace(tzinfo=UTC)
NOTE, EXTRA = "note", "extra."  # what ``keep`` and ``withdraw`` call the parts of a checkpoint's words that are no decision
_PREVIOUS = re.compile(rb'\n  "previous": (?:null|"([0-9a-f]{40,64})"),?\n')
_Row = tuple[
    Oid, "Oid | None", Callable[[], "Stored | None"]
]  # a checkpoint, the one that it was written on top of, and the rest
_LOG = ("log", "-z", "--first-parent", "--no-notes", "--no-decorate", "--no-color", "--format=%H %T %P")


@value
class Stands:
    """Standing words at a checkpoint: the decisions in the order of their numbers, those that were withdrawn, the greatest
    number that was given, the note and the extras that are kept. ``known``: the decisions that words of here had already.
    ``theirs``: what of the words of others is kept with them, and is not taken over."""

    decisions: tuple[Decision, ...] = ()
    withdrawn: tuple[Withdrawn, ...] = ()
    last: int = 0
    note: str = ""
    extra: tuple[tuple[str, str], ...] = ()
    known: frozenset[str] = frozenset()
    theirs: tuple[str, ...] = ()


@value
class Given:
    """A snapshot's changes of standing words: decisions, each about all of ``about``, those that it withdraws, affirms or takes
    for its own by their texts, and the names of what else is kept or is kept no longer."""

    decisions: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    withdrawn: frozenset[str] = frozenset()
    affirmed: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    dropped: frozenset[str] = frozenset()


def of_words(stored: Stored) -> Stands:
    """Return what stands by the words of one checkpoint, its own or carried ones."""
    c, foreign = stored.checkpoint, stored.foreign_words
    s = c.standing or Standing()
    kept = tuple((key, text) for key, text in c.extra if key in s.extra)
    names = (*((NOTE,) if s.note else ()), *(EXTRA + key for key, _ in kept))
    decisions = tuple(replace(one, foreign=foreign or one.foreign) for one in c.decided)
    return Stands(
        decisions=decisions,
        withdrawn=tuple(replace(one, at=one.at or c.written) for one in s.withdrawn),
        last=max((s.last, *(one.number for one in decisions), *(one.number for one in s.withdrawn))),
        note="" if foreign else s.note,
        extra=() if foreign else kept,
        known=frozenset() if foreign else frozenset(one.text for one in decisions),
        theirs=names if foreign else (),
    )


def at(store: Chains, tip: Stored | None, limit: int | None = LOOKED) -> Stands:
    """Return what stands at a checkpoint: what its words say; where foreign checkpoints were joined, or it is one, the union of
    what each line of checkpoints says that was not written on top of another. ``limit``: how many are looked at."""
    return several(store, [tip], limit)[0] if tip is not None else Stands()


def several(store: Chains, tips: Sequence[Stored], limit: int | None = LOOKED) -> list[Stands]:
    """Return what stands at several checkpoints, each as ``at`` does; their chains are read together."""
    apart = [tip.foreign or store.ours.mixed(tip.checkpoint.track) for tip in tips]
    joined = [t.commit for t, asked in zip(tips, apart, strict=True) if asked]
    walks = store.walks(joined, limit) if joined else {}
    read, found = store.objects.read_many([oid for start in joined for oid in walks[start]], MAX_COMMIT), list[Stands]()
    for tip, asked in zip(tips, apart, strict=True):
        if not asked:
            found.append(of_words(tip))
            continue
        rows = list(_rows(store, tip, list(islice(read, len(walks[tip.commit])))))
        found.append(_joined(tip, rows or [_row(tip)], partial(store.ours.has, of_track(tip.checkpoint.track))))
    return found


def _of_others(store: Chains, tip: Stored) -> Collection[Oid] | None:
    """Return the commits that the chain of a foreign checkpoint's track has here, of which alone something may be ours; None
    where the checkpoint is its newest, or is ours."""
    here = store.objects.info(chain_ref(tip.checkpoint.track)) if tip.foreign else None
    if not tip.foreign or (here is not None and here.oid == tip.commit):
        return None
    return frozenset(store.objects.first_parents(here.oid)) if here is not None else ()


def _row(stored: Stored) -> _Row:
    return stored.id, stored.checkpoint.previous, lambda: stored


def _rows(store: Chains, tip: Stored, found: Sequence[Object | None]) -> Iterator[_Row]:
    """Yield the rows of the commits of a checkpoint's chain, of which nothing more is read until that is asked for."""
    track = tip.checkpoint.track if tip.checkpoint.kind not in BESIDE else None
    read = partial(_readable, store, track, _of_others(store, tip))
    for at, item in enumerate(found):
        raw = payload_in(item.data) if item is not None and item.data is not None else b""
        if item is not None and raw and (said := _PREVIOUS.findall(raw)):
            oid = object_id(store.objects.algorithm, "blob", raw)
            yield oid, said[-1].decode("ascii") or None, partial(read, item) if at else lambda: tip
        elif item is not None and raw and (stored := read(item)) is not None:  # not as we write it
            yield _row(stored)


def _readable(store: Chains, track: str | None, own: Collection[Oid] | None, found: Object) -> Stored | None:
    try:
        stored = store.stored(found, track, found.oid)
    except RecordError:
        return None
    return stored if own is None or stored.commit in own else replace(stored, foreign=True)


def _joined(tip: Stored, rows: Sequence[_Row], ours: Callable[[Oid], bool]) -> Stands:
    """Return what stands at a tip by the rows of its chain, newest first, its own the first; ``ours``: whether a checkpoint may
    have been made here."""
    heads = [stored for read in _heads(rows) if (stored := read()) is not None]
    found = union([of_words(stored) for stored in heads]) if len(heads) > 1 else of_words(tip)
    asked = (read() for oid, _, read in rows if ours(oid))
    items = (s for s in asked if s is not None and not s.foreign_words)
    mine = next((of_words(s) for s in items if s.checkpoint.kind == "manual" or s.checkpoint.carried), None)
    if mine is None:
        return found
    own = {one.text for one in mine.decisions if not one.foreign}
    decisions = tuple(replace(one, foreign=one.foreign and one.text not in own) for one in found.decisions)
    return replace(found, decisions=decisions, known=mine.known, note=mine.note, extra=mine.extra)


def _heads(rows: Iterable[_Row]) -> Iterable[Callable[[], Stored | None]]:
    """Return those of a chain's checkpoints, newest first, that no other one was written on top of, as its writer saw it."""
    seen = set[Oid | None]()
    for oid, previous, read in rows:
        if oid not in seen:
            yield read
        seen.add(previous)


def union(parts: Sequence[Stands]) -> Stands:
    """Return the decisions that stand by several words. Pure, and the same in whatever order they come. Where two decisions
    have one number, the one that was made first keeps it."""
    ended: dict[str, Withdrawn] = {}
    for one in (one for part in parts for one in part.withdrawn):
        other = ended.get(one.digest)
        if other is None or _moment(other.at) < _moment(one.at):
            ended[one.digest] = one
    found: dict[str, Decision] = {}
    for said in (said for part in parts for said in part.decisions):
        first = found.get(said.text, said)
        newest = max(first, said, key=lambda d: (d.made, d.about))
        number, foreign = min(first.number, said.number), first.foreign and said.foreign
        found[said.text] = replace(newest, number=number, foreign=foreign)
    kept = _again(parts)
    gone = {text: _moment(getattr(ended.get(digest(text)), "at", None)) for text in found}
    alive = [d for d in found.values() if d.made > gone[d.text] or kept.get(d.text, _NEVER) >= gone[d.text] > _NEVER]
    last = max((n for n in (*(p.last for p in parts), *(d.number for d in alive)) if n <= _GREATEST), default=0)
    decisions, taken = list[Decision](), set[int]()
    for said in sorted(alive, key=lambda d: (d.number, d.made, d.text)):
        if said.number in taken or said.number > _GREATEST:
            last += 1
            said = replace(said, number=last)
        taken.add(said.number)
        decisions.append(said)
    return Stands(
        decisions=tuple(sorted(decisions, key=lambda d: d.number)),
        withdrawn=tuple(sorted(ended.values(), key=lambda w: (_moment(w.at), w.digest))),
        last=last,
        theirs=tuple(dict.fromkeys(name for part in parts for name in part.theirs)),
    )


def _again(parts: Iterable[Stands]) -> dict[str, datetime]:
    """Return the decisions that stand again by some words, and when they were withdrawn, as far as those words know."""
    found = dict[str, datetime]()
    for part in parts:
        ended = {one.digest: _moment(one.at) for one in part.withdrawn}
        for text in [one.text for one in part.decisions] if ended else ():
            found[text] = max(found.get(text, _NEVER), ended.get(digest(text), _NEVER))
    return found


def again(stands: Stands, before: Stands) -> Stands:
    """Take back what was withdrawn since a checkpoint that came back: what stood ``before``, there, stands again. Each such
    decision is still among the withdrawn, so that it can be said. Pure."""
    gone, held = {one.digest for one in stands.withdrawn}, {one.text for one in stands.decisions}
    back = [one for one in before.decisions if one.text not in held and digest(one.text) in gone] if gone else []
    taken, last, pairs = {one.number for one in stands.decisions}, stands.last, dict(stands.extra)
    for at, one in enumerate(back):
        if one.number in taken:  # of a chain that was joined
            last += 1
            back[at] = replace(one, number=last)
    note = before.note if before.note not in stands.note else ""
    return replace(
        stands,
        decisions=tuple(sorted((*stands.decisions, *back), key=lambda one: one.number)),
        last=last,
        note="\n\n".join(filter(None, (stands.note, note))),
        extra=(*stands.extra, *((key, text) for key, text in before.extra if key not in pairs)),
    )


def _moment(at: datetime | None) -> datetime:
    return at or _NEVER


def asked(
    stands: Stands,
    tip: Checkpoint | None,
    new: Checkpoint,
    *,
    about: Sequence[str] = (),
    withdraw: Sequence[str] = (),
    keep: Sequence[str] = (),
    meant: Callable[[str], str] = str,
) -> Given:
    """Return what a snapshot with the words ``new`` on top of ``tip`` changes of what stands.

    ``withdraw`` names decisions by number, text or the unambiguous beginning of one, and ``note`` and ``extra.KEY``; so does
    ``keep``. ``meant`` makes of a text what is stored for it. Raises UsageError where nothing is meant, AmbiguousNameError
    where several could be.
    """
    track, names = new.track, {NOTE} if stands.note else set[str]()
    names |= {EXTRA + key for key, _ in stands.extra}
    ended, dropped = set[str](), set[str]()
    for name in withdraw:
        if name in names:
            dropped.add(name)
            continue
        if _is_number(name) is None and (own := [text for text in new.decisions if text.startswith((name, meant(name)))]):
            said = f"{in_quotes(first_line(name))} is withdrawn and decided by the same snapshot"
            raise UsageError(said, f"decision: {first_line(own[0])}")
        ended.add(_one(stands, track, name, meant).text)
    if both := ended.intersection(new.decisions):
        raise UsageError(f"{in_quotes(first_line(min(both)))} is withdrawn and decided by the same snapshot")
    affirmed, kept = set[str](), set[str]()
    for name in keep:
        if name == NOTE or name.startswith(EXTRA):
            kept.add(_there(name, tip, new, gone=name in dropped))
        else:
            affirmed.add(_one(stands, track, name, meant).text)
    if both := ended & affirmed:
        raise UsageError(f"{in_quotes(first_line(min(both)))} is withdrawn and kept by the same snapshot")
    decisions = tuple(text for text in new.decisions if text.strip())  # nothing that nobody could name would stand
    if about and not decisions and not affirmed:
        raise UsageError("paths are given, and no decision that is about them", "--keep N names one that stands")
    if len(about) > MAX_ABOUT:
        raise UsageError(
            f"a decision is about {len(about)} paths; the limit is {MAX_ABOUT}", "a folder stands for all below it"
        )
    return Given(
        decisions=decisions,
        about=tuple(dict.fromkeys(about)),
        withdrawn=frozenset(ended),
        affirmed=frozenset(affirmed),
        kept=frozenset(kept),
        dropped=frozenset(dropped),
    )


def _is_number(name: str) -> int | None:
    return int(name) if name.isascii() and name.isdigit() and len(name) < 10 else None


def _one(stands: Stands, track: str, name: str, meant: Callable[[str], str]) -> Decision:
    """Return the decision that a number, a text or the beginning of one means."""
    from shlex import quote

    hint = f"git baton resume --track {quote(plain(track))}"
    where, number = f"track {in_quotes(track)}", _is_number(name)
    if not name.strip():
        raise UsageError("a decision is named by its number or its text, and the name is empty", f"'{hint}' numbers them")
    if number is not None:
        found = [one for one in stands.decisions if one.number == number]
        gone = any(one.number == number for one in stands.withdrawn)
        said = f"decision {number} of {where} {'is withdrawn already' if gone else 'does not stand'}"
    else:
        texts = {name, meant(name)}
        found = [one for one in stands.decisions if one.text in texts]
        found = found or [one for one in stands.decisions if one.text.startswith(tuple(texts))]
        said = f"no decision that stands on {where} begins with {in_quotes(first_line(name)[:60])}"
        said += ", and it is not kept" if name == NOTE or name.startswith(EXTRA) else ""
    if not found:
        raise UsageError(said, f"'{hint}' numbers those that stand" if stands.decisions else "none stands")
    if len(found) > 1:
        rows = [f"decision {one.number}: {first_line(one.text)}" for one in found]
        more = [f"and {len(rows) - _LISTED} more"] if len(rows) > _LISTED else []
        raise AmbiguousNameError(f"{in_quotes(first_line(name)[:60])} could mean {len(rows)} decisions", *rows[:_LISTED], *more)
    return found[0]


def _there(name: str, tip: Checkpoint | None, new: Checkpoint, *, gone: bool) -> str:
    """Return the name of a note or an extra that is there to be kept: in the new words, else in those before."""
    before = tip if tip is not None and not gone else None
    if name == NOTE:
        there, what = bool(new.note or (before and before.note)), "note"
    else:
        key = name.removeprefix(EXTRA)
        there, what = key in dict(new.extra) or (before is not None and key in dict(before.extra)), f"extra {in_quotes(key)}"
    if not there:
        raise UsageError(f"there is no {what} to keep: neither this snapshot nor the words before it have one")
    return name


def taken_over(new: Checkpoint, tip: Checkpoint | None, stands: Stands, given: Given) -> Checkpoint:
    """New words with what stands: its decisions, less those that end, in the order of their numbers, and what is kept. Raises
    UsageError where that is more than a checkpoint has room for. Pure."""
    made, last, anew = dict[str, Decided](), stands.last, _again([stands])
    for one in _within(stands.decisions):
        if one.text in given.withdrawn:
            continue
        at = one.made if anew.get(one.text, _NEVER) == _NEVER else None  # else it is given again, after it was withdrawn
        made[one.text] = Decided(number=one.number, made=at, about=one.about, foreign=one.foreign)
        if one.text in given.affirmed:
            made[one.text] = Decided(number=one.number, about=given.about or one.about)
    for text in given.decisions:
        number, about = (made[text].number, made[text].about) if text in made else (last + 1, ())
        last = max(last, number)
        made[text] = Decided(number=number, about=given.about or about)
    _room(made)
    numbers = {one.text: one.number for one in stands.decisions}
    gone = sorted((numbers[text], text) for text in given.withdrawn if text in numbers)
    ended = [Withdrawn(number=number, digest=digest(text)) for number, text in gone]
    old = {digest(text) for text in (*made, *given.withdrawn)} if stands.withdrawn else set[str]()
    withdrawn = (*(one for one in stands.withdrawn if one.digest not in old), *ended)[-_REMEMBERED:]
    note, kept = _note(new, tip, stands, given)
    pairs = {key: text for key, text in stands.extra if EXTRA + key not in given.dropped}
    before = {**(dict(tip.extra) if tip else {}), **dict(new.extra)}
    pairs |= {key: before[key] for name in sorted(given.kept - {NOTE}) if (key := name.removeprefix(EXTRA)) in before}
    top = max((*(m.number for m in made.values()), *(w.number for w in withdrawn)), default=0)
    standing = Standing(
        decisions=tuple(made.values()),
        withdrawn=withdrawn,
        last=last if last > top else 0,
        note=kept,
        extra=tuple(pairs),
    )
    usual = tuple(Decided(number=number) for number, _ in enumerate(made, 1)) == standing.decisions
    standing = replace(standing, decisions=()) if usual else standing
    return replace(
        new,
        note=note,
        decisions=tuple(made),
        extra=tuple({**pairs, **dict(new.extra)}.items()),
        standing=None if standing == Standing() else standing,
    )


def ended(stands: Stands, new: Checkpoint) -> tuple[Decision, ...]:
    """Return the decisions that words withdraw of those that stood before."""
    gone = {one.number for one in (new.standing or Standing()).withdrawn if one.at is None}
    return tuple(one for one in stands.decisions if one.number in gone)


def _note(new: Checkpoint, tip: Checkpoint | None, stands: Stands, given: Given) -> tuple[str, str]:
    """Return the whole note, and the part of it that is kept: what was kept goes by a withdrawal only, not by another note."""
    kept = "" if NOTE in given.dropped else stands.note
    if NOTE in given.kept:
        said = new.note or (tip.note if tip else "")
        kept = said if kept in said else kept if said in kept else f"{said}\n\n{kept}"
    if kept in new.note:
        return new.note, kept
    return (f"{new.note}\n\n{kept}" if new.note else kept), kept


def _within(decisions: Sequence[Decision]) -> list[Decision]:
    """Return the decisions that are taken over: of foreign ones no more than there is room for."""
    room, left = MAX_SIZE - sum(_size(one.text) for one in decisions if not one.foreign), list[Decision]()
    for one in decisions:
        if one.foreign and (room := room - _size(one.text)) < 0:
            continue
        left.append(one)
    return left


def _room(made: Mapping[str, Decided]) -> None:
    size = sum(map(_size, made))
    if size > MAX_SIZE:
        said = f"the {len(made)} decisions that stand come to {size} bytes; the limit is {MAX_SIZE}"
        raise UsageError(said, "end some that no longer hold: --withdraw N, with the number that 'git baton resume' shows")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def shown(c: Checkpoint, stands: Stands) -> Checkpoint:
    """Return a checkpoint as it is shown: with what stands at it."""
    made = tuple(Decided(number=one.number, made=one.made, about=one.about, foreign=one.foreign) for one in stands.decisions)
    standing: Standing | None = Standing(
        decisions=made,
        withdrawn=stands.withdrawn,
        last=stands.last,
        note=stands.note,
        extra=tuple(key for key, _ in stands.extra),
    )
    note = c.note if stands.note in c.note else f"{c.note}\n\n{stands.note}".lstrip("\n")
    extra = tuple({**dict(c.extra), **dict(stands.extra)}.items())
    standing = None if standing == Standing() else standing
    return replace(c, note=note, extra=extra, decisions=tuple(one.text for one in stands.decisions), standing=standing)


def said(stands: Stands, given: Given, new: Checkpoint) -> list[str]:
    """Return the warnings about words that a snapshot takes over, or does not."""
    rows, name = list[str](), in_quotes(new.track)
    fresh = [one for one in new.decided if one.foreign and one.text not in stands.known]
    if fresh:
        numbers = ", ".join(str(one.number) for one in fresh[:_LISTED]) + (", ..." if len(fresh) > _LISTED else "")
        which = f"decision {numbers} is" if len(fresh) == 1 else f"decisions {numbers} are"
        rows.append(f"{which} from elsewhere: shown quoted until --keep N makes one of them yours, or --withdraw N ends it")
    held = {one.text for one in new.decided}
    lost = [one for one in stands.decisions if one.foreign and one.text not in held | given.withdrawn]
    if lost:
        rows.append(f"{counted(len(lost), 'decision')} from elsewhere not taken over: there is no room")
    theirs = [name for name in stands.theirs if name not in given.kept]
    if theirs:
        rows.append(f"kept elsewhere and not here: {', '.join(theirs)}; --keep takes what it names over")
    if len(new.decisions) > MANY:
        rows.append(
            f"{len(new.decisions)} decisions stand on track {name}, more than anybody is told at once: end those that no longer"
            " hold with --withdraw N"
        )
    return rows


def changes(store: Chains, tip: Stored, decisions: Sequence[Decision]) -> dict[int, DecisionChanges]:
    """By the numbers of those decisions that are about paths: the checkpoints since each was made, up to ``tip``, in which a
    file there changed. One walk and one comparison for all; none where nothing is about any path."""
    tied = [one for one in decisions if one.about]
    if not tied or tip.checkpoint.files is None:
        return {}
    since = min(one.made for one in tied)
    words = (f"--max-count={_WALKED}", f"--max-age={int(since.timestamp())}", "--end-of-options", tip.commit, "--")
    told = store.repo.git.changed({}, "log.showSignature=false").out(*_LOG, *words).decode("ascii").split("\0")[:-1]
    rows = {oid: (tree, parents[0]) for oid, tree, *parents in (row.split(" ") for row in told) if parents}
    edits = _edits(store, tip, rows, tuple(dict.fromkeys(path for one in tied for path in one.about)))
    found = dict[int, DecisionChanges]()
    for one in tied:
        near = [edit for edit in edits if edit.stored.checkpoint.created > one.made and touches(one.about, edit.changed)]
        sure = tuple(edit.stored for edit in near if edit.since is None or edit.since >= one.made)
        found[one.number] = DecisionChanges(items=sure, whole=len(rows) < _WALKED and len(sure) == len(near))
    return found


@value
class _Edit:
    """Paths that changed in a checkpoint. ``since``: None where that is what it was written on top of; else, where that one is
    pruned, the time of the one that is below it now: what changed before may be in it, too."""

    stored: Stored
    changed: Collection[str]
    since: datetime | None = None


def _edits(store: Chains, tip: Stored, rows: Mapping[Oid, tuple[Oid, Oid]], paths: Sequence[str]) -> list[_Edit]:
    """Return the checkpoints in which one of ``paths`` changed, newest first; ``rows``: tree and parent by commit. What stands
    below one need not be what it was written on top of: chains are joined, and pruned."""
    trees = {oid: old for oid, (_, parent) in rows.items() if (old := _tree(store, rows, parent))}
    found = differences(store.repo, [(old, rows[oid][0]) for oid, old in trees.items()], paths)
    touched = [oid for oid, old in trees.items() if found[old, rows[oid][0]]]
    wanted = list(dict.fromkeys([*touched, *(rows[oid][1] for oid in touched if rows[oid][1] != store.root)]))
    items = zip(wanted, store.objects.read_many(wanted, MAX_COMMIT), strict=True)
    read = {oid: store.stored(item, tip.checkpoint.track, oid) for oid, item in items}
    edits, known = list[_Edit](), dict[Oid, Oid]()
    for oid in touched:
        stored, (tree, parent) = read[oid], rows[oid]
        before, below = stored.checkpoint.previous, read.get(parent)
        if before is None or (below is not None and before == below.id):
            edits.append(_Edit(stored=stored, changed=found[trees[oid], tree].keys()))
            continue
        known = known or {one.id: one.commit for one in store.below(tip, LOOKED).items}
        old = _tree(store, rows, known[before]) if before in known else None
        if old is not None:
            edits.append(_Edit(stored=stored, changed=differences(store.repo, [(old, tree)], paths)[old, tree].keys()))
        else:
            since = below.checkpoint.created if below is not None else _NEVER
            edits.append(_Edit(stored=stored, changed=found[trees[oid], tree].keys(), since=since))
    return edits


def _tree(store: Chains, rows: Mapping[Oid, tuple[Oid, Oid]], commit: Oid) -> Oid | None:
    return rows[commit][0] if commit in rows else store.tree_of(commit)


def touches(about: Collection[str], changed: Iterable[str]) -> list[str]:
    """List the paths that lie at or below those that a decision is about."""
    return [path for path in changed if any(path == place or place == "." or path.startswith(f"{place}/") for place in about)]


_STEPS = 5  # of the safety chain, among which that of a track is looked for
_FEW = 100  # characters by which a prompt is known, beside its time
_FAR = 1000  # checkpoints of a chain below its newest one among which the one that came back is looked for


@value
class Stance:
    """The place of a work tree on a track: ``stored`` is the checkpoint of which the words and the state are there, with what
    was asked and seen since that was not taken back, and ``back`` says where that is.

    ``step``: the restore, undo or redo that led there, or that brought other files, as its safety checkpoint; None where there
    was none, or a checkpoint followed. ``paths``: what the step brought back where not all did; ``came``: the checkpoint that
    came back below one that carries its words.
    """

    stored: Stored
    back: Back
    step: Stored | None = None
    paths: tuple[str, ...] = ()
    came: Stored | None = None


def last_steps(store: Store, track: str | None) -> tuple[Stored, ...]:
    """Return the newest steps of this work tree's safety chain, newest first; only one where that is of the ``track`` that is
    asked for. None where the newest is another work tree's."""
    layout = store.repo.layout
    try:
        step = store.tip_at(safety_ref(layout.git_dir, layout.common_dir))
    except (RecordError, GitError):
        return ()
    if step is None:
        return ()
    place, files = met(layout.git_dir, layout.root or ""), step.checkpoint.files
    if place is None or files is None or not files.worktree.same(place):
        return ()
    steps = (step,) if step.checkpoint.track == track else islice(store.newest(step), _STEPS)
    return tuple(s for s in steps if not s.foreign and s.checkpoint.restore is not None)


def called_now(steps: Iterable[Stored], chain: Iterable[Stored]) -> Iterator[Stored]:
    """Yield steps of a safety chain with the track and the ids that the checkpoints of ``chain`` have now: a renaming, and a
    return, wrote those anew."""
    steps, names = tuple(steps), dict[Oid, Stored]()
    wanted = {oid for step in steps for oid in _named_by(step)}
    for stored in chain if wanted else ():
        names |= {was: stored for was in earlier_ids(stored.raw) if was in wanted}
        if len(names) == len(wanted):
            break

    def new(oid: Oid) -> Oid:
        return names[oid].id if oid in names else oid

    def place(here: Here | None) -> Here | None:
        return Here(at=new(here.at), top=new(here.top)) if here is not None else None

    for step in steps:
        c, done = step.checkpoint, step.checkpoint.restore
        if names and done is not None:
            of = names.get(done.tip or done.target) or names.get(done.target)
            done = replace(
                done,
                origin=new(done.origin) if done.origin else None,
                target=new(done.target),
                tip=new(done.tip) if done.tip else None,
                before=place(done.before),
                after=place(done.after),
            )
            step = replace(step, checkpoint=replace(c, track=of.checkpoint.track if of else c.track, restore=done))
        yield step


def _named_by(step: Stored) -> Iterator[Oid]:
    """Yield the checkpoints of tracks that the record of a restore names; an undo or redo goes to one of the safety chain."""
    done = step.checkpoint.restore
    if done is not None:
        places = (place for here in (done.before, done.after) if here is not None for place in (here.at, here.top))
        target = done.target if done.op not in STEPPING else None
        yield from (oid for oid in (done.origin, target, done.tip, *places) if oid)


def stance(store: Store, tip: Stored, steps: Sequence[Stored]) -> Stance:
    """Return the place of this work tree on the track of the newest checkpoint ``tip``, after ``steps``, the newest first."""
    if steps and earlier_ids(tip.raw):
        steps = tuple(called_now(steps, islice(store.newest(tip), _FAR)))
    track, last = tip.checkpoint.track, steps[0] if steps else None
    own = next((s for s in steps if s.checkpoint.track == track), None)
    done = own.checkpoint.restore if own is not None else None
    here = Here(at=tip.id, top=tip.id)
    if done is not None and done.tip == tip.id:
        here = done.after or done.before or here
    led = last is not None and last is own and done is not None and done.tip == tip.id
    strange = last is not None and last is not own and last.checkpoint.restore and last.checkpoint.restore.origin == tip.id
    step = last if (led and (here.at != tip.id or (done and done.after is None))) or strange else None
    paths = _paths(store, step) if step is not None and step is own and done and done.after is None else ()
    stored, gone, left = _between(store, tip, here) if here.at != tip.id else (tip, (), ())
    stored = stored or _fetched(store, tip, here.at) or tip
    below = stored.checkpoint.carried.restored if stored.checkpoint.carried else None
    came: Stored | None = None
    if below is not None and stored is tip:  # what came back below an automatic checkpoint that carries its words
        came, gone, left = _between(store, tip, below)
        left = tuple(s for s in left if s.checkpoint.carried is None or s.checkpoint.carried.restored != below)
    newer, at = left if stored is not tip else (), came or stored
    back = Back(here=here, gone=gone, left=left, newer=newer, gone_asked=_added(gone, at), left_asked=_added(left, at))
    stored = _gone_on(stored, newer)
    if stored.id != tip.id:  # a restore takes files back, and withdraws nothing
        stored = replace(stored, checkpoint=shown(stored.checkpoint, stands(store, tip, stored)))
    return Stance(stored=stored, back=back, step=step, paths=paths, came=came)


def _added(items: Sequence[Stored], at: Stored) -> tuple[Prompt, ...]:
    """Return what the user said in some checkpoints and not in the one ``at`` which a work tree is, newest first."""
    had = {_key(one) for one in at.checkpoint.observed.asked} if at.checkpoint.observed else set[object]()
    found = dict[object, Prompt]()
    for c in (s.checkpoint for s in items if at.foreign_words >= s.foreign):
        asked = c.observed.asked if c.observed else ()
        text = prompt_in(c.step) if is_turn(c.kind, c.step) else ""
        if text and not any(first_line(one.text).startswith(text) for one in asked):  # it said little by itself
            asked = (*asked, Prompt(text=text, at=c.created))
        found |= {_key(one): one for one in asked if _key(one) not in had and _key(one) not in found}
    return tuple(sorted(found.values(), key=lambda one: one.at, reverse=True))


def _key(one: Prompt) -> tuple[float, str]:
    return round(one.at.timestamp(), 3), first_line(one.text)[:_FEW]


def _gone_on(stored: Stored, newer: Sequence[Stored]) -> Stored:
    """Return a checkpoint that came back with what clients had on record in newer ones that were not taken back."""
    if not newer:
        return stored
    observed = stored.checkpoint.observed
    for later in reversed([s.checkpoint.observed for s in newer if stored.foreign_words >= s.foreign]):
        observed = _both(observed, later) if observed is not None and later is not None else observed or later
    return replace(stored, checkpoint=replace(stored.checkpoint, observed=observed))


def _both(old: Observed, new: Observed) -> Observed:
    """Merge two records: of each plan and each test command the newest; turns and words of both."""
    plans = {(one.agent, one.session): one for one in sorted((*old.plans, *new.plans), key=lambda one: one.changed)}
    tests = {one.command: one for one in sorted((*old.tests, *new.tests), key=lambda one: one.ended)}
    return replace(
        old,
        plans=tuple(sorted(plans.values(), key=lambda one: one.changed, reverse=True)),
        tests=tuple(sorted(tests.values(), key=lambda one: one.ended, reverse=True)),
        edited=tuple(dict.fromkeys((*new.edited, *old.edited))),
        edited_more=max(old.edited_more, new.edited_more),
        asked=_all(old.asked, new.asked),
        milestone=max((at for at in (old.milestone, new.milestone) if at is not None), default=None),
        until=max((at for at in (old.until, new.until) if at is not None), default=None),
        partial=old.partial or new.partial,
    )


def _all(old: Sequence[Prompt], new: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """Return all prompts in their order, those of sessions before first; an old one that a newer session knows is of one
    before."""
    marks = {_key(one): one.earlier for one in new}
    before = any(marks.get(_key(one), False) and not one.earlier for one in old)
    kept = [replace(one, earlier=one.earlier or before) for one in old if _key(one) not in marks]
    return tuple(sorted((*kept, *new), key=lambda one: (not one.earlier, one.at)))


def gone_on(told: Told, later: Told) -> Told:
    """Put together what was said around a checkpoint and around a newer one that was not taken back."""

    def newest(*said: Prompt | None) -> Prompt | None:
        return max((one for one in said if one is not None), key=lambda one: one.at, default=None)

    checks = {one.command: one for one in sorted((*told.checks, *later.checks), key=lambda one: one.ended)}
    return replace(
        later,
        asked=_all(told.asked, later.asked),
        latest=newest(told.latest, later.latest),
        approved=newest(told.approved, later.approved),
        listed=newest(told.listed, later.listed),
        said=newest(told.said, later.said),
        worked=newest(told.worked, later.worked),
        checks=tuple(sorted(checks.values(), key=lambda one: one.ended)),
        error=later.error or told.error,
        read=tuple(dict.fromkeys((*later.read, *told.read))),
    )


def stands(store: Store, tip: Stored, stored: Stored, limit: int | None = LOOKED) -> Stands:
    """Return what stands on a track of which a checkpoint is here: what does at its newest one, and what was withdrawn since
    and taken back. ``limit``: how many checkpoints of a joined track are looked at."""
    found = at(store, tip, limit)
    return again(found, at(store, stored, limit)) if stored.id != tip.id else found


def has_words(store: Store, tip: Stored, stored: Stored, here: Here) -> bool:
    """Whether a checkpoint has, or carries, the words that a step brought back, so that no others were written since."""
    found = _between(store, tip, here)[0]
    return found is not None and _words(found) == _words(stored)


def _words(stored: Stored) -> Oid:
    carried = stored.checkpoint.carried
    return carried.id if carried is not None else stored.id


def _between(store: Store, tip: Stored, here: Here) -> tuple[Stored | None, tuple[Stored, ...], tuple[Stored, ...]]:
    """Return the checkpoint that came back, where the chain still has it, what was taken back above it, and what is newer than
    that. Where the newest one that was taken back is pruned, what was written on top of it is newer."""
    above = list[Stored]()
    for stored in islice(store.newest(tip), _FAR):
        if stored.id == here.at:
            top = next((n for n, s in enumerate(above) if s.id == here.top), None)
            if top is None and here.top != here.at:
                top = next((n + 1 for n, s in enumerate(above) if s.checkpoint.previous == here.top), 0)
            top = len(above) if top is None else top
            return stored, tuple(above[top:]), tuple(above[:top])
        above.append(stored)
    return None, (), ()


def _fetched(store: Store, tip: Stored, oid: Oid) -> Stored | None:
    """Return a checkpoint of a track's chains at remotes."""
    for _, commit in store.at_remotes(tip.checkpoint.track):
        try:
            start = store.stored(store.objects.read(commit), tip.checkpoint.track, commit)
        except RecordError:
            continue
        found = next((s for s in islice(store.newest(start), _FAR) if s.id == oid), None)
        if found is not None:
            return found
    return None


def _paths(store: Store, step: Stored) -> tuple[str, ...]:
    """Return the paths that a step touched for which some were named, as far as that is known."""
    try:
        pair = (step.tree, in_beside(store, step, AFTER))
        return tuple(differences(store.repo, [pair])[pair])
    except (RecordError, GitError):
        return ()
