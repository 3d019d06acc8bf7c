"""Install and uninstall for git: hooks, notes settings, refspecs; planned first, applied after, taken back exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial

from gitbaton.agents.install import kepthooks
from gitbaton.agents.install.kepthooks import ALL, TRAILERS, HooksDraft, aside, is_ours, wanted
from gitbaton.agents.install.plan import InstallPlan, InstallRecord, digest, drop_folders, read, refuse_others, write
from gitbaton.base.codec import counted, in_quotes
from gitbaton.base.errors import BatonError, UsageError
from gitbaton.base.system.files import DATA, remove
from gitbaton.checkpoints import mirror
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.render import in_shell
from gitbaton.checkpoints.store import CHAINS, CURRENT, NOTES
from gitbaton.checkpoints.store.refs import META, SIGNATURES, remote_of, remote_ref
from gitbaton.git import questions, registry
from gitbaton.git.objects import RefChange
from gitbaton.git.remotes import default, names
from gitbaton.git.repo import Repo, has_folder

GLOB = NOTES + "*"
COVERING = frozenset((GLOB, NOTES, "refs/notes/*"))
OURS = ("refs/baton/", "refs/checkpoints/")
_SHELL = re.compile(rb"#!.*[/ ](?:ba|da|z|k|a)?sh(?:\s|$)")
STATE = ("detached", "quiet")  # what the hook scripts keep in a git directory for themselves


def scripts() -> dict[str, bytes]:
    """The hook scripts as they ship."""
    for folder in (os.path.join(DATA, "hooks"), os.path.join(DATA, "../../hooks")):
        found = {event: read(os.path.join(folder, event)) for event in ALL}
        if all(is_ours(data) for data in found.values()):
            return {event: data for event, data in found.items() if data is not None}
    raise BatonError("the hook scripts are missing from this installation of gitbaton")


def route(repo: Repo) -> str:
    """Return the way by which hooks reach this repository: ``config`` (git 2.54 or newer), ``directory``, or ``foreign``
    (another tool's place)."""
    if questions.version(repo) >= questions.CONFIG_HOOKS:
        return "config"
    default = os.path.realpath(questions.default_hooks(repo))
    inside = default.startswith(os.path.join(os.path.realpath(repo.layout.common_dir), ""))
    return "directory" if inside and os.path.realpath(hooks_folder(repo)) == default else "foreign"


def hooks_folder(repo: Repo) -> str:
    """Return the directory of the hooks that git runs here."""
    return questions.hooks_path(repo) or questions.default_hooks(repo)


def script_folder(repo: Repo) -> str:
    """Return the folder of our own copies of the scripts: a venv may vanish, the repository stays."""
    return os.path.join(repo.shared_dir, "hooks")


def guarded(path: str) -> str:
    """A command line for ``hook.<name>.command`` that succeeds whatever becomes of the script at ``path``."""
    quoted = "'" + path.replace("'", "'\\''") + "'"
    return f'f() {{ test ! -f {quoted} || {quoted} "$@" || :; }}; f'


def line(event: str) -> str:
    """Return the line that another tool's hook needs to call ours; it names no path of this machine, so it may be shared."""
    return f'hook=$(git rev-parse --git-common-dir)/baton/hooks/{event}; test ! -x "$hook" || "$hook" "$@" || :'


def shared_hook(repo: Repo, event: str) -> str:
    """The file in which a user of another hook manager writes what ``event`` does; husky's lie beside its own folder."""
    folder = hooks_folder(repo)
    if os.path.basename(folder) == "_" and os.path.exists(os.path.join(folder, "h")):
        folder = os.path.dirname(folder)
    return os.path.join(folder, event)


def caller(repo: Repo, event: str) -> str | None:
    """The hook file through which git reaches our script, at the end; None when there is none. Config hooks apart."""
    path = os.path.join(hooks_folder(repo), event)
    there = read(path)
    if there is not None and os.access(path, os.X_OK):
        if is_ours(there) or _mentions(there, event):
            return path
        moved = aside(path)[0]
        if b"pre-commit" in there and is_ours(read(moved)) and os.access(moved, os.X_OK):
            return moved
        named = shared_hook(repo, event)
        if named != path and _mentions(read(named), event):
            return named
    return None


def _mentions(data: bytes | None, event: str) -> bool:
    wanted = f"baton/hooks/{event}".encode()
    return any(wanted in row and not row.lstrip().startswith(b"#") for row in (data or b"").splitlines())


def plan_install(
    baton: Baton, *, display: bool = True, fetch: bool = False, remote: str | None = None, trailers: bool | None = None
) -> InstallPlan:
    """Plan what ``install`` changes here; nothing when everything is in place.

    ``fetch``: also the refspecs by which a plain ``git fetch`` brings what others pushed, from ``remote``, by default the one
    that git fetches from. ``trailers``: what baton.trailers is to be, None: what it is. Raises UsageError for what is no
    configured remote.
    """
    refuse_others(baton.repo, baton.repo.shared_dir, script_folder(baton.repo))
    draft = HooksDraft(baton.repo)
    repo, way = baton.repo, route(baton.repo)
    if trailers is not None:
        draft.events = wanted(repo, on=trailers)
        _set_trailers(draft, "true" if trailers else "false")
    shipped = {event: data for event, data in scripts().items() if event in draft.events}
    if TRAILERS not in shipped:
        _without_trailers(draft)
    for event, data in shipped.items():
        _put(draft, os.path.join(script_folder(repo), event), data)
    if way == "config":
        _config_hooks(draft)
        _take_scripts(draft, shipped)
    else:
        _remove_config(draft, _config_hook_values(repo))
    if way == "directory":
        _hook_files(draft, shipped)
    elif way == "foreign":
        _foreign(draft)
    for key in ("notes.displayRef", "notes.rewriteRef") if display else ("notes.rewriteRef",):
        if not COVERING & set(questions.all_values(repo, key)):
            _add_config(draft, key, GLOB)
    if fetch:
        name = default(repo, pushing=False) if remote is None else remote
        if name not in names(repo):
            raise UsageError(f"'{name}' is no configured remote", "'git remote' lists them")
        stale = [(remote, text) for remote, text, meant in own_refspecs(repo) if remote == name != meant]
        _remove_config(draft, _local(repo, stale))
        for text in refspecs(name):
            _add_config(draft, f"remote.{name}.fetch", text)
    return draft.plan()


def _set_trailers(draft: HooksDraft, text: str) -> None:
    """Let baton.trailers be true or false, here, whatever is said elsewhere."""
    key = "baton.trailers"
    if questions.all_values(draft.repo, key)[-1:] != [text]:
        _remove_config(draft, [(key, other) for other in questions.local_values(draft.repo, key)])
        _add_config(draft, key, text, anew=True)


def _without_trailers(draft: HooksDraft) -> None:
    """Take out the hook that is there with baton.trailers alone."""
    event, path = TRAILERS, os.path.join(script_folder(draft.repo), TRAILERS)
    _remove_config(draft, _config_hook_values(draft.repo, (event,)))
    if is_ours(data := read(path)):
        _take_scripts(draft, {event: data or b""})
        _remove(draft, path)


def refspecs(remote: str) -> tuple[str, ...]:
    """The refspecs for a configured remote: globs, which are silent where the remote has nothing of the kind."""
    tracks, signed, meta, notes = (remote_ref(remote, rest) for rest in ("tracks/*", "signatures/*", "meta*", "notes*"))
    return f"+{CHAINS}*:{tracks}", f"+{META}*:{meta}", f"+{NOTES}*:{notes}", f"+{SIGNATURES}*:{signed}"


def own_refspecs(repo: Repo) -> list[tuple[str, str, str]]:
    """The refspecs of ours in all scopes, told by their value: the remote that has each, the refspec, and the remote that it
    was written for, which is another one after ``git remote rename``."""
    found = []
    for key, text in questions.matching(repo, r"^remote\..*\.fetch$"):
        meant = remote_of(text.partition(":")[2])
        if meant is not None and text in refspecs(meant[0]):
            found.append((key.removeprefix("remote.").removesuffix(".fetch"), text, meant[0]))
    return list(dict.fromkeys(found))


def _local(repo: Repo, specs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Settings for those refspecs of remotes that the repository's own configuration has."""
    pairs = ((f"remote.{remote}.fetch", text) for remote, text in specs)
    return [(key, text) for key, text in pairs if text in questions.local_values(repo, key)]


def _put(draft: HooksDraft, path: str, data: bytes) -> None:
    """Our script at ``path``, executable; what is there is ours, or nothing."""
    if read(path) == data and os.access(path, os.X_OK):
        return

    def run() -> None:
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            draft.made.folders.append(folder)
        draft.made.put(path, InstallRecord(digest=digest(data)))  # before the file, and the folder that has to be made for it
        os.makedirs(folder, exist_ok=True)
        write(path, data, 0o755)

    draft.step(f"write '{path}'", run)


def _add_config(draft: HooksDraft, key: str, text: str, *, anew: bool = False) -> None:
    if text in questions.local_values(draft.repo, key) and not anew:
        return

    def run() -> None:
        draft.made.put_value(key, text, here=True)
        questions.add_local(draft.repo, key, text)

    draft.step(f"add {key} = {text} to the repository's configuration", run)


def _remove_config(draft: HooksDraft, pairs: Iterable[tuple[str, str]]) -> None:
    for key, text in pairs:

        def run(key: str = key, text: str = text) -> None:
            questions.remove_local(draft.repo, key, text)
            draft.made.put_value(key, text, here=False)

        draft.step(f"remove {key} = {text} from the repository's configuration", run)


def _config_hook_values(repo: Repo, events: Sequence[str] = ALL) -> list[tuple[str, str]]:
    """The settings of config hooks of ours, whatever repository they were written for."""
    keys = [f"hook.baton-{event}.{name}" for event in events for name in ("event", "command")]
    found = questions.matching(repo, r"^hook\.baton-.*\.(event|command)$", local=True)
    return [(key, text) for key in keys for said, text in found if said == key]


def installed(repo: Repo) -> bool:
    """Whether hooks of git were installed here: install left its memory, scripts or settings, also where some are gone."""
    places = [os.path.join(repo.shared_dir, "installed"), script_folder(repo)]
    if any(map(os.path.lexists, places)):
        return True
    folder = hooks_folder(repo)
    return any(is_ours(read(os.path.join(folder, event))) for event in ALL) or bool(_config_hook_values(repo))


def has_config_hook(repo: Repo, event: str) -> bool:
    """Whether the configuration calls our script of this repository, and it is not switched off."""
    name = f"hook.baton-{event}"
    command = guarded(os.path.join(script_folder(repo), event))
    off = questions.all_values(repo, f"{name}.enabled")[-1:] in (["false"], ["no"], ["off"], ["0"])
    said = questions.all_values(repo, f"{name}.command")[-1:] == [command]
    return said and not off and event in questions.all_values(repo, f"{name}.event")


def _config_hooks(draft: HooksDraft) -> None:
    """One entry an event: git does not pass the event's name."""
    for event in draft.events:
        name = f"hook.baton-{event}"
        command = guarded(os.path.join(script_folder(draft.repo), event))
        there = questions.local_values(draft.repo, f"{name}.command")
        _remove_config(draft, [(f"{name}.command", text) for text in there if text != command])
        _add_config(draft, f"{name}.event", event)
        _add_config(draft, f"{name}.command", command)
        path = os.path.join(hooks_folder(draft.repo), event)
        if _mentions(read(path), event) and not is_ours(read(path)):
            draft.notices.append(f"'{path}' calls our script, too; take that line out, or it runs twice")


def _hook_files(draft: HooksDraft, shipped: dict[str, bytes]) -> None:
    """Our scripts in the hooks directory; a hook that is there already is kept and called first, or left in place."""
    targets = {event: path for event in shipped if (path := _place(draft, event, shipped[event])) is not None}
    sources = {event: path for event in targets if (path := _to_keep(draft, event)) is not None}
    here = {event: path for event, path in sources.items() if targets[event] == os.path.join(draft.top, event)}
    bound = {event: why for event, path in here.items() if (why := kepthooks.bound(draft, path))}
    while more := {
        e: why for e, path in here.items() if e not in bound and (why := kepthooks.lacks(draft, path, sources, bound))
    }:
        bound |= more
    for event, why in bound.items():
        path, source = os.path.join(draft.top, event), sources.pop(event)
        draft.notices.append(f"'{path}' is left in place: {why}; {_advice(draft.repo, path, event, source)}")
        if source != path:  # it was kept by another name
            kepthooks.restore(draft, path, event)
        del targets[event]
    kepthooks.link(draft, sources)
    for event in targets:
        if event in sources:
            kepthooks.move(draft, event, sources[event])
    for event, path in targets.items():  # after all are kept: one may be a link to another
        _put(draft, path, shipped[event])
        kepthooks.clear(draft, event, sources.get(event))


def _place(draft: HooksDraft, event: str, data: bytes) -> str | None:
    """Return the place of our script of an event; None where it is called, or is not to be written."""
    path = os.path.join(draft.top, event)
    there, earlier = read(path), draft.kept(event)
    found = caller(draft.repo, event)
    if is_ours(there):
        known = draft.made.files.get(path)
        if there is not None and there != data and known is not None and known.digest != digest(there):
            draft.notices.append(f"'{path}' was changed since it was installed and is left as it is")
            return None
    elif found is not None:
        return None if found == path else found  # the user's own hook calls ours; pre-commit has moved ours aside, and calls it
    elif earlier is not None and os.path.lexists(path) and not kepthooks.same(path, earlier):
        if kepthooks.moved_aside(path) is not None:
            return path
        draft.notices.append(
            f"neither '{path}' nor '{earlier}' is ours, so neither is touched; {_advice(draft.repo, path, event)}"
        )
        return None
    return path


def _to_keep(draft: HooksDraft, event: str) -> str | None:
    """The hook that is to be kept in the folder: one in our place, or one that was kept by another name."""
    path, former = os.path.join(draft.top, event), draft.former(event)
    if os.path.lexists(path) and not is_ours(read(path)) and caller(draft.repo, event) is None:
        return path
    return former if os.path.lexists(former) and not os.path.lexists(os.path.join(draft.folder, event)) else None


def _advice(repo: Repo, path: str, event: str, source: str | None = None) -> str:
    """Say what to add to the hook at ``path``, or for now at ``source``, so that it calls ours."""
    data, why = read(source or path) or b"", "to name agents in commits" if event == TRAILERS else "to be warned of drift"
    if b"\0" in data or (data.startswith(b"#!") and not _SHELL.match(data)):
        return f"{why}, let it run '{os.path.join(script_folder(repo), event)}' with its own arguments"
    return f"{why}, add to '{path}': {line(event)}"


def _foreign(draft: HooksDraft) -> None:
    missing = [event for event in draft.events if caller(draft.repo, event) is None]
    if missing:
        folder = hooks_folder(draft.repo)
        draft.notices.append(f"the hooks in '{folder}' belong to another tool, and nothing is written there")
    draft.notices += [_advice(draft.repo, shared_hook(draft.repo, event), event) for event in missing]


def plan_uninstall(baton: Baton, *, purge: bool = False) -> InstallPlan:
    """Plan what ``uninstall`` takes back; with ``purge`` also every checkpoint, note and LATEST file."""
    refuse_others(baton.repo, baton.repo.shared_dir, script_folder(baton.repo))
    draft = HooksDraft(baton.repo)
    repo, made = baton.repo, draft.made
    _take_scripts(draft, scripts())
    config = made.config
    if made.lost and (_config_hook_values(repo) or os.path.isdir(script_folder(repo)) or draft.steps):
        config = [*_config_hook_values(repo), ("notes.displayRef", GLOB), ("notes.rewriteRef", GLOB)]
    here = [(key, text) for key, text in config if text in questions.local_values(repo, key)]
    specs = [(remote, text) for remote, text, _ in own_refspecs(repo)]
    _remove_config(draft, dict.fromkeys([*here, *_local(repo, specs)]))
    for key, text in ((f"remote.{remote}.fetch", text) for remote, text in specs):
        if questions.all_values(repo, key).count(text) > questions.local_values(repo, key).count(text):
            where = f"'git config --show-origin --get-all {in_shell(key)}' says where it is"
            draft.notices.append(
                f"{key} = {text} stands outside of the repository's own configuration, too, and stays there; {where}"
            )
    hidden = _hidden(baton)
    for event in ALL:
        _remove(draft, os.path.join(script_folder(repo), event))
    if os.path.isdir(script_folder(repo)):
        _remove_folder(draft, script_folder(repo))
    for _, git_dir, _ in questions.worktrees(repo):
        for name in STATE if has_folder(repo, os.path.join(git_dir, "baton")) else ():
            _remove(draft, os.path.join(git_dir, "baton", name))
    _remove(draft, made.path)
    for folder in made.folders:
        inside = folder.startswith(os.path.join(repo.layout.common_dir, ""))  # the list lies where others may write, too
        if inside and folder != script_folder(repo) and os.path.isdir(folder):
            _remove_folder(draft, folder)
    if os.path.isdir(repo.shared_dir) and set(os.listdir(repo.shared_dir)) <= {"hooks", "installed", *STATE}:
        _remove_folder(draft, repo.shared_dir)
    if purge:
        _purge(draft, baton, hidden.values())
    else:
        _staying(draft, hidden.values())
    _unhide(draft, hidden.keys())  # after all that it hides was named, or is gone
    return draft.plan()


def _remove(draft: HooksDraft, path: str) -> None:
    if os.path.islink(path) or (os.path.lexists(path) and not os.path.isdir(path)):
        draft.step(f"remove '{path}'", lambda: os.unlink(path))


def _remove_folder(draft: HooksDraft, folder: str) -> None:
    """Plan to remove a folder that we made; it stays where it holds something else."""
    draft.step(f"remove the folder '{folder}' if nothing else is in it", partial(drop_folders, (folder,)))


def _take_scripts(draft: HooksDraft, shipped: dict[str, bytes]) -> None:
    """Take our scripts out of the hooks directory and put kept hooks back, also where a manager has moved ours aside."""
    restored = list[str]()
    for event, data in shipped.items():
        top, kept = os.path.join(draft.top, event), draft.kept(event)
        places = [path for path in (top, *aside(top)) if is_ours(read(path))]
        for path in places:
            if read(path) != data and not draft.is_known(path, top):
                draft.notices.append(f"'{path}' was changed since it was installed and stays")
                continue
            kepthooks.restore(draft, path, event if path == places[0] else None)
            restored += [event] if path == places[0] else []
        if event in restored and kept is not None and kept != draft.former(event):
            kepthooks.clear(draft, event)
        if not places and kept is not None:
            draft.notices.append(f"'{top}' is not ours any more; the hook kept as '{kept}' stays")
    back = [os.path.join(draft.top, event) for event in restored if os.path.lexists(os.path.join(draft.folder, event))]
    if back and (gone := kepthooks.gone(draft)):
        named = ", ".join(map(in_quotes, back))
        draft.notices.append(f"'{gone[0]}' has gone from beside {named}: remove by hand what nothing needs any more")
    kepthooks.take_folder(draft, restored)


def _hidden(baton: Baton) -> dict[bytes, str]:
    """Our lines of ``info/exclude``, each with the path that it names: LATEST and exported files, wherever they lie."""
    where, text = baton.latest, read(baton.repo.layout.exclude, limit=-1) or b""
    there, rows = [where.inside] if where is not None and where.inside is not None else [], text.splitlines()
    found: dict[bytes, str] = {}
    for folder in dict.fromkeys([*there, *mirror.listed(baton.repo)]):
        latest = {mirror.exclude_line(os.path.normpath(os.path.join(folder, name))) for name in mirror.NAMES}
        if folder not in there and not latest <= set(rows):
            continue  # one of them alone is the user's own
        exported = mirror.exclude_line(os.path.normpath(os.path.join(folder, mirror.EXPORTED)))
        for row in rows:
            if row in latest or (row.startswith(exported) and row.endswith((b".md", b".json"))):
                found[row] = os.path.normpath(os.path.join(folder, os.fsdecode(row.rpartition(b"/")[2].replace(b"\\", b""))))
    return found


def _unhide(draft: HooksDraft, lines: Collection[bytes]) -> None:
    """Take our lines out of ``info/exclude``."""
    if lines:
        run = partial(mirror.take_out, draft.repo, lines.__contains__)
        draft.step(f"remove our lines from '{draft.repo.layout.exclude}'", run)


def _staying(draft: HooksDraft, paths: Collection[str]) -> None:
    """Say which of the files that were hidden stay, and show."""
    roots = [root for _, _, root in questions.worktrees(draft.repo) if root]
    shown = {path for root in roots for path in questions.untracked(draft.repo, tuple(paths), root)}
    there = [path for path in paths if path in shown]
    exported = [path for path in there if os.path.basename(path) not in mirror.NAMES]
    if len(exported) < len(there):
        draft.notices.append("the LATEST files stay and show as untracked from now on; the next snapshot hides them again")
    if exported:
        more = f" and {len(exported) - 1} more" if len(exported) > 1 else ""
        draft.notices.append(f"exported history stays and shows as untracked from now on: '{exported[0]}'{more}")


def _purge(draft: HooksDraft, baton: Baton, hidden: Iterable[str]) -> None:
    """Every ref, note and file of ours, named."""
    repo = baton.repo
    there = sorted(repo.objects.refs(*OURS, NOTES.rsplit("/", 1)[0] + "/").items())
    for name, oid in there:
        if name.startswith(OURS) or name == NOTES:
            what = f"'{name}' ({oid})" if name != NOTES else f"'{name}' ({oid}) with every note in it, also those of others"
            draft.step(f"delete the ref {what}", partial(_delete_ref, repo, name, oid))
    where = baton.latest
    for prefix, git_dir, root in questions.worktrees(repo):
        if questions.current_ref(repo, git_dir, CURRENT):
            draft.step(f"delete '{prefix}{CURRENT}'", partial(questions.delete_current, repo, git_dir, CURRENT))
        if root:
            _purge_files(draft, root, hidden)
        own = os.path.join(git_dir, "baton")
        if os.path.lexists(own):
            draft.step(f"remove '{own}'", partial(remove, own))
    if where is not None and where.inside is None:
        for name in () if mirror.foreign(where) else mirror.NAMES:
            _remove(draft, os.path.join(where.directory, name))
        exported = list[str]()
        with suppress(OSError):
            exported += [name for name in os.listdir(where.directory) if name.startswith(mirror.EXPORTED)]
        if exported:
            draft.notices.append(
                f"exported history outside the work tree stays: {counted(len(exported), 'file')} in '{where.directory}'"
            )
    place = registry.place_of(repo.layout)
    with suppress(OSError):
        if place in registry.listed():
            draft.step(f"take '{place}' out of the list '{registry.registry()}'", partial(registry.forget, place))
    remotes = dict.fromkeys(found[0] for name, _ in there if (found := remote_of(name)))
    if remotes:
        draft.notices.append("what was pushed stays at " + ", ".join(f"'{name}'" for name in remotes))


def _purge_files(draft: HooksDraft, root: str, hidden: Iterable[str]) -> None:
    """The files of ours in a work tree that git does not track, and the folders that are then empty."""
    tracked = set(questions.tracked(draft.repo, tuple(hidden), root))
    found = [path for path in hidden if path not in tracked and os.path.lexists(os.path.join(root, path))]
    for folder in dict.fromkeys(os.path.dirname(path) for path in found):
        foreign = mirror.foreign(mirror.LatestPlace(directory=os.path.join(root, folder), inside=folder or ".", root=root))
        mine = [path for path in found if os.path.dirname(path) == folder and os.path.basename(path) not in foreign]
        for path in mine:
            _remove(draft, os.path.join(root, path))
        while mine and folder:
            _remove_folder(draft, os.path.join(root, folder))
            folder = os.path.dirname(folder)


def _delete_ref(repo: Repo, name: str, oid: str) -> None:
    if oid.strip("0"):
        repo.objects.update([RefChange(name=name, new=None, old=oid)])
    else:  # broken: git itself would not delete it
        repo.drop_broken(name)
    # git keeps the folder of the last ref below refs/baton, refs/notes, ... and that of its log, empty
    drop_folders(os.path.join(repo.layout.common_dir, top, *name.split("/")[:2]) for top in ("", "logs"))
