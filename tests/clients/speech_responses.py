"""OpenAI's Responses API, as Codex speaks it."""

from __future__ import annotations

import json
from typing import Any

from tests.clients.model import Answer, Kind, Reply, as_events, as_json, strings

COMPACTING = "CONTEXT CHECKPOINT COMPACTION"


class Responses:
    """``/v1/responses``, always streamed."""

    def kind(self, path: str, body: Any) -> Kind | None:
        """A request without tools is no turn of the conversation."""
        if path.split("?")[0] != "/v1/responses" or not isinstance(body, dict):
            return None
        if any(COMPACTING in text for text in strings(body["input"][-1])):
            return "summary"
        scripts = any(item.get("type") == "additional_tools" for item in body["input"])
        return "turn" if body.get("tools") or scripts else "side"

    def other(self, method: str, path: str, body: Any) -> Answer | None:
        """An empty list of models."""
        return as_json({"object": "list", "data": [], "models": []}) if path.split("?")[0] == "/v1/models" else None

    def say(self, path: str, body: Any, reply: Reply, number: int) -> Answer:
        """A message, and at most one call of a tool: with a text as argument it is a free-form one."""
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        items: list[dict[str, Any]] = [{"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [part]}]
        call = {"call_id": f"call_{number}", "name": reply.tool, **({"namespace": reply.space} if reply.space else {})}
        if reply.tool and isinstance(reply.arguments, str):
            items.append({"type": "custom_tool_call", "id": f"ctc_{number}", **call, "input": reply.arguments})
        elif reply.tool:
            arguments = json.dumps(reply.arguments)
            items.append({"type": "function_call", "id": f"fc_{number}", **call, "arguments": arguments})
        usage = {"input_tokens": reply.used, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 10}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": reply.used + 10}
        response = {"id": f"resp_{number}", "object": "response", "status": "in_progress", "output": []}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": response}]
        for index, item in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": index, "item": item})
            events.append({"type": "response.output_item.done", "output_index": index, "item": item})
        whole = {**response, "status": "completed", "output": items, "usage": usage, "end_turn": not reply.tool}
        events.append({"type": "response.completed", "response": whole})
        return as_events(events, named=True)
