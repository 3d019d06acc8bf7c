"""Every shape a file can have: another track's work in it is merged into a clean work tree, byte for byte as it was there; the
index stays, and undo and redo give each state back whole."""

from __future__ import annotations

from tests.kit import Sandbox
from tests.kit.state import actions, assert_same, differences, forget_what_no_ref_holds, snap, sound, state_of
from tests.kit.tiers import some
from tests.promises.test_restore_shapes import SHAPES, Shape, related


def check_taken_in(box: Sandbox, shape: Shape) -> None:
    shape.arrange(box)
    snap(box, "t", "clean", "--label", "clean")
    shape.dirty(box)
    snap(box, "api", "work")
    there = state_of(box, modes=shape.modes)
    assert box.baton("restore", "clean", "--exact", "--index").code in (0, 1)
    snap(box, "t", "mine")
    box.write("beside.md", "mine\n")
    before = state_of(box, modes=shape.modes)
    done = box.baton("merge", "api", "--json")
    assert done.code in (0, 1) and "Traceback" not in done.err, done.err
    forget_what_no_ref_holds(box)
    after = state_of(box, modes=shape.modes)
    left = {path for path, action in actions(done).items() if action in ("conflict", "refuse", "keep")}
    assert (done.code == 1) == bool(left), done.out
    for path in {*there.files, *after.files} - {"beside.md"}:
        if not shape.is_theirs(path) and not related(path, left):
            # Where git sees no difference, as of line ends alone, there is none to take in.
            ends = [(there if path in actions(done) else before).files.get(path), after.files.get(path)]
            assert ends[0] == ends[1], f"{done.out}{done.err}\n" + differences({path: ends[0]}, {path: ends[1]})
    same = {path for path in there.index if path not in actions(done)}
    assert {path: there.files.get(path) is None for path in same} == {path: after.files.get(path) is None for path in same}
    assert (after.index, after.refs, after.files["beside.md"]) == (before.index, before.refs, before.files["beside.md"])
    if done.json["safety"] is None:
        return
    for verb, state in (("undo", before), ("redo", after), ("undo", before)):
        back = box.baton(verb)
        assert back.code == 0, f"{verb}: {back.out}{back.err}"
        assert_same(state, state_of(box, modes=shape.modes), verb)
    sound(box)


@some("name", SHAPES, 0, share={"autocrlf", "symlinks", "chmod", "hostile-names", "filter-driver", "file<->directory"})
def test_a_shape_of_theirs_is_taken_in(repo: Sandbox, name: str) -> None:
    check_taken_in(repo, SHAPES[name])
    assert (repo.path / "beside.md").read_text() == "mine\n"
