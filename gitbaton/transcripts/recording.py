"""Record a conversation at a hook's event: its position, and its content, redacted, where that is wanted."""

from __future__ import annotations

import os
from collections.abc import Callable

from gitbaton.agents.values import NAMES, Event
from gitbaton.baton import Baton
from gitbaton.errors import BatonError, ScanError
from gitbaton.model import Transcript
from gitbaton.transcripts.files import measure, opened, settle
from gitbaton.transcripts.layout import transcript_ref
from gitbaton.transcripts.proofs import forgotten
from gitbaton.transcripts.storing import keep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Mode = Literal["off", "position", "full"]
else:
    Mode = str


def record(
    baton: Baton, event: Event, mode: Mode, before: Transcript | None, warn: Callable[[str], None] | None = None
) -> Transcript | None:
    """How far the conversation that an event names has come, at a line's end; in mode ``full`` its content is stored, too.

    ``before`` is the last position of the same session: where the file goes on from it, only what follows is read. The last
    words of a turn are waited for, for a moment. None in mode ``off``, and where there is no regular file that can be read or
    it holds no whole line. Of a conversation that was forgotten everywhere nothing more is stored. What cannot be stored is
    told to ``warn``, and the position comes back without it.

    Raises ScanError, and has moved no ref, where content cannot be redacted: no checkpoint is to follow then either.
    """
    fd = opened(event.transcript) if mode != "off" else None
    if fd is None:
        return None
    try:
        settle(fd, event)
        if mode != "full" or event.session is None or event.agent not in NAMES:
            return measure(fd, event.agent, before)
        try:
            if forgotten(baton.repo, transcript_ref(event.agent, event.session)):
                return measure(fd, event.agent, before)
            found, said = keep(baton, fd, event.agent, event.session)
        except ScanError:
            raise
        except BatonError as error:
            found, said = measure(fd, event.agent, before), f"not stored: {error.message}"
        if said is not None and warn is not None:
            warn(f"the conversation is {said}")
        return found
    except (OSError, MemoryError):
        return None
    finally:
        os.close(fd)
