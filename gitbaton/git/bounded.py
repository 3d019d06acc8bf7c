"""Git commands that talk to a remote: one time limit for all, no prompt without a terminal, failures as one line."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from gitbaton.base.errors import GitError, RemoteError
from gitbaton.base.system.process import Process, Result, begin
from gitbaton.git.repo import Progress
from gitbaton.git.run import Git, zsplit

_LOOK = 0.2  # seconds between two looks at how far git is
# What git and the server say of how far they are, and nothing else: a hook's words begin with "remote: ", too.
_STEPS = {
    "Counting": "counting",
    "Compressing": "packing",
    "Writing": "sending",
    "Receiving": "receiving",
    "Resolving": "resolving",
}
_STEP = re.compile(rb"(%s) (objects|deltas): +[0-9]+%% \(([0-9]+)/([0-9]+)\)" % "|".join(_STEPS).encode())
_PROGRESS = re.compile(
    r"(?:remote: )?(?:(?:Enumerating|Counting|Compressing|Writing|Receiving|Resolving|Unpacking|Checking)[a-z ]*: +[0-9]"
    r"|Delta compression using|Total [0-9]+ \(delta)|From | [ *+t=-] "
)
_GRACE = 2.0  # seconds that git has to take its temporary files away
_PLINK = ("plink", "tortoiseplink", "putty")
KINDS = (
    "offline",  # nobody answers at that address
    "missing",  # there is no repository
    "authentication",  # who we are is not known or not believed
    "read-only",  # it can be read, and not written
    "hook",  # a hook of the server refuses
    "rewrite",  # the server takes new commits and refuses to replace old ones
    "shallow",  # the history here is too short for the server
    "stale",  # somebody else was faster
    "timeout",  # no answer in time
    "other",
)
_SAID = (
    ("shallow", r"shallow update not allowed|attempt to (?:push|fetch/clone) from a shallow"),
    (
        "authentication",
        (
            r"Authentication failed|[Cc]ould not read (?:Username|Password)|Permission denied \(|Host key verification failed"
            r"|terminal prompts disabled|returned error: 401|[Ii]nvalid (?:username|credentials)|Too many authentication"
        ),
    ),
    (
        "offline",
        (
            r"[Cc]ould not resolve|Connection (?:refused|reset|timed out|closed)|No route to host"
            r"|Network is (?:unreachable|down)|[Uu]nable to (?:connect|look up)|Failed to connect"
            r"|Couldn't connect|Operation timed out|kex_exchange"
            r"|Empty reply|returned error: 50\d|Recv failure|Connection was reset"
        ),
    ),
    (
        "missing",
        (
            r"does not appear to be a git repository|[Rr]epository (?:'.*' )?not found|not exported|[Nn]o such repository"
            r"|returned error: 404|not a git repository|[Rr]epository .*does not exist"
        ),
    ),
    (
        "read-only",
        (
            r"returned error: 403|[Rr]ead-only|insufficient permission|unable to create temporary|service not enabled"
            r"|[Aa]ccess (?:denied|is denied)|[Ww]rite access|not allowed to push|Permission .*denied|unpacker error"
        ),
    ),
)
_TOLD = {
    "offline": "'{}' cannot be reached: {}",
    "missing": "there is no repository at '{}': {}",
    "authentication": "'{}' does not let us in: {}",
    "read-only": "'{}' cannot be written: {}",
    "hook": "a hook of '{}' refuses our refs: {}",
    "shallow": "'{}' refuses what this shallow repository has: {}",
    "other": "the exchange with '{}' failed: {}",
}
_REFUSED = (
    (
        "stale",
        r"stale info|fetch first|already exists|atomic transaction failed|failed to update ref|cannot lock|incorrect old value",
    ),
    ("shallow", r"shallow update"),
    ("rewrite", r"non-fast-forward|deletion prohibited|deny deleting"),
    ("hook", r"hook declined"),
    ("read-only", r"unpacker error|n/a"),
)
# The second form is a password with a slash in it, which is no part of a URL's host; a port is digits alone.
_USERINFO = re.compile(r"(?<=://)(?:[^/\s'\"?#]*@|(?!\[)[^/\s'\"?#@:]*:(?!\d*(?:[/?#\s'\"]|\Z))[^\s'\"]*@)")
_QUERY = r"(?<=')([a-z+:]+://[^'\s?#]*)[?#][^'\s]*(?=')"
_PREFIX = r"\A(?:(?:fatal|error|warning|remote|ERROR): +)+"
_LACKS = "lacks these prerequisite commits"
_OID = r"[0-9a-f]{40,64}\b"
# What follows from a reason that stands elsewhere, where any does: the other end, or its program, is gone.
_ENDED = r"hung up|unexpected disconnect|early EOF"
_DULL = (
    r"Could not read from remote repository|failed to push some refs|\APlease make sure|and the repository exists"
    r"|invalid index-pack output|index-pack (?:failed|died\Z)|hook declined|\AResolving deltas|\AWarning: Permanently added"
)
_WORDS = 6  # lines of a server's words that are told


class OutOfTimeError(GitError):
    """The allowance is used up; the command and all that it started were ended."""


class Bounded:
    """Git bound to an allowance of ``seconds``; only the time in its commands counts. ``prompts``: the user at the terminal may
    be asked for a password."""

    def __init__(self, git: Git, seconds: float, *, prompts: bool) -> None:
        self.left, self.prompts = seconds, prompts
        # Without prompts, credential helpers that know it do not ask either.
        self.git = git.changed({}, *(() if prompts else ("credential.interactive=false",)))
        self.env = environment(git, prompts=prompts)

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        told: Progress | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Result:
        """Run a command to its end, whatever its exit status; with more environment. ``told`` hears how far git is, where the
        command has ``--progress``; what git says of that is then in no error. ``meanwhile`` is done beside it; the command ends
        where that raises. Raises OutOfTimeError."""
        began = time.monotonic()
        if self.left <= 0:
            raise OutOfTimeError(f"'git {args[0]}' has no time left")
        try:
            with _ended_with_us(group=not self.prompts) as started:
                begun = begin(self.git.argv(*args), {**self.env, **(env or {})}, self.left, stdin, detached=not self.prompts)
                started(begun.pid)
                return self._collect(args[0], begun, began + self.left, told, meanwhile)
        finally:
            self.left -= time.monotonic() - began

    def _collect(
        self, verb: str, process: Process, deadline: float, told: Progress | None, meanwhile: Callable[[], object]
    ) -> Result:
        chunks: list[bytes] = []
        ended = False
        try:
            meanwhile()
            poll = select.poll()
            poll.register(process.out, select.POLLIN)
            while _readable(poll, deadline, process.err, told):
                chunk = os.read(process.out, 1 << 20)
                if not chunk:
                    ended = True
                    break
                chunks.append(chunk)
        finally:
            if not ended:
                _end(process.pid, group=not self.prompts)
            code, text = process.reap()
        if not ended:
            raise OutOfTimeError(f"'git {verb}' did not end in its time and was stopped")
        if told is not None:
            text = "".join(f"{line}\n" for line in re.split(r"[\r\n]+", text) if line and not _PROGRESS.match(line))
        return Result(code=code, out=b"".join(chunks), err=text)


def _readable(poll: select.poll, deadline: float, err: int, told: Progress | None) -> bool:
    """Whether output comes before the time is over; meanwhile git's progress is passed on."""
    while True:
        left = deadline - time.monotonic()
        if poll.poll(max(0, int((left if told is None else min(left, _LOOK)) * 1000))):
            return True
        if left <= 0 or told is None:
            return False
        size = os.fstat(err).st_size
        found = _STEP.findall(os.pread(err, 500, max(0, size - 500)))
        if found:
            step, things, done, total = found[-1]
            told(f"{_STEPS[step.decode()]} {things.decode()}", int(done), int(total))


def environment(git: Git, *, prompts: bool) -> dict[str, str]:
    """Return the environment of an exchange; without ``prompts`` neither git nor ssh prompts."""
    env = dict(git.env)
    if prompts:
        given = os.environ.get("GIT_TERMINAL_PROMPT")
        return {k: v for k, v in env.items() if k != "GIT_TERMINAL_PROMPT"} | ({"GIT_TERMINAL_PROMPT": given} if given else {})
    env.pop("SSH_ASKPASS", None)  # a window that nobody sees; GIT_ASKPASS is how scripts give a password
    env |= {"GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS_REQUIRE": "never", "GCM_INTERACTIVE": "never"}
    command = _ssh(git, env)
    if command is not None:
        env["GIT_SSH_COMMAND"] = command
    return env


def _ssh(git: Git, env: Mapping[str, str]) -> str | None:
    """Return the user's ssh command made to ask nothing; None where it is not known to take an option for that.

    Such a one has no terminal to ask on all the same: it runs in a session of its own.
    """
    rows = zsplit(git.run("config", "-z", "--get-regexp", r"^(core\.sshcommand|ssh\.variant)$").out)
    said = {key: text for key, _, text in (row.partition("\n") for row in rows)}  # the last one holds
    command = env.get("GIT_SSH_COMMAND") or said.get("core.sshcommand")
    if not command:
        command = shlex.quote(env["GIT_SSH"]) if env.get("GIT_SSH") else "ssh"
    variant = (env.get("GIT_SSH_VARIANT") or said.get("ssh.variant") or "auto").lower()
    if variant == "auto":
        try:
            words = shlex.split(command)
        except ValueError:
            return None
        variant = os.path.basename(words[0]).lower().removesuffix(".exe") if words else ""
    if variant == "ssh":
        return command + " -o BatchMode=yes"
    return command + " -batch" if variant in _PLINK else None


@contextmanager
def _ended_with_us(*, group: bool) -> Iterator[Callable[[int], object]]:
    """End the command that the block starts when this process is told to end: in a session of its own it gets no signal of
    ours."""
    pids, asked = list[int](), list[int]()
    if threading.current_thread() is not threading.main_thread():
        yield pids.append
        return

    def end(number: int, _: object) -> None:
        if not pids:  # it may be there already: it is ended when we know it
            asked.append(number)
            return
        _end(pids[0], group=group)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def started(pid: int) -> None:
        pids.append(pid)
        for number in asked:
            end(number, None)

    caught = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        signal.signal(number, end)
    try:
        yield started
    finally:
        for number in caught:
            signal.signal(number, signal.SIG_DFL)
        for due in asked:
            os.kill(os.getpid(), due)


def _end(pid: int, *, group: bool) -> None:
    """End a command and its helpers: first so that they can tidy up, then for good."""
    targets = [pid] if group else _stopped(pid)
    for number in (signal.SIGTERM, signal.SIGCONT, signal.SIGKILL):
        if number == signal.SIGKILL:
            _wait(pid, _GRACE)
        for target in targets:
            _send(target, number, group=group)


def _send(pid: int, number: int, *, group: bool = False) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number) if group else os.kill(pid, number)


def _wait(pid: int, seconds: float) -> None:
    """Wait until a child has ended, without taking its status."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return
        time.sleep(0.01)


def _stopped(pid: int) -> list[int]:
    """A process and those that it started, and theirs, where the system tells; halted, so that none starts another."""
    _send(pid, signal.SIGSTOP)
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = [int(word) for word in file.read().split()]
    except (OSError, ValueError):
        children = []
    return [pid, *(found for child in children for found in _stopped(child))]


def without_credentials(text: str) -> str:
    """Return ``text`` without the user names and passwords of the URLs in it, and without the queries of those in quotes."""
    return re.sub(_QUERY, r"\1", _USERINFO.sub("", text))


def failure(shown: str, said: str, *, writing: bool = False) -> RemoteError:
    """Return the error for what git said to standard error; ``writing``: the remote could be read before.

    A server that refuses to serve a repository only for writing says the same as one that has none.
    """
    said = without_credentials(said)
    lines = _whole([re.sub(_PREFIX, "", line).strip() for line in said.splitlines()])
    if any(_LACKS in line for line in lines):
        oids = [line.split(" ")[0] for line in lines if re.match(_OID, line)]
        many = f"{len(oids)} commits that are" if len(oids) > 1 else "a commit that is"
        lacks = f"{many} not here: {oids[0] if oids else 'git does not say which'}"
        return RemoteError(f"'{shown}' is a bundle that stands on {lacks}", kind="other")
    words = server_words(said)
    for kind, pattern in _SAID:
        line = next((text for text in lines if re.search(pattern, text)), None)
        if line is None:
            continue
        if writing and kind in ("missing", "authentication"):
            kind = "read-only"
        told = line if kind == "offline" else with_words(line, words)
        return RemoteError(_TOLD[kind].format(shown, told), kind=kind)
    given = tuple(text for row in said.splitlines() if re.match(_PREFIX, row) and (text := re.sub(_PREFIX, "", row).strip()))
    telling = [text for text in lines if text.startswith(given) and _tells(text) and not re.search(_ENDED, text)]
    ended = [text for text in lines if re.search(_ENDED, text)]
    if ended and not telling:
        return RemoteError(_TOLD["offline"].format(shown, ended[0]), kind="offline")
    telling = telling or [text for text in lines if _tells(text)] or [text for text in lines if text]
    line = telling[0] if telling else "git gives no reason"
    return RemoteError(_TOLD["other"].format(shown, with_words(line, words)), kind="other")


def _tells(line: str) -> bool:
    return any(map(str.isalnum, line)) and not re.search(_DULL, line)


def _whole(lines: list[str]) -> list[str]:
    """Return the same lines, but what ends in a colon with what follows it."""
    found: list[str] = []
    for line in lines:
        if found and found[-1].endswith(":") and line and _LACKS not in found[-1]:
            found[-1] += f" {line}"
        else:
            found.append(line)
    return found


def refused(reason: str) -> str:
    """Return the kind of a refusal of one ref, from the words that git puts behind it."""
    return next((kind for kind, words in _REFUSED if re.search(words, reason)), "other")


def server_words(said: str) -> str:
    """Return what the server, or a hook of it, wrote besides its progress, as one line; empty when it wrote nothing."""
    lines = (line.removeprefix("remote: ").strip() for line in said.splitlines() if line.startswith("remote: "))
    return " ".join([without_credentials(line) for line in lines if _tells(line)][:_WORDS])


def with_words(reason: str, words: str) -> str:
    """Return git's reason for a refusal, and what the server said of it."""
    return f"{reason}: {words}" if words and reason not in words else words or reason
