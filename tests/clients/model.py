"""A scripted model on 127.0.0.1: it records every request in order and answers what the test has written down."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal, Protocol

PATIENCE = 300.0
Kind = Literal["turn", "summary", "side"]
SUMMARY = "<analysis>Short.</analysis>\n<summary>The parser is being written; the model keeps nothing else.</summary>"


@dataclass(frozen=True)
class Reply:
    """What the model says: text, then perhaps one call of a tool; ``used`` is the tokens it claims to have read.

    ``never``: it says nothing, and keeps the client waiting. ``space``: the name of the tool's group, where it has one.
    """

    text: str = "All right."
    tool: str = ""
    arguments: Mapping[str, Any] | str = ""
    used: int = 1_000
    never: bool = False
    space: str = ""


@dataclass(frozen=True)
class Request:
    """A request as the client made it. ``turn``: part of the conversation; ``summary``: to compact it; ``side``: a title."""

    number: int
    kind: Kind
    path: str
    body: Any

    @property
    def text(self) -> str:
        """Every string of the body, one after the other."""
        return "\n".join(strings(self.body))


@dataclass(frozen=True)
class Answer:
    """What goes back over the wire."""

    content: bytes
    type: str = "application/json"
    status: int = 200


class Speech(Protocol):
    """One vendor's protocol."""

    def kind(self, path: str, body: Any) -> Kind | None:
        """What a posted body is for; None when it is no request to the model."""

    def other(self, method: str, path: str, body: Any) -> Answer | None:
        """The answer to everything that is no request to the model; None when there is no such thing."""

    def say(self, path: str, body: Any, reply: Reply, number: int) -> Answer:
        """The reply, as the protocol puts it."""


def strings(body: Any) -> Iterator[str]:
    """Every string in a JSON value, in order; keys are not."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, Mapping):
        for item in body.values():
            yield from strings(item)
    elif isinstance(body, Sequence):
        for item in body:
            yield from strings(item)


def as_json(value: Any) -> Answer:
    """A plain answer."""
    return Answer(json.dumps(value).encode())


def as_events(events: Sequence[Any], named: bool = False, done: bool = False) -> Answer:
    """Server-sent events; ``named``: each with its type as its name; ``done``: with the mark of the end."""
    lines = []
    for event in events:
        lines += [f"event: {event['type']}\n"] if named else []
        lines.append(f"data: {json.dumps(event)}\n\n")
    return Answer("".join([*lines, *(["data: [DONE]\n\n"] if done else [])]).encode(), "text/event-stream")


class Model:
    """The server's memory: what was asked, and what will be answered."""

    def __init__(self, speech: Speech, folder: Path) -> None:
        self.speech = speech
        self.folder = folder
        self.requests: list[Request] = []
        self.strays: list[str] = []
        self.url = ""
        self.over = threading.Event()
        self._script: list[Reply] = []
        self._parent, self._child = "", list[Reply]()
        self._lock = threading.Lock()

    def will_say(self, *replies: Reply) -> None:
        """The answers to the next turns; when none is left, a short text."""
        self._script += replies

    def child_will_say(self, prompt: str, *replies: Reply) -> None:
        """The answers to the turns of a subagent: those without the prompt that its parent was given."""
        self._parent, self._child = prompt, [*replies]

    @property
    def turns(self) -> list[Request]:
        """The requests that are part of the conversation."""
        return [r for r in self.requests if r.kind == "turn"]

    def await_turns(self, count: int) -> None:
        """Until so many of them have come."""
        deadline = time.monotonic() + PATIENCE
        while len(self.turns) < count:
            assert time.monotonic() < deadline, f"only {len(self.turns)} turns of {count}"
            time.sleep(0.02)

    @property
    def summaries(self) -> list[Request]:
        """The requests that compact the conversation."""
        return [r for r in self.requests if r.kind == "summary"]

    def hear(self, method: str, path: str, raw: bytes) -> Answer:
        """Answer one request of the client, and keep it."""
        with self._lock:
            body = _parsed(raw)
            kind = self.speech.kind(path, body) if method == "POST" else None
            if kind is None:
                answer = self.speech.other(method, path, body)
                if answer is None:
                    self.strays.append(f"{method} {path}")
                return answer or Answer(b'{"error": {"message": "not here", "type": "not_found"}}', status=404)
            request = Request(len(self.requests) + 1, kind, path, body)
            self.requests.append(request)
            name = f"{request.number:03d}-{kind}.json"
            (self.folder / name).write_text(json.dumps({"path": path, "body": body}, indent=1, ensure_ascii=False))
            reply = self._reply(request)
        if reply.never:
            self.over.wait()
        return self.speech.say(path, body, reply, request.number)

    def _reply(self, request: Request) -> Reply:
        if request.kind == "summary":
            return Reply(SUMMARY)
        script = self._script if not self._parent or self._parent in request.text else self._child
        return script.pop(0) if request.kind == "turn" and script else Reply()

    @property
    def left(self) -> int:
        """How many answers were not asked for."""
        return len(self._script) + len(self._child)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def answer(self) -> None:
        """Read one request whole, and send the model's answer."""
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        answer = self.server.model.hear(self.command, self.path, raw)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.type)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.content)

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_CONNECT = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are on disk."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    model: Model

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up early is no error of the model."""


@contextmanager
def serving(speech: Speech, folder: Path) -> Iterator[Model]:
    """A model that listens on a free port of 127.0.0.1 until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    model = Model(speech, folder)
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.model = model
        model.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield model
        finally:
            model.over.set()
            server.shutdown()
            thread.join()
