"""Forgetting checkpoints for good: what goes with them, and carrying it out in one transaction."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext

from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import decode, decode_track, plain
from gitbaton.errors import MENDS, AmbiguousNameError, NoAnswerError, NotFoundError, RecordError, RefConflictError, UsageError
from gitbaton.git.objects import RefChange, commit_data, new_object
from gitbaton.git.publish import publish
from gitbaton.model import Oid, Stored
from gitbaton.retention.blobs import alone, brought, changed
from gitbaton.retention.cleaning import Cleaned, cleaned
from gitbaton.retention.looking import Chain, Conversation, Found, look
from gitbaton.retention.planning import finish
from gitbaton.retention.trimming import resting
from gitbaton.store import NOTES, Store, chain_ref, tip_ref
from gitbaton.store.bundle import plan_notes
from gitbaton.store.intent import settle
from gitbaton.store.refs import META, REMOTES, TRANSCRIPTS
from gitbaton.store.revision import Revision
from gitbaton.store.sound import NONE, own_refs
from gitbaton.store.write import NOBODY
from gitbaton.transcripts import proofs, sessions_of, transcript_ref
from gitbaton.values import replace, value

_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")
_TRIES = 3
_NAMED = 20
_MAX_RECORD = 2 << 20
Fetched = dict[str, tuple[Stored, ...] | None]


@value
class Forgetting:
    """What is forgotten, and what goes with it. ``ids``: the checkpoints that were named; ``stored``: those of them that some
    chain here or fetched still holds; ``along``: automatic ones that carry their words. ``stay``: what each track that loses
    any keeps. The rest only with ``everywhere``: ``before``: those of both that were removed before, as far as git still has
    their record; ``safety``: the chains that are written again without them; ``conversations`` and ``fetched`` refs that go;
    ``changed``: the files of each that its HEAD does not have, with their paths; ``brought``: those of them that the
    checkpoint before did not have either; ``alone``: those that nothing else holds which stays. ``remotes``: who has such a
    track, as last fetched. ``pinned``: those of the ids, and of what goes along, that somebody pinned. ``broken``: refs that
    cannot be read and stay as they are, each with why: nobody knows what they hold."""

    ids: tuple[Oid, ...]
    stored: tuple[Stored, ...]
    along: tuple[Stored, ...]
    before: tuple[Stored, ...]
    stay: Mapping[str, tuple[Stored, ...]]
    everywhere: bool
    safety: tuple[Cleaned, ...]
    conversations: tuple[Conversation, ...]
    fetched: Mapping[str, Oid]
    changed: Mapping[Oid, bytes]
    brought: frozenset[Oid]
    alone: frozenset[Oid]
    remotes: tuple[str, ...]
    pinned: tuple[Oid, ...]
    seen: Mapping[str, Oid]
    broken: Mapping[str, str] = NONE

    @property
    def all_ids(self) -> frozenset[Oid]:
        """Every checkpoint that is not to come back."""
        return frozenset((*self.ids, *(stored.id for stored in self.parts)))

    @property
    def parts(self) -> tuple[Stored, ...]:
        """All whose words and files are known."""
        return (*self.stored, *self.along, *self.before)


def plan(baton: Baton, names: Sequence[str], *, everywhere: bool) -> Forgetting:
    """What forgetting these checkpoints comes to. Removes nothing.

    Raises NotFoundError, AmbiguousNameError, RecordError where ``meta`` or a track that one of them is on cannot be read, or a
    ref of ours is a stranger's.
    """
    finish(baton)
    return _planned(baton, names, everywhere=everywhere)


def _planned(baton: Baton, names: Sequence[str], *, everywhere: bool) -> Forgetting:
    found = look(baton.store)
    named = [_named(baton, found, name) for name in names]
    for _, asked in named:
        for ref in (chain_ref(asked.checkpoint.track), tip_ref(asked.checkpoint.track)) if asked is not None else ():
            if ref in found.broken:
                raise RecordError(f"nothing is forgotten: '{ref}' cannot be read: {found.broken[ref]}", MENDS)
    ids = tuple(dict.fromkeys(oid for oid, _ in named))
    copies = _fetched(baton, found)
    here = [stored for chain in found.tracks for stored in chain.items]
    everyone = {s.id: s for s in (*(s for items in copies.values() for s in items or ()), *here)}
    along = tuple(s for s in everyone.values() if s.id not in ids and s.checkpoint.carried and s.checkpoint.carried.id in ids)
    stored = tuple(everyone.get(oid) or asked for oid, asked in named if oid in everyone or asked is not None)
    gone = {*ids, *(s.id for s in along)}
    holding = {ref: items for ref, items in copies.items() if items is None or any(s.id in gone for s in items)}
    stay = {
        chain.name: tuple(s for s in chain.items if s.id not in gone)
        for chain in found.tracks
        if any(s.id in gone for s in chain.items)
    }
    made = Forgetting(
        ids=ids,
        stored=tuple(s for s in stored if s),
        along=along,
        before=(),
        stay=stay,
        everywhere=everywhere,
        safety=(),
        conversations=(),
        fetched={},
        changed={},
        brought=frozenset(),
        alone=frozenset(),
        remotes=tuple(sorted({_remote(ref) for ref in holding})),
        pinned=tuple(oid for oid in (*ids, *(s.id for s in along)) if found.meta.pinned(oid) and oid in everyone),
        seen=found.refs,
        broken=found.broken,
    )
    return _everywhere(baton, found, made, copies) if everywhere else made


def _everywhere(baton: Baton, found: Found, made: Forgetting, fetched: Fetched) -> Forgetting:
    """The same with all that goes besides, wherever it lies."""
    holding = {ref for ref, items in fetched.items() if items is None or any(s.id in made.all_ids for s in items)}
    made = replace(made, before=_before(baton.store, found, made))
    parts = [s for s in made.parts if s.id in made.ids]  # those that go along are named for their words
    files = changed(baton, parts)
    agents = {s.checkpoint.agent for s in made.parts if s.checkpoint.agent}
    talks = {(agent.name, name) for agent in agents if agent.session for name in sessions_of(agent.session)}
    copies = {
        ref: oid
        for ref, oid in found.refs.items()
        if ref in holding or (ref.startswith(REMOTES) and ref not in found.broken and _copied(ref, talks))
    }
    gone = tuple(talk for talk in found.conversations if (talk.agent, talk.session) in talks)
    rest = [s for chain in found.tracks for s in chain.items if s.id not in made.all_ids]
    chains = [*(items for items in fetched.values() if items), *(chain.items for chain in found.tracks)]
    made = replace(
        made,
        changed=files,
        brought=brought(baton, parts, chains, files),
        alone=alone(baton, found, rest, {*copies, *(talk.ref for talk in gone)}, files),
        conversations=gone,
        fetched=copies,
    )
    return replace(made, safety=_safety(baton, found, made))


def _before(store: Store, found: Found, made: Forgetting) -> tuple[Stored, ...]:
    """Those of them that no chain holds any more, from the record that git has not collected yet; what cannot be read is not
    known."""
    there = {s.id for s in (*made.stored, *made.along, *(s for chain in found.tracks for s in chain.items))}
    asked = sorted((found.meta.forgotten | found.meta.pruned | set(made.ids)) - there)
    items: list[Stored] = []
    for oid, item in zip(asked, store.objects.read_many(asked, _MAX_RECORD), strict=True):
        try:
            raw = item.data if item is not None and item.kind == "blob" and item.data else b""
            checkpoint = decode(raw)
        except RecordError:
            continue
        tree = checkpoint.files.tree if checkpoint.files else store.tree_of(checkpoint.head)
        if oid in made.ids or (checkpoint.carried and checkpoint.carried.id in made.ids):
            items.append(Stored(id=oid, commit=oid, base=None, tree=tree or oid, raw=raw, checkpoint=checkpoint))
    return tuple(items)


def _named(baton: Baton, found: Found, name: str) -> tuple[Oid, Stored | None]:
    """The checkpoint that a name means: one that is here, or one that was pruned or forgotten before, by its id."""
    try:
        stored = baton.resolve(name)
    except NotFoundError:
        known = found.meta.pruned | found.meta.forgotten
        ids = sorted(oid for oid in known if oid.startswith(name)) if _PREFIX.match(name) else []
        if len(ids) > 1:
            raise AmbiguousNameError(f"'{name}' could mean {len(ids)} checkpoints that were removed", *ids[:20]) from None
        if not ids:
            raise
        return ids[0], None
    if stored.checkpoint.kind == "safety":
        raise UsageError(f"'{baton.short(stored.id)}' is a safety checkpoint; name the checkpoint that it holds the files of")
    return stored.id, stored


def _remote(ref: str) -> str:
    name = ref.removeprefix(REMOTES).partition("/")[0]
    return decode_track(name) or name


def _fetched(baton: Baton, found: Found) -> Fetched:
    """The checkpoints of each chain that was fetched; None for one that cannot be read."""
    copies: Fetched = {}
    for ref in found.refs:
        fetched = ref.startswith(REMOTES) and ref.removeprefix(REMOTES).partition("/")[2].startswith("tracks/")
        if fetched and ref not in found.broken:
            name = decode_track(ref.rpartition("/")[2])
            try:
                history = baton.store.chain(ref, name)
                copies[ref] = None if history.problems else history.items
            except (RecordError, NotFoundError):
                copies[ref] = None
    return copies


def _copied(ref: str, talks: Collection[tuple[str, str]]) -> bool:
    """Whether a fetched ref holds words besides chains: notes, whosever they are, and these conversations."""
    below = ref.removeprefix(REMOTES).partition("/")[2]
    room = TRANSCRIPTS.removeprefix("refs/baton/")
    if not below.startswith(room):
        return below == "notes"
    agent, _, session = below.removeprefix(room).partition("/")
    return (agent, decode_track(session)) in talks


def _safety(baton: Baton, found: Found, made: Forgetting) -> tuple[Cleaned, ...]:
    """The safety chains without the words, and without files that nothing else holds which stays."""
    parts = (cleaned(baton.store, chain, made.all_ids, made.alone) for chain in found.safety)
    return tuple(part for part in parts if part is not None)


def permit(baton: Baton, made: Forgetting, *, force: bool) -> None:
    """Raise NoAnswerError where somebody pinned what would go, and nobody says that it may."""
    if made.pinned and not force:
        named = ", ".join(f"'{baton.short(oid)}'" for oid in made.pinned[:_NAMED])
        more = f" and {len(made.pinned) - _NAMED} more" if len(made.pinned) > _NAMED else ""
        said = f"nothing is forgotten: {named}{more} {'is' if len(made.pinned) == 1 else 'are'} pinned"
        raise NoAnswerError(said, f"'git baton unpin {baton.short(made.pinned[0])}' takes the pin back")


def forget(
    baton: Baton, names: Sequence[str], *, everywhere: bool, force: bool = False, made: Forgetting | None = None
) -> tuple[Forgetting, list[str]]:
    """Plan, unless that is ``made``, and carry out; where somebody records checkpoints meanwhile, plan again for the same ones,
    a few times, and then let them wait. What went, and what should be said about it. Raises as both, and without ``force`` as
    ``permit``."""
    made = made or plan(baton, names, everywhere=everywhere)
    for _ in range(_TRIES):
        permit(baton, made, force=force)
        try:
            return made, apply(baton, made)
        except RefConflictError:
            made = plan(baton, made.ids, everywhere=everywhere)
    with baton.repo.lock((META, NOTES)):
        settle(baton.store)
        made = _planned(baton, made.ids, everywhere=everywhere)
        permit(baton, made, force=force)
        said = _carried_out(baton, made, nullcontext())
    return made, [*said, *baton.refresh()]


def apply(baton: Baton, made: Forgetting) -> list[str]:
    """Remove them from their chains, in one transaction, and leave tombstones; what should be said about it. The lock is held
    only while refs move.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is changed then.
    """
    names = [ref for track in made.stay for ref in (chain_ref(track), tip_ref(track))]
    names += [talk.ref for talk in made.conversations] + [part.chain.ref for part in made.safety]
    lock = baton.repo.lock((*names, META, NOTES))
    return [*_carried_out(baton, made, lock), *baton.refresh()]


def _carried_out(baton: Baton, made: Forgetting, lock: AbstractContextManager[None]) -> list[str]:
    store, chains = baton.store, [part.chain for part in made.safety]
    revision, trimmed = _revision(baton, made), dict[str, RefChange]()
    for part in made.safety:
        trimmed[part.chain.ref] = part.change
        store.objects.write(part.objects)
    revision.prepare()
    with lock, resting(baton.repo, chains) as free:
        moved = _moved(baton, made)
        if moved is not None:
            raise RefConflictError(f"nothing is forgotten: '{moved}' moved meanwhile", "try again")
        revision.also((), [change for ref, change in trimmed.items() if ref in free])
        unmarked = _mark(baton, made)
        revision.apply()
        if made.everywhere and NOTES not in made.broken:
            _rewrite_notes(baton, made)
    busy = [chain for chain in chains if chain.ref not in free]
    return [*unmarked, *revision.warnings, *(_is_busy(chain) for chain in busy)]


def _revision(baton: Baton, made: Forgetting) -> Revision:
    """All of it as one change, but for the safety chains."""
    revision = Revision(baton.store)
    revision.noted = NOTES not in made.broken
    revision.meta = replace(revision.meta, forgotten=revision.meta.forgotten | made.all_ids)
    for track, items in made.stay.items():
        revision.keep(track, [stored.id for stored in items])
    dropped = {**{talk.ref: talk.tip for talk in made.conversations}, **made.fetched}
    revision.also((), [RefChange(name=ref, new=None, old=oid) for ref, oid in dropped.items()])
    return revision


def _mark(baton: Baton, made: Forgetting) -> list[str]:
    """Note which conversations no hook is to store again; before their refs go, so that none does meanwhile."""
    parts = (*made.stored, *made.along) if made.everywhere else ()
    talks = {(talk.agent, talk.session) for talk in made.conversations}
    talks |= {(s.checkpoint.agent.name, s.checkpoint.agent.session or "") for s in parts if s.checkpoint.agent}
    said = []
    for agent, session in sorted(talks):
        if not session or agent not in NAMES:
            continue
        try:
            proofs.forget(baton.repo, transcript_ref(agent, session))
        except (OSError, UsageError) as error:
            why = error.message if isinstance(error, UsageError) else error.strerror
            said.append(f"the conversation '{plain(session)}' is stored again when it goes on: {why}")
    return said


def _is_busy(chain: Chain) -> str:
    return f"a restore is at work in '{plain(chain.name)}'; its safety checkpoints stay for now"


def _moved(baton: Baton, made: Forgetting) -> str | None:
    now = own_refs(baton.store)
    touched = {*(chain_ref(track) for track in made.stay), *(part.chain.ref for part in made.safety), *made.fetched, META}
    touched |= {talk.ref for talk in made.conversations}
    return min((ref for ref in touched if now.get(ref) != made.seen.get(ref)), default=None)


def _rewrite_notes(baton: Baton, made: Forgetting) -> None:
    """Take their entries out of every note, and let the notes begin anew: their history holds what was there before."""
    store = baton.store
    author = NOBODY + b" %d +0000" % int(baton.clock().timestamp())
    objects, change = plan_notes(store, {}, author, b"checkpoints removed\n", made.all_ids)
    old, tree = store.notes_tree()
    if change is None and old is not None and tree is not None and len(store.objects.first_parents(old, 2)) > 1:
        data = commit_data(tree=tree, parents=(), author=author, message=b"checkpoints removed\n")
        objects = [new_object(store.objects.algorithm, "commit", data)]
        change = RefChange(name=NOTES, new=objects[0].oid, old=old)
    if change is not None:
        publish(store.repo, [change], new=objects)
