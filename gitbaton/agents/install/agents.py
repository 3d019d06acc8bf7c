"""Install and uninstall for coding agents: all their files planned first, applied after, taken back exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Literal

from gitbaton.agents.client import Client, folder
from gitbaton.agents.install import plugins
from gitbaton.agents.install.levels import (
    AGENTS_MD,
    CLIENTS,
    EVERYWHERE,
    ONLY_USED,
    FoundEntries,
    Place,
    Target,
    block_target,
    found_in,
    hooks_target,
    line_path,
    line_target,
    lines_set,
    own_line,
    path_of,
    plugged,
    program,
    refused,
    row,
    shown,
    skill_paths,
    skill_target,
    text_of,
)
from gitbaton.agents.install.plan import (
    Draft,
    File,
    InstallPlan,
    InstallRecord,
    InstallStep,
    Manifests,
    check_unchanged,
    check_writable,
    digest,
    look,
    make_folders,
    read,
    write,
)
from gitbaton.agents.settings import MalformedError, undone
from gitbaton.base.codec import in_quotes
from gitbaton.base.errors import BatonError, NoAnswerError, UsageError
from gitbaton.base.values import replace
from gitbaton.git.questions import everywhere

_IMPORT = re.compile(rb"@(?:\./)?AGENTS\.md")


def named(names: Sequence[str], where: Place, *, every: bool, install: bool, plugin: bool = False) -> list[Client]:
    """The clients of these names; with ``every`` those found on this machine (``install``: a program is on PATH, or a folder in
    the user's home), or installed at a level; of a ``plugin`` those that have one.

    Raises UsageError for a name of none, NoAnswerError when no client is found to install.
    """
    known = {client.name: client for client in CLIENTS}
    wrong = [name for name in names if name not in known]
    if wrong:
        word = wrong[0].lower()
        near = [c.name for c in CLIENTS if c.name in word or word in f"{c.title} {' '.join(c.programs)} {c.folder}".lower()]
        hints = [f"perhaps '{near[0]}' is meant"] if near and len(word) > 2 else []
        raise UsageError(f"'{wrong[0]}' is not an agent; it can be one of {', '.join(known)}", *hints)
    if not every:
        return [known[name] for name in dict.fromkeys(names)]
    if not install:
        return [client for client in CLIENTS if (client.plugin if plugin else row(where, client).state != "not installed")]
    found = [client for client in CLIENTS if is_here(client, where.env) and (client.plugin or not plugin)]
    if not found:
        name = CLIENTS[0].name + (" --plugin" if plugin else " --user" if where.root is None else "")
        programs = ", ".join(name for client in CLIENTS for name in client.programs)
        folders = ", ".join(in_quotes(shown(where, os.path.abspath(folder(client, where.env)))) for client in CLIENTS)
        raise NoAnswerError(
            "no client of a coding agent is found on this machine",
            f"looked on PATH for {programs}",
            f"and for the folders {folders}",
            f"'git baton agent install {name}' installs for one that comes later",
        )
    return found


def is_here(client: Client, env: Mapping[str, str]) -> bool:
    """Whether a client is found on this machine: a program of it on PATH, or its folder in the user's home."""
    return program(client, env) is not None or os.path.isdir(folder(client, env))


def chosen(where: Place, client: Client, track: str | None) -> str | None:
    """The track of a client's hooks: the one given, none for an empty one, and without (None) the one that they have.

    Raises UsageError when they have several.
    """
    if track is not None:
        return track or None
    there = row(where, client)
    if len(there.tracks) > 1:
        raise UsageError(f"'{there.file}' has hooks for more than one track", "say which with --track; '' is for none")
    return there.tracks[0] if there.tracks else None


class _Draft(Draft):
    """A plan in the making, at one place: what each file will be, what is remembered of it, what is left alone and said."""

    def __init__(self, where: Place) -> None:
        super().__init__()
        self.where = where
        self.manifests = Manifests(*where.manifests)
        self.folders: list[str] = []
        self.changed: list[str] = []
        self.seen: set[str] = set()

    def plan(self, remarks: Iterable[str] = ()) -> InstallPlan:
        """The plan."""
        remarks, folders = tuple(remarks) if self.steps else (), tuple(self.folders)
        return replace(
            super().plan(), remarks=remarks, locked=self.manifests.locked, folders=folders, changed=tuple(self.changed)
        )

    def spare(self, path: str) -> bool:
        """Leave a file out of the plan from here on; whether it was left out or met before: two names may lead to one."""
        real = os.path.realpath(path)
        before = real in self.seen
        self.seen.add(real)
        return before

    def put(self, target: Target) -> None:
        """Plan to have a part in its file. Raises BatonError for a file that must be refused."""
        file, text = target.file, text_of(target)
        there = found_in(target)
        if self.spare(file.real) or not self._may_replace(target, text, there):
            return
        exact, old = self.manifests.exact(file), self.manifests.of(file)
        base = undone(text, exact.edits) if exact and exact.edits is not None and not target.part.whole else text
        try:
            merged = target.part.put(base)
        except (MalformedError, RecursionError) as error:
            raise refused(target, error) from None
        if merged.text == text and file.data is not None:
            return
        first = exact is not None or there.count == 0
        record = InstallRecord(
            digest=digest(merged.text.encode("utf-8", target.part.errors)),
            edits=merged.edits if first and not target.part.whole else None,
            made=merged.made if first else (*old.made, *merged.made) if old and old.made is not None else None,
            created=exact.created if exact else file.data is None or bool(old and old.created and not first),
            folders=old.folders if old else (),
        )
        self._change(target, _said(target, there), merged.text, record)

    def take(self, target: Target) -> None:
        """Plan to have a part out of its file, and the file away if install made it and nothing else is in it."""
        file, text = target.file, text_of(target)
        there = found_in(target)
        self.foreign(file.shown, there.foreign)
        if file.data is None or there.count == 0 or self.spare(file.real):
            return
        exact, old = self.manifests.exact(file), self.manifests.of(file)
        if exact is None and not target.part.known(text):
            self.notices.append(f"{target.part.kept(file.shown)} changed since it was installed, and stays")
            return
        if exact is not None and exact.edits is not None:
            after = undone(text, exact.edits)
            gone = exact.created
        else:
            after = target.part.take(text, old.made if old else None).text
            bare = old is not None and old.created and target.part.is_bare(after, old.made or ())
            gone = target.part.whole or bare or (old is None and target.part.fresh(text))
        if gone:
            self.folders += [os.path.dirname(file.real)] if os.path.basename(file.real) == "SKILL.md" else []
            self.folders += old.folders if old else self._above(file.real)
        what = f"remove '{file.shown}'" if gone else f"take {target.about} out of '{file.shown}'"
        self._change(target, what, None if gone else after)

    def _above(self, path: str) -> Iterator[str]:
        """The folders of a project's file that another clone installed: they came with it, and go when nothing is in them."""
        root = os.path.realpath(self.where.root) if self.where.root is not None else None
        while root is not None and (path := os.path.dirname(path)).startswith(root + os.sep):
            yield path

    def _change(self, target: Target, what: str, after: str | None, record: InstallRecord | None = None) -> None:
        """Plan new text for a file, or none; ``record`` is what is remembered of it from then on."""
        check_writable(target.file, gone=after is None)
        self.changed += [target.file.real] if target.file.data is not None and record is not None else []
        data = after.encode("utf-8", target.part.errors) if after is not None else None
        run = partial(_carry_out, target.file, data, record, self.manifests)
        self.step(what, run, partial(check_unchanged, target.file, data))

    def _may_replace(self, target: Target, text: str, there: FoundEntries) -> bool:
        """Whether a part may be written: what is there of it is as we wrote it, and a file of our own is ours."""
        file = target.file
        self.foreign(file.shown, there.foreign)
        if file.data is None:
            return True
        if target.part.whole and there.count == 0:
            self.notices.append(f"'{file.shown}' is not ours, and is left as it is")
            return False
        if there.count and self.manifests.exact(file) is None and not target.part.known(text):
            self.notices.append(f"{target.part.kept(file.shown)} changed since it was installed, and is left as it is")
            return False
        return True

    def foreign(self, shown: str, lines: Iterable[str]) -> None:
        """Tell of lines of the user's own that call us."""
        for line in lines:
            words = line if len(line) <= 60 else line[:57] + "..."
            self.notices.append(f"'{shown}' has a line of your own that names our hook, and it is left as it is: {words}")


def _said(target: Target, there: FoundEntries) -> str:
    """Tell the user of a part that is put into its file, a change of its track included."""
    shown, track = target.file.shown, target.part.track
    if there.count == 0:
        return f"{'write' if target.file.data is None else 'add'} {target.about} to '{shown}'"
    now, *before = ("no track" if name is None else f"track '{name}'" for name in (track, *there.tracks))
    changed = f", {now} instead of {' and '.join(before)}" if there.tracks != (track,) else ""
    return f"renew {target.about} in '{shown}'{changed}"


def _carry_out(file: File, after: bytes | None, record: InstallRecord | None, manifests: Manifests) -> None:
    """Write or remove one file, and remember or forget it. Raises BatonError, OSError."""
    if check_unchanged(file, after):
        return  # another install was faster
    if record is not None:  # before the file: one that is remembered and unwritten does no harm
        made = make_folders(os.path.dirname(file.real))
        manifests.put(file.real, replace(record, folders=(*record.folders, *made)))
    if after is None:
        os.unlink(file.real)
    else:
        write(file.real, after, file.mode, file.owner)
    if record is None:
        manifests.put(file.real, None)


def plan_install(
    where: Place,
    clients: Sequence[Client],
    *,
    track: str | None = None,
    agents_md: bool | None = None,
    trusted: bool = False,
    line: bool = False,
) -> InstallPlan:
    """Plan what install changes at a level; nothing when everything is in place. Raises BatonError for a file it must refuse.

    ``track`` as ``chosen`` takes it; ``agents_md``: whether AGENTS.md gets its block, None: where it is and may be written;
    ``trusted``: Codex will be told to trust the hooks; ``line``: clients that have a status line get ours, where none is set.
    The texts for agents name the track that all hooks here have.
    """
    draft = _Draft(where)
    tracks = {client.name: chosen(where, client, track) for client in clients}
    for client in clients:
        own = bool(own_line(where, client)) or (line and _may_have_line(draft, client))
        draft.put(hooks_target(where, client, tracks[client.name], line=own))
        if own and (target := line_target(where, client, tracks[client.name], line=own)) is not None:
            draft.put(target)
    rest = (found for client in CLIENTS if client not in clients for found in row(where, client).tracks)
    both = {*tracks.values(), *rest}
    track = both.pop() if len(both) == 1 else None
    for path in skill_paths(where, clients, shared=True):
        draft.put(skill_target(where, path, track))
    block = agents_md if agents_md is not None else os.path.isfile(os.path.join(where.root or os.devnull, AGENTS_MD))
    try:
        if block:
            draft.put(block_target(where, track))
    except BatonError as error:
        if agents_md:
            raise
        draft.notices.append(f"{error.message}; it gets no block for agents")
        block = False
    return draft.plan(_remarks(where, clients, block=block, trusted=trusted))


def _may_have_line(draft: _Draft, client: Client) -> bool:
    """Whether a client may get our status line at a level; why not is said."""
    where = draft.where
    if not line_path(where, client):
        here = " for a project: install it with --user" if client.line[1] else ""
        draft.notices.append(f"{client.title} has no status line{here}")
        return False
    there = lines_set(where, client)
    draft.notices += [f"'{shown}' sets a status line already, and it stays: {line}" for shown, line in there]
    return not there


def plan_uninstall(where: Place, clients: Sequence[Client], *, every: bool = False) -> InstallPlan:
    """Plan what uninstall takes back at a level; what other agents still need stays. Raises BatonError as install does.

    ``every``: also skills and a block that were left by clients that are not installed any more.
    """
    draft = _Draft(where)
    for client in clients:
        draft.take(hooks_target(where, client, None))
        target = line_target(where, client, None) if own_line(where, client) else None
        if target is not None:
            draft.take(target)
    rest = [row(where, client) for client in CLIENTS if client not in clients]
    others = [found.client for found in rest if found.state != "not installed"]
    for found in rest if every else ():
        draft.foreign(found.file, found.foreign)
    for path in skill_paths(where, others, shared=bool(others)):
        draft.spare(path)
    gone = [client for client in CLIENTS if client not in others] if every else clients
    for path in skill_paths(where, gone, shared=not others):
        try:
            skill = skill_target(where, path)
        except BatonError:  # nothing that install would have written to
            continue
        draft.take(skill)
    if not others and where.root is not None:
        draft.take(block_target(where))
    return replace(draft.plan(), remarks=tuple(_left(draft, clients)))


def plan_plugins(where: Place, clients: Sequence[Client], *, install: bool, trusted: bool = False) -> InstallPlan:
    """Plan to put our plugins for clients into the user's folders and to let each client take its own, or to take that away.
    Raises UsageError for a client that has no plugins, BatonError for a file that must be refused."""
    draft, remarks, hints = _Draft(where), list[str](), list[str]()
    for client in clients:
        if client.plugin is None:
            name = client.name
            raise UsageError(f"{client.title} has no plugins", f"git baton agent install {name} --user")
        rows = [row for row in plugins.plugin_rows(where, None) if row.client == client and row.state != "off"]
        files, before = list(plugins.targets(where, client)), len(draft.steps)
        there = any(draft.manifests.of(target.file) for target in files)
        on = next((row for row in rows if there and plugins.is_ours(client, row)), None)
        others = [row for row in rows if row is not on]
        left = "by '{}', not by an install, and it is left as it is"
        draft.notices += [f"{client.title} has {row.names[0]} {left.format(row.file)}" for row in others]
        hints += [] if install else [plugins.gone(where, row) for row in others]
        if others and not there:
            continue
        for target in files:
            draft.put(target) if install else draft.take(target)
        changed = draft.steps[before:]
        if install:  # a client that keeps a copy has an old one where the files are new
            words = plugins.lines(where, client, gone=False)
            words = words if on is None else words[-1:] if changed else []
        else:
            known = on is not None or (there and plugins.is_known(where, client))
            words = plugins.lines(where, client, gone=True) if known else []
        act = ("renew" if any(target.file.data is not None for target in files) else "write") if install else "remove"
        many = "1 file" if len(changed) == 1 else f"{len(changed)} files"
        shape = f"{act} the plugin of {client.title} in '{shown(where, plugins.home(where, client))}', {many}"
        files_step = (
            [replace(changed[0], text=shape, run=_all(changed, "run"), check=_all(changed, "check"))] if changed else []
        )
        calls = _calls(where, client, words, draft, strict=install or on is not None)  # else one of both may be gone already
        draft.steps[before:] = [*files_step, *calls] if install else [*calls, *_forgetting(where, client), *files_step]
        remarks += [f"{client.title}: {client.untrusted}"] if install and client.untrusted and not trusted else []
    plan = draft.plan([*remarks, *([plugged(everywhere(None)[0])] if install else [])])
    return replace(plan, remarks=(*plan.remarks, *hints))


def _all(steps: Sequence[InstallStep], what: Literal["run", "check"]) -> Callable[[], object]:
    """Return a function that carries out, or checks, each of some steps."""
    return lambda: [getattr(step, what)() for step in steps]


def _calls(where: Place, client: Client, words: Sequence[Sequence[str]], draft: _Draft, *, strict: bool) -> list[InstallStep]:
    """Return the steps that a client's own program does; where it is not there, say what is to be typed."""
    found, typed = program(client, where.env), [plugins.typed(client, [line]) for line in words]
    if found is None:
        draft.notices += [f"'{client.programs[0]}' is not on PATH; where it is: {' && '.join(typed)}"] if typed else []
        return []
    way = plugins.typed(client, plugins.lines(where, client, gone=True)[-1:])
    first = [*words[:1]] == plugins.lines(where, client, gone=False)[:1]  # it refuses a second marketplace of the name
    hints = [f"its marketplace gitbaton may be in the way: {way}"] if first and way and plugins.is_known(where, client) else []
    runs = [partial(plugins.tell, found, line, where.env, strict=strict, hints=hints) for line in words]
    return [InstallStep(text=f"run '{text}'", run=run, check=lambda: None) for text, run in zip(typed, runs, strict=True)]


def _forgetting(where: Place, client: Client) -> Iterator[InstallStep]:
    """Yield the step that takes what a client goes on saying of our plugin's hooks out of its own file, as its program has left
    that by then."""
    path = os.path.join(os.path.abspath(folder(client, where.env)), client.leaves[0] if client.leaves is not None else "")

    def texts() -> tuple[File, str, str]:
        file = look(path, shown(where, path))
        text = (file.data or b"").decode("utf-8", "surrogateescape")
        return file, text, client.forgetting(text)

    def run() -> None:
        file, text, after = texts()
        if after != text:
            write(file.real, after.encode("utf-8", "surrogateescape"), file.mode, file.owner)

    if client.leaves is not None and os.path.isfile(path):
        file, text, after = texts()
        if after != text:
            check = partial(check_writable, file, gone=False)
            yield InstallStep(text=f"take its trust in the plugin's hooks out of '{file.shown}'", run=run, check=check)


def _left(draft: _Draft, clients: Sequence[Client]) -> Iterator[str]:
    """Yield what uninstall leaves behind in a client's own state."""
    where = draft.where
    for client in clients:
        name, part = client.leaves or ("", "")
        path = os.path.join(os.path.abspath(folder(client, where.env)), name)
        if name and os.fsencode(f"{os.path.realpath(path_of(where, client))}:") in (read(path) or b""):
            yield f"'{shown(where, path)}' still names these hooks {part}"
    for found in plugins.plugin_rows(where, where.root):
        client = found.client
        if client in clients and found.state != "off":
            by_install = False
            with suppress(BatonError):
                by_install = any(draft.manifests.of(target.file) for target in plugins.targets(where, client))
            ours = by_install and plugins.is_ours(client, found)
            typed = f"{client.title} still has {found.names[0]}: git baton agent uninstall {client.name} --plugin"
            yield typed if ours else plugins.gone(where, found)


def _remarks(where: Place, clients: Sequence[Client], *, block: bool, trusted: bool) -> list[str]:
    """Return what a user should know after an install."""
    said: list[str] = []
    for client in clients:
        remarks = (
            f"'{client.programs[0]}' is not on PATH here, so nothing calls its hooks yet"
            if program(client, where.env) is None
            else "",
            client.trust if where.root is not None else "",
            client.untrusted if not trusted else "",
            *client.remarks,
            f"started in a subdirectory it does not see '{client.project}'; --user covers that"
            if where.root is not None and not client.upward
            else "",
        )
        said += [f"{client.title}: {text}" for text in remarks if text]
    if where.root is not None:
        said.append("clones and linked work trees have these files only when they are committed")
    else:
        said.append(f"hooks at user level {ONLY_USED}; '{EVERYWHERE}' lets them act in every repository")
    if block and where.root is not None:
        said += [text for client in clients if (text := _unread(where, where.root, client))]
    after = "after a turn that changes files 'git baton log --all' shows its checkpoint"
    return [*said, f"{after}; where it does not, 'git baton agent doctor' says why"]


def _unread(where: Place, root: str, client: Client) -> str:
    """Say how a client comes to read AGENTS.md, where it reads a file of its own instead; empty where it reads both."""
    path, settings = os.path.join(root, client.instead), path_of(replace(where, root=None), client)
    if not client.instead or not (client.wants or os.path.isfile(path)):
        return ""
    told = [read(file) or b"" for file in (path_of(where, client), settings)] if client.wants else []
    if any(AGENTS_MD.encode() in data for data in told) or _IMPORT.search(read(path) or b""):
        return ""
    if os.path.realpath(path) == os.path.realpath(os.path.join(root, AGENTS_MD)):
        return ""
    if client.wants:
        return f"{client.title}: it reads {AGENTS_MD} only by a setting: {client.wants}"
    return f"{client.title}: it reads {client.instead} and not {AGENTS_MD} where both are; add the line '@{AGENTS_MD}' to it"
