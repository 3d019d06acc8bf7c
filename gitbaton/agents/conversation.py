"""What the clients' transcripts look like: the one place that knows. Pure: bytes and values in, bytes and values out."""

from __future__ import annotations

import json
import re

Record = dict[str, object]

MAX_LINE = 8 << 20  # a longer line is kept, and never looked into
_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}\Z")


def record_of(line: bytes) -> Record | None:
    """The JSON object of one line of a transcript; None for anything else."""
    if len(line) > MAX_LINE or not line.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def message_id(agent: str, line: bytes) -> str | None:
    """The id of the message that a line of a client's transcript holds; None where it holds none."""
    record = record_of(line)
    if record is None:
        return None
    if agent == "codex":
        payload = record.get("payload")
        item = payload if record.get("type") == "response_item" and isinstance(payload, dict) else {}
        found = item.get("id") or item.get("call_id")
    else:
        found = record.get("uuid" if agent == "claude" else "id")
    return found if isinstance(found, str) and _ID.match(found) else None
