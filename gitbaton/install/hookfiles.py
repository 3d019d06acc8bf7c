"""Files that install writes: read and written whole, and remembered in a manifest, so that exactly they are taken back."""

from __future__ import annotations

import json
import os

from gitbaton.system.files import sync_paths, write_atomic

MARK = b"\n# gitbaton: 1\n"
_MAX = 1 << 20


def read(path: str, limit: int = _MAX) -> bytes | None:
    """The bytes of a file, at most ``limit`` (-1: all); None when it is not there or cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(limit)
    except OSError:
        return None


def is_ours(data: bytes | None) -> bool:
    """Whether the bytes of a hook carry our mark."""
    return data is not None and MARK in data[:200]


def digest(data: bytes) -> str:
    """What the manifest remembers of a file."""
    import hashlib

    return hashlib.sha256(data).hexdigest()


def write(path: str, data: bytes, mode: int) -> None:
    """Write a file whole or not at all, with its mode, and on disk. Raises OSError."""
    write_atomic(path, data, temporary=f"{path}.{os.getpid()}", mode=mode, sync=True, made=lambda fd: os.fchmod(fd, mode))


def keep(path: str, kept: str) -> None:
    """Let a hook have a second name before ours takes its place, so that it runs at every moment. Raises OSError."""
    try:
        os.link(path, kept, follow_symlinks=False)
    except OSError:  # a file system without hard links
        os.rename(path, kept)
    sync_paths([os.path.dirname(kept)])


class Manifest:
    """What install did: values of the configuration, hook files, folders. ``lost`` when no manifest can be read."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.lost = False
        self.config: list[tuple[str, str]] = []
        self.hooks: dict[str, str] = {}
        self.folders: list[str] = []
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                data = json.load(file)
            self.config = [(str(key), str(text)) for key, text in data["config"]]
            self.hooks = {str(path): str(digest) for path, digest in data["hooks"].items()}
            self.folders = [str(folder) for folder in data["folders"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            self.lost = True  # what is ours is then told by its marks alone

    def add_config(self, key: str, text: str) -> None:
        """Remember a value before it is added."""
        if (key, text) not in self.config:
            self.config.append((key, text))
            self._save()

    def add_hook(self, path: str, data: bytes) -> None:
        """Remember a hook file before it is written, and the folder that has to be made for it."""
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            self.folders.append(folder)
        self.hooks[path] = digest(data)
        self._save()
        os.makedirs(folder, exist_ok=True)

    def drop_config(self, key: str, text: str) -> None:
        """Forget a value that is ours no more."""
        if (key, text) in self.config:
            self.config.remove((key, text))
            self._save()

    def drop_hook(self, path: str) -> None:
        """Forget a hook file that is taken away."""
        if self.hooks.pop(path, None) is not None:
            self._save()

    def changed(self, path: str, data: bytes) -> bool:
        """Whether somebody edited a file that the manifest knows."""
        return path in self.hooks and self.hooks[path] != digest(data)

    def _save(self) -> None:
        os.makedirs(os.path.dirname(self.path), exist_ok=True)
        data = json.dumps({"v": 1, "config": self.config, "hooks": self.hooks, "folders": self.folders}, indent=2)
        write(self.path, data.encode("utf-8", "surrogateescape"), 0o644)
