"""The process of ``git baton mcp``: what it writes, how it ends, what it needs; and tools without a server."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from gitbaton.base.model import Stored
from gitbaton.base.values import replace
from gitbaton.checkpoints.baton import Baton
from gitbaton.cli.commands.mcptools import TOOLS, ToolCall
from tests.kit import Sandbox
from tests.kit.mcp import Raw
from tests.kit.tiers import some


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
def test_it_needs_nothing_but_what_gitbaton_needs(repo: Sandbox, tmp_path: Path) -> None:
    for name in ("mcp", "mcp_types", "anyio", "pydantic", "starlette", "httpx"):
        (tmp_path / f"{name}.py").write_text("raise ModuleNotFoundError('not here')\n")
    raw = Raw(repo.path, env={**os.environ, "PYTHONPATH": str(tmp_path)})
    raw.begin()
    assert {tool["name"] for tool in raw.ask(1, "tools/list")["tools"]} == {tool.name for tool in TOOLS}
    assert raw.ask(2, "tools/call", name="snapshot", arguments={"track": "t", "step": "s"})["isError"] is False
    assert raw.end() == (0, b"", b"")


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
@some("name", [t.name for t in TOOLS if t.name not in ("revert", "merge", "undo", "redo")], 2)  # of which there is nothing
def test_a_tool_that_only_reads_changes_nothing(repo: Sandbox, name: str) -> None:
    repo.ok("snapshot", "--track", "t", "--step", "one")
    repo.write("a.txt", "changed\n")
    tool = next(t for t in TOOLS if t.name == name)
    before = _everything(repo)
    more = {"snapshot": {"step": "s"}, "search": {"text": "one"}, "why": {"place": "a.txt:1"}}
    given = {**({"track": "t"} if "track" in tool.arguments["properties"] else {}), **more.get(name, {})}
    for _ in range(2):
        with Baton(repo.path, door="binary") as baton:
            tool.run(baton, ToolCall(given=tool.check(given), place=str(repo.path)))
        if name != "snapshot":
            assert _everything(repo) == before
    assert tool.again == (name != "snapshot") and (name != "snapshot" or _everything(repo) != before)


def _everything(repo: Sandbox) -> dict[str, bytes]:
    """All but what is remembered of how the files of LATEST looked, and the search index."""
    caches = ("latest", "search.sqlite")
    return {str(p): p.read_bytes() for p in repo.path.rglob("*") if p.is_file() and not p.name.startswith(caches)}
