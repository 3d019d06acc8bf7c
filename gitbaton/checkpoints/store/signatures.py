"""Signatures: which key vouches for a track's checkpoints, beside their commits and by id; a join is their union."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from gitbaton.base.codec import Json, counted, decode, in_quotes, payload, plain
from gitbaton.base.errors import BatonError, GitError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.values import TYPE_CHECKING, replace, value
from gitbaton.checkpoints.store.chain import RETRY_SECONDS, Chains, append_to, beside
from gitbaton.checkpoints.store.provenance import of_track
from gitbaton.checkpoints.store.refs import chain_ref, fetched_signatures, signatures_ref
from gitbaton.git.objects import (
    MAX_TREE,
    Algorithm,
    NewObject,
    RefChange,
    TreeEntry,
    commit_data,
    digest,
    is_oid,
    new_object,
    parse_commit,
    parse_tree,
    tree_data,
    tree_objects,
)
from gitbaton.git.publish import publish

if TYPE_CHECKING:
    from typing import Literal

    from gitbaton.checkpoints.store.join import Link
    from gitbaton.checkpoints.store.read import Store
    from gitbaton.git.signing import SignatureCheck

    State = Literal["good", "untrusted", "expired", "revoked", "unchecked", "bad", "replayed", "other", "torn", "missing"]
else:
    State = str
_SETS = b"gitbaton signatures "
SET = _SETS + b"1\n"  # the message of the commit of a set
_AUTHOR = b"gitbaton <gitbaton@localhost> 0 +0000"
_FOLDER = re.compile(rb"[0-9a-f]{2}\Z")
_NAME = re.compile(rb"([0-9a-f]+)\.([0-9a-f]+)\Z")
_TEXT = re.compile(
    rb"gitbaton signature 1\n\nid ([0-9a-f]+)\ntree ([0-9a-f]+)\n(?:beside ([0-9a-f]+)\n)?sha256 ([0-9a-f]{64})\n\Z"
)
SECONDS = 60.0  # in which a key must have signed: somebody may have to type a passphrase, or touch a key
_HOOK_SECONDS = 0.5
_MARGIN = 0.2
_MOST_BELOW = 10  # checkpoints that a snapshot signs besides its own
_MOST = 16  # signatures of one checkpoint that are looked at, before it is seen whether one of them is good
_MORE = 1000  # of all checkpoints that are looked at where none of those is
_LETTERS: dict[str, State] = {"G": "good", "U": "untrusted", "X": "expired", "Y": "expired", "R": "revoked", "B": "bad"}
# The better one counts: whoever may push can put bad ones beside a good one.
STATES: tuple[State, ...] = (
    *("good", "untrusted", "expired", "revoked", "unchecked"),
    *("bad", "replayed", "other", "torn", "missing"),
)
Place = tuple[str, Oid]
"""A checkpoint, by its track and its id."""
Signed = Mapping[Oid, Collection[Oid]]
"""By the ids of checkpoints, the blobs that hold signatures of them."""


@value
class Vouched:
    """Verdict on the signatures of one checkpoint: the best of them. ``good`` is one by a key that is trusted here;
    ``signer``: whose, as git says it; ``key``: its fingerprint; ``why``: what else is to be said, in words."""

    state: State
    signer: str = ""
    key: str = ""
    why: str = ""

    @property
    def good(self) -> bool:
        """Whether the checkpoint has a signature by a key that is trusted here."""
        return self.state == "good"

    @property
    def words(self) -> str:
        """The verdict in words, as ``signed by 'alice@example.com'``."""
        key = plain(self.key) or "unknown"
        return {
            "good": f"signed by {in_quotes(plain(self.signer) or key)}",
            "untrusted": f"signed with a key that is not trusted here, {key}",
            "expired": f"signed by {in_quotes(plain(self.signer) or key)}, and the key or the signature has expired",
            "revoked": f"signed with a key that was revoked, {key}",
            "unchecked": f"signed, and the signature cannot be checked{f': {self.why}' if self.why else ''}",
            "bad": "its signature is forged or damaged",
            "replayed": f"its signature is that of another checkpoint, {self.why}",
            "other": f"its signature is of {self.why}",
            "torn": "its signature cannot be read",
            "missing": "not signed",
        }[self.state]

    @property
    def document(self) -> dict[str, Json]:
        """The fields of the verdict for --json."""
        return {
            "signature": self.state,
            "signer": plain(self.signer) or None,
            "key": plain(self.key) or None,
            "text": self.words,
        }


@value
class SignatureSet:
    """Signatures that a ref holds: ``signed``, of the checkpoints by their ids; ``commit``: the one that they are of, or what
    lies there in its place; ``left``: places of what is no signature. ``seen``: whether all of that was looked into, so that
    no signature is in it."""

    signed: Mapping[Oid, frozenset[Oid]]
    commit: Oid | None = None
    left: tuple[str, ...] = ()
    seen: bool = True

    @property
    def said(self) -> str:
        """Entries that are left out, in words."""
        first, more = in_quotes(self.left[0]), len(self.left) - 1
        return f"{first} and {more} more are no signatures" if more else f"{first} is no signature"


NO_SIGNATURES = SignatureSet(signed={})


class _NoSetError(RecordError):
    """A ref that leads to what is no set of signatures, of this version or a later one; ``commit``: to this one."""

    def __init__(self, message: str, commit: Oid | None) -> None:
        super().__init__(message)
        self.commit = commit


_MISSING = Vouched(state="missing")
_UNSEEN = Vouched(state="unchecked", why="more signatures are beside it than are looked at")


@value
class Subject:
    """Parts of a checkpoint that a signature is about: id, tree of the commit, canonical JSON, and the tree beside its index,
    where it has one (raw bytes, conflicts, permissions)."""

    id: Oid
    tree: Oid
    raw: bytes
    beside: Oid | None = None

    @property
    def text(self) -> bytes:
        """The text that is signed."""
        beside = f"beside {self.beside}\n" if self.beside is not None else ""
        sha = digest("sha256", self.raw).hex()
        return f"gitbaton signature 1\n\nid {self.id}\ntree {self.tree}\n{beside}sha256 {sha}\n".encode()


def subject(store: Chains, stored: Stored) -> Subject:
    """Return what a signature of a checkpoint is about."""
    return Subject(id=stored.id, tree=stored.tree, raw=stored.raw, beside=beside(store, stored))


def of_link(store: Chains, link: Link) -> Subject:
    """Return the same of a checkpoint without its place. Raises RecordError for bytes that are none."""
    raw = payload(link.message)
    stored = Stored(id=link.id, commit="", base=link.base, tree=link.tree, raw=raw, checkpoint=decode(raw))
    return subject(store, stored)


def read(store: Chains, ref: str) -> SignatureSet:
    """Return the signatures that the commit at a ref, or of this id, holds; none where there is no such ref. What else lies
    among them is left out. Raises RecordError that names the ref where it leads to no set of signatures, or not all of it can
    be read."""
    commit, tree = _tree(store, ref)
    if tree is None:
        return NO_SIGNATURES
    found, left, seen = dict[Oid, set[Oid]](), list[bytes](), True
    top = _entries(store, ref, tree)
    for folder in top or ():
        entries = _entries(store, ref, folder.oid) if _is_folder(folder) else []
        seen = seen and entries is not None and _is_folder(folder) == folder.is_tree
        left += [folder.name] if entries is None or not _is_folder(folder) else []
        for entry in entries or ():
            oid = signed_id(store.objects.algorithm, folder.name, entry)
            if oid is not None:
                found.setdefault(oid, set()).add(entry.oid)
            else:
                left.append(folder.name + b"/" + entry.name)
                seen = seen and not entry.is_tree
    names = [name.decode("utf-8", "backslashreplace") for name in left] if top is not None else [ref]
    signed = {oid: frozenset(blobs) for oid, blobs in found.items()}
    return SignatureSet(signed=signed, commit=commit, left=tuple(names), seen=seen and top is not None)


def read_remote(store: Chains, commit: Oid, known: Signed) -> SignatureSet:
    """Return the signatures of a set that a remote has. What leads to no set has none, and of those that are not ``known``
    here, what cannot be one is left out. Raises RecordError where not all of it can be read."""
    try:
        found = read(store, commit)
    except _NoSetError as error:
        return SignatureSet(signed={}, commit=error.commit, left=(commit,), seen=False)
    signed = sound(store, found.signed, known)
    names = (f"{oid[:2]}/{oid[2:]}.{blob}" for oid, blobs in found.signed.items() for blob in blobs - {*signed.get(oid, ())})
    tag = [commit] if found.commit != commit else []
    return replace(found, signed=signed, left=(*tag, *found.left, *names))


def sound(store: Chains, signed: Signed, known: Signed) -> dict[Oid, frozenset[Oid]]:
    """Return some signatures without the blobs that are not ``known`` and, as can be read, no signatures."""
    from gitbaton.git.signing import MAX_SIGNED, signed_text  # late: most who read signatures judge none

    asked = [blob for oid, blobs in signed.items() for blob in {*blobs}.difference(known.get(oid, ()))]
    read = zip(asked, store.objects.read_many(asked, MAX_SIGNED), strict=True) if asked else ()
    there = ((oid, item) for oid, item in read if item is not None)
    torn = {
        oid
        for oid, item in there
        if item.kind != "blob" or item.data is None or signed_text(store.objects.algorithm, item.data) is None
    }
    left = ((oid, frozenset(blobs).difference(torn)) for oid, blobs in signed.items())
    return {oid: blobs for oid, blobs in left if blobs}


def _tree(store: Chains, ref: str) -> tuple[Oid | None, Oid | None]:
    """Return the commit at a ref, which a tag may lead to, and its tree; None where there is no such ref."""
    found = store.at(ref)
    while found is not None and found.kind == "tag" and found.data is not None:
        found = store.at(found.data[7:].partition(b"\n")[0].decode("ascii", "replace"))
    if found is None:
        return None, None
    if found.kind != "commit" or found.data is None:
        raise _NoSetError(f"{in_quotes(ref)} is a {found.kind} and not a commit", None)
    commit = parse_commit(found.data)
    if commit.message != SET:
        said = f"{in_quotes(ref)} is not what gitbaton writes: {in_quotes('its commit')}"
        raise RecordError(said) if commit.message.startswith(_SETS) else _NoSetError(said, found.oid)
    return found.oid, commit.tree


def _is_folder(entry: TreeEntry) -> bool:
    return entry.is_tree and _FOLDER.match(entry.name) is not None


def _folders(store: Chains, ref: str) -> dict[bytes, TreeEntry]:
    """Return the folders of a set by their names, none where there is no such ref. Raises as ``read``."""
    _, tree = _tree(store, ref)
    entries = _entries(store, ref, tree) if tree is not None else None
    return {entry.name: entry for entry in entries or () if _is_folder(entry)}


def _entries(store: Chains, ref: str, tree: Oid) -> list[TreeEntry] | None:
    """Return the entries of a tree; None for what is none, or is larger than any of ours. Raises RecordError where it is not
    there."""
    found = store.objects.read(tree, MAX_TREE)
    if found is None:
        raise RecordError(f"{in_quotes(ref)} cannot be read: tree {tree}")
    try:
        return parse_tree(found.data, store.objects.algorithm) if found.kind == "tree" and found.data is not None else None
    except RecordError:
        return None


def signed_id(algorithm: Algorithm, folder: bytes, entry: TreeEntry) -> Oid | None:
    """Return the id of the checkpoint that a signature is of, as its place says; None for what is not as gitbaton writes it.
    Pure."""
    name = _NAME.match(entry.name)
    oid = (folder + name[1]).decode("ascii", "replace") if name is not None else ""
    right = name is not None and entry.mode == b"100644" and name[2].decode() == entry.oid and is_oid(algorithm, oid)
    return oid if right else None


def union(*sets: Signed) -> dict[Oid, frozenset[Oid]]:
    """Return all that any of them has; whatever the order and grouping, the same. Pure."""
    ids = frozenset[Oid]().union(*sets)
    return {oid: frozenset[Oid]().union(*(one.get(oid, ()) for one in sets)) for oid in ids}


def objects_for(algorithm: Algorithm, signed: Signed, parents: Iterable[Oid] = ()) -> list[NewObject]:
    """Return the trees to write for signatures of which the blobs are there, and their commit as the last one. Without
    ``parents`` every clone that has the same writes the same. Pure."""
    rows = ((f"{oid[:2]}/{oid[2:]}.{blob}", "100644", blob) for oid, blobs in signed.items() for blob in blobs)
    return _committed(algorithm, tree_objects(algorithm, rows), parents)


def _committed(algorithm: Algorithm, trees: Sequence[NewObject], parents: Iterable[Oid] = ()) -> list[NewObject]:
    data = commit_data(tree=trees[-1].oid, parents=parents, author=_AUTHOR, message=SET)
    return [*trees, new_object(algorithm, "commit", data)]


def put(store: Store, track: str, made: Mapping[Oid, bytes]) -> None:
    """Put signatures beside those that a track has: objects first, then the ref. Raises BatonError."""
    ref, algorithm = signatures_ref(track), store.objects.algorithm

    def once(_: object) -> None:
        if store.objects.info(chain_ref(track)) is None:
            return  # it was deleted meanwhile
        found = store.objects.info(ref)
        top = _folders(store, ref)
        new = [new_object(algorithm, "blob", raw) for raw in made.values()]
        below: dict[bytes, list[TreeEntry]] = {}
        for oid, blob in zip(made, new, strict=True):
            entry = TreeEntry(mode=b"100644", name=f"{oid[2:]}.{blob.oid}".encode(), oid=blob.oid)
            below.setdefault(oid[:2].encode(), []).append(entry)
        for name, entries in below.items():
            known = _entries(store, ref, top[name].oid) or () if name in top else ()
            sound = [entry for entry in known if signed_id(algorithm, name, entry) is not None]
            both = {entry.name: entry for entry in (*sound, *entries)}
            new.append(new_object(algorithm, "tree", tree_data(both.values())))
            top[name] = TreeEntry(mode=b"40000", name=name, oid=new[-1].oid)
        new.append(new_object(algorithm, "tree", tree_data(top.values())))
        new = _committed(algorithm, new)
        change = RefChange(name=ref, new=new[-1].oid, old=found.oid if found is not None else None)
        if change.new != change.old:
            publish(store.repo, [change], new=new, automatic=True)

    store.repo.drop_broken(ref)
    with store.repo.lock((ref,)):
        append_to(store.repo, (ref,), once, seconds=RETRY_SECONDS)


def sign_newest(store: Store, tip: Stored, *, automatic: bool) -> list[str]:
    """Sign a checkpoint that was just recorded, and a few that were made here right below it and are not signed yet; return a
    warning where it was not. An ``automatic`` one waits for no passphrase. Never raises BatonError: the checkpoint stands."""
    from gitbaton.git.signing import sign  # late: most who read signatures judge none

    seconds, until = (_HOOK_SECONDS, time.monotonic() + _HOOK_SECONDS) if automatic else (SECONDS, time.monotonic() + SECONDS)
    made: dict[Oid, bytes] = {}
    try:
        for one in _unsigned(store, tip):
            if made and time.monotonic() + _MARGIN > until:
                break  # the next one goes on
            made[one.id] = sign(store.repo, subject(store, one).text, seconds=seconds, asking=not automatic)
        put(store, tip.checkpoint.track, made)
    except (BatonError, OSError) as error:
        return [f"the checkpoint is recorded, and not signed: {plain(_why(error))}"]
    return []


def _why(error: BatonError | OSError) -> str:
    """Return why nothing is signed, with the line that mends it where there is one."""
    hints = error.hints if isinstance(error, BatonError) else ()
    return "; with an SSH key it signs after: ".join([str(error), *hints])


def _unsigned(store: Store, tip: Stored) -> Iterator[Stored]:
    ref, ours = signatures_ref(tip.checkpoint.track), of_track(tip.checkpoint.track)
    top, theirs = _folders(store, ref), store.ours.taken_over(ours)
    for stored in islice(store.newest(tip), 1 + _MOST_BELOW):
        folder = top.get(stored.id[:2].encode())
        below = _entries(store, ref, folder.oid) or () if folder is not None else ()
        signed = any(signed_id(store.objects.algorithm, stored.id[:2].encode(), entry) == stored.id for entry in below)
        if signed or stored.id in theirs or not store.ours.has(ours, stored.id):
            return
        yield stored


def signatures_of(store: Store, track: str) -> tuple[dict[Oid, frozenset[Oid]], list[str]]:
    """Return the signatures that are here of a track's checkpoints, fetched ones, too; and warnings of what cannot be read."""
    refs = [signatures_ref(track)]
    refs += [fetched_signatures(remote, track) for remote, _ in store.at_remotes(track)]
    sets, said = list[Signed](), list[str]()
    for ref in refs:
        try:
            found = read(store, ref)
            sets.append(found.signed)
            said += [f"{found.said} in {in_quotes(ref)}, and left out"] if found.left else []
        except (RecordError, GitError) as error:
            said.append(f"signatures are left out: {error.message}")
    return union(*sets), said


def vouched(store: Store, asked: Sequence[Subject], signed: Signed, more: int = _MORE) -> dict[Oid, Vouched]:
    """Return the verdict on each of some checkpoints, by its id, with these signatures. ``more``: how many are looked at where
    none of the first of a checkpoint is good. Raises GitError where git cannot be asked."""
    found, left, at = {one.id: list[Vouched]() for one in asked}, list(asked), 0
    while left:
        pairs = [(one, blob) for one in left for blob in sorted(signed.get(one.id, ()))[at : at + _MOST]]
        more -= len(pairs) if at else 0
        for one, verdict in _judged_all(store, pairs) if more >= 0 else [(one, _UNSEEN) for one in left]:
            found[one.id].append(verdict)
        at += _MOST
        left = [
            one for one in left if more >= 0 and at < len(signed.get(one.id, ())) and not any(v.good for v in found[one.id])
        ]
    return {oid: min(verdicts, key=lambda v: STATES.index(v.state), default=_MISSING) for oid, verdicts in found.items()}


def _judged_all(store: Store, pairs: Sequence[tuple[Subject, Oid]]) -> list[tuple[Subject, Vouched]]:
    """Return the verdict on each of some signatures, by blob. Raises GitError."""
    from gitbaton.git.signing import MAX_SIGNED, check, signed_text  # late: most who read signatures judge none

    algorithm = store.objects.algorithm
    found, sound = list[tuple[Subject, Vouched]](), list[tuple[Subject, bytes]]()
    for (one, blob), item in zip(pairs, store.objects.read_many([blob for _, blob in pairs], MAX_SIGNED), strict=True):
        raw = item.data if item is not None and item.kind == "blob" and item.oid == blob else None
        text = signed_text(algorithm, raw) if raw is not None else None
        wrong = _differs(one, text) if text is not None else Vouched(state="torn")
        if wrong is None and raw is not None:
            sound.append((one, raw))
        else:
            found.append((one, wrong or Vouched(state="torn")))
    letters = check(store.repo, [raw for _, raw in sound])
    return [*found, *((one, _judged(said)) for (one, _), said in zip(sound, letters, strict=True))]


def _differs(one: Subject, text: bytes) -> Vouched | None:
    """Return what a signed text says of another checkpoint than this one; None where it is of just this one."""
    if text == one.text:
        return None
    said = _TEXT.match(text)
    if said is None:
        return Vouched(state="torn")
    if said[1].decode() != one.id:
        return Vouched(state="replayed", why=said[1].decode())
    beside = said[3].decode() if said[3] is not None else None
    other = "another tree" if said[2].decode() != one.tree else "something else beside the index"
    return Vouched(state="other", why="other words" if (said[2].decode(), beside) == (one.tree, one.beside) else other)


def _judged(said: SignatureCheck) -> Vouched:
    state = _LETTERS.get(said.letter, "unchecked")
    why = "the key is not here" if said.letter == "E" else said.why
    return Vouched(state=state, signer=said.signer, key=said.key, why=why)


def sign_anew(store: Store, track: str, pairs: Sequence[tuple[Link, Link]], signed: Signed, *, on: bool) -> list[str]:
    """Sign checkpoints that were written anew, each with what it was before, where that has a good signature; ``on``: whether
    checkpoints are signed here. Return a warning for those that have none any more. Never raises BatonError."""
    from gitbaton.git.signing import sign  # late: most who read signatures judge none

    had = [(old, new) for old, new in pairs if old.id in signed]
    made: dict[Oid, bytes] = {}
    why = "" if on else "baton.sign is off"
    try:
        known = vouched(store, [of_link(store, old) for old, _ in had], signed) if on else {}
        for old, new in had:
            if old.id in known and known[old.id].good:
                made[new.id] = sign(store.repo, of_link(store, new).text, seconds=SECONDS, asking=True)
    except (BatonError, OSError) as error:
        why = _why(error)
    try:
        if made:
            put(store, track, made)
    except BatonError as error:
        made, why = {}, error.message
    lost = len(had) - len(made)
    said = f"{counted(lost, 'checkpoint')} of track {in_quotes(track)} that {'was' if lost == 1 else 'were'} signed "
    said += f"{'is' if lost == 1 else 'are'} not any more: the bytes are others"
    return [plain(f"{said}; {why}" if why else said)] if lost else []


def verdicts(store: Store, asked: Iterable[Stored]) -> tuple[dict[Place, Vouched], list[str]]:
    """Return the verdict on each of some checkpoints, and warnings of signatures that cannot be read. Raises GitError where git
    cannot be asked."""
    found, warnings, tracks = dict[Place, Vouched](), list[str](), dict[str, list[Stored]]()
    for stored in asked:
        tracks.setdefault(stored.checkpoint.track, []).append(stored)
    rounds = list[tuple[dict[Oid, Stored], dict[Oid, Collection[Oid]]]]()  # in each an id stands once
    for track, items in tracks.items():
        found |= {(track, stored.id): _MISSING for stored in items}
        signed, said = signatures_of(store, track)
        warnings += said
        theirs = {stored.id: stored for stored in items if stored.id in signed}
        if not rounds or not theirs.keys().isdisjoint(rounds[-1][0]):
            rounds.append(({}, {}))
        rounds[-1][0].update(theirs)
        rounds[-1][1].update((oid, signed[oid]) for oid in theirs)
    for those, blobs in rounds:
        judged = vouched(store, [subject(store, stored) for stored in those.values()], blobs)
        for oid, stored in those.items():
            track, own = stored.checkpoint.track, decode(stored.raw).track
            if own != track:  # which the ref's name hides
                judged[oid] = Vouched(state="other", why=f"track {in_quotes(own)}")
            found[track, oid] = judged[oid]
    return found, warnings


def told(store: Store, stored: Stored) -> Vouched:
    """Return the verdict on one checkpoint. Never raises BatonError: what is in the way is in its words."""
    try:
        found, said = verdicts(store, [stored])
    except BatonError as error:
        return Vouched(state="unchecked", why=error.message)
    verdict = found[stored.checkpoint.track, stored.id]
    return Vouched(state="unchecked", why=said[0]) if said and verdict.state == "missing" else verdict
