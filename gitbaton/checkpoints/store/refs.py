"""Refs of ours below refs/baton: chains, tips, signatures, pins, safety, runs, conversations, and what was fetched."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitbaton.base.codec import decode_track, encode_track
from gitbaton.base.model import Oid

CHAINS = "refs/baton/tracks/"
TIPS = "refs/checkpoints/"
NOTES = "refs/notes/checkpoints"
CURRENT = "BATON_HEAD"
SAFETY = "refs/baton/safety/"
TRANSCRIPTS = "refs/baton/transcripts/"
IMPORTED = "refs/baton/imported/"
THREADS = "refs/baton/threads/"
RUNS = "refs/baton/runs/"
META = "refs/baton/meta"
SIGNATURES = "refs/baton/signatures/"
REMOTES = "refs/baton/remotes/"
BEFORE_MENDS = "refs/baton/broken/"


def chain_ref(track: str) -> str:
    """Return the ref of a track's chain of commits."""
    return CHAINS + encode_track(track)


def tip_ref(track: str) -> str:
    """Return the ref of a track's newest checkpoint, as a blob."""
    return TIPS + encode_track(track)


def signatures_ref(track: str) -> str:
    """Return the ref of the signatures of a track's checkpoints."""
    return SIGNATURES + encode_track(track)


def fetched_signatures(remote: str, track: str) -> str:
    """Return the ref of the signatures that a remote has of a track's checkpoints."""
    return remote_ref(remote, "signatures/" + encode_track(track))


def signed_track(ref: str) -> str | None:
    """Return the track whose signatures a ref holds; None for any other ref."""
    return decode_track(ref.removeprefix(SIGNATURES)) if ref.startswith(SIGNATURES) else None


def track_of(ref: str) -> str | None:
    """Return the track that a ref of ours belongs to; None when its name is not exactly what we write."""
    for prefix in (CHAINS, TIPS):
        if ref.startswith(prefix):
            return decode_track(ref.removeprefix(prefix))
    return None


def safety_ref(git_dir: str, common_dir: str) -> str:
    """Return the ref of the chain of states before each restore in the work tree of ``git_dir``; named as git names work
    trees."""
    if git_dir == common_dir:
        return SAFETY + "main-worktree"
    return SAFETY + "worktrees/" + git_dir.rstrip("/").rpartition("/")[2]


def fetched_ref(remote: str, track: str) -> str:
    """Return the ref of the chain of a remote's track."""
    return remote_ref(remote, "tracks/" + encode_track(track))


def remote_of(ref: str) -> tuple[str, str] | None:
    """Return the remote that a ref was fetched from, and what stands below its name; None for any other ref."""
    remote, _, rest = ref.removeprefix(REMOTES).partition("/")
    name = decode_track(remote) if ref.startswith(REMOTES) else None
    return None if name is None else (name, rest)


def by_name(refs: Mapping[str, Oid], kind: str, name_of: Callable[[str], str | None]) -> dict[str, list[tuple[str, Oid]]]:
    """Group the refs of a kind (``tracks/``, ``runs/``) that were fetched by their name: the remotes, and what each has. Broken
    refs and names that are not ours are left out."""
    found: dict[str, list[tuple[str, Oid]]] = {}
    for ref, oid in sorted(refs.items()):
        remote, rest = remote_of(ref) or ("", "")
        name = name_of(rest.removeprefix(kind)) if rest.startswith(kind) else None
        if name is not None and oid.strip("0"):
            found.setdefault(name, []).append((remote, oid))
    return found


def remote_ref(remote: str, rest: str = "") -> str:
    """Return the ref of what was fetched from a remote: ``tracks/<encoded track>``, ``notes``, ``meta``, ... below its name."""
    return f"{REMOTES}{encode_track(remote)}/{rest}"
