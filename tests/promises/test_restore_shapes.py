"""Every shape a file can have, clean and with work in progress: restore, undo, redo, undo give each state back whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pytest

from tests.kit import Sandbox
from tests.kit.state import State, actions, assert_same, forget_what_no_ref_holds, snap, sound, state_of
from tests.kit.tiers import deep, full, some
from tests.promises.test_capture_odd import HOSTILE, write_bytes_path

Step = Callable[[Sandbox], None]


def nothing(box: Sandbox) -> None:
    """No step."""


@dataclass(frozen=True)
class Shape:
    """``arrange`` ends in a clean state, ``dirty`` is work in progress at the checkpoint, ``mess`` what comes after it.

    ``theirs``: paths whose files no restore touches. ``modes``: whether git trusts exec bits here.
    """

    arrange: Step
    dirty: Step
    mess: Step
    theirs: tuple[str, ...] = ()
    modes: bool = True

    def is_theirs(self, path: str) -> bool:
        return any(path == t or path.startswith(t + "/") for t in self.theirs)

    def blend(self, then: State, mess: State) -> State:
        """What a restore must give: then, but for what is theirs."""
        mine = {k: v for k, v in then.files.items() if not self.is_theirs(k)}
        kept = {k: v for k, v in mess.files.items() if self.is_theirs(k)}
        return self.without_their_status(replace(then, files={**mine, **kept}))

    def without_their_status(self, state: State) -> State:
        return replace(state, status=tuple(row for row in state.status if not self.is_theirs(path_of_row(row))))


def path_of_row(row: str) -> str:
    """The path of a row of porcelain v2."""
    return row.split(" ", {"1": 8, "u": 10}.get(row[0], 1))[-1]


def check_round_trip(box: Sandbox, shape: Shape, *, dirty: bool) -> None:
    """Restore all of it, then undo, redo, undo; then the default, and undo."""
    shape.arrange(box)
    if dirty:
        shape.dirty(box)
    snap(box)
    then = state_of(box, modes=shape.modes)
    shape.mess(box)
    mess = state_of(box, modes=shape.modes)
    wanted = shape.blend(then, mess)
    codes = (0, 1) if shape.theirs else (0,)

    def now() -> State:
        return state_of(box, modes=shape.modes)

    planned = box.baton("restore", "--exact", "--index", "--dry-run", "--json")
    assert_same(mess, now(), "dry run")
    done = box.baton("restore", "--exact", "--index", "--json")
    assert done.code == planned.code and done.code in codes, f"{done.code}\n{done.out}{done.err}"
    assert_same(wanted, shape.without_their_status(now()), "restored")
    assert done.json["plan"] == planned.json["plan"] and done.json["paths"] == planned.json["paths"]
    forget_what_no_ref_holds(box)
    whole = now()
    for verb, state in (("undo", mess), ("redo", whole), ("undo", mess)):
        step = box.baton(verb)
        assert step.code == 0, f"{verb}: {step.code}\n{step.out}{step.err}"
        assert_same(state, now(), verb)
    done = box.baton("restore", "--json")
    assert done.code in (0, 1), done.err
    check_default(box, shape, then, mess, actions(done))
    if done.json["safety"]:
        box.ok("undo")
    assert_same(mess, now(), "the default undone")
    sound(box)


def check_default(box: Sandbox, shape: Shape, then: State, mess: State, found: Mapping[str, str]) -> None:
    """What the checkpoint knows is back, what it does not know is kept, untouched entries of the index are as they were."""
    now = state_of(box, modes=shape.modes)
    left = {p for p, action in found.items() if action in ("conflict", "refuse")}
    for path, entry in then.files.items():
        if not shape.is_theirs(path) and not related(path, left):
            assert now.files.get(path) == entry, f"{path!r} is not back"
    known = {*then.index, *(box.tree("HEAD") if box.try_git("rev-parse", "-q", "--verify", "HEAD").code == 0 else ())}
    for path, entry in mess.files.items():
        if path not in then.files and not related(path, then.files):
            gone = found.get(path) == "remove" and path in known
            assert now.files.get(path) == (None if gone else entry), f"{path!r} is not kept"
    touched = {p for p, action in found.items() if action in ("write", "create", "remove")}
    for path in {*then.index, *mess.index, *now.index}:
        if path in touched:
            assert now.index.get(path) == then.index.get(path), f"the entry of {path!r} is not back"
        elif not related(path, touched):
            assert now.index.get(path) == mess.index.get(path), f"the entry of {path!r} was touched"
    assert now.refs == mess.refs


def related(path: str, others: Collection[str]) -> bool:
    """Whether a path is one of ``others``, or one of them and it cannot both be files."""
    return any(path == o or path.startswith(o + "/") or o.startswith(path + "/") for o in others)


def attributes(rules: str, **config: str) -> Step:
    def arrange(box: Sandbox) -> None:
        for key, setting in config.items():
            box.git("config", key.replace("__", "."), setting)
        box.write(".gitattributes", rules)
        box.commit("attributes")

    return arrange


def filter_arrange(box: Sandbox) -> None:
    attributes("*.f filter=f\n", filter__f__clean="sed s/secret/clean/", filter__f__smudge="sed s/clean/secret/")(box)
    box.write("in.f", "secret\n")
    box.write("other.f", "secret other\n")
    box.commit("filtered")


def filter_dirty(box: Sandbox) -> None:
    box.write("in.f", "secret two\n")
    box.write("new.f", "secret new\n")
    box.write("staged.f", "secret staged\n")
    box.git("add", "staged.f")


def filter_mess(box: Sandbox) -> None:
    box.write("in.f", "secret spoilt\n")
    box.write("new.f", "secret spoilt, too\n")
    (box.path / "other.f").unlink()
    box.write("stranger.f", "secret stranger\n")
    box.git("add", "in.f")


def crlf_arrange(box: Sandbox) -> None:
    box.git("config", "core.autocrlf", "true")
    box.write("crlf.txt", b"x\r\ny\r\n")
    box.write("bin.dat", b"\0\r\n\n")
    box.write("a.txt", b"one\r\n")
    box.commit("line ends")


def crlf_dirty(box: Sandbox) -> None:
    box.write("mixed.txt", b"x\r\ny\n")
    box.write("lone.txt", b"x\ny\n")
    box.write("crlf.txt", b"x\r\ny\r\nz\n")


def crlf_mess(box: Sandbox) -> None:
    for name in ("mixed.txt", "lone.txt", "crlf.txt", "new.txt"):
        box.write(name, b"spoilt\n\r\nby line ends\r\n")
    (box.path / "a.txt").unlink()
    box.write("bin.dat", b"\0\n\r\n")


def safe_arrange(box: Sandbox) -> None:
    box.git("config", "core.autocrlf", "input")
    box.git("config", "core.safecrlf", "true")
    box.write("lf.txt", "x\ny\n")
    box.commit("line ends")


def safe_dirty(box: Sandbox) -> None:
    box.write("mixed.txt", b"x\r\ny\n")
    box.write("lf.txt", b"x\r\ny\r\n")


def safe_mess(box: Sandbox) -> None:
    box.write("mixed.txt", b"x\ny\r\n")
    box.write("lf.txt", b"z\r\n")
    box.write("a.txt", b"one\r\ntwo\n")
    box.write("new.txt", b"one\r\ntwo\n")


def ident_arrange(box: Sandbox) -> None:
    attributes("*.c ident\n")(box)
    box.write("x.c", "/* $Id$ */\n")
    box.commit("ident")
    (box.path / "x.c").unlink()
    box.git("checkout", "-q", "--", "x.c")


def ident_dirty(box: Sandbox) -> None:
    box.write("x.c", "/* $Id: by hand $ */ two\n")
    box.write("y.c", "/* $Id: 1234567 $ */\n")


def ident_mess(box: Sandbox) -> None:
    box.write("x.c", "/* $Id: spoilt $ */\n")
    box.write("y.c", "no ident\n")
    box.write("z.c", "/* $Id: 7654321 $ */\n")


def encoding_arrange(box: Sandbox) -> None:
    attributes("*.u working-tree-encoding=UTF-16\n*.le working-tree-encoding=UTF-16LE-BOM eol=crlf\n")(box)
    box.write("x.u", "grüß\n".encode("utf-16"))
    box.write("x.le", b"\xff\xfe" + "grüß\r\n".encode("utf-16-le"))
    box.commit("encoded")


def encoding_dirty(box: Sandbox) -> None:
    box.write("x.u", b"\xfe\xff" + "grüß, zwei\n".encode("utf-16-be"))
    box.write("y.u", "neu\n".encode("utf-16"))


def encoding_mess(box: Sandbox) -> None:
    box.write("x.u", "verdorben\n".encode("utf-16"))
    box.write("x.le", b"\xff\xfe" + "verdorben\n".encode("utf-16-le"))
    box.write("z.u", "neu\n".encode("utf-16"))


def mode_arrange(box: Sandbox) -> None:
    box.write("run.sh", "#!/bin/sh\n").chmod(0o755)
    box.write("both.sh", "#!/bin/sh\n")
    box.commit("tools")


def mode_dirty(box: Sandbox) -> None:
    box.write("new.sh", "#!/bin/sh\n").chmod(0o755)
    (box.path / "both.sh").chmod(0o755)


def mode_mess(box: Sandbox) -> None:
    (box.path / "run.sh").chmod(0o644)
    (box.path / "a.txt").chmod(0o755)
    box.write("both.sh", "spoilt\n").chmod(0o700)
    box.git("add", "both.sh")
    (box.path / "both.sh").chmod(0o600)


def mode_off_arrange(box: Sandbox) -> None:
    mode_arrange(box)
    box.git("config", "core.fileMode", "false")


def links_arrange(box: Sandbox) -> None:
    box.write("d/b.txt", "b\n")
    box.write("e/c.txt", "c\n")
    (box.path / "link").symlink_to("a.txt")
    (box.path / "dangling").symlink_to("no/where")
    (box.path / "dir").symlink_to("d")
    box.commit("links")


def links_dirty(box: Sandbox) -> None:
    (box.path / "link").unlink()
    (box.path / "link").symlink_to("d/b.txt")
    (box.path / "new").symlink_to("/etc")
    (box.path / "into").symlink_to("dir/b.txt")


def links_mess(box: Sandbox) -> None:
    for name in ("link", "dangling", "dir"):
        (box.path / name).unlink()
    box.write("link", "a file\n")
    (box.path / "dangling").symlink_to("a.txt")
    box.write("dir/in", "a directory\n")
    shutil.rmtree(box.path / "d")
    (box.path / "d").symlink_to("e")
    (box.path / "stranger").symlink_to("nowhere")
    (box.path / "a.txt").unlink()
    (box.path / "a.txt").symlink_to("stranger")


def swap_arrange(box: Sandbox) -> None:
    box.write("d/b.txt", "b\n")
    box.write("d/deep/c.txt", "c\n")
    box.write("f", "a file\n")
    box.commit("directory and file")


def swap_dirty(box: Sandbox) -> None:
    box.write("d/new.txt", "new\n")
    box.write("g/h/i", "untracked\n")
    box.write("f", "an edited file\n")


def swap_mess(box: Sandbox) -> None:
    shutil.rmtree(box.path / "d")
    box.write("d", "a file now\n")
    (box.path / "f").unlink()
    box.write("f/in/side", "a directory now\n")
    shutil.rmtree(box.path / "g", ignore_errors=True)
    box.write("g", "a file now\n")
    box.git("add", "-A", "d", "f")


def hostile_dirty(box: Sandbox) -> None:
    for name in HOSTILE[::3]:
        write_bytes_path(box, name, b"edited " + name)
        write_bytes_path(box, b"untracked/" + name, name)


def hostile_arrange(box: Sandbox) -> None:
    for name in HOSTILE:
        write_bytes_path(box, name, name)
    box.commit("names")


def hostile_mess(box: Sandbox) -> None:
    for name in HOSTILE[::2]:
        write_bytes_path(box, name, b"spoilt")
        write_bytes_path(box, b"stranger/" + name, name)
    for name in HOSTILE[1::2]:
        os.unlink(os.path.join(os.fsencode(box.path), name))


SHAPES = {
    "filter-driver": Shape(filter_arrange, filter_dirty, filter_mess),
    "autocrlf": Shape(crlf_arrange, crlf_dirty, crlf_mess),
    "safecrlf": Shape(safe_arrange, safe_dirty, safe_mess),
    "ident": Shape(ident_arrange, ident_dirty, ident_mess),
    "working-tree-encoding": Shape(encoding_arrange, encoding_dirty, encoding_mess),
    "chmod": Shape(mode_arrange, mode_dirty, mode_mess),
    "core.fileMode=false": Shape(mode_off_arrange, mode_dirty, mode_mess, modes=False),
    "symlinks": Shape(links_arrange, links_dirty, links_mess),
    "file<->directory": Shape(swap_arrange, swap_dirty, swap_mess),
    "hostile-names": Shape(hostile_arrange, hostile_dirty, hostile_mess),
}


@pytest.mark.parametrize("dirty", [full(False), deep(True)], ids=["clean", "dirty"])
@some("name", SHAPES, share=3)
def test_t24_a_shape_goes_there_and_back(repo: Sandbox, name: str, dirty: bool) -> None:
    check_round_trip(repo, SHAPES[name], dirty=dirty)
