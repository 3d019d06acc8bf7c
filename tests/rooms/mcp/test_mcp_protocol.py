"""The protocol of ``git baton mcp``: its versions, and what a client may send that no client should."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from gitbaton.cli.commands.mcp import HANDSHAKES, MAX_MESSAGE, STATELESS
from tests.kit import Sandbox
from tests.kit.mcp import Raw
from tests.kit.tiers import some

META = "io.modelcontextprotocol/"
ASKS = {
    f"{META}protocolVersion": STATELESS,
    f"{META}clientInfo": {"name": "new", "version": "1"},
    f"{META}clientCapabilities": {},
}
PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"'
# A line, and the code that it is answered with under which id; None: with nothing.
HOSTILE: tuple[tuple[bytes, tuple[int, Any] | None], ...] = (
    (b"no message", (-32700, None)),
    (b"{", (-32700, None)),
    (b"\xff\xfe", (-32700, None)),
    (b"\xef\xbb\xbf{}", (-32700, None)),
    (f'{PING}, "params": {{"x": NaN}}}}'.encode(), (-32700, None)),
    (f'{PING}, "params": {{"x": -Infinity}}}}'.encode(), (-32700, None)),
    (f'{PING}, "params": {{"x": {"9" * 5000}}}}}'.encode(), (-32700, None)),
    (f'{PING}, "params": {{"x": "\\ud800"}}}}'.encode(), (-32700, None)),
    (f'{PING}, "params": {{"\\udfff": 1}}}}'.encode(), (-32700, None)),
    (b"[" * 100_000, (-32700, None)),
    (b'{"a":' * 100_000, (-32700, None)),
    (b"", None),
    (b" \t\r", None),
    (b"5", (-32600, None)),
    (b"null", (-32600, None)),
    (b"[]", (-32600, None)),
    (b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', (-32600, None)),  # no version but one has batches
    (b"{}", (-32600, None)),
    (b'{"id": 1, "method": "ping"}', (-32600, 1)),
    (b'{"jsonrpc": "1.0", "id": "a", "method": "ping"}', (-32600, "a")),
    (b'{"jsonrpc": "2.0", "id": 2}', (-32600, 2)),
    (b'{"jsonrpc": "2.0", "id": 3, "method": 7}', (-32600, 3)),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', (-32600, None)),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', (-32600, None)),
    (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', (-32600, None)),
    (b'{"jsonrpc": "2.0", "id": [[1]], "method": "ping"}', (-32600, None)),
    (b'{"jsonrpc": "2.0", "id": 4, "method": "no/such"}', (-32601, 4)),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "resources/list"}', (-32601, 5)),
    (b'{"jsonrpc": "2.0", "id": 6, "method": "tools/list", "params": []}', (-32602, 6)),
    (b'{"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": 7}', (-32602, 7)),
    (b'{"jsonrpc": "2.0", "id": 8, "method": "initialize", "params": {"protocolVersion": 1}}', (-32602, 8)),
    (b'{"jsonrpc": "2.0", "method": "no/such"}', None),
    (b'{"jsonrpc": "2.0", "method": "tools/list"}', None),
    (b'{"jsonrpc": "2.0", "method": "notifications/cancelled"}', None),
    (b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": [{}]}}', None),
    (b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}}', None),
    (b'{"jsonrpc": "2.0", "id": 1, "result": {}}', None),  # nothing was asked
    (b'{"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}', None),
)
CALLS: tuple[tuple[Any, str], ...] = (
    (None, "'name' must be text, and 'arguments' an object"),
    ({"name": 5}, "'name' must be text, and 'arguments' an object"),
    ({"name": "log", "arguments": []}, "'name' must be text, and 'arguments' an object"),
    ({"name": "log", "arguments": "x"}, "'name' must be text, and 'arguments' an object"),
    ({"name": "no\x1b[2Jsuch" + "x" * 200}, "unknown tool 'no?[2Jsuch" + "x" * 50 + "'"),
)


def test_a_hostile_line_is_an_error_and_never_the_end(repo: Sandbox) -> None:
    raw = Raw(repo.path)
    raw.begin()
    for line, wanted in HOSTILE:
        answers = [(one["error"]["code"], one["id"]) for one in raw.told(line)]
        assert answers == ([] if wanted is None else [wanted]), line[:80]
    for number, (params, said) in enumerate(CALLS, 10):
        raw.send({"jsonrpc": "2.0", "id": number, "method": "tools/call", **({"params": params} if params else {})})
        assert raw.ask(99, "tools/call", name="log") and raw.lines[-2]["id"] == number
        assert raw.lines[-2]["error"] == {"code": -32602, "message": said}
    raw.send(b'{"jsonrpc": "2.0", "id": 2, "method": "ping", "params": null}\n')  # as some clients leave them out
    assert raw.ask(3, "tools/call", name="log", arguments=None)["isError"] is False
    assert raw.end() == (0, b"", b"")


@pytest.mark.deep
def test_a_line_without_an_end_costs_what_a_message_may(repo: Sandbox) -> None:
    raw = Raw(repo.path)
    raw.begin()
    for size in (MAX_MESSAGE - 1, MAX_MESSAGE, 2 * MAX_MESSAGE + 5):
        (answer,) = raw.told(b"x" * size)
        assert answer["error"]["code"] == -32700
    assert raw.lines[-2]["error"]["message"] == "this is no message: it has more than 16 MiB"
    assert raw.end() == (0, b"", b"")


@pytest.mark.deep
def test_every_version_is_spoken_and_an_unknown_one_becomes_the_newest(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    for version in (*HANDSHAKES, STATELESS, "2099-01-01", "x"):
        raw = Raw(repo.path)
        assert raw.ask(5, "tools/list")["message"] == "'initialize' comes first"
        assert raw.ask(6, "ping") == {}
        done = raw.begin(version)
        spoken = version if version in HANDSHAKES else HANDSHAKES[-1]
        assert (done["protocolVersion"], done["serverInfo"]["name"]) == (spoken, "gitbaton")
        assert "'resume'" in done["instructions"] and done["capabilities"] == {"tools": {"listChanged": False}}
        tools = raw.ask(1, "tools/list")["tools"]
        fields = {"name", "description", "inputSchema"} | ({"annotations"} if spoken > "2025" else set())
        fields |= {"outputSchema"} if spoken > "2025-06" else set()
        assert all(tool.keys() == fields for tool in tools)
        answer = raw.ask(2, "tools/call", name="log", arguments={})
        assert ("structuredContent" in answer) == ("outputSchema" in fields) and answer["content"][0]["text"].endswith("t: one")
        raw.send([raw_ping(1), {"jsonrpc": "2.0", "method": "x"}, 5, raw_call(2, "log")])
        if spoken == "2025-03-26":
            assert raw.ask(3, "tools/call", name="log") and [one["id"] for one in raw.lines[-2]] == [1, None, 2]
        else:
            assert [one["error"]["code"] for one in raw.told(b"")] == [-32600]
        assert raw.end() == (0, b"", b"")


def steps(repo: Sandbox) -> list[str]:
    return [c["step"] for c in repo.ok("log", "t", "--json").json["checkpoints"]]


def raw_ping(number: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": "ping"}


def raw_call(number: int, tool: str, **given: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": given}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def test_a_request_may_say_all_of_itself(repo: Sandbox) -> None:
    raw = Raw(repo.path)
    found = raw.ask(1, "server/discover", _meta=ASKS)
    assert (found["supportedVersions"], found["resultType"], found["cacheScope"]) == ([STATELESS], "complete", "public")
    assert raw.ask(2, "tools/list", _meta=ASKS)["tools"][0]["outputSchema"]
    done = raw.ask(3, "tools/call", name="snapshot", arguments={"track": "t", "step": "s"}, _meta=ASKS)
    assert done["structuredContent"]["checkpoint"]["agent"]["name"] == "new" and done["resultType"] == "complete"
    assert done["_meta"][f"{META}serverInfo"]["name"] == "gitbaton" and "ttlMs" not in done
    for method in ("ping", "no/such", "subscriptions/listen"):
        assert raw.ask(4, method, _meta=ASKS)["code"] == -32601
    for version in ("2099-01-01", "2025-11-25", 7, None, ["x"]):
        error = raw.ask(5, "tools/list", _meta={**ASKS, f"{META}protocolVersion": version})
        assert error["code"] == -32022 and error["data"] == {"supported": [STATELESS], "requested": str(version)}
    for wrong in ({**ASKS, f"{META}clientCapabilities": 5}, {f"{META}protocolVersion": STATELESS}):
        assert raw.ask(6, "tools/list", _meta=wrong)["code"] == -32602
    assert raw.ask(7, "tools/list", _meta=[])["code"] == -32602  # as before a handshake
    assert raw.begin()["protocolVersion"] == "2025-06-18"  # and one client may do both
    assert raw.ask(8, "tools/list")["tools"] and raw.ask(9, "server/discover")["code"] == -32601
    assert raw.end() == (0, b"", b"")


@pytest.mark.deep
@some("mode", ["auto", "legacy", STATELESS])
def test_the_official_client_of_either_kind_is_served(repo: Sandbox, mode: str) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "gitbaton", "mcp"], cwd=repo.path, env={**os.environ})

    async def main() -> tuple[Any, Any, Any]:
        async with Client(stdio_client(server), mode=mode) as client:
            listed, done = await client.list_tools(), await client.call_tool("snapshot", {"track": "t", "step": "s"})
            return client.protocol_version, listed, done

    version, listed, done = anyio.run(main)
    assert version == (HANDSHAKES[-1] if mode == "legacy" else STATELESS)
    assert listed.tools and done.structured_content["checkpoint"]["step"] == "s"


@pytest.mark.deep
def test_ids_that_are_there_twice_and_what_cancels_them(repo: Sandbox) -> None:
    repo.ok("snapshot", "--track", "t", "one")
    repo.git("config", "filter.slow.clean", "touch began; while [ ! -e go ]; do sleep 0.01; done; cat")
    repo.write(".git/info/attributes", "*.txt filter=slow\n")
    repo.write("a.txt", "changed\n")
    raw = Raw(repo.path)
    raw.begin()
    raw.send(raw_call(1, "diff"))
    while not (repo.path / "began").exists():
        assert raw.process.poll() is None
    for number in (2, 2, 3):
        raw.send(raw_call(number, "snapshot", track="t", step=f"call {number}", files=False))
    assert raw.told(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "3"}}') == []
    assert raw.told(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3.0}}') == []
    for number in (1, 3):  # the one is under way: its answer is dropped
        raw.told(f'{{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {{"requestId": {number}}}}}'.encode())
    (repo.path / "go").touch()
    raw.ask(9, "tools/call", name="log")
    assert [one["id"] for one in raw.lines if one["id"] in (1, 2, 3)] == [2, 2]
    assert raw.end() == (0, b"", b"") and steps(repo) == ["call 2", "call 2", "one"]


@pytest.mark.deep
def test_what_was_sent_before_the_end_is_carried_out(repo: Sandbox) -> None:
    raw = Raw(repo.path)
    raw.begin()
    for number in (1, 2):
        raw.send(raw_call(number, "snapshot", track="t", step=f"call {number}"))
    raw.send(json.dumps(raw_call(3, "log")).encode())  # without a line's end
    code, out, err = raw.end()
    assert (code, err) == (0, b"") and [json.loads(line)["id"] for line in out.splitlines()] == [1, 2, 3]
    assert steps(repo) == ["call 2", "call 1"]


@pytest.mark.deep
def test_a_client_that_reads_no_more_ends_it_after_the_call(repo: Sandbox) -> None:
    raw = Raw(repo.path)
    raw.begin()
    assert raw.process.stdout is not None
    raw.process.stdout.close()
    raw.send(raw_call(1, "snapshot", track="t", step="heard by nobody"))
    assert raw.ended() == (141, b"")
    assert steps(repo) == ["heard by nobody"]
    repo.fsck()


@pytest.mark.deep
def test_a_client_that_never_reads_is_left_by_a_signal(repo: Sandbox) -> None:
    raw = Raw(repo.path)
    raw.begin()
    for number in range(30):  # whose answers are more than a pipe holds
        raw.send({"jsonrpc": "2.0", "id": number, "method": "tools/list"})
    raw.process.send_signal(signal.SIGTERM)
    assert raw.ended() == (128 + signal.SIGTERM, b"")
