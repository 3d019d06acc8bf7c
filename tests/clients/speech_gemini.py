"""Google's generateContent API, as Gemini CLI speaks it."""

from __future__ import annotations

from typing import Any

from tests.clients.model import Answer, Kind, Reply, as_events, as_json, strings

COMPACTING = "state_snapshot"


class Generate:
    """``models/NAME:generateContent`` and ``:streamGenerateContent``."""

    def kind(self, path: str, body: Any) -> Kind | None:
        """A request without tools is no turn of the conversation."""
        if not path.split("?")[0].endswith(("enerateContent",)) or not isinstance(body, dict):
            return None
        if any(COMPACTING in text for text in strings(body.get("systemInstruction"))):
            return "summary"
        return "turn" if body.get("tools") else "side"

    def other(self, method: str, path: str, body: Any) -> Answer | None:
        """Token counts."""
        return as_json({"totalTokens": 1_000}) if path.split("?")[0].endswith(":countTokens") else None

    def say(self, path: str, body: Any, reply: Reply, number: int) -> Answer:
        """A content of text and at most one call of a function."""
        parts: list[dict[str, Any]] = [{"text": reply.text}]
        if reply.tool:
            parts.append({"functionCall": {"id": f"call_{number}", "name": reply.tool, "args": reply.arguments}})
        usage = {"promptTokenCount": reply.used, "candidatesTokenCount": 10, "totalTokenCount": reply.used + 10}
        content = {"role": "model", "parts": parts}
        whole = {"candidates": [{"index": 0, "content": content, "finishReason": "STOP"}], "usageMetadata": usage}
        whole["modelVersion"] = path.split("/")[-1].split(":")[0]
        return as_events([whole]) if ":stream" in path else as_json(whole)
