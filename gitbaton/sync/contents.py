"""Contents that git does not carry: pointers in what a push sends, and the content that git-lfs sends before it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence

from gitbaton.baton import Baton
from gitbaton.codec import in_quotes
from gitbaton.errors import RemoteError
from gitbaton.git.objectlists import contents, reachable, sizes
from gitbaton.git.questions import matching
from gitbaton.git.remotes import Connection
from gitbaton.model import Oid
from gitbaton.render import first_few, in_shell, some
from gitbaton.scanning.unfiltered import behind
from gitbaton.values import value
from gitbaton.worktree.gate import ANNEX, DVC, LFS, MOST, OTHER, kept_by, lfs_oid

_REFS = 5  # that a line names
_CRYPT = "git-crypt"  # its content is in git, and may look like anything


@value
class Pointer:
    """A file in what is sent whose content is not in git: what keeps it, as in gitbaton.worktree.gate, the filter that it
    stands behind, if any, and git-lfs' id of it."""

    path: str
    keeper: str
    driver: str = ""
    oid: str = ""


def pointers(baton: Baton, wants: Sequence[Oid], haves: Sequence[Oid]) -> list[Pointer]:
    """The pointers that are reachable from ``wants`` and not from ``haves``. Raises GitError."""
    objects = baton.repo.objects
    paths = {oid: path for oid, path in reachable(baton.repo, wants, haves).items() if path}
    small = [item for item in sizes(objects, list(paths)) if item.kind == "blob" and item.size <= MOST]
    found = [(paths[item.oid], kept_by(paths[item.oid], data), data) for item, data in contents(objects, small)]
    found = [row for row in found if row[1]]
    asked = sorted({os.fsdecode(path) for path, keeper, _ in found if keeper in (LFS, OTHER)})
    drivers = behind(baton.repo, asked, wants) if asked else {}
    rows = []
    for path, keeper, data in found:
        name = os.fsdecode(path)
        driver = drivers.get(name, "")
        if keeper in (ANNEX, DVC) or (driver and not driver.startswith(_CRYPT)):
            rows.append(Pointer(path=name, keeper=keeper, driver=driver, oid=lfs_oid(data)))
    return rows


def sendable(baton: Baton, found: Sequence[Pointer]) -> list[str]:
    """The ids of what git-lfs has here, where there is one that may send it."""
    skips = os.environ.get("GIT_LFS_SKIP_PUSH", "").lower() in ("1", "true", "t", "yes", "on")
    if skips or shutil.which("git-lfs") is None or not any(pointer.oid for pointer in found):
        return []
    common = baton.repo.layout.common_dir
    place = ([text for _, text in matching(baton.repo, r"^lfs\.storage$")] or ["lfs"])[-1]
    folder = os.path.join(common, place, "objects")
    oids = dict.fromkeys(pointer.oid for pointer in found if pointer.oid)
    return [oid for oid in oids if os.path.isfile(os.path.join(folder, oid[:2], oid[2:4], oid))]


def send(line: Connection, oids: Sequence[str], place: str) -> None:
    """Send contents by git-lfs to where the refs are to go. Raises RemoteError, which says how to do without."""
    said = line.send_lfs(oids, place) if oids else ""
    if said:
        hint = f"GIT_LFS_SKIP_PUSH=1 git baton push {in_shell(line.remote.shown)} leaves it here"
        raise RemoteError(
            f"nothing is pushed: git-lfs does not send the content of files to {in_quotes(line.remote.shown)}: {said}", hint
        )


def staying(found: Sequence[Pointer], oids: Sequence[str], there: str, refs: Sequence[str], *, hooked: bool) -> list[str]:
    """Warnings that name the files whose content is not sent, and what sends it. ``refs``: those that are sent; ``hooked``: a
    pre-push hook of the user's sees to what other filters keep."""
    words = " ".join(map(in_shell, (there, *refs[:_REFS])))
    told = {
        ANNEX: f"git-annex keeps it; 'git annex copy --to {in_shell(there)}' sends it",
        DVC: "DVC keeps it; 'dvc push' sends it",
        LFS: f"git-lfs keeps it, and it is not sent: 'git lfs push {words}' sends what is here",
    }
    groups: dict[str, list[str]] = {}
    for pointer in found:
        if pointer.oid in oids or (hooked and pointer.keeper == OTHER):
            continue
        why = told.get(pointer.keeper, f"the filter '{pointer.driver}' seems to keep it elsewhere")
        groups.setdefault(why, []).append(pointer.path)
    return [f"the content of {some(len(paths), first_few(paths))} does not go along: {why}" for why, paths in groups.items()]
