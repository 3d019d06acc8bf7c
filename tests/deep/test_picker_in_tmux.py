"""The picker in tmux, and there over a real ssh: it draws, restores, and leaves the terminal as it was."""

from __future__ import annotations

import getpass
import shlex
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.places import PYTHON
from tests.kit.rewindkit import three
from tests.kit.servers import LOOPBACK, SSHD, ssh_server
from tests.kit.tmux import Tmux, needs_tmux

if find_spec("textual") is None:
    pytest.skip("the extra 'ui' is not installed", allow_module_level=True)


@needs_tmux
@pytest.mark.parametrize("far", [False, True], ids=["here", "ssh"])
def test_it_restores_and_leaves_the_terminal_as_it_was(repo: Sandbox, tmp_path: Path, far: bool) -> None:
    if far and SSHD is None:
        pytest.skip("no sshd (apt-get install openssh-server)")
    three(repo).write("a.txt", "spoilt\n")
    rewind = f"cd {shlex.quote(str(repo.path))} && {PYTHON} -m gitbaton rewind; echo code $?"
    with ExitStack() as stack:
        tmux = stack.enter_context(Tmux(repo, tmp_path, (80, 24)))
        modes, settings = tmux.modes(), tmux.settings()
        if far:
            url, ssh = stack.enter_context(ssh_server(tmp_path / "ssh"))
            place = f"-tt -p {url.rpartition(':')[2]} {getpass.getuser()}@{LOOPBACK}"
            rewind = f"exec {ssh} {place} {shlex.quote(rewind)}"
        (tmp_path / "start").write_text(f"{rewind}\n")
        tmux.type(f"clear; sh {shlex.quote(str(tmp_path))}/start", "Enter")
        for seen, *keys in (
            ("3 checkpoints", "Down"),
            ("second step", "3"),
            ("+spoilt", "Enter"),
            ("write    a.txt", "Enter"),
            ("done: restore of", "q"),
            ("code 0",),
        ):
            tmux.until(seen)
            if keys:
                tmux.type(*keys)
        assert (repo.path / "a.txt").read_text() == "one\ntwo\n"
        assert tmux.modes() == modes and tmux.settings() == settings
