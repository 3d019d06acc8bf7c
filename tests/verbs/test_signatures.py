"""Signatures beside checkpoints: who signed what, through a join, a prune and a rename, and which are refused."""

from __future__ import annotations

import itertools
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gitbaton import Baton
from gitbaton.checkpoints.store import signatures
from gitbaton.git.objects import new_object
from gitbaton.git.signing import SignatureCheck, check, sign, signed_text
from tests.kit import Sandbox
from tests.kit.signers import needs_gpg, needs_ssh, signs_with, ssh_key, trusts

ALICE, BOB, MALLORY = "alice@example.com", "bob@example.com", "mallory@example.com"
REF = "refs/baton/signatures/t"

pytestmark = needs_ssh


@pytest.fixture
def keys(tmp_path: Path) -> dict[str, Path]:
    """A key each."""
    return {who: ssh_key(tmp_path / "keys", who.partition("@")[0]) for who in (ALICE, BOB, MALLORY)}


@pytest.fixture
def alices(repo: Sandbox, keys: dict[str, Path]) -> Sandbox:
    """A repository that signs with Alice's key, and trusts hers and Bob's."""
    signs_with(repo, keys[ALICE], ALICE)
    trusts(repo, {who: keys[who] for who in (ALICE, BOB)})
    return repo


def states(repo: Sandbox, *words: str) -> dict[str, tuple[str, str | None]]:
    """What ``verify --signatures --json`` says of each checkpoint, by its step: the state and who signed."""
    done = repo.baton("verify", "--signatures", "--json", *words)
    found = done.json["checkpoints"]
    by_step = {repo.ok("show", "--json", row["id"]).json["checkpoint"]["step"]: row for row in found}
    said = {step: (row["signature"], row["signer"]) for step, row in by_step.items()}
    assert done.code == (0 if all(state == "good" for state, _ in said.values()) else 1), done
    return said


def put(repo: Sandbox, track: str, made: Mapping[str, bytes]) -> None:
    """Lay signatures beside a track's checkpoints, as they are given."""
    with Baton(str(repo.path)) as baton:
        signatures.put(baton.store, track, made)


def subject(repo: Sandbox, name: str) -> signatures.Subject:
    with Baton(str(repo.path)) as baton:
        return signatures.subject(baton.store, baton.resolve(name))


def signed_by(repo: Sandbox, key: Path, text: bytes) -> bytes:
    """What a key makes of a text."""
    before = repo.git("config", "user.signingKey")
    repo.git("config", "user.signingKey", str(key))
    with Baton(str(repo.path)) as baton:
        made = sign(baton.repo, text, seconds=30, asking=False)
    repo.git("config", "user.signingKey", before)
    return made


def blobs(repo: Sandbox, ref: str = REF) -> dict[str, bytes]:
    """The signatures at a ref by the id of their checkpoint, read without gitbaton."""
    rows = [row.split("\t") for row in repo.git("ls-tree", "-r", ref).splitlines()]
    found = {}
    for about, path in rows:
        oid, _, blob = path.replace("/", "").partition(".")
        assert about.split(" ")[2] == blob
        found[oid] = repo.run("git", "cat-file", "blob", blob).out.encode()
    return found


@pytest.mark.deep
def test_a_snapshot_signs_beside_the_commit_and_says_whose(alices: Sandbox) -> None:
    first = alices.ok("snapshot", "--track", "t", "one", "--json").json["checkpoint"]["id"]
    alices.ok("snapshot", "two")
    assert states(alices) == {"one": ("good", ALICE), "two": ("good", ALICE)}
    said = alices.ok("verify", "--signatures").out
    assert said == f"t: 2 of 2 checkpoints signed by '{ALICE}'\n"
    assert alices.ok("verify", "--signatures", "--quiet").out == ""
    held = blobs(alices)
    assert first in held and f"\nid {first}\n".encode() in held[first]
    assert b"gpgsig" not in alices.git("cat-file", "commit", "refs/baton/tracks/t").encode()
    shown = alices.ok("show", "--json").json["checkpoint"]["signed"]
    assert (shown["signature"], shown["signer"]) == ("good", ALICE)
    assert f"by '{ALICE}'" in alices.ok("show").out
    assert f"signature=good: signed by '{ALICE}'" in alices.ok("show", "--porcelain").out.splitlines()


@pytest.mark.deep
def test_without_the_setting_nothing_is_signed_and_nothing_said(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    assert repo.git("for-each-ref", "refs/baton/signatures") == ""
    assert "signed" not in repo.ok("show").out and "signed" not in repo.ok("show", "--json").json["checkpoint"]
    assert states(repo) == {"one": ("missing", None)}


@pytest.mark.deep
def test_a_key_that_cannot_sign_is_said_and_the_checkpoint_stands(alices: Sandbox, keys: dict[str, Path]) -> None:
    alices.git("config", "user.signingKey", str(alices.path / "nowhere"))
    done = alices.ok("snapshot", "--track", "t", "one")
    assert done.err.startswith("warning: the checkpoint is recorded, and not signed: ")
    assert states(alices) == {"one": ("missing", None)}
    found = [row for row in alices.baton("doctor", "--json").json["findings"] if row["name"] == "signing"]
    assert [row["ok"] for row in found] == [False] and "the key does not sign" in found[0]["text"]
    alices.git("config", "user.signingKey", str(keys[ALICE]))
    alices.ok("snapshot", "two")  # signs the one before, too
    assert states(alices) == {"one": ("good", ALICE), "two": ("good", ALICE)}
    found = [row for row in alices.baton("doctor", "--json").json["findings"] if row["name"] == "signing"]
    assert [row["text"] for row in found] == [f"checkpoints are signed, as '{ALICE}'"]


@pytest.mark.deep
@pytest.mark.parametrize("there", [True, False])
def test_where_no_key_is_set_the_line_that_sets_one_is_said_and_works(repo: Sandbox, there: bool) -> None:
    repo.git("config", "baton.sign", "true")
    if there:
        ssh_key(Path(os.environ["HOME"], ".ssh"), "id_rsa")
    done = repo.ok("snapshot", "--track", "t", "one")
    line = done.err.partition("; with an SSH key it signs after: ")[2].strip()
    [row] = [row for row in repo.baton("doctor", "--json").json["findings"] if row["name"] == "signing"]
    made, typed = (
        "mkdir -p -m 700 ~/.ssh && ssh-keygen -t ed25519 -f ~/.ssh/id_ed25519 && ",
        "git config gpg.format ssh && git config user.signingKey",
    )
    assert line == row["mend"] and not row["ok"]
    assert line == (f"{typed} ~/.ssh/id_rsa.pub" if there else f"{made}{typed} ~/.ssh/id_ed25519.pub")
    typed = line.replace("ed25519 -f", "ed25519 -q -N '' -f")  # it asks for a passphrase on a terminal
    subprocess.run(["sh", "-c", typed], cwd=repo.path, check=True)
    assert repo.ok("snapshot", "two").err == ""


@pytest.mark.deep
def test_the_own_key_is_trusted_where_no_file_names_others(repo: Sandbox, keys: dict[str, Path]) -> None:
    signs_with(repo, keys[ALICE], ALICE)
    repo.ok("snapshot", "--track", "t", "one")
    put(repo, "t", {})
    assert states(repo) == {"one": ("good", ALICE)}
    repo.git("config", "user.signingKey", f"key::{Path(f'{keys[BOB]}.pub').read_text().strip()}")
    assert states(repo)["one"][0] == "untrusted"


@pytest.mark.deep
def test_three_clones_have_the_same_signatures_after_a_sync(
    alices: Sandbox, bare: Sandbox, keys: dict[str, Path], tmp_path: Path
) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("snapshot", "--track", "t", "alice's")
    alices.ok("sync", "--yes", "hub")
    others = []
    for who, name in ((BOB, "bob"), (None, "carol")):
        one = Sandbox.begun(tmp_path / name)
        one.git("remote", "add", "hub", str(bare.path))
        one.ok("sync", "--yes", "hub")
        trusts(one, {by: keys[by] for by in (ALICE, BOB)})
        if who is not None:
            signs_with(one, keys[who], who)
        one.ok("snapshot", "--track", "t", f"{name}'s")
        one.ok("sync", "--yes", "hub")
        others.append(one)
    alices.ok("snapshot", "--track", "t", "alice's again")  # a join, which writes commits anew
    for one in (alices, *others, alices):
        one.ok("sync", "--yes", "hub")
    everyone = [alices, *others]
    for one in everyone:
        assert states(one) == {
            "alice's": ("good", ALICE),
            "bob's": ("good", BOB),
            "carol's": ("missing", None),
            "alice's again": ("good", ALICE),
        }
    assert len({one.git("rev-parse", f"{REF}^{{tree}}") for one in everyone}) == 1
    assert bare.git("rev-parse", f"{REF}^{{tree}}") == alices.git("rev-parse", f"{REF}^{{tree}}")
    again = alices.ok("push", "--yes", "hub", "--json").json
    assert "signatures" not in str(again)  # nothing moves a second time


@pytest.mark.deep
def test_nobody_signs_what_somebody_else_made(alices: Sandbox, bare: Sandbox, tmp_path: Path) -> None:
    carol = Sandbox.begun(tmp_path / "carol")
    carol.git("remote", "add", "hub", str(bare.path))
    carol.ok("snapshot", "--track", "t", "carol's")
    carol.ok("snapshot", "--track", "t", "carol's second")
    carol.ok("sync", "--yes", "hub")
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("sync", "--yes", "hub")
    alices.git("config", "baton.sign", "false")
    alices.ok("snapshot", "--track", "t", "not signed yet")  # carol's are ours by these words, but not Alice's work
    alices.git("config", "baton.sign", "true")
    alices.ok("snapshot", "--track", "t", "signed")
    told = {"carol's": ("missing", None), "not signed yet": ("good", ALICE), "signed": ("good", ALICE)}
    assert states(alices) == {**told, "carol's second": ("missing", None)}
    alices.ok("forget", "--yes", "t~2")  # which writes the record of what is ours anew
    alices.ok("snapshot", "--track", "t", "later")
    assert states(alices) == {**told, "later": ("good", ALICE)}
    assert "foreign" not in alices.ok("log").out
    assert alices.ok("doctor", "--json").code == 0
    for words in (["tracks", "rename", "t", "u"], ["tracks", "delete", "u", "--yes"], ["tracks", "restore", "u"]):
        alices.ok(*words)  # the ids are others then
    alices.ok("snapshot", "--track", "u", "goes on")
    assert states(alices) == {**told, "later": ("good", ALICE), "goes on": ("good", ALICE)}
    assert "foreign" not in alices.ok("log", "u").out


@pytest.mark.deep
def test_a_bundle_brings_signatures(alices: Sandbox, keys: dict[str, Path], tmp_path: Path) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    alices.git("bundle", "create", str(tmp_path / "x.bundle"), "--all")
    other = Sandbox.begun(tmp_path / "other")
    other.ok("sync", str(tmp_path / "x.bundle"))
    trusts(other, {ALICE: keys[ALICE]})
    assert states(other) == {"one": ("good", ALICE)}


@pytest.mark.deep
def test_a_prune_and_a_forget_take_signatures_along_also_at_the_remote(alices: Sandbox, bare: Sandbox) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    ids = {n: alices.ok("snapshot", "--track", "t", n, "--json").json["checkpoint"]["id"] for n in ("a", "b", "c", "d")}
    alices.ok("sync", "--yes", "hub")
    assert blobs(bare).keys() == set(ids.values())
    alices.ok("prune", "--keep-last", "2", "--yes", "t")
    assert blobs(alices).keys() == {ids["c"], ids["d"]}
    assert states(alices) == {"c": ("good", ALICE), "d": ("good", ALICE)}
    alices.ok("forget", "--yes", ids["c"])
    alices.ok("sync", "--yes", "hub")
    assert blobs(alices).keys() == blobs(bare).keys() == {ids["d"]}
    assert alices.git("rev-list", "--count", REF) == bare.git("rev-list", "--count", REF) == "1"
    alices.ok("tracks", "delete", "--yes", "t")
    assert alices.git("for-each-ref", "refs/baton/signatures") == ""
    alices.ok("sync", "--yes", "hub")
    assert bare.git("for-each-ref", "refs/baton/signatures") == ""


@pytest.mark.deep
def test_a_rename_and_a_return_sign_anew_what_had_a_good_signature(alices: Sandbox) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    alices.git("config", "baton.sign", "false")
    alices.ok("snapshot", "two")
    alices.git("config", "baton.sign", "true")
    alices.ok("tracks", "rename", "t", "u")
    assert states(alices) == {"one": ("good", ALICE), "two": ("missing", None)}
    alices.ok("tracks", "delete", "--yes", "u")
    alices.ok("tracks", "restore", "u")
    assert states(alices) == {"one": ("good", ALICE), "two": ("missing", None)}
    alices.git("config", "baton.sign", "false")
    done = alices.ok("tracks", "rename", "u", "v")
    said = "1 checkpoint of track 'v' that was signed is not any more: the bytes are others; baton.sign is off"
    assert f"warning: {said}\n" in done.err
    assert states(alices) == {"one": ("missing", None), "two": ("missing", None)}


@pytest.mark.deep
def test_what_is_private_keeps_its_signatures_here(alices: Sandbox, bare: Sandbox) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("snapshot", "--track", "t", "one")
    alices.ok("snapshot", "--track", "secret", "two")
    alices.ok("push", "--yes", "hub", "t")
    assert bare.git("for-each-ref", "--format=%(refname)", "refs/baton/signatures") == REF


@pytest.mark.deep
def test_forged_replayed_and_torn_ones_are_refused_and_named(alices: Sandbox, keys: dict[str, Path]) -> None:
    alices.git("config", "baton.sign", "false")
    for step in ("mine", "other key", "replayed", "other tree", "other words", "changed", "torn", "not one"):
        alices.ok("snapshot", "--track", "t", step)
    ids = {row["step"]: row["id"] for row in alices.ok("log", "--json").json["checkpoints"]}
    of = {step: subject(alices, oid) for step, oid in ids.items()}
    good = signed_by(alices, keys[ALICE], of["mine"].text)
    tree = of["other tree"].text.replace(of["other tree"].tree.encode(), b"1" * 40)
    words = of["other words"].text[:-65] + b"0" * 64 + b"\n"
    real = signed_by(alices, keys[ALICE], of["changed"].text)
    put(
        alices,
        "t",
        {
            ids["mine"]: good,
            ids["other key"]: signed_by(alices, keys[MALLORY], of["other key"].text),
            ids["replayed"]: good,
            ids["other tree"]: signed_by(alices, keys[ALICE], tree),
            ids["other words"]: signed_by(alices, keys[ALICE], words),
            ids["changed"]: real.replace(b"author A U Thor", b"author A U Other"),
            ids["torn"]: good[:200],
            ids["not one"]: b"\0\n" * 50_000,
        },
    )
    assert states(alices) == {
        "mine": ("good", ALICE),
        "other key": ("untrusted", None),
        "replayed": ("replayed", None),
        "other tree": ("other", None),
        "other words": ("other", None),
        "changed": ("bad", None),
        "torn": ("torn", None),
        "not one": ("torn", None),
    }
    said = alices.baton("verify", "--signatures").out
    assert f"its signature is that of another checkpoint, {ids['mine']}: replayed\n" in said
    assert "its signature is of another tree: other tree\n" in said
    assert "its signature is of other words: other words\n" in said
    assert "its signature is forged or damaged: changed\n" in said
    assert "signed with a key that is not trusted here, SHA256:" in said
    # A bad one beside a good one takes nothing from it.
    put(alices, "t", {ids["mine"]: signed_by(alices, keys[MALLORY], of["mine"].text)})
    put(alices, "t", {ids["mine"]: b"torn"})
    assert states(alices, ids["mine"]) == {"mine": ("good", ALICE)}


@pytest.mark.deep
def test_many_bad_ones_beside_a_good_one_take_nothing_from_it(alices: Sandbox) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    alices.ok("snapshot", "--track", "t", "two")
    ids = {row["step"]: row["id"] for row in alices.ok("log", "--json").json["checkpoints"]}
    good = blobs(alices)[ids["one"]]
    forged = (good.replace(b"author A U Thor", b"author %d" % n) for n in itertools.count())
    for raw in itertools.islice((raw for raw in forged if blob_id(raw) < blob_id(good)), 20):
        put(alices, "t", {ids["one"]: raw})
    assert states(alices) == {"one": ("good", ALICE), "two": ("good", ALICE)}
    about = subject(alices, ids["one"])
    with Baton(str(alices.path)) as baton:
        found = signatures.vouched(baton.store, [about], signatures.read(baton.store, REF).signed, more=3)
    assert found[about.id].state == "unchecked", "nobody is called a forger of what was not looked at"


def blob_id(raw: bytes) -> str:
    return new_object("sha1", "blob", raw).oid


@pytest.mark.deep
def test_a_commit_with_another_tree_has_no_good_signature(alices: Sandbox) -> None:
    alices.ok("snapshot", "--track", "t", "one", "--no-files")
    chain = "refs/baton/tracks/t"
    raw = alices.run("git", "cat-file", "commit", chain).out
    tree = alices.git("mktree", stdin=b"")
    forged = alices.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=f"tree {tree}{raw[45:]}".encode())
    alices.git("update-ref", chain, forged)
    assert states(alices) == {"one": ("other", None)}
    assert "its signature is of another tree: one" in alices.baton("verify", "--signatures").out


@pytest.mark.deep
def test_a_chain_that_is_laid_under_another_name_has_no_good_signature(alices: Sandbox) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    for ref in ("tracks", "signatures"):
        alices.git("update-ref", f"refs/baton/{ref}/prod", f"refs/baton/{ref}/t")
    assert states(alices, "t") == {"one": ("good", ALICE)}
    assert states(alices, "prod") == {"one": ("other", None)}
    assert "its signature is of track 't': one" in alices.baton("verify", "--signatures").out


@pytest.mark.deep
def test_what_lies_beside_the_index_is_signed_too(alices: Sandbox) -> None:
    (alices.path / "a.txt").write_bytes(b"one\r\ntwo\n")
    (alices.path / ".gitattributes").write_text("a.txt text\n")  # mixed line ends: kept byte for byte beside the index
    alices.ok("snapshot", "--track", "t", "mixed")
    assert states(alices) == {"mixed": ("good", ALICE)}
    chain, base = "refs/baton/tracks/t", alices.git("rev-parse", "refs/baton/tracks/t^2")
    beside = alices.git("rev-parse", f"{base}^2")
    assert (
        b"\r\n"
        in subprocess.run(
            ["git", "-C", str(alices.path), "cat-file", "blob", f"{beside}:raw/a.txt"], check=True, capture_output=True
        ).stdout
    )
    blob = alices.git("hash-object", "-w", "--stdin", "--no-filters", stdin=b"evil\r\n\n")
    inner = alices.git("mktree", stdin=f"100644 blob {blob}\ta.txt\n".encode())
    rows = [row for row in alices.git("ls-tree", beside).splitlines() if not row.endswith("\traw")]
    tree = alices.git("mktree", stdin="\n".join([*rows, f"040000 tree {inner}\traw"]).encode() + b"\n")

    def anew(of: str, old: str, new: str) -> str:
        raw = alices.run("git", "cat-file", "commit", of).out
        return alices.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw.replace(old, new, 1).encode())

    stages = anew(beside, alices.git("rev-parse", f"{beside}^{{tree}}"), tree)
    alices.git("update-ref", chain, anew(chain, base, anew(base, beside, stages)))
    assert states(alices) == {"mixed": ("other", None)}
    assert "of something else beside the index" in alices.baton("verify", "--signatures").out


@pytest.mark.deep
def test_a_foreign_track_says_whose_signature_it_has(
    alices: Sandbox, bare: Sandbox, keys: dict[str, Path], tmp_path: Path
) -> None:
    other = Sandbox.begun(tmp_path / "other")
    other.git("remote", "add", "hub", str(bare.path))
    for track, key in (("bobs", BOB), ("mallorys", MALLORY)):
        signs_with(other, keys[key], key)
        other.ok("snapshot", "--track", track, track)
    other.git("config", "baton.sign", "false")
    other.ok("snapshot", "--track", "nobodys", "nobodys")
    other.ok("sync", "--yes", "hub")
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("fetch", "hub")
    assert {step: state for step, (state, _) in states(alices).items()} == {
        "bobs": "good",
        "mallorys": "untrusted",
        "nobodys": "missing",
    }
    alices.ok("sync", "--yes", "hub")
    told = {track: alices.ok("resume", "--track", track).err for track in ("bobs", "mallorys", "nobodys")}
    assert f"came from elsewhere; signed by '{BOB}'\n" in told["bobs"]
    assert "came from elsewhere; signed with a key that is not trusted here, SHA256:" in told["mallorys"]
    assert "came from elsewhere; not signed\n" in told["nobodys"]
    rows = alices.ok("status").out.splitlines()
    shown = {track: next(row for row in rows if track in row) for track in ("bobs", "mallorys", "nobodys")}
    assert "not signed" in shown["nobodys"] and "key not trusted" in shown["mallorys"]
    assert "signed" not in shown["bobs"].replace("bobs", "")
    alices.git("config", "baton.sign", "false")  # what is signed is told all the same, what is not is nothing to say
    assert "not trusted" in alices.ok("resume", "--track", "mallorys").err
    assert alices.ok("resume", "--track", "nobodys").err.endswith("came from elsewhere\n")


@pytest.mark.deep
def test_a_page_says_who_signed(alices: Sandbox, tmp_path: Path) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    alices.ok("page", "-o", str(tmp_path / "page.html"))
    assert f"<dt>signature<dd>signed by &#x27;{ALICE}&#x27;" in (tmp_path / "page.html").read_text()


@pytest.mark.deep
def test_no_program_of_a_repository_signs_or_verifies(alices: Sandbox) -> None:
    trap, sprung = alices.path / ".git" / "trap", alices.path / ".git" / "sprung"
    trap.write_text(f"#!/bin/sh\ntouch '{sprung}'\nexit 1\n")
    trap.chmod(0o755)
    for key in ("gpg.ssh.program", "gpg.program", "gpg.openpgp.program"):
        alices.git("config", key, str(trap))
    alices.ok("snapshot", "--track", "t", "one")
    assert states(alices) == {"one": ("good", ALICE)} and not sprung.exists()
    found = [row["text"] for row in alices.baton("doctor", "--json").json["findings"] if row["name"] == "signing"]
    assert any(text.startswith("gpg.ssh.program of a repository does not count") for text in found)


def _program(repo: Sandbox, env: Path, text: str) -> dict[str, str]:
    """The environment in which a program signs."""
    env.write_text(text)
    env.chmod(env.stat().st_mode | stat.S_IXUSR)
    return {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gpg.ssh.program", "GIT_CONFIG_VALUE_0": str(env)}


@pytest.mark.deep
def test_without_ssh_keygen_nobody_is_called_a_forger(alices: Sandbox, tmp_path: Path, monkeypatch: Any) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    for name, text in (("COUNT", "1"), ("KEY_0", "gpg.ssh.program"), ("VALUE_0", str(tmp_path / "nowhere"))):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", text)
    assert states(alices) == {"one": ("unchecked", None)}
    said = f"cannot be checked: cannot run {tmp_path / 'nowhere'}: No such file or directory"
    said = f"cannot be checked: cannot run {tmp_path / 'nowhere'}: No such file or directory"
    assert said in " ".join(alices.baton("verify", "--signatures").out.split())


@pytest.mark.deep
def test_a_revoked_and_an_expired_key_are_told_as_such(alices: Sandbox, keys: dict[str, Path]) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    alices.git("config", "gpg.ssh.revocationFile", f"{keys[ALICE]}.pub")
    assert states(alices)["one"][0] == "revoked"
    assert "with a key that was revoked, SHA256:" in alices.ok("show").out
    old = f'{ALICE} valid-before="20200101" {Path(f"{keys[ALICE]}.pub").read_text()}'
    (alices.path / ".git" / "allowed").write_text(old)
    alices.git("config", "--unset", "gpg.ssh.revocationFile")
    assert states(alices)["one"][0] == "expired"
    trusts(alices, {ALICE: keys[ALICE]})
    alices.git("config", "gpg.ssh.revocationFile", f"{keys[BOB]}.pub")
    (held,) = blobs(alices).values()
    forged = held.replace(b"\nsha256 ", b"\nsha256 0")
    with Baton(str(alices.path)) as baton:
        assert [said.letter for said in check(baton.repo, [forged, held])] == ["B", "G"]


@pytest.mark.deep
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="the program finds us by /proc")
def test_a_kill_while_the_key_signs_leaves_a_checkpoint_without_a_signature(alices: Sandbox, tmp_path: Path) -> None:
    # git's parent is gitbaton, which git has told apart from itself by its session.
    kills = "#!/bin/sh\nset -- $(cat /proc/$PPID/stat)\nkill -9 $4\nexit 1\n"
    env = _program(alices, tmp_path / "kills", kills)
    words = [sys.executable, "-m", "gitbaton", "snapshot", "--track", "t", "one"]
    done = subprocess.run(words, cwd=alices.path, env={**os.environ, **env}, capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert alices.ok("resume", "--json").json["checkpoint"]["step"] == "one"
    assert states(alices) == {"one": ("missing", None)}
    assert alices.ok("doctor", "--json").json["ok"] is not None
    alices.ok("snapshot", "two")
    assert states(alices) == {"one": ("good", ALICE), "two": ("good", ALICE)}


@pytest.mark.deep
def test_an_automatic_checkpoint_waits_for_no_passphrase(alices: Sandbox, tmp_path: Path, monkeypatch: Any) -> None:
    env = _program(alices, tmp_path / "waits", "#!/bin/sh\nexec sleep 60\n")
    for name, text in env.items():
        monkeypatch.setenv(name, text)
    alices.git("config", "baton.sign", "false")
    alices.ok("snapshot", "--track", "t", "one")
    alices.git("config", "baton.sign", "true")
    with Baton(str(alices.path)) as baton:
        said = signatures.sign_newest(baton.store, baton.tip("t"), automatic=True)
    assert said == [
        "the checkpoint is recorded, and not signed: the key did not sign in 0.5 seconds; perhaps it waits for a passphrase"
    ]


def changed_set(repo: Sandbox, more: list[str], below: list[str]) -> str:
    """A commit like that at REF, with rows more in its tree, and in the first folder of that."""
    tree = repo.git("ls-tree", REF).splitlines()
    name = tree[0].partition("\t")[2]
    inner = [*repo.git("ls-tree", f"{REF}:{name}").splitlines(), *below]
    tree[0] = f"040000 tree {repo.git('mktree', stdin=rows(inner))}\t{name}"
    new = repo.git("mktree", stdin=rows([*tree, *more]))
    rest = repo.run("git", "cat-file", "commit", REF).out.partition("\n")[2]
    return repo.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=f"tree {new}\n{rest}".encode())


def rows(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


def laid(repo: Sandbox, junk: str) -> str:
    """What a stranger lays at a hub's signatures, made of those at REF."""
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x\n")
    tree, rest = repo.git("mktree", stdin=f"100644 blob {blob}\tx\n".encode()), f"{'5' * 38}.{blob}"
    more: dict[str, tuple[list[str], list[str]]] = {
        "file": ([f"100644 blob {blob}\tzz"], []),
        "folder": ([f"040000 tree {tree}\tzz"], []),
        "many": ([f"100644 blob {blob}\t{n}" for n in range(2000)], []),
        "torn": ([], [f"100644 blob {blob}\t{rest}"]),
        "link": ([], [f"120000 blob {blob}\t{rest}"]),
        "sub-folder": ([], [f"040000 tree {tree}\t{rest}"]),
    }
    if junk in more:
        return changed_set(repo, *more[junk])
    if junk == "large":
        large = repo.git("hash-object", "-w", "--stdin", stdin=b"x" * 5_000_000)
        return changed_set(repo, [], [f"100644 blob {large}\t{'5' * 38}.{large}"])
    if junk == "tag":
        text = f"object {repo.git('rev-parse', REF)}\ntype commit\ntag x\ntagger A <a@b> 0 +0000\n\nx\n"
        return repo.git("hash-object", "-t", "tag", "-w", "--stdin", stdin=text.encode())
    return blob if junk == "blob" else repo.git("rev-parse", "HEAD")


JUNK = ["file", "folder", "many", "torn", "link", "sub-folder", "large", "tag", "blob", "commit"]


@pytest.mark.deep
@pytest.mark.parametrize("rewriting", [True, False])
@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_signature_at_the_remote_is_left_out_and_goes(
    alices: Sandbox, bare: Sandbox, keys: dict[str, Path], tmp_path: Path, junk: str, rewriting: bool
) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    bob = Sandbox.begun(tmp_path / "bob")
    bob.git("remote", "add", "hub", str(bare.path))
    trusts(bob, {who: keys[who] for who in (ALICE, BOB)})
    ids = [alices.ok("snapshot", "--track", "t", "one", "--json").json["checkpoint"]["id"]]
    alices.ok("sync", "--yes", "hub")
    bob.ok("sync", "--yes", "hub")
    signs_with(bob, keys[BOB], BOB)
    ids.append(bob.ok("snapshot", "--track", "t", "bob's", "--json").json["checkpoint"]["id"])
    alices.git("push", "-f", "hub", f"{laid(alices, junk)}:{REF}")
    bare.git("config", "receive.denyNonFastForwards", str(not rewriting).lower())
    former = bare.git("rev-parse", REF)
    done = alices.ok("sync", "--yes", "hub")
    assert done.err.count("and left out\n") == 1 and done.err.count("warning: of the remote's signatures of track 't', ") == 1
    assert bare.git("rev-parse", REF) != former
    assert alices.ok("sync", "--yes", "hub").err == ""
    bob.ok("sync", "--yes", "hub")
    alices.ok("sync", "--yes", "hub")
    for one in (alices, bob):
        assert states(one) == {"one": ("good", ALICE), "bob's": ("good", BOB)}
        assert blobs(one).keys() == set(ids)
    assert blobs(bare).keys() == set(ids)


@pytest.mark.deep
@pytest.mark.parametrize("ref", [REF, "refs/baton/remotes/hub/signatures/t"])
def test_the_exit_status_is_that_of_the_checkpoints_whatever_lies_beside(alices: Sandbox, ref: str) -> None:
    alices.ok("snapshot", "--track", "t", "one")
    alices.git("update-ref", "refs/baton/remotes/hub/tracks/t", "refs/baton/tracks/t")
    alices.git("update-ref", ref, laid(alices, "file"))
    done = alices.ok("verify", "--signatures")
    assert done.out == f"t: 1 of 1 checkpoint signed by '{ALICE}'\n"
    assert done.err == f"warning: 'zz' is no signature in '{ref}', and left out\n"
    assert alices.ok("verify", "--signatures", "--json").json["good"] is True
    assert alices.ok("snapshot", "two").err == ""
    assert states(alices) == {"one": ("good", ALICE), "two": ("good", ALICE)}
    assert "zz" not in alices.git("ls-tree", "--name-only", REF)


@pytest.mark.deep
def test_a_later_version_s_signatures_at_the_remote_stay(alices: Sandbox, bare: Sandbox) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("snapshot", "--track", "t", "one")
    alices.ok("sync", "--yes", "hub")
    raw = alices.run("git", "cat-file", "commit", REF).out.replace("signatures 1", "signatures 2").encode()
    later = alices.git("hash-object", "-t", "commit", "-w", "--stdin", stdin=raw)
    alices.git("push", "-f", "hub", f"{later}:{REF}")
    assert "are not pushed" in alices.ok("sync", "--yes", "hub").err
    assert bare.git("rev-parse", REF) == later


@pytest.mark.deep
def test_signatures_of_no_track_at_the_remote_are_in_nobodys_way(alices: Sandbox, bare: Sandbox) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("snapshot", "--track", "t", "one")
    alices.ok("sync", "--yes", "hub")
    alices.git("push", "hub", f"{REF}:refs/baton/signatures/none")
    assert alices.ok("sync", "--yes", "hub").err == ""
    assert alices.ok("verify", "--signatures").out == f"t: 1 of 1 checkpoint signed by '{ALICE}'\n"


@pytest.mark.deep
def test_a_broken_set_of_signatures_stops_nothing(alices: Sandbox, bare: Sandbox) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    alices.ok("snapshot", "--track", "t", "one")
    alices.git("update-ref", REF, "HEAD")
    done = alices.ok("snapshot", "two")
    assert "not signed: 'refs/baton/signatures/t' is not what gitbaton writes" in done.err
    alices.ok("sync", "--yes", "hub")
    alices.ok("prune", "--keep-last", "1", "--yes", "t")
    done = alices.baton("verify", "--signatures")
    assert done.code == 1 and "signatures are left out: 'refs/baton/signatures/t' is not what gitbaton writes" in done.err
    alices.ok("tracks", "delete", "--yes", "t")
    assert alices.git("for-each-ref", "refs/baton/signatures", "refs/baton/tracks") == ""


@pytest.mark.deep
def test_a_mend_makes_a_set_of_what_can_be_read(alices: Sandbox, bare: Sandbox) -> None:
    alices.git("remote", "add", "hub", str(bare.path))
    ids = [alices.ok("snapshot", "--track", "t", n, "--json").json["checkpoint"]["id"] for n in ("one", "two")]
    alices.ok("snapshot", "--track", "other", "three")
    alices.ok("sync", "--yes", "hub")
    lost = alices.ok("snapshot", "--track", "t", "four", "--json").json["checkpoint"]["id"]
    alices.git("config", "baton.sign", "false")
    blob = next(row.split()[2] for row in alices.git("ls-tree", "-r", REF).splitlines() if lost[2:] in row)
    for oid in (blob, alices.git("rev-parse", REF)):
        alices.loose(oid).unlink()
    plan = alices.baton("doctor", "--mend", "-n")
    done = alices.baton("doctor", "--mend")
    assert done.out == plan.out and "signatures of 2 checkpoints can be read" in done.out
    assert blobs(alices).keys() == set(ids)
    assert states(alices, "t") == {"one": ("good", ALICE), "two": ("good", ALICE), "four": ("missing", None)}
    assert states(alices, "other") == {"three": ("good", ALICE)}
    assert alices.ok("doctor", "--mend").out == "nothing is damaged\n"


@pytest.mark.deep
def test_a_sha256_repository_signs(tmp_path: Path, keys: dict[str, Path]) -> None:
    repo = Sandbox.init(tmp_path / "r", "--object-format=sha256")
    repo.git("commit", "-q", "--allow-empty", "-m", "one")
    signs_with(repo, keys[ALICE], ALICE)
    trusts(repo, {ALICE: keys[ALICE]})
    repo.ok("snapshot", "--track", "t", "one")
    assert states(repo) == {"one": ("good", ALICE)}


@pytest.mark.deep
@needs_gpg
def test_a_gpg_key_signs(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "g"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("GNUPGHOME", str(home))
    words = ["gpg", "--batch", "--quiet", "--passphrase", "", "--quick-gen-key", f"Alice <{ALICE}>", "ed25519", "sign", "never"]
    made = subprocess.run(words, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"gpg makes no key here: {made.stderr.decode(errors='replace').strip()[-200:]}")
    try:
        repo.git("config", "user.email", ALICE)
        repo.git("config", "user.signingKey", ALICE)
        repo.git("config", "baton.sign", "true")
        repo.ok("snapshot", "--track", "t", "one")
        assert states(repo) == {"one": ("good", f"Alice <{ALICE}>")}
    finally:
        subprocess.run(["gpgconf", "--kill", "gpg-agent"], check=False)


def test_yesterdays_bytes_are_read_and_written_alike(repo: Sandbox, tmp_path: Path) -> None:
    one = signatures.Subject(id="12" * 20, tree="34" * 20, raw=b"{}\n", beside="56" * 20)
    assert one.text == TEXT
    assert signed_text("sha1", OLD) == TEXT
    repo.git("config", "gpg.ssh.allowedSignersFile", str(tmp_path / "allowed"))
    (tmp_path / "allowed").write_text(f'{ALICE} namespaces="git" {OLD_KEY}\n')
    with Baton(str(repo.path)) as baton:
        assert check(baton.repo, [OLD]) == [SignatureCheck(letter="G", signer=ALICE, key=OLD_PRINT)]
        objects = signatures.objects_for("sha1", {one.id: [OLD_BLOB]})
        assert objects[-1].oid == "04ab6299c1c7d232d6ef5ff073d4249fdef63fb5"
        baton.repo.objects.write(objects)
        assert signatures.read(baton.store, objects[-1].oid).signed == {one.id: frozenset({OLD_BLOB})}


TEXT = (
    b"gitbaton signature 1\n"
    b"\n"
    b"id 1212121212121212121212121212121212121212\n"
    b"tree 3434343434343434343434343434343434343434\n"
    b"beside 5656565656565656565656565656565656565656\n"
    b"sha256 ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356\n"
)
OLD = (
    b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n"
    b"author T <t@e> 1767225600 +0000\n"
    b"committer T <t@e> 1767225600 +0000\n"
    b"gpgsig -----BEGIN SSH SIGNATURE-----\n"
    b" U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgHYLS1WziOQK+7617PougbGnv0L\n"
    b" c9a8IeWB4FdC3/vacAAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5\n"
    b" AAAAQJyUTnjXjvf8V1xw9tnKVO9eiL05vWptlPV8YAIK2e6+1khNiUvibiTgCVNN+9308l\n"
    b" 0YW6LDmZi/Qgu0czhAZwE=\n"
    b" -----END SSH SIGNATURE-----\n"
    b"\n"
    b"gitbaton signature 1\n"
    b"\n"
    b"id 1212121212121212121212121212121212121212\n"
    b"tree 3434343434343434343434343434343434343434\n"
    b"beside 5656565656565656565656565656565656565656\n"
    b"sha256 ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356\n"
)
OLD_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB2C0tVs4jkCvu+tez6LoGxp79C3PWvCHlgeBXQt/72n"
OLD_PRINT = "SHA256:NqtvYycO8MFzm6grbRSliImq2O6dPL7Hb35xA0Y7f8E"
OLD_BLOB = "a5ac3fa23fd1268cd0d2886c7dc56979fb580324"
