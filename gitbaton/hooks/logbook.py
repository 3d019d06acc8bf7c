"""What went wrong in a hook, for whoever looks for it later: ``<common dir>/baton/log``."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from gitbaton.codec import plain, timestamp
from gitbaton.errors import BatonError
from gitbaton.git.repo import add

TYPE_CHECKING = False
if TYPE_CHECKING:
    from gitbaton.git.repo import Repo

LOG_BYTES = 1 << 20


def log(repo: Repo, text: str) -> None:
    """One line in the log of the repository; a log over 1 MiB starts anew. Never raises."""
    path = os.path.join(repo.shared_dir, "log")
    try:
        if os.path.exists(path) and os.stat(path).st_size > LOG_BYTES:
            os.replace(path, path + ".old")
        add(repo, path, f"{timestamp(datetime.now(UTC))} {plain(text)}\n".encode("utf-8", "replace"))
    except (OSError, BatonError):
        pass
