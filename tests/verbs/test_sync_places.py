"""A remote that is read at one place and written at another, refs that a server hides, and git's own reasons for refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.git.bounded import failure
from gitbaton.git.remotes import find
from tests.kit import Sandbox
from tests.kit.far import CHAINS, NOTES, Far, lines_of, ok, snap, steps
from tests.kit.servers import hook as put_hook


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


@pytest.fixture
def apart(far: Far) -> Far:
    """``origin`` is read at a mirror, ``ro.git``, and written at ``far.git``."""
    far.first.git("clone", "-q", "--mirror", str(far.remote.path), str(far.place / "ro.git"))
    far.first.git("remote", "set-url", "origin", str(far.place / "ro.git"))
    far.first.git("config", f"url.{far.place}/far.pushInsteadOf", f"{far.place}/ro")
    return far


def mirrored(far: Far) -> None:
    """Bring the mirror up to what it mirrors."""
    far.remote.git("push", "-q", str(far.place / "ro.git"), "+refs/*:refs/*")


def test_a_mirror_that_is_behind_is_no_other_who_pushed(apart: Far) -> None:
    for number, word in enumerate(("origin", str(apart.place / "ro.git"), "origin")):
        snap(apart.first, f"step {number}")
        ok(apart.first, "push", word, "--yes")
        if number == 0:
            mirrored(apart)
    assert steps(apart.there()) == ["step 0", "step 1", "step 2"]
    snap(apart.first, "step 3")
    ok(apart.first, "sync", "origin", "--yes")
    assert steps(apart.there())[-1] == "step 3"


@pytest.mark.deep
def test_what_only_the_place_that_is_written_has_is_said_and_can_be_joined(apart: Far) -> None:
    other = apart.clone()
    other.git("remote", "set-url", "origin", str(apart.remote.path))
    snap(other, "theirs")
    ok(other, "push", "origin", "--yes")
    snap(apart.first, "ours")
    assert apart.first.here("push", "origin", "--yes").code == 1
    done = apart.first.here("sync", "origin", "--yes")
    joins = f"git baton sync {apart.remote.path}"
    assert done.code == 1 and f"; '{joins}' joins them" in done.err and "faster" not in done.err
    ok(apart.first, *joins.split()[2:], "--yes")
    assert steps(apart.there()) == ["theirs", "ours"]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({}, "origin"),
        ({"url.ssh://git@x/.pushInsteadOf": "https://x/"}, "origin"),
        ({"url.ssh://git@x/.pushInsteadOf": "https://x/", "url.https://x/.insteadOf": "ssh://git@x/"}, "origin"),
        ({"url.a:.insteadOf": "https://x/", "url.b:.insteadOf": "https://x/y", "url.c:.pushInsteadOf": "https://z/"}, "origin"),
        (
            {"remote.origin.pushurl": "short:p", "url.https://w/.insteadOf": "short:", "url.no:.pushInsteadOf": "short:"},
            "origin",
        ),
        ({"remote.origin.url": "https://second/", "url.ssh://s/.pushInsteadOf": "https://second/"}, "origin"),
        ({"url.https://x/.insteadOf": "gh:", "url.ssh://git@x/.pushInsteadOf": "gh:"}, "gh:y"),
        ({"url.a=b:.pushInsteadOf": "https://x/"}, "https://x/q"),
    ],
)
def test_the_places_that_are_written_are_those_of_git(repo: Sandbox, settings: dict[str, str], word: str) -> None:
    repo.git("remote", "add", "origin", "https://x/y.git")
    for key, text in settings.items():
        repo.git("config", "--add", key, text)
    with repo.open() as baton:
        remote = find(baton.repo, word, str(repo.path), pushing=True)
    if word != "origin":
        repo.git("remote", "add", "asked", word)
    name = "origin" if word == "origin" else "asked"
    pushed = repo.git("remote", "get-url", "--push", "--all", name).splitlines()
    same = pushed == [repo.git("remote", "get-url", name)]
    assert remote.push == ((word,) if same else tuple(pushed)) and remote.exact == (frozenset() if same else {*pushed})


@pytest.mark.deep
def test_a_place_with_more_rules_than_one_is_read_where_it_is_written(apart: Far) -> None:
    # What is written would be read elsewhere by a rule of its own.
    apart.first.git("config", f"url.{apart.place}/ro.insteadOf", f"{apart.place}/far")
    for number in range(2):
        snap(apart.first, f"step {number}")
        ok(apart.first, "push", "origin", "--yes")
    assert steps(apart.there()) == ["step 0", "step 1"]
    apart.first.git("config", "--add", "remote.origin.pushurl", str(apart.place / "two.git"))
    apart.first.git("config", "--add", "remote.origin.pushurl", str(apart.place / "three.git"))
    for name in ("two", "three"):
        apart.first.git("init", "-q", "--bare", str(apart.place / f"{name}.git"))
        apart.first.git("config", "--add", f"url.{apart.place}/ro.insteadOf", f"{apart.place}/{name}x")
    ok(apart.first, "push", "origin", "--yes")
    for name in ("two", "three"):
        assert Sandbox(apart.place / f"{name}.git").git("rev-parse", CHAINS + "t") == apart.remote.git(
            "rev-parse", CHAINS + "t"
        )


@pytest.mark.deep
def test_a_ref_that_the_server_hides(far: Far) -> None:
    snap(far.first, "one")
    ok(far.first, "push", "--yes")
    far.remote.git("config", "uploadpack.hideRefs", "refs/baton")
    snap(far.first, "two")
    for verb in ("push", "sync"):
        done = far.first.here(verb, "--yes")
        said = f"'origin' does not move '{CHAINS}t', which nobody else moved: stale info"
        assert done.code == 1 and said in done.err and "or the server hides the ref (transfer.hideRefs)" in done.err
        assert "pushed to" not in done.err and "faster" not in done.err


@pytest.mark.deep
def test_a_lock_that_stays_on_the_server(far: Far) -> None:
    snap(far.first, "one")
    ok(far.first, "push", "--yes")
    (far.remote.path / f"{CHAINS}t.lock").touch()
    snap(far.first, "two")
    done = far.first.here("push", "--yes")
    assert done.code == 1 and "which nobody else moved" in done.err and "t.lock': File exists" in done.err
    assert "Please make sure all processes are terminated" in done.err and "remove the file manually to continue" in done.err


HOOKS = {
    "pre-receive": ("echo; echo ====; echo 'no quota left:'; echo '12 of 10 MB'", "no quota left: 12 of 10 MB"),
    "update": (f"test \"$1\" = {NOTES} || exit 0; echo 'notes are protected' >&2", "notes are protected"),
}


@pytest.mark.deep
@pytest.mark.parametrize("hook", HOOKS)
def test_all_that_a_hook_says(far: Far, hook: str) -> None:
    script, words = HOOKS[hook]
    put_hook(far.remote.path, hook, f"{script}; exit 1")
    snap(far.first, "one")
    done = far.first.here("push", "--yes")
    assert done.code == 1 and f"fatal: a hook of 'origin' refuses our refs: {words}" in lines_of(done)
    assert "somebody else" not in done.err and "cannot be reached" not in done.err


@pytest.mark.deep
def test_what_the_server_refuses_by_its_settings(far: Far) -> None:
    snap(far.first, "one")
    far.remote.git("config", "receive.hideRefs", "refs/baton")
    done = far.first.here("push", "--yes")
    assert done.code == 1 and f"'origin' refuses '{CHAINS}t': deny updating a hidden ref" in done.err
    far.remote.git("config", "--unset", "receive.hideRefs")
    far.first.git("config", "push.pushOption", "ci.skip")
    done = far.first.here("push", "--yes")
    assert lines_of(done)[-1].endswith("failed: the receiving end does not support push options")


@pytest.mark.parametrize(
    ("said", "told", "kind"),
    [
        ("fatal: the remote end hung up unexpectedly\nfatal: no push options here", "failed: no push options here", "other"),
        ("fatal: the remote end hung up unexpectedly", "cannot be reached: the remote end hung up unexpectedly", "offline"),
        (
            "** a banner **\nfatal: the remote end hung up unexpectedly",
            "reached: the remote end hung up unexpectedly",
            "offline",
        ),
        (
            "fetch-pack: unexpected disconnect while reading sideband packet\nfatal: early EOF\n"
            "fatal: fetch-pack: invalid index-pack output",
            "cannot be reached: fetch-pack: unexpected disconnect while reading sideband packet",
            "offline",
        ),
        (
            "error: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413\n"
            "send-pack: unexpected disconnect while reading sideband packet\nfatal: the remote end hung up unexpectedly",
            "failed: RPC failed; HTTP 413 curl 22 The requested URL returned error: 413",
            "other",
        ),
        (
            "remote: Support for passwords was removed.\nremote: Use a token.\nfatal: Authentication failed for 'https://x/'",
            "let us in: Authentication failed for 'https://x/': Support for passwords was removed. Use a token.",
            "authentication",
        ),
    ],
)
def test_the_reason_is_told_and_not_what_follows_from_it(said: str, told: str, kind: str) -> None:
    error = failure("origin", said)
    assert error.message.endswith(told) and error.kind == kind
