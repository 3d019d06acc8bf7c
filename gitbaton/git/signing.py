"""Signing: git signs a text with the user's key, as a commit that no object store keeps, and verifies such commits."""

from __future__ import annotations

import os
import re
import signal
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

from gitbaton.base.errors import GitError, GitTimeoutError
from gitbaton.base.model import Oid
from gitbaton.base.system.files import read_or_none
from gitbaton.base.system.process import Result, begin
from gitbaton.base.values import replace, value
from gitbaton.git.loose import put_in
from gitbaton.git.objects import Algorithm, is_oid, new_object
from gitbaton.git.repo import PROGRAMS, Repo
from gitbaton.git.run import Git, checked

_AT_ONCE = 100  # signed commits that one process judges
MAX_SIGNED = 64 << 10  # bytes of a signed commit; an RSA key of 16,384 bits takes 5,000
_NOBODY = {
    **{f"GIT_{who}_NAME": "gitbaton" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "gitbaton@localhost" for who in ("AUTHOR", "COMMITTER")},
}
# Nobody is asked: what signs has no terminal, and starts no program that asks for a passphrase in a window of its own.
_UNASKED = {"SSH_ASKPASS_REQUIRE": "never"}
_SIGNED = re.compile(
    rb"tree ([0-9a-f]+)\nauthor [^\n]+\ncommitter [^\n]+\n(?:gpgsig|gpgsig-sha256) [^\n]+\n(?: [^\n]*\n)+\n(.*)\Z", re.DOTALL
)
_KEY = re.compile(r"(?:ssh|ecdsa|sk)-\S+ [A-Za-z0-9+/=]+")
_EMAIL = re.compile(rb"<([^\s<>,\"*?!]+)>\Z")
# Not %GT: git 2.39 ends at it where a signature cannot be judged.
_FORMAT = "--format=%H%x00%G?%x00%GS%x00%GF%x00%GK%x00%GG"
_UNKNOWN = "N"
_EXPIRED = ": key has expired: "  # ssh-keygen's word
_UNRUN = re.compile(r"(?:error|fatal): cannot (?:run|exec) ")


@value
class SignatureCheck:
    """Judgement of git on a signed commit: its letter for it (``%G?``: ``G`` is a good signature by a key that is trusted), the
    signer, and the fingerprint of the key; the words are empty where git says none. ``why``: why git could not judge it."""

    letter: str
    signer: str = ""
    key: str = ""
    why: str = ""


def signed_text(algorithm: Algorithm, raw: bytes) -> bytes | None:
    """Return the text that a signed commit, as ``sign`` makes it, is about; None for any other bytes. Pure: whether the
    signature is good only ``check`` knows."""
    found = _SIGNED.match(raw)
    return found[2] if found is not None and found[1].decode() == new_object(algorithm, "tree", b"").oid else None


def sign(repo: Repo, text: bytes, *, seconds: float, asking: bool) -> bytes:
    """Return the bytes of a commit of the empty tree with this message, signed with the user's key (``gpg.format``,
    ``user.signingKey``). With ``asking`` an agent of gpg may ask for a passphrase on the user's terminal.

    Raises GitError with the reason where it cannot be signed, and the line that sets a key where none is; and where it takes
    longer than so many seconds.
    """
    import tempfile  # late, since it is dear: nothing is signed in most repositories

    own = _NOBODY if repo.identity() is None else {}
    tree = new_object(repo.layout.algorithm, "tree", b"").oid
    with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        git = _apart(repo, folder).changed({**own, **_UNASKED}, "i18n.commitEncoding=UTF-8")
        env = git.env if asking else {name: text for name, text in git.env.items() if name != "GPG_TTY"}
        result = _run(git.argv("commit-tree", "-S", tree, "-F", "-"), env, seconds, text)
        oid = result.out.decode("ascii", "replace").strip()
        if result.code != 0 or not is_oid(repo.layout.algorithm, oid):
            raise GitError(_reason(result), *_first_key(repo))
        raw = zlib.decompress(read_or_none(os.path.join(folder, oid[:2], oid[2:])) or b"").partition(b"\0")[2]
    if signed_text(repo.layout.algorithm, raw) != text or len(raw) > MAX_SIGNED:
        raise GitError("git made a commit that is not signed")
    return raw


def _run(argv: Sequence[str], env: Mapping[str, str], seconds: float, text: bytes) -> Result:
    """Run git without a terminal; after its time it ends, and what it started."""
    process = begin(argv, env, seconds, text, detached=True)
    try:
        return process.finish()
    except GitTimeoutError:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        raise GitError(f"the key did not sign in {seconds:g} seconds; perhaps it waits for a passphrase") from None


def _reason(result: Result) -> str:
    """Return why git did not sign, in a line."""
    said = result.fatal()
    told = [line for line in result.err.splitlines() if line.strip() and not line.startswith(("[GNUPG:]", "fatal: "))]
    why = next((line for line in told if not line.startswith("error: ")), said) if said.endswith("data:") else said
    return why.removesuffix("?")  # git's sign for a carriage return of ssh-keygen's


def _first_key(repo: Repo) -> Iterator[str]:
    """Yield the line by which git signs with the user's SSH key, where no key is set."""
    if not repo.settings().get("user.signingkey", [""])[-1]:
        keys = [f"~/.ssh/{name}.pub" for name in ("id_ed25519", "id_ecdsa", "id_rsa")]
        key = next((path for path in keys if os.path.isfile(os.path.expanduser(path))), "")
        new = "" if key else "mkdir -p -m 700 ~/.ssh && ssh-keygen -t ed25519 -f ~/.ssh/id_ed25519 && "
        yield f"{new}git config gpg.format ssh && git config user.signingKey {key or keys[0]}"


def check(repo: Repo, signed: Sequence[bytes]) -> list[SignatureCheck]:
    """Return what git says of each of some commits that ``signed_text`` knows, in few processes. Where the user has no
    ``gpg.ssh.allowedSignersFile`` the user's own key is the only one that is trusted. Raises GitError."""
    if not signed:
        return []
    import tempfile

    made = [new_object(repo.layout.algorithm, "commit", raw) for raw in signed]
    with tempfile.TemporaryDirectory(prefix="gitbaton-") as folder:
        put_in(folder, made)
        git = _apart(repo, folder)
        if not repo.settings().get("gpg.ssh.allowedsignersfile", [""])[-1]:
            allowed = os.path.join(folder, "allowed")
            with open(allowed, "wb") as file:
                file.write(_own_key(repo))
            git = git.changed({}, f"gpg.ssh.allowedSignersFile={allowed}")
        found = _letters(git, dict.fromkeys(item.oid for item in made))
        bad = [oid for oid, said in found.items() if said.letter == "B"]
        if bad and repo.settings().get("gpg.ssh.revocationfile", [""])[-1]:  # of a revoked key git says just this
            again = _letters(git.changed({}, "gpg.ssh.revocationFile="), bad)
            found |= {oid: replace(said, letter="R") for oid, said in again.items() if said.letter in "GU"}
    return [found.get(item.oid, SignatureCheck(letter="E")) for item in made]


def _letters(git: Git, asked: Iterable[Oid]) -> dict[Oid, SignatureCheck]:
    """Return what git says of signed commits: one process for many, as many at once as there are processors, for git waits
    for a program of the key's twice a signature."""
    oids = list(asked)
    if len(oids) <= _AT_ONCE:
        return _said(git, oids)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        each = pool.map(lambda at: _said(git, oids[at : at + _AT_ONCE]), range(0, len(oids), _AT_ONCE))
        return {oid: said for found in each for oid, said in found.items()}


def _said(git: Git, asked: Sequence[Oid]) -> dict[Oid, SignatureCheck]:
    """Return what git says of signed commits in one process. Raises GitError."""
    words = ("--no-walk=unsorted", "--stdin", "-s", "-z", "--no-show-signature", "--no-color", _FORMAT)
    result = git.run("log", *words, stdin="".join(f"{oid}\n" for oid in asked).encode())
    fields = iter(checked(result, "log").decode("utf-8", "replace").split("\0")[:-1])
    unrun = next((line.partition(": ")[2] for line in result.err.splitlines() if _UNRUN.match(line)), "")
    found: dict[Oid, SignatureCheck] = {}
    for oid, letter, signer, fingerprint, key, told in zip(*[fields] * 6, strict=True):
        said = SignatureCheck(letter=letter, signer=signer, key=fingerprint or key)
        if letter == "B" and not told.strip():  # git's word where ssh-keygen is not there
            said = replace(said, letter=_UNKNOWN, why=unrun)
        found[oid] = replace(said, letter="X") if letter == "U" and _EXPIRED in told else said
    return found


def _apart(repo: Repo, folder: str) -> Git:
    """Return git, its objects in a folder of their own, and no program of a repository's configuration."""
    settings = repo.settings()
    config = []
    for key in sorted(PROGRAMS.keys() & repo.unheeded.keys()):
        usual = settings.get("gpg.program", [PROGRAMS[key]]) if key == "gpg.openpgp.program" else [PROGRAMS[key]]
        config.append(f"{key}={settings.get(key, usual)[-1]}")
    return repo.opened.changed({"GIT_OBJECT_DIRECTORY": folder}, *config)


def _own_key(repo: Repo) -> bytes:
    """Return the line of an allowed signers file for the user's own SSH key; empty where it is not known."""
    said = repo.settings().get("user.signingkey", [""])[-1]
    who = _EMAIL.search(repo.identity() or b"")
    literal = said.removeprefix("key::")
    if not _KEY.match(literal):
        asked = repo.opened.run("config", "--type=path", "user.signingKey").out if said else b""
        path = os.path.join(repo.opened.directory, os.fsdecode(asked.rstrip(b"\n")))
        places = (f"{path}.pub", path) if asked else ()
        literal = next((text for place in places if _KEY.match(text := _text(place))), "")
    key = _KEY.match(literal)
    return b'%s namespaces="git" %s\n' % (who[1] if who is not None else b"you", key[0].encode()) if key is not None else b""


def _text(path: str) -> str:
    return (read_or_none(path, follow=True) or b"").decode("utf-8", "replace")[:MAX_SIGNED]
