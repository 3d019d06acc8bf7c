"""Diff of a checkpoint's files: against another's, the one before, or the work tree as a snapshot would hold it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError
from gitbaton.base.model import IGNORED_HELD, KEPT, Oid, Stored
from gitbaton.base.values import replace, value
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import path_in_quotes
from gitbaton.checkpoints.store.chain import MAX_COMMIT, Problem
from gitbaton.git.objects import parse_commit

_SHOWN = 10
_FEW, _MANY = 16, 512  # checkpoints of which git shows the changes at once: at first, and at most


@value
class ChangedFile:
    """A file that a checkpoint changed, and the lines of its patch that were looked for."""

    path: str
    lines: tuple[str, ...]


def tree_of(baton: Baton, stored: Stored) -> Oid:
    """Return the tree of a checkpoint's files. Raises BatonError when it holds none."""
    if stored.checkpoint.files is None:
        raise BatonError(f"checkpoint '{baton.short(stored.id)}' of track {in_quotes(stored.checkpoint.track)} holds no files")
    return stored.checkpoint.files.tree


def tree_now(baton: Baton, stored: Stored | None, folder: str) -> tuple[Oid, list[str]]:
    """Return the work tree as a snapshot would hold it now, its new objects in ``folder``, and the warnings: the paths that it
    could not hold and that ``stored`` does not name as left out. The repository is redirected to ``folder`` afterwards. Raises
    BatonError without a work tree."""
    from gitbaton.git.worktree.capture import capture, private_folder

    if baton.repo.layout.root is None:
        raise BatonError("there is no work tree to compare with", "name two checkpoints")
    held, files = list[str](), stored.checkpoint.files if stored is not None else None
    if stored is not None and files is not None and (files.held or stored.checkpoint.restore):
        from gitbaton.checkpoints.restore.bytes import held_ignored

        held = held_ignored(baton, stored)
    rules = replace(baton.rules(), going=(held, ()))
    baton.redirect(folder)
    with private_folder(baton.repo) as private:
        captured = capture(baton.repo, private, rules, ())[0]
    known = set(files.skipped if files is not None else ())
    new = [s for s in captured.skipped if s not in known or (s.reason in KEPT and s.reason != IGNORED_HELD)]
    warnings = [f"{path_in_quotes(s.path)} is not compared as it is on disk: {s.reason}" for s in new[:_SHOWN]]
    return captured.tree, warnings + ([f"and {len(new) - _SHOWN} more"] if len(new) > _SHOWN else [])


def changes(
    baton: Baton, items: Sequence[Stored], words: Sequence[str], paths: Sequence[str], directory: str, columns: int | None
) -> Iterator[bytes]:
    """Yield each checkpoint's changes against the one before, of a track's first against HEAD when its turn began, as the
    user's own ``git log`` shows them with options, perhaps only at pathspecs as seen from a directory; empty where it holds no
    files.

    Raises GitError.
    """
    env = {} if columns is None else {"COLUMNS": str(columns)}
    git = baton.repo.git.changed(env, "log.showSignature=false", "log.follow=false", directory=directory)
    store, at, size = baton.store, 0, _FEW
    while at < len(items):
        part = [s for s in items[at : at + size] if s.checkpoint.files is not None]
        read = zip(part, store.objects.read_many([s.commit for s in part], MAX_COMMIT), strict=True)
        first = {s.commit for s, found in read if found and found.data and store.root in parse_commit(found.data).parents}
        mark = os.urandom(16).hex().encode()  # what stands in no file
        form = ("--no-walk=unsorted", "--diff-merges=first-parent", "--no-notes", f"--format={mark.decode()}%H")
        stdin = "".join(f"{s.commit}\n" for s in part if s.commit not in first).encode()
        rows = git.out("log", *form, *words, "--stdin", "--", *paths, stdin=stdin).split(mark) if stdin else []
        shown = {head.decode(): text for head, _, text in (row.partition(b"\n") for row in rows)}
        for stored in items[at : at + size]:
            if stored.commit in first:
                head = store.base_tree(store.first_base(stored.checkpoint))
                shown[stored.commit] = git.out("diff", "--no-ext-diff", *words, head, stored.tree, "--", *paths)
            yield shown.get(stored.commit, b"").strip(b"\n").removeprefix(b"---\n")  # which parts it from a message
        at, size = at + size, min(size * 4, _MANY)


def changing(
    baton: Baton, texts: Sequence[str], track: str | None, since: datetime | None, limit: int, directory: str
) -> tuple[list[tuple[Stored, list[ChangedFile]]], tuple[Problem, ...]]:
    """Return the checkpoints, newest first and at most so many, that brought texts into a file or took them out of it, letter
    for letter and all in the same one, with these files; and what could not be read."""
    from gitbaton.checkpoints.store.selection import Selection

    found, problems = list[tuple[Stored, list[ChangedFile]]](), tuple[Problem, ...]()
    alone = limit if len(texts) == 1 else None  # of several texts each has turns that no other has
    several = [
        baton.history(track, everything=track is None, limit=alone, wanted=Selection(text=text, since=since)) for text in texts
    ]
    kept = set.intersection(*({stored.id for stored in history.items} for history in several))
    items = [stored for stored in several[0].items if stored.id in kept]
    forms = ("--unified=0", "--no-color", "--no-ext-diff", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/")
    told = [changes(baton, items, [f"-S{text}", *forms], (), directory, None) for text in texts]
    for stored, *patches in zip(items, *told, strict=True):
        parts = [dict(_files(patch, text)) for patch, text in zip(patches, texts, strict=True)]
        both = [path for path in parts[0] if all(path in part for part in parts)]
        files = [
            ChangedFile(path=path, lines=tuple(dict.fromkeys(row for part in parts for row in part[path]))) for path in both
        ]
        found += [(stored, files)] if files else []
        if len(found) == limit:
            break
    for history in several:
        problems += history.problems
    return found, problems


def _files(patch: bytes, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the files of a patch without context, each with its lines that hold a text."""
    for part in f"\n{patch.decode('utf-8', 'replace')}".split("\ndiff --git ")[1:]:
        head, _, body = part.partition("\n@@")
        names = [
            row[4:].removeprefix("a/" if row[0] == "-" else "b/") for row in head.split("\n") if row[:4] in ("--- ", "+++ ")
        ]
        named = [name for name in names if name != "/dev/null"] or [head.partition("\n")[0].rpartition(" b/")[2]]
        yield named[-1].rstrip("\t").strip('"'), [row for row in body.split("\n") if row[:1] in ("+", "-") and text in row]
