"""The process of ``git baton mcp``: what it writes, how it ends, what it says without the SDK; and tools without a server."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gitbaton.base.model import Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.cli.mcpserver.tools import TOOLS, ToolCall
from tests.kit import Sandbox
from tests.kit.tiers import some

HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


class Raw:
    """The server as a process, and its lines as they are."""

    def __init__(self, place: Path, **more: Any) -> None:
        words = [sys.executable, "-m", "gitbaton", "mcp"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(words, cwd=place, **{**pipes, **more})
        self.lines: list[Any] = []

    def send(self, line: bytes | dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, number: int, method: str, **params: Any) -> Any:
        """A request and its answer; whatever comes before it must be a message, too."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        assert self.process.stdout is not None
        while True:
            self.lines.append(json.loads(self.process.stdout.readline()))
            assert self.lines[-1]["jsonrpc"] == "2.0"
            if self.lines[-1].get("id") == number:
                return self.lines[-1].get("result", self.lines[-1].get("error"))

    def begin(self) -> None:
        """The handshake."""
        assert self.ask(0, "initialize", **HELLO)["serverInfo"]["name"] == "gitbaton"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def end(self) -> tuple[int, bytes, bytes]:
        """Close standard input; exit status, what was still written, and standard error."""
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


@pytest.mark.deep
def test_nothing_but_messages_on_standard_output(repo: Sandbox) -> None:
    repo.git("config", "filter.noisy.clean", "echo noise >&2; cat")
    repo.git("config", "core.fsmonitor", "echo noise")
    repo.write(".gitattributes", "*.txt filter=noisy\n")
    raw = Raw(repo.path)
    raw.begin()
    raw.send(b"this is no message\n\n{}\n[]\n\xff\xfe\n" + b'{"jsonrpc": "2.0", "id": 7, "method": "no/such"}\n')
    repo.write("a.txt", "changed\n")
    for number, (tool, given) in enumerate(
        (("snapshot", {"track": "t", "step": "s"}), ("diff", {}), ("log", {}), ("show", {"checkpoint": "x"})), 10
    ):
        assert raw.ask(number, "tools/call", name=tool, arguments=given)["isError"] == (tool == "show")
    raw.send(
        b'{"jsonrpc": "2.0", "id": 20, "method": "tools/call", "params": {"name": "log", "arguments": {"track": "\\ud800"}}}\n'
    )
    assert raw.ask(21, "ping") == {}
    assert (
        raw.ask(22, "tools/call", name="show", arguments={"checkpoint": "t"})["structuredContent"]["checkpoint"]["step"] == "s"
    )
    code, out, err = raw.end()
    assert (code, err) == (0, b"")
    assert all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())


@pytest.mark.full
@some("handshake", [True, False])
def test_the_end_of_standard_input_ends_it(repo: Sandbox, handshake: bool) -> None:
    raw = Raw(repo.path)
    if handshake:
        raw.begin()
        repo.write("a.txt", "changed\n")
        given = {"name": "snapshot", "arguments": {"track": "t", "step": "the last call"}}
        raw.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given})
    code, out, err = raw.end()
    assert (code, err) == (0, b"") and all(json.loads(line)["jsonrpc"] == "2.0" for line in out.splitlines())
    repo.fsck()


@pytest.mark.deep
def test_closed_standard_streams(repo: Sandbox) -> None:
    closed = Raw(repo.path, stdin=None, preexec_fn=lambda: os.close(0))
    assert closed.end() == (0, b"", b"")
    nobody = Raw(repo.path)
    nobody.begin()
    assert nobody.process.stdout is not None
    nobody.process.stdout.close()
    nobody.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert nobody.process.stdin is not None and nobody.process.stderr is not None
    nobody.process.stdin.close()
    # Whether the answer is written before the end of input is seen is a race; either is a clean end.
    assert nobody.process.wait(60) in (0, 141) and nobody.process.stderr.read() == b""
    nobody.process.stderr.close()


@pytest.mark.deep
@some("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_leaves_nothing(repo: Sandbox, tmp_path: Path, number: int) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    repo.ok("snapshot", "--track", "t", "--step", "s")
    repo.git("config", "filter.slow.clean", "touch began; sleep 0.3; cat")
    repo.write(".git/info/attributes", "*.txt filter=slow\n")
    repo.write("a.txt", "changed\n")
    raw = Raw(repo.path, env={**os.environ, "TMPDIR": str(tmp)})
    raw.begin()
    given = {"name": "diff", "arguments": {}}
    raw.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": given})
    while not (repo.path / "began").exists():
        assert raw.process.poll() is None
    raw.process.send_signal(number)
    assert raw.process.wait(60) == 128 + number
    assert raw.end()[2] == b"" and not list(tmp.iterdir())


@pytest.mark.deep
@pytest.mark.parametrize("broken", ["mcp/__init__.py", "mcp_types/__init__.py"])
def test_without_the_extra(repo: Sandbox, tmp_path: Path, broken: str) -> None:
    shadow = tmp_path / "shadow" / broken
    shadow.parent.mkdir(parents=True)
    shadow.write_text("raise ModuleNotFoundError(\"No module named 'it'\")\n")
    done = repo.baton("mcp", env={"PYTHONPATH": str(tmp_path / "shadow")})
    said = "fatal: the MCP server needs the Python package 'mcp': No module named 'it'\nhint: pip install 'gitbaton[mcp]'\n"
    assert (done.code, done.out, done.err) == (128, "", said)


def test_the_sdk_is_imported_by_no_other_verb(repo: Sandbox) -> None:
    code = "import sys, gitbaton.cli.commands.mcp, gitbaton.cli.mcpserver.tools; print(*sys.modules)"
    loaded = {*repo.run(sys.executable, "-c", code).out.split()}
    assert "gitbaton.cli.mcpserver.tools" in loaded and not {"mcp", "anyio", "pydantic"} & loaded


class Fetched(Baton):
    """A repository whose checkpoints all were fetched."""

    def tip(self, track: str | None = None) -> Stored:
        return replace(super().tip(track), foreign=True)

    def resolve(self, name: str | None = "@", track: str | None = None) -> Stored:
        return replace(super().resolve(name, track), foreign=True)


@pytest.mark.parametrize("name", ["resume", "show", "diff"])
def test_what_is_foreign_is_marked_and_quoted(repo: Sandbox, name: str) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one\ntwo", "--note", "> n", "--next-cmd", "rm -rf x")
    repo.write("a.txt", "changed\n")
    tool = next(t for t in TOOLS if t.name == name)
    with Fetched(repo.path, door="binary") as baton:
        answer = tool.run(baton, ToolCall(given=tool.check({"track": "t"}), place=str(repo.path)))
    head, mark, *rows = answer.text.split("\n")
    assert head.startswith("checkpoint ") and mark.startswith("this checkpoint is foreign: ")
    free = [row for row in rows if not row.startswith("> ")]
    assert len(rows) > 5 and set(free) <= {
        "'verify' says how HEAD and the files have moved since",
        "against the work tree as it is now",
    }
    checkpoint = answer.document.get("checkpoint")
    assert name == "diff" or (isinstance(checkpoint, dict) and checkpoint["foreign"] is True)


@pytest.mark.deep
@some("name", [tool.name for tool in TOOLS if tool.name != "revert"], 2)  # without a turn it has no answer
def test_a_tool_that_only_reads_changes_nothing(repo: Sandbox, name: str) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.write("a.txt", "changed\n")
    tool = next(t for t in TOOLS if t.name == name)
    before = _everything(repo)
    given = {"track": "t", **({"step": "s"} if name == "snapshot" else {})}
    for _ in range(2):
        with Baton(repo.path, door="binary") as baton:
            tool.run(baton, ToolCall(given=tool.check(given), place=str(repo.path)))
        if not tool.writes or name == "resume":
            assert _everything(repo) == before
    assert tool.writes or _everything(repo) == before
    assert tool.again == (name != "snapshot") and (name != "snapshot" or _everything(repo) != before)


def _everything(repo: Sandbox) -> dict[str, bytes]:
    """All but what is remembered of how the files of LATEST looked."""
    seen = repo.path / ".git/baton/latest"
    return {str(p): p.read_bytes() for p in repo.path.rglob("*") if p.is_file() and p != seen}
