"""Forgetting: checkpoints removed for good, with all that holds their words or files, in one transaction."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import decode, decode_track, plain
from gitbaton.errors import MENDS, AmbiguousNameError, NoAnswerError, NotFoundError, RecordError, RefConflictError, UsageError
from gitbaton.git import usage
from gitbaton.git.objects import RefChange, author_at, commit_data, new_object
from gitbaton.git.publish import publish
from gitbaton.model import Oid, Stored
from gitbaton.retention.cleaning import cleaned
from gitbaton.retention.inventory import Conversation, Found, copies, existing
from gitbaton.retention.removing import Trimmed, drawn_up, insist, moved, moving, survey
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Store, chain_ref, tip_ref
from gitbaton.store.notes import plan_notes
from gitbaton.store.refs import META, REMOTES
from gitbaton.store.safety import beside
from gitbaton.store.sound import NONE, own_refs, theirs
from gitbaton.store.write import NOBODY
from gitbaton.transcripts import proofs, sessions_of, transcript_ref
from gitbaton.values import replace, value

_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")
_NAMED = 20
_MAX_RECORD = 2 << 20
_LEAST = 12  # bytes of a compressed blob: below it is empty


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
    stay: Mapping[str, tuple[Stored, ...]]
    everywhere: bool
    remotes: tuple[str, ...]
    pinned: tuple[Oid, ...]
    seen: Mapping[str, Oid]
    broken: Mapping[str, str] = NONE
    before: tuple[Stored, ...] = ()
    safety: tuple[Trimmed, ...] = ()
    conversations: tuple[Conversation, ...] = ()
    fetched: Mapping[str, Oid] = NONE
    changed: Mapping[Oid, bytes] = MappingProxyType({})
    brought: frozenset[Oid] = frozenset()
    alone: frozenset[Oid] = frozenset()

    @property
    def all_ids(self) -> frozenset[Oid]:
        """Every checkpoint that is not to come back."""
        return frozenset((*self.ids, *(stored.id for stored in self.parts)))

    @property
    def parts(self) -> tuple[Stored, ...]:
        """All whose words and files are known."""
        return (*self.stored, *self.along, *self.before)


def plan(baton: Baton, names: Sequence[str], *, everywhere: bool, held: bool = False) -> Forgetting:
    """What forgetting these checkpoints comes to. Removes nothing. ``held``: whether the lock is.

    Raises NotFoundError, AmbiguousNameError, RecordError where ``meta`` or a track that one of them is on cannot be read, or a
    ref of ours is a stranger's.
    """
    found = survey(baton, held=held)
    named = [_named(baton, found, name) for name in names]
    for track in (asked.checkpoint.track for _, asked in named if asked is not None):
        for ref in (chain_ref(track), tip_ref(track)):
            if ref in found.broken:
                raise RecordError(f"nothing is forgotten: '{ref}' cannot be read: {found.broken[ref]}", MENDS)
    ids = tuple(dict.fromkeys(oid for oid, _ in named))
    fetched = list(copies(baton.store, found))
    chains = [*(copy.items for copy in fetched if copy.whole), *(chain.items for chain in found.tracks)]
    everyone = {s.id: s for items in chains for s in items}
    along = tuple(s for s in everyone.values() if s.id not in ids and s.checkpoint.carried and s.checkpoint.carried.id in ids)
    stored = (everyone.get(oid) or asked for oid, asked in named)
    gone = {*ids, *(s.id for s in along)}
    holding = [copy for copy in fetched if not copy.whole or any(s.id in gone for s in copy.items)]
    made = Forgetting(
        ids=ids,
        stored=tuple(s for s in stored if s is not None),
        along=along,
        stay={
            chain.name: tuple(s for s in chain.items if s.id not in gone)
            for chain in found.tracks
            if any(s.id in gone for s in chain.items)
        },
        everywhere=everywhere,
        remotes=tuple(sorted({copy.remote for copy in holding})),
        pinned=tuple(oid for oid in (*ids, *(s.id for s in along)) if found.meta.pinned(oid) and oid in everyone),
        seen=found.refs,
        broken=found.broken,
    )
    return _everywhere(baton, found, made, chains, {copy.ref for copy in holding}) if everywhere else made


def _everywhere(
    baton: Baton, found: Found, made: Forgetting, chains: Sequence[Sequence[Stored]], holding: Collection[str]
) -> Forgetting:
    """The same with all that goes besides, wherever it lies. ``chains``: the items of all that can be read, fetched ones first;
    ``holding``: the refs of the fetched ones with any of it."""
    made = replace(made, before=_before(baton.store, found, made))
    agents = {s.checkpoint.agent for s in made.parts if s.checkpoint.agent}
    talks = {(agent.name, name) for agent in agents if agent.session for name in sessions_of(agent.session)}
    conversations = tuple(talk for talk in found.conversations if (talk.agent, talk.session) in talks)
    whole = {ref: oid for ref, oid in found.refs.items() if ref not in found.broken}
    fetched = {ref: oid for ref, oid in whole.items() if ref in holding or _copied(ref, talks)}

    parts = [s for s in made.parts if s.id in made.ids]  # those that go along are named for their words
    changed, brought = _files(baton, parts, chains)
    rest = [s for chain in found.tracks for s in chain.items if s.id not in made.all_ids]
    alone = _alone(baton, found, rest, {*fetched, *(talk.ref for talk in conversations)}, changed)
    safety = (cleaned(baton.store, chain, made.all_ids, alone) for chain in found.safety)
    return replace(
        made,
        conversations=conversations,
        fetched=fetched,
        changed=changed,
        brought=brought,
        alone=alone,
        safety=tuple(part for part in safety if part is not None),
    )


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


def _copied(ref: str, talks: Collection[tuple[str, str]]) -> bool:
    """Whether a fetched ref holds words besides chains: notes, whosever they are, and these conversations."""
    room, _, rest = ref.removeprefix(REMOTES).partition("/")[2].partition("/")
    agent, _, session = rest.partition("/")
    talk = room == "transcripts" and (agent, decode_track(session)) in talks
    return ref.startswith(REMOTES) and (talk or (room, rest) == ("notes", ""))


def _files(
    baton: Baton, parts: Sequence[Stored], chains: Iterable[Sequence[Stored]]
) -> tuple[dict[Oid, bytes], frozenset[Oid]]:
    """The blobs of checkpoints, of their work tree and index, that their HEAD does not have, each with a path; and those of
    them that the checkpoint before, as its chain has it, did not hold either."""
    older = {one.id: other for items in chains for one, other in pairwise(items)}
    paths, brought = dict[Oid, bytes](), set[Oid]()
    for stored in parts:
        head = baton.store.tree_of(stored.checkpoint.head)
        paths |= _beyond(baton, stored, [head] if head else [])
        trees = [head, *(trees_of(baton.store, older[stored.id]) if stored.id in older else ())]
        brought |= _beyond(baton, stored, existing(baton.store, (tree for tree in trees if tree))).keys()
    sizes = usage.sizes(baton.repo, paths)
    files = {oid for oid, size in sizes.items() if size.kind == "blob" and size.bytes >= _LEAST}
    return {oid: path for oid, path in paths.items() if oid in files}, frozenset(brought & files)


def _alone(
    baton: Baton, found: Found, rest: Iterable[Stored], dropped: Collection[str], files: Collection[Oid]
) -> frozenset[Oid]:
    """Those of some files that neither the checkpoints ``rest`` nor any other ref holds that stays, the safety checkpoints
    apart. ``dropped``: refs that go. Raises RecordError."""
    if not files:
        return frozenset()
    left = {*dropped, *found.broken}
    ours = {**own_refs(baton.store), **found.refs}
    tips = {oid for ref, oid in ours.items() if not ref.startswith((CHAINS, TIPS, SAFETY)) and ref not in left}
    tips |= {oid for s in rest for oid in (s.tree, s.base) if oid}
    kept = usage.reached(baton.repo, existing(baton.store, tips.union(theirs(baton.store))))
    return frozenset(files) - kept.keys()


def trees_of(store: Store, stored: Stored) -> list[Oid | None]:
    """The trees of a checkpoint: its work tree, its index, and what lies beside it."""
    files = stored.checkpoint.files
    return [stored.tree, store.tree_of(stored.base), beside(store, stored), files.index.tree if files else None]


def _beyond(baton: Baton, stored: Stored, without: Sequence[Oid]) -> Mapping[Oid, bytes]:
    """What a checkpoint's work tree and index hold and some trees do not."""
    trees = existing(baton.store, (tree for tree in trees_of(baton.store, stored) if tree))
    try:
        return usage.reached(baton.repo, trees, without)
    except RecordError:
        if stored.base is not None:
            raise
        return {}  # of what was removed before, git may have collected some


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
    first = made or plan(baton, names, everywhere=everywhere)

    def applied(made: Forgetting, held: bool) -> tuple[Forgetting, list[str]]:
        permit(baton, made, force=force)
        return made, _carried_out(baton, made, held=held)

    done, said = insist(baton, first, lambda held: plan(baton, first.ids, everywhere=everywhere, held=held), applied)
    return done, [*said, *baton.refresh()]


def apply(baton: Baton, made: Forgetting) -> list[str]:
    """Remove them from their chains, in one transaction, and leave tombstones; what should be said about it. The lock is held
    only while refs move.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is changed then.
    """
    return [*_carried_out(baton, made, held=False), *baton.refresh()]


def _carried_out(baton: Baton, made: Forgetting, *, held: bool) -> list[str]:
    chains, talks = [chain_ref(track) for track in made.stay], {talk.ref: talk.tip for talk in made.conversations}
    touched = {*chains, *talks, *made.fetched, *(part.chain.ref for part in made.safety), META}
    refs = [*chains, *(tip_ref(track) for track in made.stay), *talks]
    revision = drawn_up(baton, made.broken, keep=made.stay, drop={**talks, **made.fetched}, forgotten=made.all_ids)
    with moving(baton, revision, refs, made.safety, held=held) as free:
        if ref := moved(baton, made.seen, touched.__contains__):
            raise RefConflictError(f"nothing is forgotten: '{ref}' moved meanwhile", "try again")
        unmarked = _mark(baton, made)
        revision.apply()
        if made.everywhere and NOTES not in made.broken:
            _rewrite_notes(baton, made)
    busy = [plain(part.chain.name) for part in made.safety if part.chain.ref not in free]
    waiting = [f"a restore is at work in '{name}'; its safety checkpoints stay for now" for name in busy]
    return [*unmarked, *revision.warnings, *waiting]


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


def _rewrite_notes(baton: Baton, made: Forgetting) -> None:
    """Take their entries out of every note, and let the notes begin anew: their history holds what was there before."""
    store = baton.store
    author = author_at(NOBODY, baton.clock())
    objects, change = plan_notes(store, {}, author, b"checkpoints removed\n", made.all_ids)
    old, tree = store.notes_tree()
    if change is None and old is not None and tree is not None and len(store.objects.first_parents(old, 2)) > 1:
        data = commit_data(tree=tree, parents=(), author=author, message=b"checkpoints removed\n")
        objects = [new_object(store.objects.algorithm, "commit", data)]
        change = RefChange(name=NOTES, new=objects[0].oid, old=old)
    if change is not None:
        publish(store.repo, [change], new=objects)
