"""Ancestry by one walk, chains of many commits, and trees told apart: the same answers as git gives one by one."""

from __future__ import annotations

import random

import pytest

from gitbaton.git.ancestry import MANY, Ancestry
from gitbaton.git.treediff import changed_in_none, differences, entries_in, raw_records, started
from tests.kit import Sandbox


def history(repo: Sandbox, chance: random.Random, count: int) -> list[str]:
    """Commits with up to three parents each, of two roots, each with a file or two changed."""
    text = "".join(f"blob\nmark :{n + 1}\ndata {len(str(n))}\n{n}\n" for n in range(9))
    for n in range(count):
        above = sorted({chance.randrange(max(0, n - 6), n) for _ in range(chance.randint(1, 3))}) if n not in (0, 5) else []
        text += f"commit refs/heads/b{n}\nmark :{100 + n}\ncommitter A <a@b.c> {1_700_000_000 + n // 3} +0000\ndata 1\nx\n"
        for place, parent in enumerate(above):
            text += f"{'merge' if place else 'from'} :{100 + parent}\n"
        for _ in range(2):
            text += f"M 100644 :{chance.randint(1, 9)} d{chance.randint(0, 2)}/f{chance.randint(0, 2)}\n"
        text += f"D d{chance.randint(0, 2)}/f{chance.randint(0, 2)}\n\n"
    repo.git("fast-import", "--quiet", stdin=text.encode())
    return [repo.git("rev-parse", f"b{n}").strip() for n in range(count)]


@pytest.mark.deep
@pytest.mark.parametrize("many", [MANY, 3])
def test_distances_of_many_commits_are_git_s(repo: Sandbox, many: int) -> None:
    oids = history(repo, random.Random(3), 24)
    with repo.open(door="binary") as baton:
        known = Ancestry(baton.repo, [*oids, "0" * 39 + "1"], many)
        for here in oids[::3]:
            for there in oids:
                assert known.distance(here, there) == baton.repo.objects.distance(here, there)
        with pytest.raises(LookupError):
            known.distance(oids[0], "0" * 39 + "1")


@pytest.mark.deep
def test_commits_below_those_that_were_asked_for_are_known_too(repo: Sandbox) -> None:
    oids = history(repo, random.Random(6), 24)
    with repo.open(door="binary") as baton:
        known = Ancestry(baton.repo, oids[20:])
        below = set(repo.git("rev-list", *oids[20:]).split())
        for here in below:
            assert known.first_parents(here, 5) == baton.repo.objects.first_parents(here, 5)
            for there in [*below][:12]:
                assert known.distance(here, there) == baton.repo.objects.distance(here, there)
        with pytest.raises(LookupError):
            known.first_parents("0" * 39 + "1", 5)


@pytest.mark.deep
def test_notes_of_many_commits_are_those_of_each(repo: Sandbox) -> None:
    oids = history(repo, random.Random(7), 24)
    for n, oid in enumerate(oids[::2]):
        repo.git("notes", "--ref=checkpoints", "add", "-m", f"note {n}", oid)
    repo.git("fast-import", "--quiet", stdin=b"".join(fanned(oids[:3])))  # deeper folders, as git makes them of many
    with repo.open(door="binary") as baton:
        for ref in ("refs/notes/checkpoints", "refs/notes/fanned"):
            tree = repo.git("rev-parse", f"{ref}^{{tree}}").strip()
            alone = {oid: raw for oid in oids if (raw := baton.store.note(oid, tree))}
            assert alone and baton.store.notes(oids, tree, {}) == alone


def fanned(oids: list[str]) -> list[bytes]:
    rows = [f"M 100644 inline {oid[:2]}/{oid[2:4]}/{oid[4:]}\ndata 2\n{n}\n" for n, oid in enumerate(oids)]
    return [b"commit refs/notes/fanned\ncommitter A <a@b.c> 1700000000 +0000\ndata 1\nx\n", *(row.encode() for row in rows)]


@pytest.mark.deep
def test_many_chains_are_those_of_first_parents_and_the_newest_are_whole(repo: Sandbox) -> None:
    oids = history(repo, random.Random(4), 24)
    with repo.open(door="binary") as baton:
        objects = baton.repo.objects
        alone = {oid: objects.first_parents(oid) for oid in oids}
        assert objects.chains(oids) == alone and objects.chains([]) == {}
        when = {oid: int(repo.git("show", "-s", "--format=%ct", oid)) for oid in oids}
        for limit in (1, 5, 200):
            newest = sorted({oid for chain in alone.values() for oid in chain}, key=lambda oid: when[oid], reverse=True)
            least = when[newest[:limit][-1]]
            wanted = {oid for oid in newest if when[oid] >= least}
            found = objects.chains(oids, limit)
            assert {oid for chain in found.values() for oid in chain} == wanted
            assert all(chain == alone[oid][: len(chain)] for oid, chain in found.items())
        assert objects.chains([oids[7], "0" * 39 + "1"]) == {oids[7]: alone[oids[7]], "0" * 39 + "1": ["0" * 39 + "1"]}


@pytest.mark.deep
def test_trees_are_told_apart_as_git_does(repo: Sandbox) -> None:
    chance = random.Random(5)
    oids = history(repo, chance, 24)
    trees = [repo.git("rev-parse", f"{oid}^{{tree}}").strip() for oid in oids]
    with repo.open(door="binary") as baton:
        pairs = [(one, other) for one in trees[:8] for other in trees[4:12]]
        raw = raw_records(started(baton.repo, pairs), len(pairs))
        for pair, found in zip(pairs, raw, strict=True):
            told = differences(baton.repo, [pair])[pair]
            assert {path: entries_in(one) for path, one in found.items()} == {
                path: (change.before, change.after) for path, change in told.items()
            }
        for _ in range(100):
            before, after, one, other = (chance.choice(trees) for _ in range(4))
            changed, *apart = (differences(baton.repo, [(tree, after)])[tree, after] for tree in (before, one, other))
            strange = [path for path in changed if all(path in of for of in apart)]
            assert changed_in_none(baton.repo.objects, before, after, [one, other], {}) == bool(strange)
