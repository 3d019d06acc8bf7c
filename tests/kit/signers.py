"""Keys to sign with, made for a test, and whom a repository trusts."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.kit.repos import Sandbox

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here to sign with")
needs_gpg = pytest.mark.skipif(shutil.which("gpg") is None, reason="there is no gpg here to sign with")


def ssh_key(folder: Path, name: str) -> Path:
    """A key without a passphrase; its public half lies beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True)
    return path


def signs_with(repo: Sandbox, key: Path, who: str = "author@example.com") -> None:
    """Have a repository sign its checkpoints with an SSH key."""
    repo.git("config", "user.email", who)
    repo.git("config", "gpg.format", "ssh")
    repo.git("config", "user.signingKey", str(key))
    repo.git("config", "baton.sign", "true")


def trusts(repo: Sandbox, keys: Mapping[str, Path]) -> None:
    """Have a repository trust these keys, by the address of whom each is, and no others."""
    lines = [f'{who} namespaces="git" {Path(f"{key}.pub").read_text()}' for who, key in keys.items()]
    path = repo.path / ".git" / "allowed"
    path.write_text("".join(lines))
    repo.git("config", "gpg.ssh.allowedSignersFile", str(path))
