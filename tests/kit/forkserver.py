"""Python processes at the price of a fork: a server has the libraries loaded, one for the command line our modules, too.

What runs in one is what ``python -m gitbaton`` or ``python -c`` would run, with its own environment, directory, streams and
exit; only the start of the interpreter and imports have happened before. Where ``PATIENT`` is set its clock goes slowly: no
limit of time is over, however busy the machine is. With ``GITBATON_TEST_PROCESSES=1`` each is a process from the start; CI
runs some verbs so, and what a command imports is measured in processes of its own.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

# What Python, or a library that is loaded already, reads when it starts.
FIXED = ("PYTHON", "LC_", "LANG", "TYPER_", "_TYPER", "COVERAGE", "LD_")
MEASURED = "COVERAGE_PROCESS_START"
LATE = ("pygit2", "_pygit2", "langgraph", "mcp", "textual", "rich")
LIBRARIES = "typer typer.core typer.main click json subprocess shutil hashlib datetime difflib contextlib tempfile threading"
PATIENT, _TIMES = "GITBATON_TEST_PATIENT", 30
_MOST = 1 << 17
_lock = threading.Lock()
_servers: dict[tuple[str, str], tuple[int, socket.socket, Mapping[str, str]]] = {}  # of a module, wherever it is found


class Ended(NamedTuple):
    """How a process ended: exit status (negative: the signal), standard output, standard error."""

    code: int
    out: bytes
    err: bytes


def python(
    words: Sequence[str], cwd: str, env: Mapping[str, str], stdin: bytes = b"", *, session: bool = False, seconds: float = 600
) -> Ended:
    """Run ``python WORDS`` (``-m MODULE ...`` or ``-c CODE ...``), perhaps in a session of its own."""
    module = words[1] if list(words[:2]) == ["-m", "gitbaton"] else ""
    server = None if os.environ.get("GITBATON_TEST_PROCESSES") else _connect(env, module)
    mask = os.umask(0o022)
    os.umask(mask)
    asked = {"words": list(words), "cwd": os.fspath(cwd), "env": dict(env), "session": session, "umask": mask}
    message = json.dumps(asked).encode("utf-8", "surrogateescape")
    if server is None or len(message) > _MOST // 2 or len(stdin) > 1 << 15 or words[0] not in ("-m", "-c"):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=cwd,
            env=env,
            input=stdin,
            capture_output=True,
            start_new_session=session,
            timeout=seconds,
        )
        return Ended(done.returncode, done.stdout, done.stderr)
    ends = [os.pipe() for _ in range(4)]  # input, output, errors, exit status
    try:
        os.write(ends[0][1], stdin)
        given = array.array("i", [ends[0][0], ends[1][1], ends[2][1], ends[3][1]])
        server.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, given)])
    finally:
        for fd in (ends[0][0], ends[0][1], ends[1][1], ends[2][1], ends[3][1]):
            os.close(fd)
    out, err, status = _read([ends[1][0], ends[2][0], ends[3][0]], words, seconds)
    assert status, "the server of processes has ended"
    return Ended(int(status), out, err)


def _read(fds: list[int], words: Sequence[str], seconds: float) -> list[bytes]:
    """All that comes through pipes until their ends."""
    found: dict[int, list[bytes]] = {fd: [] for fd in fds}
    deadline = time.monotonic() + seconds
    with selectors.DefaultSelector() as selector:
        for fd in fds:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(list(words), seconds)
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                found[key.fd].append(block)
                if not block:
                    selector.unregister(key.fd)
    for fd in fds:
        os.close(fd)
    return [b"".join(blocks) for blocks in found.values()]


def _fixed(env: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in env.items() if k.startswith(FIXED)}


def _connect(env: Mapping[str, str], module: str) -> socket.socket | None:
    """This process's server for a module; None for an environment that must be there from the start."""
    with _lock:
        key = (module, env.get("PYTHONPATH", ""))
        found = _servers.get(key)
        if found is None or found[0] != os.getpid():
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MOST)
            words = [sys.executable, os.path.abspath(__file__), str(theirs.fileno()), module]
            plain = {name: value for name, value in env.items() if name != MEASURED}
            process = subprocess.Popen(words, env=plain, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
            theirs.close()
            atexit.register(_end, os.getpid(), ours, process)
            found = _servers[key] = (os.getpid(), ours, _fixed(env))
        return found[1] if _fixed(env) == found[2] else None


def _end(owner: int, ours: socket.socket, process: subprocess.Popen[bytes]) -> None:
    if os.getpid() == owner:
        ours.close()
        process.wait()


def serve(control: socket.socket) -> list[str]:
    """Fork for each request; only a child that is to run something returns, with the words."""
    ends: dict[int, tuple[int, int]] = {}  # a child's pidfd: its process id, and where its exit status goes
    with selectors.DefaultSelector() as selector:
        selector.register(control, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fd != control.fileno():
                    selector.unregister(key.fd)
                    child, status = ends.pop(key.fd)
                    os.write(status, str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
                    os.close(key.fd)
                    os.close(status)
                    continue
                data, fds, _, _ = socket.recv_fds(control, _MOST, 4)
                if not data:
                    os._exit(0)
                child = os.fork()
                if child:
                    for fd in fds[:3]:
                        os.close(fd)
                    watched = os.pidfd_open(child)
                    selector.register(watched, selectors.EVENT_READ)
                    ends[watched] = (child, fds[3])
                    continue
                for watched, (_, status) in ends.items():
                    os.close(watched)
                    os.close(status)
                selector.close()
                control.close()
                asked = json.loads(data.decode("utf-8", "surrogateescape"))
                become(asked, fds)
                return asked["words"]  # type: ignore[no-any-return]


class _Late:
    """Refuses what reads the environment, or is looked for anew, when it is imported."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in LATE:
            raise ModuleNotFoundError(name)


def preload(package: str) -> None:
    """Import every module of a package that needs none of the late libraries."""
    late = _Late()
    sys.meta_path.insert(0, late)
    top = importlib.import_module(package)
    for found in pkgutil.walk_packages(top.__path__, f"{package}.", onerror=lambda _: None):
        if not found.name.endswith("__main__"):
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
    sys.meta_path.remove(late)
    gc.collect()
    gc.freeze()


def become(asked: dict[str, object], fds: list[int]) -> None:
    """Take on the streams, the environment and the place of the process that was asked for."""
    for number, fd in enumerate(fds[:3]):
        os.dup2(fd, number)
    for fd in fds:
        os.close(fd)
    if asked["session"]:
        os.setsid()
    env, words = asked["env"], asked["words"]
    assert isinstance(env, dict) and isinstance(words, list)
    os.umask(int(str(asked["umask"])))
    os.chdir(str(asked["cwd"]))
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        lines = name == "stderr"
        new = open(number, "w" if number else "r", 1 if lines else -1, old.encoding, old.errors, closefd=False)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    if PATIENT in env:
        be_patient()
    if MEASURED in env:  # the server is not measured: what it does belongs to no test
        importlib.import_module("coverage").process_startup(force=True)
    sys.argv = [words[1] if words[0] == "-m" else "-c", *words[2:]]
    sys.path[0] = os.getcwd() if words[0] == "-m" else ""


def be_patient() -> None:
    """Let time pass slowly."""
    monotonic, begun, arm, armed = time.monotonic, time.monotonic(), signal.setitimer, signal.getitimer
    time.monotonic = lambda: begun + (monotonic() - begun) / _TIMES
    signal.setitimer = lambda which, seconds, interval=0.0: arm(which, seconds * _TIMES, interval * _TIMES)
    signal.getitimer = lambda which: (armed(which)[0] / _TIMES, armed(which)[1] / _TIMES)


def start(words: list[str]) -> None:
    """Run as Python does."""
    if words[0] == "-m":
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        exec(compile(words[1], "<string>", "exec"), {"__name__": "__main__", "__builtins__": __builtins__})  # noqa: S102


def main() -> None:
    """Be the server."""
    for name in LIBRARIES.split():
        importlib.import_module(name)
    if sys.argv[2]:
        preload(sys.argv[2])
    start(serve(socket.socket(fileno=int(sys.argv[1]))))


if __name__ == "__main__":
    main()
