"""The paces of retention: a prune of many checkpoints to 200, what the daily look costs a snapshot, du."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from datetime import timedelta
from pathlib import Path

from gitbaton import Baton
from gitbaton.base.codec import encode, message
from gitbaton.base.model import Checkpoint, FileState, IndexState
from gitbaton.base.values import replace
from gitbaton.checkpoints.store.join import Link
from gitbaton.git.objects import NewObject, TreeEntry, new_object, tree_data
from tests.bench.baton import SNAPSHOT, make
from tests.bench.harness import Row, pair
from tests.kit.state import insert

_DAY = 86_400


def prepared(folder: Path, env: dict[str, str], count: int) -> Path:
    """A packed repository with ``count`` checkpoints of one track, an hour apart; each changes one of 1,000 files."""
    path = folder / f"kept{count}"
    if path.exists():
        return path
    make(path, 1000, env)
    with Baton(path, door="libgit2") as baton:
        first = baton.snapshot("first", track="bench").stored
        state = first.checkpoint.files
        assert state is not None
        made = [_one(baton, first.checkpoint, state, number, count) for number in range(count)]
        insert(baton.store, "bench", made)
        baton.refresh()
    subprocess.run(["git", "gc", "-q", "--prune=now"], cwd=path, env=env, check=True)
    return path


def _one(baton: Baton, like: Checkpoint, state: FileState, number: int, count: int) -> Link:
    algorithm = baton.store.objects.algorithm
    blob = new_object(algorithm, "blob", f"state {number}\n".encode() * 20)
    tree = new_object(algorithm, "tree", tree_data([TreeEntry(mode=b"100644", name=b"f.txt", oid=blob.oid)]))
    objects: list[NewObject] = [blob, tree]
    baton.store.objects.write(objects)
    created = like.created - timedelta(hours=count - number)
    index = IndexState(tree=tree.oid, flags=(), flags_more=0, unmerged=0)
    files = replace(state, tree=tree.oid, index=index)
    item = replace(like, step=f"step {number}", created=created, files=files)
    raw = encode(item)
    return Link(
        id=new_object(algorithm, "blob", raw).oid,
        created=created,
        message=message(item.step, raw),
        tree=tree.oid,
        base=like.head,
        author=b"Bench <bench@example.com> %d +0000" % int(created.timestamp()),
    )


def pruning(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """Prune and du beside git walking the same objects."""
    model, work = prepared(folder, env, count), folder / "pruned"

    def fresh() -> None:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(model, work, symlinks=True)

    fresh()
    walk = ("git", "rev-list", "--objects", "--disk-usage", "--all")
    prune = ("git-baton", "prune", "--keep-last", "200")
    return [
        pair(f"prune of {count:,} to 200", prune, walk, work, env, runs=runs, before=fresh),
        pair(f"prune -n of {count:,} to 200", (*prune, "-n"), walk, model, env, runs=runs),
        pair(f"du of {count:,}", ("git-baton", "du"), walk, model, env, runs=runs),
    ]


def snapshots(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """A snapshot with the daily look at old checkpoints beside one without; manual ones are never removed by it."""
    path = prepared(folder, env, count)
    stamp = path / ".git" / "baton" / "pruned"

    def due() -> None:
        stamp.touch()
        os.utime(stamp, (time.time() - 2 * _DAY,) * 2)

    off = ("env", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=baton.autoPrune", "GIT_CONFIG_VALUE_0=false", *SNAPSHOT)
    said = "with autoPrune=false"
    stamp.touch()
    return [
        pair("snapshot, autoPrune not due", SNAPSHOT, off, path, env, runs=runs, yardstick=said),
        pair("snapshot, autoPrune due", SNAPSHOT, off, path, env, runs=runs, before=due, yardstick=said),
    ]


def main(folder: Path, env: dict[str, str], runs: int, count: int) -> list[Row]:
    """All rows of retention."""
    return [*pruning(folder, env, max(3, runs // 3), count), *snapshots(folder, env, runs, count)]
