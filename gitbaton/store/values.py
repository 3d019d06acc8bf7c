"""Results of reading tracks: histories, and the problems found in them."""

from __future__ import annotations

from types import MappingProxyType

from gitbaton.model import Oid, Stored
from gitbaton.values import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_COMMIT = 3 << 20  # bytes of a commit of ours that are read


@value
class Problem:
    """Something in our namespace that is not ours or breaks the format; ``where`` is a ref or a commit id."""

    where: str
    reason: str


@value
class History:
    """Checkpoints, newest first, and what could not be read among them; ``origins``: the remotes of those that only they have
    of tracks that exist here, too."""

    items: tuple[Stored, ...]
    problems: tuple[Problem, ...] = ()
    origins: Mapping[Oid, tuple[str, ...]] = MappingProxyType({})
