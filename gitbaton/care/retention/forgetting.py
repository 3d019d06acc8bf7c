"""Forgetting: checkpoints removed for good, with all that holds their words or files, in one transaction."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from types import MappingProxyType

from gitbaton.agents.transcripts import files, observing, sessions_of, transcript_ref
from gitbaton.base.clients import NAMES
from gitbaton.base.codec import (
    canonical,
    decode,
    decode_track,
    document,
    earlier_ids,
    first_line,
    in_quotes,
    message,
    parse,
    plain,
)
from gitbaton.base.errors import (
    MENDS,
    AmbiguousNameError,
    BatonError,
    NoAnswerError,
    NotFoundError,
    RecordError,
    RefConflictError,
    UsageError,
)
from gitbaton.base.model import Checkpoint, Oid, Prompt, Stored, at_prompt, session_key
from gitbaton.base.values import replace, value
from gitbaton.care.retention.inventory import CheckpointChain, Conversation, Inventory, copies
from gitbaton.care.retention.removing import Trimmed, draft_removal, locked_removal, moved, rebuilt, retry_under_lock, survey
from gitbaton.care.scanning.objects import BlobSearch, captured_trees
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import first_few, in_shell, some
from gitbaton.checkpoints.store import CHAINS, NOTES, SAFETY, TIPS, Store, chain_ref, sessions, tip_ref
from gitbaton.checkpoints.store.chain import beside, root_objects
from gitbaton.checkpoints.store.imported import tombstone
from gitbaton.checkpoints.store.join import Link, links, plan_notes, telling
from gitbaton.checkpoints.store.provenance import STATES
from gitbaton.checkpoints.store.read import NONE, own_refs, user_tips
from gitbaton.checkpoints.store.refs import IMPORTED, META, REMOTES, remote_of
from gitbaton.checkpoints.store.state import forget_words
from gitbaton.checkpoints.store.titles import forget_titles
from gitbaton.checkpoints.store.write import NOBODY
from gitbaton.git import objectlists, questions
from gitbaton.git.objects import RefChange, author_at, commit_data, new_object, object_id, parse_tree
from gitbaton.git.publish import publish
from gitbaton.git.repo import Repo

_PREFIX = re.compile(r"[0-9a-f]{4,64}\Z")
_NAMED = 20
_MAX_RECORD = 2 << 20
_LEAST = 12  # bytes of a compressed blob: below it is empty
_SHORT = 10
_TICK = 0.002  # seconds to which a moment is rounded


@value
class Forgetting:
    """Plan of a forget: the checkpoints, and what goes with them. ``ids``: the checkpoints that were named; ``stored``:
    those of them that some chain here or fetched still holds; ``along``: automatic ones that carry their words. ``stay``:
    what each track that loses any keeps. The rest only with ``everywhere``: ``before``: those of both that were removed
    before, as far as git still has their record; ``safety``: the safety chains where the checkpoints that hold a file of
    theirs keep nothing but their place; ``lost``: the files of each of these that nothing else holds, by path and what is said
    behind it (nothing where 'show' prints it), each with its blob; ``conversations`` and
    ``fetched`` refs that go; ``changed``: the files of each that its HEAD does not have, with their paths; ``brought``:
    those of them that the checkpoint before did not have either; ``alone``: those that nothing else holds which stays.
    ``remotes``: those with such a track, as last fetched. ``pinned``: those of the ids, and of what goes along, that are
    pinned. ``cleared``: safety checkpoints that were named; ``turns``: the chains of imported turns that lose any.
    ``prompts``: of those that were named, what was asked in a session that the checkpoint below did not hold yet.
    ``broken``: refs that cannot be read and stay as they are, each with why: what they hold is unknown."""

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
    lost: Mapping[Oid, Mapping[tuple[str, str], Oid]] = MappingProxyType({})
    cleared: tuple[Stored, ...] = ()
    turns: tuple[Trimmed, ...] = ()
    prompts: Mapping[Oid, tuple[Prompt, ...]] = MappingProxyType({})

    @property
    def names(self) -> tuple[Oid, ...]:
        """The checkpoints that were named, of whatever kind."""
        return (*self.ids, *(stored.id for stored in self.cleared))

    @property
    def all_ids(self) -> frozenset[Oid]:
        """Every checkpoint that is not to come back, under no id that it had before its track was renamed."""
        return frozenset((*self.ids, *(oid for stored in self.parts for oid in _ids_of(stored))))

    @property
    def parts(self) -> tuple[Stored, ...]:
        """All checkpoints of which words and files are known."""
        return (*self.stored, *self.along, *self.before)


def plan(baton: Baton, names: Sequence[str], *, everywhere: bool, held: bool = False) -> Forgetting:
    """Plan to forget these checkpoints. Removes nothing. ``held``: whether the lock is.

    Raises NotFoundError, AmbiguousNameError, RecordError where ``meta`` or a track that one of them is on cannot be read, or a
    ref of ours is a stranger's.
    """
    found, told = survey(baton, held=held, wanted=None if everywhere else ()), None
    named = [_named(baton, found, name, everywhere=everywhere) for name in names]
    same = {one for oid, asked in named for one in (oid, *(_ids_of(asked) if asked is not None else ()))}
    if not everywhere:  # then only the chains count that have any of them, or their words
        tips = {ref: oid for ref, oid in found.refs.items() if ref not in found.broken and _is_chain(ref)}
        told = telling(baton.store, tips, same)
        found = survey(baton, held=held, wanted=told)
    for track in (asked.checkpoint.track for _, asked in named if asked is not None):
        for ref in (chain_ref(track), tip_ref(track)):
            if ref in found.broken:
                raise RecordError(f"nothing is forgotten: {in_quotes(ref)} cannot be read: {found.broken[ref]}", MENDS)
    cleared = tuple({asked.id: asked for _, asked in named if asked is not None and asked.checkpoint.kind == "safety"}.values())
    named = [(oid, asked) for oid, asked in named if asked is None or asked.checkpoint.kind != "safety"]
    fetched = list(copies(baton.store, found, among=told))
    chains = [*(copy.items for copy in fetched if copy.whole), *(chain.items for chain in found.tracks)]
    everyone = {s.id: s for items in chains for s in items}
    # Where a track was renamed in two clones, each of them has it under an id of its own.
    named += [(s.id, s) for s in everyone.values() if not same.isdisjoint(_ids_of(s)) and s.checkpoint.kind != "safety"]
    stored = {oid: everyone.get(oid) or asked for oid, asked in named}
    ids, same = tuple(stored), {*same, *stored}
    along = tuple(s for s in everyone.values() if s.id not in ids and s.checkpoint.carried and s.checkpoint.carried.id in same)
    gone = {*ids, *(s.id for s in along)}
    holding = [copy for copy in fetched if not copy.whole or any(s.id in gone for s in copy.items)]
    made = Forgetting(
        ids=ids,
        stored=tuple(s for s in stored.values() if s is not None),
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
        turns=tuple(_without(baton.store, chain, gone) for chain in found.imported if any(s.id in gone for s in chain.items)),
        prompts={s.id: asked for items in chains for s, asked in _own_prompts(items, ids)},
    )
    return _everywhere(baton, found, made, chains, {copy.ref for copy in holding}) if everywhere else made


def _own_prompts(items: Sequence[Stored], ids: Collection[Oid]) -> Iterator[tuple[Stored, tuple[Prompt, ...]]]:
    """Yield some of a chain's checkpoints with what was asked since the one of the same session below. Of a session's first
    that is what was asked since its turn began, or the newest prompt where that is not known: those before may be of turns in
    another track, which stay."""
    for at, stored in enumerate(items):
        c = stored.checkpoint
        if stored.id not in ids or not (asked := [one for one in _asked(stored) if not one.earlier]):
            continue
        lower = items[at + 1 :]
        same = next((s for s in lower if session_key(s.checkpoint.agent) == session_key(c.agent)), None)
        if same is not None:
            before = {(one.at, one.text) for one in _asked(same)}
            yield stored, tuple(one for one in asked if (one.at, one.text) not in before)
            continue
        began = c.turn.began if c.turn is not None else None
        found = next((n for n, s in enumerate(lower) if began is not None and began in _ids_of(s)), None)
        earlier = (s.checkpoint for s in lower[found or 0 :])
        since = next((e.created for e in earlier if not at_prompt(e.kind, e.step)), None)  # others are newer than their prompt
        asked = [one for one in asked if (since and one.at > since) or (found is None and one is asked[-1])]
        yield stored, tuple(asked)


def _asked(stored: Stored) -> tuple[Prompt, ...]:
    observed = stored.checkpoint.observed
    return observed.asked if observed is not None else ()


def _ids_of(stored: Stored) -> tuple[Oid, ...]:
    """Return all ids of a checkpoint, that which it has now first."""
    return (stored.id, *earlier_ids(stored.raw))


def _is_chain(ref: str) -> bool:
    """Whether a ref is that of a chain of checkpoints or imported turns, here, or of checkpoints as they were fetched."""
    room, below = remote_of(ref) or ("", "")
    return ref.startswith((CHAINS, IMPORTED)) or bool(room and below.startswith("tracks/"))


def _without(store: Store, chain: CheckpointChain, gone: Collection[Oid]) -> Trimmed:
    """Return a chain of imported turns without some of them."""
    objects, change = rebuilt(store, chain, [link for link in links(store, chain.name, chain.tip) if link.id not in gone])
    return Trimmed(chain=chain, remove=tuple(s for s in chain.items if s.id in gone), objects=objects, change=change)


def _everywhere(
    baton: Baton, found: Inventory, made: Forgetting, chains: Sequence[Sequence[Stored]], holding: Collection[str]
) -> Forgetting:
    """Add to a plan all that goes besides, wherever it is. ``chains``: the items of all that can be read, fetched ones
    first; ``holding``: the refs of the fetched ones with any of it."""
    made = replace(made, before=_before(baton.store, found, made))
    agents = {s.checkpoint.agent for s in made.parts if s.checkpoint.agent}
    talks = {(agent.name, name) for agent in agents if agent.session for name in sessions_of(agent.session)}
    conversations = tuple(talk for talk in found.conversations if (talk.agent, talk.session) in talks)
    whole = {ref: oid for ref, oid in found.refs.items() if ref not in found.broken}
    signed = {ref.replace("/tracks/", "/signatures/", 1) for ref in holding}
    fetched = {ref: oid for ref, oid in whole.items() if ref in holding or ref in signed or _copied(ref, talks)}

    # Those that go along are named for their words.
    parts = [*(s for s in made.parts if s.id in made.ids), *made.cleared]
    changed, brought = _files(baton, parts, chains)
    rest = [s for chain in found.tracks for s in chain.items if s.id not in made.all_ids]
    kept = (
        _kept(baton, found, rest, {*fetched, *(talk.ref for talk in conversations)}) if changed or made.cleared else set[Oid]()
    )
    alone = frozenset(changed.keys() - kept)
    lost = _safety(baton, found, {s.id for s in made.cleared}, alone, kept)
    safety = (_rewritten(baton.store, chain, lost, made.all_ids) for chain in found.safety)
    return replace(
        made,
        conversations=conversations,
        fetched=fetched,
        changed=changed,
        brought=brought,
        alone=alone,
        safety=tuple(trimmed for trimmed in safety if trimmed is not None),
        lost=lost,
    )


def _safety(
    baton: Baton, found: Inventory, named: Collection[Oid], files: Collection[Oid], kept: Collection[Oid]
) -> dict[Oid, dict[tuple[str, str], Oid]]:
    """Return the safety checkpoints that are ``named`` or hold any of some files, each with its files of which neither
    ``kept``, nor another safety checkpoint, nor a work tree holds the content: as ``lost``. Raises RecordError."""
    store, search = baton.store, BlobSearch(baton.store.objects, files)
    items = [stored for chain in found.safety for stored in chain.items]
    going = {s.id: s for s in items if s.id in named or any(search.places(*captured_trees(store, s)))}
    if not going:
        return {}
    users = user_tips(store)

    def reached(items: Iterable[Stored]) -> Mapping[Oid, bytes]:
        tips = store.present(oid for s in items for oid in (s.checkpoint.head, *_parts(store, s)))
        return objectlists.reached(baton.repo, tips, users) if tips else {}

    own, more = reached(going.values()), reached(s for s in items if s.id not in going)
    left = _blobs(baton, {oid: path for oid, path in own.items() if not (oid in kept or oid in files or oid in more)})
    alone = left.keys() - found_in_worktrees(baton, left).keys()
    search, lost = BlobSearch(store.objects, alone), dict[Oid, dict[tuple[str, str], Oid]]()
    for s in going.values():
        rows = [(path, oid, word) for tree, word in _parts(store, s).items() for path, oid in search.places(tree)]
        past = objectlists.reached(baton.repo, store.present([s.checkpoint.head]), users) if alone else {}
        rows += [(past[oid], oid, " (committed)") for oid in (past.keys() & alone) - {oid for _, oid, _ in rows}]
        lost[s.id] = {(os.fsdecode(path), word): oid for path, oid, word in sorted(rows)}
    return lost


def _parts(store: Store, stored: Stored) -> dict[Oid, str]:
    """Return the trees of files that a safety checkpoint holds, each with what follows their paths: nothing where 'show' prints
    such a file."""
    files, side = stored.checkpoint.files, beside(store, stored)
    found = store.objects.read(side) if side else None
    parts = {files.index.tree: " (staged)"} if files else {}
    for entry in parse_tree(found.data, store.objects.algorithm) if found is not None and found.data is not None else ():
        word = "" if entry.name in (b"raw", b"held") else " (restored)" if entry.name.startswith(b"after") else " (staged)"
        parts |= {entry.oid: word} if entry.is_tree else {}
    return {**parts, stored.tree: ""}


def _before(store: Store, found: Inventory, made: Forgetting) -> tuple[Stored, ...]:
    """Return those of them that no chain holds any more, from records that git has not collected yet; unreadable ones are
    unknown."""
    there = {s.id for s in (*made.stored, *made.along, *(s for chain in found.tracks for s in chain.items))}
    names = made.all_ids
    asked = sorted((found.meta.forgotten | found.meta.pruned | names) - there)
    items: list[Stored] = []
    for oid, item in zip(asked, store.objects.read_many(asked, _MAX_RECORD), strict=True):
        try:
            raw = item.data if item is not None and item.kind == "blob" and item.data else b""
            checkpoint = decode(raw)
        except RecordError:
            continue
        tree = checkpoint.files.tree if checkpoint.files else store.tree_of(checkpoint.head)
        if oid in names or (checkpoint.carried and checkpoint.carried.id in names):
            items.append(Stored(id=oid, commit=oid, base=None, tree=tree or oid, raw=raw, checkpoint=checkpoint))
    return tuple(items)


def _named(baton: Baton, found: Inventory, name: str, *, everywhere: bool) -> tuple[Oid, Stored | None]:
    """Return the checkpoint that a name means: one that is here, or one that was pruned or forgotten before, by its id. A
    safety checkpoint goes only with ``everywhere``."""
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
        takes = f"'git baton forget --everywhere {short}' removes it, and undo ends there"
        raise UsageError(f"'{short}' is a safety checkpoint, which undo needs", takes)
    return stored.id, stored


def _copied(ref: str, talks: Collection[tuple[str, str]]) -> bool:
    """Whether a fetched ref holds words besides chains: notes, and these conversations."""
    room, _, rest = ref.removeprefix(REMOTES).partition("/")[2].partition("/")
    agent, _, session = rest.partition("/")
    talk = room in ("transcripts", "imported") and (agent, decode_track(session)) in talks
    return ref.startswith(REMOTES) and (talk or (room, rest) == ("notes", ""))


def _files(
    baton: Baton, parts: Sequence[Stored], chains: Iterable[Sequence[Stored]]
) -> tuple[dict[Oid, bytes], frozenset[Oid]]:
    """Return the blobs of checkpoints, of their work tree and index, that their HEAD does not have, each with a path; and
    those of them that the checkpoint before, as its chain has it, did not hold either."""
    older = {one.id: other for items in chains for one, other in pairwise(items)}
    paths, brought = dict[Oid, bytes](), set[Oid]()
    for stored in parts:
        head = baton.store.tree_of(stored.checkpoint.head)
        paths |= _beyond(baton, stored, [head] if head else [])
        trees = [head, *(captured_trees(baton.store, older[stored.id]) if stored.id in older else ())]
        brought |= _beyond(baton, stored, baton.store.present(trees)).keys()
    files = _blobs(baton, paths)
    return files, frozenset(brought & files.keys())


def _blobs(baton: Baton, paths: Mapping[Oid, bytes]) -> dict[Oid, bytes]:
    """Return those of some objects, each with a path, that are files and not empty."""
    sizes = objectlists.disk_sizes(baton.repo, paths)
    return {oid: paths[oid] for oid, size in sizes.items() if size.kind == "blob" and size.bytes >= _LEAST}


def _kept(baton: Baton, found: Inventory, rest: Iterable[Stored], dropped: Collection[str]) -> set[Oid]:
    """Return all that the checkpoints ``rest`` and every other ref that stays reach, the safety checkpoints apart. ``dropped``:
    refs that go. Raises RecordError."""
    left = {*dropped, *found.broken}
    ours = {**own_refs(baton.store), **found.refs}
    tips = {oid for ref, oid in ours.items() if not ref.startswith((CHAINS, TIPS, SAFETY)) and ref not in left}
    tips |= {oid for s in rest for oid in (s.tree, s.base) if oid}
    return {*objectlists.reached(baton.repo, baton.store.present(tips.union(user_tips(baton.store))))}


def found_in_worktrees(baton: Baton, files: Mapping[Oid, bytes]) -> dict[Oid, bytes]:
    """Return those of some files that lie at their path in a work tree, as git stores them or as they are."""
    names = {path for path in files.values() if b"\n" not in path}
    found: dict[Oid, bytes] = {}
    for _, git_dir, root in questions.worktrees(baton.repo) if names else ():
        paths = {os.path.join(os.fsencode(root), path): path for path in names} if root else {}
        here = [path for path in paths if os.path.isfile(path) and not os.path.islink(path)]
        git = baton.repo.git.changed({"GIT_DIR": git_dir, "GIT_WORK_TREE": root or ""}, directory=root or None)
        for words in ((), ("--no-filters",)) if here else ():
            result = git.run("hash-object", *words, "--stdin-paths", stdin=b"".join(path + b"\n" for path in here))
            rows = result.out.decode("ascii", "replace").split() if result.code == 0 else []
            found |= {oid: paths[path] for path, oid in zip(here, rows, strict=False) if files.get(oid) == paths[path]}
    return found


def _beyond(baton: Baton, stored: Stored, without: Sequence[Oid]) -> Mapping[Oid, bytes]:
    """Return the objects that a checkpoint's work tree and index hold and some trees do not."""
    trees = baton.store.present(captured_trees(baton.store, stored))
    try:
        return objectlists.reached(baton.repo, trees, without)
    except RecordError:
        if stored.base is not None:
            raise
        return {}  # of what was removed before, git may have collected some


def permit(baton: Baton, made: Forgetting, *, force: bool) -> None:
    """Raise NoAnswerError unless forced, where a pinned checkpoint would go, or files that only a safety checkpoint which
    was not named holds."""
    if force:
        return
    if made.pinned:
        named = ", ".join(f"'{baton.short(oid)}'" for oid in made.pinned[:_NAMED])
        more = f" and {len(made.pinned) - _NAMED} more" if len(made.pinned) > _NAMED else ""
        said = f"nothing is forgotten: {named}{more} {'is' if len(made.pinned) == 1 else 'are'} pinned"
        raise NoAnswerError(said, f"'git baton unpin {baton.short(made.pinned[0])}' takes the pin back")
    named_too = {stored.id for stored in made.cleared}
    for oid, lost in made.lost.items():
        if lost and oid not in named_too:
            said = f"nothing is forgotten: safety checkpoint '{baton.short(oid)}' would go, and nothing else holds"
            (name, word), blob = next(iter(lost.items()))
            prints = f"cat-file blob {blob}" if word else f"baton show {in_shell(f'{baton.short(oid)}:{name}')}"
            paths = [path + word for path, word in lost]
            raise NoAnswerError(f"{said} {some(len(paths), first_few(paths))}", f"'git {prints}' prints it")


def forget(
    baton: Baton, names: Sequence[str], *, everywhere: bool, force: bool = False, made: Forgetting | None = None
) -> tuple[Forgetting, list[str]]:
    """Plan, unless that is ``made``, and carry out; where checkpoints are recorded meanwhile, plan again for the same ones,
    a few times, and then under the lock. Return what went, and warnings. Raises as both, and without ``force`` as
    ``permit``."""
    first = made or plan(baton, names, everywhere=everywhere)

    def applied(made: Forgetting, held: bool) -> tuple[Forgetting, list[str]]:
        permit(baton, made, force=force)
        return made, _remove(baton, made, held=held)

    done, said = retry_under_lock(
        baton, first, lambda held: plan(baton, first.names, everywhere=everywhere, held=held), applied
    )
    return done, [*said, *baton.refresh()]


def apply(baton: Baton, made: Forgetting) -> list[str]:
    """Remove them from their chains, in one transaction, and leave tombstones; return warnings. The lock is held only while
    refs move.

    Raises RefConflictError when what it was made for has moved meanwhile: nothing is changed then.
    """
    return [*_remove(baton, made, held=False), *baton.refresh()]


def _remove(baton: Baton, made: Forgetting, *, held: bool) -> list[str]:
    chains, talks = [chain_ref(track) for track in made.stay], {talk.ref: talk.tip for talk in made.conversations}
    trims = (*made.safety, *made.turns)
    touched = {*chains, *talks, *made.fetched, *(part.chain.ref for part in trims), META}
    refs = [*chains, *(tip_ref(track) for track in made.stay), *talks]
    forgotten = {*made.all_ids, *made.lost, *_turn_ids(baton.store, made.parts)}
    revision = draft_removal(baton, made.broken, keep=made.stay, drop={**talks, **made.fetched}, forgotten=forgotten)
    with locked_removal(baton, revision, refs, trims, held=held) as free:
        if ref := moved(baton, made.seen, touched.__contains__):
            raise RefConflictError(f"nothing is forgotten: {in_quotes(ref)} moved meanwhile", "try again")
        unmarked = _mark(baton, made)
        forget_titles(baton.repo)  # first: a kill before the refs move has forgotten nothing
        revision.apply()
        if made.everywhere and NOTES not in made.broken:
            _rewrite_notes(baton, made)
    forget_words(baton.repo)  # of conversations, too, whatever was forgotten before
    unmarked += _forget_prompts(baton.repo, made)
    baton.store.facts.forget(forgotten)
    busy = [plain(part.chain.name) for part in made.safety if part.chain.ref not in free]
    waiting = [f"a restore is at work in {in_quotes(name)}; its safety checkpoints stay for now" for name in busy]
    return [*unmarked, *revision.warnings, *waiting]


def _forget_prompts(repo: Repo, made: Forgetting) -> list[str]:
    """Take what was said in the turns of forgotten checkpoints out of what is known of their sessions, in every work tree: the
    next checkpoint of one that goes on would say it again. Return a warning for each file that keeps it."""
    said = []
    parts = [(s.checkpoint, s.checkpoint.agent, made.prompts.get(s.id, ())) for s in made.parts]
    for agent in {(agent.name, agent.session) for _, agent, _ in parts if agent is not None and agent.session}:
        own = [(c, asked) for c, of, asked in parts if asked and of is not None and (of.name, of.session) == agent]
        spans = [(min(p.at for p in asked).timestamp(), max(c.created, *(p.at for p in asked)).timestamp()) for c, asked in own]
        lines = dict[str, float]()
        for (_, asked), (_, until) in zip(own, spans, strict=True):
            lines |= {line: max(until, lines.get(line, until)) for line in (first_line(p.text) for p in asked)}

        def gone(at: float, spans: Sequence[tuple[float, float]] = spans) -> bool:
            return any(since - _TICK <= at <= until + _TICK for since, until in spans)

        for _, git_dir, _ in questions.worktrees(repo) if spans else ():
            path = sessions.state_path(os.path.join(git_dir, "baton"), *agent)
            for name, work in ((path, partial(sessions.forget, lines=lines)), (path + sessions.FACTS, observing.forget)):
                try:
                    if os.path.lexists(name):
                        work(repo, name, gone)
                except (OSError, BatonError):
                    said.append(f"{in_quotes(name)} may hold their words and cannot be written")
    return said


def _turn_ids(store: Store, parts: Iterable[Stored]) -> Iterator[Oid]:
    """Yield what keeps imported turns out, of which an import would write another record: their commits may be others then."""
    for turn, agent in ((s.checkpoint.imported, s.checkpoint.agent) for s in parts):
        if turn is not None and agent is not None:
            yield tombstone(store.objects.algorithm, agent.name, agent.session or "", turn.since)


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
            files.mark_forgotten(baton.repo, transcript_ref(agent, session))
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


def _rewritten(store: Store, chain: CheckpointChain, gone: Collection[Oid], ids: Iterable[Oid]) -> Trimmed | None:
    """Return the safety chain in which the checkpoints ``gone`` keep nothing but their place, so that undo and redo stop there,
    and no step has the words of ``ids``; None where that is the chain as it is. Raises RecordError."""
    algorithm, ours, made = store.objects.algorithm, list[Oid](), list[Link]()
    said, items = [f"restore of {oid[:_SHORT]}" for oid in ids], {stored.id: stored for stored in chain.items}
    for link in links(store, chain.name, chain.tip):
        old = items[link.id].checkpoint
        wordy = any(text in old.step for text in said)
        if link.id in gone or wordy:
            step = old.step.partition("restore of ")[0] + "restore of a forgotten checkpoint" if wordy else old.step
            new, known = replace(old, step=step), parse(items[link.id].raw)
            if link.id in gone:
                known = {}
                new = Checkpoint(track=old.track, step=step, kind="safety", created=old.created, restore=old.restore)
                link = replace(link, tree=root_objects(algorithm)[0].oid, base=None)
            raw = canonical({**(known if isinstance(known, dict) else {}), **document(new), "was": [link.id, *link.earlier]})
            oid = object_id(algorithm, "blob", raw)
            ours += [oid] if store.ours.has(STATES, link.id) else []
            link = replace(link, id=oid, message=message(step, raw))
        made.append(link)
    objects, change = rebuilt(store, chain, made)
    going = tuple(stored for stored in chain.items if stored.id in gone)
    trimmed = Trimmed(chain=chain, remove=going, objects=objects, change=change, ours=tuple(ours))
    return trimmed if change.new != change.old else None
