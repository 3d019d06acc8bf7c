"""OpenAI's chat completions, as OpenCode and Copilot speak them to a provider of one's own."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.model import Answer, Kind, Reply, as_events, as_json, strings


class Chat:
    """``/v1/chat/completions``, streamed or whole; ``compacting``: words by which the client asks for a summary."""

    def __init__(self, compacting: str) -> None:
        self.compacting = compacting

    def kind(self, path: str, body: Any) -> Kind | None:
        """A request without tools is no turn of the conversation."""
        if path.split("?")[0] != "/v1/chat/completions" or not isinstance(body, dict):
            return None
        ends = [body["messages"][0], body["messages"][-1]]
        if any(self.compacting in text for text in strings(ends)):
            return "summary"
        return "turn" if body.get("tools") else "side"

    def other(self, method: str, path: str, body: Any) -> Answer | None:
        """A list of one model."""
        models = {"object": "list", "data": [{"id": "stub", "object": "model", "created": 0, "owned_by": "test"}]}
        return as_json(models) if path.split("?")[0] == "/v1/models" else None

    def say(self, path: str, body: Any, reply: Reply, number: int) -> Answer:
        """A message of text and at most one call of a function."""
        message: dict[str, Any] = {"role": "assistant", "content": reply.text}
        if reply.tool:
            function = {"name": reply.tool, "arguments": json.dumps(reply.arguments)}
            message["tool_calls"] = [{"index": 0, "id": f"call_{number}", "type": "function", "function": function}]
        end = "tool_calls" if reply.tool else "stop"
        usage = {"prompt_tokens": reply.used, "completion_tokens": 10, "total_tokens": reply.used + 10}
        common = {"id": f"chatcmpl-{number}", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": end}
            return as_json({**common, "object": "chat.completion", "choices": [choice], "usage": usage})
        chunk = {**common, "object": "chat.completion.chunk"}
        events = [
            {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": end}]},
            {**chunk, "choices": [], "usage": usage},
        ]
        return as_events(events, done=True)
