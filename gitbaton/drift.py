"""Drift: a checkpoint's git state against the present one, as words of a closed list. Pure.

The list is in checkpoint_protocol.md. A new word counts as a move of HEAD, for which ``verify`` exits 1 and hooks warn, unless
``model.Drift.moved`` leaves it out. What is compared is gathered by survey.py.
"""

from __future__ import annotations

from collections.abc import Callable

from gitbaton.model import Checkpoint, Drift, DriftWord, Head, Oid, Operation
from gitbaton.values import value


@value
class Ground:
    """The present, as far as one checkpoint needs it.

    ``home``: a note or a recorded rewrite says that HEAD is the checkpoint's commit under a new id. ``rewritten``: the
    checkpoint's commit is known to have become another one, and ``distance`` counts from that one. ``distance``: how many
    commits only HEAD has and only the checkpoint has; None without a common ancestor. ``exists``: the checkpoint's commit
    is in the repository. ``total``: how many commits HEAD reaches, asked only where the checkpoint had none.
    ``committed``: so many commits stand where just what was captured was committed, else 0. ``strange``: how many paths of
    those commits hold something else than what was captured, and ``strangers`` the first few of them, ready to be shown.
    ``changed``: how many paths of the work tree differ from the captured ones, 0 where they were not counted; ``named``:
    the first few of them, likewise.
    """

    head: Head
    operation: Operation | None
    home: bool = False
    rewritten: bool = False
    exists: bool = True
    distance: tuple[int, int] | None = (0, 0)
    total: int = 0
    committed: int = 0
    strange: int = 0
    strangers: tuple[str, ...] = ()
    changed: int = 0
    named: tuple[str, ...] = ()


def compare(then: Checkpoint, now: Ground, short: Callable[[Oid], str]) -> Drift:
    """How now differs from ``then``; ``short`` abbreviates ids for the sentences."""
    words = [*_branch(then, now), *_head(then, now, short), *_operation(then, now), *_files(now)]
    return Drift(words=tuple(words))


def _branch(then: Checkpoint, now: Ground) -> list[DriftWord]:
    if then.branch == now.head.branch:
        return []
    before = f"branch '{then.branch}'" if then.branch else "no branch (detached HEAD)"
    after = f"branch '{now.head.branch}'" if now.head.branch else "no branch (detached HEAD)"
    return [DriftWord(word="branch-switched", sentence=f"the checkpoint was on {before}; HEAD is on {after}")]


def _head(then: Checkpoint, now: Ground, short: Callable[[Oid], str]) -> list[DriftWord]:
    here = now.head.oid
    if here == then.head or now.home:
        return []
    if here is None:
        return [DriftWord(word="unborn", sentence="HEAD has no commit; the checkpoint stands on one")]
    if now.committed:
        said = f"HEAD {short(here)} is {_commits(now.committed)} ahead, with nothing but what was captured"
        return [DriftWord(word=f"committed:{now.committed}", sentence=said)]
    if then.head is None:
        said = f"the checkpoint stands on no commit; HEAD has {_commits(now.total)} ({short(here)}){_strange(now)}"
        return [DriftWord(word=f"head-ahead:{now.total}", sentence=said)]
    was = short(then.head)
    if not now.exists:
        said = f"the checkpoint's commit {was} is not in this repository; HEAD is {short(here)}"
        return [DriftWord(word="head-missing", sentence=said)]
    where = _distance(now.distance, _strange(now), f"the checkpoint's commit {was}", short(here)) if now.distance else []
    unrelated = []
    if now.distance is None:
        said = f"HEAD {short(here)} and the checkpoint's commit {was} have no common ancestor"
        unrelated = [DriftWord(word="head-unrelated", sentence=said)]
    return where + (_rewritten(was) if now.rewritten else []) + unrelated


def _rewritten(was: str) -> list[DriftWord]:
    said = f"the checkpoint's commit {was} was rewritten (amend or rebase); distances count from its successor"
    return [DriftWord(word="head-rewritten", sentence=said)]


def _strange(now: Ground) -> str:
    """What in the commits is not what was captured."""
    if not now.strange:
        return ""
    count = "1 path" if now.strange == 1 else f"{now.strange} paths"
    return f"; {count} came from elsewhere than the checkpoint: {_some(now.strange, now.strangers)}"


def _distance(distance: tuple[int, int], strange: str, was: str, here: str) -> list[DriftWord]:
    ahead, behind = distance
    if ahead and behind:
        said = f"HEAD {here} and {was} have diverged: {_commits(ahead)} only on HEAD, {_commits(behind)} only there"
        return [DriftWord(word=f"head-diverged:{ahead}/{behind}", sentence=said)]
    if ahead:
        said = f"HEAD {here} is {_commits(ahead)} ahead of {was}{strange}"
        return [DriftWord(word=f"head-ahead:{ahead}", sentence=said)]
    if behind:
        return [DriftWord(word=f"head-behind:{behind}", sentence=f"HEAD {here} is {_commits(behind)} behind {was}")]
    return []


def _operation(then: Checkpoint, now: Ground) -> list[DriftWord]:
    before = then.files.operation.kind if then.files and then.files.operation else None
    after = now.operation.kind if now.operation else None
    if before == after:
        return []
    if after is None:
        said = f"the {before} that was in progress at the checkpoint is over"
        return [DriftWord(word="operation:none", sentence=said)]
    return [DriftWord(word=f"operation:{after}", sentence=f"a {after} is in progress")]


def _files(now: Ground) -> list[DriftWord]:
    if not now.changed:
        return []
    differ = "path differs" if now.changed == 1 else "paths differ"
    said = f"{now.changed} {differ} from the captured work tree: {_some(now.changed, now.named)}"
    return [DriftWord(word=f"files-changed:{now.changed}", sentence=said)]


def _some(count: int, named: tuple[str, ...]) -> str:
    more = count - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _commits(count: int) -> str:
    return f"{count} commit" if count == 1 else f"{count} commits"
