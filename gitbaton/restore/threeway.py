"""Three-way merge of one path: what it is now, with a change taken back that somebody made."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gitbaton.git.gone import said
from gitbaton.git.objects import new_object
from gitbaton.git.run import zsplit
from gitbaton.model import Oid
from gitbaton.restore.scene import Scene
from gitbaton.restore.values import TEXT
from gitbaton.system.files import write_atomic
from gitbaton.values import value
from gitbaton.worktree.checkout import Entry
from gitbaton.worktree.filetrees import EXECUTABLE

_FILES = ("100644", EXECUTABLE)
_MOST = 64 << 20  # bytes of a file that is merged
_NEVER = ("unset", "binary")  # what the attribute merge is of a path that git itself does not merge


@value
class State:
    """What a path holds: an entry, None where nothing is there, and its exact bytes where they are kept; ``CONVERTED`` where
    they are known to be what git would write, None where nobody knows."""

    entry: Entry | None = None
    raw: Oid | None = None

    def same(self, other: State) -> bool:
        """Whether it is the same, as far as the bytes are known of both."""
        return self.entry == other.entry and (None in (self.raw, other.raw) or self.raw == other.raw)


ABSENT = State()
CONVERTED = ""


@value
class Merged:
    """What becomes of a path; ``reason``: why it does not merge, ``marked``: whether the conflict is written into it."""

    state: State
    reason: str = ""
    marked: bool = False


class Merging:
    """Paths of a scene to be merged; ``mark``: where texts do not merge, the conflict is written into the file."""

    def __init__(self, scene: Scene, *, mark: bool) -> None:
        self.scene, self.mark = scene, mark
        self.objects = scene.baton.store.objects
        self._drivers: dict[str, str] = {}

    def look(self, paths: Iterable[str]) -> None:
        """Ask git for what its attributes say of all paths that may have to be merged, at once."""
        stdin = b"".join(os.fsencode(path) + b"\0" for path in paths)
        fields = zsplit(self.scene.repo.git.out("check-attr", "-z", "--stdin", "merge", stdin=stdin)) if stdin else []
        self._drivers |= dict(zip(fields[::3], fields[2::3], strict=True))

    def back(self, path: str, now: State, after: State, before: State, label: str) -> Merged:
        """A path with the change from ``before`` to ``after`` taken back; ``label`` names what was before."""
        if now.same(after):
            raw = now.raw if before.raw is None and _content(before) == _content(now) else before.raw
            return Merged(state=State(entry=before.entry, raw=raw))
        if now.same(before):
            return Merged(state=now)
        why = _unlike(now, after, before)
        if why or now.entry is None or after.entry is None or before.entry is None:
            return Merged(state=now, reason=why)
        mode = before.entry.mode if now.entry.mode == after.entry.mode else now.entry.mode
        if now.entry.oid == after.entry.oid:
            return Merged(state=State(entry=Entry(mode=mode, oid=before.entry.oid), raw=before.raw))
        if before.entry.oid in (after.entry.oid, now.entry.oid):
            return Merged(state=State(entry=Entry(mode=mode, oid=now.entry.oid), raw=now.raw))
        found = self._text(path, [now.entry.oid, after.entry.oid, before.entry.oid], label)
        if isinstance(found, str):
            return Merged(state=now, reason=found)
        data, clean = found
        if not clean and not self.mark:
            return Merged(state=now, reason=TEXT)
        blob = new_object(self.objects.algorithm, "blob", data)
        self.objects.write([blob])
        return Merged(state=State(entry=Entry(mode=mode, oid=blob.oid)), marked=not clean)

    def _text(self, path: str, oids: list[Oid], label: str) -> tuple[bytes, bool] | str:
        """The merged text, and whether it is without conflicts; or why there is none."""
        driver = self._drivers.get(path, "unspecified")
        found = [] if driver in _NEVER else list(self.objects.read_many(oids, _MOST))
        if None in found:
            return said(oids[found.index(None)])
        read = [o for o in found if o is not None and o.data is not None]
        texts = [o.data or b"" for o in read]
        if len(texts) < len(oids):
            return "changed since, and no text"
        names = []
        for text, name in zip(texts, ("now", "after", "before"), strict=True):
            names.append(os.path.join(self.scene.folder, f"merge-{name}"))
            write_atomic(names[-1], text)
        words = ["-L", "now", "-L", "as the turn left it", "-L", label, *(["--union"] if driver == "union" else [])]
        done = self.scene.repo.git.run("merge-file", "-p", *words, *names)
        if not 0 <= done.code <= 127:
            return "changed since, and no text"
        return done.out, done.code == 0


def _content(state: State) -> Oid | None:
    return state.entry.oid if state.entry is not None else None


def _unlike(now: State, after: State, before: State) -> str:
    """Why three states cannot be merged as texts; empty where they can."""
    if now.entry is None:
        return "removed since"
    if before.entry is None:
        return "made by the turn, and changed since"
    if after.entry is None:
        return "removed by the turn, and made anew since"
    if any(state.entry is not None and state.entry.mode not in _FILES for state in (now, after, before)):
        return "changed since, and no text"
    return ""
