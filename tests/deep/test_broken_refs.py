"""Every way in which one ref of ours can be broken, beside every verb that removes or travels: all others are served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.brokenrefs import DEEP, META, NOT_THERE, ROOMS, SHALLOW, VERBS, length, refs, scene, there
from tests.kit.tiers import full, some

DAMAGES = {**SHALLOW, **DEEP}
CASES = [(room, kind) for room in ROOMS for kind in DAMAGES if (room, kind) not in NOT_THERE]
# What is below a ref is in the way of those verbs only that send it; others have no reason to look.
BOTH = {"push", "sync"}
SENT = {"track": BOTH, "thread": BOTH, "notes": BOTH, "run": {"push"}, "conversation": {"push"}}


# What only one case reaches: a note's object that holds nothing, a tree in which nothing is left, a conversation without bytes.
RARE = {("notes", "object empty"), ("track", "tree empty"), ("conversation", "blob gone")}


def expected(room: str, kind: str, verb: str) -> int:
    """The exit status: 1 where something was left alone."""
    old_notes = (room, kind) == ("notes", "middle commit gone")  # nobody sends what the notes were
    return int(verb == "prune" or kind in SHALLOW or (verb in SENT.get(room, ()) and not old_notes))


def is_unknown(room: str, kind: str) -> bool:
    """Whether nobody can tell on which checkpoints a run stands."""
    return room == "run" and (kind in SHALLOW or kind == "middle commit gone")


def others_are_served(box: Sandbox, room: str, kind: str, verb: str) -> None:
    """What the verb does with all that is not broken was done."""
    if verb == "prune":
        assert length(box, "u") == (4 if is_unknown(room, kind) else 1)
        return
    far = there(box)
    if verb in ("push", "sync"):
        names = ["refs/baton/tracks/u", "refs/baton/threads/=other/_", *(["refs/baton/runs/other"] if verb == "push" else [])]
        names += [name for which, name in ROOMS.items() if which in ("track", "thread") and which != room]
        assert {name: far.get(name) for name in names} == {name: box.git("rev-parse", name) for name in names}
    if verb in ("fetch", "sync"):
        assert box.git("rev-parse", "refs/baton/remotes/far/tracks/w") == far["refs/baton/tracks/w"]
    if verb == "sync":
        assert box.git("rev-parse", "refs/baton/tracks/w") == far["refs/baton/tracks/w"]


@pytest.mark.parametrize(
    ("room", "kind"),
    [case if n % 30 == 0 or case in RARE else full(pytest.param(*case)) for n, case in enumerate(CASES)],
    ids=lambda text: str(text).replace(" ", "-"),
)
def test_a_broken_ref_stops_nothing_but_itself(room: str, kind: str, tmp_path: Path) -> None:
    for verb, words in VERBS.items():
        box = scene(tmp_path / verb)
        DAMAGES[kind](box, room)
        raw = refs(box).get(ROOMS[room])
        done = box.baton(*words)
        assert (verb, done.code) == (verb, expected(room, kind, verb)), f"{done.out}\n{done.err}"
        assert "Traceback" not in done.err
        assert room == "tip" or refs(box).get(ROOMS[room]) == raw  # a tip is made anew where LATEST is
        if done.code:
            named = done.err.count(f"'{ROOMS[room]}' is left alone: ") + done.err.count(" is broken here: ")
            assert named == 1 and done.err.count("hint: git baton doctor --mend") == 1, done.err
        others_are_served(box, room, kind, verb)
    box = scene(tmp_path / "doctor")
    DAMAGES[kind](box, room)
    seen = box.baton("doctor")
    lines = seen.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("MEND refs: ") and f"'{ROOMS[room]}'" in line)
    assert seen.code == 1 and lines[at + 1].strip() == "git baton doctor --mend"


@some("kind", [*SHALLOW, "tree gone", "tree empty", "pins gone"], share={"symbolic to nothing", "tree gone", "pins gone"})
def test_with_meta_unreadable_nothing_is_removed_joined_or_pushed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROOMS, "meta", META)
    box = scene(tmp_path / "scene")
    if kind == "pins gone":
        box.loose(box.git("rev-parse", f"{META}:pins")).unlink()
    else:
        DAMAGES[kind](box, "meta")
    before, far = refs(box), there(box)
    verbs = (
        VERBS["prune"],
        VERBS["push"],
        VERBS["sync"],
        ("forget", "u~1", "--yes"),
        ("forget", "--everywhere", "u~1", "--yes"),
    )
    for words in (*verbs, ("tracks", "delete", "u", "--yes"), ("pin", "u")):
        done = box.baton(*words)
        assert done.code == 128 and done.err.count("fatal: ") == 1 and f"'{META}'" in done.err, (words, done.err)
        assert done.err.endswith("hint: git baton doctor --mend\n")
        assert (refs(box), there(box)) == (before, far)
    box.baton("doctor", "--mend")
    assert box.baton(*VERBS["prune"]).code == 0 and length(box, "u") == 1


@pytest.mark.parametrize(
    ("room", "kind"),
    [case if n % 14 == 0 or case in RARE else full(pytest.param(*case)) for n, case in enumerate(CASES)],
    ids=lambda text: str(text).replace(" ", "-"),
)
def test_forgetting_beside_a_broken_ref_claims_no_proof(room: str, kind: str, tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    DAMAGES[kind](box, room)
    oid = box.ok("show", "u~1", "--json").json["checkpoint"]["id"]
    done = box.baton("forget", "--everywhere", "--force", "u~1", "--yes")
    assert done.code == 1 and "reaches their record" not in done.out, done.out
    assert f"not looked at: '{ROOMS[room]}' cannot be read: " in done.out and length(box, "u") == 3
    assert "error: nothing is proven" in done.err and "hint: git baton doctor --mend" in done.err
    left = "left as it is" in box.baton("doctor", "--mend").out  # a run of which nobody knows what it began
    again = box.baton("forget", "--everywhere", "--force", oid, "--yes")
    assert ("not looked at" in again.out) == left, again.out


@pytest.mark.parametrize("kind", ["empty", "middle commit gone", "object half"])
@pytest.mark.parametrize("room", ["track", "safety", "run", "fetched"])
def test_what_git_still_has_of_a_broken_chain_outlives_a_prune_and_a_collection(room: str, kind: str, tmp_path: Path) -> None:
    box = scene(tmp_path / "scene")
    objects = set(box.git("rev-list", "--objects", "--no-object-names", ROOMS[room]).split())
    DAMAGES[kind](box, room)
    whole = {oid for oid in objects if box.try_git("cat-file", "-p", oid).code == 0}
    assert box.baton(*VERBS["prune"]).code == 1
    assert box.try_git("gc", "--quiet", "--prune=now").code != 0  # git collects nothing beside a broken ref
    assert box.try_git("prune", "--expire=now").code != 0
    assert whole <= {oid for oid in objects if box.try_git("cat-file", "-p", oid).code == 0}


def test_threads_are_pruned_beside_a_broken_one(tmp_path: Path) -> None:
    for kind in (*SHALLOW, "middle commit gone", "tree gone", "tree empty"):  # values are not read for it
        box = scene(tmp_path / kind.replace(" ", "-"))
        DAMAGES[kind](box, "thread")
        raw = refs(box).get(ROOMS["thread"])
        done = box.baton("prune", "--threads", "--yes")
        assert done.code == 1 and f"'{ROOMS['thread']}' is left alone: " in done.err, (kind, done.err)
        assert "thread 'other': 2 checkpoints removed, 1 kept" in done.out and refs(box).get(ROOMS["thread"]) == raw


@pytest.mark.parametrize("shape", ["sha1", "sha256", "linked"])
def test_what_is_fetched_beside_a_broken_ref_comes_by_all_settings(shape: str, tmp_path: Path) -> None:
    options = ["--object-format=sha256"] if shape == "sha256" else []
    far, box = Sandbox.init(tmp_path / "far.git", "--bare", *options), Sandbox.init(tmp_path / "box", *options)
    box.commit("first", a_txt="one\n")
    box.git("remote", "add", 'odd"name', "short:far.git")
    box.git("config", f"url.{tmp_path}/.insteadOf", "short:")
    box.git("config", "--add", "credential.helper", '!f() { echo "a\\b"; }; f')
    box.git("config", "--add", "credential.helper", "")
    for track in ("t", "w"):
        box.ok("snapshot", "--track", track, "--step", track, "--no-set-current")
    box.ok("push", 'odd"name', "--yes")
    tip = box.git("rev-parse", "refs/baton/tracks/w")
    for ref in box.git("for-each-ref", "--format=%(refname)", "refs/baton/remotes", "refs/baton/tracks/w").split():
        box.git("update-ref", "-d", ref)
    here = box
    if shape == "linked":
        box.git("worktree", "add", "-q", "-b", "side", "../side")
        here = Sandbox(tmp_path / "side")
    (box.path / ".git/refs/baton/tracks/t").write_bytes(b"")
    before = (box.path / ".git/config").read_bytes()
    done = here.baton("fetch", 'odd"name')
    assert done.code == 1 and "'refs/baton/tracks/t' is left alone: it holds no id" in done.err, done.err
    fetched = box.git("for-each-ref", "--format=%(objectname) %(refname)", "refs/baton/remotes")
    assert f"{tip} refs/baton/remotes/odd%22name/tracks/w" in fetched.splitlines()
    assert (box.path / ".git/config").read_bytes() == before and far.git("for-each-ref").count("\n") >= 2
