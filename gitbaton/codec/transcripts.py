"""Position of a conversation as a checkpoint's text: ``bytes=N lines=N last=ID stored=COMMIT``."""

from __future__ import annotations

import re

from gitbaton.model import Transcript

_FORM = re.compile(
    r"bytes=(0|[1-9][0-9]{0,14}) lines=(0|[1-9][0-9]{0,14})"
    r"(?: last=([A-Za-z0-9._:-]{1,128}))?(?: stored=([0-9a-f]{40}|[0-9a-f]{64}))?\Z"
)
_LAST = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def transcript_text(transcript: Transcript) -> str:
    """The text of a position; an id of other characters than ``A-Za-z0-9._:-``, or of more than 128, is left out."""
    last = f" last={transcript.last}" if transcript.last and _LAST.match(transcript.last) else ""
    stored = f" stored={transcript.stored}" if transcript.stored else ""
    return f"bytes={transcript.size} lines={transcript.lines}{last}{stored}"


def parse_transcript(text: str | None) -> Transcript | None:
    """The position in such a text; None for any other text, which a stranger may have written."""
    match = _FORM.match(text or "")
    if match is None:
        return None
    size, lines, last, stored = match.groups()
    return Transcript(size=int(size), lines=int(lines), last=last, stored=stored)
