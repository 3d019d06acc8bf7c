"""What no clean filter made: bytes in checkpoints and runs of before that stand behind a filter and did not go through it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.errors import GitError
from gitbaton.git.objectlists import at_paths, introduced
from gitbaton.git.repo import Repo
from gitbaton.model import Oid
from gitbaton.values import value
from gitbaton.worktree.gate import filters
from gitbaton.worktree.heldbytes import read_held

# Folders of file bytes beside an index, and in a record of a run, where no filter has a say.
_STAGES, _RECORD = ("raw", "after-raw"), ("reads", "pre", "writes", "orphan", "undeclared", "undeclared-after")
_ASIDE = re.compile(rb"(%s)/(?=[^\n])" % "|".join((*_STAGES, *_RECORD)).encode())
_TIPS = 20  # whose attributes are asked for, beside those of now


@value
class Unfiltered:
    """A blob at a path of the work tree that is no work of the filter which it stands behind; ``commit`` brought it in."""

    blob: Oid
    path: str
    driver: str
    commit: Oid


def unfiltered(
    repo: Repo,
    paths: Mapping[Oid, bytes],
    ends: tuple[Sequence[Oid], Sequence[Oid]],
    missed: Sequence[tuple[Oid, Oid | None, str]],
) -> Iterator[Unfiltered]:
    """Those of the objects ``paths``, each with a path, which git lists between two ``ends``. ``missed``: what checkpoints say
    that they stored without its filter: the commit, its HEAD and the path. What HEAD's history has at the same path git has
    published itself. Raises GitError."""
    yield from _said(repo, paths, missed)
    asked = {oid: path for oid, path in paths.items() if _ASIDE.match(path)}
    drivers = behind(repo, sorted({_inside(path) for path in asked.values()}), ends[0]) if asked else {}
    asked = {oid: path for oid, path in asked.items() if _inside(path) in drivers and read_held(repo.objects, oid) is None}
    places = introduced(repo.git, asked, *ends) if asked else {}
    names = sorted({os.fsencode(_inside(path)) for path in asked.values()})
    gone = {*introduced(repo.git, asked, ends[1], (), paths=sorted(set(asked.values())))} if asked else set()
    gone |= {*introduced(repo.git, asked, _head(repo), (), paths=names)} if asked else set()
    found = [(oid, commit, path) for oid in asked if oid not in gone for commit, path in places.get(oid, ())]
    found = [place for place in found if _ASIDE.match(place[2]) and _inside(place[2]) in drivers]
    records = at_paths(repo.git, [(commit, b"record.json") for _, commit, _ in found])
    for (oid, commit, path), record in zip(found, records, strict=True):
        if record is not None if path.partition(b"/")[0].decode() in _RECORD else _is_stages(repo, commit):
            yield Unfiltered(blob=oid, path=_inside(path), driver=drivers[_inside(path)], commit=commit)


def _said(repo: Repo, paths: Mapping[Oid, bytes], missed: Sequence[tuple[Oid, Oid | None, str]]) -> Iterator[Unfiltered]:
    named = [(commit, head, path) for commit, head, path in missed if "\n" not in path]
    then = at_paths(repo.git, [(commit, os.fsencode(path)) for commit, _, path in named])
    before = at_paths(repo.git, [(head or commit, os.fsencode(path)) for commit, head, path in named])
    for (commit, head, path), oid, old in zip(named, then, before, strict=True):
        if oid is not None and oid in paths and not (head is not None and oid == old):
            yield Unfiltered(blob=oid, path=path, driver="", commit=commit)


def _inside(path: bytes) -> str:
    return os.fsdecode(path.partition(b"/")[2])


def _is_stages(repo: Repo, commit: Oid) -> bool:
    found = repo.objects.read(commit)
    return found is not None and found.data is not None and found.data.endswith(b"\n\ngitbaton stages 1\n")


def _head(repo: Repo) -> list[Oid]:
    head = repo.objects.head().oid
    return [head] if head else []


def behind(repo: Repo, names: Sequence[str], tips: Sequence[Oid]) -> dict[str, str]:
    """The filter that each path stands behind, by the attributes of now, of HEAD, or of what is looked at."""
    found: dict[str, str] = {}
    for tip in [*_head(repo), *tips][:_TIPS]:
        with suppress(GitError):  # before 2.40 git cannot be asked
            found |= filters(repo.git, names, f"--source={tip}")
    with suppress(GitError):
        found |= filters(repo.git, names)
    return found
