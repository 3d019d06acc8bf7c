"""Scan of stored objects: which checkpoints, tracks and other objects to look at."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from gitbaton.baton import Baton
from gitbaton.errors import GitError
from gitbaton.git.objectlists import at_paths, introduced
from gitbaton.git.objects import parse_commit
from gitbaton.model import Oid, Stored
from gitbaton.scanning.objects import INDEX, Scan
from gitbaton.scanning.values import Hit, Report
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Problem, chain_ref
from gitbaton.store.refs import REMOTES
from gitbaton.values import replace


def scan(
    baton: Baton,
    names: Sequence[str] = (),
    *,
    everything: bool = False,
    files: bool = False,
    refs: Mapping[str, Oid] | None = None,
    called: Mapping[str, str] | None = None,
) -> Report:
    """Look for secrets in what is stored: the words of the named checkpoints and whole tracks (default: the current track).

    ``everything``: all tracks, safety checkpoints, notes, conversations, and what else lies in our namespace, fetched or not.
    ``files``: the contents of captured files as well, those that HEAD's history does not hold. ``refs``: all that these reach,
    and nothing else; threads, for example. ``called``: names to look at, each under what it is called. What cannot be read is a
    problem, and the rest is looked at. Raises NotFoundError, AmbiguousNameError, GitError.
    """
    looking, problems = Scan(baton, thorough=True), []
    if refs is None:
        chains, singles, others = _chosen(baton, names, everything=everything)
    else:
        chains, singles, others = {}, [], dict(refs)
    looking.texts(called or {})
    for ref, tip in chains.items():
        try:
            looking.commits([oid for oid in baton.repo.objects.first_parents(tip) if oid != baton.store.root])
        except GitError as error:
            problems.append(Problem(where=ref, reason=error.message))
    looking.commits([stored.commit for stored in singles])
    broken = {problem.where for problem in problems}
    wants = [tip for ref, tip in chains.items() if ref not in broken] if files else []
    haves = _present(baton)
    looking.objects(wants, haves)
    problems += [Problem(where=ref, reason=reason) for ref, reason in looking.each(list(others.items()))]
    for stored in singles if files else ():
        before = len(looking.hits)
        looking.objects(_trees(baton, stored), haves)
        looking.hits[before:] = [replace(h, checkpoint=stored.id, commit=stored.commit) for h in looking.hits[before:]]
    hits = held(baton, looking.hits) if files else looking.hits
    return Report(hits=tuple(hits), checkpoints=len(looking.checkpoints) + len(looking.states), problems=tuple(problems))


def held(baton: Baton, hits: Sequence[Hit]) -> list[Hit]:
    """The same hits, each in a file with all checkpoints of all tracks that hold it, captured or staged. Raises GitError."""
    blobs = {hit.blob for hit in hits if hit.blob is not None and hit.line}
    if not blobs:
        return list(hits)
    store = baton.store
    chains = store.chains()[0]
    everyone = store.everything(chains).items
    places = introduced(baton.repo.git, blobs, list(chains.values()), ())
    paths = sorted({(path, blob) for blob, brought in places.items() for _, path in brought if b"\n" not in path})
    asked = [(s.id, blob, commit, path) for s in everyone for path, blob in paths for commit in (s.commit, s.base) if commit]
    found = at_paths(baton.repo.git, [(commit, path) for _, _, commit, path in asked])
    holding: dict[Oid, list[Oid]] = {}
    for (oid, blob, _, _), there in zip(asked, found, strict=True):
        if there == blob:
            holding.setdefault(blob, []).append(oid)
    return [replace(h, held=tuple(dict.fromkeys(holding.get(h.blob, ())))) if h.blob and h.line else h for h in hits]


def _chosen(baton: Baton, names: Sequence[str], *, everything: bool) -> tuple[dict[str, Oid], list[Stored], dict[str, Oid]]:
    """The chains by ref, the checkpoints and the other refs to look at."""
    store = baton.store
    if everything:
        refs = store.objects.refs("refs/baton/", TIPS)
        notes = store.objects.info(NOTES)
        chains = {ref: oid for ref, oid in refs.items() if _is_chain(ref)}
        others = {ref: oid for ref, oid in refs.items() if ref not in chains}
        return chains, [], others | ({NOTES: notes.oid} if notes else {})
    known = store.chains()[0]
    tracks = [unicodedata.normalize("NFC", name) for name in names]
    singles = [baton.resolve(name) for name, track in zip(names, tracks, strict=True) if track not in known]
    if not names:
        tracks = [baton.tip().checkpoint.track]
    return {chain_ref(track): known[track] for track in tracks if track in known}, singles, {}


def _is_chain(ref: str) -> bool:
    """Whether a ref of ours is that of a chain of checkpoints, here or fetched."""
    fetched = ref.removeprefix(REMOTES).split("/")[1:2] if ref.startswith(REMOTES) else []
    return ref.startswith((CHAINS, SAFETY)) or fetched == ["tracks"]


def _present(baton: Baton) -> list[Oid]:
    """HEAD and, for the sake of what is compared with it by trees alone, its tree."""
    head = baton.repo.objects.head().oid
    tree = baton.store.tree_of(head)
    return [oid for oid in (head, tree) if oid]


def _trees(baton: Baton, stored: Stored) -> list[Oid]:
    """What one checkpoint has captured: its files, its index and what lies beside it."""
    trees = [stored.tree]
    found = baton.repo.objects.read(stored.base) if stored.base else None
    commit = parse_commit(found.data) if found and found.data else None
    if commit is not None and commit.message == INDEX:
        trees += [commit.tree, *(tree for p in commit.parents[1:] if (tree := baton.store.tree_of(p)))]
    return trees
