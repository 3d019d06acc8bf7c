"""Prune of threads, only when asked: the plan which checkpoints stay and which go, then one edit for all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import BatonError, RecordError
from gitbaton.base.values import replace, value
from gitbaton.care.retention.rules import KeepRules, RetentionItem, keep
from gitbaton.checkpoints.store.read import NONE
from gitbaton.git import objectlists
from gitbaton.git.repo import Repo
from gitbaton.langgraph.threads.codec import Id, ThreadCheckpoint
from gitbaton.langgraph.threads.decoding import opened, readable
from gitbaton.langgraph.threads.names import late_ref, names_of, ref_of
from gitbaton.langgraph.threads.reports import facts, missing
from gitbaton.langgraph.threads.store import ThreadStore

_LONG_AGO = datetime.min.replace(tzinfo=UTC)
NEWEST = KeepRules(last=1)


@value
class NamespacePlan:
    """Plan of a prune for a namespace of a thread: what stays, each with its reasons, and what goes; both newest first."""

    thread: str
    namespace: str
    keep: tuple[tuple[ThreadCheckpoint, tuple[str, ...]], ...]
    remove: tuple[ThreadCheckpoint, ...]

    @property
    def place(self) -> tuple[str, str]:
        """Thread and namespace."""
        return self.thread, self.namespace


@value
class ThreadPrunePlan:
    """Plan of a prune of threads. ``bytes``: about how much of the disk git then frees; None where that was not asked for.
    ``broken``: the refs of threads that cannot be read and stay, each with why."""

    parts: tuple[NamespacePlan, ...]
    bytes: int | None = None
    broken: Mapping[str, str] = NONE

    @property
    def empty(self) -> bool:
        """Whether the plan removes nothing."""
        return not any(part.remove for part in self.parts)


def plan(store: ThreadStore, threads: Sequence[str], rules: KeepRules, apart: Mapping[str, str] = NONE) -> ThreadPrunePlan:
    """Plan to remove from these threads, from all where none is named, what no rule keeps, and never a namespace's newest
    checkpoint, nor what a delta channel of one that stays is put together from. Without a rule only the newest stays.

    Raises NotFoundError for a thread that is not here, and where an ancestor is missing from which a delta channel is put
    together; RecordError where another library is needed, GitError. A thread with refs that lead to what cannot be read stays,
    and the others continue; those that are ``apart`` stay, too, each with why.
    """
    chains = store.chains()
    names = {thread for thread, _ in chains}
    for thread in sorted(set(threads) - names):
        raise missing(thread, {}, names)
    wanted = [place for place in chains if not threads or place[0] in threads]
    parts: list[NamespacePlan] = []
    found = {**store.wrong(), **apart}
    broken = {ref: why for ref, why in found.items() if not threads or (names_of(ref) or ("",))[0] in threads}
    for place in wanted:
        if {ref_of(*place), late_ref(*place)} & broken.keys():
            continue
        try:
            parts.append(_part(store, place, rules if rules.given else NEWEST))
        except BatonError:
            found = store.wrong(place)
            if not found:
                raise
            broken |= found
    return ThreadPrunePlan(parts=tuple(parts), broken=broken)


def _part(store: ThreadStore, place: tuple[str, str], rules: KeepRules) -> NamespacePlan:
    entries = list(store.walk(*place))
    made = [RetentionItem(id=entry.id, created=facts(store, entry).ts or _LONG_AGO, kind="auto") for entry in entries]
    reasons = {id: list(said) for id, said in keep(made, rules).items()}
    for id in store.needed(*place, tuple(reasons), _metadata(store)) - reasons.keys():
        reasons[id] = ["delta channel"]
    return NamespacePlan(
        thread=place[0],
        namespace=place[1],
        keep=tuple((entry, tuple(reasons[entry.id])) for entry in entries if entry.id in reasons),
        remove=tuple(entry for entry in entries if entry.id not in reasons),
    )


def _metadata(store: ThreadStore) -> Callable[[ThreadCheckpoint], object]:
    """Return a reader of metadata that are no JSON. It raises RecordError where only a saver can read them: they may name
    what is needed."""

    def read(entry: ThreadCheckpoint) -> object:
        kind, data = store.blob(entry.rest["md"])
        try:
            return opened((kind, data))
        except ValueError:
            from gitbaton.base.system.extras import adding

            hints = (f"to read them: {adding('langgraph')}",) if kind == "msgpack" and not readable() else ()
            said = f"the metadata of checkpoint {in_quotes(entry.id)} cannot be read ({plain(kind)})"
            raise RecordError(f"{said}: they may name what it is put together from", *hints) from None

    return read


def broken(store: ThreadStore, made: ThreadPrunePlan) -> dict[str, str]:
    """Return the refs of a plan that lead to what cannot be read, each with why: every object is read."""
    return {ref: why for part in made.parts if part.remove for ref, why in store.wrong(part.place).items()}


def apply(store: ThreadStore, made: ThreadPrunePlan) -> ThreadPrunePlan:
    """Remove what a plan names, as far as it is still there and nothing that came meanwhile needs it; return what went. All
    at once: when it raises, nothing went."""
    wanted = {part.place: [entry.id for entry in part.remove] for part in made.parts if part.remove}
    try:
        gone = store.remove(wanted, _metadata(store))
    except BatonError as error:
        error.hints = (*error.hints, "nothing was removed, from no thread")
        raise
    went = {part.place: tuple(entry for entry in part.remove if entry.id in gone.get(part.place, ())) for part in made.parts}
    return replace(made, parts=tuple(replace(part, remove=went[part.place]) for part in made.parts))


def weighed(store: ThreadStore, repo: Repo, made: ThreadPrunePlan) -> ThreadPrunePlan:
    """Return the plan with the bytes of those objects that only what goes needs; those of one thread may be another's, too."""
    if made.empty:
        return replace(made, bytes=0)
    going = {part.place: {entry.id for entry in part.remove} for part in made.parts}
    gone, stays = set[Id | None](), set[Id | None]()
    for place in store.chains():
        if {ref_of(*place), late_ref(*place)} & made.broken.keys():
            continue
        for entry in store.walk(*place):
            held = (*entry.channels.values(), *entry.rest.values(), *entry.written.values(), entry.commit, entry.tree)
            (gone if entry.id in going.get(place, ()) else stays).update(held)
    sizes = objectlists.disk_sizes(repo, [oid.hex() for oid in gone - stays if oid is not None])
    return replace(made, bytes=sum(size.bytes for size in sizes.values()))
