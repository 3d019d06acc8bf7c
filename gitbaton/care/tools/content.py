"""Content of a checkpoint at a path: a file's bytes as a restore would write them, the names in a folder, or why none."""

from __future__ import annotations

import os
import posixpath

from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import MENDS, BatonError, GitError, NotFoundError
from gitbaton.base.model import IGNORED, Oid, Stored, covered
from gitbaton.care.tools.comparing import tree_of
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.config import names_secrets
from gitbaton.checkpoints.render import in_shell, left_out, path_in_quotes
from gitbaton.checkpoints.restore.bytes import absent
from gitbaton.checkpoints.store.chain import beside, paths_beside
from gitbaton.checkpoints.store.refs import chain_ref
from gitbaton.git.objects import entries_of, lookup
from gitbaton.git.run import mends
from gitbaton.git.worktree.filetrees import parents
from gitbaton.git.worktree.heldbytes import HeldOid, HeldStore, read_held
from gitbaton.git.worktree.rawbytes import Conversion, attribute_files, attributes_at, read_kept

_LINK, _COMMIT = b"120000", b"160000"
_TAKES = "'git baton snapshot \"what is done\"' takes it in"


def content(baton: Baton, stored: Stored, path: str, directory: str | None) -> bytes | tuple[str, ...]:
    """Return the content at a path, from the top of the work tree, or from ``directory`` where it begins with ``./`` or
    ``../``, as git reads it: a file's bytes as a restore would write them, of a link its target, of a folder its names, folders
    with a slash. Raises NotFoundError that says why nothing is there, and BatonError where it cannot be had."""
    tree, objects = tree_of(baton, stored), baton.repo.objects
    place = _from_top(baton, path, directory)
    if not place:
        return _names(baton, tree)
    entry = lookup(objects, tree, os.fsencode(place)) if "" not in place.split("/") else None
    if entry is None or entry.mode == _COMMIT:
        raise _missing(baton, stored, place, directory)
    if entry.is_tree:
        return _names(baton, entry.oid)
    if path.endswith("/"):
        raise _no_folder(baton, stored, place)
    git = baton.repo.git
    if entry.mode == _LINK:
        return git.out("cat-file", "blob", entry.oid)
    side = beside(baton.store, stored)
    kept = read_kept(objects, side).get(place) if side is not None else None
    if kept is None:
        return _checked_out(baton, stored, place, entry.oid)
    if not isinstance(kept, HeldOid):
        return git.out("cat-file", "blob", kept)
    away, cleaned = absent(baton.store, {place: kept})
    if away:
        raise BatonError(f"{path_in_quotes(place)} cannot be shown: {away[place]}")
    held = read_held(objects, kept)
    return _checked_out(baton, stored, place, entry.oid) if cleaned or held is None else HeldStore(baton.repo).read(place, held)


def _checked_out(baton: Baton, stored: Stored, path: str, oid: Oid) -> bytes:
    """Return a blob as git wrote it into the work tree, by the attributes of then."""
    import tempfile

    repo, tree = baton.repo, tree_of(baton, stored)
    local = attributes_at(repo, stored.checkpoint.created) if not stored.foreign else None
    with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        then = Conversion(repo, folder, attribute_files(repo, tree), local)
        result = then.git.run("cat-file", "--filters", f"--path={path}", oid)
    if result.code:
        raise GitError(f"{path_in_quotes(path)} cannot be shown: {result.fatal()}", *mends(result))
    return result.out


def _names(baton: Baton, tree: Oid) -> tuple[str, ...]:
    listed = entries_of(baton.repo.objects, tree)
    if listed is None:
        raise GitError(f"tree {tree} cannot be read", MENDS)
    return tuple(os.fsdecode(e.name) + "/" * e.is_tree for e in listed)


def _from_top(baton: Baton, path: str, directory: str | None) -> str:
    """Return a path as trees have it; empty for the top. Raises NotFoundError for one outside of the work tree."""
    place = path.rstrip("/") if path != "/" else path
    if path.split("/")[0] in (".", ".."):
        top = baton.repo.layout.root or ""
        inside = os.path.relpath(os.path.realpath(directory or os.curdir), os.path.realpath(top)) if top else ""
        place = posixpath.normpath(posixpath.join(inside, path))
    if place.split("/")[0] == ".." or os.path.isabs(place):
        raise NotFoundError(
            f"{path_in_quotes(path)} is outside of the work tree", "a path is seen from the top of the work tree"
        )
    return "" if place == "." else place


def _missing(baton: Baton, stored: Stored, path: str, directory: str | None) -> NotFoundError:
    """Return the error for a path that a checkpoint does not have, with the reason and hints."""
    objects, tree, name = baton.repo.objects, stored.tree, baton.short(stored.id)
    root, here = baton.repo.layout.root or "", path_in_quotes(path)
    _names(baton, tree)  # one that cannot be read holds no one knows what
    for place in (*parents(path), path):
        above = lookup(objects, tree, os.fsencode(place))
        if above is not None and above.is_tree:
            _names(baton, above.oid)
        if above is not None and above.mode == _COMMIT:
            there = os.path.join(root, place)
            hints = []
            if root and os.path.lexists(os.path.join(there, ".git")):
                inside = path[len(place) + 1 :]
                spec = f"{above.oid}:{inside}" if inside else above.oid
                hints = [f"git -C {in_shell(os.path.relpath(there, directory or os.curdir))} show {in_shell(spec)}"]
            said = f"{path_in_quotes(place)} is a repository of its own: checkpoint '{name}' holds its commit {above.oid}"
            return NotFoundError(f"{said}, and none of its files", *hints)
        if above is not None and not above.is_tree and place != path:
            return _no_folder(baton, stored, place)
    on_disk = bool(root) and os.path.lexists(os.path.join(root, path))
    reason = _reason(baton, stored, path)
    if reason is not None:
        return NotFoundError(f"checkpoint '{name}' does not hold {here}: it {left_out(reason)}", *_taken_in(root, path, reason))
    said = f"there is no {here} in checkpoint '{name}' of track {in_quotes(stored.checkpoint.track)}"
    beneath = _beneath(baton, stored, path, directory)
    if beneath is not None:
        spelled = f"{name}:{beneath}"
        return NotFoundError(said, f"git baton show {in_shell(spelled)}")
    if (other := _elsewhere(baton, stored, path)) is not None:
        spelled = f"{baton.short(other)}:{path}"
        return NotFoundError(said, f"another one has it: git baton show {in_shell(spelled)}")
    if on_disk and baton.repo.git.run("check-ignore", "-q", "--", f"./{path}").code == 0:
        word = in_shell(os.path.relpath(os.path.join(root, path), directory or os.curdir))
        return NotFoundError(f"{said}: git ignores it", f"'git check-ignore -v -- {word}' says why")
    return NotFoundError(said, *([f"it is in the work tree: {_TAKES}"] if on_disk else []))


def _no_folder(baton: Baton, stored: Stored, path: str) -> NotFoundError:
    return NotFoundError(f"{path_in_quotes(path)} is a file in checkpoint '{baton.short(stored.id)}', and no folder")


def _reason(baton: Baton, stored: Stored, path: str) -> str | None:
    """Return the reason for which a snapshot left a path out; None where it names none."""
    files = stored.checkpoint.files
    left = {s.path: s.reason for s in files.skipped} if files else {}
    if files and files.skipped_more:
        left |= dict.fromkeys(paths_beside(baton.store, stored, IGNORED.encode()) or (), IGNORED)
    return covered(path, left)


def _taken_in(root: str, path: str, reason: str) -> list[str]:
    """Return the hints by which the next snapshot takes in what was left out for a reason."""
    if reason == "excluded":
        if names_secrets(path):
            return ["'git baton help secrets' lists what is left out by its name"]
        return ["'git config --show-origin --get-all baton.exclude' says what names it"]
    if reason == "too-large":
        try:
            size = os.lstat(os.path.join(root, path)).st_size
        except OSError:
            return []
        return [f"for snapshots to take it in: git config baton.maxFileSize {(size >> 20) + 1}m"]
    if reason == "too-much":
        return [_TAKES]
    if reason == IGNORED:
        include = f":(top){path}"
        return [f"to take it in: git baton snapshot 'what is done' --include {in_shell(include)}"]
    return []


def _beneath(baton: Baton, stored: Stored, path: str, directory: str | None) -> str | None:
    """Return the path as seen from the current directory, where the checkpoint has that one."""
    root = baton.repo.layout.root
    inside = os.path.relpath(os.path.realpath(directory or os.curdir), os.path.realpath(root)) if root else "."
    if inside.split("/")[0] in (".", ".."):
        return None
    found = lookup(baton.repo.objects, stored.tree, os.fsencode(os.path.join(inside, path)))
    return f"./{path}" if found is not None else None


def _elsewhere(baton: Baton, stored: Stored, path: str) -> Oid | None:
    """Return the nearest checkpoint of the chain that has a path: the newest below, else the oldest above."""
    git, c, words = baton.repo.git, stored.checkpoint, ("rev-list", "--first-parent")
    spec = ("--", f":(top,literal){path}")
    gone = git.run(*words, "--max-count=1", stored.commit, *spec).out.decode("ascii").split()
    after = git.run(*words, chain_ref(c.track), f"^{stored.commit}", *spec).out.decode("ascii").split()
    before = [commit for oid in gone for commit in baton.repo.objects.first_parents(oid, 2)[1:]]
    for commit in (*before, *after[-1:]):
        tree = baton.store.tree_of(commit)
        if tree is not None and lookup(baton.repo.objects, tree, os.fsencode(path)) is not None:
            return baton.store.stored(baton.repo.objects.read(commit), c.track, commit).id
    return None
