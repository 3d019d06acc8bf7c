"""What delta channels are rebuilt from: the writes along a checkpoint's ancestors, back to the nearest stored value."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from langgraph.checkpoint.base import DeltaChannelHistory

    from gitbaton.langgraph.reading import Reader
    from gitbaton.threads.values import Row


def history(
    reader: Reader, thread: str, namespace: str, checkpoint: str | None, channels: Sequence[str]
) -> Mapping[str, DeltaChannelHistory]:
    """For each channel its writes before ``checkpoint`` (default: the newest), oldest first, and, where there is one, the value
    they begin at. Only what is asked for is decoded."""
    store = reader.store
    rows: dict[str, list[Sequence[Row]]] = {channel: [] for channel in channels}
    seeds: dict[str, Any] = {}
    target = store.entry(thread, namespace, checkpoint) if checkpoint else store.latest(thread, namespace)
    parent, met = target.parent if target else None, {target.id if target else ""}
    remaining = set(rows)
    while parent is not None and remaining and parent not in met:
        met.add(parent)
        entry = store.entry(thread, namespace, parent)
        if entry is None:
            break
        found = store.rows(thread, namespace, entry)
        for channel in [*remaining]:
            if own := [row for row in found if row[3] == channel]:
                rows[channel].append(own)
            if channel in entry.channels:
                seeds[channel] = reader.value(entry, channel)
                remaining.discard(channel)
        parent = entry.parent
    result: dict[str, DeltaChannelHistory] = {}
    for channel in rows:
        writes = [write for own in reversed(rows[channel]) for write in reader.writes(own)]
        result[channel] = {"writes": writes, "seed": seeds[channel]} if channel in seeds else {"writes": writes}
    return result
