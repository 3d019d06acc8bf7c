"""A real browser without a window, over a pipe: what a page draws, says and asks for."""

from __future__ import annotations

import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no chromium (apt-get install chromium)")
WAIT = 30.0


class Browser:
    """One tab of chromium; ``said``: what its console and its network told."""

    def __init__(self, folder: Path, dark: bool = False) -> None:
        ours, theirs, said, told = *os.pipe(), *os.pipe()
        os.set_inheritable(ours, True)
        os.set_inheritable(told, True)
        wrapper = f'exec "$@" 3<&{ours} 4>&{told}'
        words = [str(PROGRAM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe"]
        words += [f"--user-data-dir={folder}", *(["--force-dark-mode"] if dark else []), "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", wrapper, "bash", *words], pass_fds=(ours, told), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(ours)
        os.close(told)
        self.writer, self.reader, self.rest = theirs, said, b""
        self.ids, self.session = itertools.count(1), ""
        self.said: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.writer)
        os.close(self.reader)

    def ask(self, method: str, **given: Any) -> dict[str, Any]:
        """The answer to one call; what comes before it is kept in ``said``."""
        number = next(self.ids)
        message = {"id": number, "method": method, "params": given, **({"sessionId": self.session} if self.session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.writer, data) :]
        while True:
            heard = self._hear()
            if heard.get("id") == number:
                assert "error" not in heard, heard
                found: dict[str, Any] = heard["result"]
                return found
            self.said.append(heard)

    def _hear(self) -> dict[str, Any]:
        end = time.monotonic() + WAIT
        while b"\0" not in self.rest:
            assert select.select([self.reader], [], [], max(end - time.monotonic(), 0))[0], "the browser says nothing"
            data = os.read(self.reader, 1 << 16)
            assert data, "the browser is gone"
            self.rest += data
        message, _, self.rest = self.rest.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        return heard

    def open(self, path: Path) -> None:
        """Load a file and wait until it is drawn."""
        self.ask("Page.navigate", url=path.as_uri())
        while not any(heard.get("method") == "Page.loadEventFired" for heard in self.said):
            self.said.append(self._hear())
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, script: str) -> Any:
        """The value of an expression."""
        found = self.ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def key(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, **(text if kind == "keyDown" else {}))

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, and requests other than for the file itself."""
        told = []
        for heard in self.said:
            method, given = heard.get("method", ""), heard.get("params", {})
            if method in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
                told.append(json.dumps(given))
            if method == "Network.requestWillBeSent" and given["type"] != "Document":
                told.append(given["request"]["url"])
        return told
