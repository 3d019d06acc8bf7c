"""Forgetting: checkpoints removed for good, with all that holds their words or files, in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from gitbaton.agents.values import NAMES
from gitbaton.baton import Baton
from gitbaton.codec import canonical, decode, decode_track, document, in_quotes, message, parse, plain
from gitbaton.errors import MENDS, AmbiguousNameError, NoAnswerError, NotFoundError, RecordError, RefConflictError, UsageError
from gitbaton.git import objectlists
from gitbaton.git.objects import (
    Kind,
    NewObject,
    Objects,
    RefChange,
    TreeEntry,
    author_at,
    commit_data,
    lookup,
    new_object,
    object_id,
    parse_tree,
    tree_data,
)
from gitbaton.git.publish import publish
from gitbaton.model import FileState, Oid, Skipped, Stored
from gitbaton.retention.inventory import Chain, Conversation, Found, copies
from gitbaton.retention.removing import Trimmed, drawn_up, insist, moved, moving, rebuilt, survey
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Store, chain_ref, tip_ref
from gitbaton.store.chain import INDEX, ROOMS, beside, paths_beside
from gitbaton.store.join import Link, links, plan_notes
from gitbaton.store.provenance import STATES
from gitbaton.store.read import NONE, own_refs, user_tips
from gitbaton.store.refs import META, REMOTES
from gitbaton.store.write import NOBODY
from gitbaton.transcripts import proofs, sessions_of, transcript_ref
from gitbaton.values import replace, value

_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")
_NAMED = 20
_MAX_RECORD = 2 << 20
_LEAST = 12  # bytes of a compressed blob: below it is empty
_SHORT = 10
_TOUCHED, _ONLY, _APART = b"touched", b"index-only", b"index-apart"  # lists of paths beside the stages
_STAGES = (b"1", b"2", b"3")
_MAX_TREE = 64 << 20
_DEEPEST = 400
_GITLINK = b"160000"


@value
class Forgetting:
    """What is forgotten, and what goes with it. ``ids``: the checkpoints that were named; ``stored``: those of them that some
    chain here or fetched still holds; ``along``: automatic ones that carry their words. ``stay``: what each track that loses
    any keeps. The rest only with ``everywhere``: ``before``: those of both that were removed before, as far as git still has
    their record; ``safety``: the chains that are written again without them; ``conversations`` and ``fetched`` refs that go;
    ``changed``: the files of each that its HEAD does not have, with their paths; ``brought``: those of them that the
    checkpoint before did not have either; ``alone``: those that nothing else holds which stays. ``remotes``: who has such a
    track, as last fetched. ``pinned``: those of the ids, and of what goes along, that somebody pinned. ``cleared``: safety
    checkpoints that were named: they stay, and only their files go. ``broken``: refs that cannot be read and stay as they are,
    each with why: nobody knows what they hold."""

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
    cleared: tuple[Stored, ...] = ()

    @property
    def names(self) -> tuple[Oid, ...]:
        """The checkpoints that were named, of whatever kind."""
        return (*self.ids, *(stored.id for stored in self.cleared))

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
    named = [_named(baton, found, name, everywhere=everywhere) for name in names]
    for track in (asked.checkpoint.track for _, asked in named if asked is not None):
        for ref in (chain_ref(track), tip_ref(track)):
            if ref in found.broken:
                raise RecordError(f"nothing is forgotten: {in_quotes(ref)} cannot be read: {found.broken[ref]}", MENDS)
    cleared = tuple({asked.id: asked for _, asked in named if asked is not None and asked.checkpoint.kind == "safety"}.values())
    named = [(oid, asked) for oid, asked in named if asked is None or asked.checkpoint.kind != "safety"]
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
        cleared=cleared,
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

    # Those that go along are named for their words.
    parts = [*(s for s in made.parts if s.id in made.ids), *made.cleared]
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


def _named(baton: Baton, found: Found, name: str, *, everywhere: bool) -> tuple[Oid, Stored | None]:
    """The checkpoint that a name means: one that is here, or one that was pruned or forgotten before, by its id. Of a safety
    checkpoint only the files go that nothing else holds, and only with ``everywhere``."""
    try:
        stored = baton.resolve(name)
    except NotFoundError:
        known = found.meta.pruned | found.meta.forgotten
        ids = sorted(oid for oid in known if oid.startswith(name)) if _PREFIX.match(name) else []
        if len(ids) > 1:
            raise AmbiguousNameError(
                f"{in_quotes(name)} could mean {len(ids)} checkpoints that were removed", *ids[:20]
            ) from None
        if not ids:
            raise
        return ids[0], None
    if stored.checkpoint.kind == "safety" and not everywhere:
        short = baton.short(stored.id)
        takes = f"'git baton forget --everywhere {short}' takes out of it what nothing else holds"
        raise UsageError(f"'{short}' is a safety checkpoint, which undo needs", takes)
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
        brought |= _beyond(baton, stored, baton.store.present(trees)).keys()
    sizes = objectlists.disk_sizes(baton.repo, paths)
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
    kept = objectlists.reached(baton.repo, baton.store.present(tips.union(user_tips(baton.store))))
    return frozenset(files) - kept.keys()


def trees_of(store: Store, stored: Stored) -> list[Oid | None]:
    """The trees of a checkpoint: its work tree, its index, and what lies beside it."""
    files = stored.checkpoint.files
    return [stored.tree, store.tree_of(stored.base), beside(store, stored), files.index.tree if files else None]


def _beyond(baton: Baton, stored: Stored, without: Sequence[Oid]) -> Mapping[Oid, bytes]:
    """What a checkpoint's work tree and index hold and some trees do not."""
    trees = baton.store.present(trees_of(baton.store, stored))
    try:
        return objectlists.reached(baton.repo, trees, without)
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

    done, said = insist(baton, first, lambda held: plan(baton, first.names, everywhere=everywhere, held=held), applied)
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
            raise RefConflictError(f"nothing is forgotten: {in_quotes(ref)} moved meanwhile", "try again")
        unmarked = _mark(baton, made)
        revision.apply()
        if made.everywhere and NOTES not in made.broken:
            _rewrite_notes(baton, made)
    busy = [plain(part.chain.name) for part in made.safety if part.chain.ref not in free]
    waiting = [f"a restore is at work in {in_quotes(name)}; its safety checkpoints stay for now" for name in busy]
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
            said.append(f"the conversation {in_quotes(session)} is stored again when it goes on: {why}")
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


def cleaned(store: Store, chain: Chain, gone: Collection[Oid], blobs: Collection[Oid]) -> Trimmed | None:
    """The chain without the words of the checkpoints ``gone`` and without ``blobs``; None when it has neither.

    Raises RecordError.
    """
    work = _Cleaner(store, gone, blobs)
    made = [
        work.link(link, stored) for link, stored in zip(links(store, chain.name, chain.tip), chain.items[::-1], strict=True)
    ]
    if not work.rewritten:
        return None
    objects, change = rebuilt(store, chain, made)
    return Trimmed(
        chain=chain,
        remove=(),
        rewritten=tuple(work.rewritten[::-1]),
        taken=work.taken,
        objects=(*work.sieve.made, *objects),
        change=change,
        ours=tuple(new for old, new in work.renamed.items() if store.ours.has(STATES, old)),
    )


class _Cleaner:
    """The links of one chain, oldest first: later ones name the earlier ones by their new ids."""

    def __init__(self, store: Store, gone: Collection[Oid], blobs: Collection[Oid]) -> None:
        self.store = store
        self.sieve = Sieve(store.objects, blobs)
        self.said = [f"restore of {oid[:_SHORT]}" for oid in gone]
        self.renamed: dict[Oid, Oid] = {}
        self.rewritten: list[Stored] = []
        self.taken: dict[Oid, tuple[str, ...]] = {}

    def link(self, link: Link, stored: Stored) -> Link:
        """The checkpoint as it is to be."""
        new, base = stored.checkpoint, link.base
        if any(text in new.step for text in self.said):
            before, name, _ = new.step.partition("restore of ")
            new = replace(new, step=f"{before}{name}a forgotten checkpoint")
        if new.files is not None:
            files, base = self._without(stored, new.files, link.base)
            new = replace(new, files=files)
        if new != stored.checkpoint or base != link.base:
            self.rewritten.append(stored)
        done = new.restore
        if done is not None and done.target in self.renamed:
            new = replace(new, restore=replace(done, target=self.renamed[done.target]))
        if new.previous in self.renamed:
            new = replace(new, previous=self.renamed[new.previous])
        if new == stored.checkpoint and base == link.base:
            return link
        known = parse(stored.raw)
        raw = canonical({**(known if isinstance(known, dict) else {}), **document(new)})
        oid = object_id(self.store.objects.algorithm, "blob", raw)
        self.renamed[stored.id] = oid
        tree = new.files.tree if new.files is not None else link.tree
        return replace(link, id=oid, message=message(new.step, raw), tree=tree, base=base)

    def _without(self, stored: Stored, files: FileState, base: Oid | None) -> tuple[FileState, Oid | None]:
        """The captured state without the blobs. A path whose content went is left alone by undo and redo."""
        side = beside(self.store, stored)
        lost = {path for path, _ in self.sieve.places(stored.tree)}
        staged = {path for path, _ in self.sieve.places(files.index.tree)}
        apart = {path for path, _ in self.sieve.places(side)}
        conflicts = {path.partition(b"/")[2] for path in apart if path.partition(b"/")[0] in _STAGES}
        if not (lost or staged or apart):
            return files, base
        drop: dict[bytes, TreeEntry | None] = dict.fromkeys(apart)
        drop |= {room + b"/" + path: None for room in ROOMS for path in lost}
        drop |= {room + b"/" + path: None for room in _STAGES for path in conflicts}
        index = self.sieve.changed(files.index.tree, {path: self._of_head(stored, path) for path in staged})
        lists = self._lists(stored, lost, staged | conflicts) if side else {}
        left = self.sieve.changed(side, {**drop, **lists}, stays=(b"after",)) if side else None
        rooms = [path for path in drop if path.startswith((b"raw/", b"held/"))]
        kept = {path for path in rooms if side and lookup(self.store.objects, side, path)}
        raw = {path for path in kept if path.startswith(b"raw/")}
        names = sorted(lost | conflicts | {p.partition(b"/")[2] for p in kept})
        only = [f"{os.fsdecode(path)} (staged)" for path in sorted(staged.difference(names))]
        if names or only:
            self.taken[stored.id] = (*map(os.fsdecode, names), *only)
        there = {skipped.path for skipped in files.skipped}
        new = tuple(Skipped(path=p, reason="excluded") for p in map(os.fsdecode, names) if p not in there)
        state = replace(files.index, tree=index, unmerged=max(0, files.index.unmerged - len(conflicts)))
        tree = self.sieve.changed(stored.tree, dict.fromkeys(lost))
        counts = {"raw": max(0, files.raw - len(raw)), "held": max(0, files.held - len(kept - raw))}
        made = replace(files, tree=tree, index=state, skipped=(*files.skipped, *new), **counts)
        return made, self._base(base, index, left)

    def _of_head(self, stored: Stored, path: bytes) -> TreeEntry | None:
        """What a path of the index is to be: as HEAD has it."""
        tree = self.store.tree_of(stored.checkpoint.head)
        entry = lookup(self.store.objects, tree, path) if tree else None
        return entry if entry is not None and not entry.is_tree and entry.oid not in self.sieve.blobs else None

    def _lists(self, stored: Stored, lost: Collection[bytes], staged: Collection[bytes]) -> dict[bytes, TreeEntry | None]:
        """The lists beside the stages that no longer name the paths that are left alone."""
        found = (paths_beside(self.store, stored, name) for name in (_TOUCHED, _ONLY, _APART))
        touched, only, apart = (None if paths is None else set(map(os.fsencode, paths)) for paths in found)
        wanted: dict[bytes, set[bytes]] = {}
        if touched is not None and not touched.isdisjoint(lost):
            wanted[_TOUCHED] = touched.difference(lost)
        if only is not None and not only.isdisjoint(staged):
            wanted[_ONLY] = only.difference(staged)
        if only is None and staged:
            wanted[_APART] = (apart or set()).union(staged)
        texts = {name: b"".join(path + b"\0" for path in sorted(paths)) for name, paths in wanted.items()}
        return {name: TreeEntry(mode=b"100644", name=name, oid=self.sieve.add("blob", data)) for name, data in texts.items()}

    def _base(self, base: Oid | None, index: Oid, side: Oid | None) -> Oid | None:
        """The index commit for another index and another tree beside it."""
        commit = self.store.commit(base)
        if commit is None or commit.message != INDEX:
            return base
        parents = commit.parents
        if side is not None:
            stages = self.store.commit(parents[-1])
            if stages is None:
                raise RecordError(f"commit {parents[-1]} cannot be read")
            data = commit_data(tree=side, parents=(), author=stages.author, message=stages.message)
            parents = (*parents[:-1], self.sieve.add("commit", data))
        data = commit_data(tree=index, parents=parents, author=commit.author, message=commit.message)
        return self.sieve.add("commit", data)


class Sieve:
    """Where trees hold some of ``blobs``, each tree read once; the objects that were written again are in ``made``."""

    def __init__(self, objects: Objects, blobs: Collection[Oid]) -> None:
        self.objects, self.blobs = objects, blobs
        self.made: list[NewObject] = []
        self._seen: dict[Oid, tuple[tuple[bytes, Oid], ...]] = {}

    def places(self, tree: Oid | None, depth: int = 0) -> tuple[tuple[bytes, Oid], ...]:
        """Each path of a tree that holds one of the blobs, and which; what is not here holds none. Raises RecordError."""
        if tree is None or not self.blobs:
            return ()
        known = self._seen.get(tree)
        if known is not None:
            return known
        if depth > _DEEPEST:
            raise RecordError(f"tree {tree} lies more than {_DEEPEST} folders deep")
        found: list[tuple[bytes, Oid]] = []
        for entry in self._entries(tree):
            if entry.is_tree:
                found += ((entry.name + b"/" + path, oid) for path, oid in self.places(entry.oid, depth + 1))
            elif entry.oid in self.blobs and entry.mode != _GITLINK:
                found.append((entry.name, entry.oid))
        self._seen[tree] = tuple(found)
        return self._seen[tree]

    def changed(self, tree: Oid, wanted: Mapping[bytes, TreeEntry | None], stays: Collection[bytes] = ()) -> Oid:
        """The tree with what ``wanted`` has at some paths, None for nothing; a folder left empty goes, but for those at
        its top that ``stays`` names, and none is made."""
        return (self._changed(tree, wanted, stays) if wanted else tree) or self.add("tree", b"")

    def _changed(self, tree: Oid, wanted: Mapping[bytes, TreeEntry | None], stays: Collection[bytes] = ()) -> Oid | None:
        below: dict[bytes, dict[bytes, TreeEntry | None]] = {}
        for path, new in wanted.items():
            name, _, rest = path.partition(b"/")
            below.setdefault(name, {})[rest] = new
        before = self._entries(tree)
        after: list[TreeEntry] = []
        for entry in before:
            inside = below.pop(entry.name, {})
            if entry.is_tree:
                deeper = {path: new for path, new in inside.items() if path}
                oid = self._changed(entry.oid, deeper) if deeper else entry.oid
                oid = oid or (self.add("tree", b"") if entry.name in stays else None)
                after += [replace(entry, oid=oid)] if oid else []
            elif (new := inside.get(b"", entry)) is not None:
                after.append(replace(entry, mode=new.mode, oid=new.oid))
        after += [new for inside in below.values() if (new := inside.get(b"")) is not None]
        if after == before:
            return tree
        return self.add("tree", tree_data(after)) if after else None

    def add(self, kind: Kind, data: bytes) -> Oid:
        """The id of an object that is to be written."""
        self.made.append(new_object(self.objects.algorithm, kind, data))
        return self.made[-1].oid

    def _entries(self, tree: Oid) -> list[TreeEntry]:
        found = self.objects.read(tree, _MAX_TREE)
        if found is None:
            return []
        if found.kind != "tree" or found.data is None:
            raise RecordError(f"object {tree} cannot be read as a tree")
        return parse_tree(found.data, self.objects.algorithm)
