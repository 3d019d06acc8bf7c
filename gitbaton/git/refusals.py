"""Remote errors: the output of a failed exchange as one line of a known kind. Pure."""

from __future__ import annotations

import re

from gitbaton.errors import RemoteError

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
_SAID: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("shallow", re.compile(r"shallow update not allowed|attempt to (?:push|fetch/clone) from a shallow")),
    (
        "authentication",
        re.compile(
            r"Authentication failed|[Cc]ould not read (?:Username|Password)|Permission denied \(|Host key verification failed"
            r"|terminal prompts disabled|returned error: 401|[Ii]nvalid (?:username|credentials)|Too many authentication"
        ),
    ),
    (
        "offline",
        re.compile(
            r"[Cc]ould not resolve|Connection (?:refused|reset|timed out|closed)|No route to host"
            r"|Network is (?:unreachable|down)|[Uu]nable to (?:connect|look up)|Failed to connect"
            r"|Couldn't connect|Operation timed out|kex_exchange"
            r"|Empty reply|hung up|unexpected disconnect|early EOF|returned error: 50\d|Recv failure|Connection was reset"
        ),
    ),
    (
        "missing",
        re.compile(
            r"does not appear to be a git repository|[Rr]epository (?:'.*' )?not found|not exported|[Nn]o such repository"
            r"|returned error: 404|not a git repository|[Rr]epository .*does not exist"
        ),
    ),
    (
        "read-only",
        re.compile(
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
# The second form is a password with a slash in it, which is no part of a URL's host; a port is digits alone.
_USERINFO = re.compile(r"(?<=://)(?:[^/\s'\"?#]*@|(?!\[)[^/\s'\"?#@:]*:(?!\d*(?:[/?#\s'\"]|\Z))[^\s'\"]*@)")
_QUERY = re.compile(r"(?<=')([a-z+:]+://[^'\s?#]*)[?#][^'\s]*(?=')")
_PREFIX = re.compile(r"\A(?:(?:fatal|error|warning|remote|ERROR): +)+")
_LACKS = "lacks these prerequisite commits"
_OID = re.compile(r"[0-9a-f]{40,64}\b")
_DULL = re.compile(
    r"Could not read from remote repository|failed to push some refs|Please make sure|and the repository exists"
    r"|the remote end hung up|\AWarning: Permanently added"
)


def without_credentials(text: str) -> str:
    """``text`` without the user names and passwords of the URLs in it, and without the queries of those in quotes."""
    return _QUERY.sub(r"\1", _USERINFO.sub("", text))


def failure(shown: str, said: str, *, writing: bool = False) -> RemoteError:
    """What git said to standard error, as one error; ``writing``: the remote could be read before.

    A server that refuses to serve a repository only for writing says the same as one that has none.
    """
    lines = _whole([_PREFIX.sub("", line).strip() for line in without_credentials(said).splitlines()])
    if any(_LACKS in line for line in lines):
        return RemoteError(f"'{shown}' is a bundle that {_lacking(lines)}", kind="other")
    for kind, pattern in _SAID:
        line = next((text for text in lines if pattern.search(text)), None)
        if line is None:
            continue
        if writing and kind in ("missing", "authentication"):
            kind = "read-only"
        return RemoteError(_TOLD[kind].format(shown, line), kind=kind)
    telling = [text for text in lines if text and not _DULL.search(text)] or [text for text in lines if text]
    return RemoteError(_TOLD["other"].format(shown, telling[0] if telling else "git gives no reason"), kind="other")


def _whole(lines: list[str]) -> list[str]:
    """The same lines, but what ends in a colon with what follows it."""
    found: list[str] = []
    for line in lines:
        if found and found[-1].endswith(":") and line and _LACKS not in found[-1]:
            found[-1] += f" {line}"
        else:
            found.append(line)
    return found


def _lacking(lines: list[str]) -> str:
    """What git lists of the commits that a bundle stands on and that are not here."""
    oids = [line.split(" ")[0] for line in lines if _OID.match(line)]
    many = f"{len(oids)} commits that are" if len(oids) > 1 else "a commit that is"
    return f"stands on {many} not here: {oids[0] if oids else 'git does not say which'}"


def timed_out(shown: str, seconds: float) -> RemoteError:
    """The error for an exchange whose time is over."""
    hint = "--timeout SECONDS gives it more time"
    return RemoteError(f"'{shown}' did not answer within {seconds:g} s", hint, kind="timeout")


def refused(reason: str) -> str:
    """The kind of a refusal of one ref, from the words that git puts behind it."""
    if re.search(
        r"stale info|fetch first|already exists|atomic transaction failed|failed to update ref|cannot lock|incorrect old value",
        reason,
    ):
        return "stale"
    if re.search(r"shallow update", reason):
        return "shallow"
    if re.search(r"non-fast-forward|deletion prohibited|deny deleting", reason):
        return "rewrite"
    if re.search(r"hook declined", reason):
        return "hook"
    if re.search(r"unpacker error|n/a", reason):
        return "read-only"
    return "other"


def hook_line(said: str) -> str:
    """The first line that a server's hook wrote; empty when it wrote none."""
    for line in said.splitlines():
        if line.startswith("remote: "):
            text = line.removeprefix("remote: ").strip()
            if text and not text.startswith(("error: hook declined", "Resolving deltas")):
                return without_credentials(text)
    return ""
