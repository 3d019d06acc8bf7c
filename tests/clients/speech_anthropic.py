"""Anthropic's Messages API, as Claude Code speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.model import Answer, Kind, Reply, as_events, as_json, strings

COMPACTING = "CRITICAL: Respond with TEXT ONLY"


class Messages:
    """``/v1/messages``, streamed or whole."""

    def kind(self, path: str, body: Any) -> Kind | None:
        """A request without tools is no turn of the conversation."""
        if path.split("?")[0] != "/v1/messages" or not isinstance(body, dict):
            return None
        last = "\n".join(strings(body["messages"][-1]))
        if COMPACTING in last:
            return "summary"
        return "turn" if body.get("tools") else "side"

    def other(self, method: str, path: str, body: Any) -> Answer | None:
        """Token counts, and the list of models."""
        bare = path.split("?")[0]
        if bare == "/v1/messages/count_tokens":
            return as_json({"input_tokens": 1_000})
        if bare == "/v1/models":
            return as_json({"data": [], "has_more": False, "first_id": None, "last_id": None})
        return as_json({}) if method == "HEAD" else None

    def say(self, path: str, body: Any, reply: Reply, number: int) -> Answer:
        """A message of text and at most one call of a tool."""
        blocks: list[dict[str, Any]] = [{"type": "text", "text": reply.text}]
        if reply.tool:
            blocks.append({"type": "tool_use", "id": f"toolu_{number:024d}", "name": reply.tool, "input": reply.arguments})
        stop = "tool_use" if reply.tool else "end_turn"
        usage = {"input_tokens": reply.used, "output_tokens": 10, "cache_creation_input_tokens": 0}
        usage["cache_read_input_tokens"] = 0
        message = {"id": f"msg_{number:024d}", "type": "message", "role": "assistant", "model": body["model"]}
        message |= {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        if not body.get("stream"):
            return as_json({**message, "content": blocks, "stop_reason": stop})
        return as_events(_events(message, blocks, stop), named=True)


def _events(message: dict[str, Any], blocks: list[dict[str, Any]], stop: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append({"type": "message_delta", "delta": delta, "usage": {**message["usage"], "output_tokens": 10}})
    return [*events, {"type": "message_stop"}]
