"""The proof of forgetting: what refs, indexes and reflogs still reach of checkpoints that are forgotten, and from where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.codec import parse_note, payload, plain
from gitbaton.errors import GitError, RecordError
from gitbaton.git import usage
from gitbaton.git.notes import walk
from gitbaton.git.objects import object_id
from gitbaton.model import Oid
from gitbaton.retention.forgetting import Forgetting
from gitbaton.retention.leftover import Held, containing, holders, leftover
from gitbaton.retention.repeats import kept_by_git, repeated
from gitbaton.retention.traces import latest_holding, words
from gitbaton.store import NOTES, Store
from gitbaton.values import value

_MANY = 100
_AFTER = "goes by 'git baton forget --everywhere ID', with the full id, after it"
_NAMED = re.compile(rb"^checkpoint ([0-9a-f]{40,64})$", re.MULTILINE)


@value
class Proof:
    """What of the forgotten checkpoints is still ``held``, and what is worth a line besides (``said``). ``unread``: what could
    not be looked at; then nothing is proven."""

    held: tuple[Held, ...] = ()
    said: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def prove(baton: Baton, made: Forgetting) -> Proof:
    """Walk everything that any ref, index or reflog reaches; what of the forgotten checkpoints is among it. Nothing held: they
    are gone from here once git has collected garbage. Where something cannot be read, nothing else is looked at either: who
    knows what it holds."""
    if made.broken:
        return Proof(unread=tuple(f"'{plain(ref)}' cannot be read: {why}" for ref, why in sorted(made.broken.items())))
    try:
        return _proven(baton, made)
    except (RecordError, GitError) as error:
        return Proof(unread=(error.message,))


def _proven(baton: Baton, made: Forgetting) -> Proof:
    reached = usage.everything(baton.repo)
    found = [*_records(baton, made, reached), *_notes(baton.store, made), *_branched(baton, made), *repeated(baton, made)]
    found += [Held(what="the words", by=f"'{path}'") for path in latest_holding(baton, made.all_ids)]
    files = leftover(baton, made, reached)
    return Proof(held=tuple(dict.fromkeys([*found, *files.held])), said=files.said)


def _records(baton: Baton, made: Forgetting, reached: Mapping[Oid, bytes]) -> Iterator[Held]:
    """Their JSON: as a blob of its own, and in the message of any commit."""
    short = {oid: baton.short(oid) for oid in made.all_ids}
    for oid in sorted(made.all_ids & reached.keys()):
        for by in holders(baton.repo, oid):
            yield Held(what=f"the record of checkpoint {short[oid]}", by=by)
    for commit, oid in _carriers(baton, made).items():
        for by in containing(baton.repo, commit):
            yield Held(what=f"the commit of checkpoint {short[oid]}", by=by)


def _carriers(baton: Baton, made: Forgetting) -> dict[Oid, Oid]:
    """The reachable commits whose message holds the JSON of a forgotten checkpoint, by whatever parents they have."""
    lines = [row for s in made.parts for row in s.raw.split(b"\n") if row.startswith(b'  "created": ')]
    commits = _grepped(baton, ("--all", "--reflog", "-F"), (row.decode("ascii", "replace") for row in lines))
    carriers: dict[Oid, Oid] = {}
    for commit, item in zip(commits, baton.store.objects.read_many(commits), strict=True):
        try:
            text = payload(item.data.partition(b"\n\n")[2]) if item is not None and item.data else b""
        except RecordError:
            continue
        oid = object_id(baton.store.objects.algorithm, "blob", text)
        if oid in made.all_ids:
            carriers[commit] = oid
    return carriers


def _branched(baton: Baton, made: Forgetting) -> Iterator[Held]:
    """Commits that 'git baton branch' made of them, or that were made of such: their message has the words."""
    parts = {stored.id.encode(): stored for stored in made.parts}
    outside = (f"--exclude={NOTES}", "--exclude=refs/baton/*", "--all", "--reflog", "-F")
    rows = _grepped(baton, outside, [f"checkpoint {stored.id}" for stored in made.parts])
    for commit, item in zip(rows, baton.store.objects.read_many(rows), strict=True):
        message = item.data.partition(b"\n\n")[2] if item is not None and item.data else b""
        for oid in _NAMED.findall(message):
            stored = parts.get(oid)
            first = stored.checkpoint.step.split("\n")[0].encode() if stored else b""
            if stored and any(text and text in message for text in (first, *words([stored]))):
                for by in containing(baton.repo, commit):
                    yield Held(what=f"words of checkpoint {baton.short(stored.id)}", by=by)


def _grepped(baton: Baton, options: Sequence[str], texts: Iterable[str]) -> list[Oid]:
    """The commits whose messages have any of some texts."""
    patterns = [f"--grep={text}" for text in sorted(set(texts))]
    raw = b""
    for start in range(0, len(patterns), _MANY):
        raw += baton.repo.git.out("rev-list", *options, *patterns[start : start + _MANY])
    return list(dict.fromkeys(raw.decode("ascii").split()))


def _notes(store: Store, made: Forgetting) -> Iterator[Held]:
    """Entries of theirs in the notes."""
    tree = store.notes_tree()[1]
    rows = list(walk(store.objects, tree)) if tree else []
    for (commit, _), found in zip(rows, store.objects.read_many([blob for _, blob in rows]), strict=True):
        if found is not None and found.data is not None:
            for oid in {oid for oid, _ in parse_note(found.data).entries} & made.all_ids:
                yield Held(what=f"the note of checkpoint {oid}", by=f"the note of commit {commit} in '{NOTES}'")


def texts(baton: Baton, held: Sequence[Held], most: int = 20) -> list[str]:
    """What is still held, one line each, the first few, and how to forget all checkpoints that hold a secret."""
    rows = [row.text for row in held[:most]] + ([f"and {len(held) - most} more"] if len(held) > most else [])
    ids = dict.fromkeys(oid for row in held if row.secret for oid in row.ids)
    named = " ".join(baton.short(oid) for oid in ids)
    return [*rows, *([f"these hold a secret, too: git baton forget --everywhere {named}"] if ids else [])]


def unknown(made: Forgetting) -> list[str]:
    """Of what nobody can tell whether anything is left, in words."""
    known = {stored.id for stored in made.parts}
    return [
        f"what {oid[:10]} held is not known here any more: only its record and its notes were looked for"
        for oid in made.ids
        if oid not in known
    ]


def to_do(baton: Baton, made: Forgetting) -> list[str]:
    """What is left to do here and elsewhere, in words."""
    kept = kept_by_git(baton.repo) if made.everywhere else []
    said = [
        *kept,
        "git removes the objects when it collects garbage after gc.pruneExpire (two weeks), or now by 'git gc --prune=now'",
    ]
    for remote in map(plain, made.remotes):
        said.append(f"'{remote}' has it: run 'git baton push {remote}' or 'git baton sync {remote}'")
    if made.remotes:
        said.append("a server keeps what no ref reaches until its own garbage collection; ask whoever runs it to collect now")
    said.append(f"other clones drop it at their next 'git baton sync'; what restores and exports left there {_AFTER}")
    return said
