"""``git baton`` as a process of its own without the start of Python: forked from one that has the imports behind it.

Half of what a test waits for is typer being imported. What is forked has its own directory, environment, standard streams and
process id, and nothing of pytest. Only with GITBATON_TEST_FORKS=1, and never with ``--long``.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from typing import Any, NoReturn

_LIMIT = 128 << 10
_AT_START = ("PYTHON", "LC_", "LANG", "TYPER")  # what Python or typer reads when it starts
_INPUT = 32 << 10  # what a pipe takes while nobody reads it
_guard = threading.Lock()
_started: tuple[int, socket.socket, dict[str, str]] | None = None


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in env.items() if key.startswith(_AT_START)}


def _server(env: Mapping[str, str]) -> socket.socket | None:
    """The way to the process that forks; None where it would not be as one that begins with this environment."""
    global _started
    with _guard:
        if _started is None or _started[0] != os.getpid():
            here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            words = [sys.executable, "-P", __file__, str(there.fileno())]
            null = subprocess.DEVNULL
            process = subprocess.Popen(words, env=dict(env), pass_fds=[there.fileno()], stdin=null, stdout=null, cwd="/")
            there.close()
            _started = (os.getpid(), here, _at_start(env))
            atexit.register(_end, here, process)
        return _started[1] if _at_start(env) == _started[2] else None


def _end(server: socket.socket, process: subprocess.Popen[bytes]) -> None:
    server.close()  # what it forks for does not go on
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def forked(words: list[str], cwd: str, env: Mapping[str, str], stdin: bytes) -> tuple[int, bytes, bytes] | None:
    """Exit status, output and errors of ``git baton``; None where only a process from the beginning will do."""
    if sys.platform != "linux" or "GITBATON_TEST_FORKS" not in os.environ or len(stdin) > _INPUT or not os.path.isdir(cwd):
        return None
    asked = json.dumps({"words": words, "cwd": cwd, "env": dict(env)}).encode()
    server = _server(env) if len(asked) < _LIMIT else None
    if server is None:
        return None
    source, out, err, status = os.pipe(), os.pipe(), os.pipe(), os.pipe()
    try:
        os.write(source[1], stdin)
        os.close(source[1])
        theirs = [source[0], out[1], err[1], status[1]]
        socket.send_fds(server, [asked], theirs)
    except BrokenPipeError:
        for fd in (out[0], err[0], status[0]):
            os.close(fd)
        return None
    finally:
        for fd in theirs:
            os.close(fd)
    said = _all_of(out[0], err[0], status[0])
    return int(said[2]), said[0], said[1]


def _all_of(*fds: int) -> list[bytes]:
    """What is written into several pipes, each to its end."""
    said = dict.fromkeys(fds, b"")
    with selectors.DefaultSelector() as waiting:
        for fd in fds:
            waiting.register(fd, selectors.EVENT_READ)
        while waiting.get_map():
            for key, _ in waiting.select():
                chunk = os.read(key.fd, 1 << 16)
                said[key.fd] += chunk
                if not chunk:
                    waiting.unregister(key.fd)
                    os.close(key.fd)
    return [said[fd] for fd in fds]


def _serve(requests: socket.socket) -> NoReturn:
    """Fork for each request, until the other side is gone."""
    from importlib import import_module

    from gitbaton.commands import VERBS

    for name in ("main", "cli", "baton", *(f"commands.{verb}" for verb, _ in VERBS)):
        with contextlib.suppress(Exception):  # a verb of another name, or that does not run: it says so itself
            import_module(f"gitbaton.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, fds, _, _ = socket.recv_fds(requests, _LIMIT, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            requests.close()
            _attend(json.loads(data), fds)
        for fd in fds:
            os.close(fd)


def _attend(asked: dict[str, Any], fds: list[int]) -> NoReturn:
    """Run it in a further process and tell how that ended, whoever killed it."""
    child = os.fork()
    if child == 0:
        os.close(fds.pop())
        _become(asked, fds)
    for fd in fds[:3]:
        os.close(fd)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.write(fds[3], b"%d" % code)
    os._exit(0)


def _become(asked: dict[str, Any], fds: list[int]) -> NoReturn:
    """Be ``python -m gitbaton`` in that directory and environment."""
    try:
        for target, fd in enumerate(fds):
            os.dup2(fd, target)
            os.close(fd)
        os.chdir(asked["cwd"])
        os.environ.clear()
        os.environ.update(asked["env"])
        time.tzset()
        sys.argv = ["gitbaton", *asked["words"]]
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        from gitbaton.main import run

        run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
