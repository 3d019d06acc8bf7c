"""Install and uninstall: hooks and notes settings, planned first, applied after, taken back exactly."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from gitbaton import mirror
from gitbaton.baton import Baton
from gitbaton.errors import BatonError
from gitbaton.git import settings
from gitbaton.git.repo import Repo
from gitbaton.store import CURRENT, NOTES
from gitbaton.values import value

EVENTS = ("post-checkout", "post-commit", "post-merge", "post-rewrite")
MARK = b"\n# gitbaton: 1\n"
LEGACY = ".baton-legacy"
GLOB = NOTES + "*"
OURS = ("refs/baton/", "refs/checkpoints/", NOTES)


@value
class Step:
    """One change that a plan makes: what to tell, and the function that does it."""

    text: str
    run: Callable[[], None]


@value
class Plan:
    """Steps in their order, and lines for the user that no step can carry out."""

    steps: tuple[Step, ...]
    notices: tuple[str, ...] = ()


def apply(plan: Plan) -> None:
    """Carry out a plan. Raises BatonError; what was done by then is repeated harmlessly by the next run."""
    for step in plan.steps:
        try:
            step.run()
        except OSError as error:
            raise BatonError(f"{step.text}: {error.strerror or error}") from None


def scripts() -> dict[str, bytes]:
    """The hook scripts as they ship."""
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (os.path.join(here, "data", "hooks"), os.path.join(os.path.dirname(here), "hooks")):
        if os.path.isdir(folder):
            found = {}
            for event in EVENTS:
                with open(os.path.join(folder, event), "rb") as file:
                    found[event] = file.read()
            return found
    raise BatonError("the hook scripts are missing from this installation of gitbaton")


def route(repo: Repo) -> str:
    """How hooks reach this repository: ``config`` (git 2.54 or newer), ``directory``, or ``foreign`` (a core.hooksPath)."""
    if settings.version(repo) >= settings.CONFIG_HOOKS:
        return "config"
    path = settings.hooks_path(repo)
    default = settings.default_hooks(repo)
    return "directory" if path is None or os.path.realpath(path) == os.path.realpath(default) else "foreign"


def script_folder(repo: Repo) -> str:
    """Where our own copies of the scripts lie: a venv may vanish, the repository stays."""
    return os.path.join(repo.shared_dir, "hooks")


def guarded(path: str) -> str:
    """A command line for ``hook.<name>.command`` that succeeds whatever becomes of the script at ``path``."""
    quoted = "'" + path.replace("'", "'\\''") + "'"
    return f'f() {{ test ! -f {quoted} || {quoted} "$@" || :; }}; f'


def plan_install(baton: Baton, *, display: bool = True) -> Plan:
    """What ``install`` changes here; nothing when everything is in place."""
    repo = baton.repo
    made = _Manifest(repo)
    steps = [_copy(made, script_folder(repo), event, data) for event, data in scripts().items()]
    notices: list[str] = []
    way = route(repo)
    if way == "config":
        steps += _config_hooks(repo, made)
    elif way == "directory":
        for event, data in scripts().items():
            steps += _hook_file(repo, made, event, data)
    else:
        notices = _foreign(repo)
    keys = ("notes.displayRef", "notes.rewriteRef") if display else ("notes.rewriteRef",)
    for key in keys:
        if not {GLOB, NOTES, "refs/notes/*"} & set(settings.all_values(repo, key)):
            steps.append(_config(repo, made, key, GLOB))
    return Plan(steps=tuple(s for s in steps if s is not None), notices=tuple(notices))


class _Manifest:
    """What install did, so that uninstall takes back that and nothing else: values of the configuration, hook files."""

    def __init__(self, repo: Repo) -> None:
        self.path = os.path.join(repo.shared_dir, "installed")
        self.config: list[tuple[str, str]] = []
        self.hooks: dict[str, str] = {}
        try:
            with open(self.path, encoding="utf-8", errors="surrogateescape") as file:
                data = json.load(file)
            self.config = [(str(key), str(text)) for key, text in data["config"]]
            self.hooks = {str(path): str(digest) for path, digest in data["hooks"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # a lost manifest: what is ours is then told by its marks alone

    def add_config(self, key: str, text: str) -> None:
        """Remember a value before it is added."""
        if (key, text) not in self.config:
            self.config.append((key, text))
            self._save()

    def add_hook(self, path: str, data: bytes) -> None:
        """Remember a hook file before it is written."""
        self.hooks[path] = _digest(data)
        self._save()

    def _save(self) -> None:
        data = json.dumps({"v": 1, "config": self.config, "hooks": self.hooks}, indent=2)
        _write(self.path, data.encode("utf-8", "surrogateescape"), 0o644)


def _digest(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


def _write(path: str, data: bytes, mode: int) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
    with open(fd, "wb") as file:
        file.write(data)
    os.chmod(temporary, mode)
    os.replace(temporary, path)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(1 << 20)
    except OSError:
        return None


def _copy(made: _Manifest, folder: str, event: str, data: bytes) -> Step | None:
    path = os.path.join(folder, event)
    if _read(path) == data and os.access(path, os.X_OK):
        return None

    def run() -> None:
        made.add_hook(path, data)
        _write(path, data, 0o755)

    return Step(text=f"write '{path}'", run=run)


def _config(repo: Repo, made: _Manifest, key: str, text: str) -> Step:
    def run() -> None:
        made.add_config(key, text)
        settings.add_local(repo, key, text)

    return Step(text=f"add {key} = {text} to the repository's configuration", run=run)


def _config_hooks(repo: Repo, made: _Manifest) -> list[Step | None]:
    """One entry an event: git does not pass the event's name."""
    steps: list[Step | None] = []
    for event in EVENTS:
        name = f"hook.baton-{event}"
        command = guarded(os.path.join(script_folder(repo), event))
        stale = [text for text in settings.local_values(repo, f"{name}.command") if text != command]
        steps += [_unset(repo, f"{name}.command", text) for text in stale]
        for key, text in ((f"{name}.event", event), (f"{name}.command", command)):
            if text not in settings.local_values(repo, key):
                steps.append(_config(repo, made, key, text))
    return steps


def _unset(repo: Repo, key: str, text: str) -> Step:
    said = f"remove {key} = {text} from the repository's configuration"
    return Step(text=said, run=lambda: settings.remove_local(repo, key, text))


def _hook_file(repo: Repo, made: _Manifest, event: str, data: bytes) -> list[Step | None]:
    """Our script in the hooks directory; a hook that is there already is kept beside it and called first."""
    folder = settings.default_hooks(repo)
    path = os.path.join(folder, event)
    there = _read(path)
    steps: list[Step | None] = []
    if there is not None and MARK not in there:
        kept = path + LEGACY
        if os.path.lexists(kept):
            raise BatonError(
                f"'{path}' is not ours, and neither is '{kept}'", f"call '{script_folder(repo)}/{event} \"$@\"' from it"
            )
        steps.append(Step(text=f"keep the hook '{path}' as '{kept}', called first", run=lambda: os.rename(path, kept)))
    return [*steps, _copy(made, folder, event, data)]


def _foreign(repo: Repo) -> list[str]:
    path = settings.hooks_path(repo)
    lines = [f"core.hooksPath is '{path}': hooks there belong to another tool, and nothing is written to it"]
    lines += [f"to be warned of drift, add to its {event} hook:" + _call(repo, event) for event in EVENTS]
    return lines


def _call(repo: Repo, event: str) -> str:
    path = os.path.join(script_folder(repo), event).replace("'", "'\\''")
    return f"  test ! -x '{path}' || '{path}' \"$@\" || :"


def plan_uninstall(baton: Baton, *, purge: bool = False) -> Plan:
    """What ``uninstall`` takes back; with ``purge`` also every checkpoint, note and LATEST file."""
    repo = baton.repo
    made = _Manifest(repo)
    steps: list[Step] = []
    notices: list[str] = []
    for event, data in scripts().items():
        path = os.path.join(settings.default_hooks(repo), event)
        more, said = _restore_hook(path, {_digest(data), made.hooks.get(path, "")})
        steps += more
        notices += said
    present = [(key, text) for key, text in made.config if text in settings.local_values(repo, key)]
    steps += [_unset(repo, key, text) for key, text in present]
    steps += _exclude_lines(baton)
    for path in (*(os.path.join(script_folder(repo), e) for e in EVENTS), made.path):
        if os.path.lexists(path):
            steps.append(_removal(path))
    if os.path.isdir(script_folder(repo)):
        steps.append(Step(text=f"remove '{script_folder(repo)}'", run=lambda: os.rmdir(script_folder(repo))))
    return Plan(steps=(*steps, *(_purge(baton) if purge else ())), notices=tuple(notices))


def _removal(path: str) -> Step:
    return Step(text=f"remove '{path}'", run=lambda: os.unlink(path))


def _restore_hook(path: str, ours: set[str]) -> tuple[list[Step], list[str]]:
    """Take our script away and put a kept hook back; ``ours`` are the digests of what install may have written."""
    there, kept = _read(path), path + LEGACY
    if there is None or MARK not in there:
        left = [f"'{path}' is not ours any more; the hook kept as '{kept}' stays"] if os.path.lexists(kept) else []
        return [], left
    if _digest(there) not in ours:
        return [], [f"'{path}' was changed since it was installed and stays"]
    steps = [_removal(path)]
    if os.path.lexists(kept):
        steps.append(Step(text=f"put the hook '{kept}' back as '{path}'", run=lambda: os.rename(kept, path)))
    return steps, []


def _exclude_lines(baton: Baton) -> list[Step]:
    where = baton.latest
    target = baton.repo.layout.exclude
    text = _read(target)
    if where is None or text is None:
        return []
    lines = [mirror.exclude_line(path) for path in where.paths()]
    parent = os.path.dirname(where.paths()[0]) if where.paths() else ""
    exported = mirror.exclude_line(os.path.join(parent, "context_checkpoint_"))
    kept = [line for line in text.splitlines(keepends=True) if not _ours(line.rstrip(b"\n"), lines, exported)]
    if len(kept) == len(text.splitlines()):
        return []
    mode = os.stat(target).st_mode & 0o777
    return [Step(text=f"remove our lines from '{target}'", run=lambda: _write(target, b"".join(kept), mode))]


def _ours(line: bytes, latest: list[bytes], exported: bytes) -> bool:
    return line in latest or (line.startswith(exported) and line.endswith((b".md", b".json")))


def _purge(baton: Baton) -> list[Step]:
    """Every ref, note and file of ours, named."""
    repo = baton.repo
    refs = repo.objects.refs(*(p for p in OURS if p.endswith("/")), NOTES.rsplit("/", 1)[0] + "/")
    ours = {name: oid for name, oid in refs.items() if name.startswith(OURS[:2]) or name == NOTES}
    steps = [Step(text=f"delete the ref '{name}' ({oid})", run=_deletion(repo, name, oid)) for name, oid in ours.items()]
    where = baton.latest
    for prefix, git_dir, root in settings.worktrees(repo):
        if repo.objects.info(prefix + CURRENT) or os.path.lexists(os.path.join(git_dir, CURRENT)):
            steps.append(Step(text=f"delete '{prefix}{CURRENT}'", run=_current_deletion(repo, prefix)))
        paths = where.paths() if where else ()
        files = [os.path.join(root, p) for p in paths if root and not settings.tracked(repo, (p,))]
        files += [os.path.join(where.directory, n) for n in mirror.NAMES] if where and where.inside is None else []
        steps += [_removal(path) for path in dict.fromkeys(files) if os.path.lexists(path)]
        steps += _folder_removal(os.path.join(git_dir, "baton"))
    return steps


def _deletion(repo: Repo, name: str, oid: str) -> Callable[[], None]:
    from gitbaton.git.objects import RefChange

    return lambda: repo.objects.update([RefChange(name=name, new=None, old=oid)])


def _current_deletion(repo: Repo, prefix: str) -> Callable[[], None]:
    return lambda: settings.delete_current(repo, prefix, CURRENT)


def _folder_removal(folder: str) -> list[Step]:
    if not os.path.isdir(folder):
        return []

    def run() -> None:
        import shutil

        shutil.rmtree(folder)

    return [Step(text=f"remove '{folder}'", run=run)]
