"""Cursor, from documents only: it could not be run."""

from __future__ import annotations

from collections.abc import Mapping

from gitbaton.agents.client import Client, Fields, Hook


class Cursor(Client):
    """Cursor. Of its conversations nothing is known."""

    name = "cursor"
    title = "Cursor"
    programs = ("cursor", "cursor-agent")
    shape = "flat"
    project = ".cursor/hooks.json"
    folder = ".cursor"
    user = "hooks.json"
    version = True
    trust = "it reads a project's hooks only in a workspace that you trust"
    remarks = ("experimental: written after its documentation, never run against the program",)
    events = {
        "sessionStart": ("start", "full"),
        "beforeSubmitPrompt": ("prompt", "no"),
        "afterFileEdit": ("edit", "no"),
        "postToolUse": ("edit", "flagged"),
        "preCompact": ("compact", "no"),
        "stop": ("turn", "no"),
        "sessionEnd": ("end", "no"),
    }
    hooks = tuple(Hook(event=event) for event in events)
    places = ("CURSOR_PROJECT_DIR",)

    def told(self, fields: Fields, env: Mapping[str, str]) -> dict[str, object] | None:
        """Return what a payload says; of the folders of the workspace the first is where the agent works."""
        roots = fields.get("workspace_roots")
        return {
            "session": fields.get("conversation_id") or fields.get("session_id"),
            "cwd": roots[0] if isinstance(roots, list) and roots else None,
            "transcript": fields.get("transcript_path"),
            "prompt": fields.get("prompt"),
            "source": fields.get("source"),
        }

    def answer(self, name: str, text: str) -> object:
        """A field at the top."""
        return {"additional_context": text}


CLIENT = Cursor()
