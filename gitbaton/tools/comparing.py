"""Diff of a checkpoint's files against another's, or against the work tree as a snapshot would hold it."""

from __future__ import annotations

from gitbaton.baton import Baton
from gitbaton.errors import BatonError
from gitbaton.model import Oid, Stored
from gitbaton.render import in_quotes

_SHOWN = 10


def tree_of(baton: Baton, stored: Stored) -> Oid:
    """The tree of a checkpoint's files. Raises BatonError when it holds none."""
    if stored.checkpoint.files is None:
        raise BatonError(f"checkpoint '{baton.short(stored.id)}' of track '{stored.checkpoint.track}' holds no files")
    return stored.checkpoint.files.tree


def tree_now(baton: Baton, stored: Stored, folder: str) -> tuple[Oid, list[str]]:
    """The work tree as a snapshot would hold it now, its new objects in ``folder``, and what to warn of: the paths that it
    could not hold and that ``stored`` does not name as left out. The repository is redirected to ``folder`` afterwards.
    Raises BatonError without a work tree."""
    from gitbaton.worktree.capture import capture, private_folder

    if baton.repo.layout.root is None:
        raise BatonError("there is no work tree to compare with", "name two checkpoints")
    rules = baton.rules()
    baton.redirect(folder)
    with private_folder(baton.repo) as private:
        captured = capture(baton.repo, private, rules, ())
    known = set(stored.checkpoint.files.skipped if stored.checkpoint.files else ())
    new = [s for s in captured.skipped if s not in known]
    warnings = [f"{in_quotes(s.path)} is not compared as it is on disk: {s.reason}" for s in new[:_SHOWN]]
    return captured.tree, warnings + ([f"and {len(new) - _SHOWN} more"] if len(new) > _SHOWN else [])
