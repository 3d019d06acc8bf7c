"""Records that strangers wrote into our refs: one line, nothing run, nothing lost, and every other track goes on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit import Sandbox
from tests.kit.processes import chain
from tests.kit.tiers import some

CHAIN = "refs/baton/tracks/t"
NO_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def put(repo: Sandbox, kind: str, data: bytes) -> str:
    return repo.git("hash-object", "--literally", "-t", kind, "-w", "--stdin", stdin=data)


def forged(repo: Sandbox, change: Callable[[dict[str, Any]], object] | bytes, *more: str, tree: str = "") -> str:
    """The tip of the chain with other JSON, perhaps more parents or another tree, as a commit."""
    raw = repo.run("git", "cat-file", "commit", CHAIN).out
    head, subject, text = raw.split("\n\n", 2)
    if isinstance(change, bytes):
        text = change.decode("utf-8", "surrogateescape")
    else:
        record = json.loads(text)
        change(record)
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    rows = head.split("\n")
    rows[0] = f"tree {tree}" if tree else rows[0]
    rows[3:3] = [f"parent {oid}" for oid in more]
    return put(repo, "commit", "\n\n".join(["\n".join(rows), subject, text]).encode("utf-8", "surrogateescape"))


def deep(record: dict[str, Any]) -> None:
    at = record
    for _ in range(9):
        at["x"] = {}
        at = at["x"]


BROKEN: dict[str, Callable[[Sandbox], str]] = {
    "blob": lambda r: put(r, "blob", b"hello"),
    "tree": lambda r: r.git("rev-parse", "HEAD^{tree}"),
    "tag": lambda r: r.git("rev-parse", "v1"),
    "tag-of-chain": lambda r: r.git("rev-parse", "chain"),
    "ordinary": lambda r: r.head(),
    "nested": lambda r: forged(r, deep),
    "abyss": lambda r: forged(r, b"{" + b'"a":{' * 100_000 + b"\n}\n"),
    "two-megabytes": lambda r: forged(r, lambda d: d.update(x="y" * (2 << 20))),
    "four-megabytes": lambda r: forged(r, lambda d: d.update(x="y" * (4 << 20))),
    "twice": lambda r: forged(r, b'{\n  "v": 1,\n  "v": 1\n}\n'),
    "float": lambda r: forged(r, lambda d: d.update(v=1.5)),
    "nan": lambda r: forged(r, lambda d: d.update(x=float("nan"))),
    "version": lambda r: forged(r, lambda d: d.update(v=2)),
    "option-as-head": lambda r: forged(r, lambda d: d.update(head="--output=pwned")),
    "short-head": lambda r: forged(r, lambda d: d.update(head="abcdef")),
    "option-as-previous": lambda r: forged(r, lambda d: d.update(previous="--output=pwned")),
    "option-as-tree": lambda r: forged(r, lambda d: d["files"].update(tree="--output=pwned")),
    "option-as-index": lambda r: forged(r, lambda d: d["files"]["index"].update(tree="--output=pwned")),
    "other-tree": lambda r: forged(r, lambda d: None, tree=NO_TREE),
    "three-parents": lambda r: forged(r, lambda d: None, r.head()),
    "no-json": lambda r: forged(r, b"hello\n"),
    "not-utf8": lambda r: forged(r, b'{\n  "v": "\xff"\n}\n'),
    "list-as-step": lambda r: forged(r, lambda d: d.update(step=["x"])),
}  # fmt: skip


@pytest.fixture
def hostile(repo: Sandbox) -> Sandbox:
    """Two tracks; ``t`` is about to be replaced by what a stranger wrote, ``good`` is current."""
    repo.git("tag", "-a", "-m", "x", "v1")
    repo.ok("snapshot", "--track", "t", "--step", "mine")
    repo.git("tag", "-a", "-m", "x", "chain", CHAIN)
    repo.ok("snapshot", "--track", "good", "--step", "fine")
    return repo


def quiet(repo: Sandbox, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    """A command that ends with one of ``codes``, without a traceback, without a control character; all it said."""
    done = repo.baton(*words)
    said = done.out + done.err
    assert done.code in codes, f"{words}: {done.code}\n{said}"
    assert "Traceback" not in said and "bug in gitbaton" not in said
    assert not re.search(r"[^\n\t -~]", said), repr(said[:2000])
    assert len(done.err.splitlines()) <= 3
    return said


def everybody_else_goes_on(repo: Sandbox) -> None:
    listing = sorted(p.name for p in repo.path.parent.iterdir())
    assert "good" in quiet(repo, "status") and "good" in quiet(repo, "tracks")
    assert (
        "fine" in quiet(repo, "log", "--all")
        and "fine" in quiet(repo, "log")
        and "track=good\n" in quiet(repo, "show", "--porcelain", "good")
    )
    assert "track=good\n" in quiet(repo, "resume", "--porcelain", "--live") and quiet(repo, "verify") == ""
    quiet(repo, "snapshot", "--track", "good", "--step", "fine, too")
    quiet(repo, "snapshot", "--track", "another", "--step", "begun", "--no-set-current")
    assert sorted(p.name for p in repo.path.parent.iterdir()) == listing
    assert sorted(p.name for p in repo.path.iterdir()) == [".git", "a.txt", "runtime"]


@pytest.mark.deep
@some("kind", BROKEN, share=3)
def test_t08_a_broken_chain_is_one_line_and_hurts_no_other(hostile: Sandbox, kind: str) -> None:
    commit = BROKEN[kind](hostile)
    hostile.write(f".git/{CHAIN}", f"{commit}\n")
    everybody_else_goes_on(hostile)
    said = "the newest checkpoint that can be read is shown"
    assert said in quiet(hostile, "status") or "left out" in quiet(hostile, "status")
    for words in (("resume", "--track", "t"), ("verify", "--track", "t"), ("show", "t")):
        done = quiet(hostile, *words, codes=(0, 1, 2, 128))
        assert said in done or done.startswith("fatal: ")
    quiet(hostile, "log", "t", codes=(0, 128))
    assert quiet(hostile, "snapshot", "--track", "t", "--step", "x", codes=(128,)).startswith("fatal: ")
    assert hostile.git("rev-parse", CHAIN) == commit


def test_t08_a_chain_that_points_at_nothing(hostile: Sandbox) -> None:
    hostile.write(f".git/{CHAIN}", "b" * 40 + "\n")
    everybody_else_goes_on(hostile)
    for words, code in ((("resume", "--track", "t"), 0), (("snapshot", "--track", "t", "--step", "x"), 128)):
        assert "cannot be read" in quiet(hostile, *words, codes=(code,))


@pytest.mark.deep
def test_a_broken_record_below_a_good_one_is_named_and_left_out(hostile: Sandbox) -> None:
    hostile.git("update-ref", CHAIN, forged(hostile, lambda d: d.update(step=["x"])))
    good = hostile.git("cat-file", "commit", "refs/baton/tracks/good").split("\n")
    good[1] = f"parent {hostile.git('rev-parse', CHAIN)}"
    hostile.git("update-ref", CHAIN, put(hostile, "commit", ("\n".join(good) + "\n").encode()))
    done = hostile.ok("log", "t")
    assert done.out.count("\n") == 1 and done.err.count("\n") == 1 and "left out" in done.err
    assert "track=t\n" in hostile.ok("resume", "--porcelain", "--track", "t").out  # the ref's name wins
    hostile.ok("snapshot", "--track", "t", "--step", "on top")
    assert hostile.ok("log", "t").out.count("\n") == 2


@pytest.mark.deep
def test_a_long_ordinary_history_as_a_chain_is_one_line(hostile: Sandbox) -> None:
    for number in range(120):
        hostile.git("commit", "-q", "--allow-empty", "-m", str(number))
    hostile.git("update-ref", CHAIN, "HEAD")
    done = hostile.baton("log", "--all")
    assert done.code == 0 and "fine" in done.out and done.err.count("\n") == 1


@pytest.mark.deep
def test_escapes_in_stored_text_never_reach_a_terminal(hostile: Sandbox) -> None:
    evil = "\x1b]0;pwned\x07\u202e\x9b31m"
    fields = {"branch": f"b{evil}", "step": f"s{evil}", "label": f"l{evil}", "next_cmd": f"n{evil}\n\x1b[2J", "note": evil}
    hostile.git(
        "update-ref",
        CHAIN,
        forged(hostile, lambda d: d.update(**fields, agent={"name": evil, "session": evil, "transcript": None})),
    )
    for words in (
        ("resume", "--track", "t", "--live"),
        ("verify", "--track", "t"),
        ("log", "t"),
        ("show", "t"),
        ("status",),
        ("tracks",),
    ):
        quiet(hostile, *words, codes=(0, 1))
    for name in ("LATEST.md", "LATEST.json"):
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", (hostile.path / "runtime/checkpoints" / name).read_text())


def test_a_head_that_is_no_commit_gets_no_note(hostile: Sandbox) -> None:
    blob = put(hostile, "blob", b"x")
    before = hostile.git("rev-parse", "refs/notes/checkpoints")
    hostile.git("update-ref", CHAIN, forged(hostile, lambda d: d.update(head=blob)))
    assert "head-missing" in quiet(hostile, "resume", "--porcelain", "--track", "t", "--live")
    assert hostile.git("rev-parse", "refs/notes/checkpoints") == before


@pytest.mark.full
@some("kind", ["blob", "tree", "tag", "ordinary"])
def test_a_tip_of_the_wrong_type_is_repaired_and_a_notes_ref_is_left(hostile: Sandbox, kind: str) -> None:
    oid = BROKEN[kind](hostile)
    hostile.write(".git/refs/checkpoints/t", f"{oid}\n")
    everybody_else_goes_on(hostile)
    assert hostile.git("rev-parse", "refs/checkpoints/t") == chain(hostile, "t")[-1]["id"]
    if kind == "ordinary":
        return
    hostile.write(".git/refs/notes/checkpoints", f"{oid}\n")
    done = hostile.ok("snapshot", "--track", "good", "--step", "no note")
    assert done.err.count("\n") == 1 and "no note is written" in done.err
    everybody_else_goes_on(hostile)
    assert hostile.git("rev-parse", "refs/notes/checkpoints") == oid


@pytest.mark.deep
@some("size", [1 << 16, 5 << 20])
def test_a_note_that_strangers_wrote_is_kept(hostile: Sandbox, size: int) -> None:
    theirs = b"\x00\x1b[31m\xff" + b"z" * size
    blob = put(hostile, "blob", theirs)
    hostile.git("notes", "--ref=checkpoints", "add", "-f", "-C", blob, "HEAD")
    everybody_else_goes_on(hostile)
    note = hostile.git("notes", "--ref=checkpoints", "list", "HEAD")
    raw = hostile.run("git", "cat-file", "blob", note).out.encode("utf-8", "surrogateescape")
    assert theirs in raw and (b"step: begun" in raw) == (size < 4 << 20)
