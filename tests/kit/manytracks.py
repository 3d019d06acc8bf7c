"""A repository with thousands of tracks: copies of one real checkpoint, each with words and a time of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from gitbaton.base.codec import encode, message
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store import chain_ref, tip_ref
from gitbaton.git.binary import BinaryObjects
from gitbaton.git.objects import NewObject, commit_data, new_object

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def track(number: int) -> str:
    """The name of a track."""
    return f"agent-{number:05d}"


def many_tracks(path: Path, count: int, *, depth: int = 2, env: Mapping[str, str] | None = None, packed: bool = True) -> None:
    """Add tracks to a repository with a commit; a later number is a newer track. The last checkpoint of each is ``depth`` - 1
    above its first. Refs are packed, as git's garbage collection leaves them."""
    with Baton(path, door="binary") as baton:
        model = baton.snapshot(
            "model", track=track(0), next_cmd="make test", validation="green", note="a note of two lines\nor so"
        )
        objects, algorithm, root = baton.repo.objects, baton.repo.layout.algorithm, baton.store.root
        assert isinstance(objects, BinaryObjects)
        made: list[NewObject] = []
        refs = []
        for number in range(count):
            parent, previous = root, None
            for level in range(depth):
                created = BEGIN + timedelta(seconds=level * count + number)
                step = f"step {level} of agent {number}"
                words = replace(model.stored.checkpoint, track=track(number), step=step, created=created, previous=previous)
                raw = encode(words)
                parents = [parent, *([model.stored.base] if model.stored.base else [])]
                dated = b"A U Thor <author@example.com> %d +0000" % int(created.timestamp())
                data = commit_data(tree=model.stored.tree, parents=parents, author=dated, message=message(step, raw))
                blob, commit = new_object(algorithm, "blob", raw), new_object(algorithm, "commit", data)
                made += [blob, commit]
                parent, previous = commit.oid, blob.oid
            refs += [f"update {chain_ref(track(number))} {parent}", f"update {tip_ref(track(number))} {previous}"]
        objects.write_pack(made)
    text = "".join(f"{row}\n" for row in refs)
    subprocess.run(["git", "update-ref", "--stdin"], cwd=path, env=env, input=text, text=True, check=True)
    if packed:
        subprocess.run(["git", "pack-refs", "--all"], cwd=path, env=env, check=True)
