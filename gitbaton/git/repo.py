"""One repository: its layout, configuration and operation in progress, the lock for its refs, and our own files in it."""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime
from functools import cache

from gitbaton.base.errors import GitError, NotARepositoryError, UsageError
from gitbaton.base.model import Head, Oid, Operation, WorktreeId
from gitbaton.base.system.files import (
    OddError,
    acquire,
    be_born,
    born,
    closing_fd,
    give,
    kind_of,
    mode_of,
    open_below,
    open_lasting,
    read_or_none,
    read_regular,
    share,
    sweep,
    sync_paths,
    write_atomic,
    write_first,
)
from gitbaton.base.system.process import Process, Result, remove_later
from gitbaton.base.values import TYPE_CHECKING, cast, replace, value
from gitbaton.git.binary import BinaryObjects, clear_stale_locks
from gitbaton.git.loose import put_in
from gitbaton.git.objects import OID, Algorithm, NewObject, Objects, parse_commit
from gitbaton.git.run import (
    BORROWED,
    STORES,
    Git,
    Listings,
    Prefetched,
    ask_layout,
    ask_ordinary,
    ask_settings,
    base_environment,
    borrowing,
    is_true,
    quoted,
    taken_back,
)

if TYPE_CHECKING:
    from typing import Literal

    Door = Literal["binary", "libgit2"]
else:
    Door = str
Progress = Callable[[str, int, int], None]
LOCK_WAIT = 60.0
TURN = 8.0  # seconds that one exchange waits for another one, at most
_LEFTOVER = 3600.0  # seconds after which a file that a process was writing is that of a killed one
_LINE = 128  # bytes of a file that holds an id
_MANY = 100  # objects that are sooner written as one pack: git's own fetch.unpackLimit
OURS = "ours"  # below our folder: the record of what was made here
_LOCKS = ("flock", "lock/runs")  # one of them is there where any version has written
_KEPT = b"ours\n"  # what they hold where the record was begun: one that is lost is not begun a second time
_PLACES = ("GIT_OBJECT_DIRECTORY", BORROWED, "GIT_COMMON_DIR")
PROGRAMS = {  # settings that name what git starts to sign and to verify, with git's own
    "gpg.program": "gpg",
    "gpg.openpgp.program": "gpg",
    "gpg.x509.program": "gpgsm",
    "gpg.ssh.program": "ssh-keygen",
    "gpg.ssh.defaultkeycommand": "false",
}
# As for git's safe.directory, a repository itself cannot say these: only system, user and command line can.
GUARDED, PROTECTED = frozenset(("baton.everywhere", *PROGRAMS)), frozenset(("system", "global", "command"))
_AUTHOR = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL")
_EDGE = r"[^\0- .,:;<>\"'\\]"
_PLAIN = re.compile(rf"{_EDGE}(?:[^\0-\x1f<>]*{_EDGE})?")  # what git takes as it is; of others it removes characters
_PER_WORKTREE = "extensions.worktreeconfig"
_NAMED = "name it: git --git-dir=PATH baton ..."


def silent(what: str, done: int, total: int) -> None:
    """Ignore progress."""


@value
class Layout:
    """Absolute paths of a repository; ``root`` is None in a bare one. ``index`` follows GIT_INDEX_FILE."""

    root: str | None
    git_dir: str
    common_dir: str
    index: str
    exclude: str
    algorithm: Algorithm


class _NowhereError(NotARepositoryError):
    """Error of no repository, neither here nor above."""


class _BareError(NotARepositoryError):
    """Error of a bare repository that was found and not named."""


class Repo:
    """A repository and, if it has one, the work tree it was opened in."""

    def __init__(self, layout: Layout, git: Git, door: Door | None) -> None:
        self.layout, self.git = layout, git
        self.objects: Objects = self._open(door)
        self.own_dir = os.path.join(layout.git_dir, "baton")
        self.shared_dir = os.path.join(layout.common_dir, "baton")
        self._settings: dict[str, list[str]] | None = None
        self._reading: Process | None = None
        self._quarantine: str | None = None
        self.stowed: set[Oid] = set()  # what the quarantine has
        self.unheeded: dict[str, str] = {}  # settings of GUARDED that lie where they do not count
        self.passed: str | None = None  # the bare repository that ``discover`` has passed over
        self.opened = git  # nothing of a quarantine or a dry run is in its environment
        self.listings: Listings | None = None
        # Is told what is being done, as "capturing files" whose last word is counted: how many are done, and of how many, or 0.
        self.progress: Progress = silent
        self.at_close: list[Callable[[], None]] = []
        self.held_lock: int | None = None  # of bytes that no checkpoint names yet; see worktree.heldbytes

    def _open(self, door: Door | None) -> Objects:
        place = self.git, self.layout.git_dir, self.layout.common_dir, self.layout.algorithm
        # libgit2 knows neither SHA-256 nor these variables.
        known = self.layout.algorithm == "sha1" and not any(name in self.git.env for name in _PLACES)
        if door == "binary" or not known:
            return BinaryObjects(*place)
        try:
            from gitbaton.git.libgit2 import Libgit2Objects

            return Libgit2Objects(*place)
        except (NotARepositoryError, ImportError):
            if door == "libgit2":
                raise
            return BinaryObjects(*place)

    def reopen(self, door: Door | None) -> None:
        """Use another door from now on to objects and refs, where it opens the repository."""
        self.objects.close()
        self.objects = self._open(door)

    def lean_on(self, other: Repo) -> None:
        """Read objects by the process of another work tree of this repository, where both have one."""
        own, elder = self.objects, other.objects
        if isinstance(own, BinaryObjects) and isinstance(elder, BinaryObjects) and own.common_dir == elder.common_dir:
            own.elder = elder

    def redirect(self, folder: str) -> None:
        """Write new objects from now on and files of our own into ``folder``: for a dry run, which leaves nothing."""
        store = os.path.join(folder, "objects")
        os.makedirs(os.path.join(store, "pack"))
        real = self.git.out("rev-parse", "--path-format=absolute", "--git-path", "objects").rstrip(b"\n")
        met = born(os.path.join(self.own_dir, "worktree"))
        if met is not None:  # the work tree stays the same
            be_born(os.path.join(folder, "worktree"), met)
        self.own_dir = folder
        self.objects.close()
        self.git = self.git.changed({"GIT_OBJECT_DIRECTORY": store, **borrowing(self.git.env, os.fsdecode(real))})
        self.objects = self._open("binary")

    def quarantine(self) -> str:
        """Return the folder of new objects until a pack of them is published (``git.publish``): only this object reads them.
        What a power cut tears there is in no other's way. Where objects go elsewhere already, it is that place."""
        if "GIT_OBJECT_DIRECTORY" in self.git.env:
            return self.git.env["GIT_OBJECT_DIRECTORY"]
        if self._quarantine is None:
            self._quarantine = os.path.join(self.own_dir, "tmp", f"{os.getpid()}.{time.monotonic_ns()}")
            store = os.path.join(self._quarantine, "objects")
            try:
                make_folder(self, os.path.dirname(self._quarantine))
                os.makedirs(store)
            except OSError as error:
                self._quarantine = None
                raise GitError(f"'{os.path.join(self.own_dir, 'tmp')}' cannot be written: {error.strerror}") from None
            env = borrowing(self.git.env, store)
            self.git = self.git.changed(env)
            self.objects.borrow(store, env)
        store = os.path.join(self._quarantine, "objects")
        os.makedirs(store, exist_ok=True)
        os.utime(self._quarantine)  # else it is swept as what a killed process left
        return store

    def stow(self, objects: Sequence[NewObject]) -> None:
        """Write objects into the quarantine, from where they are published; many as a pack. Raises GitError."""
        place = self.quarantine()
        if len(objects) > _MANY:
            alone = self.git.changed({"GIT_OBJECT_DIRECTORY": place, BORROWED: ""})
            layout = self.layout
            BinaryObjects(alone, layout.git_dir, layout.common_dir, layout.algorithm).write_pack(objects)
        else:
            put_in(place, objects)
        self.stowed.update(item.oid for item in objects)

    def writing(self, git: Git) -> Git:
        """Return the same git, its new objects in the quarantine."""
        return git if "GIT_OBJECT_DIRECTORY" in git.env else self.apart(git, self.quarantine())

    def apart(self, git: Git, folder: str) -> Git:
        """Return the same git, what it writes in a folder: in the store `git prune --expire=now` takes what is under way."""
        return git.changed({"GIT_OBJECT_DIRECTORY": folder, **borrowing(git.env, os.path.realpath(self.objects_dir))})

    @property
    def plain(self) -> Git:
        """Git without the quarantine, for packing: ``git repack -l`` leaves out what an alternate holds."""
        return self.git if self._quarantine is None else self.opened

    def clear(self) -> None:
        """Remove the quarantine: what refs are to hold is published. Never raises."""
        if self._quarantine is not None:
            remove_later(self._quarantine)
            self._quarantine = None
            self.stowed.clear()
            self.git = self.opened
            self.objects.give_back()

    def take_over(self, prefetched: Prefetched) -> None:
        """Use what was begun before this repository was found; listings only where they read its index from its top."""
        top = os.path.realpath(prefetched.directory)  # clients name it through links, too
        if top != self.layout.root or f"{top}/.git/index" != self.layout.index or "GIT_DIR" in self.git.env:
            prefetched.drop_listings()
        self._reading, self.listings = prefetched.settings, prefetched.listings
        if prefetched.wanted == "capture" and prefetched.index is not None:
            self.quarantine()  # before warm() starts the process that reads it
        self.objects.warm()

    def prefetch_settings(self) -> None:
        """Start reading the configuration while other things are done."""
        if self._settings is None and self._reading is None:
            self._reading = ask_settings(self.git)

    def settings(self) -> dict[str, list[str]]:
        """Return ``baton.*`` and the few keys of git's that we heed: all values of each, in git's order, keys as git prints
        them."""
        if self._settings is None:
            self.prefetch_settings()
            reading, self._reading = cast(Process, self._reading), None
            result = reading.finish()
            if result.code not in (0, 1):
                raise GitError(f"'git config' failed: {result.fatal()}")
            found: dict[str, list[str]] = {}
            fields = result.out.decode("utf-8", "surrogateescape").split("\0")[:-1]
            for scope, item in zip(fields[::2], fields[1::2], strict=True):
                key, newline, value = item.partition("\n")
                if key in GUARDED and scope not in PROTECTED:
                    self.unheeded[key] = value if newline else "true"
                    continue
                found.setdefault(key, []).append(value if newline else "true")
            self._heed(found)
        return self._settings or {}

    def share_settings(self, other: Repo) -> None:
        """Take the settings of another work tree of this repository, where none depends on the work tree."""
        found = other.settings()
        if not any(key.startswith("includeif.") for key in found):
            self.unheeded = dict(other.unheeded)
            self._heed(found)

    def _heed(self, settings: dict[str, list[str]]) -> None:
        self._settings = settings
        # core.hooksPath does not switch off the hooks that git 2.54 takes from the configuration.
        names = {key[5:-6] for key in settings if key.startswith("hook.")}
        off = tuple(f"hook.{name}.enabled=false" for name in sorted(names) if "=" not in name)
        for git in {self.git, self.opened}:  # the quarantine may have come before
            git.config += off + self._filters(settings)

    def _filters(self, settings: Mapping[str, list[str]]) -> tuple[str, ...]:
        """Return the user's filters, which must not store what they store in our quarantine, nor take for stored what lies
        there: the shell by which git starts them first takes back what leads to it, and to our copy of the index."""
        found = {key: texts[-1] for key, texts in settings.items() if key.startswith("filter.") and "=" not in key}
        own = {name: text for name in (*STORES, "GIT_INDEX_FILE") if (text := self.opened.env.get(name))} if found else {}
        first = taken_back(dict.fromkeys((*STORES, "GIT_INDEX_FILE"), ""), own).replace("%", "%%")
        return tuple(f"{key}={first}{text}" for key, text in found.items() if text)

    def boolean(self, key: str, *, default: bool = False) -> bool:
        """Return a setting among those of ``settings``, read as git reads a boolean."""
        return is_true(self.settings().get(key, [str(default)])[-1])

    def identity(self) -> bytes | None:
        """Return the user's ``Name <email>``; None where git would refuse to guess one."""
        if not any(name in self.git.env for name in _AUTHOR):
            set_ = {key: texts[-1] for key, texts in self.settings().items()}
            parts = [set_.get(f"author.{part}") or set_.get(f"user.{part}", "") for part in ("name", "email")]
            if all(map(_PLAIN.fullmatch, parts)):
                return "{} <{}>".format(*parts).encode("utf-8", "surrogateescape")
        # The date is not asked for, and one that git cannot read would look like no identity.
        result = self.git.run("-c", "user.useConfigOnly=true", "var", "GIT_AUTHOR_IDENT", env={"GIT_AUTHOR_DATE": "@0 +0000"})
        author = result.out.strip().rsplit(b" ", 2)[0]
        return author if result.code == 0 and author.endswith(b">") and b"\n" not in author else None

    def wants_color(self, *, tty: bool) -> bool:
        """Return what color.baton and color.ui say for a standard output that is, or is not, a terminal."""
        return self.git.run("config", "--get-colorbool", "color.baton", str(tty).lower()).out.strip() == b"true"

    def colors(self) -> dict[str, str]:
        """Return for each color.baton.<slot> the escape sequence. Raises UsageError for what is no colour."""
        if not any(key.startswith("color.baton.") for key in self.settings()):
            return {}
        asked = self.git.run("config", "-z", "--type=color", "--get-regexp", r"^color\.baton\.")
        if asked.code:
            raise UsageError(f"color.baton: {asked.fatal()}", "see 'git config --get-regexp ^color.baton'")
        found = (item.partition("\n") for item in asked.out.decode("utf-8", "replace").split("\0")[:-1])
        return {key.removeprefix("color.baton."): escape for key, _, escape in found}

    def pager(self) -> str:
        """Return the user's pager command, as git would choose it."""
        env = {k: v for k, v in os.environ.items() if k in ("GIT_PAGER", "PAGER")}
        asked = Git(self.git.directory, {k: v for k, v in self.git.env.items() if k != "GIT_PAGER"} | env)
        return os.fsdecode(asked.run("var", "GIT_PAGER").out).rstrip("\n")

    def operation(self) -> Operation | None:
        """Return the merge, rebase, am, cherry-pick, revert or bisect that is in progress in this work tree."""
        for folder in ("rebase-merge", "rebase-apply"):
            if os.path.isdir(os.path.join(self.layout.git_dir, folder)):
                return self._rebase(folder)
        for kind, name in (("cherry-pick", "CHERRY_PICK_HEAD"), ("revert", "REVERT_HEAD"), ("merge", "MERGE_HEAD")):
            found = self.objects.info(name)
            if found is not None and not (kind == "merge" and found.oid in self._merged()):
                return Operation(kind=kind, head=found.oid, refs=((name, found.oid),))
        todo = self._read("sequencer/todo").split("\n", 1)[0].split(" ", 1)[0]
        if todo in ("pick", "p", "revert"):
            return Operation(kind="revert" if todo == "revert" else "cherry-pick")
        if os.path.exists(os.path.join(self.layout.git_dir, "BISECT_LOG")):
            start = self._read("BISECT_START")
            return Operation(kind="bisect", refs=(("BISECT_START", start),) if start else ())
        return None

    def _merged(self) -> tuple[str, ...]:
        """Return the parents of HEAD. Git tells post-merge of a merge that it has committed before it forgets that there was
        one."""
        head = self.objects.head().oid
        found = self.objects.read(head) if head else None
        return parse_commit(found.data).parents if found is not None and found.kind == "commit" and found.data else ()

    def _rebase(self, folder: str) -> Operation:
        applying = os.path.exists(os.path.join(self.layout.git_dir, folder, "applying"))
        head, onto = self._read(f"{folder}/orig-head"), self._read(f"{folder}/onto")
        name = self._read(f"{folder}/head-name")
        return Operation(
            kind="am" if applying else "rebase",
            head=head if self._exists(head) else None,
            onto=onto if self._exists(onto) else None,
            refs=(("head-name", name),) if name else (),
        )

    def _exists(self, oid: str) -> bool:
        found = self.objects.info(oid) if oid else None
        return found is not None and found.oid == oid

    def _read(self, name: str) -> str:
        found = read_or_none(os.path.join(self.layout.git_dir, name), 4096, follow=True)
        return (found or b"").decode("utf-8", "replace").strip()

    def worktree_id(self) -> WorktreeId:
        """Return this work tree's path and when gitbaton first met it (a file in its git directory remembers)."""
        path = os.path.join(self.own_dir, "worktree")
        created = born(path)
        if created is None:
            make_folder(self, self.own_dir)
            be_born(path)
            shared(self, path)
            created = cast(datetime, born(path))
        return WorktreeId(path=self.layout.root or self.layout.git_dir, created=created)

    @property
    def objects_dir(self) -> str:
        """The directory of this repository's own objects."""
        return self.git.objects_dir(self.layout.common_dir)

    def object_store(self) -> tuple[int, bool]:
        """Return a mark of the object store that changes when git repacks it or collects garbage."""
        try:
            changed = os.stat(os.path.join(self.objects_dir, "pack")).st_mtime_ns
        except OSError:
            changed = 0
        return changed, os.path.exists(os.path.join(self.layout.common_dir, "gc.pid"))

    def drop_broken(self, ref: str) -> bool:
        """Remove a loose ref file without an id, as after a power loss: nothing can be read from it, and git will not write
        over it. Return whether it was removed. Only for derived refs, or those given up, with the lock held."""
        path = os.path.join(self.layout.common_dir, *ref.split("/"))
        try:
            text = os.fsdecode(read_regular(path, 4096)).strip()
            if (OID.match(text) and text.strip("0")) or text.startswith("ref: "):
                return False
            os.unlink(path)
        except OSError:
            return False
        return True

    def expect(self, head: str | None, git_dir: str | None = None) -> None:
        """Say in a work tree's ``expect`` file (default: this one's) which HEAD its current checkpoint stands on; None
        removes it."""
        path = os.path.join(os.path.join(git_dir, "baton") if git_dir else self.own_dir, "expect")
        if read_or_none(path, _LINE) == f"{head}\n".encode():
            return
        if head is not None:
            put(self, path, f"{head}\n".encode())
        elif os.path.lexists(path):
            drop(self, path)

    @contextmanager
    def lock(self, names: tuple[str, ...], wait: float = LOCK_WAIT, *, of: str = "flock") -> Iterator[None]:
        """Hold the lock of this repository's baton refs; stale ``*.lock`` files beside ``names`` are removed first. ``of``: the
        file that is locked; runs have one of their own.

        Raises GitError when another process holds it for ``wait`` seconds. The kernel frees it when its holder dies.
        """
        self.settings()  # who writes must know the hooks to switch off
        path = os.path.join(self.shared_dir, of)
        try:
            fresh = not begun(self) and not _used(self)
            if fresh:  # nothing that is here was made by us
                make_folder(self, os.path.join(self.shared_dir, OURS))
            fd = lock_file(self, path)
            if fresh:
                os.write(fd, _KEPT)
        except OSError as error:
            raise GitError(f"'{path}' cannot be opened: {error.strerror}") from None
        with closing_fd(fd):
            taken = acquire(fd)
            if not taken:
                self.progress("waiting for another process", 0, 0)
            if not (taken or acquire(fd, wait)):
                raise GitError(f"'{path}' is held by another process for {wait:.0f} s")
            if not taken:
                self.progress("recording", 0, 0)
            clear_stale_locks(self.layout.common_dir, names)
            clear_stale_locks(self.layout.git_dir, ("BATON_HEAD",))
            yield

    def turn(self, of: str, most: float) -> AbstractContextManager[bool]:
        """Wait for others at the same kind of work, so that they are not in each other's way, but not for long, and ``most``
        seconds: then, or where nothing can be locked, go on beside them; gives whether the turn is ours. Nothing relies on it.
        The kernel frees it when its holder dies."""
        return self._turn(lambda: lock_file(self, os.path.join(self.shared_dir, "lock", of)), most)

    def turn_at(self, folder: str, most: float) -> AbstractContextManager[bool]:
        """Wait as ``turn`` does for others at work in a folder that is not ours: it is locked, and nothing is written there."""
        return self._turn(lambda: os.open(folder, os.O_RDONLY | os.O_DIRECTORY), most)

    @contextmanager
    def _turn(self, opened: Callable[[], int], most: float) -> Iterator[bool]:
        taken = False
        with ExitStack() as held, suppress(OSError):
            fd = held.enter_context(closing_fd(opened()))
            taken = acquire(fd)
            if not taken:
                self.progress("waiting for another process", 0, 0)
                taken = acquire(fd, min(TURN, max(most, 0)))
            held = held.pop_all()
        with held:
            yield taken

    def close(self) -> None:
        """Close processes and handles, and remove what was not published."""
        while self.at_close:
            self.at_close.pop()()
        self.objects.close()
        self.clear()
        for begun in (self._reading, self.listings):
            if begun is not None:
                begun.stop()
        self._reading = self.listings = None


def discover(
    start: str | None, *, door: Door | None = None, prefetched: Prefetched | None = None, named: bool = False, bare: bool = True
) -> Repo:
    """Return the repository that git finds from ``start`` (default: the current directory and ``GIT_*``).

    A bare one that lies in a work tree is passed over for that: files of a clone may be a whole repository, with programs in
    its configuration. Elsewhere it is used with ``bare``, as far as safe.bareRepository allows it, if it names no work tree.
    ``named``: a ``start`` that is itself one names it, as ``--git-dir`` does. ``prefetched``: what was begun there already.

    An explicit ``start`` is another repository than the one ``GIT_DIR`` may name, unless both are the same.
    Raises NotARepositoryError with git's own reason.
    """
    env = base_environment(strip_local=start is not None)
    git, passed = Git(start or here(), env), None
    try:
        layout = _ordinary(git, prefetched.layout if prefetched else None)
        if layout is None and named and start is not None:
            layout, place = _named(git, start)
            env |= place
        if layout is None:
            layout, passed = _around(git)
        if layout is None:
            layout = _layout(git) if bare else None
            if layout is None or layout.root is not None:
                said = f"the repository that holds '{git.directory}' is no '.git' of a work tree, and nobody named it"
                raise NotARepositoryError(said, _NAMED)
        _refuse_sudo(layout)
    except NotARepositoryError:
        if prefetched is not None:
            prefetched.drop()
        raise
    if passed is not None:
        env |= {"GIT_DIR": layout.git_dir, "GIT_WORK_TREE": layout.root or ""}  # git in the user's directory finds the other
        if prefetched is not None:
            prefetched.drop()
            prefetched = None
    if start is not None and "GIT_DIR" in os.environ:
        given = os.path.realpath(os.environ["GIT_DIR"])
        if given == os.path.realpath(layout.git_dir):
            env = base_environment(strip_local=False)
            layout = _layout(Git(here(), env))
    env |= _absolute(env, layout)
    repo = Repo(layout, Git(layout.root or layout.git_dir, env), door)
    repo.passed = passed
    if prefetched is not None:
        repo.take_over(prefetched)
    return repo


def neighbour(repo: Repo, git_dir: str, root: str) -> Repo | None:
    """Open another work tree of a repository, by its git directory and its place; None where something else stands there now.
    It reads objects by the process of ``repo``."""
    layout = replace(repo.layout, root=root, git_dir=git_dir, index=os.path.join(git_dir, "index"))
    if _PER_WORKTREE not in repo.settings() and _is_linked(layout):  # with its own it may have its files elsewhere, or none
        found = Repo(layout, Git(root, base_environment(strip_local=True)), "binary")
        found.share_settings(repo)
    else:
        try:
            found = discover(root, door="binary")
        except NotARepositoryError:
            return None
        if os.path.realpath(found.layout.git_dir) != os.path.realpath(git_dir):
            found.close()
            return None
    found.lean_on(repo)
    return found


def _is_linked(layout: Layout) -> bool:
    """Whether a work tree is plainly one that git made beside another, and all of it is ours, so that git would say the same
    of it and need not be asked."""
    root, git_dir = layout.root or "", layout.git_dir
    if os.path.dirname(git_dir) != os.path.join(layout.common_dir, "worktrees") or os.path.realpath(root) != root:
        return False
    try:
        mine = all(os.lstat(path).st_uid == os.geteuid() for path in (root, os.path.join(root, ".git"), git_dir))
    except OSError:
        return False
    common, head = (os.fsdecode(read_or_none(os.path.join(git_dir, name)) or b"").strip() for name in ("commondir", "HEAD"))
    whole = re.match(r"ref:\s*refs/|[0-9a-f]{40}", head) is not None  # else git takes it for no repository
    return mine and whole and _leads(os.path.join(git_dir, common), layout.common_dir) and leads_back(layout)


def _named(git: Git, start: str) -> tuple[Layout | None, dict[str, str]]:
    """Return the bare repository that a path is, None where it is within one, and what names it where safe.bareRepository
    forbids git to find it. Raises NotARepositoryError."""
    place: dict[str, str] = {}
    try:
        layout = _layout(git)
    except _BareError:
        layout = _layout(git.changed({}, "safe.bareRepository=all"))  # git's other checks count
        place["GIT_DIR"] = layout.git_dir
    return (layout, place) if os.path.realpath(start) == os.path.realpath(layout.git_dir) else (None, {})


def _ordinary(git: Git, asked: Process | None = None) -> Layout | None:
    """Return what git finds with safe.bareRepository=explicit, None for a bare repository, of which nothing is read then.
    Raises NotARepositoryError."""
    place = os.path.realpath(git.directory)
    try:
        layout = _layout(git, asked or ask_ordinary(git))
    except _BareError:
        try:  # before 2.44 git takes the .git of a work tree for one, from within
            return _layout(git) if "/.git/" in place + "/" else None
        except _BareError:
            return None
    git_dir = layout.git_dir  # before 2.38 git knows no such setting
    if "GIT_DIR" in git.env or git_dir.endswith("/.git") or "/.git/worktrees/" in git_dir or "/.git/modules/" in git_dir:
        return layout
    return None if os.path.join(place, "").startswith(os.path.join(os.path.realpath(git_dir), "")) else layout


def _around(git: Git) -> tuple[Layout | None, str | None]:
    """Return the work tree that holds the bare repository in which git stands, and that repository; None for both where none
    does. Raises NotARepositoryError where git finds one and refuses it."""
    place = os.path.realpath(git.directory)
    while "/.git/" not in place + "/" and place != os.path.dirname(place):  # nothing that is tracked lies in a .git
        within, place = place, os.path.dirname(place)
        try:
            layout = _ordinary(git.changed({}, directory=place))
        except _NowhereError:
            break
        if layout is not None and layout.root is not None:
            return layout, within
    return None, None


def _refuse_sudo(layout: Layout) -> None:
    """Raise NotARepositoryError where sudo has made root of the owner of a repository, which git allows: what is written would
    be root's, and the owner's next command could not change it."""
    if os.geteuid() == 0 and (uid := os.environ.get("SUDO_UID", "0")) != "0":
        try:
            owner = os.stat(layout.common_dir).st_uid
        except OSError:
            return
        if str(owner) == uid:
            said = f"'{layout.common_dir}' is user {uid}'s, who could not change what root leaves there"
            raise NotARepositoryError(said, "without sudo it works")


def here() -> str:
    """Return the current directory. Raises NotARepositoryError where it cannot be read."""
    try:
        return os.getcwd()
    except OSError as error:
        raise NotARepositoryError(f"the current directory cannot be read: {error.strerror}") from None


def _absolute(env: dict[str, str], layout: Layout) -> dict[str, str]:
    """Return the variables that name this repository, made absolute: our calls run at its top, wherever the user stands."""
    result = {"GIT_INDEX_FILE": layout.index} if "GIT_INDEX_FILE" in env else {}
    if "GIT_DIR" in env or "GIT_WORK_TREE" in env or not leads_back(layout):
        result["GIT_DIR"] = layout.git_dir
        if layout.root is not None:
            result["GIT_WORK_TREE"] = layout.root
    for name in ("GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR"):
        if name in env:
            result[name] = os.path.abspath(env[name])
    return result


def leads_back(layout: Layout) -> bool:
    """Whether git finds this repository from the top of its work tree; with core.worktree it may find another, or none."""
    if layout.root is None:
        return True
    link = os.path.join(layout.root, ".git")
    if link == layout.git_dir:
        return True
    said = os.fsdecode(read_or_none(link, 8192, follow=True) or b"")
    if said:
        if not said.startswith("gitdir: "):
            return False
        link = os.path.join(layout.root, said.removeprefix("gitdir: ").rstrip("\r\n"))
    return _leads(link, layout.git_dir)


def _leads(path: str, place: str) -> bool:
    """Whether a path leads to the place; one that was read may be torn, and no path."""
    return "\0" not in path and os.path.realpath(path) == os.path.realpath(place)


def _layout(git: Git, asked: Process | None = None) -> Layout:
    """Return what ``git rev-parse`` says. Inside a ``.git`` directory, its work tree is the one around it."""
    result = (asked or ask_layout(git)).finish()
    lines = os.fsdecode(result.out).split("\n")[:-1]
    if len(lines) < 7:
        raise _absent(git, result)
    if len(lines) > 8 or any(not line.startswith("/") for line in lines[3:]):
        raise NotARepositoryError(f"the path of the repository at '{git.directory}' has a line break")
    bare, _, algorithm, git_dir, common, index, exclude, *root = lines
    above, name = os.path.split(git_dir)
    if bare == "false" and not root and name == ".git" and git.directory != above and "GIT_DIR" not in git.env:
        return _layout(git.changed({}, directory=above))
    if "GIT_INDEX_FILE" in git.env:
        # git reads it from the top of the work tree, `--git-path` from here
        index = os.path.join(root[0] if root else git_dir, git.env["GIT_INDEX_FILE"])
    top, kind = root[0] if root else None, cast(Algorithm, algorithm)
    return Layout(root=top, git_dir=git_dir, common_dir=common, index=index, exclude=exclude, algorithm=kind)


def _absent(git: Git, result: Result) -> NotARepositoryError:
    """Git's own reason and advice (dubious ownership, a broken file), or that nothing is there."""
    if "not a git repository (or any" in result.err or "cannot change to" in result.err:
        closed = _closed(git.directory) if "GIT_DIR" not in git.env else None
        said = f"'{closed}' cannot be read: Permission denied" if closed else f"'{git.directory}' is not in a git repository"
        if not closed and (torn := _headless(git.directory) if "GIT_DIR" not in git.env else None):
            hint = f"echo 'ref: refs/heads/BRANCH' >{quoted(torn)}, with the branch that was checked out"
            return _NowhereError(f"'{torn}' names neither a branch nor a commit, so git finds no repository there", hint)
        return _NowhereError(said)
    message, lines = result.fatal(), [line for line in result.err.splitlines() if line.strip()]
    if "safe.bareRepository is" in result.err:
        return _BareError(message, _NAMED)
    if message.endswith(":"):  # what it found stands below, a line each
        found = [line.strip() for line in lines[1:] if line.startswith("\t")]
        hints = ["a newer git knows it"] if "unknown repository extension" in message and found else []
        return NotARepositoryError(f"{message} {', '.join(found)}", *hints)
    return NotARepositoryError(message, *(line.strip() for line in lines[1:] if line != lines[0]))


def no_id(repo: Repo, head: Head) -> str:
    """Why HEAD's branch is not the unborn one that git takes it for: its file is there and holds no id; empty where it is."""
    if head.oid is not None or head.branch is None:
        return ""
    ref = f"refs/heads/{head.branch}"
    found = read_or_none(os.path.join(repo.layout.common_dir, ref), 4096)
    return "" if found is None or OID.match(os.fsdecode(found).strip()) else f"'{ref}', where HEAD is, holds no id"


def _headless(folder: str) -> str | None:
    """The HEAD of a repository, at or above a path, in which nothing stands that git would take for one."""
    while True:
        place = os.path.join(folder, ".git")
        path = os.path.join(place, "HEAD")
        if os.path.isdir(os.path.join(place, "objects")) and os.path.isdir(os.path.join(place, "refs")):
            try:
                text = os.fsdecode(read_regular(path, 4096)).strip()
            except FileNotFoundError:
                return path
            except OSError:
                return None
            return None if text.startswith("ref: refs/") or OID.match(text) else path
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)


def _closed(folder: str) -> str | None:
    """Return the folder of a repository, at or above a path, that we may not look into: git goes on above it."""
    while True:
        place = os.path.join(folder, ".git")
        try:
            os.stat(os.path.join(place, "HEAD"))
        except PermissionError:
            return place if os.path.isdir(place) else folder
        except OSError:
            pass
        if folder == os.path.dirname(folder):
            return None
        folder = os.path.dirname(folder)


def begun(repo: Repo) -> bool:
    """Whether a record of what was made here exists, whatever it says. Earlier versions kept none."""
    return os.path.lexists(os.path.join(repo.shared_dir, OURS))


def _used(repo: Repo) -> list[int]:
    """Return the sizes of the locks that show that a version of gitbaton has written here; where they were removed, a current
    track does. No clone brings either."""
    locks = [os.path.join(repo.shared_dir, name) for name in _LOCKS]
    heads = (os.path.join(place, "BATON_HEAD") for place in (repo.layout.git_dir, repo.layout.common_dir))
    return [os.lstat(path).st_size for path in locks if os.path.lexists(path)] or [0 for path in heads if os.path.lexists(path)]


def earlier(repo: Repo) -> bool:
    """Whether a version of gitbaton has written here, and none that keeps a record."""
    found = _used(repo)
    return bool(found) and not any(found)


def keep_begun(repo: Repo) -> None:
    """Note that a record was begun here. Raises OSError."""
    with open(os.path.join(repo.shared_dir, _LOCKS[0]), "ab", opener=lambda name, _: lock_file(repo, name)) as file:
        file.write(_KEPT)


def shared(repo: Repo, path: str | int) -> None:
    """Give a file or folder of ours, or what a descriptor is of, the mode that the repository asks for. Never raises, but for
    what the configuration does."""
    sharing(repo)(path)


def sharing(repo: Repo) -> Callable[[str | int], None]:
    """Return ``shared`` for many files of a repository: what it asks for is read once."""
    mode, owner = mode_of(repo.settings().get("core.sharedrepository", [""])[-1]), (0, 0)
    if os.geteuid() == 0:  # git lets root in where safe.directory names the place
        with suppress(OSError):
            above = os.stat(repo.layout.common_dir)
            owner = above.st_uid, above.st_gid

    def done(path: str | int) -> None:
        share(path, mode)
        if owner[0]:
            with suppress(OSError):
                give(path, *owner)

    return done


def _steps(repo: Repo, path: str) -> tuple[str, list[str]]:
    """Return the folder above ours, and the names from there to one of them."""
    for top in (repo.own_dir, repo.shared_dir):
        if path == top or path.startswith(top + os.sep):
            above = os.path.dirname(top)
            break
    else:  # that of another work tree
        inside = path.removeprefix(repo.layout.common_dir) + os.sep
        above = repo.layout.common_dir + inside.partition(f"{os.sep}baton{os.sep}")[0]
    return above, path[len(above) + 1 :].split(os.sep)


def make_folder(repo: Repo, path: str, *, mode: int = 0o777) -> None:
    """Make a folder of ours and those above it that are. Raises OSError, also where something else is in the place of one: a
    link there would lead what we write, and what we remove, to where others have theirs."""
    at, names = _steps(repo, path)
    for name in names:
        at = os.path.join(at, name)
        try:
            found = os.lstat(at).st_mode
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.mkdir(at, mode)
            found = os.lstat(at).st_mode
        if not stat.S_ISDIR(found):
            raise OddError(errno.ENOTDIR, f"'{at}' is {kind_of(found)}, and no folder of ours")
        shared(repo, at)


def folder_of_ours(repo: Repo, path: str) -> int:
    """Return a descriptor of a folder of ours, reached through no link. Raises OSError."""
    return open_below(*_steps(repo, path))


def has_folder(repo: Repo, path: str) -> bool:
    """Whether a folder of ours is there, and through no link."""
    try:
        os.close(folder_of_ours(repo, path))
    except OSError:
        return False
    return True


def drop(repo: Repo, path: str) -> None:
    """Remove a file of ours, reached through no link. Raises OSError."""
    with closing_fd(folder_of_ours(repo, os.path.dirname(path))) as folder:
        os.unlink(os.path.basename(path), dir_fd=folder)


def clear_old(repo: Repo, path: str, goes: Callable[[str, os.stat_result], bool]) -> None:
    """Remove from a folder of ours what ``goes``, by its name and state; nothing where a link is in its place. Never raises."""
    with suppress(OSError), closing_fd(folder_of_ours(repo, path)) as folder:
        sweep(folder, goes)


def clear_left(repo: Repo, path: str) -> None:
    """Remove what killed processes left of a file of ours that each writes under a name of its own. Never raises."""
    start, since = os.path.basename(path) + ".", time.time() - _LEFTOVER
    clear_old(
        repo,
        os.path.dirname(path),
        lambda name, s: name.startswith(start) and name[len(start) :].isdigit() and s.st_mtime < since,
    )


def lock_file(repo: Repo, path: str) -> int:
    """Open a file to lock, made with its folder where there is none; return its descriptor. Raises OSError."""
    make_folder(repo, os.path.dirname(path))
    fd = open_lasting(path)
    shared(repo, fd)
    return fd


def put(
    repo: Repo, path: str, data: bytes | Iterable[bytes], *, fresh: str = ".new", mode: int = 0o666, sync: bool = False
) -> None:
    """Write a file whole or not at all; its folder is made where there is none. ``fresh``: suffix of its name until then. With
    one name what a killed process left goes with the next write; where several write at once each needs its own. ``mode`` is
    that of an unshared repository. Raises OSError."""
    make_folder(repo, os.path.dirname(path))
    write_atomic(path, data, temporary=path + fresh, mode=mode, sync=sync, made=lambda fd: shared(repo, fd))


def put_together(repo: Repo, files: Mapping[str, bytes]) -> None:
    """Write files as ``put`` does, each whole or not at all, all on disk when this returns: it is waited for once. Raises
    OSError; then any of them may be as it was."""
    fresh = {path: f"{path}.new" for path in files}
    for path, name in fresh.items():
        put(repo, name, files[path])
    sync_paths(fresh.values())
    for path, name in fresh.items():
        os.replace(name, path)
    sync_paths({os.path.dirname(path) for path in files})


def secret_key(repo: Repo, *, make: bool = True) -> bytes:
    """Return the secret key of this repository, for keyed digests that only its holder can recognise; it never leaves the
    common directory. Where there is none it is made, or, where nothing is to be written, one that matches nothing. Raises
    GitError."""
    path = os.path.join(repo.shared_dir, "key")
    try:
        if not os.path.lexists(path):
            if not make:
                return os.urandom(32)
            make_folder(repo, repo.shared_dir)
            write_first(path, os.urandom(32), mode=0o600, made=lambda fd: shared(repo, fd))
        key = read_regular(path, 64)
    except OSError as error:
        raise GitError(f"the key '{path}' cannot be read: {error.strerror}") from None
    if len(key) < 32:
        raise GitError(f"the key '{path}' is damaged: it has {len(key)} bytes")
    return key


def add(repo: Repo, path: str, data: bytes) -> None:
    """Write at the end of a file of ours; where it has another hard link it is replaced by a copy first. Raises OSError."""
    os.close(folder_of_ours(repo, os.path.dirname(path)))
    with open(open_lasting(path, append=True), "ab") as file:
        if os.fstat(file.fileno()).st_nlink == 1:
            shared(repo, file.fileno())
            file.write(data)
            return
    put(repo, path, read_regular(path) + data, fresh=f".{os.getpid()}")


def sharer(repo: Repo) -> Callable[[str | int], None]:
    """Return ``share`` for a repository, which is asked once: when the first file is made."""

    @cache
    def mode() -> int:
        known = repo.objects.shared  # libgit2 has read it
        return known if known is not None else mode_of(repo.settings().get("core.sharedrepository", [""])[-1])

    return lambda made: share(made, mode())
