"""The values of channels come back in the order in which they were put, from memory, from git and from another clone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gitbaton.langgraph import GitSaver
from tests.kit import Sandbox
from tests.kit.saverkit import checkpoint, config, number, put

ORDERS: list[list[str]] = [
    ["zeta", "alpha", "mu"],
    ["messages", "branch:to:b", "branch:to:a", "__start__"],
    ["a%", "a", "a-b", "a.b", "A", "\u00e9", "\U0001f600"],
    ["one"],
    [],
    ["a", "b", "c"],
    [f"n{n}" for n in random.Random(1).sample(range(300), 300)],
]


def names(saver: GitSaver, id: str | None = None) -> list[str]:
    """The channels of a checkpoint in order, read three times: by its parts, again, and joined."""
    found = [list(saver.get(config(id=id))["channel_values"]) for _ in range(3)]  # type: ignore[index]
    listed = [list(item.checkpoint["channel_values"]) for item in saver.list(config(id=id), limit=1)]
    assert found[0] == found[1] == found[2] == listed[0]
    return found[0]


@pytest.mark.deep
@pytest.mark.parametrize("order", ORDERS, ids=lambda order: f"{len(order)} {'-'.join(order[:2])}"[:30])
def test_the_order_outlives_a_flush(tmp_path: Path, order: list[str]) -> None:
    place = tmp_path / "threads.git"
    with GitSaver(place, fsync=False) as saver:
        put(saver, number(0), dict.fromkeys(order, 0))
        assert names(saver) == order
        saver.flush()
        assert names(saver) == order
    with GitSaver(place, fsync=False) as saver:
        assert names(saver) == order
        put(saver, number(1), dict.fromkeys(reversed(order), 0), parent=number(0), new=())  # all are the parent's
        saver.copy_thread("t", "other")
        assert names(saver) == order[::-1] and names(saver, number(0)) == order
    with GitSaver(place, fsync=False) as saver:
        assert names(saver) == order[::-1] and names(saver, number(0)) == order
        put(saver, number(0), dict.fromkeys(sorted(order), 0))  # put again in another order
        saver.prune(["other"])
    with GitSaver(place, fsync=False) as saver:
        assert names(saver, number(0)) == sorted(order)
        twin = saver.get(config("other"))
        assert twin is not None and list(twin["channel_values"]) == order[::-1]


@pytest.mark.parametrize("odd", [{"deep": {1: 2}}, {"nan": float("nan")}], ids=["keys", "nan"])
def test_it_does_so_where_a_checkpoint_is_no_json(tmp_path: Path, odd: dict[str, Any]) -> None:
    place = tmp_path / "threads.git"
    with GitSaver(place, fsync=False) as saver:
        made = checkpoint(number(0), {"b": 1, "a": 2, "c": 3}, more=odd)
        saver.put(config(), made, {}, {"a": 1, "b": 1, "c": 1})
    with GitSaver(place, fsync=False) as saver:
        assert names(saver) == ["b", "a", "c"]


def test_what_is_sorted_costs_nothing(tmp_path: Path) -> None:
    """The commit names the channels in order only where that is not the order of the tree."""
    place = tmp_path / "threads.git"
    with GitSaver(place, fsync=False) as saver:
        put(saver, number(0), {"a": 1, "b": 2})
        put(saver, number(1), {"b": 1, "a": 2}, parent=number(0))
    texts = [Sandbox(place).git("cat-file", "commit", f"refs/baton/threads/=t/_{back}") for back in ("~1", "")]
    assert "channel_values" not in texts[0] and '"channel_values":["b","a"]' in texts[1]


@pytest.mark.parametrize(
    ("said", "order"),
    [
        ('["b","a"]', ["b", "a", "c"]),
        ('["c","none","c",7,null,["a"],"b"]', ["c", "b", "a"]),
        ('{"c":"forged"}', ["a", "b", "c"]),
        ("7", ["a", "b", "c"]),
        ("null", ["a", "b", "c"]),
    ],
)
def test_what_a_stranger_wrote_there_is_only_an_order(tmp_path: Path, said: str, order: list[str]) -> None:
    place, ref = tmp_path / "threads.git", "refs/baton/threads/=t/_"
    with GitSaver(place, fsync=False) as saver:
        put(saver, number(0), {"c": 3, "b": 2, "a": 1})
    bare = Sandbox(place)
    raw = bare.git("cat-file", "commit", ref) + "\n"
    forged = raw.replace('["c","b","a"]', said)
    grown = len(said) - len('["c","b","a"]')
    size = raw.split('"size":[')[1].split(",")[0]
    forged = forged.replace(f'"size":[{size},', f'"size":[{int(size) + grown},')
    bare.git("update-ref", ref, bare.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=forged.encode()))
    with GitSaver(place, fsync=False) as saver:
        assert names(saver) == order
        found = saver.get(config())
        assert found is not None and found["channel_values"] == {"a": 1, "b": 2, "c": 3}
