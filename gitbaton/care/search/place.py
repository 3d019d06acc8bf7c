"""The place of the search index: where it is, and that it goes, or follows the refs, where something was removed."""

from __future__ import annotations

import os
from contextlib import suppress

from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.store.state import SEARCH_INDEX
from gitbaton.git.repo import drop


def path_of(baton: Baton) -> str:
    """Return where the search index of a repository is."""
    return os.path.join(baton.repo.shared_dir, SEARCH_INDEX)


def discard(baton: Baton) -> None:
    """Remove the index, with all that it holds; the next search makes it anew. Never raises."""
    for tail in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            drop(baton.repo, path_of(baton) + tail)
