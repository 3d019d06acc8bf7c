"""The official MCP client against ``git-baton mcp`` as a process, at any place."""

from __future__ import annotations

import os
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Implementation, TextContent

T = TypeVar("T")


class Client:
    """A session, and tool calls in short."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session

    async def call(self, tool: str, /, **given: Any) -> CallToolResult:
        return await self.session.call_tool(tool, given)

    async def ok(self, tool: str, /, **given: Any) -> Any:
        """The structured content of a call that must succeed."""
        done = await self.call(tool, **given)
        assert not done.is_error, said(done)
        return done.structured_content

    async def fatal(self, tool: str, /, **given: Any) -> str:
        """What a call that must fail says."""
        done = await self.call(tool, **given)
        text = said(done)
        assert done.is_error and done.structured_content is None, text
        assert text.startswith("fatal: ") and "Traceback" not in text and "this is a bug" not in text, text
        return text


def said(done: CallToolResult) -> str:
    """The text of a result."""
    (content,) = done.content
    assert isinstance(content, TextContent)
    return content.text


def talk(
    place: Path, steps: Callable[[Client], Awaitable[T]], *options: str, name: str = "tester", env: dict[str, str] | None = None
) -> T:
    """Start a server at a place, do the steps, end it; it must have said nothing on standard error."""
    noise = place.parent / "stderr"
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "gitbaton", *options, "mcp"],
        cwd=place,
        env={**os.environ, **(env or {})},
    )

    async def main() -> T:
        with open(noise, "w", encoding="utf-8") as log:
            async with (
                stdio_client(server, errlog=log) as (reader, writer),
                ClientSession(reader, writer, client_info=Implementation(name=name, version="1")) as session,
            ):
                await session.initialize()
                return await steps(Client(session))

    result = anyio.run(main)
    assert noise.read_text(encoding="utf-8") == ""
    return result
