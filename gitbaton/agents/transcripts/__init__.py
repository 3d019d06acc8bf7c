"""Conversations: how far one had come; its content, redacted, in chunks in git, where that is wanted; and both read back.

``record`` gives a position and perhaps stores; ``position``, ``read`` and ``original`` give back what a checkpoint knows.
"""

from gitbaton.agents.transcripts.layout import CHUNK, MAX_STORED, chunks, sessions_of, transcript_ref
from gitbaton.agents.transcripts.storing import LITTLE, PART, Mode, behind, original, position, read, record

__all__ = [
    "CHUNK",
    "LITTLE",
    "MAX_STORED",
    "PART",
    "Mode",
    "behind",
    "chunks",
    "original",
    "position",
    "read",
    "record",
    "sessions_of",
    "transcript_ref",
]
