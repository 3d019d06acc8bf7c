"""Where a secret stands, in words: shared by the verbs that look for secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from gitbaton.codec import decode_track, plain
from gitbaton.commands.threading import fetched, meant, name, store_of
from gitbaton.errors import BatonError
from gitbaton.render import quoted
from gitbaton.store import Problem
from gitbaton.store.refs import REMOTES, THREADS
from gitbaton.threads.chain import Chain
from gitbaton.threads.commits import named
from gitbaton.threads.health import reader
from gitbaton.threads.names import LATE, Cut, late_ref, name_of, names_of, ref_of
from gitbaton.threads.reports import missing
from gitbaton.values import value

if TYPE_CHECKING:
    from gitbaton.baton import Baton
    from gitbaton.scanning import Hit
    from gitbaton.threads.store import ThreadStore

_HELD = {"c": "channel", "w": "writes of task", "x": "writes of task"}
_WHOLE = {"r.ck": "checkpoint", "r.md": "metadata"}
_JOINED = re.compile(r"joined/[0-9a-f]{16}/")  # what a remote had when threads were last joined with its own


REMOVE = "'git baton prune --threads' removes all but the newest of a thread, 'git baton thread delete THREAD' all of it"


@value
class State:
    """A checkpoint of a thread: ``remote`` is where it was fetched from, None where it is here; ``id`` is None for writes that
    came late."""

    remote: str | None
    thread: str
    namespace: str
    id: str | None


@contextmanager
def threads_of(baton: Baton, problems: list[Problem]) -> Iterator[ThreadStore | None]:
    """The threads of a repository, all of them in git; where that cannot be it is a problem."""
    with store_of(baton) as store:
        if store is not None:
            try:
                store.flush()
            except BatonError as error:
                problems.append(Problem(where="the log of threads", reason=plain(error.message)))
        yield store


def refs_of(baton: Baton, store: ThreadStore | None, names: Sequence[str]) -> list[str]:
    """The refs of the threads that are meant, and of their late writes; of all that are here, where none is named. Raises
    NotFoundError."""
    objects = baton.repo.objects
    if not names:
        return [*objects.refs(THREADS), *objects.refs(LATE)]
    there = store.chains() if store is not None else []
    known, found = {thread for thread, _ in there}, list[str]()
    for typed in names:
        thread = meant(typed, known)
        if thread not in known:
            elsewhere = {place[0]: remotes for place, remotes in fetched(baton).items()}
            raise missing(thread, elsewhere, known)
        found += [ref for place in there if place[0] == thread for ref in (ref_of(*place), late_ref(*place))]
    return list(dict.fromkeys(found))


def states(baton: Baton, hits: Iterable[Hit]) -> dict[str, State]:
    """The checkpoints of threads that hits stand in, by commit."""
    wanted = {hit.commit for hit in hits if hit.commit is not None and hit.checkpoint is None}
    found: dict[str, State] = {}
    objects = baton.repo.objects
    for prefix in (THREADS, LATE, REMOTES):
        for ref, tip in objects.refs(prefix).items() if wanted - found.keys() else ():
            place = _place(ref)
            if place is not None:
                found.update({oid: state for oid, state in _states(baton, ref, tip, place, wanted) if oid not in found})
    return found


def _place(ref: str) -> tuple[str | None, str, str] | None:
    """Remote, thread and namespace of a ref; None where it is none of a thread's."""
    remote, text = None, ref
    if ref.startswith(REMOTES):
        remote, _, text = ref.removeprefix(REMOTES).partition("/")
        remote, text = decode_track(remote), f"refs/baton/{_JOINED.sub('', text, count=1)}"
        if remote is None:
            return None
    names = names_of(text)
    return (remote, *names) if names is not None else None


def _states(
    baton: Baton, ref: str, tip: str, place: tuple[str | None, str, str], wanted: set[str]
) -> Iterator[tuple[str, State]]:
    remote, *names = place
    chain = Chain(reader(baton.repo.objects), baton.repo.layout.algorithm, bytes.fromhex(tip))
    late = "/late/" in ref
    with suppress(BatonError):  # one that is broken is said by the scan itself
        thread, namespace = _named(baton, chain, ref.replace("/late/", "/threads/", 1) if late else "", (names[0], names[1]))
        for oid in baton.repo.objects.first_parents(tip):
            if oid in wanted:
                id = None if late else chain.entry(bytes.fromhex(oid)).id
                yield oid, State(remote=remote, thread=thread, namespace=namespace, id=id)


def _named(baton: Baton, chain: Chain, beside: str, names: tuple[str, str]) -> tuple[str, str]:
    """Thread and namespace, whole; late writes do not say whose they are, the chain of the ref ``beside`` does."""
    if not any(isinstance(each, Cut) for each in names):
        return names
    tip = baton.repo.objects.info(beside) if beside else None
    if tip is not None:
        chain = Chain(chain.read, chain.algorithm, bytes.fromhex(tip.oid))
    return named(names, chain.head()) if tip is not None or not beside else names


def hit_place(baton: Baton, hit: Hit, of: Mapping[str, State]) -> str:
    """Where a secret stands: the checkpoint, the thread or the commit, and the file, the note, the field or the channel."""
    state = of.get(hit.commit or "") if hit.checkpoint is None else None
    if state is not None:
        return _in_thread(state, hit.path)
    target = hit.path.replace("/", "") if hit.line else ""
    noted = len(target) in (40, 64) and not target.strip("0123456789abcdef")  # a note's path is the commit that it is on
    where = f"{f'note on {baton.short(target)}' if noted else quoted(hit.path)}:{hit.line}" if hit.line else plain(hit.path)
    called = baton.short(hit.checkpoint) if hit.checkpoint else f"commit {baton.short(hit.commit)}" if hit.commit else ""
    return where if noted and not hit.checkpoint else f"{called} {where}".lstrip()


def _in_thread(state: State, path: str) -> str:
    said = f"thread '{name(state.thread)}'" + (f" namespace '{name(state.namespace)}'" if state.namespace else "")
    said += f" fetched from '{name(state.remote)}'" if state.remote is not None else ""
    folder, _, last = path.rpartition("/")
    id = state.id if state.id is not None else name_of(folder.removeprefix("i.").encode())
    said += f" {name(id)}" if id else ""
    kind, _, rest = last.partition(".")
    held = name_of(rest.encode()) if kind in _HELD else None
    return f"{said} {_HELD[kind]} '{name(held)}'" if held is not None else f"{said} {_WHOLE.get(path) or plain(path)}"
