"""What packs cost whoever reads them: files that are open, and memory for what is larger than it may be."""

from __future__ import annotations

import os
import zlib
from typing import Literal

import pytest

from gitbaton.errors import GitError
from gitbaton.git import libgit2, objects, packs
from gitbaton.git.packs import Packs
from gitbaton.git.repo import discover
from tests.kit import Sandbox


def _open_packs() -> int:
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += ".pack" in os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
    return found


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="files that are open are counted in /proc")
def test_packs_are_closed_with_whoever_opened_them(repo: Sandbox) -> None:
    oid = bytes.fromhex(repo.commit("one"))
    repo.git("repack", "-adq")
    before = _open_packs()
    for _ in range(3):
        store = Packs(discover(str(repo.path)))
        assert store.read(oid)[0] == "commit" and _open_packs() > before
        store.close()
        assert _open_packs() == before
        assert store.read(oid)[0] == "commit"
        store.close()


@pytest.mark.parametrize("door", ["libgit2", "binary"])
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_too_large_is_not_read(
    repo: Sandbox, monkeypatch: pytest.MonkeyPatch, door: Literal["libgit2", "binary"], packed: bool
) -> None:
    """Loose, packed, and packed as the difference from another object."""
    texts = [os.urandom(3000), b"small"]
    texts.append(texts[0] + b"more")
    oids = [repo.git("hash-object", "-w", "--stdin", stdin=text).strip() for text in texts]
    if packed:
        repo.git("pack-objects", "-q", ".git/objects/pack/pack", stdin="".join(f"{oid}\n" for oid in oids).encode())
        repo.git("prune-packed", "-q")
    store = Packs(discover(str(repo.path), door=door))
    assert [store.read(bytes.fromhex(oid))[1] for oid in oids] == texts
    store.close()
    for module, name, value in ((objects, "LARGEST", 2000), (packs, "LARGEST", 2000)):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(objects, "LONGEST", 100)
    monkeypatch.setattr(libgit2, "LONGEST", 100)
    store = Packs(discover(str(repo.path), door=door))
    for oid in (oids[0], oids[2]):
        with pytest.raises(GitError, match=f"object {oid} is too large: 3,00. bytes, where a blob may have 2,000"):
            store.read(bytes.fromhex(oid))
    assert store.read(bytes.fromhex(oids[1])) == ("blob", b"small")
    tree = bytes.fromhex(repo.git("mktree", stdin="".join(f"100644 blob {oids[1]}\t{n}\n" for n in range(9)).encode()).strip())
    with pytest.raises(GitError, match=r"is too large: .* where a tree may have 100"):
        store.read(tree)
    store.close()


def test_a_loose_object_is_inflated_no_further_than_it_says(repo: Sandbox) -> None:
    oid = "ab" + "0" * 38
    path = repo.path / ".git" / "objects" / "ab" / oid[2:]
    path.parent.mkdir()
    path.write_bytes(zlib.compress(b"blob 9000\0" + bytes(50_000_000)))
    with pytest.raises(GitError, match="cannot be read"):
        Packs(discover(str(repo.path))).read(bytes.fromhex(oid))
    path.chmod(0o600)
    path.write_bytes(zlib.compress(b"blob 3221225472\0" + bytes(9000)))
    with pytest.raises(GitError, match="too large: 3,221,225,472 bytes"):
        Packs(discover(str(repo.path))).read(bytes.fromhex(oid))
