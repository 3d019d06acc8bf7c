"""Traces of forgotten checkpoints besides objects, erased; and the proof of what refs, indexes and files still hold."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256

from gitbaton.agents.transcripts import files
from gitbaton.base.codec import canonical, encode_track, in_quotes, parse_note, payload, plain, timestamp
from gitbaton.base.errors import GitError, RecordError
from gitbaton.base.model import Oid, Stored
from gitbaton.base.system.files import read_or_none, remove_folder
from gitbaton.base.values import value
from gitbaton.care.retention import removing
from gitbaton.care.retention.forgetting import Forgetting, found_in_worktrees
from gitbaton.care.scanning.objects import holding, scanner, text_of
from gitbaton.checkpoints import mirror
from gitbaton.checkpoints.baton import Baton
from gitbaton.checkpoints.mirror import EXPORTED
from gitbaton.checkpoints.store import CHAINS, CURRENT, NOTES, SAFETY, TIPS, Store
from gitbaton.checkpoints.store.read import is_ours, own_refs
from gitbaton.checkpoints.store.refs import REMOTES
from gitbaton.git import objectlists, questions
from gitbaton.git.objects import object_id, walk_notes
from gitbaton.git.repo import Repo, has_folder

_EXPORTED = re.compile(rf"{EXPORTED}.+\.(?:md|json)\Z", re.DOTALL)
_LOGS = ("log", "log.old")
_RECORDS = ("restore", "restore.bad", "restore.new", "LATEST.md.new", "LATEST.json.new")
_MAX_FILE = 64 << 20
_SHORTEST = 6  # letters of a word of theirs that is looked for
_FEW = 3
_MOST = 10
_LEAST = 12  # characters: what is shorter is said by chance
_MANY = 100
_MOST_OF_TEXT = 500  # characters of a text that git is asked for
_AFTER = "goes by 'git baton forget --everywhere ID', with the full id, after it"
_NAMED = re.compile(rb"^checkpoint ([0-9a-f]{40,64})$", re.MULTILINE)


def erase(baton: Baton, made: Forgetting) -> list[str]:
    """Remove what may hold their words, in every work tree; what could not be is said. Raises nothing of the disk's."""
    _clear_reflogs(baton.repo, {*own_refs(baton.store), *made.seen})
    # A digest of a text of which only a password is unknown gives it away.
    known = [talk.ref for talk in made.conversations if not files.is_forgotten(baton.repo, talk.ref)]
    said = _removed(files.digest_path(baton.repo, ref) for ref in known)
    said += _removed(os.path.join(baton.repo.shared_dir, name) for name in _LOGS)  # whatever a hook could not do, it said there
    needles = words(made.parts)
    for _, git_dir, root in questions.worktrees(baton.repo):
        said += _removed(_named_in(baton.repo, os.path.join(git_dir, "baton"), made, needles))
        for there in removing.places(baton, root) if root else ():
            said += _exported(baton, made, there, root)
    return [*said, *removing.refresh(baton)]


def words(parts: Iterable[Stored]) -> tuple[bytes, ...]:
    """Return the texts of checkpoints line by line, plain and as JSON writes them; short ones are left out."""
    found: set[bytes] = set()
    for stored in parts:
        c = stored.checkpoint
        texts = [c.step, c.note, c.next_cmd, *c.decisions, c.label or "", *(text for _, text in c.extra)]
        texts += [c.carried.step] if c.carried else []
        texts += [c.imported.prompt, c.imported.said] if c.imported else []
        for text in (line.strip() for whole in texts for line in whole.split("\n")):
            if len(text) >= _SHORTEST:
                found |= {text.encode("utf-8", "surrogateescape"), quoted(text)}
    return tuple(sorted(found))


def quoted(text: str) -> bytes:
    """Return a text as it stands between the quotes of JSON."""
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
    """Remove files; return a warning for each that stays."""
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
    """Return the records of ours in the git directory of a work tree: of restores that name them, of sessions that say their
    words."""
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
    data = read_or_none(path, _MAX_FILE) or b""
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
    """Return the texts by which a file of ours shows one of some checkpoints; others only name it as the one before."""
    return [text for oid in ids for text in (f'"id": "{oid}"'.encode(), f"    id={oid}\n".encode())]


def latest_holding(baton: Baton, ids: Iterable[Oid]) -> list[str]:
    """Return the LATEST files of all work trees that still show one of some checkpoints."""
    needles, roots = _shown(ids), [root for _, _, root in questions.worktrees(baton.repo) if root]
    places = [place.directory for root in roots for place in removing.places(baton, root)]
    paths = [os.path.join(place, name) for place in dict.fromkeys(places) for name in mirror.NAMES]
    return [path for path in paths if holds(path, needles)]


@value
class Remnant:
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
class ForgetProof:
    """Result of looking for forgotten checkpoints: what is still ``held``, and what is worth a line besides (``said``).
    ``unread``: what could not be looked at; then nothing is proven."""

    held: tuple[Remnant, ...] = ()
    said: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


def prove(baton: Baton, made: Forgetting) -> ForgetProof:
    """Walk everything that any ref, index or reflog reaches, and return what of the forgotten checkpoints is among it. Nothing
    held: they are gone from here once git has collected garbage. What cannot be read proves nothing."""
    if made.broken:
        return ForgetProof(unread=tuple(f"{in_quotes(ref)} cannot be read: {why}" for ref, why in sorted(made.broken.items())))
    try:
        reached = objectlists.everything(baton.repo)
        found = [
            Remnant(what=f"the record of checkpoint {baton.short(oid)}", by=by)
            for oid in sorted(made.all_ids & reached.keys())
            for by in _holders(baton.repo, oid)
        ]
        found += [*_in_messages(baton, made), *_in_notes(baton.store, made)]
        found += [Remnant(what="the words", by=in_quotes(path)) for path in latest_holding(baton, made.all_ids)]
        files, said = _files(baton, made, reached)
    except (RecordError, GitError) as error:
        return ForgetProof(unread=(error.message,))
    return ForgetProof(held=tuple(dict.fromkeys([*found, *files])), said=tuple(said))


def _named_texts(made: Forgetting) -> dict[tuple[str, str], None]:
    """Return each field of the checkpoints that were named with its text; what an automatic one says of itself is none."""
    found: dict[tuple[str, str], None] = {}
    for c in (stored.checkpoint for stored in made.parts if stored.id in made.ids):
        rows = (
            ("step", c.headline if c.carried or c.kind == "manual" else ""),
            ("note", c.note),
            ("next_cmd", c.next_cmd),
            *(("decision", text) for text in c.decisions),
            *(("extra", text) for _, text in c.extra),
        )
        found |= {(name, text): None for name, text in rows if len(text) >= _LEAST}
    asked = (one.text for oid in made.ids for one in made.prompts.get(oid, ()))
    found |= {("prompt", text): None for text in asked if len(text) >= _LEAST}
    return found


def _in_messages(baton: Baton, made: Forgetting) -> Iterator[Remnant]:
    """Yield what the messages of all reached commits hold: the JSON of one of the checkpoints, its words beside its id, as
    'git baton branch' writes them, and checkpoints that repeat a text. Raises GitError."""
    algorithm, parts = baton.store.objects.algorithm, {stored.id.encode(): stored for stored in made.parts}
    texts = [(name, quoted(text)) for name, text in _named_texts(made)]
    rows = [row for s in made.parts for row in s.raw.split(b"\n") if row.startswith(b'  "created": ')]
    rows += [b"checkpoint " + oid for oid in parts]
    asked = {row.decode("utf-8", "surrogateescape")[:_MOST_OF_TEXT] for row in (*rows, *(text for _, text in texts))}
    repeated: dict[str, dict[Oid, None]] = {}
    commits = list(_grepped(baton, sorted(asked)))
    for commit, item in zip(commits, baton.store.objects.read_many(commits), strict=True):
        said = item.data.partition(b"\n\n")[2] if item is not None and item.data else b""
        try:
            raw = payload(said)
        except RecordError:
            raw = b""
        oid, held = object_id(algorithm, "blob", raw) if raw else "", list[str]()
        if oid in made.all_ids:
            held = [f"the commit of checkpoint {baton.short(oid)}"]
        elif not raw:
            rest = _NAMED.sub(b"", said)
            for stored in (parts[one] for one in dict.fromkeys(_NAMED.findall(said)) if one in parts):
                first = stored.checkpoint.step.partition("\n")[0].encode("utf-8", "surrogateescape")  # short, it is no word
                saying = any(text and text in rest for text in (first, *words([stored])))
                held += [f"words of checkpoint {baton.short(stored.id)}"] if saying else []
        for name, text in texts if raw and not held else ():
            if text in raw:
                repeated.setdefault(name, {})[oid] = None
        for by in _containing(baton.repo, commit) if held else ():
            yield from (Remnant(what=what, by=by) for what in held)
    for name, ids in repeated.items():
        more = f" and {len(ids) - 1} other{'s' if len(ids) > 2 else ''}" if len(ids) > 1 else ""
        yield Remnant(what=f"its {name}", by=f"checkpoint {baton.short(next(iter(ids)))}{more}", ids=tuple(ids), repeated=True)


def _grepped(baton: Baton, texts: Sequence[str]) -> dict[Oid, None]:
    """Return the commits that any ref or reflog reaches and that have any of some texts in their message."""
    found: dict[Oid, None] = {}
    for start in range(0, len(texts), _MANY):
        patterns = [f"--grep={text}" for text in texts[start : start + _MANY]]
        raw = baton.repo.git.out("-c", "i18n.logOutputEncoding=UTF-8", "rev-list", "--all", "--reflog", "-F", *patterns)
        found |= dict.fromkeys(raw.decode("ascii").split())
    return found


def _in_notes(store: Store, made: Forgetting) -> Iterator[Remnant]:
    """Yield the notes that have an entry of theirs, or repeat a text outside of entries."""
    tree, texts = store.notes_tree()[1], _named_texts(made)
    rows = list(walk_notes(store.objects, tree)) if tree else []
    for (commit, _), item in zip(rows, store.objects.read_many([blob for _, blob in rows]), strict=True):
        note = parse_note(item.data if item is not None and item.data is not None else b"")
        by = f"the note of commit {commit} in '{NOTES}'"
        for oid in {oid for oid, _ in note.entries} & made.all_ids:
            yield Remnant(what=f"the note of checkpoint {oid}", by=by)
        for name in {name: None for name, text in texts if text.encode("utf-8", "surrogateescape") in note.preamble}:
            yield Remnant(what=f"its {name}", by=by, repeated=True)


def _files(baton: Baton, made: Forgetting, reached: Mapping[Oid, bytes]) -> tuple[list[Remnant], list[str]]:
    """Return the files, not in their HEAD, that something still reaches, and what is worth a line. A file counts that holds a
    secret the scanner knows, or that a forgotten checkpoint brought in and that something outside its track holds, but for the
    user's own history. Raises RecordError."""
    known = _secrets(baton, made.changed)
    there = found_in_worktrees(baton, {oid: path for oid, path in made.changed.items() if oid in made.alone or oid in known})
    shown = [plain(path.decode("utf-8", "replace")) for path in dict.fromkeys(there.values())]
    said = [f"{in_quotes(path)} in the work tree still holds it; the next snapshot takes it in again" for path in shown[:_MOST]]
    said += [f"and {len(shown) - _MOST} more in the work tree"] if len(shown) > _MOST else []
    left = {oid: path for oid, path in made.changed.items() if oid in reached}
    if not left:
        return [], said
    gone = [s.checkpoint for s in (made.parts or made.cleared)]
    tracks, first = {c.track for c in gone}, min(c.created for c in gone)
    items = [
        *(stored for track in baton.store.chains()[0] for stored in baton.store.history(track).items),
        *(stored for ref in baton.store.objects.refs(SAFETY) for stored in baton.store.chain(ref, None).items),
    ]
    holders = holding(baton.store, items, left.keys())
    users = objectlists.everything(baton.repo, ("refs/baton/*", f"{TIPS}*", NOTES), kept=False).keys() & left.keys()
    fetched = [f"{REMOTES}*/tracks/{encode_track(track)}" for track in sorted(tracks)]
    outside = {*objectlists.everything(baton.repo, (f"{CHAINS}*", f"{TIPS}*", f"{SAFETY}*", *fetched))}
    for oid, those in holders.items():  # what another track held before it, it did not bring in
        dates = [s.checkpoint.created for s in those if s.checkpoint.kind != "safety" and s.checkpoint.track not in tracks]
        outside |= {oid} if min(dates, default=first) > first else set()

    def ids(oids: Iterable[Oid]) -> tuple[Oid, ...]:
        rows = (s for oid in oids for s in holders.get(oid, ()))
        return tuple(dict.fromkeys(s.id for s in rows if s.checkpoint.kind != "safety"))

    counting = [oid for oid in left if oid in known or oid in (made.brought & outside) - users]
    counting.sort(key=lambda oid: (oid not in known, left[oid]))
    held = []
    for oid in counting[:_MOST]:
        by = " and ".join(_places(baton, oid, holders.get(oid, []))) or "something that git reaches"
        kind = f" ({known[oid]})" if oid in known else ""
        what = f"the file {in_quotes(left[oid].decode('utf-8', 'replace'))}{kind}"
        held.append(Remnant(what=what, by=by, ids=ids([oid]), secret=oid in known))
    if more := counting[_MOST:]:
        secret = any(oid in known for oid in more)
        held.append(Remnant(what=f"{len(more)} more files", by="checkpoints or refs", ids=ids(more), secret=secret))
    rest = sorted(left.keys() - {*counting})
    if others := len(ids(rest)):
        which = "1 other checkpoint" if others == 1 else f"{others} other checkpoints"
        said.append(f"its files are also in {which}; 'git baton scan --all --files' looks for secrets in them")
    if own := len({*rest} & users & made.brought):
        said.append(f"{own} of its files {'is' if own == 1 else 'are'} also in the history of your own branches or tags")
    return held, said


def _secrets(baton: Baton, files: Iterable[Oid]) -> dict[Oid, str]:
    """Return those of some blobs that hold a secret which the scanner cannot mistake, each with its kind."""
    find, limit = scanner(baton).find, baton.settings.max_file_size
    items = [item for item in objectlists.sizes(baton.repo.objects, baton.store.present(files)) if item.size <= limit]
    found = ((item.oid, find(text_of(data), sure=True)) for item, data in objectlists.contents(baton.repo.objects, items))
    return {oid: hits[0].kind for oid, hits in found if hits}


def _places(baton: Baton, oid: Oid, holders: Sequence[Stored]) -> list[str]:
    """Return what holds a file, in words: refs that are no checkpoints of ours, the first few, and the checkpoints."""
    refs = [ref for ref in _holders(baton.repo, oid) if not is_ours(ref.strip("'")) or ref.strip("'").startswith(REMOTES)]
    found = [*refs[:_FEW], *([f"{len(refs) - _FEW} more places"] if len(refs) > _FEW else [])]
    if len(holders) == 1:
        c = holders[0].checkpoint
        of = "of a work tree before a restore" if c.kind == "safety" else f"of track {in_quotes(c.track)}"
        found.append(f"checkpoint {baton.short(holders[0].id)} {of}")
    return found + ([f"{len(holders)} checkpoints"] if len(holders) > 1 else [])


def _holders(repo: Repo, oid: Oid) -> list[str]:
    """Return what reaches a blob, in words: the refs with a commit that brings or removes it, reflogs, indexes."""
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
    """Return the refs that reach a commit; a reflog where none does."""
    raw = repo.git.run("for-each-ref", "--contains", commit, "--format=%(refname)").out.decode("utf-8", "replace")
    return [in_quotes(ref) for ref in raw.split("\n") if ref] or [f"a reflog, or the HEAD of a work tree, by commit {commit}"]


def texts(baton: Baton, held: Sequence[Remnant], most: int = 20) -> list[str]:
    """Return what is still held, one line each, the first few, and how to forget all checkpoints that hold a secret."""
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
    """Return, in words, the checkpoints of which it is unknown whether anything is left."""
    known = {stored.id for stored in made.parts}
    return [
        f"what {oid[:10]} held is not known here any more: only its record and its notes were looked for"
        for oid in made.ids
        if oid not in known
    ]


def to_do(baton: Baton, made: Forgetting) -> list[str]:
    """Return what is left to do here and elsewhere, in words."""
    said, top = list[str](), baton.repo.objects_dir
    packs, alternates = os.path.join(top, "pack"), os.path.join(top, "info", "alternates")
    if made.everywhere and os.path.isdir(packs) and any(name.endswith(".keep") for name in os.listdir(packs)):
        said.append("git keeps all that lies in packs with a '.keep' file, whatever it collects")
    if made.everywhere and os.path.isfile(alternates) and os.path.getsize(alternates):
        said.append("git keeps all that lies in other object directories, which 'objects/info/alternates' names")
    now = "which it does not before what is damaged is mended" if made.broken else "or now by 'git gc --prune=now'"
    said.append(f"git removes the objects when it collects garbage after gc.pruneExpire (two weeks), {now}")
    for remote in map(plain, made.remotes):
        said.append(f"{in_quotes(remote)} has it: run 'git baton push {remote}' or 'git baton sync {remote}'")
    if made.remotes:
        said.append("a server keeps what no ref reaches until its own garbage collection; ask whoever runs it to collect now")
    said.append(f"other clones drop it at their next 'git baton sync'; what restores and exports left there {_AFTER}")
    return said
