"""The list of threads: what git cannot take is in it, and ids can be typed from it."""

from __future__ import annotations

import re

import pytest

from gitbaton.langgraph.threads.names import ref_of
from gitbaton.langgraph.threads.store import ThreadStore
from tests.kit import Sandbox
from tests.kit.threads import QUIET
from tests.verbs.test_threads_verbs import killed, put

ODD = (
    *("", "a b", "a\nb", "\x1b[31m", '"', "a\\", "$HOME", "日本 語", "\ud800", "\u202e", "'", "x" * 250, "\udce9"),
    "plain/日本語:1",
)


@pytest.mark.deep
def test_ids_are_typed_from_the_list(repo: Sandbox) -> None:
    with ThreadStore.open(repo.path, **QUIET) as store:
        for number, thread in enumerate(ODD):
            put(store, thread, number, parent=None)
            put(store, "ns", number, namespace=f"n{thread}", parent=None)
    rows = repo.here("thread", "list").out.splitlines()
    typed = [re.split(r" +\S+  1 checkpoint  ", row)[0] for row in rows]
    threads = [each for each in typed if not each.startswith("ns [")]
    assert (
        '"a\\nb"' in threads
        and '""' in threads
        and "x" * 250 in threads
        and "plain/日本語:1" in threads
        and '"$HOME"' in threads
    )
    assert sorted(repo.here("thread", "show", each, "--json").json["thread"] for each in threads) == sorted(ODD)
    spaces = [each.removeprefix("ns [").removesuffix("]") for each in typed if each.startswith("ns [")]
    said = {repo.here("thread", "log", "ns", "--ns", each, "--json").json["namespace"] for each in spaces}
    assert said == {f"n{thread}" for thread in ODD}
    with ThreadStore.open(repo.path, **QUIET) as store:
        put(store, "a\nb", 99, parent=None)
        put(store, '"a b"', 1, parent=None)  # what is there as it is typed goes before
    assert repo.here("thread", "show", '"a b"', "--json").json["thread"] == '"a b"'
    assert repo.here("prune", "--threads", '"a\\nb"').out.startswith("thread 'a")
    assert repo.here("thread", "show", '"no\\ne"').code == 2


@pytest.mark.deep
def test_what_cannot_be_brought_into_git_is_listed_all_the_same(repo: Sandbox) -> None:
    killed(repo)
    packs = repo.path / ".git/objects/pack"
    packs.rename(packs.with_name("aside"))
    packs.write_text("in the way")
    for words, said in (
        (("thread", "list"), "  1 checkpoint  "),
        (("thread", "show", "t"), "id-0007"),
        (("thread", "log", "t"), "id-0007"),
    ):
        done = repo.here(*words)
        assert done.code == 0 and said in done.out
        assert done.err.startswith("warning: git does not hold all of it, the log does: ") and done.err.count("\n") == 1
    assert repo.here("thread", "show", "u").code == 2
    packs.unlink()
    packs.with_name("aside").rename(packs)
    assert repo.here("thread", "list").err == "" and repo.git("for-each-ref", "--format=%(refname)", "refs/baton") == ref_of(
        "t", ""
    )
