"""Remotes: which one is meant, what it has, and the exchange of named refs: time-limited, with leases, without prompts."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext, suppress
from types import MappingProxyType

from gitbaton.base.errors import RefConflictError, RemoteError, UsageError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import sync_paths
from gitbaton.base.system.process import Result
from gitbaton.base.values import replace, value
from gitbaton.git.bounded import Bounded, OutOfTimeError, failure, refused, server_words, without_credentials
from gitbaton.git.foreground import environment
from gitbaton.git.objectlists import all_refs
from gitbaton.git.objects import RefChange, are_refs, is_conflict
from gitbaton.git.publish import fsync, move_refs, sync_all
from gitbaton.git.questions import default_hooks, hooks_path, matching
from gitbaton.git.repo import TURN, Repo, silent
from gitbaton.git.run import LOCAL_ENV, checked, quoted, taken_back

_WANTED = r"^(remote\..*\.(url|pushurl)|branch\..*\.(remote|pushremote)|remote\.pushdefault|url\..*\.(push)?insteadof)$"
_SCP = re.compile(r"(?:[^/@:]*@)?([^/:]+:.*)\Z", re.DOTALL)
_BUNDLE = re.compile(rb"# v[23] git bundle\n")
_MAX_NAME = 60  # what is longer is cut and told apart by a digest; each of its bytes may take three in a ref
_ROW = re.compile(r"([ +\-*!=])\t([^\t]*):([^\t:]*)\t(.*)\Z")
_CONTENTS = 500  # ids on one command line of git-lfs
_EXACT = "gitbaton-pushurl"  # a remote that exists for one command
_OFF = "GITBATON_OFF"  # a variable of the environment that says false
_PLACE = "GITBATON_PLACE"  # one that says an address
_TURNS = "GITBATON_TURNS"  # one that says which places a push has its turn at
_NO_ATOMIC = "does not support --atomic"
_NO_REF = "couldn't find remote ref"
_BROKEN = "reference broken"
_LOCK = re.compile(r"cannot lock ref '([^']+)'")
# What is fetched stays one pack, which git has on disk, as it then has the refs.
_DISK = ("-c", "fetch.unpackLimit=1", "-c", "transfer.unpackLimit=1", "-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync")
_RECEIVE = "git -c receive.unpackLimit=1 -c core.fsync=all -c core.fsyncMethod=fsync"
# While git takes a push it counts its own store as one that it borrows from, and asks for the refs there once more.
_BORROWS_NOTHING = " -c core.alternateRefsCommand=true"
_ASIDE = ("-c", "maintenance.auto=false", "-c", "gc.auto=0", "-c", "push.gpgSign=false", *_DISK)
_FETCH = (
    "--no-tags",
    "--no-write-fetch-head",
    "--refmap=",
    "--no-recurse-submodules",
    "--no-auto-gc",
    "--no-prune",
    "--no-filter",
)
_PUSH = ("--porcelain", "--no-follow-tags", "--no-recurse-submodules", "--no-signed", "--no-force-if-includes")
# What a shelter does not take over: what says what the directory itself is, and what was read already.
_OWN = (b"core.repositoryformatversion", b"core.bare", b"core.worktree")
_NOT = (b"extensions", b"include", b"includeif")


@value
class Remote:
    """A remote. ``name`` is what refs are named after, ``shown`` what messages call it, both without credentials; ``fetch``
    and ``push`` are what git is given. ``bundle``: a file that is only read. ``exact``: those of ``push`` that are addresses to
    which git would come, and would rewrite no more: it pushes elsewhere than it fetches from, or to several places. ``urls``:
    the first URL of each configured remote that has one."""

    name: str
    shown: str
    fetch: str
    push: tuple[str, ...]
    bundle: bool = False
    exact: frozenset[str] = frozenset()
    urls: Mapping[str, str] = MappingProxyType({})

    def address(self, place: str) -> str:
        """Return the address, as ``address`` shows one, of a place that git is given; it may be a remote's name."""
        return address(self.urls.get(place, place))


@value
class Pushed:
    """Outcome of a push for one ref: ``kind`` is empty when the remote has it now, else one of gitbaton.git.bounded.KINDS, with
    the remote's ``reason``, and the ``words`` that it, or a hook of it, had for the push."""

    ref: str
    kind: str
    reason: str
    words: str = ""


def names(repo: Repo) -> list[str]:
    """Return the configured remotes that have a URL, in their order."""
    return configured_names(configured(repo))


def configured(repo: Repo) -> dict[str, list[str]]:
    """Return what git's configuration says of remotes: all values of the keys, in their order."""
    values: dict[str, list[str]] = {}
    for key, text in matching(repo, _WANTED):
        values.setdefault(key, []).append(text)
    return values


def configured_names(config: Mapping[str, list[str]]) -> list[str]:
    """Return what ``names`` does, of what ``configured`` returned."""
    found = (key[len("remote.") :].rpartition(".")[0] for key in config if key.endswith((".url", ".pushurl")))
    return list(dict.fromkeys(found))


def default(repo: Repo, *, pushing: bool, config: Mapping[str, list[str]] | None = None) -> str:
    """Return the remote that git would choose here without being told. Raises UsageError when there is none."""
    config, branch = configured(repo) if config is None else config, repo.objects.head().branch
    there = configured_names(config)
    keys = [f"branch.{branch}.pushremote", "remote.pushdefault"] if pushing else []
    chosen = [config.get(key, [""])[-1] for key in (*keys, f"branch.{branch}.remote")]
    for name in (*chosen, "origin" if "origin" in there else "", *(there if len(there) == 1 else [])):
        if name and name != ".":
            return name
    if not there:
        raise UsageError("no remote is configured", "name a URL or a path, or 'git remote add origin URL'")
    raise UsageError("no remote is named and none is the default", "the remotes are " + ", ".join(f"'{n}'" for n in there))


def find(
    repo: Repo, word: str | None, directory: str, *, pushing: bool = False, config: Mapping[str, list[str]] | None = None
) -> Remote:
    """Return the remote that a word means: a configured name, a URL, a path from ``directory``, a bundle; None for the default.
    ``config``: what ``configured`` returned, if that is known.

    Raises UsageError for what can be none of these.
    """
    repo.settings()  # git must know the hooks to switch off
    config = configured(repo) if config is None else config
    word = default(repo, pushing=pushing, config=config) if word is None else word
    if not word.strip() or word.startswith("-"):
        raise UsageError(f"'{word}' cannot be a remote", "a remote is a configured name, a URL or a path")
    there = configured_names(config)
    if word in there:
        urls, pushed = config.get(f"remote.{word}.url", []), config.get(f"remote.{word}.pushurl", [])
        firsts = {name: found[0] for name in there if (found := config.get(f"remote.{name}.url"))}
        remote = Remote(name=_ref_name(word), shown=word, fetch=word, push=(word,), urls=firsts)
        return _pushed(remote, config, urls, pushed)
    path = os.path.join(directory, word)
    if os.path.isfile(path):
        path = os.path.abspath(path)
        try:
            with open(path, "rb") as file:
                start = file.read(32)
        except OSError as error:
            raise UsageError(f"'{word}' cannot be read: {error.strerror}") from None
        if not _BUNDLE.match(start):
            raise UsageError(f"'{word}' is a file and no bundle", "'git bundle create' makes one")
        return Remote(name=_ref_name(path), shown=word, fetch=path, push=(), bundle=True)
    if os.path.isdir(path):
        path = os.path.abspath(path)
        return _pushed(Remote(name=_ref_name(path), shown=path, fetch=path, push=(path,)), config, [path])
    if word.endswith(".bundle") and ":" not in word:
        raise UsageError(f"there is no bundle '{word}'", "'git bundle create' makes one")
    if "/" in word or _SCP.match(word):
        shown = address(word)
        return _pushed(Remote(name=_ref_name(shown), shown=shown, fetch=word, push=(word,)), config, [word])
    hint = "the remotes are " + ", ".join(f"'{name}'" for name in there) if there else "no remote is configured"
    raise UsageError(f"'{without_credentials(word)}' is neither a remote nor a URL nor a path", hint)


def _pushed(remote: Remote, config: Mapping[str, list[str]], urls: list[str], pushed: Sequence[str] = ()) -> Remote:
    """The remote with the places that git pushes to, where these are not the one that it fetches from."""
    plain = [_rewritten(config, url, "insteadof") for url in pushed or urls]
    other = [] if pushed else [found for url in urls if (found := _rewritten(config, url, "pushinsteadof")) != url]
    places = tuple(dict.fromkeys(other or plain))
    if places == tuple(_rewritten(config, url, "insteadof") for url in urls[:1]):
        return remote
    return replace(remote, push=places, exact=frozenset(places))


def _rewritten(config: Mapping[str, list[str]], url: str, kind: str) -> str:
    """An address as git rewrites it by url.*.insteadOf, or by pushInsteadOf: the longest beginning that fits counts."""
    keys = (key for key in config if key.startswith("url.") and key.endswith(f".{kind}"))
    fits = [(key[len("url.") : -len(kind) - 1], text) for key in keys for text in config[key] if url.startswith(text)]
    base, text = max(fits, key=lambda rule: len(rule[1]), default=("", ""))
    return base + url[len(text) :]


def address(url: str) -> str:
    """A URL without user, password, query and fragment."""
    if "://" in url:
        return re.sub(r"[?#].*\Z", "", without_credentials(url), flags=re.DOTALL)
    match = _SCP.match(url)
    return match.group(1) if match else url


def typed(url: str) -> str:
    """Return a URL in the form to type: without passwords and tokens, but with the user of ssh."""
    return re.sub(r"(?<=://)([^/@:]*):[^/@]*@", r"\1@", url) if url.startswith("ssh://") else without_credentials(url)


def _ref_name(shown: str) -> str:
    """A name short enough for a ref: itself, or its last part and a digest."""
    if len(os.fsencode(shown)) <= _MAX_NAME and shown.isprintable():
        return shown
    import hashlib

    tail = re.sub(r"[^A-Za-z0-9._-]", "", shown.rstrip("/").rpartition("/")[2])[:30]
    return f"{tail}-{hashlib.sha256(os.fsencode(shown)).hexdigest()[:12]}".lstrip("-")


def temporary_folder() -> AbstractContextManager[str]:
    """Make a temporary folder, which goes when the block ends."""
    from tempfile import TemporaryDirectory  # late: few exchanges need one

    return TemporaryDirectory(prefix="gitbaton-")


class Connection:
    """The exchange with one remote; everything it does shares one allowance of ``seconds``. ``prompts`` as in Bounded.

    Whatever the remote does, a failure is a RemoteError in one line. ``hidden``: refs here that are broken; git does not see
    them where it fetches, and moves none of them.
    """

    def __init__(self, repo: Repo, remote: Remote, seconds: float, *, prompts: bool = False) -> None:
        self.repo, self.remote, self.seconds = repo, remote, seconds
        self.bounded = Bounded(repo.git, seconds, prompts=prompts)
        self.bounded.env[_OFF] = "false"
        self.hidden: frozenset[str] = frozenset()
        self._held = dict[str, ExitStack]()
        self._patience = TURN  # seconds for which other pushes are waited for, in all

    def _near(self, place: str | None) -> str:
        """Return where a place of the remote lies if that is on this machine; else there is no such folder."""
        return os.path.join(self.repo.git.directory, self.remote.address(place or self.remote.fetch))

    def turn(self, place: str | None = None) -> ExitStack:
        """Wait for other exchanges of this repository, or pushes to a place on this machine, as ``Repo.turn`` does, for half of
        the time that is left at most; the turn is ours until the block ends."""
        held, began, most = ExitStack(), time.monotonic(), self.bounded.left / 2
        if place is None:
            held.enter_context(self.repo.turn("exchange", most))
        elif place not in self._held and (turn := _turn_of(self._near(place))):
            ours = held.enter_context(self.repo.turn_at(self._near(place), min(most, self._patience)))
            self._patience = self._patience - (time.monotonic() - began) if ours else 0  # who waited in vain waits no more
            self.bounded.env[_TURNS] = f"{os.environ.get(_TURNS, '')} {turn}"
        self.bounded.left -= time.monotonic() - began
        return held

    def hold(self, place: str) -> None:
        """Wait as ``turn`` does; the turn is ours until ``close``: a push that was too late looks and sends again in one go."""
        if place not in self._held and _turn_of(self._near(place)):
            self._held[place] = self.turn(place)

    @property
    def holds(self) -> bool:
        """Whether a place is held."""
        return bool(self._held)

    def close(self) -> None:
        """End the turns."""
        while self._held:
            self._held.popitem()[1].close()

    @property
    def _aloud(self) -> tuple[str, ...]:
        """Options that make git report progress, where it is shown."""
        return () if self.repo.progress is silent else ("--progress",)

    def _hooks_environment(self) -> str:
        """The beginning of a shell line: hooks of a remote on this machine have what ``git push`` would give them, but for its
        language, and for traces that would end in our errors; and they hear whose turn it is. What names a repository git takes
        away itself."""
        ours, own = (
            {k: v for k, v in env.items() if k not in LOCAL_ENV and not k.startswith(("LC_", "LANG", "GIT_TRACE", _TURNS))}
            for env in (self.bounded.env, environment(self.repo, "here"))
        )
        return taken_back(ours, own)

    def _run(
        self,
        what: str,
        place: str | None,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Result:
        """Run git, which talks to a ``place`` of the remote; ``what`` that is, for progress. Where git may ask for a password,
        no progress is shown before git reports its own. ``meanwhile`` is done beside it."""
        told = self.repo.progress if self._aloud else None
        if told is not None:
            quiet = self.bounded.prompts and not os.path.exists(self._near(place))
            told("" if quiet else f"{what} {self.remote.shown}", 0, 0)
        try:
            return self.bounded.run(*_ASIDE, *args, stdin=stdin, env=env, told=told, meanwhile=meanwhile)
        except OutOfTimeError:
            said = f"'{self.remote.shown}' did not answer within {self.seconds:g} s"
            raise RemoteError(said, "--timeout SECONDS gives it more time", kind="timeout") from None

    def _failure(self, said: str) -> RemoteError:
        """Return what git said as an error, with words of its own for a bundle, which is a file."""
        error = failure(self.remote.shown, said)
        if not self.remote.bundle or error.kind not in ("offline", "missing"):
            return error
        if not os.path.exists(self.remote.fetch):
            return RemoteError(f"there is no bundle '{self.remote.shown}' any more", kind="missing")
        reason = error.message.rpartition(": ")[2]
        return RemoteError(f"the bundle '{self.remote.shown}' is not whole: {reason}", "get the file once more", kind="other")

    def _exactly(self, place: str | None) -> tuple[tuple[str, ...], dict[str, str]]:
        """Settings of git, and environment, by which it takes an address of ``exact`` as it is; nothing for any other place."""
        if place is None or place not in self.remote.exact:
            return (), {}
        return (f"--config-env=url.{place}.insteadOf={_PLACE}",), {_PLACE: place}

    def listed(
        self, *patterns: str, place: str | None = None, meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, Oid]:
        """Return the refs of the remote, or of ``place``, one of its push addresses, that match ``git ls-remote``'s patterns;
        ``meanwhile`` is done while it answers.

        What is no ref name or no id of this repository's object format is an error: nothing of such an answer is used.
        """
        exact, env = self._exactly(place)
        words = ("ls-remote", "-q", "--refs", "--", place or self.remote.fetch, *patterns)
        result = self._run("asking", place, *exact, *words, env=env, meanwhile=meanwhile)
        if result.code != 0:
            raise self._failure(result.err)
        rows, algorithm = os.fsdecode(result.out).split("\n")[:-1], self.repo.layout.algorithm
        found = {name: oid for oid, _, name in (row.partition("\t") for row in rows)}
        if not are_refs(algorithm, found):
            row = next(f"{oid} {name}" for name, oid in found.items() if not are_refs(algorithm, {name: oid}))
            raise RemoteError(f"'{self.remote.shown}' has refs that this repository cannot hold: {row[:100]}")
        return found

    def fetch(self, refs: Mapping[str, str | None], place: str | None = None, *, seen: Mapping[str, Oid] | None = None) -> bool:
        """Fetch refs of the remote, each into a ref of ours (forced), or only its objects for None.

        False when a ref has gone since it was listed (then nothing was fetched), or was rewritten, so that what ``seen`` says
        of it has not come: the caller looks again. Raises RefConflictError where another process moves a ref of ours, too:
        some may have moved then.
        """
        if not refs:
            return True
        into = {theirs: ours if ours not in self.hidden else None for theirs, ours in refs.items()}
        specs = os.fsencode("".join(f"+{theirs}:{ours}\n" if ours else f"{theirs}\n" for theirs, ours in into.items()))
        exact, env = self._exactly(place)
        words = (*exact, "fetch", *(self._aloud or ("-q",)), *_FETCH, "--stdin", "--", place or self.remote.fetch)
        if self.hidden:
            with temporary_folder() as folder:
                shelter = Shelter(self.repo, folder, self.hidden)
                result = self._run("fetching from", place, *words, stdin=specs, env={**env, **shelter.env})
                if result.code == 0:
                    shelter.take([ours for ours in into.values() if ours])
        else:
            result = self._run("fetching from", place, *words, stdin=specs, env=env)
        if result.code == 0:
            objects = self.repo.objects
            return all(objects.info(oid) is not None for ref, oid in (seen or {}).items() if ref in refs)
        if _NO_REF in result.err:
            return False
        if is_conflict(result.err) and _BROKEN not in result.err:
            names = [name for name in _LOCK.findall(result.err) if name in into.values()]
            raise RefConflictError(
                f"'{names[0]}' did not move: another process has it" if names else result.fatal(), "try again"
            )
        raise self._failure(result.err)

    def send_lfs(self, oids: Sequence[str], place: str) -> str:
        """Let git-lfs send contents to ``place``; what it says where it does not, else nothing. Raises RemoteError."""
        near = self._near(place)
        own = matching(self.repo, rf"^remote\.{re.escape(self.remote.fetch)}\.lfs(push)?url$")
        target = self.remote.fetch if own or (place in self.remote.exact and len(self.remote.push) == 1) else place
        if target == place and os.path.isdir(near) and target not in names(self.repo):
            target = "file://" + os.path.abspath(near)
        for at in range(0, len(oids), _CONTENTS):
            result = self._run("sending to", place, "lfs", "push", "--object-id", target, *oids[at : at + _CONTENTS])
            if result.code != 0:
                rows = [row.strip() for row in without_credentials(result.err).splitlines() if any(map(str.isalnum, row))]
                return " ".join(rows[:2]) or f"it exits with {result.code}"
        return ""

    def push_hook(self) -> str:
        """Return the user's pre-push hook, which ``git push`` would run; empty where there is none."""
        path = os.path.join(hooks_path(self.repo) or default_hooks(self.repo), "pre-push")
        return path if os.path.isfile(path) and os.access(path, os.X_OK) else ""

    def push(
        self, moves: Mapping[str, tuple[Oid | None, Oid | None]], place: str, *, hooked: bool = False
    ) -> tuple[Pushed, ...]:
        """Move refs of the remote: each from what was seen there (None: nothing) to an object of ours (None: delete it).

        All or none, where the server can; where it cannot, each for itself. Each move is one only from what was seen. With
        ``hooked`` git runs the user's pre-push hook before.
        """
        with temporary_folder() if hooked else nullcontext("") as folder:
            return self._push(moves, place, self._hook_settings(folder) if folder else ())

    def _hook_settings(self, folder: str) -> tuple[str, ...]:
        """Settings by which git runs the user's pre-push hook in its own environment, from a script in a folder of ours."""
        path = os.path.join(folder, "pre-push")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f'#!/bin/sh\n{self._hooks_environment()}export GIT_BATON=0\nexec {quoted(self.push_hook())} "$@"\n')
        os.chmod(path, 0o700)
        return ("-c", f"core.hooksPath={folder}")

    def _push(
        self, moves: Mapping[str, tuple[Oid | None, Oid | None]], place: str, hook: tuple[str, ...]
    ) -> tuple[Pushed, ...]:
        leases = [f"--force-with-lease={ref}:{seen or ''}" for ref, (seen, _) in moves.items()]
        specs = [f"{new or ''}:{ref}" for ref, (_, new) in moves.items()]
        target, settings, env = place, hook, dict[str, str]()
        if place in self.remote.exact and len(self.remote.push) == 1:
            target = self.remote.fetch  # git itself comes to that place, with all that is set for the remote
        elif place in self.remote.exact:
            target = _EXACT
            exactly, env = self._exactly(place)
            settings += exactly + tuple(f"--config-env=remote.{_EXACT}.{key}={_PLACE}" for key in ("url", "pushurl"))
        settings += (f"--config-env=remote.{target}.mirror={_OFF}",)  # -c would end the name at the first =
        # A remote of this machine has on disk what it takes; how another one does is its own git's matter.
        near = self._near(place)
        beside = (f"--receive-pack={self._hooks_environment()}{_receiving(near)}",) if os.path.isdir(near) else ()
        for atomic in (("--atomic",), ("--no-atomic",)):
            words = (
                "push",
                *self._aloud,
                *_PUSH,
                *(() if hook else ("--no-verify",)),
                *atomic,
                *beside,
                *leases,
                "--",
                target,
                *specs,
            )
            result = self._run("sending to", place, *settings, *words, env=env)
            rows = _rows(result)
            if _NO_ATOMIC not in result.err:
                break
        if set(rows) != set(moves) and result.code != 0:
            raise failure(self.remote.shown, result.err, writing=True)
        if beside:
            self._sync_names(near, moves)
        return tuple(rows.get(ref, Pushed(ref=ref, kind="other", reason="git says nothing of it")) for ref in moves)

    def _sync_names(self, near: str, refs: Iterable[str]) -> None:
        """Bring to disk the names that packs and refs have got in a repository of this machine: git syncs files, and no
        folders. Where they may be elsewhere, the whole file system."""
        places = (os.path.join(near, ".git"), near)
        git_dir = next((place for place in places if os.path.isdir(os.path.join(place, "refs"))), "")
        if not git_dir or os.path.exists(os.path.join(git_dir, "commondir")):
            sync_all(self.repo, near)
            return
        found = dict.fromkeys((git_dir, *(os.path.join(git_dir, name) for name in ("objects", "objects/pack", "reftable"))))
        for ref in refs:
            found |= dict.fromkeys(os.path.join(git_dir, ref[:at]) for at, letter in enumerate(ref) if letter == "/")
        try:
            sync_paths(found, missing=True)
        except OSError:
            sync_all(self.repo, near)


def _receiving(near: str) -> str:
    """Return the command by which a repository of this machine takes a push."""
    stores = (os.path.join(near, name) for name in (".git/objects", "objects"))
    store = next(filter(os.path.isdir, stores), None)
    alone = store is not None and not os.path.lexists(os.path.join(store, "info", "alternates"))
    return f"{_RECEIVE}{_BORROWS_NOTHING if alone else ''} receive-pack"


def _rows(result: Result) -> dict[str, Pushed]:
    """Parse what ``git push --porcelain`` said of each ref."""
    rows = {}
    words = server_words(result.err)
    for line in os.fsdecode(result.out).split("\n"):
        match = _ROW.match(line)
        if match is None:
            continue
        flag, _, ref, summary = match.groups()
        reason = without_credentials(summary.partition(" (")[2].rstrip(")"))
        kind = refused(reason) if flag == "!" else ""
        rows[ref] = Pushed(ref=ref, kind=kind, reason=words if kind == "hook" and words else reason, words=words)
    return rows


def _turn_of(folder: str) -> str:
    """Return what tells a folder from others, where there may be a turn to wait for: it is on this machine, and neither a push
    that started this one by a hook has it, nor ``flock``, which leaves the folder open to what it starts."""
    try:
        found = os.stat(folder)
    except OSError:
        return ""
    turn = f"{found.st_dev}:{found.st_ino}"
    if not stat.S_ISDIR(found.st_mode) or turn in os.environ.get(_TURNS, "").split():
        return ""
    for place in range(3, 10):
        with suppress(OSError):
            if os.path.samestat(os.fstat(place), found):
                return ""
    return turn


class Shelter:
    """A git directory without some refs: git fetches nothing beside a ref that leads to what cannot be read. Its objects and
    all settings are the repository's; what is fetched lies there as refs until ``take``; ``env`` makes it git's."""

    def __init__(self, repo: Repo, folder: str, hidden: Collection[str]) -> None:
        self.repo, self.place = repo, os.path.join(folder, "git")
        words = ("init", "-q", "--bare", "--template=", f"--object-format={repo.layout.algorithm}")
        checked(repo.git.run(*words, "--", self.place, env={"GIT_DEFAULT_REF_FORMAT": "files", "GIT_DIR": self.place}), "init")
        settings = os.path.join(folder, "settings")
        with open(settings, "wb") as file:
            file.write(_settings(repo))
        self.env = {
            "GIT_DIR": self.place,
            "GIT_CONFIG_GLOBAL": settings,
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_OBJECT_DIRECTORY": repo.git.env.get("GIT_OBJECT_DIRECTORY", repo.objects_dir),
        }
        shallow = os.path.join(repo.layout.common_dir, "shallow")
        if os.path.isfile(shallow):
            import shutil

            shutil.copyfile(shallow, os.path.join(self.place, "shallow"))
        self.before = {name: oid for name, oid in all_refs(repo, "refs/").items() if name not in hidden and oid.strip("0")}
        with open(os.path.join(self.place, "packed-refs"), "wb") as file:
            file.write(b"".join(f"{oid} ".encode() + os.fsencode(name) + b"\n" for name, oid in self.before.items()))

    def take(self, names: Collection[str]) -> None:
        """Move refs of the repository to where they are here. Raises RefConflictError, GitError."""
        raw = self.repo.git.out("for-each-ref", "--format=%(objectname) %(refname)", env=self.env)
        rows = (line.partition(" ") for line in os.fsdecode(raw).split("\n")[:-1])
        now = {name: oid for oid, _, name in rows if name in names}
        changes = [RefChange(name=name, new=oid, old=self.before.get(name)) for name, oid in now.items()]
        changes = [change for change in changes if change.new != change.old]
        if changes:
            move_refs(self.repo, changes, how=fsync(self.repo))


def _settings(repo: Repo) -> bytes:
    """Return all settings as git sees them in the repository, as one file: includes may depend on the place, and are read
    there. What each call brings along is none of them."""
    fields = repo.git.out("config", "--list", "--show-scope", "--includes", "-z").split(b"\0")[:-1]
    rows = []
    for scope, item in zip(fields[::2], fields[1::2], strict=True):
        key, given, text = item.partition(b"\n")
        room, _, name = key.rpartition(b".")
        section, dot, rest = room.partition(b".")
        if scope == b"command" or section in _NOT or key in _OWN:
            continue
        head = b"[" + section + (b' "' + _escaped(rest) + b'"' if dot else b"") + b"]\n\t" + name
        rows.append(head + (b' = "' + _escaped(text).replace(b"\n", b"\\n") + b'"' if given else b"") + b"\n")
    return b"".join(rows)


def _escaped(text: bytes) -> bytes:
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')
