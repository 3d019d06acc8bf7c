"""Claims on write sets: which step may write where, held by flock, so that a killed process holds nothing for long."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import datetime

from gitbaton.base.codec import encode_track, in_quotes
from gitbaton.base.errors import GitError, RunError, UsageError
from gitbaton.base.system import groups
from gitbaton.base.system.files import NO_FILE, acquire, open_regular, release
from gitbaton.base.system.groups import ChildProcess
from gitbaton.base.values import replace, value
from gitbaton.git.repo import Repo, has_folder, lock_file, shared
from gitbaton.git.worktree import globs

_SHORTEST, _LONGEST = 0.002, 0.25  # seconds between two looks at a claim that is waited for
_LOCK = "claims/lock"
_WAITS = "--wait SECONDS waits for it"
PATIENCE = 7200.0  # seconds for which another process at the same step, or run, is waited for where nothing was said
_UNKNOWN = "(unknown)"


@value
class Held:
    """Claim as its file says it: the step and its write set, in which work tree, and which process holds it since when.
    ``start`` is a start mark of gitbaton.base.system.groups, ``child`` its command. ``wants``: the step of its run that its
    holder waits for meanwhile. What no file says: ``path``, the claim's own; ``dead``, that process has ended, and
    something that it started has not; ``far``, it is another machine's."""

    run: str
    step: str
    writes: tuple[str, ...]
    host: str
    boot: str
    pid: int
    start: str
    worktree: str | None
    agent: str | None = None
    created: str | None = None
    child: ChildProcess | None = None
    wants: str | None = None
    dead: bool = False
    far: bool = False
    path: str = ""


class Claim(AbstractContextManager["Claim"]):
    """A claim that this process holds: ``held`` says what; ``lock_fd`` is for the command to inherit, so that the claim lasts
    as long as the command does, also when this process is killed."""

    def __init__(self, repo: Repo, path: str, fd: int, held: Held) -> None:
        self.held, self.lock_fd, self.path = held, fd, path
        self._repo, self._open = repo, True

    def child(self, child: ChildProcess) -> None:
        """Note the command that works under this claim, before it begins, and again when its process is known. Raises
        GitError."""
        with self._repo.lock((), of=_LOCK):
            self.held = replace(self.held, child=child)
            _write(self.lock_fd, self.held)

    def wait_for(self, step: str | None) -> None:
        """Note which step is waited for while this claim is held, or that none is any more; with the lock held. Raises
        GitError."""
        if self.held.wants != step:
            self.held = replace(self.held, wants=step)
            _write(self.lock_fd, self.held)

    def release(self) -> None:
        """Let others have it, also where something that the command left behind still runs. A second time does nothing."""
        if not self._open:
            return
        self._open = False
        _unlink(self.path)  # before the lock is free: who gets it sees that it was given back
        release(self.lock_fd)
        os.close(self.lock_fd)

    def __exit__(self, *_: object) -> None:
        self.release()


class Claims:
    """The claims in a repository, of all its work trees. ``clock``: now, for the claim's ``created``. ``grace``: seconds that
    what a dead process left running has between SIGTERM and SIGKILL."""

    def __init__(
        self, repo: Repo, *, agent: str | None = None, clock: Callable[[], datetime] | None = None, grace: float = 10.0
    ) -> None:
        self.repo, self.agent, self.clock, self.grace = repo, agent, clock, grace
        self.folder = os.path.join(repo.shared_dir, "claims")
        self._host, self._boot = socket.gethostname(), groups.boot()
        self._start = groups.mark(os.getpid()) or ""
        repo.settings()  # the lock asks for them, and threads must not do it at the same time

    def take(
        self,
        run: str,
        step: str,
        writes: Sequence[str],
        *,
        wait: float | None = None,
        patience: float = PATIENCE,
        same: Callable[[str], None] | None = None,
        holding: Sequence[Claim] = (),
        patient: bool = True,
    ) -> Claim:
        """Claim the write set (globs in their normal form) of a step, in this work tree. ``holding``: the claims that the
        caller keeps meanwhile.

        A claim that overlaps is waited for ``wait`` seconds (None: not at all). So is another process of this machine at
        the same step of the same run, which is told ``same`` once before, but where nothing is said it is waited for
        ``patience`` seconds as long as it is not stopped, unless the caller is not ``patient``. What a dead process left
        running under a claim is ended first. A claim of another machine is never taken over. Raises RunError (78), which
        names the holder, also where steps would wait for each other in a circle.
        """
        mine = self._mine(run, step, tuple(writes))
        began = time.monotonic()
        ended: set[str] = set()
        try:
            while True:
                with self.repo.lock((), of=_LOCK):
                    standing = list(self._scan())
                    found = next((held for held in standing if _against(held, mine)), None)
                    if found is None:
                        return self._write(mine)
                    # Before ours is noted: who closes a circle is told, and nobody else of it.
                    if _in_circle(found, standing, {claim.held.step for claim in holding}):
                        text = f"{_who(found)} waits for step {in_quotes(holding[0].held.step)}, which waits for it"
                        raise RunError(text, "one after the other they can go on: --jobs 1")
                    for claim in holding:
                        claim.wait_for(mine.step)
                child = found.child
                if child is not None and child.word in os.environ.get(groups.VARIABLE, "").split():
                    raise RunError(f"{_who(found)} is under way around this command, and waits for it")
                if found.dead and found.path not in ended and child is not None:
                    ended.add(found.path)
                    groups.end(child, self.grace)
                    continue
                waited, limit = time.monotonic() - began, wait or 0.0
                if (found.run, found.step) == (mine.run, mine.step) and not found.far:
                    if found.dead or self._is_own(found):
                        limit = waited + _LONGEST
                    elif patient and wait is None and not _is_stopped(found):
                        limit = patience
                if waited >= limit:
                    raise _refusal(mine, found)
                if same is not None and (found.run, found.step) == (mine.run, mine.step):
                    same(_process(found))
                    same = None
                time.sleep(min(_LONGEST, max(_SHORTEST, waited / 20), limit - waited))
        finally:
            if any(claim.held.wants is not None for claim in holding):
                with self.repo.lock((), of=_LOCK):
                    for claim in holding:
                        claim.wait_for(None)

    def _mine(self, run: str, step: str, writes: tuple[str, ...]) -> Held:
        """Return the words of a claim of this process."""
        return Held(
            run=run,
            step=step,
            writes=writes,
            host=self._host,
            boot=self._boot,
            pid=os.getpid(),
            start=self._start,
            worktree=self.repo.layout.root,
            agent=self.agent,
            created=self.clock().isoformat() if self.clock is not None else None,
        )

    @contextmanager
    def turn(self, run: str, *, wait: float | None, patience: float, said: Callable[[str], None]) -> Iterator[None]:
        """Keep other processes from the plan of a run until the block ends; the kernel ends the turn of one that dies. Another
        one is waited for as one at the same step is (``take``), ``said`` being told of it once before. Raises RunError (78)
        that names it, GitError."""
        path = os.path.join(self.repo.shared_dir, "lock", "run-" + encode_track(run))
        try:
            fd = lock_file(self.repo, path)
        except OSError as error:
            raise GitError(f"{in_quotes(path)} cannot be opened: {error.strerror}") from None

        def holder() -> Held | None:
            found = _read(os.pread(fd, 1 << 20, 0))
            left = found is not None and (found.run != run or (found.boot == self._boot and not self._lives(found)))
            return None if left else found  # who holds it has not said so, or not yet

        def refused() -> RunError:
            found = holder()
            return RunError(f"{_process(found)} works on run {in_quotes(run)}", *_unstuck(found), _WAITS)

        def look() -> None:
            if wait is None and _is_stopped(holder()):
                raise refused()

        try:
            if not acquire(fd):
                look()
                if wait != 0:
                    said(f"{_process(holder())} works on run {in_quotes(run)}")
                if not acquire(fd, patience if wait is None else wait, meanwhile=look):
                    raise refused()
            with suppress(GitError):  # a full disk: then nobody can be told who it is
                _write(fd, self._mine(run, "", ()))
            yield
            with suppress(OSError):
                os.ftruncate(fd, 0)
        finally:
            os.close(fd)

    def others(self) -> tuple[Held, ...]:
        """The claims in this repository that other processes hold, of whatever work tree, or that what they left running
        holds; those of other machines too."""
        if not os.path.isdir(self.folder):
            return ()
        with ExitStack() as stack:
            if os.access(self.folder, os.W_OK):  # else who looks cannot take the lock, nor remove what nobody holds
                stack.enter_context(self.repo.lock((), of=_LOCK))
            found = list(self._scan())
        return tuple(held for held in found if not self._is_own(held))

    def elsewhere(self) -> tuple[Held, ...]:
        """The claims of other machines: whether they still hold cannot be seen from here."""
        return tuple(held for held in self.others() if held.far and held.pid)

    def _is_own(self, held: Held) -> bool:
        return (held.host, held.boot, held.pid, held.start) == (self._host, self._boot, os.getpid(), self._start)

    def _write(self, held: Held) -> Claim:
        path = os.path.join(self.folder, os.urandom(12).hex())
        try:
            fd = os.open(path + ".new", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o644)
            shared(self.repo, fd)
        except OSError as error:
            raise GitError(f"a claim cannot be written: {error.strerror}") from None
        try:
            acquire(fd)
            _write(fd, held)
            os.rename(path + ".new", path + ".json")  # nobody sees it unlocked or half written
        except BaseException:
            os.close(fd)
            _unlink(path + ".new")
            raise
        return Claim(self.repo, path + ".json", fd, held)

    def _scan(self) -> Iterator[Held]:
        """Return the claims that hold, and remove stale ones. With the lock held."""
        for entry in sorted(os.listdir(self.folder) if has_folder(self.repo, self.folder) else ()):
            path = os.path.join(self.folder, entry)
            if entry.endswith(".new"):  # only who holds the lock makes one, and that is us
                _unlink(path)
            elif entry.endswith(".json"):
                found = self._judge(path)
                if found is not None:
                    yield found

    def _judge(self, path: str) -> Held | None:
        """A claim that blocks; None, and its file removed, when it does not."""
        unread = replace(_UNREAD, host=self._host, path=path)
        try:
            fd = open_regular(path)
        except FileNotFoundError:
            return None
        except OSError as error:  # another user's; whether it holds cannot be seen
            return None if error.errno in (*NO_FILE, errno.ELOOP) else replace(unread, far=True)
        try:
            held = _read(os.pread(fd, 1 << 20, 0))
            if held is not None and os.fstat(fd).st_uid != os.geteuid():
                held = replace(held, child=None)  # nobody has us end a process by writing its number
            # The same boot is the same kernel, whatever its containers are called.
            here = held is None or held.host == self._host or (held.boot and held.boot == self._boot)
            if held is not None and not here:
                return replace(held, path=path, far=True)
            if not acquire(fd, shared=True):  # who looks shares it, so that two who look do not mislead each other
                held = held or unread
                # Another boot under our name that holds the lock is another machine, and it lives.
                return replace(held, path=path, dead=held.boot == self._boot and not self._lives(held))
            given_back = os.fstat(fd).st_nlink == 0
            left = held is not None and held.boot == self._boot and not given_back and not self._lives(held)
            if held is not None and held.child is not None and left and held.child.alive():
                return replace(held, path=path, dead=True)
            _unlink(path)
            return None
        finally:
            os.close(fd)

    def _lives(self, held: Held) -> bool:
        return self._is_own(held) or groups.mark(held.pid) == held.start


def _against(held: Held, mine: Held) -> bool:
    """Whether a claim stands against another one."""
    if (held.run, held.step) == (mine.run, mine.step):
        return True
    return held.worktree in (mine.worktree, _UNKNOWN) and globs.overlap(held.writes, mine.writes) is not None


def _in_circle(held: Held, standing: Sequence[Held], holding: Collection[str]) -> bool:
    """Whether the holder of a claim waits, by way of others, for a step that the caller holds."""
    wants = {other.step: other.wants for other in standing if other.run == held.run}
    step, left = held.wants, len(wants)
    while step is not None and step not in holding and left:
        step, left = wants.get(step), left - 1
    return step is not None and step in holding


def _is_stopped(held: Held | None) -> bool:
    return held is not None and not held.far and groups.is_stopped(held.pid, held.start)


def _process(held: Held | None) -> str:
    """The process that holds a claim, for people."""
    if held is None or not held.pid:
        return "another process"
    return f"process {held.pid} on {in_quotes(held.host)}" + (", which is stopped," if _is_stopped(held) else "")


def _unstuck(held: Held | None) -> tuple[str, ...]:
    """Return the hint that lets a stopped holder go on."""
    return (f"'kill -CONT {held.pid}' lets it go on",) if held is not None and _is_stopped(held) else ()


def _who(held: Held) -> str:
    return f"step {in_quotes(held.step)} of run {in_quotes(held.run)} ({_process(held).removesuffix(',')})"


def _refusal(mine: Held, found: Held) -> RunError:
    same = (mine.run, mine.step) == (found.run, found.step)
    both = globs.overlap(mine.writes, found.writes) if not same else None
    hints = [f"'{both[0]}' of {in_quotes(mine.step)} and '{both[1]}' of {in_quotes(found.step)} overlap"] if both else []
    if found.far:
        hints.append("whether it still runs cannot be seen from here")
    said = f"{_who(found)} is at work" if same else f"the write set of {in_quotes(mine.step)} is claimed by {_who(found)}"
    return RunError(said, *hints, *_unstuck(found), _WAITS)


def _unlink(path: str) -> None:
    with suppress(OSError):  # gone, or another user's; unlocked it stands in nobody's way
        os.unlink(path)


_UNREAD = Held(run=_UNKNOWN, step=_UNKNOWN, writes=("**",), host="", boot=_UNKNOWN, pid=0, start="", worktree=_UNKNOWN)
_TEXTS = ("run", "step", "host", "boot", "start")
_MAYBE = ("worktree", "agent", "created")


def _write(fd: int, held: Held) -> None:
    import json

    words = {"v": 1, **{name: getattr(held, name) for name in (*_TEXTS, *_MAYBE, "pid", "writes")}}
    if held.wants is not None:
        words["wants"] = held.wants
    if held.child is not None:
        words["word"] = held.child.word
        words |= {"group": (held.child.pid, held.child.mark)} if held.child.pid else {}
    data = json.dumps(words).encode() + b"\n"
    try:
        os.pwrite(fd, data, 0)
        os.ftruncate(fd, len(data))
    except OSError as error:
        raise GitError(f"a claim cannot be written: {error.strerror}") from None


def _read(data: bytes) -> Held | None:
    """Return what a claim file says; None when it is not as we write it."""
    import json

    try:
        words = json.loads(data)
        texts, maybe = {name: words[name] for name in _TEXTS}, {name: words[name] for name in _MAYBE}
        version, pid, writes, group = words["v"], words["pid"], words["writes"], words.get("group")
        maybe |= {name: words.get(name) for name in ("wants", "word")}
        right = all(isinstance(t, str) for t in (*texts.values(), *writes))
        right = right and all(t is None or isinstance(t, str) for t in maybe.values())
        if version != 1 or not right or type(pid) is not int or pid < 1 or any(globs.check(g) != g for g in writes):
            return None
        word, child = maybe.pop("word"), None
        if group is not None:
            number, mark = group
            if type(number) is not int or number < 2 or not isinstance(mark, str):
                return None
            # 0.1 noted no word: it was these two.
            child = ChildProcess(word=word or f"{number}:{mark}", pid=number, mark=mark)
        elif word:
            child = ChildProcess(word=word)
        return Held(**texts, **maybe, pid=pid, writes=tuple(writes), child=child)
    except (ValueError, TypeError, KeyError, AttributeError, UsageError):
        return None
