"""Install and uninstall for coding agents: all their files planned first, applied after, taken back exactly."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Literal

from gitbaton.agents.clients import CLIENTS, LEVELS, OURS, Client, Level, folder
from gitbaton.agents.settings import MalformedError, undone
from gitbaton.errors import BatonError
from gitbaton.git.hookfiles import digest, read
from gitbaton.install import githooks
from gitbaton.install.agentfiles import Change, File, Record, Records, carry_out, drop_folders, look, unchanged
from gitbaton.install.agentmerge import Found
from gitbaton.install.agentparts import PLUGIN_MARK, SKILL_MARK, Block, Hooks, Part, Whole
from gitbaton.install.githooks import Step
from gitbaton.values import value

State = Literal["installed", "outdated", "not installed", "unreadable"]
SHARED_SKILLS = ".agents/skills"
SKILL = "gitbaton/SKILL.md"


@value
class Place:
    """Where to install: a level, the work tree's root at project level, the user's environment, the file of records."""

    level: Level
    root: str | None
    git_dir: str | None
    env: Mapping[str, str]
    records: str


@value
class Target:
    """A file and what of ours goes into it; ``about`` says it to the user."""

    file: File
    part: Part
    about: str


@value
class Plan:
    """What is to be done. ``notices`` always matter; ``remarks`` are for when something is done."""

    steps: tuple[Step, ...]
    changes: tuple[Change, ...]
    folders: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@value
class Row:
    """A client at a level: its file, what of ours is in it, and why it cannot be read if so."""

    client: Client
    level: Level
    file: str
    path: str
    state: State
    tracks: tuple[str | None, ...] = ()
    reason: str = ""


def place(level: Level, env: Mapping[str, str], root: str | None, git_dir: str | None, shared: str | None) -> Place:
    """A level of a repository (``shared``: its own folder of ours), or of the user. Raises BatonError without a work tree."""
    env = {**env, "HOME": _home(env)}
    if level == "user":
        state = os.path.abspath(env.get("XDG_STATE_HOME") or os.path.join(env["HOME"], ".local", "state"))
        return Place(level=level, root=None, git_dir=None, env=env, records=os.path.join(state, "gitbaton", "agents"))
    if root is None or shared is None:
        raise BatonError("this repository has no work tree, so there is no project level", "install with --user")
    return Place(level=level, root=root, git_dir=git_dir, env=env, records=os.path.join(shared, "agents"))


def _home(env: Mapping[str, str]) -> str:
    return env.get("HOME") or os.path.expanduser("~")


def path_of(where: Place, client: Client) -> str:
    """The file of a client at a level."""
    if where.root is not None:
        return os.path.join(where.root, client.project)
    return os.path.abspath(os.path.join(folder(client, where.env), client.user))


def _shown(where: Place, path: str) -> str:
    if where.root is not None and os.path.join(path, "").startswith(os.path.join(where.root, "")):
        return os.path.relpath(path, where.root)
    home = os.path.join(where.env["HOME"], "")
    return "~/" + path.removeprefix(home) if path.startswith(home) else path


def _look(where: Place, path: str) -> File:
    return look(path, _shown(where, path), inside=where.root, git_dir=where.git_dir)


def _hooks(where: Place, client: Client, track: str | None) -> Target:
    part: Part = Hooks(client, track)
    about = f"the hooks of {client.title}"
    if client.shape == "plugin":
        part, about = Whole("gitbaton.js", PLUGIN_MARK, track), f"the plugin of {client.title}"
    return Target(file=_look(where, path_of(where, client)), part=part, about=about)


def _skills(where: Place, clients: Iterable[Client], *, shared: bool) -> list[Target]:
    """The skill's files: the shared one, and those of clients that look elsewhere."""
    base = where.root or where.env["HOME"]
    paths = [os.path.join(base, SHARED_SKILLS, SKILL)] if shared else []
    for client in clients:
        if client.skills is not None:
            own = where.root or os.path.abspath(folder(client, where.env))
            paths.append(os.path.join(own, client.skills[0 if where.root is not None else 1], SKILL))
    part = Whole("SKILL.md", SKILL_MARK)
    return [Target(file=_look(where, path), part=part, about="the skill") for path in paths]


def _block(where: Place) -> Target:
    assert where.root is not None
    file = _look(where, os.path.join(where.root, "AGENTS.md"))
    return Target(file=file, part=Block(), about="the block for agents")


def text_of(target: Target) -> str:
    """The text of a target's file. Raises BatonError for bytes that are not text."""
    try:
        return (target.file.data or b"").decode("utf-8", target.part.errors)
    except UnicodeDecodeError:
        raise BatonError(f"'{target.file.shown}' is not UTF-8, and is left as it is") from None


def found_in(target: Target) -> Found:
    """What of ours a target's file holds. Raises BatonError for a file that cannot be understood."""
    try:
        return target.part.find(text_of(target))
    except (MalformedError, RecursionError) as error:
        raise _refused(target, error) from None


def _refused(target: Target, error: Exception) -> BatonError:
    why = str(error) if isinstance(error, MalformedError) else "it is nested too deep"
    return BatonError(f"'{target.file.shown}' is not what it should be, and is left as it is: {why}")


class _Draft:
    """A plan in the making, at one place."""

    def __init__(self, where: Place) -> None:
        self.where, self.records = where, Records(where.records)
        self.steps: list[Step] = []
        self.changes: list[Change] = []
        self.folders: list[str] = []
        self.notices: list[str] = []
        self.seen: set[str] = set()

    def met(self, file: File) -> bool:
        """Whether the file has been met before: two names may lead to one."""
        before = file.real in self.seen
        self.seen.add(file.real)
        return before

    def change(self, target: Target, text: str, after: str | None, record: Record | None = None) -> None:
        """Plan new text for a file, or none."""
        data = after.encode("utf-8", target.part.errors) if after is not None else None
        change = Change(file=target.file, after=data, record=record)
        self.changes.append(change)
        self.steps.append(Step(text=text, run=partial(carry_out, change, self.records)))

    def plan(self, remarks: Iterable[str] = ()) -> Plan:
        """The plan."""
        done = bool(self.steps)
        return Plan(
            steps=tuple(self.steps),
            changes=tuple(self.changes),
            folders=tuple(self.folders),
            notices=tuple(self.notices),
            remarks=tuple(remarks) if done else (),
        )

    def put(self, target: Target) -> None:
        """Plan to have a part in its file."""
        file, text = target.file, text_of(target)
        there = found_in(target)
        if self.met(file):
            return
        if target.part.whole and file.data is not None and not self._may_replace(target, text, there):
            return
        exact, old = self.records.exact(file), self.records.of(file)
        base = undone(text, exact.edits) if exact and exact.edits is not None and not target.part.whole else text
        try:
            merged = target.part.put(base)
        except (MalformedError, RecursionError) as error:
            raise _refused(target, error) from None
        if merged.text == text and file.data is not None:
            return
        first = exact is not None or there.count == 0
        record = Record(
            digest=digest(merged.text.encode("utf-8", target.part.errors)),
            edits=merged.edits if first and not target.part.whole else None,
            made=merged.made if first else (*old.made, *merged.made) if old and old.made is not None else None,
            created=exact.created if exact else file.data is None or bool(old and old.created and not first),
            folders=old.folders if old else (),
        )
        verb = f"write {target.about} to" if file.data is None else f"add {target.about} to"
        self.change(target, f"{verb if there.count == 0 else f'renew {target.about} in'} '{file.shown}'", merged.text, record)

    def _may_replace(self, target: Target, text: str, there: Found) -> bool:
        """Whether a file of our own may be written again: it is ours, and as we wrote it."""
        shown, old = target.file.shown, self.records.of(target.file)
        if there.count == 0:
            self.notices.append(f"'{shown}' is not ours, and is left as it is")
            return False
        if old is not None and self.records.exact(target.file) is None and not target.part.fresh(text):
            self.notices.append(f"'{shown}' was changed since it was installed, and is left as it is")
            return False
        return True

    def take(self, target: Target) -> None:
        """Plan to have a part out of its file, and the file away if install made it and nothing else is in it."""
        file, text = target.file, text_of(target)
        if file.data is None or found_in(target).count == 0 or self.met(file):
            return
        exact, old = self.records.exact(file), self.records.of(file)
        if target.part.whole and exact is None and not target.part.fresh(text):
            self.notices.append(f"'{file.shown}' was changed since it was installed, and stays")
            return
        if exact is not None and exact.edits is not None:
            after = undone(text, exact.edits)
            gone = exact.created
        else:
            after = target.part.take(text, old.made if old else None).text
            bare = old is not None and old.created and target.part.is_bare(after, old.made or ())
            gone = target.part.whole or bare or (old is None and target.part.fresh(text))
        if gone:
            self.folders += old.folders if old else ()
            self.folders += [os.path.dirname(file.real)] if os.path.basename(file.real) == "SKILL.md" else []
        what = f"remove '{file.shown}'" if gone else f"take {target.about} out of '{file.shown}'"
        self.change(target, what, None if gone else after)


def plan_install(where: Place, clients: Sequence[Client], *, track: str | None = None, agents_md: bool = False) -> Plan:
    """What install changes at a level; nothing when everything is in place. Raises BatonError for a file it must refuse."""
    draft = _Draft(where)
    for client in clients:
        draft.put(_hooks(where, client, track))
    for target in _skills(where, clients, shared=True):
        draft.put(target)
    if agents_md:
        draft.put(_block(where))
    return draft.plan(_remarks(where, clients, agents_md=agents_md))


def plan_uninstall(where: Place, clients: Sequence[Client]) -> Plan:
    """What uninstall takes back at a level; what other agents still need stays. Raises BatonError as install does."""
    draft = _Draft(where)
    for client in clients:
        draft.take(_hooks(where, client, None))
    others = [client for client in CLIENTS if client not in clients]
    last = not any(row(where, client).state in ("installed", "outdated") for client in others)
    for target in _skills(where, clients, shared=last):
        draft.take(target)
    if last and where.root is not None:
        draft.take(_block(where))
    return draft.plan(_left(where, clients))


def _left(where: Place, clients: Sequence[Client]) -> Iterator[str]:
    """What uninstall leaves behind in a client's own state."""
    for client in clients:
        config = os.path.join(os.path.abspath(folder(client, where.env)), "config.toml")
        named = os.fsencode(f"{os.path.realpath(path_of(where, client))}:")
        if client.name == "codex" and os.path.isfile(config) and named in (read(config) or b""):
            yield f"'{_shown(where, config)}' still names these hooks below [hooks.state]; without them it lets nothing run"


def apply(plan: Plan) -> None:
    """Carry out a plan, unless a file has changed meanwhile: then nothing is written. Raises BatonError."""
    for change in plan.changes:
        unchanged(change)
    githooks.apply(githooks.Plan(steps=plan.steps))
    drop_folders(plan.folders)


def _remarks(where: Place, clients: Sequence[Client], *, agents_md: bool) -> list[str]:
    """What a user should know after an install."""
    said: list[str] = []
    for client in clients:
        said += [f"{client.title}: {client.trust}"] if where.root is not None and client.trust else []
        said += [f"{client.title}: {text}" for text in client.remarks]
        if where.root is not None and not client.upward:
            said.append(f"{client.title}: started in a subdirectory it does not see '{client.project}'; --user covers that")
    if where.root is not None:
        said.append("clones and linked work trees have these files only when they are committed")
    else:
        said.append("hooks at user level run in every directory, and are silent in a repository without a checkpoint")
    if agents_md and where.root is not None:
        if _reads_no_agents_md(where.root):
            said.append("Claude Code reads CLAUDE.md and not AGENTS.md where both are; add the line '@AGENTS.md' to it")
        names = '{"context": {"fileName": ["AGENTS.md", "GEMINI.md"]}}'
        said.append(f"Gemini CLI reads AGENTS.md only by a setting: {names}")
    return [*said, "'git baton agent doctor' says whether they run"]


def _reads_no_agents_md(root: str) -> bool:
    """Whether there is a CLAUDE.md that does not lead to AGENTS.md."""
    path = os.path.join(root, "CLAUDE.md")
    same = os.path.realpath(path) == os.path.realpath(os.path.join(root, "AGENTS.md"))
    return os.path.isfile(path) and not same and b"@AGENTS.md" not in (read(path) or b"")


def doubled(rows: Iterable[Row]) -> list[str]:
    """For each client that is installed at both levels and runs its hooks twice there, a line that says so."""
    both: dict[str, list[Row]] = {}
    for found in rows:
        if found.state in ("installed", "outdated"):
            both.setdefault(found.client.name, []).append(found)
    said = []
    for name, found_rows in both.items():
        client, tracks = found_rows[0].client, {found.tracks for found in found_rows}
        files = {os.path.realpath(found.path) for found in found_rows}  # one, where the home folder is a work tree
        if len(files) > 1 and (client.twice or len(tracks) > 1):
            said.append(
                f"{client.title} is installed at both levels and runs each hook twice; keep one: uninstall {name} --user"
            )
    return said


def row(where: Place, client: Client) -> Row:
    """How a client stands at a level. Only looks, and raises nothing."""
    path = path_of(where, client)
    state: State = "not installed"
    tracks: tuple[str | None, ...] = ()
    reason = ""
    try:
        target = _hooks(where, client, None)
        found = found_in(target)
        tracks = found.tracks
        if found.count:
            state = "installed" if _is_current(where, client, target, tracks) else "outdated"
    except BatonError as error:
        ours = os.path.isfile(path) and OURS.encode() in (read(path, limit=-1) or b"")
        state, reason = "unreadable" if ours else "not installed", error.message
    shown = _shown(where, path)
    return Row(client=client, level=where.level, file=shown, path=path, state=state, tracks=tracks, reason=reason)


def _is_current(where: Place, client: Client, target: Target, tracks: tuple[str | None, ...]) -> bool:
    if len(tracks) != 1:
        return False
    text = text_of(target)
    try:
        return _hooks(where, client, tracks[0]).part.put(text).text == text
    except MalformedError:
        return False


def rows(places: Iterable[Place]) -> list[Row]:
    """Every client at every level given, in the order of the clients."""
    known = list(places)
    return [row(where, client) for client in CLIENTS for where in sorted(known, key=lambda p: LEVELS.index(p.level))]


def installed(where: Place) -> list[Client]:
    """The clients that have something of ours at a level."""
    return [client for client in CLIENTS if row(where, client).state != "not installed"]


def program(client: Client, env: Mapping[str, str]) -> str | None:
    """Where a program of the client is on PATH."""
    found = (shutil.which(name, path=env.get("PATH")) for name in client.programs)
    return next((path for path in found if path), None)


def on_machine(env: Mapping[str, str]) -> list[Client]:
    """The clients of which a program is on PATH, or a folder in the user's home."""
    return [client for client in CLIENTS if program(client, env) or os.path.isdir(folder(client, env))]
