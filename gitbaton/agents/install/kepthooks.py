"""Kept hooks: one that was there before ours keeps its own name, in a folder beside the hooks directory where links stand for
what it had beside it. The folder is as deep as the directory, so that paths which go up from it lead where they led."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from functools import partial

from gitbaton.agents.install.plan import Draft, Manifest, digest, drop_folders, keep, read
from gitbaton.base.errors import BatonError
from gitbaton.base.system.files import sync_paths
from gitbaton.git import questions
from gitbaton.git.repo import Repo, shared

EVENTS = ("post-checkout", "post-commit", "post-merge", "post-rewrite")
TRAILERS = "prepare-commit-msg"
"""The event whose hook is there with ``baton.trailers`` alone."""
ALL = (*EVENTS, TRAILERS)
MARK = b"\n# gitbaton: 1\n"
LEGACY = ".baton-legacy"  # how the name of the folder ends; formerly that of a kept hook
_ASIDE = ("{0}.legacy", "{0}.old", "old-hooks/{0}")  # of pre-commit (which goes on calling it), lefthook, overcommit
_OFF = (["false"], ["no"], ["off"], ["0"])
_HEAD = 1 << 16  # bytes of a hook that are looked at
_SELF = re.compile(
    rb"^(?!\s*#)[^\n]*(?:\$\{?0\b|BASH_SOURCE|__file__|__FILE__|__dir__|__dirname|__filename|FindBin|PROGRAM_NAME|argv\[0\])",
    re.M,
)
# That a hook which looks at itself asks where it lies: '${0%/hooks/*}', 'case $dir in *hooks)', '= hooks'. What leads to the
# directory from elsewhere does not: '$(dirname "$0")/../hooks', '.git/hooks', '$(git rev-parse --git-dir)/hooks'.
_WHERE = re.compile(
    rb"^(?!\s*#)(?:[ \t]*\(?[^\s()]*\bhooks\b[^\s()]*\)|[^\n]*(?:case[^\n]*hooks/"
    rb"|(?<!\.\.)(?<!\.git)(?<!baton)(?<!-dir\))(?<!-dir\)\")(?<!_DIR)(?<!_DIR\})(?<!_DIR\")(?<!_DIR\}\")/hooks\b"
    rb"|[*\"'\s]hooks[\"'/)*|]|=\s*hooks\b))",
    re.M,
)
# That it writes a file beside itself, which others would look for in the directory.
_WRITES = re.compile(rb"^(?!\s*#)[^\n]*>>?\s*[\"']?(?:\$\(dirname[^\n;|)]*|\$\{)(?:\$?\{?0\b|BASH_SOURCE)", re.M)


class HooksDraft(Draft):
    """A plan in the making, for one repository. ``top`` is its own hooks directory, ``folder`` that of kept hooks.

    Raises BatonError where something else is in the place of the folder.
    """

    def __init__(self, repo: Repo) -> None:
        super().__init__()
        self.repo = repo
        self.events = wanted(repo)
        self.made = Manifest(os.path.join(repo.shared_dir, "installed"), "hooks")
        self.top = questions.default_hooks(repo)
        self.folder = self.top + LEGACY
        if os.path.lexists(self.folder) and (os.path.islink(self.folder) or not os.path.isdir(self.folder)):
            raise BatonError(f"'{self.folder}' is no folder of ours, and nothing is installed or taken back")

    def kept(self, event: str) -> str | None:
        """Return the path of the hook that ours is called instead of, by its name of now or of formerly."""
        places = (path for path in (os.path.join(self.folder, event), self.former(event)) if os.path.lexists(path))
        return next((path for path in places if not is_link(self, path)), None)

    def is_known(self, path: str, *names: str) -> bool:
        """Whether a hook has the bytes that we gave it, by this or these names."""
        data = read(path)
        return data is not None and digest(data) in [self.made.files[n].digest for n in (path, *names) if n in self.made.files]

    def former(self, event: str) -> str:
        """Return the former path of a kept hook."""
        return os.path.join(self.top, event + LEGACY)


def wanted(repo: Repo, *, on: bool | None = None) -> tuple[str, ...]:
    """Return the events that have a hook of ours here, with trailers ``on`` or off, or as baton.trailers is."""
    return ALL if (repo.boolean("baton.trailers") if on is None else on) else EVENTS


def is_ours(data: bytes | None) -> bool:
    """Whether the bytes of a hook carry our mark."""
    return data is not None and MARK in data[:200]


def aside(path: str) -> list[str]:
    """Return the places to which managers move a hook that is in their way."""
    folder, event = os.path.split(path)
    return [os.path.join(folder, place.format(event)) for place in _ASIDE]


def moved_aside(path: str) -> str | None:
    """Return the place to which the manager of the hook at ``path`` has moved ours."""
    return next((place for place in aside(path) if is_ours(read(place))), None)


def same(one: str, other: str) -> bool:
    """Whether two hooks are one and the same: the same file, link or bytes."""
    if os.path.islink(one) or os.path.islink(other):
        return os.path.islink(one) and os.path.islink(other) and os.readlink(one) == os.readlink(other)
    data = read(one)
    return data is not None and data == read(other)


def bound(draft: HooksDraft, source: str) -> str:
    """Why a hook cannot be called from the folder; empty if it can."""
    if os.path.islink(source):
        text = os.readlink(source).removeprefix("./")
        there = os.path.join(draft.folder if text.startswith(("../", "/")) else draft.top, text)
        if os.path.realpath(source) != os.path.realpath(there):
            return "it is a link that would lead elsewhere"
    data = read(source, _HEAD) or b""
    looks = b"\0" in data or _SELF.search(data) is not None
    if looks and b"\0" not in data and _WHERE.search(data):
        return "it looks at where it lies"
    if b"\0" not in data and _WRITES.search(data):
        return "it writes beside itself"
    links = questions.all_values(draft.repo, "core.symlinks")[-1:] not in _OFF
    if not links and (looks or os.path.islink(source)) and _missing(draft):
        return "what lies beside it cannot be linked to"
    return ""


def lacks(draft: HooksDraft, source: str, moves: Collection[str], but: Collection[str]) -> str:
    """Why a hook cannot be called from the folder where those of ``moves`` are, ``but`` for some; empty if it can. One that
    stays in the directory is not to be found from there: a link to it would lead ours to itself, once ours is in its place."""
    data = read(source, _HEAD) or b""
    names = {os.path.basename(os.readlink(source))} if os.path.islink(source) else set[str]()
    names |= {event for event in draft.events if event.encode() in data} if _SELF.search(data) else set()
    for event in sorted(names.intersection(draft.events) - {os.path.basename(source).removesuffix(LEGACY)}):
        path = os.path.join(draft.top, event)
        kept = (event in moves and event not in but) or os.path.lexists(os.path.join(draft.folder, event))
        if not kept and os.path.lexists(path) and not is_ours(read(path)):
            return f"it calls '{event}', which stays there, too"
    return ""


def link(draft: HooksDraft, moves: Collection[str]) -> None:
    """Plan the folder, if hooks are kept in it or ``moves`` there, and links in it to what lies beside the hooks."""
    there, missing = os.path.isdir(draft.folder), _missing(draft)

    def run() -> None:
        os.makedirs(draft.folder, exist_ok=True)
        shared(draft.repo, draft.folder)
        for name in missing:
            os.symlink(_target(draft, name), os.path.join(draft.folder, name))

    if (moves and not there) or (missing and (moves or there)):
        what = "link what lies beside the hooks into" if missing else "make"
        draft.step(f"{what} the folder '{draft.folder}'", run)


def _missing(draft: HooksDraft) -> list[str]:
    """The names in the hooks directory that the folder has not yet: all that is no hook of ours, or kept."""
    names = sorted(os.listdir(draft.top)) if os.path.isdir(draft.top) else []
    return [
        name
        for name in names
        if name not in draft.events
        and not name.endswith((LEGACY, ".sample"))
        and not is_ours(read(os.path.join(draft.top, name)))
        and not os.path.lexists(os.path.join(draft.folder, name))
    ]


def _target(draft: HooksDraft, name: str) -> str:
    return os.path.join("..", os.path.basename(draft.top), name)


def move(draft: HooksDraft, event: str, source: str) -> None:
    """Plan that a hook is kept in the folder, before ours stands in its place."""
    kept, earlier, spare = os.path.join(draft.folder, event), draft.kept(event), moved_aside(source)
    if is_link(draft, kept):  # to what lay beside other hooks, while this event had none of ours
        draft.step(f"remove the link '{kept}'", lambda: os.unlink(kept))
    if spare is not None and earlier not in (None, source) and not same(source, earlier):

        def give_back() -> None:  # a manager, with its own hook in its place now, has moved ours
            os.replace(earlier, spare)
            sync_paths([os.path.dirname(spare)])
            draft.made.put(spare, None)

        draft.step(f"put the hook '{earlier}' in the place of '{spare}', which is ours", give_back)
    elif spare is not None and draft.is_known(spare, source):
        restore(draft, spare, None)  # it would bar the way of lefthook, which moves hooks there
    if earlier != kept or not same(source, earlier):
        draft.step(f"keep the hook '{source}' as '{kept}', called first", lambda: keep(source, kept))


def clear(draft: HooksDraft, event: str, source: str | None = None) -> None:
    """Plan that the former name of a kept hook goes, after the script that called it by that, where the hook has its own name
    again: it is the ``source`` that is moved to the folder, or lies there."""
    former, kept = draft.former(event), os.path.join(draft.folder, event)
    if not os.path.lexists(former):
        return
    if source == former or same(former, kept):
        draft.step(f"remove '{former}', which has its own name again", lambda: os.unlink(former))
    else:
        draft.notices.append(f"'{former}' stays, and is not called: '{kept}' was kept, too")


def gone(draft: HooksDraft) -> list[str]:
    """The names of what a kept hook calls, or leads to, and that has gone from beside it: its tool may have, too."""
    inside = sorted(os.listdir(draft.folder)) if os.path.isdir(draft.folder) else []
    names = [
        name
        for name in inside
        if is_link(draft, os.path.join(draft.folder, name)) and not os.path.exists(os.path.join(draft.folder, name))
    ]
    kept = [path for event in draft.events if os.path.lexists(path := os.path.join(draft.folder, event))]
    called = [os.fsencode(os.readlink(path)) if os.path.islink(path) else read(path, _HEAD) or b"" for path in kept]
    return [name for name in names if any(os.fsencode(name) in data for data in called)]


def restore(draft: HooksDraft, path: str, event: str | None) -> None:
    """Plan that our script at ``path`` makes room for the hook that is kept for an event, if one is, unless a manager has put
    that back by itself."""
    kept = draft.kept(event) if event is not None else None
    double = kept is not None and event is not None and same(kept, os.path.join(draft.top, event))

    def run() -> None:
        if kept is not None and double:
            os.unlink(kept)
        if kept is None or double or os.path.isdir(kept):
            os.unlink(path)
        if kept is not None and not double:
            os.rename(kept, path)
        draft.made.put(path, None)

    back = f" and '{kept}', which stands there again" if double else f", and put '{kept}' back in its place" if kept else ""
    draft.step(f"remove '{path}'{back}", run)


def take_folder(draft: HooksDraft, restored: Collection[str]) -> None:
    """Plan that the folder goes when the last of the ``restored`` hooks has left it; what else is in it moves to the hooks
    directory."""
    inside = set(os.listdir(draft.folder)) - set(restored) if os.path.isdir(draft.folder) else {*ALL}
    links = [name for name in inside if is_link(draft, os.path.join(draft.folder, name))]
    if inside.intersection(ALL).difference(links):
        return
    for name in sorted(inside.difference(links)):
        path, above = os.path.join(draft.folder, name), os.path.join(draft.top, name)
        if os.path.lexists(above):
            draft.notices.append(f"'{path}' stays: there is another '{above}'")
        else:
            draft.step(f"move '{path}' to '{above}'", partial(os.rename, path, above))

    def run() -> None:
        for name in links:
            os.unlink(os.path.join(draft.folder, name))
        drop_folders((draft.folder,))

    draft.step(f"remove the folder '{draft.folder}' if nothing else is in it", run)


def is_link(draft: HooksDraft, path: str) -> bool:
    """Whether a path in the folder is a link of ours to what lies beside the hooks."""
    return os.path.islink(path) and os.readlink(path) == _target(draft, os.path.basename(path))
