"""Provenance: which checkpoints, runs and threads are ours, as ``<common dir>/baton/ours`` records it, by id.

An object that no line names is foreign, whether a refspec, a mirror, a bundle or a join brought it. A writer records its line
before the ref moves: a line too many does no harm where there is a ref, and with one too few our own would be foreign. Where
the first ref of a name does not move, its line goes again: else it would be missed.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress

from gitbaton.base.codec import encode_track, in_quotes, payload
from gitbaton.base.errors import BatonError, RecordError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import (
    closing_fd,
    names_in,
    open_lasting,
    read_or_none,
    remove_folder,
    sync_paths,
    write_all,
)
from gitbaton.checkpoints.store.refs import CHAINS, IMPORTED, RUNS, SAFETY, THREADS, TIPS, track_of
from gitbaton.git.objects import OID, Objects, digest, object_id, parse_commit
from gitbaton.git.repo import OURS, Repo, begun, clear_old, drop, earlier, keep_begun, make_folder, put, put_together, shared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["tracks", "runs"]
STATES, LINES = "safety", "threads"  # the files of the states before restores, and of threads; tracks and runs have one each
IMPORTS = "imported"  # and of turns of clients' own transcripts
_KINDS = ("tracks", "runs")
_HEADER = b"gitbaton ours 1\n"
_MIXED = b"mixed"  # the line that says that foreign checkpoints stand below ours
_TAKEN = b"taken "  # how a line begins that says of an id that words of here made it ours
_LARGE = 1 << 16  # bytes beyond which a file is rather taken apart than looked through


def of_track(track: str) -> str:
    """Return the file of a track."""
    return "tracks/" + encode_track(track)


def of_run(run: str) -> str:
    """Return the file of a run; its lines name the commits of its records."""
    return "runs/" + encode_track(run)


def record_of(ref: str) -> str:
    """Return the file that says which parts of the chain at a ref are ours; empty for a ref without such a file."""
    for prefix, kind in ((CHAINS, "tracks/"), (RUNS, "runs/")):
        if ref.startswith(prefix):
            return kind + ref.removeprefix(prefix)
    return STATES if ref.startswith(SAFETY) else IMPORTS if ref.startswith(IMPORTED) else ""


def of_thread(ref: str) -> Oid:
    """Return the line of a thread: a digest of its ref's name."""
    return digest("sha1", ref.encode()).hex()


class Ours:
    """The record of one repository. One that an earlier version used, which kept none, counts as it left it."""

    def __init__(self, repo: Repo) -> None:
        self.repo, self.folder = repo, os.path.join(repo.shared_dir, OURS)
        self._read: dict[str, tuple[tuple[int, int, int], bytes]] = {}
        self._apart: dict[str, tuple[bytes, frozenset[bytes]]] = {}  # large files, taken apart
        self._before: dict[str, bytes] | None = None
        self._real: dict[str, bool] = {}

    def knows(self, name: str) -> bool:
        """Whether the record has a line for a name, so that something of it was made here."""
        return bool(self._said(name))

    def has(self, name: str, oid: Oid) -> bool:
        """Whether a line of a file names an id. The newest is the last one, and found at once."""
        data, line = self._said(name), oid.encode()
        if len(data) < _LARGE or data.endswith(line + b"\n"):
            return b"\n%s\n" % line in data
        if self._apart.get(name, (b"", None))[0] is not data:
            self._apart[name] = data, frozenset(data.split(b"\n"))
        return line in self._apart[name][1]

    def among(self, name: str) -> frozenset[Oid]:
        """Return the lines of a file that ``has`` finds, for many questions."""
        return frozenset(self._said(name).decode("ascii", "replace").split("\n")[1:-1])

    def ids(self, name: str) -> frozenset[Oid]:
        """Return all ids of a file."""
        return _oids(self._said(name))

    def taken_over(self, name: str) -> frozenset[Oid]:
        """Return the ids of a file that were not made here: words that were written here made them ours."""
        lines = self._said(name).split(b"\n")
        return _oids(b"\n".join(line.removeprefix(_TAKEN) for line in lines if line.startswith(_TAKEN)))

    def made_here(self, name: str) -> frozenset[Oid]:
        """Return the ids of a file but for those that were taken over."""
        return self.ids(name) - self.taken_over(name)

    def mixed(self, track: str) -> bool:
        """Whether foreign checkpoints stand below ours in a track, so that words of here make them ours."""
        return b"\n%s\n" % _MIXED in self._said(of_track(track))

    def names(self, kind: Kind) -> set[str]:
        """Return the encoded names of the tracks or runs that have a file."""
        if not begun(self.repo):
            return {name.partition("/")[2] for name in self._held() if name.startswith(kind)}
        return {name for name in names_in(os.path.join(self.folder, kind)) if not name.endswith(".new")}

    def missing(self, kind: Kind, there: Collection[str]) -> list[str]:
        """Return the encoded names of tracks or runs made here that have no ref ``there``, and that gitbaton has not removed: a
        removal drops their lines."""
        return sorted(name for name in self.names(kind).difference(there) if self.ids(f"{kind}/{name}"))

    def add(self, name: str, ids: Iterable[Oid], *, mixed: bool = False, sync: bool = True) -> None:
        """Say that ids are ours, before a ref leads to them, and with ``mixed`` that foreign ones stand among them; with
        ``sync`` on disk when this returns. Raises OSError where the file is none of ours, or cannot be written."""
        self.begin()
        known = self._said(name)
        new = [*map(str.encode, dict.fromkeys(ids)), *([_MIXED] if mixed else [])]
        lines = b"".join(b"%s\n" % line for line in new if b"\n%s\n" % line not in known[-_LARGE:])
        if not lines:
            return
        path = os.path.join(self.folder, name)
        make_folder(self.repo, os.path.dirname(path))
        with closing_fd(open_lasting(path, append=True)) as fd:
            state = os.fstat(fd)
            if state.st_size and not known:
                raise OSError(f"{in_quotes(path)} is not a record that this version writes")
            if not state.st_size:
                shared(self.repo, fd)
                lines = _HEADER + lines
            elif not known.endswith(b"\n") or state.st_nlink > 1:  # a power cut left a beginning; or it is anybody's, too
                put(self.repo, path, known[: known.rindex(b"\n") + 1] + lines, sync=sync)
                return
            write_all(fd, lines)
            if sync:
                os.fdatasync(fd)
        if sync and not known:  # the first of all may have made the folders, too
            sync_paths([os.path.dirname(path), self.folder, self.repo.shared_dir, self.repo.layout.common_dir])

    def own(self, name: str, ids: Iterable[Oid]) -> None:
        """Say that these ids, those that were ours before, and all that is mixed with them are ours. Raises OSError."""
        self.begin()
        before, below = self.ids(name), frozenset(ids)
        self._put(name, before | below, taken=self.taken_over(name) | (below - before))

    def drop(self, name: str, ids: Collection[Oid] | None = None, *, mixed: bool = False) -> None:
        """Forget what is said of ids that are gone, or with ``mixed`` are others' now, or of all of a name. What cannot be
        written stays."""
        self.drop_all({name: ids}, mixed=mixed)

    def drop_all(self, gone: Mapping[str, Collection[Oid] | None], *, mixed: bool = False) -> None:
        """Do as ``drop`` for several names; what is written comes to the disk together."""
        files = dict[str, bytes]()
        with suppress(OSError):
            self.begin()
            for name, ids in gone.items():
                path, known = os.path.join(self.folder, name), self.ids(name)
                left = known.difference(ids) if ids is not None else frozenset[Oid]()
                stays = ids is not None and (mixed or b"\n%s\n" % _MIXED in self._said(name))
                if len(left) < len(known) and (left or stays):
                    files[path] = _lines(left, self.taken_over(name) & left, mixed=stays)
                elif not left and not stays:
                    with suppress(OSError):
                        drop(self.repo, path)
            put_together(self.repo, files)

    def _put(self, name: str, ids: Iterable[Oid], *, taken: Iterable[Oid] = ()) -> None:
        put(self.repo, os.path.join(self.folder, name), _lines(ids, taken), sync=True)

    def begin(self) -> None:
        """Begin the record, where there is none, with what an earlier version left. Raises OSError."""
        if begun(self.repo):
            return
        held, fresh = self._held(), f"{self.folder}.{os.getpid()}.new"
        old = time.time() - 3600  # of a process that was killed
        clear_old(self.repo, self.repo.shared_dir, lambda name, at: name.startswith(f"{OURS}.") and at.st_mtime < old)
        remove_folder(fresh)
        for kind in _KINDS:
            make_folder(self.repo, os.path.join(fresh, kind))
        for name, data in held.items():
            put(self.repo, os.path.join(fresh, name), data)
        sync_paths(os.path.join(fresh, name) for name in (*held, *_KINDS, ""))
        try:
            os.rename(fresh, self.folder)
        except OSError:  # another process was first
            remove_folder(fresh)
            if not begun(self.repo):
                raise
        else:
            keep_begun(self.repo)
            sync_paths([self.repo.shared_dir])

    def damaged(self) -> list[tuple[str, str]]:
        """Return the files that are not as we write them, each with what is wrong. Nothing becomes ours by them."""
        found: list[tuple[str, str]] = []
        if os.path.lexists(self.folder) and not stat.S_ISDIR(os.lstat(self.folder).st_mode):
            return [(self.folder, "it is not a folder")]
        for folder, inside, files in os.walk(self.folder):
            top = folder == self.folder
            below = [name for name in inside if not top or name not in _KINDS or os.path.islink(f"{folder}/{name}")]
            found += ((os.path.join(folder, name), "it is no file of ours") for name in sorted(below))
            inside[:] = [name for name in inside if name not in below]
            for path in (os.path.join(folder, file) for file in sorted(files) if not file.endswith(".new")):
                raw = read_or_none(path)
                wrong = [
                    line for line in (raw or b"").split(b"\n")[1:-1] if line != _MIXED and not _oids(line.removeprefix(_TAKEN))
                ]
                if raw is None or not raw.startswith(_HEADER):
                    found.append((path, "it is not a record that this version writes"))
                elif wrong:
                    found.append((path, f"{len(wrong)} of its lines name nothing"))
        return found

    def mend(self) -> list[str]:
        """Put aside what is not as we write it, and keep the lines that are; what could not be done comes back. Called with
        the lock held."""
        said: list[str] = []
        for path, _ in self.damaged():
            name = os.path.relpath(path, self.folder)
            kept, taken = self.ids(name), self.taken_over(name)
            try:
                aside = os.path.normpath(os.path.join(self.repo.shared_dir, "broken", OURS, name))
                make_folder(self.repo, os.path.dirname(aside))
                os.rename(path, f"{aside}.{time.time_ns()}")
                if kept:
                    self._put(name, kept, taken=taken & kept)
            except OSError as error:
                said.append(f"{in_quotes(path)} is not put aside: {error.strerror}")
        return said

    def _said(self, name: str) -> bytes:
        """Return the bytes of a file; none where there is none that is ours."""
        path = os.path.join(self.folder, name)
        try:
            state = os.lstat(path)
        except OSError:
            return b"" if begun(self.repo) else self._held().get(name, b"")
        mark = state.st_ino, state.st_mtime_ns, state.st_size
        known = self._read.get(name)
        if known is None or known[0] != mark:
            raw = read_or_none(path) or b""
            known = self._read[name] = mark, raw if raw.startswith(_HEADER) and self._leads(os.path.dirname(path)) else b""
        return known[1]

    def _leads(self, folder: str) -> bool:
        """Whether a folder of the record is one, and no link that leads elsewhere."""
        if folder not in self._real:
            above = folder == self.folder or self._leads(os.path.dirname(folder))
            try:
                self._real[folder] = above and stat.S_ISDIR(os.lstat(folder).st_mode)
            except OSError:
                return False
        return self._real[folder]

    def _held(self) -> Mapping[str, bytes]:
        if self._before is None:
            held = held_before(self.repo)
            self._before = {name: _HEADER + b"".join(b"%s\n" % line for line in lines) for name, lines in held.items()}
        return self._before


def held_before(repo: Repo) -> dict[str, list[bytes]]:
    """Return the lines of each file for what a repository held when an earlier version, which kept no record, last used it.

    Of a track that is the checkpoint that its tip shows and those below it, less what that version called foreign: it always
    left the tip at the newest one, and no push or fetch of ours brings tips. None where no version was ever used here.
    """
    if not earlier(repo):
        return {}
    objects, found = repo.objects, dict[str, list[bytes]]()
    tips = objects.refs(TIPS)
    for ref, oid in objects.refs(CHAINS).items():
        track = track_of(ref)
        shown = tips.get(TIPS + encode_track(track)) if track is not None else None
        if track is None or shown is None:
            continue
        ids = _ids(objects, oid)
        at = ids.index(shown) if shown in ids else len(ids)
        foreign = _oids(read_or_none(os.path.join(repo.shared_dir, "foreign", encode_track(track))) or b"")
        below, kept = ids[at:], [line for line in ids[at:] if line not in foreign]
        if kept:
            found[of_track(track)] = [*map(str.encode, reversed(kept)), *([_MIXED] if len(kept) < len(below) else [])]
    found[STATES] = [line.encode() for oid in objects.refs(SAFETY).values() for line in _ids(objects, oid)]
    for ref, oid in objects.refs(RUNS).items():
        name = ref.removeprefix(RUNS)
        if oid not in _oids(read_or_none(os.path.join(repo.shared_dir, "foreign-runs", name)) or b""):
            found["runs/" + name] = [oid.encode()]
    found[LINES] = [of_thread(ref).encode() for ref in objects.refs(THREADS)]
    return found


def _ids(objects: Objects, tip: Oid) -> list[Oid]:
    """Return the checkpoints of a chain, newest first, as far as they can be read."""
    found: list[Oid] = []
    with suppress(BatonError):
        for item in objects.read_many(objects.first_parents(tip)):
            with suppress(RecordError):
                message = parse_commit(item.data).message if item is not None and item.kind == "commit" and item.data else b""
                found.append(object_id(objects.algorithm, "blob", payload(message)))
    return found


def _lines(ids: Iterable[Oid], taken: Iterable[Oid], *, mixed: bool = False) -> bytes:
    """Return the content of a file."""
    lines = [*map(str.encode, sorted(ids)), *(_TAKEN + oid.encode() for oid in sorted(taken)), *([_MIXED] if mixed else [])]
    return _HEADER + b"".join(b"%s\n" % line for line in lines)


def _oids(data: bytes) -> frozenset[Oid]:
    """Return the ids among lines."""
    return frozenset(line for line in data.decode("ascii", "replace").split("\n") if OID.match(line))
