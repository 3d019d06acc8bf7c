"""Every shape a file can have: a turn that spoils it is taken back, files and what it staged, and undo and redo give each state
back whole."""

from __future__ import annotations

from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.state import assert_same, differences, forget_what_no_ref_holds, snap, sound, state_of
from tests.kit.tiers import some
from tests.promises.test_restore_shapes import SHAPES as FILES
from tests.promises.test_restore_shapes import Shape
from tests.promises.test_restore_shapes_index import SHAPES as INDEXES

SHAPES = {**FILES, **INDEXES}
# Of a file that git found unchanged no checkpoint has the exact bytes: that only these changed is not known.
BYTES = ("ident", False)
SHARE = [(name, True) for name in ("symlinks", "chmod", "hostile-names", "sparse-checkout", "submodule", "unmerged")]
PARAMS = [(name, dirty) for name in SHAPES for dirty in (True, False) if (name, dirty) != BYTES]


def check_taken_back(box: Sandbox, shape: Shape, *, dirty: bool) -> None:
    """Take back the turn that made the mess, whatever the user did beside it; then undo, redo, undo."""
    shape.arrange(box)
    if dirty:
        shape.dirty(box)
    snap(box)
    client = Client("claude", box.path)
    client.fire("prompt", prompt="go")
    then = state_of(box, modes=shape.modes)
    shape.mess(box)
    client.fire("turn")
    box.write("beside.md", "mine\n")
    mess = state_of(box, modes=shape.modes)
    beside = {"beside.md": mess.files["beside.md"]}
    done = box.baton("revert")
    assert done.code in (0, 1) and "Traceback" not in done.err, done.err
    forget_what_no_ref_holds(box)
    after = state_of(box, modes=shape.modes)
    wanted = {**shape.blend(then, mess).files, **beside}
    assert after.files == wanted, f"{done.out}{done.err}\n" + differences(wanted, after.files)
    touched = {path for path in {*mess.files, *after.files} if mess.files.get(path) != after.files.get(path)}
    rows = [{path: [row[2:] for row in index.get(path, ())] for path in touched} for index in (then.index, after.index)]
    unmerged = any(row.startswith("u ") for row in then.status)  # what was resolved stays so
    assert rows[0] == rows[1] or unmerged, differences(*rows)
    assert after.refs == mess.refs
    for verb, state in (("undo", mess), ("redo", after), ("undo", mess)):
        back = box.ok(verb)
        assert_same(state, state_of(box, modes=shape.modes), f"{verb}: {back.out}{back.err}")
    sound(box)


@some("name, dirty", PARAMS, 1, share=SHARE)
def test_a_turn_that_spoils_a_shape_is_taken_back(repo: Sandbox, name: str, dirty: bool) -> None:
    check_taken_back(repo, SHAPES[name], dirty=dirty)
    assert (repo.path / "beside.md").read_text() == "mine\n"
