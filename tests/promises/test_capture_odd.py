"""Capture where git itself stumbles: filters, line ends, encodings, names, special files, and files nobody may read."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.kit import Sandbox
from tests.kit.capturekit import CHAIN, Expect, check, expected_tree, skipped, snap, submodule, without_privilege
from tests.kit.tiers import some

HOSTILE = [
    b"new\nline",
    b"tab\tin",
    b'quote"d',
    b"-rf",
    b"--output=x",
    b":leading",
    b":(top)x",
    b":!not",
    b"*.txt",
    b"[ab]",
    b"what?",
    b"back\\slash",
    b"not-utf8-\xff\xfe",
    b"nfd-e\xcc\x81",
    b"nfc-\xc3\xa9",
    b"l" * 200,
    b"trailing space ",
    b" leading space",
    b"#hash",
    b"!bang",
    b"esc\x1b[31m",
    b"\xc2\x9b8-bit",
    b"a" + b"/b" * 60,
]


def write_bytes_path(box: Sandbox, name: bytes, data: bytes) -> None:
    path = os.path.join(os.fsencode(box.path), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def filtered(box: Sandbox, clean: str = "sed s/secret/clean/", **settings: str) -> None:
    """A filter ``f`` for ``*.f``, with a file of it that is committed cleaned."""
    box.write(".gitattributes", "*.f filter=f\n")
    box.git("config", "filter.f.clean", "sed s/secret/clean/")
    box.write("in.f", "secret\n")
    box.commit("filtered")
    box.git("config", "filter.f.clean", clean)
    for key, setting in settings.items():
        box.git("config", f"filter.f.{key}", setting)


def filter_driver(box: Sandbox) -> Expect:
    filtered(box)
    box.write("in.f", "secret two\n")
    box.write("new.f", "secret new\n")
    return Expect()


def filter_not_required_fails(box: Sandbox) -> Expect:
    filtered(box, "no-such-program")
    box.write("in.f", "secret two\n")
    return Expect(skipped=dict.fromkeys(["in.f", "gone.f"], "unfiltered"))


OFF = ["filter.f.required=false", "filter.f.clean="]


def required_filter_missing(box: Sandbox) -> Expect:
    filtered(box, "no-such-program", required="true")
    box.write("in.f", "secret two\n")
    box.write("new.f", "secret new\n")
    box.write("gone.f", "x")
    box.write("a.txt", "beside\n")
    return Expect(skipped=dict.fromkeys(["in.f", "new.f", "gone.f"], "unfiltered"), config=OFF)


def required_filter_missing_for_many(box: Sandbox) -> Expect:
    filtered(box, "no-such-program", required="true")
    for number in range(20):
        box.write(f"{number}.f", f"secret {number}\n")
    (box.path / "in.f").unlink()
    return Expect(skipped={f"{number}.f": "unfiltered" for number in range(20)}, config=OFF)


def required_process_filter_missing(box: Sandbox) -> Expect:
    filtered(box, required="true")
    box.git("config", "filter.f.process", "no-such-program")
    box.write("in.f", "secret two\n")
    return Expect(skipped={"in.f": "unfiltered"}, config=[*OFF, "filter.f.process="])


def required_filter_missing_beside_a_nested_repository(box: Sandbox) -> Expect:
    required_filter_missing(box)
    Sandbox.init(box.path / "nest")
    found = {**dict.fromkeys(["in.f", "new.f", "gone.f"], "unfiltered"), "nest": "nested-repository"}
    return Expect(skipped=found, config=OFF, code=1)


def autocrlf(box: Sandbox) -> Expect:
    box.git("config", "core.autocrlf", "true")
    box.write("a.txt", b"one\r\ntwo\r\n")
    box.write("crlf.txt", b"x\r\ny\r\n")
    box.write("mixed.txt", b"x\r\ny\n")
    return Expect()


def safecrlf(box: Sandbox) -> Expect:
    box.git("config", "core.autocrlf", "input")
    box.git("config", "core.safecrlf", "true")
    box.write("mixed.txt", b"x\r\ny\n")
    box.write("a.txt", b"one\r\ntwo\n")
    return Expect(config=["core.safecrlf=false"])


def line_ends_by_attribute(box: Sandbox) -> Expect:
    box.write(".gitattributes", "*.txt text eol=crlf\n*.bin -text\n")
    box.write("a.txt", b"one\r\ntwo\r\n")
    box.write("b.bin", b"one\r\n\0")
    return Expect()


def ident(box: Sandbox) -> Expect:
    box.write(".gitattributes", "*.c ident\n")
    box.write("x.c", "/* $Id: 1234567 $ */\n")
    return Expect()


def encoding(box: Sandbox) -> Expect:
    box.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n")
    box.write("x.u", "grüß\n".encode("utf-16"))
    return Expect()


def fifo_and_socket(box: Sandbox) -> Expect:
    os.mkfifo(box.path / "fifo")
    box.write(".gitignore", "*.ignored\n")
    os.mkfifo(box.path / "fifo.ignored")
    box.write("d/x", "x\n")
    os.chdir(box.path)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("d/socket")
    return Expect(skipped={"fifo": "special-file", "d/socket": "special-file"})


def fifo_at_a_tracked_path(box: Sandbox) -> Expect:
    box.write("keep.txt", "k\n")
    box.commit("keep")
    (box.path / "a.txt").unlink()
    os.mkfifo(box.path / "a.txt")
    box.write("keep.txt", "edited\n")
    return Expect(skipped={"a.txt": "special-file"}, keep=["a.txt"], code=1)


def nested_repository_without_commits(box: Sandbox) -> Expect:
    nest = Sandbox.init(box.path / "nest")
    nest.write("inside", "not seen\n")
    box.write("a.txt", "two\n")
    return Expect(skipped={"nest": "nested-repository"}, code=1)


def names_that_git_refuses(box: Sandbox) -> Expect:
    box.write(".GIT/x", "x\n")
    box.write("git~1", "x\n")
    box.write("a.txt", "two\n")
    return Expect(skipped={".GIT/x": "invalid-name", "git~1": "invalid-name"}, code=1)


SCENARIOS: list[Callable[[Sandbox], Expect]] = [
    filter_driver,
    filter_not_required_fails,
    required_filter_missing,
    required_filter_missing_for_many,
    required_process_filter_missing,
    required_filter_missing_beside_a_nested_repository,
    autocrlf,
    safecrlf,
    line_ends_by_attribute,
    ident,
    encoding,
    fifo_and_socket,
    fifo_at_a_tracked_path,
    nested_repository_without_commits,
    names_that_git_refuses,
]


@pytest.mark.full
@some("arrange", SCENARIOS, 3, ids=lambda f: f.__name__)
def test_t24_what_git_can_take_in_is_taken_in(repo: Sandbox, arrange: Callable[[Sandbox], Expect]) -> None:
    check(repo, arrange(repo))
    repo.fsck()


@pytest.mark.deep
def test_t24_with_a_newer_git_too(repo: Sandbox, new_git: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(new_git) + os.pathsep + os.environ["PATH"])
    for number, arrange in enumerate((required_filter_missing, names_that_git_refuses, fifo_at_a_tracked_path, safecrlf)):
        box = Sandbox.init(repo.path.parent / f"new-{number}")
        box.commit("first", a_txt="one\n")
        check(box, arrange(box))


@pytest.mark.deep
def test_t24_a_required_filter_that_fails_on_one_file_still_cleans_the_others(repo: Sandbox) -> None:
    filtered(repo, "if grep -q bad; then exit 1; else echo cleaned; fi", required="true")
    for name in ("good.f", "more.f"):
        repo.write(name, "secret\n")
    repo.write("bad.f", "bad\n")
    stored = snap(repo)
    assert skipped(stored) == {"bad.f": "unfiltered"}
    shown = {name: repo.git("show", f"{CHAIN}:{name}") for name in ("good.f", "more.f")}
    assert shown == {"good.f": "cleaned", "more.f": "cleaned"}


@pytest.mark.deep
def test_t24_a_required_filter_is_missing_for_a_racily_clean_file_only(repo: Sandbox) -> None:
    for number in range(4):
        box = Sandbox.init(repo.path.parent / f"racy-{number}")
        box.write(".gitattributes", "*.f filter=f\n")
        box.git("config", "filter.f.clean", "sed s/secret/clean!/")
        box.write("in.f", "secret\n")
        box.commit("filtered")
        box.git("config", "filter.f.clean", "no-such-program")
        box.git("config", "filter.f.required", "true")
        stored = snap(box)
        assert box.tree(stored.commit) == box.tree("HEAD")
        assert set(skipped(stored).items()) <= {("in.f", "unfiltered")}


@pytest.mark.deep
def test_t24_a_filter_whose_name_holds_an_equals_sign(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.f filter=a=b.c\n")
    with (repo.path / ".git/config").open("a") as file:
        file.write('[filter "a=b.c"]\n\tclean = no-such-program\n\trequired = true\n')
    for number in range(6):
        repo.write(f"{number}.f", f"secret {number}\n")
    stored = snap(repo)
    assert skipped(stored) == {f"{number}.f": "unfiltered" for number in range(6)}
    assert repo.git("show", f"{CHAIN}:5.f").startswith("gitbaton held 1\n")


@pytest.mark.deep
def test_t24_a_text_that_no_encoding_fits_does_not_keep_the_rest_out(repo: Sandbox) -> None:
    repo.write(".gitattributes", "*.u working-tree-encoding=UTF-16\n")
    repo.write("good.u", "grüß\n".encode("utf-16"))
    repo.commit("encoded")
    repo.write("good.u", b"no mark")
    repo.write("new.u", b"no mark")
    for number in range(10):
        repo.write(f"beside/{number}", "x\n")
    stored = snap(repo)
    assert skipped(stored) == {"good.u": "unreadable", "new.u": "unreadable"}
    assert repo.git("show", f"{CHAIN}:good.u") == "grüß"
    (repo.path / "good.u").write_bytes("grüß\n".encode("utf-16"))
    (repo.path / "new.u").unlink()
    assert stored.tree == expected_tree(repo)


@pytest.mark.deep
def test_t23_a_pipe_in_a_submodule_that_is_in_conflict_is_listed(repo: Sandbox) -> None:
    rows = "".join(f"160000 {str(stage) * 40} {stage}\tsub\n" for stage in (1, 2, 3))
    repo.git("update-index", "--index-info", stdin=rows.encode())
    (repo.path / "sub").mkdir()
    os.mkfifo(repo.path / "sub/fifo")
    assert skipped(snap(repo))["sub/fifo"] == "special-file"


@pytest.mark.deep
@pytest.mark.parametrize("gone", ["repository", "commit"])
def test_t23_a_broken_submodule_does_not_keep_the_rest_out(repo: Sandbox, gone: str) -> None:
    sub = submodule(repo, "sub")
    repo.write("a.txt", "two\n")
    repo.write("new", "x\n")
    if gone == "repository":
        (sub.path / ".git").write_text("gitdir: /nowhere\n")
    else:
        (repo.path / ".git/modules/sub/HEAD").write_text("1" * 40 + "\n")
    before = repo.tree("HEAD")["sub"]
    stored = snap(repo)
    found = repo.tree(stored.commit)
    assert repo.git("show", f"{CHAIN}:a.txt") == "two" and "new" in found
    assert "sub" in skipped(stored)
    assert found["sub"] == before or gone == "commit"


@pytest.mark.deep
def test_t24_hostile_names(repo: Sandbox) -> None:
    for name in HOSTILE:
        write_bytes_path(repo, name, name)
    check(repo)
    repo.git("add", "-A")
    repo.git("commit", "-qm", "names")
    for name in HOSTILE[::2]:
        write_bytes_path(repo, name, b"edited " + name)
    for name in HOSTILE[1::2]:
        os.unlink(os.path.join(os.fsencode(repo.path), name))
    stored = check(repo)
    assert stored.checkpoint.files is not None and stored.checkpoint.files.changed == len(HOSTILE)


def test_t24_hostile_names_that_are_left_out(repo: Sandbox) -> None:
    repo.git("config", "baton.exclude", "*")
    for name in HOSTILE:
        write_bytes_path(repo, name, name)
    stored = snap(repo)
    assert set(skipped(stored)) == {os.fsdecode(name) for name in HOSTILE}
    assert set(skipped(stored).values()) == {"excluded"}
    assert repo.tree(stored.commit) == repo.tree("HEAD")


@pytest.mark.deep
def test_t24_hostile_names_through_a_required_filter_that_is_missing(repo: Sandbox) -> None:
    repo.write(".gitattributes", "* filter=f\n")
    repo.git("config", "filter.f.clean", "no-such-program")
    repo.git("config", "filter.f.required", "true")
    for name in HOSTILE:
        write_bytes_path(repo, name, name)
    stored = check(
        repo, Expect(config=OFF, skipped=dict.fromkeys(map(os.fsdecode, [*HOSTILE, b".gitattributes"]), "unfiltered"))
    )
    assert len(repo.tree(stored.commit)) == len(HOSTILE) + 2


@pytest.mark.deep
def test_t08_files_that_may_not_be_read_are_listed(repo: Sandbox) -> None:
    lesser = without_privilege(sys.executable, "-m", "gitbaton", "snapshot", "--track", "t", "--step", "s", "--json")
    if lesser is None:
        pytest.skip("root reads everything here, and setpriv is missing")
    repo.write("shut/tracked", "t\n")
    repo.write("blind/tracked", "t\n")
    for name in ("one", "two", "three"):  # of more than half, nothing would be recorded
        repo.write(name, "open\n")
    repo.commit("directories")
    repo.write("a.txt", "two\n").chmod(0)
    repo.write("new", "x\n").chmod(0)
    repo.write("fine", "x\n")
    repo.write("shut/new", "n\n")
    repo.write("shut/tracked", "edited\n")
    repo.write("blind/new", "n\n")
    (repo.path / "shut").chmod(0)
    (repo.path / "blind").chmod(0o400)
    try:
        done = repo.run(*lesser)
    finally:
        (repo.path / "shut").chmod(0o755)
        (repo.path / "blind").chmod(0o755)
    assert done.code == 0, done.err
    tree = repo.tree(CHAIN)
    assert "fine" in tree and tree["a.txt"] == repo.tree("HEAD")["a.txt"] and "shut/tracked" in tree
    files = json.loads(repo.git("cat-file", "-p", "refs/checkpoints/t"))["files"]
    found = {s["path"]: s["reason"] for s in files["skipped"]}
    assert set(found.values()) == {"unreadable"}
    assert {"a.txt", "new", "shut", "blind/new", "blind/tracked"} <= set(found)


def test_t12_a_lock_held_by_somebody_else_is_no_hindrance(repo: Sandbox) -> None:
    lock = repo.path / ".git/index.lock"
    lock.write_bytes(b"somebody's")
    repo.write("a.txt", "two\n")
    repo.write("new", "x\n")
    check(repo)
    assert lock.read_bytes() == b"somebody's"


def test_t12_a_stat_stale_index_is_not_refreshed(repo: Sandbox) -> None:
    os.utime(repo.path / "a.txt", (1, 1))
    stored = check(repo)
    assert stored.tree == repo.git("rev-parse", "HEAD^{tree}")


def test_t12_a_capture_asks_no_file_system_monitor(repo: Sandbox) -> None:
    log = repo.path.parent / "asked"
    hook = repo.path.parent / "monitor"
    hook.write_text(f"#!/bin/sh\ntr '\\0' ' ' < /proc/$PPID/cmdline >> '{log}'\nprintf 'token\\0'\n")
    hook.chmod(0o755)
    repo.git("config", "core.fsmonitor", "../monitor")  # a shell between git and it would be its parent
    repo.git("update-index", "--fsmonitor")
    repo.git("status")
    assert "status" in log.read_text()
    log.write_text("")
    repo.write("a.txt", "the monitor hides it\n")
    stored = snap(repo)
    assert repo.git("show", f"{stored.commit}:a.txt") == "the monitor hides it"
    assert not {"add", "diff-files", "ls-files", "write-tree", "update-index"}.intersection(log.read_text().split())


@pytest.mark.full
@some("bit", ["--assume-unchanged", "--skip-worktree"])
def test_t24_more_flags_than_the_json_holds(repo: Sandbox, bit: str) -> None:
    repo.git("config", "maintenance.auto", "false")  # a newer git would repack in the background while fsck reads
    names = [f"many/{number:04d}" for number in range(1200)]
    for name in names:
        repo.write(name, name)
    repo.commit("many")
    repo.git("update-index", bit, "--stdin", stdin="\n".join(names).encode())
    repo.write(names[700], "hidden edit\n")
    stored = snap(repo)
    letter = bit[2].encode()
    files = stored.checkpoint.files
    assert files is not None and len(files.index.flags) == 1000 and files.index.flags_more == 200
    document = json.loads(repo.git("cat-file", "-p", "refs/checkpoints/t"))
    assert len(document["files"]["index"]["flags"]) == 1000 and document["files"]["index"]["flags_more"] == 200
    blob = repo.run("git", "cat-file", "blob", f"{stored.commit}^2^2:flags").out.encode()
    assert blob == b"".join(letter + b"\t" + name.encode() + b"\0" for name in names)
    assert repo.git("show", f"{CHAIN}:{names[700]}") == "hidden edit"
    repo.fsck()


@pytest.mark.deep
def test_a_file_below_more_folders_than_python_calls_deep_is_taken_in_and_comes_back(repo: Sandbox) -> None:
    name, here = "d/" * 1_100 + "f", os.getcwd()
    for text in ("one\n", "two\n"):
        os.chdir(repo.path)
        for _ in range(1_100):
            os.makedirs("d", exist_ok=True)
            os.chdir("d")
        with open("f", "w", encoding="ascii") as file:
            file.write(text)
        os.chdir(here)
        repo.ok("snapshot", "--track", "t", text)
    taken = repo.ok("diff", "t~1", "t", "--name-only").out
    done = repo.baton("restore", "t~1", "--exact")
    left = repo.run("cat", name).out
    subprocess.run(["rm", "-rf", "d"], cwd=repo.path, check=True)  # pytest's own way of removing it is not that deep
    assert "this is a bug" not in done.err
    many = resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 4_000  # git and we hold each folder open on the way down
    assert not many or (taken, done.code, left) == (f"{name}\n", 0, "one\n")
