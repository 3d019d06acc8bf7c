"""Secrets in threads (scan, push): the scan of threads, and where a secret stands, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from gitbaton.base.codec import in_quotes, plain
from gitbaton.base.errors import BatonError
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import path_in_quotes, quoted
from gitbaton.checkpoints.store import Problem
from gitbaton.checkpoints.store.refs import REMOTES, THREADS, remote_of
from gitbaton.cli.commands.thread import fetched, meant, name, store_of
from gitbaton.langgraph.threads.chain import ThreadChain, named
from gitbaton.langgraph.threads.health import reader
from gitbaton.langgraph.threads.names import LATE, Cut, late_ref, name_of, names_of, ref_of
from gitbaton.langgraph.threads.reports import missing

if TYPE_CHECKING:
    from gitbaton.care.scanning import Hit, ScanReport

_HELD = {"c": "channel", "w": "writes of task", "x": "writes of task"}
_WHOLE = {"r.ck": "checkpoint", "r.md": "metadata"}
_JOINED = re.compile(r"joined/[0-9a-f]{16}/")  # what a remote had when threads were last joined with its own
_MAX_IDS = 20
REMOVE = "'git baton prune --threads' removes all but the newest of a thread, 'git baton thread delete THREAD' all of it"


@value
class ThreadPlace:
    """A checkpoint of a thread: ``remote`` is where it was fetched from, None where it is here; ``id`` is None for writes that
    came late."""

    remote: str | None
    thread: str
    namespace: str
    id: str | None


def scan_threads(baton: Baton, names: Sequence[str], *, alone: bool, files: bool) -> ScanReport:
    """Scan threads, all or the named, ``alone`` or with all else; those of the log, too, which is brought into git before.
    Raises NotFoundError."""
    from gitbaton.care.scanning import scan

    problems: list[Problem] = []
    with store_of(baton) as store:
        if store is not None:
            try:
                store.flush()
            except BatonError as error:
                problems.append(Problem(where="the log of threads", reason=plain(error.message)))
        there = store.chains() if store is not None else []
        known, wanted = {thread for thread, _ in there}, set[str]()
        for typed in names:
            thread = meant(typed, known)
            if thread not in known:
                raise missing(thread, {place[0]: remotes for place, remotes in fetched(baton).items()}, known)
            wanted.add(thread)
        places = [place for place in there if not names or place[0] in wanted]
        refs = {**baton.repo.objects.refs(THREADS), **baton.repo.objects.refs(LATE)} if alone else None
        if refs is not None and names:
            own = {ref for place in places for ref in (ref_of(*place), late_ref(*place))}
            refs = {ref: oid for ref, oid in refs.items() if ref in own}
        called: dict[str, str] = {}  # the names of threads and namespaces, each under what it is called
        for thread, space in (*places, *(() if alone else fetched(baton))):
            said = f"name of thread {in_quotes(name(thread))}" + (f" (namespace {in_quotes(name(space))})" if space else "")
            called[said] = called.get(said, "") + f"{thread}\n{space}\n"  # long ones may begin alike
        report = scan(baton, everything=not alone, files=files, refs=refs, called=called)
    return replace(report, problems=(*report.problems, *problems))


def placed(baton: Baton, hits: Sequence[Hit]) -> Iterator[tuple[Hit, ThreadPlace | None]]:
    """Yield each hit with the checkpoint of a thread that it stands in, once for each of several, for threads that hold the
    same have the same commits; None where it is in none."""
    wanted = {hit.commit for hit in hits if hit.commit is not None and hit.checkpoint is None}
    found: dict[str, list[ThreadPlace]] = {}
    refs = [baton.repo.objects.refs(prefix) for prefix in (THREADS, LATE, REMOTES)] if wanted else []
    for ref, tip in (item for some in refs for item in some.items()):
        remote, text = None, ref
        if ref.startswith(REMOTES):
            remote, rest = remote_of(ref) or (None, "")
            text = f"refs/baton/{_JOINED.sub('', rest, count=1)}"
        names = names_of(text)
        for oid, state in _states(baton, ref, tip, (remote, names), wanted) if names is not None else ():
            if state not in found.setdefault(oid, []):
                found[oid].append(state)
    for hit in hits:
        there: Sequence[ThreadPlace | None] = found.get(hit.commit or "", ()) if hit.checkpoint is None else ()
        yield from ((hit, state) for state in there or (None,))


def unfiltered_hints(baton: Baton, hits: Sequence[Hit]) -> list[str]:
    """Return hints for unfiltered bytes in checkpoints, or in runs."""
    runs = any(hit.checkpoint is None for hit in hits)
    return [*forgets(baton, hits), *(["runs stay here without --runs; 'git baton run prune RUN' removes one"] if runs else [])]


def forgets(baton: Baton, hits: Iterable[Hit]) -> list[str]:
    """Return the hint that removes the checkpoints of some hits everywhere, the first of them where they are many; none without
    any."""
    ids = list(dict.fromkeys(baton.short(oid) for hit in hits for oid in (hit.checkpoint, *hit.held) if oid))
    many = len(ids)
    first = f"the first {_MAX_IDS} of " if many > _MAX_IDS else ""
    which = f"{first}the {many} checkpoints that hold them" if many > 1 else "them"
    named = " ".join(ids[:_MAX_IDS])
    return [f"'git baton forget --everywhere {named}' removes {which}"] if ids else []


def _states(
    baton: Baton, ref: str, tip: str, place: tuple[str | None, tuple[str, str]], wanted: set[str]
) -> Iterator[tuple[str, ThreadPlace]]:
    remote, names = place
    chain = ThreadChain(reader(baton.repo.objects), baton.repo.layout.algorithm, bytes.fromhex(tip))
    late = "/late/" in ref
    with suppress(BatonError):  # one that is broken is said by the scan itself
        thread, namespace = _named(baton, chain, ref.replace("/late/", "/threads/", 1) if late else "", names)
        for oid, id in ((tip, None),) if late else ((e.commit.hex() if e.commit else "", e.id) for e in chain.walk()):
            if oid in wanted:
                yield oid, ThreadPlace(remote=remote, thread=thread, namespace=namespace, id=id)


def _named(baton: Baton, chain: ThreadChain, beside: str, names: tuple[str, str]) -> tuple[str, str]:
    """Return thread and namespace, whole; late writes do not name them, the chain of the ref ``beside`` does."""
    if not any(isinstance(each, Cut) for each in names):
        return names
    tip = baton.repo.objects.info(beside) if beside else None
    if tip is not None:
        chain = ThreadChain(chain.read, chain.algorithm, bytes.fromhex(tip.oid))
    return named(names, chain.head()) if tip is not None or not beside else names


def hit_place(baton: Baton, hit: Hit, state: ThreadPlace | None = None) -> str:
    """Describe the place of a secret: the checkpoint, the thread or the commit, and the file, the note, the field or the
    channel."""
    from gitbaton.care.scanning import UNFILTERED

    if hit.kind == UNFILTERED:
        called = f"checkpoint {baton.short(hit.checkpoint)}" if hit.checkpoint else f"commit {baton.short(hit.commit or '')}"
        return f"{called} {path_in_quotes(hit.path)}"
    if state is not None:
        return _in_thread(state, hit.path)
    target = hit.path.replace("/", "") if hit.line else ""
    noted = len(target) in (40, 64) and not target.strip("0123456789abcdef")  # a note's path is the commit that it is on
    where = f"{f'note on {baton.short(target)}' if noted else quoted(hit.path)}:{hit.line}" if hit.line else plain(hit.path)
    called = baton.short(hit.checkpoint) if hit.checkpoint else f"commit {baton.short(hit.commit)}" if hit.commit else ""
    return where if noted and not hit.checkpoint else f"{called} {where}".lstrip()


def _in_thread(state: ThreadPlace, path: str) -> str:
    text = f"thread {in_quotes(name(state.thread))}" + (
        f" namespace {in_quotes(name(state.namespace))}" if state.namespace else ""
    )
    text += f" fetched from {in_quotes(name(state.remote))}" if state.remote is not None else ""
    id = id_of(state, path)
    text += f" {name(id)}" if id else ""
    kind, _, rest = path.rpartition("/")[2].partition(".")
    held = name_of(rest.encode()) if kind in _HELD else None
    return f"{text} {_HELD[kind]} {in_quotes(name(held))}" if held is not None else f"{text} {_WHOLE.get(path) or plain(path)}"


def id_of(state: ThreadPlace, path: str) -> str | None:
    """Return the checkpoint that a path belongs to; writes that came late name it themselves."""
    return state.id if state.id is not None else name_of(path.rpartition("/")[0].removeprefix("i.").encode()) or None


def removes(places: Iterable[tuple[Hit, ThreadPlace | None]]) -> bool:
    """Whether a secret stands in a thread that is here, or in its name."""
    return any(
        state.remote is None if state is not None else hit.commit is None and hit.path.startswith("name of thread ")
        for hit, state in places
    )
