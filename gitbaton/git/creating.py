"""A new, bare repository, complete from the moment that anybody can see it."""

from __future__ import annotations

import os

from gitbaton.errors import GitError
from gitbaton.git.folders import remove
from gitbaton.git.run import Git, base_environment


def create_bare(path: str) -> None:
    """A bare repository at ``path``, where nothing is or an empty folder; folders above are made. Whoever else makes one there
    at the same time wins or loses whole. Raises GitError."""
    path = os.path.abspath(path)
    above = os.path.dirname(path)
    draft = f"{path}.{os.urandom(6).hex()}.new"
    try:
        os.makedirs(above, exist_ok=True)
        Git(above, base_environment(strip_local=True)).out("init", "-q", "--bare", "--template=", "--", draft)
        os.rename(draft, path)
    except OSError as error:
        if not os.path.exists(os.path.join(path, "HEAD")):
            raise GitError(f"cannot create the repository '{path}': {error.strerror}") from None
    finally:
        remove(draft)
