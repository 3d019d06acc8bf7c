"""What packs cost whoever reads them: files that are open, and memory for what is larger than it may be."""

from __future__ import annotations

import hashlib
import os
import zlib
from typing import Literal

import pytest

from gitbaton.base.errors import GitError
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


LARGE = 3 << 29  # bytes that an object has, or says that it has
KINDS = {"tree": 2, "blob": 3, "delta": 7}


def _zeros() -> bytes:
    """A large object of nothing but zeros, deflated; it would be inflated if it were read."""
    deflate = zlib.compressobj(1, wbits=-15)
    once = deflate.compress(bytes(1 << 20)) + deflate.flush(zlib.Z_FULL_FLUSH)
    return b"\x78\x01" + once * (LARGE >> 20) + b"\3\0" + (LARGE % 65521 << 16 | 1).to_bytes(4, "big")


def _packed(repo: Sandbox, small: str) -> list[str]:
    """A pack of a small blob and of large objects; the last is packed as the difference from the small one."""
    delta = _sizes(5) + _sizes(LARGE) + b"\x05small"
    parts = [
        (small, KINDS["blob"], 5, zlib.compress(b"small")),
        ("01" * 20, KINDS["blob"], LARGE, _zeros()),
        ("02" * 20, KINDS["tree"], LARGE, _zeros()),
        ("03" * 20, KINDS["delta"], len(delta), bytes.fromhex(small) + zlib.compress(delta)),
    ]
    pack, rows = b"PACK\0\0\0\2" + len(parts).to_bytes(4, "big"), []
    for oid, kind, size, data in parts:
        rows.append((bytes.fromhex(oid), len(pack)))
        pack += bytes([kind << 4 | size & 15 | 0x80]) + _sizes(size >> 4) + data
    pack += hashlib.sha1(pack).digest()
    index = b"".join(sum(oid[0] <= first for oid, _ in rows).to_bytes(4, "big") for first in range(256))
    index += b"".join(at.to_bytes(4, "big") + oid for oid, at in sorted(rows)) + pack[-20:]
    path = repo.path / ".git/objects/pack" / f"pack-{'1' * 40}"
    path.with_suffix(".pack").write_bytes(pack)
    path.with_suffix(".idx").write_bytes(index + hashlib.sha1(index).digest())
    return [oid for oid, *_ in parts[1:]]


def _sizes(size: int) -> bytes:
    """A number in groups of seven bits, as packs have it."""
    groups = [size >> shift & 0x7F for shift in range(0, max(size.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _loose(repo: Sandbox) -> list[str]:
    oids = ["01" * 20, "02" * 20]
    for oid, kind in zip(oids, ("blob", "tree"), strict=True):
        path = repo.path / ".git/objects" / oid[:2] / oid[2:]
        path.parent.mkdir()
        path.write_bytes(zlib.compress(b"%s %d\0small" % (kind.encode(), LARGE)))
    return oids


@pytest.mark.parametrize("door", ["libgit2", "binary"])
@pytest.mark.parametrize("packed", [False, True])
def test_what_is_too_large_is_not_read(repo: Sandbox, door: Literal["libgit2", "binary"], packed: bool) -> None:
    """Loose, packed, and packed as the difference from another object: its head says how large it is."""
    small = repo.git("hash-object", "-w", "--stdin", stdin=b"small").strip()
    oids = _packed(repo, small) if packed else _loose(repo)
    store = Packs(discover(str(repo.path), door=door))
    for oid, most in zip(oids, ("blob may have 1,073,741,824", "tree may have 134,217,728", "blob may"), strict=False):
        with pytest.raises(GitError, match=f"object {oid} is too large: 1,610,612,736 bytes, where a {most}"):
            store.read(bytes.fromhex(oid))
    assert store.read(bytes.fromhex(small)) == ("blob", b"small")
    store.close()


@pytest.mark.deep
def test_a_loose_object_is_inflated_no_further_than_it_says(repo: Sandbox) -> None:
    oid = "ab" + "0" * 38
    path = repo.path / ".git" / "objects" / "ab" / oid[2:]
    path.parent.mkdir()
    path.write_bytes(zlib.compress(b"blob 9000\0" + bytes(50_000_000)))
    with pytest.raises(GitError, match="cannot be read"):
        Packs(discover(str(repo.path))).read(bytes.fromhex(oid))
