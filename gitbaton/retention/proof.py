"""What is left of forgotten checkpoints besides objects, erased; and the proof of what refs, indexes and files still hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from gitbaton import mirror
from gitbaton.baton import Baton
from gitbaton.codec import Note, canonical, encode_track, in_quotes, parse_note, payload, plain, timestamp
from gitbaton.errors import GitError, RecordError
from gitbaton.git import objectlists, questions
from gitbaton.git.objects import object_id, walk_notes
from gitbaton.git.repo import Repo, has_folder
from gitbaton.mirror import EXPORTED
from gitbaton.model import Oid, Stored
from gitbaton.retention import removing
from gitbaton.retention.forgetting import Forgetting, Sieve, trees_of
from gitbaton.scanning.objects import scanner, text_of
from gitbaton.store import CHAINS, CURRENT, NOTES, SAFETY, TIPS, Store
from gitbaton.store.read import PREFIXES, own_refs
from gitbaton.store.refs import REMOTES
from gitbaton.system.files import read_regular, remove_folder
from gitbaton.transcripts import proofs
from gitbaton.values import value

_EXPORTED = re.compile(rf"{EXPORTED}.+\.(?:md|json)\Z", re.DOTALL)
_LOGS = ("log", "log.old")
_RECORDS = ("restore", "restore.bad", "restore.new", "LATEST.md.new", "LATEST.json.new")
_MAX_FILE = 64 << 20
_SHORTEST = 6  # letters of a word of theirs that is looked for
_FEW = 3
_MOST = 10
_LEAST = 12  # characters: what is shorter is said by chance
_MANY = 100
_AFTER = "goes by 'git baton forget --everywhere ID', with the full id, after it"
_NAMED = re.compile(rb"^checkpoint ([0-9a-f]{40,64})$", re.MULTILINE)
Holder = tuple[Stored, str, str | None]  # a checkpoint, its chain in words, and the track


def erase(baton: Baton, made: Forgetting) -> list[str]:
    """Remove what may hold their words, in every work tree; what could not be is said. Raises nothing of the disk's."""
    _clear_reflogs(baton.repo, {*own_refs(baton.store), *made.seen})
    # A digest of a text of which only a password is unknown gives it away.
    known = [talk.ref for talk in made.conversations if not proofs.forgotten(baton.repo, talk.ref)]
    said = _removed(proofs.path(baton.repo, ref) for ref in known)
    said += _removed(os.path.join(baton.repo.shared_dir, name) for name in _LOGS)  # whatever a hook could not do, it said there
    needles = words(made.parts)
    for _, git_dir, root in questions.worktrees(baton.repo):
        said += _removed(_named_in(baton.repo, os.path.join(git_dir, "baton"), made, needles))
        for there in removing.places(baton, root) if root else ():
            said += _exported(baton, made, there, root)
    return [*said, *removing.refresh(baton)]


def words(parts: Iterable[Stored]) -> tuple[bytes, ...]:
    """The texts of checkpoints line by line, plain and as JSON writes them; short ones are left out."""
    found: set[bytes] = set()
    for stored in parts:
        c = stored.checkpoint
        texts = [c.step, c.note, c.next_cmd, *c.decisions, c.label or "", *(text for _, text in c.extra)]
        texts += [c.carried.step] if c.carried else []
        for text in (line.strip() for whole in texts for line in whole.split("\n")):
            if len(text) >= _SHORTEST:
                found |= {text.encode("utf-8", "surrogateescape"), quoted(text)}
    return tuple(sorted(found))


def quoted(text: str) -> bytes:
    """A text as it stands between the quotes of JSON."""
    return canonical([text]).strip(b"[]\n ")[1:-1]


def _clear_reflogs(repo: Repo, refs: Iterable[str]) -> None:
    """Empty the reflogs of our refs; those of refs that are gone, too."""
    common = repo.layout.common_dir
    if os.path.isdir(os.path.join(common, "reftable")):
        for ref in sorted(refs):
            repo.git.run("reflog", "expire", "--expire=all", "--expire-unreachable=all", ref)
        return
    for top in ("refs/baton", "refs/checkpoints", NOTES, *sorted(refs)):
        path = os.path.join(common, "logs", top)
        if os.path.isdir(path) and not os.path.islink(path):
            remove_folder(path)
        else:
            _removed([path])
    _removed(os.path.join(git_dir, "logs", CURRENT) for _, git_dir, _ in questions.worktrees(repo))


def _removed(paths: Iterable[str]) -> list[str]:
    """Remove files; of which that failed is said."""
    said = []
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            said.append(f"{in_quotes(path)} may hold their words and cannot be removed: {error.strerror}")
    return said


def _named_in(repo: Repo, place: str, made: Forgetting, needles: Sequence[bytes]) -> list[str]:
    """Records of ours in the git directory of a work tree: of restores that name them, of sessions that say their words."""
    ids = [oid.encode() for oid in made.all_ids] + [s.commit.encode() for s in made.parts]
    sessions = {s.checkpoint.agent.session for s in made.parts if s.checkpoint.agent}
    sessions |= {sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:40] for name in sessions if name}
    theirs = tuple(f"-{session}" for session in sessions if session)
    folder = os.path.join(place, "sessions")
    paths = [os.path.join(place, name) for name in _RECORDS] if has_folder(repo, place) else []
    paths += [os.path.join(folder, name) for name in (sorted(os.listdir(folder)) if has_folder(repo, folder) else ())]
    return [path for path in paths if os.path.basename(path).endswith(theirs) or holds(path, [*ids, *needles])]


def holds(path: str, needles: Iterable[bytes]) -> bool:
    """Whether a regular file holds any of some texts."""
    try:
        data = read_regular(path, _MAX_FILE)
    except OSError:
        return False
    return any(needle in data for needle in needles)


def _exported(baton: Baton, made: Forgetting, there: mirror.LatestPlace, root: str) -> Iterator[str]:
    ids = _shown(made.all_ids)
    try:
        names = [name for name in sorted(os.listdir(there.directory)) if _EXPORTED.match(name)]
    except OSError:
        return
    found = [name for name in names if holds(os.path.join(there.directory, name), ids)]
    if there.inside is not None and found:
        paths = {os.path.normpath(os.path.join(there.inside, name)): name for name in found}
        for path in questions.tracked(baton.repo, tuple(paths), root):
            found.remove(paths[path])
            yield f"{in_quotes(path)} is tracked by git and stays"
    yield from _removed(os.path.join(there.directory, name) for name in found)
    if there.inside is not None:  # a label is in the name of its file
        stamps = [f"{EXPORTED}{re.sub('[-:.]', '', timestamp(s.checkpoint.created))}_" for s in made.parts]
        yield from mirror.unignore(baton.repo, [os.path.normpath(os.path.join(there.inside, stamp)) for stamp in stamps])


def _shown(ids: Iterable[Oid]) -> list[bytes]:
    """How files of ours show that they hold one of some checkpoints; others only name it as the one before."""
    return [text for oid in ids for text in (f'"id": "{oid}"'.encode(), f"    id={oid}\n".encode())]


def latest_holding(baton: Baton, ids: Iterable[Oid]) -> list[str]:
    """The LATEST files of all work trees that still show one of some checkpoints."""
    needles, roots = _shown(ids), [root for _, _, root in questions.worktrees(baton.repo) if root]
    places = [place.directory for root in roots for place in removing.places(baton, root)]
    paths = [os.path.join(place, name) for place in dict.fromkeys(places) for name in mirror.NAMES]
    return [path for path in paths if holds(path, needles)]


@value
class Held:
    """Something of a forgotten checkpoint that is still reached: ``what`` it is, and ``by`` what, each for people; ``ids``: the
    checkpoints of tracks among these. ``repeated``: the words were said again. ``secret``: the scanner knows what it is."""

    what: str
    by: str
    ids: tuple[Oid, ...] = ()
    repeated: bool = False
    secret: bool = False

    @property
    def text(self) -> str:
        """The whole in a sentence."""
        if self.repeated:
            return f"{self.by} repeat{'' if len(self.ids) > 1 else 's'} {self.what}"
        return f"{self.what} is still in {self.by}"


@value
class Proof:
    """What of the forgotten checkpoints is still ``held``, and what is worth a line besides (``said``). ``unread``: what could
    not be looked at; then nothing is proven."""

    held: tuple[Held, ...] = ()
    said: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def prove(baton: Baton, made: Forgetting) -> Proof:
    """Walk everything that any ref, index or reflog reaches; what of the forgotten checkpoints is among it. Nothing held: they
    are gone from here once git has collected garbage. Where something cannot be read, nothing else is looked at either: who
    knows what it holds."""
    if made.broken:
        return Proof(unread=tuple(f"{in_quotes(ref)} cannot be read: {why}" for ref, why in sorted(made.broken.items())))
    try:
        reached = objectlists.everything(baton.repo)
        found = [*_records(baton, made, reached), *_noted(baton.store, made), *_branched(baton, made), *_repeated(baton, made)]
        found += [Held(what="the words", by=in_quotes(path)) for path in latest_holding(baton, made.all_ids)]
        files, said = _files(baton, made, reached)
    except (RecordError, GitError) as error:
        return Proof(unread=(error.message,))
    return Proof(held=tuple(dict.fromkeys([*found, *files])), said=tuple(said))


def _records(baton: Baton, made: Forgetting, reached: Mapping[Oid, bytes]) -> Iterator[Held]:
    """Their JSON: as a blob of its own, and in the message of any commit that is reached, by whatever parents it has."""
    for oid in sorted(made.all_ids & reached.keys()):
        for by in _holders(baton.repo, oid):
            yield Held(what=f"the record of checkpoint {baton.short(oid)}", by=by)
    lines = [row for s in made.parts for row in s.raw.split(b"\n") if row.startswith(b'  "created": ')]
    commits = _grepped(baton, ("--all", "--reflog", "-F"), (row.decode("ascii", "replace") for row in lines))
    for commit, oid, _ in _recorded(baton.store, commits):
        for by in _containing(baton.repo, commit) if oid in made.all_ids else ():
            yield Held(what=f"the commit of checkpoint {baton.short(oid)}", by=by)


def _recorded(store: Store, commits: Sequence[Oid]) -> Iterator[tuple[Oid, Oid, bytes]]:
    """Those of some commits whose message holds the JSON of a checkpoint, each with its id and that."""
    for commit, item in zip(commits, store.objects.read_many(commits), strict=True):
        try:
            raw = payload(item.data.partition(b"\n\n")[2]) if item is not None and item.data else b""
        except RecordError:
            continue
        if raw:
            yield commit, object_id(store.objects.algorithm, "blob", raw), raw


def _branched(baton: Baton, made: Forgetting) -> Iterator[Held]:
    """Commits that 'git baton branch' made of them, or that were made of such: their message has the words."""
    parts = {stored.id.encode(): stored for stored in made.parts}
    outside = (f"--exclude={NOTES}", "--exclude=refs/baton/*", "--all", "--reflog", "-F")
    rows = _grepped(baton, outside, [f"checkpoint {stored.id}" for stored in made.parts])
    for commit, item in zip(rows, baton.store.objects.read_many(rows), strict=True):
        message = item.data.partition(b"\n\n")[2] if item is not None and item.data else b""
        for oid in _NAMED.findall(message):
            stored = parts.get(oid)
            first = stored.checkpoint.step.split("\n")[0].encode() if stored else b""
            if stored and any(text and text in message for text in (first, *words([stored]))):
                for by in _containing(baton.repo, commit):
                    yield Held(what=f"words of checkpoint {baton.short(stored.id)}", by=by)


def _grepped(baton: Baton, options: Sequence[str], texts: Iterable[str]) -> list[Oid]:
    """The commits whose messages have any of some texts."""
    patterns = [f"--grep={text}" for text in sorted(set(texts))]
    raw = b""
    for start in range(0, len(patterns), _MANY):
        raw += baton.repo.git.out("rev-list", *options, *patterns[start : start + _MANY])
    return list(dict.fromkeys(raw.decode("ascii").split()))


def _notes(store: Store) -> Iterator[tuple[Oid, Note]]:
    """The notes, each with the commit that it is for."""
    tree = store.notes_tree()[1]
    rows = list(walk_notes(store.objects, tree)) if tree else []
    for (commit, _), item in zip(rows, store.objects.read_many([blob for _, blob in rows]), strict=True):
        if item is not None and item.data is not None:
            yield commit, parse_note(item.data)


def _noted(store: Store, made: Forgetting) -> Iterator[Held]:
    """Entries of theirs in the notes."""
    for commit, note in _notes(store):
        for oid in {oid for oid, _ in note.entries} & made.all_ids:
            yield Held(what=f"the note of checkpoint {oid}", by=f"the note of commit {commit} in '{NOTES}'")


def _repeated(baton: Baton, made: Forgetting) -> Iterator[Held]:
    """Checkpoints of any chain, here or fetched, and notes outside their entries, that hold a text of theirs word for word: one
    of those that were named; what an automatic one says of itself is none. Raises GitError."""
    texts: dict[tuple[str, str], bytes] = {}
    for c in (stored.checkpoint for stored in made.parts if stored.id in made.ids):
        step = c.headline if c.carried or c.kind == "manual" else ""
        rows = [("step", step), ("note", c.note), ("next_cmd", c.next_cmd)]
        rows += [*(("decision", text) for text in c.decisions), *(("extra", text) for _, text in c.extra)]
        texts |= {(name, text): quoted(text) for name, text in rows if len(text) >= _LEAST}
    if not texts:
        return
    commits: dict[Oid, None] = {}
    for ref, tip in own_refs(baton.store).items():
        fetched = ref.startswith(REMOTES) and ref.removeprefix(REMOTES).split("/")[1:2] == ["tracks"]
        if fetched or ref.startswith((CHAINS, SAFETY)):
            commits |= dict.fromkeys(baton.store.objects.first_parents(tip))
    found: dict[str, dict[Oid, None]] = {}
    for _, oid, raw in _recorded(baton.store, list(commits)):
        for name in [name for (name, _), text in texts.items() if text in raw]:
            found.setdefault(name, {})[oid] = None
    for name, ids in found.items():
        more = f" and {len(ids) - 1} other{'s' if len(ids) > 2 else ''}" if len(ids) > 1 else ""
        by = f"checkpoint {baton.short(next(iter(ids)))}{more}"
        yield Held(what=f"its {name}", by=by, ids=tuple(ids), repeated=True)
    for commit, note in _notes(baton.store):
        said = note.preamble
        for name in dict.fromkeys(name for name, text in texts if text.encode("utf-8", "surrogateescape") in said):
            yield Held(what=f"its {name}", by=f"the note of commit {commit} in '{NOTES}'", repeated=True)


def _files(baton: Baton, made: Forgetting, reached: Mapping[Oid, bytes]) -> tuple[list[Held], list[str]]:
    """The contents that their HEAD did not have and that something reaches, and what is worth a line. Those count that hold a
    secret the scanner knows, and those that a forgotten checkpoint brought in and that somebody outside its track holds, unless
    the user's own history does. Raises RecordError."""
    known = _secrets(baton, made.changed)
    said = _in_worktrees(baton, {oid: path for oid, path in made.changed.items() if oid in made.alone or oid in known})
    left = {oid: path for oid, path in made.changed.items() if oid in reached}
    if not left:
        return [], said
    tracks = {stored.checkpoint.track for stored in made.parts}
    holding = _holding(baton.store, left)
    users = objectlists.everything(baton.repo, ("refs/baton/*", f"{TIPS}*", NOTES), kept=False).keys() & left.keys()
    fetched = [f"{REMOTES}*/tracks/{encode_track(track)}" for track in sorted(tracks)]
    outside = objectlists.everything(baton.repo, (f"{CHAINS}*", f"{TIPS}*", f"{SAFETY}*", *fetched)).keys() & left.keys()
    first = min(stored.checkpoint.created for stored in made.parts)
    for oid, those in holding.items():  # what others held before it, it did not bring in
        dates = [stored.checkpoint.created for stored, _, track in those if track is not None and track not in tracks]
        if dates and min(dates) > first:
            outside = outside | {oid}
    counting = [oid for oid in left if oid in known or oid in (made.brought & outside) - users]
    counting.sort(key=lambda oid: (oid not in known, left[oid]))
    held = [_held(baton, oid, left[oid], holding.get(oid, []), known.get(oid)) for oid in counting[:_MOST]]
    if more := counting[_MOST:]:
        what, secret = f"{len(more)} more files", any(oid in known for oid in more)
        held.append(Held(what=what, by="checkpoints or refs", ids=_ids(more, holding), secret=secret))
    return held, [*said, *_advice(made, left.keys() - {*counting}, holding, users)]


def _secrets(baton: Baton, files: Iterable[Oid]) -> dict[Oid, str]:
    """Those of some blobs that hold a secret which the scanner cannot mistake, each with its kind."""
    find, limit = scanner(baton).find, baton.settings.max_file_size
    items = [item for item in objectlists.sizes(baton.repo.objects, baton.store.present(files)) if item.size <= limit]
    found = ((item.oid, find(text_of(data), sure=True)) for item, data in objectlists.contents(baton.repo.objects, items))
    return {oid: hits[0].kind for oid, hits in found if hits}


def _held(baton: Baton, oid: Oid, path: bytes, holding: list[Holder], kind: str | None) -> Held:
    refs = _holders(baton.repo, oid)
    refs = [ref for ref in refs if not ref.strip("'").startswith(PREFIXES) or ref.strip("'").startswith(REMOTES)]
    places = [*refs[:_FEW], *([f"{len(refs) - _FEW} more places"] if len(refs) > _FEW else [])]
    if len(holding) == 1:
        stored, place, _ = holding[0]
        places.append(f"checkpoint {baton.short(stored.id)} of {place}")
    elif holding:
        places.append(f"{len(holding)} checkpoints")
    what = f"the file {in_quotes(path.decode('utf-8', 'replace'))}" + (f" ({kind})" if kind else "")
    by = " and ".join(places) or "something that git reaches"
    return Held(what=what, by=by, ids=_ids([oid], {oid: holding}), secret=kind is not None)


def _ids(oids: Iterable[Oid], holding: Mapping[Oid, list[Holder]]) -> tuple[Oid, ...]:
    rows = (row for oid in oids for row in holding.get(oid, ()))
    return tuple(dict.fromkeys(stored.id for stored, _, track in rows if track is not None))


def _advice(made: Forgetting, rest: Iterable[Oid], holding: Mapping[Oid, list[Holder]], users: Iterable[Oid]) -> Iterator[str]:
    """What nobody has to act on."""
    rest = set(rest)
    ids = _ids(sorted(rest), holding)
    if ids:
        which = "1 other checkpoint" if len(ids) == 1 else f"{len(ids)} other checkpoints"
        yield f"its files are also in {which}; 'git baton scan --all --files' looks for secrets in them"
    own = len(rest.intersection(users) & made.brought)
    if own:
        yield f"{own} of its files {'is' if own == 1 else 'are'} also in the history of your own branches or tags"


def _holding(store: Store, files: Mapping[Oid, bytes]) -> dict[Oid, list[Holder]]:
    """The checkpoints, of any track or safety chain, that hold each of some blobs: captured, staged or beside."""
    tracks, refs = store.chains()[0], store.objects.refs(SAFETY)
    rows: list[Holder] = [(s, f"track {in_quotes(track)}", track) for track in tracks for s in store.history(track).items]
    rows += [(s, in_quotes(ref), None) for ref in refs for s in store.chain(ref, None).items]
    sieve, found = Sieve(store.objects, files.keys()), dict[Oid, list[Holder]]()
    for row in rows:
        for oid in dict.fromkeys(oid for tree in trees_of(store, row[0]) for _, oid in sieve.places(tree)):
            found.setdefault(oid, []).append(row)
    return found


def _in_worktrees(baton: Baton, files: Mapping[Oid, bytes]) -> list[str]:
    """Those of some files that still lie at their path in a work tree, in words, the first few."""
    names = {path: oid for oid, path in files.items() if b"\n" not in path}
    found: list[bytes] = []
    for _, git_dir, root in questions.worktrees(baton.repo):
        paths = {os.path.join(os.fsencode(root), path): path for path in names} if root else {}
        here = [path for full, path in paths.items() if os.path.isfile(full) and not os.path.islink(full)]
        git = baton.repo.git.changed({"GIT_DIR": git_dir, "GIT_WORK_TREE": root or ""}, directory=root or None)
        result = git.run("hash-object", "--stdin-paths", stdin=b"".join(p + b"\n" for p in here)) if here else None
        rows = result.out.decode("ascii", "replace").split() if result is not None and result.code == 0 else []
        found += [path for path, oid in zip(here, rows, strict=False) if names[path] == oid]
    shown = [plain(path.decode("utf-8", "replace")) for path in dict.fromkeys(found)]
    said = [f"{in_quotes(path)} in the work tree still holds it; the next snapshot takes it in again" for path in shown[:_MOST]]
    return said + ([f"and {len(shown) - _MOST} more in the work tree"] if len(shown) > _MOST else [])


def _holders(repo: Repo, oid: Oid) -> list[str]:
    """What reaches a blob, in words: the refs with a commit that brings or removes it, reflogs, indexes."""
    words = ("log", "--all", "--reflog", "-m", f"--find-object={oid}", "--format=%H")
    commits = repo.git.run("-c", "log.showSignature=false", *words).out.decode("ascii").split()
    found = [by for commit in dict.fromkeys(commits) for by in _containing(repo, commit)]
    direct = repo.git.out("for-each-ref", "--points-at", oid, "--format=%(refname)").decode("utf-8", "replace").split("\n")
    found += [in_quotes(ref) for ref in direct if ref]
    for prefix, git_dir, root in questions.worktrees(repo):
        env = {"GIT_DIR": git_dir, "GIT_INDEX_FILE": f"{git_dir}/index", **({"GIT_WORK_TREE": root} if root else {})}
        if oid.encode() in repo.git.run("ls-files", "-s", "-z", env=env).out:
            found.append(f"the index of '{root or prefix.rstrip('/')}'")
    return list(dict.fromkeys(found))


def _containing(repo: Repo, commit: Oid) -> list[str]:
    """The refs that reach a commit; a reflog where none does."""
    raw = repo.git.run("for-each-ref", "--contains", commit, "--format=%(refname)").out.decode("utf-8", "replace")
    return [in_quotes(ref) for ref in raw.split("\n") if ref] or [f"a reflog, or the HEAD of a work tree, by commit {commit}"]


def texts(baton: Baton, held: Sequence[Held], most: int = 20) -> list[str]:
    """What is still held, one line each, the first few, and how to forget all checkpoints that hold a secret."""
    rows = [row.text for row in held[:most]] + ([f"and {len(held) - most} more"] if len(held) > most else [])
    ids = dict.fromkeys(oid for row in held if row.secret for oid in row.ids)
    named = " ".join(baton.short(oid) for oid in ids)
    rows += [f"these hold a secret, too: git baton forget --everywhere {named}"] if ids else []
    again = dict.fromkeys(oid for row in held if row.repeated and row.what == "its decision" for oid in row.ids)
    if again:  # later words take over what stands, so its text is in each of them
        named = " ".join(baton.short(oid) for oid in [*again][:_FEW])
        rows.append("a decision stands until a snapshot ends it by --withdraw")
        rows.append(f"these repeat it: git baton forget --everywhere {named}" + (" ..." if len(again) > _FEW else ""))
    return rows


def unknown(made: Forgetting) -> list[str]:
    """Of what nobody can tell whether anything is left, in words."""
    known = {stored.id for stored in made.parts}
    return [
        f"what {oid[:10]} held is not known here any more: only its record and its notes were looked for"
        for oid in made.ids
        if oid not in known
    ]


def to_do(baton: Baton, made: Forgetting) -> list[str]:
    """What is left to do here and elsewhere, in words."""
    said, top = list[str](), baton.repo.objects_dir
    packs, alternates = os.path.join(top, "pack"), os.path.join(top, "info", "alternates")
    if made.everywhere and os.path.isdir(packs) and any(name.endswith(".keep") for name in os.listdir(packs)):
        said.append("git keeps all that lies in packs with a '.keep' file, whatever it collects")
    if made.everywhere and os.path.isfile(alternates) and os.path.getsize(alternates):
        said.append("git keeps all that lies in other object directories, which 'objects/info/alternates' names")
    said.append(
        "git removes the objects when it collects garbage after gc.pruneExpire (two weeks), or now by 'git gc --prune=now'"
    )
    for remote in map(plain, made.remotes):
        said.append(f"{in_quotes(remote)} has it: run 'git baton push {remote}' or 'git baton sync {remote}'")
    if made.remotes:
        said.append("a server keeps what no ref reaches until its own garbage collection; ask whoever runs it to collect now")
    said.append(f"other clones drop it at their next 'git baton sync'; what restores and exports left there {_AFTER}")
    return said
