"""Talk with another program over its standard streams, one JSON message a line, within a time limit."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from gitbaton.errors import BatonError, GitTimeoutError
from gitbaton.system.process import begin, spawn

_MOST = 16 << 20


class Peer:
    """A program that answers requests (JSON-RPC, one message a line); it is ended when the ``with`` block is left.

    Raises BatonError when it cannot be started, ends, answers with an error or does not answer before the time is over.
    """

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], seconds: float) -> None:
        self.name, self.deadline = os.path.basename(argv[0]), time.monotonic() + seconds
        self._number, self._rest, self._size = 0, b"", 0
        mine_in, self._out = os.pipe()
        self._in, mine_out = os.pipe()
        null = os.open(os.devnull, os.O_WRONLY)
        try:
            self.pid = spawn(argv, env, mine_in, mine_out, null)
        except BaseException:
            os.close(self._in)
            os.close(self._out)
            raise
        finally:
            for fd in (mine_in, mine_out, null):
                os.close(fd)
        os.set_blocking(self._out, False)

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._out)
        os.close(self._in)
        for number, patience in ((0, 2.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, None)):
            if number:
                os.kill(self.pid, number)
            until = time.monotonic() + patience if patience else None
            while os.waitpid(self.pid, os.WNOHANG if until else 0)[0] == 0:
                if until and time.monotonic() > until:
                    break
                time.sleep(0.01)
            else:
                return

    def notify(self, method: str) -> None:
        """Say something that has no answer."""
        self._send({"method": method})

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """The result of a request; what else the program says meanwhile is passed over."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive()
            if not isinstance(message, dict) or message.get("id") != self._number or "method" in message:
                continue
            result = message.get("result")
            if isinstance(result, dict):
                return result
            error = message.get("error")
            said = error.get("message") if isinstance(error, dict) else None
            raise BatonError(f"'{self.name}' refused {method}: {' '.join(str(said or 'it gave no reason').split())[:200]}")

    def _wait(self, fd: int, event: int) -> None:
        poll = select.poll()
        poll.register(fd, event)
        if not poll.poll(max(0, int((self.deadline - time.monotonic()) * 1000))):
            raise BatonError(f"'{self.name}' did not answer in its time and was stopped")

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps(message).encode() + b"\n"
        while data:
            self._wait(self._out, select.POLLOUT)
            try:
                data = data[os.write(self._out, data) :]
            except BlockingIOError:
                continue
            except BrokenPipeError:
                raise BatonError(f"'{self.name}' ended before it was asked") from None

    def _receive(self) -> Any:
        """The next message; None for a line that is none."""
        while b"\n" not in self._rest:
            self._wait(self._in, select.POLLIN)
            chunk = os.read(self._in, 1 << 16)
            self._size += len(chunk)
            if not chunk or self._size > _MOST:
                raise BatonError(f"'{self.name}' {'says too much' if chunk else 'ended without an answer'}")
            self._rest += chunk
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return None


def says(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> str | None:
    """What a program prints; None when it fails. Raises BatonError when it cannot be started or takes too long."""
    try:
        result = begin(argv, env, seconds).finish()
    except GitTimeoutError:
        raise BatonError(f"'{argv[0]}' did not end in its time and was stopped") from None
    return os.fsdecode(result.out) if result.code == 0 else None
