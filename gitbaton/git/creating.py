"""Create a bare repository atomically: nobody sees half of one."""

from __future__ import annotations

import os

from gitbaton.errors import GitError
from gitbaton.git.run import Git, base_environment
from gitbaton.system.files import remove_folder, sync_paths


def create_bare(path: str, *, sync: bool = True) -> None:
    """A bare repository at ``path``, where nothing is or an empty folder; folders above are made. It is on disk when this
    returns, unless ``sync`` is False. Whoever else makes one there at the same time wins or loses whole. Raises GitError."""
    path = os.path.abspath(path)
    above = os.path.dirname(path)
    draft = f"{path}.{os.urandom(6).hex()}.new"
    changed = _missing(above)
    try:
        os.makedirs(above, exist_ok=True)
        Git(above, base_environment(strip_local=True)).out("init", "-q", "--bare", "--template=", "--", draft)
        if sync:
            sync_paths(os.path.join(top, name) for top, _, names in os.walk(draft) for name in (*names, ""))
        os.rename(draft, path)
        if sync:
            sync_paths(changed)
    except OSError as error:
        if not os.path.exists(os.path.join(path, "HEAD")):
            raise GitError(f"cannot create the repository '{path}': {error.strerror}") from None
    finally:
        remove_folder(draft)


def _missing(folder: str) -> list[str]:
    """A folder and those above it, up to the first that exists: what gets a new entry when it is made."""
    found = [folder]
    while not os.path.exists(found[-1]) and os.path.dirname(found[-1]) != found[-1]:
        found.append(os.path.dirname(found[-1]))
    return found
