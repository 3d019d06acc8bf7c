"""The official MCP client against ``git-baton mcp`` as a process, at any place; and that process's lines as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, Implementation, TextContent

T = TypeVar("T")
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


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


class Raw:
    """The server as a process, and its lines as they are."""

    def __init__(self, place: Path, **more: Any) -> None:
        words = [sys.executable, "-m", "gitbaton", "mcp"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(words, cwd=place, **{**pipes, **more})
        self.lines: list[Any] = []

    def send(self, line: bytes | dict[str, Any] | list[Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, **params: Any) -> Any:
        """A request and its answer; whatever comes before it must be a message, too."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            self.lines.append(json.loads(self.process.stdout.readline()))
            if isinstance(self.lines[-1], list):
                continue
            assert self.lines[-1]["jsonrpc"] == "2.0"
            if self.lines[-1].get("id") == number:
                return self.lines[-1].get("result", self.lines[-1].get("error"))

    def begin(self, version: str = "2025-06-18") -> Any:
        """The handshake, and its result."""
        done = self.ask(0, "initialize", **{**HELLO, "protocolVersion": version})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return done

    def told(self, line: bytes | dict[str, Any]) -> list[Any]:
        """What a line is answered with, before a ping that follows it is."""
        self.send(line if isinstance(line, dict) else line + b"\n")
        before = len(self.lines)
        assert self.ask(9999, "ping") == {}
        return self.lines[before:-1]

    def end(self) -> tuple[int, bytes, bytes]:
        """Close standard input; exit status, what was still written, and standard error."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def ended(self) -> tuple[int, bytes]:
        """The exit status of what ends by itself, and standard error."""
        code = self.process.wait(60)
        assert self.process.stdin is not None and self.process.stdout is not None and self.process.stderr is not None
        err = self.process.stderr.read()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            stream.close()
        return code, err
