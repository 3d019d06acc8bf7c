"""Captures where git's conversions do not give back what is on disk: those files are kept byte for byte."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import gitbaton
from gitbaton.base.model import Stored
from gitbaton.git.worktree.rawbytes import differing, read_kept
from tests.kit import Sandbox
from tests.kit.places import PYTHON

MIXED = b"one\r\ntwo\nthree\r\n"
DROP = "sed -e /secret/d"


def snapshot(sandbox: Sandbox, **words: Any) -> Stored:
    with sandbox.open() as baton:
        return baton.snapshot("state", track="t", **words).stored


def git_bytes(sandbox: Sandbox, *args: str) -> bytes:
    return subprocess.run(["git", *args], cwd=sandbox.path, check=True, capture_output=True).stdout


def kept(sandbox: Sandbox, stored: Stored) -> dict[str, bytes]:
    """What ``raw/`` of a checkpoint holds, as git itself lists it, and the bytes that ``held/`` stands for: path -> bytes."""
    files = stored.checkpoint.files
    assert files is not None
    schema = json.loads((Path(gitbaton.__file__).parent / "data" / "checkpoint-1.schema.json").read_text())
    jsonschema.validate(json.loads(stored.raw), schema)
    found: dict[str, bytes] = {}
    for room, count in (("raw", files.raw), ("held", files.held)):
        if not count:
            assert f'"{room}"'.encode() not in stored.raw
            continue
        rows = git_bytes(sandbox, "ls-tree", "-r", "-z", "--full-tree", f"{stored.base}^2:{room}").split(b"\0")[:-1]
        assert count == len(rows)
        for row in rows:
            meta, path = row.split(b"\t", 1)
            data = git_bytes(sandbox, "cat-file", "blob", meta.split(b" ")[2].decode())
            found[os.fsdecode(path)] = data if room == "raw" else held_bytes(sandbox, data)
    return found


def held_bytes(sandbox: Sandbox, stand_in: bytes) -> bytes:
    """What a stand-in is for, from the git directory."""
    token = stand_in.split(b"\n")[1].removeprefix(b"token ").decode()
    return (sandbox.path / sandbox.git("rev-parse", "--git-common-dir") / "baton" / "held" / token).read_bytes()


def checked_out(sandbox: Sandbox, tree: str) -> dict[str, bytes]:
    """The files of a tree as git checks them out elsewhere, with this repository's configuration."""
    place = Path(str(sandbox.path) + f"-out-{tree[:8]}")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    index = sandbox.path.parent / "out.index"
    index.unlink(missing_ok=True)
    git_dir = sandbox.git("rev-parse", "--absolute-git-dir")
    env = {"GIT_WORK_TREE": str(place), "GIT_INDEX_FILE": str(index), "GIT_DIR": git_dir}
    options = ("-c", "core.sparseCheckout=false", "-c", "core.splitIndex=false")
    sandbox.git(*options, "read-tree", "-m", "-u", tree, env=env)
    return {str(p.relative_to(place)): p.read_bytes() for p in place.rglob("*") if p.is_file() and not p.is_symlink()}


def check_gives_back(sandbox: Sandbox, *expected: str) -> Stored:
    """Take a snapshot: a checkout with the kept bytes over it is what is on disk, and only ``expected`` needed keeping.

    Tracked files that git finds unchanged are nobody's promise here.
    """
    tracked = git_bytes(sandbox, "ls-files", "-z").split(b"\0")[:-1]
    changed = git_bytes(sandbox, "diff-files", "-z", "--name-only").split(b"\0")
    unexamined = {os.fsdecode(p) for p in tracked if p not in changed}
    stored = snapshot(sandbox)
    raw = kept(sandbox, stored)
    there = checked_out(sandbox, stored.tree)
    assert set(raw) <= set(there)
    for path, data in (there | raw).items():
        assert path in unexamined or data == (sandbox.path / path).read_bytes(), path
    assert all(there[path] != data for path, data in raw.items())
    assert sorted(raw) == sorted(expected)
    with sandbox.open() as baton:
        assert read_kept(baton.repo.objects, sandbox.git("rev-parse", f"{stored.base}^2^{{tree}}")) if raw else True
    sandbox.fsck()
    return stored


def driver(sandbox: Sandbox, clean: str, smudge: str, *, required: bool = False, pattern: str = "*.dat") -> None:
    sandbox.git("config", "filter.x.clean", clean)
    sandbox.git("config", "filter.x.smudge", smudge)
    sandbox.git("config", "filter.x.required", str(required).lower())
    sandbox.write(".gitattributes", f"{pattern} filter=x\n")


@pytest.mark.deep
def test_mixed_line_ends_under_autocrlf_input(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", MIXED)
    repo.write("new.txt", b"x\r\ny\r\n")
    repo.write("plain.txt", b"x\ny\n")
    check_gives_back(repo, "a.txt", "new.txt")


@pytest.mark.deep
def test_line_feeds_under_autocrlf_true(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "true")
    repo.write("a.txt", b"one\ntwo\n")
    repo.write("fits.txt", b"one\r\ntwo\r\n")
    repo.write("mixed.txt", MIXED)
    repo.write("binary", b"\0\r\n\n")
    check_gives_back(repo, "a.txt", "mixed.txt")


@pytest.mark.full
@pytest.mark.parametrize("setting", ["* text=auto eol=crlf", "* text eol=crlf", "* eol=crlf"])
def test_attributes_with_an_eol(repo: Sandbox, setting: str) -> None:
    repo.write(".gitattributes", setting.encode() + b"\r\n")
    repo.write("fits.txt", b"one\r\ntwo\r\n")
    repo.write("mixed.txt", MIXED)
    repo.write("lf.txt", b"one\ntwo\n")
    check_gives_back(repo, "a.txt", "lf.txt", "mixed.txt")  # a.txt is committed with LF


@pytest.mark.deep
def test_line_ends_that_only_the_old_attribute_converts(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.txt crlf=input\n*.bin -crlf\n*.raw -text\n*.raw crlf\n")
    repo.git("config", "core.autocrlf", "input")
    for name in ("m.txt", "m.bin", "m.raw", "m"):
        repo.write(name, MIXED)
    check_gives_back(repo, "m", "m.txt")


@pytest.mark.deep
def test_core_eol(repo: Sandbox) -> None:
    repo.git("config", "core.eol", "crlf")
    repo.write(".gitattributes", b"* text=auto\r\n")
    repo.write("lf.txt", b"one\n")
    repo.write("crlf.txt", b"one\r\n")
    check_gives_back(repo, "a.txt", "lf.txt")  # of a.txt, which git finds unchanged, a checkout makes another file from now on


@pytest.mark.deep
def test_safecrlf_is_in_nobodys_way(repo: Sandbox) -> None:
    repo.git("config", "core.safecrlf", "true")
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", MIXED)
    check_gives_back(repo, "a.txt")


@pytest.mark.deep
def test_bytes_that_clean_to_the_staged_blob(repo: Sandbox) -> None:
    """The captured tree is the index's: only stat data tells that the file is another."""
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", b"one\r\n")
    stored = check_gives_back(repo, "a.txt")
    assert stored.tree == repo.git("rev-parse", "HEAD^{tree}")


@pytest.mark.deep
def test_lossy_clean_filter(repo: Sandbox) -> None:
    driver(repo, DROP, "cat")
    repo.write("a.dat", "kept\n")
    repo.commit("filtered")
    repo.write("a.dat", "kept\nsecret 1\n")
    repo.write("sub/b.dat", "secret 2\n")
    repo.write("sub/c.dat", "nothing hidden\n")
    repo.write("d.other", "secret 3\n")
    stored = check_gives_back(repo, "a.dat", "sub/b.dat")
    assert repo.git("cat-file", "blob", f"{stored.tree}:a.dat") == "kept"


@pytest.mark.deep
def test_filter_that_round_trips(repo: Sandbox) -> None:
    driver(repo, "tr a-z n-za-m", "tr n-za-m a-z", required=True)
    repo.write("a.dat", "hello\n")
    repo.write("big.dat", b"abc\n" * 700_000)
    assert check_gives_back(repo).base == repo.head()


@pytest.mark.full
def test_long_running_filter_process(repo: Sandbox) -> None:
    script = repo.write("../filter.py", FILTER_PROCESS)
    repo.git("config", "filter.x.process", f"{PYTHON} {shlex.quote(str(script))}")
    repo.git("config", "filter.x.required", "true")
    repo.write(".gitattributes", "*.dat filter=x\n")
    repo.write("a.dat", "hello\n")
    repo.write("b.dat", "bye\n")
    repo.write("lossy.dat", "drop: x\n")
    check_gives_back(repo, "lossy.dat")


@pytest.mark.deep
def test_ident_typed_by_hand(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.c ident\n")
    repo.write("typed.c", "/* $Id: by hand $ */\n")
    blob = repo.git("hash-object", "--stdin", stdin=b"/* $Id$ */\n")
    repo.write("fits.c", f"/* $Id: {blob} $ */\n")
    repo.write("none.c", "int x;\n")
    check_gives_back(repo, "typed.c")


@pytest.mark.deep
def test_encodings(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.u16 text working-tree-encoding=UTF-16 -eol\n*.le text working-tree-encoding=UTF-16LE-BOM\n")
    repo.write("le.u16", b"\xff\xfe" + "häl\n".encode("utf-16-le"))
    repo.write("be.u16", b"\xfe\xff" + "häl\n".encode("utf-16-be"))
    repo.write("fits.le", b"\xff\xfe" + "häl\n".encode("utf-16-le"))
    stored = snapshot(repo)
    there = checked_out(repo, stored.tree)
    raw = kept(repo, stored)
    for path in ("le.u16", "be.u16", "fits.le"):
        assert (there | raw)[path] == (repo.path / path).read_bytes()
    assert len(raw) == 1 and next(iter(raw)) in ("le.u16", "be.u16")


@pytest.mark.deep
@pytest.mark.parametrize("count", [1, 6])
def test_required_filter_that_is_missing(repo: Sandbox, count: int) -> None:
    driver(repo, "/nonexistent/clean", "/nonexistent/smudge", required=True)
    repo.write("mixed.txt", MIXED)
    for number in range(count):
        repo.write(f"f{number}.dat", f"data {number}\n")
    stored = snapshot(repo)
    raw = kept(repo, stored)
    assert raw == {f"f{number}.dat": b"data %d\n" % number for number in range(count)}
    files = stored.checkpoint.files
    assert files and {s.path: s.reason for s in files.skipped} == dict.fromkeys(raw, "unfiltered")
    repo.fsck()


@pytest.mark.deep
def test_smudge_that_fails_beside_one_that_works(repo: Sandbox) -> None:
    driver(repo, "cat", "/nonexistent/smudge", required=True)
    repo.git("config", "filter.y.clean", DROP)
    repo.write(".gitattributes", "*.dat filter=x\n*.y filter=y\n*.n filter=none\n")
    names = [f"{number}.{kind}" for number in range(5) for kind in ("dat", "y", "n")]
    for name in names:
        repo.write(name, f"secret {name}\n" if name == "3.y" else f"{name}\n")
    raw = kept(repo, snapshot(repo))
    assert sorted(raw) == sorted(n for n in names if not n.endswith("y") or n == "3.y")
    assert raw["3.y"] == b"secret 3.y\n"


@pytest.mark.deep
def test_optional_smudge_that_fails(repo: Sandbox) -> None:
    driver(repo, "cat", "/nonexistent/smudge")
    repo.write("a.dat", "data\n")
    repo.write("with\nbreak.dat", "data\n")
    repo.write("b.txt", "text\n")
    assert kept(repo, snapshot(repo)) == {"a.dat": b"data\n", "with\nbreak.dat": b"data\n"}


def test_symlinks_are_not_followed(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    outside = repo.write("../outside/f.txt", MIXED)
    repo.write("dir/f.txt", "one\n")
    repo.commit("a directory")
    shutil.rmtree(repo.path / "dir")
    (repo.path / "dir").symlink_to(outside.parent)
    (repo.path / "link.txt").symlink_to(outside)
    assert kept(repo, snapshot(repo)) == {}
    with repo.open() as baton:
        oid = repo.git("hash-object", "-w", "--stdin", stdin=b"one\n")
        files = [(path, "100644", oid) for path in ("dir/f.txt", "link.txt", "gone.txt", "a.txt")]
        assert differing(baton.repo.git, str(repo.path), files) == {}


@pytest.mark.deep
def test_modes_are_the_entries(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("run.sh", MIXED).chmod(0o755)
    repo.write("text", MIXED)
    stored = check_gives_back(repo, "run.sh", "text")
    assert {p: e.split(" ")[0] for p, e in repo.tree(f"{stored.base}^2:raw").items()} == {"run.sh": "100755", "text": "100644"}


@pytest.mark.deep
def test_odd_names(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    names = ["new\nline", " blank", "\ttab", "return\r", "-dash", ":(top)x", "a*b", "d/\udcff\udcfe", '"quoted"', "x y "]
    for name in names:
        repo.write(name, os.fsencode(name.rstrip("\r")) + MIXED)
    check_gives_back(repo, *names)


@pytest.mark.deep
def test_conflict_flags_and_staged_edit(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.git("checkout", "-q", "-b", "side")
    repo.commit("side", a_txt="side\n")
    repo.git("checkout", "-q", "main")
    repo.commit("main", a_txt="main\n", b_txt="b\n")
    assert repo.try_git("merge", "side").code == 1
    repo.git("update-index", "--assume-unchanged", "b.txt")
    repo.write("b.txt", MIXED)
    repo.write("a.txt", MIXED)
    stored = check_gives_back(repo, "a.txt", "b.txt")
    assert sorted(repo.git("ls-tree", "--name-only", f"{stored.base}^2").split("\n")) == ["1", "2", "3", "raw"]


@pytest.mark.deep
@pytest.mark.parametrize("kind", ["sha256", "split", "sparse"])
def test_odd_repositories(tmp_path: Path, kind: str) -> None:
    sandbox = Sandbox.init(tmp_path / "odd", *(["--object-format=sha256"] if kind == "sha256" else []))
    sandbox.write("in/a.txt", "one\n")
    sandbox.write("out/b.txt", "one\n")
    sandbox.write(".gitattributes", b"*.txt text\n")
    sandbox.commit("first")
    if kind == "split":
        sandbox.git("update-index", "--split-index")
    if kind == "sparse":
        sandbox.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    sandbox.write("in/a.txt", MIXED)
    sandbox.write("in/new.txt", MIXED)
    stored = snapshot(sandbox)
    assert kept(sandbox, stored) == {"in/a.txt": MIXED, "in/new.txt": MIXED}
    assert "out/b.txt" in sandbox.tree(stored.commit)
    sandbox.fsck()


@pytest.mark.deep
def test_attributes_that_only_the_index_holds(repo: Sandbox) -> None:
    """A sparse checkout has no attributes file on disk, and git converts all the same."""
    repo.write("in/.gitattributes", "*.txt eol=crlf\n")
    repo.write("in/a.txt", b"one\r\n")
    repo.commit("attributes")
    repo.git("sparse-checkout", "set", "--no-cone", "/a.txt", "/in/a.txt")
    assert not (repo.path / "in/.gitattributes").exists()
    repo.write("in/a.txt", b"two\n")
    assert kept(repo, snapshot(repo)) == {"in/a.txt": b"two\n"}


@pytest.mark.full
def test_600_changed_paths(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    for number in range(600):
        repo.write(f"d{number % 7}/f{number}", MIXED if number % 2 else b"plain\n")
    check_gives_back(repo, *(f"d{number % 7}/f{number}" for number in range(1, 600, 2)))


@pytest.mark.full
def test_large_file_is_streamed(repo: Sandbox) -> None:
    """Neither the comparison nor the storing holds a file of 40 MB."""
    repo.git("config", "core.autocrlf", "input")
    with open(repo.path / "big.txt", "wb") as file:
        for _ in range(40):
            file.write(b"0123456789abcd\r\n" * 1024 + b"0123456789abcde\n" * 64512)
    code = f"""
import resource
from gitbaton import Baton
with Baton({str(repo.path)!r}) as baton:
    limit = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stored = baton.snapshot("big", track="t").stored
    print(stored.checkpoint.files.raw, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - limit)
"""
    done = repo.run(sys.executable, "-c", code)
    assert done.code == 0, done.err
    raw, grown = done.out.split()
    assert raw == "1" and int(grown) < 25_000
    stored = snapshot(repo)
    assert kept(repo, stored) == {"big.txt": (repo.path / "big.txt").read_bytes()}


@pytest.mark.deep
def test_raw_bytes_outlive_garbage_collection(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", MIXED)
    stored = snapshot(repo)
    repo.write("a.txt", "one\n")
    snapshot(repo)
    repo.git("reflog", "expire", "--expire=now", "--all")
    repo.git("gc", "-q", "--prune=now")
    assert kept(repo, stored) == {"a.txt": MIXED}
    repo.fsck()
    assert json.loads(repo.git("cat-file", "-p", "refs/checkpoints/t"))["files"].get("raw") is None


def test_same_bytes_give_the_same_commit_twice(repo: Sandbox) -> None:
    repo.git("config", "core.autocrlf", "input")
    repo.write("a.txt", MIXED)
    first, second = snapshot(repo), snapshot(repo)
    assert repo.git("rev-parse", f"{first.base}^2:raw") == repo.git("rev-parse", f"{second.base}^2:raw")


FILTER_PROCESS = """
import os, sys
def read(n):
    data = b""
    while len(data) < n:
        piece = os.read(0, n - len(data))
        if not piece: sys.exit(0)
        data += piece
    return data
def packet():
    size = int(read(4), 16)
    return read(size - 4) if size else None
def until():
    found = []
    while (line := packet()) is not None: found.append(line)
    return found
def send(*lines):
    for line in lines: os.write(1, b"%04x" % (len(line) + 4) + line)
    os.write(1, b"0000")
until(); send(b"git-filter-server\\n", b"version=2\\n")
until(); send(b"capability=clean\\n", b"capability=smudge\\n")
while True:
    command = until()[0].strip()
    data = b"".join(until())
    if command == b"command=clean":
        data = b"" if data.startswith(b"drop") else data[::-1]
    else:
        data = data[::-1]
    send(b"status=success\\n")
    if data: send(data)
    else: os.write(1, b"0000")
    os.write(1, b"0000")
"""
