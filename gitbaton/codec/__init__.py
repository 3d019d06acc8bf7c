"""Values to bytes and back: canonical JSON, commit messages, note entries, track names. Pure; no git, no I/O."""

from gitbaton.codec.checkpoint import (
    EXTRA_KEY,
    ROOT_MESSAGE,
    decode,
    document,
    encode,
    message,
    parse_transcript,
    payload,
    transcript_text,
)
from gitbaton.codec.notes import Note, entry, parse_note, short, track_in
from gitbaton.codec.observed import read_told, told_bytes, told_document
from gitbaton.codec.reader import path_document, path_of
from gitbaton.codec.text import Json, canonical, counted, first_line, is_control, parse, plain, timestamp
from gitbaton.codec.tracks import check_track, decode_track, encode_track

__all__ = [
    "EXTRA_KEY",
    "ROOT_MESSAGE",
    "Json",
    "Note",
    "canonical",
    "check_track",
    "counted",
    "decode",
    "decode_track",
    "document",
    "encode",
    "encode_track",
    "entry",
    "first_line",
    "is_control",
    "message",
    "parse",
    "parse_note",
    "parse_transcript",
    "path_document",
    "path_of",
    "payload",
    "plain",
    "read_told",
    "short",
    "timestamp",
    "told_bytes",
    "told_document",
    "track_in",
    "transcript_text",
]
