"""Conversations: how far one had come; its content in chunks in git, where that is wanted; and both read back.

``record`` gives a position and perhaps stores; ``position`` and ``read`` give back what a checkpoint knows.
"""

from gitbaton.transcripts.layout import CHUNK, MAX_STORED, chunks, transcript_ref
from gitbaton.transcripts.reading import HINTS, position, read
from gitbaton.transcripts.recording import Mode, record
from gitbaton.transcripts.storing import PART

__all__ = ["CHUNK", "HINTS", "MAX_STORED", "PART", "Mode", "chunks", "position", "read", "record", "transcript_ref"]
