"""Two hundred pairs of changes in two work trees: the first prompt tells what ``git merge`` of the same states stops at."""

from __future__ import annotations

import os
import re
from pathlib import Path

from gitbaton.agents.hooks.overlapping import overlapping
from gitbaton.checkpoints.overlap import live, overlaps
from gitbaton.checkpoints.render import path_in_line
from tests.kit import Sandbox
from tests.kit.pairs import PAIRS, Sides


def test_every_conflict_is_foretold_and_nothing_that_merges(tmp_path: Path) -> None:
    assert len(PAIRS) >= 200 and len({pair.name for pair in PAIRS}) == len(PAIRS)
    sides = Sides(tmp_path)
    sides.box.git("config", "merge.mine.driver", "true")
    boxes = []
    for name in ("api", "web"):
        sides.box.git("worktree", "add", "-q", "--detach", str(tmp_path / name))
        boxes.append(Sandbox(tmp_path / name))
    wrong, stopped = list[tuple[str, set[str] | None, list[str]]](), 0
    for pair in PAIRS:
        commits = []
        for box, act in zip(boxes, (pair.ours, pair.theirs), strict=True):
            act(sides.back(box))
            with box.open() as baton:
                tree = baton.snapshot(pair.name, track=box.path.name).stored.tree
            commits.append(sides.box.git("commit-tree", "-p", sides.base, "-m", "side", tree))
        with boxes[0].open() as baton:
            rows, _, late = overlapping(baton.repo, "api", "", print, seconds=600)
            found = overlaps(baton, live(baton)).of("api")
        assert not late, pair.name
        judged = sides.judged(*commits)
        stopped += judged is not None
        named = {file.mine.path for one in found for file in one.files} | {f.other.path for one in found for f in one.files}
        plain = {re.sub(r"~.*", "", path) for path in judged or ()}  # git names the sides of a file and a folder
        if bool(rows) != (judged is not None) or not _covered(plain, named):
            wrong.append((pair.name, judged, list(rows)))
        wrong += [(pair.name, judged, [row]) for row in rows if not any(row.startswith(path_in_line(path)) for path in named)]
    assert not wrong
    assert 60 < stopped < len(PAIRS) - 60
    assert os.listdir(boxes[0].path)


def _covered(judged: set[str], named: set[str]) -> bool:
    """Whether what git names is told; of a file under two new names the one that it had is enough."""
    return not judged or bool(judged & named)
