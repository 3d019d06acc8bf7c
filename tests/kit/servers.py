"""Real git servers on loopback: sshd, git http-backend behind the standard library's server, git daemon, and bad ones."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

SSHD = shutil.which("sshd") or next((p for p in ("/usr/sbin/sshd", "/usr/local/sbin/sshd") if os.path.exists(p)), None)
LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        return int(found.getsockname()[1])


def wait_for(port: int, seconds: float = 10.0) -> None:
    """Until somebody answers there."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((LOOPBACK, port), 1).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.02)


def bare(path: Path, *options: str, **config: str) -> Path:
    """An empty bare repository; ``receive_denyDeletes="true"`` is a setting of it."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", *options, str(path)], check=True, capture_output=True)
    for key, text in config.items():
        subprocess.run(["git", "-C", str(path), "config", key.replace("_", "."), text], check=True)
    return path


def hook(path: Path, name: str, script: str) -> None:
    """A hook of a bare repository, in sh."""
    target = path / "hooks" / name
    target.parent.mkdir(exist_ok=True)
    target.write_text("#!/bin/sh\n" + script)
    target.chmod(0o755)


REFUSES_OURS = """while read old new ref; do
case $ref in refs/baton/*|refs/notes/*) echo "no refs of robots here"; echo "see the handbook"; exit 1;; esac; done"""
REFUSES_REWRITING = """# an update hook: ref old new
case $2 in *[!0]*) ;; *) exit 0;; esac
case $3 in *[!0]*) ;; *) echo "nothing is deleted here"; exit 1;; esac
test "$(git merge-base "$2" "$3")" = "$2" || { echo "no rewriting here"; exit 1; }"""


@contextmanager
def _process(argv: list[str], port: int, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    sink = subprocess.DEVNULL
    child = subprocess.Popen(argv, stdout=sink, stderr=sink, start_new_session=True, **options)
    try:
        wait_for(port)
        yield child
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@contextmanager
def git_daemon(base: Path, *, writable: bool = True) -> Iterator[str]:
    """``git daemon`` for everything below a folder; its URL."""
    port = free_port()
    words = ["--enable=receive-pack"] if writable else []
    program = os.path.join(subprocess.check_output(["git", "--exec-path"], text=True).strip(), "git-daemon")
    argv = [program, "--export-all", "--reuseaddr", f"--listen={LOOPBACK}", f"--port={port}", f"--base-path={base}", *words]
    with _process([*argv, str(base)], port):
        yield f"git://{LOOPBACK}:{port}"


class _Backend(BaseHTTPRequestHandler):
    """``git http-backend`` as CGI. The server's ``password`` is asked for where there is one."""

    server: Any
    protocol_version = "HTTP/1.0"

    def log_message(self, *words: Any) -> None:
        """Nobody reads it."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            return self._serve(b"".join(iter(self._chunk, b"")))
        return self._serve(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def _chunk(self) -> bytes:
        size = int(self.rfile.readline().split(b";")[0], 16)
        data = self.rfile.read(size)
        self.rfile.readline()
        return data

    def _serve(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        if self.server.password and self.headers.get("Authorization") is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        env = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.base),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "REMOTE_ADDR": LOOPBACK,
            **({"REMOTE_USER": "somebody"} if self.server.writable else {}),
        }
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        rows = [row.decode().partition(": ") for row in head.split(b"\r\n")]
        status = next((text for key, _, text in rows if key == "Status"), "200 OK")
        self.send_response(int(status.split(" ")[0]))
        for key, _, text in rows:
            if key != "Status":
                self.send_header(key, text)
        self.end_headers()
        with suppress(BrokenPipeError):
            self.wfile.write(rest)


@contextmanager
def http_server(base: Path, *, writable: bool = True, password: bool = False) -> Iterator[str]:
    """``git http-backend`` behind ``http.server`` for everything below a folder; its URL."""
    server = ThreadingHTTPServer((LOOPBACK, 0), _Backend)
    server.base, server.writable, server.password = base, writable, password  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://{LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def silent_server() -> Iterator[str]:
    """A server that takes connections and never says a word; its URL."""
    with socket.socket() as listening:
        listening.bind((LOOPBACK, 0))
        listening.listen(8)
        yield f"git://{LOOPBACK}:{listening.getsockname()[1]}"


@contextmanager
def ssh_server(folder: Path) -> Iterator[tuple[str, str]]:
    """sshd with keys and configuration of its own; the URL of its root, and the ssh command that gets in."""
    assert SSHD is not None
    folder.mkdir(mode=0o700)
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    port = free_port()
    rows = [
        f"Port {port}",
        f"ListenAddress {LOOPBACK}",
        f'HostKey "{folder}/host"',
        f'AuthorizedKeysFile "{folder}/authorized"',
    ]
    rows += [f'PidFile "{folder}/pid"', "StrictModes no", "UsePAM no", "PasswordAuthentication no", "PermitRootLogin yes"]
    (folder / "config").write_text("\n".join(rows) + "\n")
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    options = f"-F /dev/null -i '{folder}/user' -o StrictHostKeyChecking=no -o 'UserKnownHostsFile=\"{folder}/known\"'"
    with _process([SSHD, "-D", "-f", str(folder / "config")], port):
        yield f"ssh://{getpass.getuser()}@{LOOPBACK}:{port}", f"ssh {options} -o IdentitiesOnly=yes"
