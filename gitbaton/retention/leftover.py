"""Files of forgotten checkpoints that something still holds: which of them matter, and who holds them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from gitbaton.baton import Baton
from gitbaton.codec import encode_track, plain
from gitbaton.git import settings, usage
from gitbaton.git.objectlists import Listed, contents
from gitbaton.git.objectlists import sizes as listed
from gitbaton.git.repo import Repo
from gitbaton.model import Oid, Stored
from gitbaton.retention.forgetting import Forgetting
from gitbaton.retention.looking import existing
from gitbaton.retention.sieve import Sieve
from gitbaton.scanning.looking import scanner, text_of
from gitbaton.store import CHAINS, NOTES, SAFETY, TIPS, Store
from gitbaton.store.refs import REMOTES
from gitbaton.store.safety import beside
from gitbaton.store.sound import OURS
from gitbaton.values import value

_FEW = 3
_MOST = 10


@value
class Held:
    """Something of a forgotten checkpoint that is still reached: ``what`` it is, and ``by`` what, each for people; ``ids``: the
    checkpoints of tracks among these. ``repeated``: the words were said again. ``secret``: the scanner knows what it is."""

    what: str
    by: str
    ids: tuple[Oid, ...] = ()
    repeated: bool = False
    secret: bool = False

    @property
    def text(self) -> str:
        """The whole in a sentence."""
        if self.repeated:
            return f"{self.by} repeat{'' if len(self.ids) > 1 else 's'} {self.what}"
        return f"{self.what} is still in {self.by}"


@value
class Leftover:
    """What of the files is still held and matters, and what is worth a line."""

    held: tuple[Held, ...] = ()
    said: tuple[str, ...] = ()


Holder = tuple[Stored, str, str | None]  # a checkpoint, its chain in words, and the track


def leftover(baton: Baton, made: Forgetting, reached: Mapping[Oid, bytes]) -> Leftover:
    """The contents that their HEAD did not have and that something reaches. Those count that hold a secret the scanner knows,
    and those that a forgotten checkpoint brought in and that somebody outside its track holds, unless the user's own history
    does. Raises RecordError."""
    known = secrets(baton, made.changed)
    still = in_worktrees(baton, {oid: path for oid, path in made.changed.items() if oid in made.alone or oid in known})
    left = {oid: path for oid, path in made.changed.items() if oid in reached}
    if not left:
        return Leftover(said=tuple(still))
    tracks = {stored.checkpoint.track for stored in made.parts}
    holding = _holding(baton.store, left)
    users = usage.everything(baton.repo, ("refs/baton/*", f"{TIPS}*", NOTES), kept=False).keys() & left.keys()
    fetched = [f"{REMOTES}*/tracks/{encode_track(track)}" for track in sorted(tracks)]
    outside = usage.everything(baton.repo, (f"{CHAINS}*", f"{TIPS}*", f"{SAFETY}*", *fetched)).keys() & left.keys()
    first = min(stored.checkpoint.created for stored in made.parts)
    for oid, those in holding.items():  # what others held before it, it did not bring in
        dates = [stored.checkpoint.created for stored, _, track in those if track is not None and track not in tracks]
        if dates and min(dates) > first:
            outside = outside | {oid}
    counting = [oid for oid in left if oid in known or oid in (made.brought & outside) - users]
    counting.sort(key=lambda oid: (oid not in known, left[oid]))
    held = tuple(_held(baton, oid, left[oid], holding.get(oid, []), known.get(oid)) for oid in counting[:_MOST])
    more = counting[_MOST:]
    if more:
        said = f"{len(more)} more files"
        held = (*held, Held(what=said, by="checkpoints or refs", ids=_ids(more, holding), secret=any(o in known for o in more)))
    return Leftover(held=held, said=(*still, *_advice(made, left.keys() - {*counting}, holding, users)))


def secrets(baton: Baton, files: Iterable[Oid]) -> dict[Oid, str]:
    """Those of some blobs that hold a secret which the scanner cannot mistake, each with its kind."""
    find, limit = scanner(baton).find, baton.settings.max_file_size
    asked = existing(baton.store, files)
    items: list[Listed] = [item for item in listed(baton.repo.git, asked) if item.size <= limit]
    found = ((item.oid, find(text_of(data), sure=True)) for item, data in contents(baton.repo.git, items))
    return {oid: hits[0].kind for oid, hits in found if hits}


def _held(baton: Baton, oid: Oid, path: bytes, holding: list[Holder], kind: str | None) -> Held:
    refs = holders(baton.repo, oid)
    refs = [ref for ref in refs if not ref.strip("'").startswith(OURS) or ref.strip("'").startswith(REMOTES)]
    places = [*refs[:_FEW], *([f"{len(refs) - _FEW} more places"] if len(refs) > _FEW else [])]
    if len(holding) == 1:
        stored, place, _ = holding[0]
        places.append(f"checkpoint {baton.short(stored.id)} of {place}")
    elif holding:
        places.append(f"{len(holding)} checkpoints")
    what = f"the file '{plain(path.decode('utf-8', 'replace'))}'" + (f" ({kind})" if kind else "")
    by = " and ".join(places) or "something that git reaches"
    return Held(what=what, by=by, ids=_ids([oid], {oid: holding}), secret=kind is not None)


def _ids(oids: Iterable[Oid], holding: Mapping[Oid, list[Holder]]) -> tuple[Oid, ...]:
    rows = (row for oid in oids for row in holding.get(oid, ()))
    return tuple(dict.fromkeys(stored.id for stored, _, track in rows if track is not None))


def _advice(made: Forgetting, rest: Iterable[Oid], holding: Mapping[Oid, list[Holder]], users: Iterable[Oid]) -> Iterator[str]:
    """What nobody has to act on."""
    rest = set(rest)
    ids = _ids(sorted(rest), holding)
    if ids:
        which = "1 other checkpoint" if len(ids) == 1 else f"{len(ids)} other checkpoints"
        yield f"its files are also in {which}; 'git baton scan --all --files' looks for secrets in them"
    own = len(rest.intersection(users) & made.brought)
    if own:
        yield f"{own} of its files {'is' if own == 1 else 'are'} also in the history of your own branches or tags"


def _holding(store: Store, files: Mapping[Oid, bytes]) -> dict[Oid, list[Holder]]:
    """The checkpoints, of any track or safety chain, that hold each of some blobs: captured, staged or beside."""
    sieve, found = Sieve(store.objects, files.keys()), dict[Oid, list[Holder]]()
    for row in _all(store):
        stored = row[0]
        trees = (stored.tree, store.tree_of(stored.base), beside(store, stored))
        for oid in dict.fromkeys(oid for tree in trees for _, oid in sieve.places(tree)):
            found.setdefault(oid, []).append(row)
    return found


def _all(store: Store) -> Iterator[Holder]:
    for track in store.chains()[0]:
        yield from ((stored, f"track '{plain(track)}'", track) for stored in store.history(track).items)
    for ref in store.objects.refs(SAFETY):
        yield from ((stored, f"'{ref}'", None) for stored in store.chain(ref, None).items)


def in_worktrees(baton: Baton, files: Mapping[Oid, bytes]) -> list[str]:
    """Those of some files that still lie at their path in a work tree, in words, the first few."""
    names = {path: oid for oid, path in files.items() if b"\n" not in path}
    found: list[bytes] = []
    for _, git_dir, root in settings.worktrees(baton.repo):
        here = [p for p in names if root and _is_file(os.path.join(os.fsencode(root), p))]
        git = baton.repo.git.changed({"GIT_DIR": git_dir, "GIT_WORK_TREE": root or ""}, directory=root or None)
        result = git.run("hash-object", "--stdin-paths", stdin=b"".join(p + b"\n" for p in here)) if here else None
        rows = result.out.decode("ascii", "replace").split() if result is not None and result.code == 0 else []
        found += [path for path, oid in zip(here, rows, strict=False) if names[path] == oid]
    paths = [plain(path.decode("utf-8", "replace")) for path in dict.fromkeys(found)]
    said = [f"'{path}' in the work tree still holds it; the next snapshot takes it in again" for path in paths[:_MOST]]
    return said + ([f"and {len(paths) - _MOST} more in the work tree"] if len(paths) > _MOST else [])


def _is_file(path: bytes) -> bool:
    return os.path.isfile(path) and not os.path.islink(path)


def holders(repo: Repo, oid: Oid) -> list[str]:
    """What reaches a blob, in words: the refs with a commit that brings or removes it, reflogs, indexes."""
    rows = (
        repo.git.run("-c", "log.showSignature=false", "log", "--all", "--reflog", "-m", f"--find-object={oid}", "--format=%H")
        .out.decode("ascii")
        .split()
    )
    found = [by for commit in dict.fromkeys(rows) for by in containing(repo, commit)]
    direct = repo.git.out("for-each-ref", "--points-at", oid, "--format=%(refname)").decode("utf-8", "replace").split("\n")
    return list(dict.fromkeys([*found, *(f"'{ref}'" for ref in direct if ref), *_indexes(repo, oid)]))


def containing(repo: Repo, commit: Oid) -> list[str]:
    """The refs that reach a commit; a reflog where none does."""
    raw = repo.git.run("for-each-ref", "--contains", commit, "--format=%(refname)").out.decode("utf-8", "replace")
    return [f"'{ref}'" for ref in raw.split("\n") if ref] or [f"a reflog, or the HEAD of a work tree, by commit {commit}"]


def _indexes(repo: Repo, oid: Oid) -> Iterable[str]:
    for prefix, git_dir, root in settings.worktrees(repo):
        env = {"GIT_DIR": git_dir, "GIT_INDEX_FILE": f"{git_dir}/index", **({"GIT_WORK_TREE": root} if root else {})}
        if oid.encode() in repo.git.run("ls-files", "-s", "-z", env=env).out:
            yield f"the index of '{root or prefix.rstrip('/')}'"
