"""Settings: each key of git's configuration that gitbaton heeds, with its default, side by side."""

from __future__ import annotations

import os
import re
from functools import cache

from gitbaton.base.errors import UsageError
from gitbaton.base.values import TYPE_CHECKING, cast, value
from gitbaton.git.questions import FSYNC
from gitbaton.git.repo import Repo

CHECKPOINT_DIR = "runtime/checkpoints"
MAX_FILE_SIZE = 50 << 20
MAX_UNTRACKED = 1 << 30
GUARD_IGNORED = 10 << 20
# Files that hold secrets and are called so everywhere, in gitignore syntax: keys and stores of keys, what clients of servers
# keep to log in, and the state and variables of tools that name both.
EXCLUDE = (
    *(".env*", "!.env*.example", "!.env*.sample", "!.env*.template", "!.env*.dist"),
    *("*.pem", "*.p8", "*.p12", "*.pfx", "*.ppk", "*.jks", "*.keystore", "*.keytab", "*.kdbx", "master.key"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "**/.ssh/*", "!id_*.pub", "!**/.ssh/*.pub"),
    *(".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".htpasswd", ".htdigest", ".git-credentials"),
    *(".pypirc", ".npmrc", ".yarnrc.yml", "**/.gem/credentials", "**/.cargo/credentials", "**/.cargo/credentials.toml"),
    *("**/.docker/config.json", ".dockercfg", ".dockerconfigjson", "**/.kube/config", "kubeconfig", "kubeconfig.yaml"),
    *("kubeconfig.yml", "*.kubeconfig", "*.tfstate", "*.tfstate.*", "*.tfvars", "*.tfvars.json", ".terraformrc"),
    *("credentials.tfrc.json", ".vault-token", ".vault_pass*", ".vault-pass*", "**/.aws/credentials", ".boto", ".s3cfg"),
    *("application_default_credentials.json", "**/gcloud/credentials.db", "**/gcloud/access_tokens.db", "client_secret*.json"),
    *("**/.azure/accessTokens.json", "**/.azure/msal_token_cache.*", ".databrickscfg", "rclone.conf", "**/gh/hosts.yml"),
    *("**/.huggingface/token", "**/.streamlit/secrets.toml", ".dev.vars*", "*-firebase-adminsdk-*.json", "**/git/credentials"),
    *("**/.claude/.credentials.json", "**/.codex/auth.json", "**/.gemini/oauth_creds.json", "**/github-copilot/hosts.json"),
    *("**/github-copilot/apps.json", "**/.composer/auth.json", ".authinfo", "*.jceks", "*.kdb"),
)
_DEFAULT = "@default"  # stands among values of baton.exclude for these
# Those of them that hold a secret only where one of these stands in them.
WITH_TOKEN = {
    ".npmrc": rb"_(?:authToken|auth|password)[ \t]*=[ \t]*[^\s$]",
    ".yarnrc.yml": rb"npmAuth(?:Token|Ident)[ \t]*:[ \t]*[\"']?[^\s\"'$]",
}
SHORT = 10
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal, TypeVar

    T = TypeVar("T")
    Auto = Literal["off", "compact", "turn", "edit"]
    Untracked = Literal["all", "none"]
    Transcripts = Literal["off", "position", "full"]
    Redact = Literal["on", "off", "strict"]
    Observe = Literal["all", "tests", "none"]
else:
    Auto = Untracked = Transcripts = Redact = Observe = str
_YES, _NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
_SIZE = re.compile(r"([0-9]{1,15})([kKmMgG]?)\Z")
_UNIT = {"": 0, "k": 10, "m": 20, "g": 30}


@value
class Settings:
    """Settings from ``baton.*`` and a few keys of git's."""

    track: str | None  # baton.track, under GIT_BATON_TRACK
    checkpoint_dir: str  # baton.checkpointDir
    untracked: Untracked  # baton.untracked
    max_file_size: int  # baton.maxFileSize, in bytes
    max_untracked: int  # baton.maxUntracked, in bytes: new untracked files of an automatic checkpoint
    exclude: tuple[str, ...]  # baton.exclude; one empty value clears the default, and @default stands for it
    short: int  # core.abbrev: digits of a short id
    auto: Auto  # baton.auto: when hooks take checkpoints
    transcripts: Transcripts  # baton.transcripts
    observe: Observe  # baton.observe: what of the client's own records a checkpoint holds
    tests: tuple[str, ...]  # baton.testCommand: one's own test commands
    nudge: bool  # baton.nudge: whether a prompt is told that the words are old
    overlap: bool  # baton.overlap: whether an agent is told where other tracks overlap
    guard_commands: tuple[str, ...]  # baton.guardCommand: one's own commands before which a checkpoint is taken
    guard_ignored: int  # baton.guardIgnored, in bytes: ignored files that a command is about to remove
    redact: Redact  # baton.redact: what becomes of secrets in words
    push: bool | None  # baton.push: whether anything is ever pushed without a question; None: a first push is asked about
    sign: bool  # baton.sign: whether checkpoints are signed with the user's key
    redact_allow: tuple[str, ...]  # baton.redactAllow: regular expressions of whole secrets that are none


def load(repo: Repo, complain: Callable[[str], None] | None = None) -> Settings:
    """Return the settings of a repository. Raises UsageError that names a key with a value that cannot be understood; with
    ``complain`` that is called instead, and the default counts."""
    values = repo.settings()

    def last(key: str, default: str) -> str:
        return values.get(key, [default])[-1]

    def wrong(text: str, default: T) -> T:
        if complain is None:
            raise UsageError(text)
        complain(text)
        return default

    def size(key: str, default: int) -> int:
        given = last(key.lower(), str(default))
        if match := _SIZE.match(given):
            return int(match.group(1)) << _UNIT[match.group(2).lower()]
        return wrong(f"{key} is '{given}'; it must be a number of bytes, with k, m or g for larger units", default)

    def one_of(key: str, *words: str) -> str:
        given = last(f"baton.{key}", words[0])
        if given in words:
            return given
        others = ", ".join(f"'{word}'" for word in words[:-1])
        return wrong(f"baton.{key} is '{given}'; it can be {others} or '{words[-1]}'", words[0])

    if last("baton.fsync", ""):
        one_of("fsync", *FSYNC)  # git.publish reads it
    return Settings(
        track=os.environ.get("GIT_BATON_TRACK") or last("baton.track", "") or None,
        checkpoint_dir=last("baton.checkpointdir", CHECKPOINT_DIR),
        untracked=cast(Untracked, one_of("untracked", "all", "none")),
        max_file_size=size("baton.maxFileSize", MAX_FILE_SIZE),
        max_untracked=size("baton.maxUntracked", MAX_UNTRACKED),
        exclude=tuple(q for p in values.get("baton.exclude", (_DEFAULT,)) if p for q in (EXCLUDE if p == _DEFAULT else (p,))),
        short=_short(last("core.abbrev", "auto").lower()),
        auto=cast(Auto, one_of("auto", "turn", "edit", "compact", "off")),
        transcripts=cast(Transcripts, one_of("transcripts", "full", "position", "off")),
        observe=cast(Observe, one_of("observe", "all", "tests", "none")),
        tests=tuple(command for command in values.get("baton.testcommand", ()) if command.strip()),
        nudge=_flag("nudge", last("baton.nudge", "").lower(), wrong) is not False,
        overlap=_flag("overlap", last("baton.overlap", "").lower(), wrong) is not False,
        guard_commands=tuple(command for command in values.get("baton.guardcommand", ()) if command.strip()),
        guard_ignored=size("baton.guardIgnored", GUARD_IGNORED),
        redact=cast(Redact, one_of("redact", "on", "strict", "off")),
        push=_flag("push", last("baton.push", "").lower(), wrong),
        sign=_flag("sign", last("baton.sign", "").lower(), wrong) is True,
        redact_allow=tuple(pattern for pattern in values.get("baton.redactallow", ()) if not _bad(pattern, wrong)),
    )


def names_secrets(path: str, text: bytes = b"") -> bool:
    """Whether the default of baton.exclude covers a path: its very name says that it holds secrets. ``text``: what is in it."""
    if _any_name().search(path) is None:  # nearly always
        return False
    telling = WITH_TOKEN.get(os.path.basename(path))
    if telling is not None and re.search(telling, text) is None:
        return False
    return next((secret for match, secret in _naming() if match(path)), False)


@cache
def _any_name() -> re.Pattern[str]:
    """Return the expression that finds a path that any of the patterns covers, at once."""
    return re.compile(rf"(?:^|/)(?:{'|'.join(_name_regex(p) for p in EXCLUDE if p[0] != '!')})(?:/|\Z)")


@cache
def _naming() -> tuple[tuple[Callable[[str], object], bool], ...]:
    """Return a matcher of each pattern, and whether that leaves its paths out; the last one, which counts most, first."""
    return tuple(
        (re.compile(rf"(?:^|/){_name_regex(p.removeprefix('!'))}(?:/|\Z)").search, p[0] != "!") for p in reversed(EXCLUDE)
    )


def _name_regex(pattern: str) -> str:
    """One of these patterns, in which ``*`` stays within a name, for the part of a path that it is about."""
    return re.escape(pattern.removeprefix("**/")).replace(r"\*", "[^/]*")


def _flag(key: str, given: str, wrong: Callable[[str, None], None]) -> bool | None:
    if given not in ("", *_YES, *_NO):
        wrong(f"baton.{key} is '{given}'; it can be 'true' or 'false'", None)
        return None
    return given in _YES if given else None


def _bad(pattern: str, wrong: Callable[[str, bool], bool]) -> bool:
    """Whether a value of baton.redactAllow allows nothing; one that is no expression is ``wrong``."""
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return wrong(f"baton.redactAllow is '{pattern[:100]}'; it must be a regular expression: {error}", True)
    return not pattern


def _short(abbrev: str) -> int:
    if abbrev in ("no", "off", "false"):
        return 64
    return min(max(int(abbrev), 4), 64) if abbrev.isdecimal() else SHORT
