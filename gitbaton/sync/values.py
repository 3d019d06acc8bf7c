"""Values of an exchange with a remote: what goes into it, and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from gitbaton.model import Oid
from gitbaton.scanning import Hit
from gitbaton.store.meta import Meta
from gitbaton.store.read import NONE
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    R = TypeVar("R", "Fetched", "Joined")
Item = tuple[str, ...]
"""One thing to exchange, its kind first: ``track`` and its name, ``run`` and its name, ``thread``, its name and a namespace,
``transcript`` and its ref."""
KINDS = ("track", "run", "thread")  # in the order in which they are told


def in_order(rows: Iterable[R]) -> tuple[R, ...]:
    """What was fetched or joined, in the order of KINDS, else as it is."""
    return tuple(sorted(rows, key=lambda row: KINDS.index(row.item[0])))


@value
class Choice:
    """What is to be exchanged: these tracks (None: all), and conversations, threads and runs besides. ``named``: only these
    threads, as their refs name them; ``kept``: threads that stay here all the same; ``prune``: threads that were deleted here
    are to be deleted there."""

    tracks: tuple[str, ...] | None = None
    transcripts: bool = False
    threads: bool = False
    runs: bool = False
    named: frozenset[str] | None = None
    kept: frozenset[str] = frozenset()
    prune: bool = False

    def takes(self, item: Item) -> bool:
        """Whether an item is among them."""
        if item[0] == "track":
            return self.tracks is None or item[1] in self.tracks
        if item[0] == "thread":
            return self.threads and (self.named is None or item[1] in self.named)
        return {"run": self.runs, "transcript": self.transcripts}[item[0]]


@value
class Late:
    """A checkpoint that says it is from the future."""

    id: Oid
    created: datetime


@value
class Fetched:
    """One item of a remote after a fetch: a track, a run, or a namespace of a thread, by its name for people.

    ``state``: ``new``, ``newer``, ``same``, ``rewritten``, ``gone`` (it is there no more), ``pruned`` (nor here), or ``broken``
    with the ``reason``. ``count``: checkpoints that were not here, of a run its records. Of a track only, ``step``: of the
    newest, as a stranger wrote it; ``late``: from the future.
    """

    item: Item
    state: str
    count: int = 0
    step: str = ""
    reason: str = ""
    late: tuple[Late, ...] = ()


@value
class Gathered:
    """What a fetch brought: the items, in the order of KINDS, and refs of the remote whose names gitbaton does not write.
    ``others``: other refs that moved here; ``apart``: the refs here that are broken and were left alone, each with why."""

    rows: tuple[Fetched, ...]
    strange: tuple[str, ...]
    others: int = 0
    apart: Mapping[str, str] = NONE

    @property
    def broken(self) -> bool:
        """Whether something of it can be used by nobody, or something here cannot."""
        return any(row.state == "broken" for row in self.rows) or bool(self.apart)


@value
class Joined:
    """What joining one track or one namespace of a thread came to: checkpoints that are new here, that have gone because they
    were dropped or removed there, and, of a thread, that say something else now; why it was not joined (empty when it was).
    ``was``: where its chain stood before some went or changed; until git collects its garbage they can be had from there.
    ``late``: those of a track that are left out because they are from the future. ``back``: a thread was deleted here, and
    went on there."""

    item: Item
    added: int = 0
    removed: int = 0
    changed: int = 0
    was: Oid | None = None
    late: tuple[Late, ...] = ()
    back: bool = False
    problem: str = ""


@value
class Joining:
    """What joining came to, in the order of KINDS; ``tips`` are the chains of all tracks afterwards, ``meta`` what is pinned
    and dropped; ``refs``: those of threads afterwards, where it was only planned."""

    rows: tuple[Joined, ...]
    tips: dict[str, Oid]
    meta: Meta
    warnings: tuple[str, ...] = ()
    refs: Mapping[str, Oid] | None = None

    @property
    def broken(self) -> bool:
        """Whether something was not joined that should have been."""
        return any(row.problem for row in self.rows)


@value
class Exposure:
    """What becomes public by the first push of tracks, runs and threads, beyond what the remote's refs hold. ``observed``: how
    many of the checkpoints tell what an agent's client had on record; ``states``: the checkpoints of threads; ``kept``: what of
    the newest ones stays here, in words; ``secret_files``: the paths of files whose very names say that they hold secrets."""

    tracks: tuple[str, ...]
    checkpoints: int
    commits: int
    untracked: int
    bytes: int
    runs: tuple[str, ...] = ()
    records: int = 0
    threads: tuple[str, ...] = ()
    states: int = 0
    observed: int = 0
    secret_files: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The tracks and the runs."""
        return (*self.tracks, *self.runs)

    @property
    def asked(self) -> frozenset[Item]:
        """What needs somebody's agreement; threads without their namespaces."""
        kinds = (("track", self.tracks), ("run", self.runs), ("thread", self.threads))
        return frozenset((kind, name) for kind, names in kinds for name in names)


@value
class Move:
    """What a push does with one ref of the remote.

    ``action``: ``new``, ``forward``, ``rewrite``, ``append``, ``delete``, ``same``, ``refused`` with the ``reason``. ``count``:
    checkpoints that the remote lacks; ``dropped``: those that it has, and nobody should any more; ``forgotten``: how many of
    these are to be nowhere. ``commits`` and ``untracked``: the user's commits and untracked files that become public with it.
    ``item``: the track, the run, whose records ``count`` counts, or the thread by its name for people, also of the writes that
    came late to it; empty for conversations, and what is said of tracks. ``hint``: what can be done about a refusal;
    ``broken``: the item here is.
    """

    ref: str
    action: str
    seen: Oid | None = None
    new: Oid | None = None
    item: Item = ()
    count: int = 0
    dropped: int = 0
    forgotten: int = 0
    commits: int = 0
    untracked: int = 0
    reason: str = ""
    hint: str = ""
    broken: bool = False

    @property
    def kind(self) -> str:
        """The item's kind; empty where it is of none."""
        return self.item[0] if self.item else ""

    @property
    def name(self) -> str:
        """The item's name; empty where it is of none."""
        return self.item[1] if self.item else ""

    @property
    def asked(self) -> Item:
        """What somebody must agree to, as in Exposure: the item, of a thread without its namespace."""
        return self.item[:2]

    @property
    def changes(self) -> bool:
        """Whether the remote's ref moves."""
        return self.action in ("new", "forward", "rewrite", "append", "delete")


@value
class Pushing:
    """What became of a push, or would: every move; what was found that must not leave (then nothing was sent); what became
    public; ``bytes``: what that which the remote lacks takes here, where nobody was asked; ``declined``: tracks and runs that
    nobody has agreed to make public, and ``private`` such threads; ``failure``: why one of several places was not pushed to;
    ``keeps``: what is forgotten and stays there all the same, because nothing can be rewritten there; ``apart``: as in
    Gathered, also what leads to what cannot be read, where that was in the way; ``contents``: how many files' contents git-lfs
    sends."""

    moves: tuple[Move, ...]
    hits: tuple[Hit, ...] = ()
    exposure: Exposure | None = None
    bytes: int | None = None
    declined: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    failure: str = ""
    keeps: str = ""
    apart: Mapping[str, str] = NONE
    contents: int = 0

    @property
    def refused(self) -> bool:
        """Whether something did not reach the remote that should have."""
        stayed = self.hits or self.declined or self.private or self.failure or self.keeps or self.apart
        return bool(stayed) or any(move.action == "refused" for move in self.moves)


@value
class Synced:
    """What a sync did. ``pushing`` has one part for each place that the remote is pushed to; ``failure`` is why the last one
    was refused as a whole."""

    gathered: Gathered
    joining: Joining
    pushing: tuple[Pushing, ...] = ()
    failure: str = ""
    rounds: int = 1

    @property
    def apart(self) -> Mapping[str, str]:
        """The refs here that are broken and were left alone, each with why."""
        return {**self.gathered.apart, **{ref: why for part in self.pushing for ref, why in part.apart.items()}}
