"""The parts that install puts into files: hooks in settings, a plugin, the skill, a block in AGENTS.md. Pure."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection

from gitbaton.agents.clients import Client
from gitbaton.agents.settings import BOM, Edit, MalformedError
from gitbaton.errors import BatonError
from gitbaton.install import agentmerge
from gitbaton.install.agentmerge import Found, Merged
from gitbaton.install.files import digest, read

SKILL_MARK = "<!-- gitbaton:skill -->"
PLUGIN_MARK = "// gitbaton:plugin"
BEGIN, END = "<!-- gitbaton:begin -->", "<!-- gitbaton:end -->"
NONE = Found(count=0, tracks=())
_TRACK = re.compile(r"^const TRACK = (null|\"(?:[^\"\\\n]|\\.)*\")$", re.MULTILINE)
_NO_TRACK = "const TRACK = null"


def shipped(name: str) -> str:
    """A text of the package's ``data/agents``. Raises BatonError when it is missing."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    data = read(os.path.join(here, "data", "agents", name), limit=-1)
    if data is None:
        raise BatonError(f"'{name}' is missing from this installation of gitbaton")
    return data.decode("utf-8")


def is_shipped(name: str, text: str) -> bool:
    """Whether a version of ours has shipped this text under a name, whatever its line ends."""
    plain = text.replace("\r\n", "\n")
    listed = f"{digest(plain.encode('utf-8', 'surrogateescape'))} {name}"
    return listed in shipped("shipped").splitlines() or plain == shipped(name)


class Part:
    """Something of ours in a file. ``whole``: the file is ours altogether; ``track``: the one it names."""

    whole = False
    errors = "strict"
    track: str | None = None

    def known(self, text: str) -> bool:
        """Whether what the text holds of ours is as a version of ours wrote it."""
        return True

    def kept(self, shown: str) -> str:
        """How to say that our part of a file was ..."""
        return f"'{shown}' was"

    def put(self, text: str) -> Merged:
        """The text with our part in it, once. Raises MalformedError."""
        raise MalformedError("nothing can be put there")

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The text without our part."""
        return Merged(text=text)

    def find(self, text: str) -> Found:
        """What of ours the text holds."""
        return NONE

    def is_bare(self, text: str, made: Collection[str]) -> bool:
        """Whether nothing is left that somebody wrote."""
        return not text.strip()

    def fresh(self, text: str) -> bool:
        """Whether the text is just what install writes where no file was."""
        return self.put("").text == text


class Hooks(Part):
    """Our entries in a client's settings."""

    def __init__(self, client: Client, track: str | None) -> None:
        self.client, self.track = client, track

    def put(self, text: str) -> Merged:
        """The settings with our entries."""
        return agentmerge.merge(text, self.client, self.track)

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The settings without them."""
        return agentmerge.strip(text, self.client, made)

    def find(self, text: str) -> Found:
        """Our entries, for whatever track."""
        return agentmerge.found(text, self.client)

    def is_bare(self, text: str, made: Collection[str]) -> bool:
        """Whether the settings say nothing else."""
        return agentmerge.is_empty(text, self.client, made)

    def fresh(self, text: str) -> bool:
        """Whether they were written whole, for whatever track."""
        tracks = self.find(text).tracks
        return len(tracks) == 1 and agentmerge.merge("", self.client, tracks[0]).text == text


class Whole(Part):
    """A file of our own, known by a mark; for the plugin with the track that it names."""

    whole = True
    errors = "surrogateescape"

    def __init__(self, name: str, mark: str, track: str | None = None) -> None:
        self.name, self.mark, self.track = name, mark, track

    def put(self, text: str) -> Merged:
        """The file; git may have given its lines other ends."""
        named = f"const TRACK = {json.dumps(self.track)}"
        written = _TRACK.sub(lambda _: named, shipped(self.name), count=1)
        return Merged(text=text if text.replace("\r\n", "\n") == written else written)

    def find(self, text: str) -> Found:
        """Whether it is ours, and the track that it names."""
        if self.mark not in text.splitlines():
            return NONE
        named = _TRACK.search(text.replace("\r\n", "\n"))
        try:
            track = json.loads(named.group(1)) if named else None
        except ValueError:
            track = None
        return Found(count=1, tracks=(track,))

    def known(self, text: str) -> bool:
        """Whether it is as some version wrote it, for whatever track."""
        plain = text.replace("\r\n", "\n")
        return is_shipped(self.name, _TRACK.sub(_NO_TRACK, plain, count=1) if self.mark == PLUGIN_MARK else plain)


class Block(Part):
    """Our marked block in AGENTS.md."""

    errors = "surrogateescape"

    def put(self, text: str) -> Merged:
        """The text with the block, in its place or at the end."""
        newline = "\r\n" if "\r\n" in text else "\n"
        block = newline.join([BEGIN, *shipped("AGENTS.md").splitlines(), END])
        place = _block(text)
        if place is not None:
            start, end = place
            if text[start:end] == block:
                return Merged(text=text)
            edit = Edit(start=start, length=len(block), old=text[start:end])
            return Merged(text=text[:start] + block + text[end:], edits=(edit,))
        lead = "" if not text.removeprefix(BOM) else newline if text.endswith("\n") else newline * 2
        new = lead + block + newline
        return Merged(text=text + new, edits=(Edit(start=len(text), length=len(new), old=""),))

    def take(self, text: str, made: Collection[str] | None) -> Merged:
        """The text without the block, and without the empty line before it."""
        place = _block(text)
        if place is None:
            return Merged(text=text)
        start, end = place
        end += len(text[end:]) - len(text[end:].removeprefix("\r").removeprefix("\n"))
        for newline in ("\r\n", "\n"):
            if text[:start].endswith(newline * 2):
                start -= len(newline)
                break
        return Merged(text=text[:start] + text[end:], edits=(Edit(start=start, length=0, old=text[start:end]),))

    def find(self, text: str) -> Found:
        """Whether there is a block."""
        return Found(count=1, tracks=(None,)) if _block(text) is not None else NONE

    def known(self, text: str) -> bool:
        """Whether the lines between the marks are as some version wrote them."""
        start, end = _block(text) or (0, 0)
        inner = text[start:end].replace("\r\n", "\n").removeprefix(BEGIN + "\n").removesuffix(END)
        return is_shipped("AGENTS.md", inner)

    def kept(self, shown: str) -> str:
        """The block, and not the whole file."""
        return f"the block in '{shown}' was"


def _block(text: str) -> tuple[int, int] | None:
    """Where the block begins and ends; None when there is none. Raises MalformedError for marks that do not pair."""
    begins, ends = text.count(BEGIN), text.count(END)
    if not begins and not ends:
        return None
    start, end = text.find(BEGIN), text.find(END)
    if begins != 1 or ends != 1 or end < start:
        raise MalformedError(f"the marks '{BEGIN}' and '{END}' do not stand there once each, in this order")
    return start, end + len(END)
