"""The bench of a year: every verb in a repository as it looks after one, beside plain git, with peak memory.

``python -m tests.bench.year FOLDER`` builds it: ``repo`` and its linked work trees ``wt/01`` to ``wt/20``, and ``hub.git``.
``python -m tests.bench.year FOLDER COPY`` copies a built one, links and remotes with it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gitbaton.base.model import Checkpoint, Prompt
    from gitbaton.git.objects import Kind, NewObject

TRACKS, CHECKPOINTS, COMMITS, TALKS, RUNS, TREES = 300, 20_000, 5_000, 200, 50, 21
FOLDERS, FILES = 48, 25  # of the source: folders, and files in each
AUTHOR = b"Year <year@example.com>"
ONLY_FETCHED = 5  # every so many tracks one is only at the hub, as it was fetched
PLAN = "".join(f'[step.s{n}]\nrun = "true"\n' for n in range(4))
VERBS: tuple[tuple[str, Sequence[str]], ...] = (
    ("status", ()),
    ("status --json", ()),
    ("log", ()),
    ("log --all", ()),
    ("log --all -n 40", ()),
    ("log --all --graph -n 40", ()),
    ("log --graph", ()),
    ("log --all -S zebra -n 40", ()),
    ("log --all --grep zebra", ()),
    ("log --all --grep turn -n 40", ()),
    ("log --all -n 40 -- pkg07/mod03.py", ()),
    ("log --all -- pkg07/mod03.py", ()),
    ("blame pkg07/mod03.py", ("blame", "pkg07/mod03.py")),
    ("why pkg07/mod03.py:5", ()),
    ("resume", ()),
    ("resume --live", ()),
    ("verify", ()),
    ("diff", ("diff", "HEAD")),
    ("show", ("log", "-1", "-p")),
    ("tracks", ("for-each-ref", "refs/baton/tracks")),
    ("statusline", ()),
    ("search zebra", ()),
    ("summary", ()),
    ("restore {old} --dry-run", ()),
    ("run list", ()),
    ("run show", ()),
    ("du", ("count-objects", "-v")),
    ("doctor", ("fsck", "--connectivity-only")),
    ("transcript show", ()),
    ("scan", ()),
    ("scan --all", ("log", "--all", "-p")),
    ("scan --files --all", ()),
    ("export --history --checkpoint-dir {out}", ()),
    ("page -o {out}.html", ()),
    ("prune --dry-run --keep-last 20", ()),
    ("tracks delete nothing-of-that-name", ()),
    ("forget {old} --dry-run", ()),
)
WRITING: tuple[tuple[str, Sequence[str]], ...] = (
    ("snapshot step", ("stash", "create")),
    ("restore {old}", ()),
    ("undo", ()),
    ("pin {old}", ()),
    ("forget {old} --yes", ()),
    ("tracks delete {track} --yes", ()),
    ("prune --keep-last 20 --yes", ("gc",)),
    ("fetch", ("fetch", "hub")),
    ("push --yes", ("push", "hub")),
    ("sync --yes", ()),
)


@dataclass
class Line:
    """A track while the year goes by."""

    number: int
    branch: str
    places: list[str]  # the paths that its edits are in
    tree: dict[str, bytes] = field(default_factory=dict)  # path: content, what it changed since its head
    head: str = ""
    tip: str = ""
    ids: list[str] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)
    words: tuple[str, Checkpoint] | None = None
    turns: int = 0
    last_tree: str = ""
    changed: dict[str, bytes] = field(default_factory=dict)  # all that its branch changed
    main: bool = False
    asked: list[Prompt] = field(default_factory=list)
    decisions: list[str] = field(default_factory=list)
    stored: tuple[str, str] | None = None


class Objects:
    """New objects of the year, by id, and trees by what they hold."""

    def __init__(self) -> None:
        self.found: dict[str, NewObject] = {}

    def add(self, kind: Kind, data: bytes) -> str:
        """Keep an object; its id."""
        from gitbaton.git.objects import new_object

        made = new_object("sha1", kind, data)
        self.found.setdefault(made.oid, made)
        return made.oid

    def commit(self, tree: str, parents: Iterable[str], at: datetime, message: bytes) -> str:
        """Keep a commit; its id."""
        from gitbaton.git.objects import author_at, commit_data

        return self.add("commit", commit_data(tree=tree, parents=parents, author=author_at(AUTHOR, at), message=message))


class Source:
    """The files of a tree: for each folder its entries, changed in copies that share what is the same."""

    def __init__(self, objects: Objects, folders: dict[str, dict[bytes, bytes]], texts: dict[str, bytes]) -> None:
        self.objects, self.folders, self.texts = objects, folders, texts
        self.rows: dict[str, bytes] = {}
        self.oid = self._hash(folders)

    def changed(self, edits: dict[str, bytes]) -> Source:
        """A tree with other content at some paths."""
        folders, texts = dict(self.folders), {**self.texts, **edits}
        for path, data in edits.items():
            folder, _, name = path.partition("/")
            if folders[folder] is self.folders[folder]:
                folders[folder] = dict(folders[folder])
            folders[folder][name.encode()] = bytes.fromhex(self.objects.add("blob", data))
        made = Source.__new__(Source)
        made.objects, made.folders, made.texts, made.rows = self.objects, folders, texts, dict(self.rows)
        made.oid = made._hash({path.partition("/")[0]: folders[path.partition("/")[0]] for path in edits})
        return made

    def _hash(self, folders: dict[str, dict[bytes, bytes]]) -> str:
        for name, entries in folders.items():
            data = b"".join(b"100644 %s\0%s" % row for row in sorted(entries.items()))
            self.rows[name] = b"40000 %s\0%s" % (name.encode(), bytes.fromhex(self.objects.add("tree", data)))
        return self.objects.add("tree", b"".join(self.rows[name] for name in sorted(self.rows)))


def git(cwd: Path, *words: str, stdin: str | None = None) -> str:
    """The output of a git command that must succeed."""
    return subprocess.run(["git", *words], cwd=cwd, input=stdin, check=True, capture_output=True, text=True).stdout.strip()


def edited(text: bytes, chance: random.Random, number: int) -> bytes:
    """A text with one to three lines written anew, and now and then one more."""
    rows = text.splitlines(keepends=True)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(rows))
        rows[at] = b"    value_%d = compute(%d, '%s')\n" % (at, number, b"zebra" if number % 997 == 0 else b"plain")
    if number % 11 == 0:
        rows.insert(chance.randrange(len(rows)), b"    # added in round %d\n" % number)
    return b"".join(rows)


def amounts(chance: random.Random, count: int, total: int) -> list[int]:
    """So many numbers, a few of them large, that come to a total."""
    weights = [1 / (1 + n) ** 0.6 for n in range(count)]
    chance.shuffle(weights)
    found = [max(6, int(total * w / sum(weights))) for w in weights]
    found[0] += total - sum(found)
    return found


def build(folder: Path, scale: float = 1.0) -> None:
    """Build the repository of a year, or of a part of one, in an empty folder."""
    from gitbaton.base.codec import encode_track, entry, message
    from gitbaton.base.codec.notes import Note
    from gitbaton.checkpoints.baton import Baton
    from gitbaton.checkpoints.store import chain_ref, tip_ref
    from gitbaton.checkpoints.store.chain import root_objects
    from gitbaton.git.binary import BinaryObjects
    from gitbaton.git.objects import tree_objects

    tracks, checkpoints, commits = (max(TREES, int(n * scale)) for n in (TRACKS, CHECKPOINTS, COMMITS))
    talks = max(4, int(TALKS * scale))
    chance, objects = random.Random(39), Objects()
    end = datetime.now(UTC).replace(microsecond=0)
    begin = end - timedelta(days=365)
    repo = folder / "repo"
    repo.mkdir(parents=True)
    git(repo, "init", "-q", "-b", "main")
    texts = {
        f"pkg{d:02}/mod{n:02}.py": b"".join(b"line_%d = %d\n" % (at, d * n + at) for at in range(60))
        for d in range(FOLDERS)
        for n in range(FILES)
    }
    folders: dict[str, dict[bytes, bytes]] = {}
    for path, data in texts.items():
        name, _, file = path.partition("/")
        folders.setdefault(name, {})[file.encode()] = bytes.fromhex(objects.add("blob", data))
    main = Source(objects, folders, texts)
    main_head = objects.commit(main.oid, (), begin, b"begin\n")
    places = [(repo if n == 0 else folder / "wt" / f"{n:02}") for n in range(TREES)]
    met = [begin + timedelta(seconds=n, microseconds=100_000 + n) for n in range(TREES)]
    root = root_objects("sha1")
    objects.found |= {o.oid: o for o in root}

    lines, events = list[Line](), list[tuple[datetime, int, int]]()
    for number, many in enumerate(amounts(chance, tracks, checkpoints)):
        on_main, first = number % TREES == 0, chance.randrange(FOLDERS)
        paths = [f"pkg{(first + n % 2) % FOLDERS:02}/mod{chance.randrange(FILES):02}.py" for n in range(8)]
        line = Line(number, "main" if on_main else f"topic-{number:03}", paths, main=on_main, tip=root[-1].oid)
        lines.append(line)
        days = timedelta(days=25) * min(1.0, 12 / max(1, tracks - number)) if number > tracks - 12 else timedelta(days=25)
        start = begin + (end - begin - timedelta(days=26)) * number / tracks + timedelta(hours=chance.random() * 20)
        if number >= tracks - TREES:  # those of now
            start, days = end - timedelta(days=20), timedelta(days=20) - timedelta(hours=0.2 + 2 * (tracks - number))
        moments = [*sorted(chance.random() for _ in range(many - 1)), 1.0]
        events += [(start + days * at, number, n) for n, at in enumerate(moments)]
    events.sort()
    last = {number: n for _, number, n in events}
    every = (commits - tracks) / len(events)
    state: dict[int, Source] = {}
    notes: dict[str, Note] = {}
    tips: dict[int, tuple[str, str]] = {}
    behind: dict[int, str] = {}
    made_commits = 1
    heads: dict[str, str] = {}
    talk_refs: list[str] = []
    for count, (when, number, level) in enumerate(events):
        line = lines[number]
        at = when.replace(microsecond=chance.randrange(1_000_000))
        if level == 0 or line.main:
            if not line.main or level == 0:
                line.head = main_head
            line.head = main_head if line.main else line.head
            base = main if line.main or level == 0 else state[number]
        else:
            base = state[number]
        state[number] = base
        fresh: dict[str, bytes] = {}
        if count % 5:  # else nothing was edited
            for path in chance.sample(line.places, chance.randint(1, 3)):
                fresh[path] = edited(line.tree.get(path, base.texts[path]), chance, count)
        line.tree |= fresh
        captured = base.changed(line.tree) if line.tree else base
        raw, c = checkpoint(
            objects,
            line,
            level,
            at,
            base,
            captured,
            fresh,
            (places[number % TREES], met[number % TREES]),
            talk_refs if number < talks else None,
        )
        oid = objects.add("blob", raw)
        parents = [line.tip, line.head]
        line.tip = objects.commit(captured.oid, parents, at, message(c.step, raw))
        line.ids.append(oid)
        line.commits.append(line.tip)
        if c.kind == "manual":
            line.words, line.turns = (oid, c), 0
            notes[line.head] = notes.get(line.head, Note()).with_entry(oid, entry(oid, c))
        tips[number] = line.tip, oid
        if level == last[number] - 3:
            behind[number] = line.tip
        final = level == last[number]
        if (
            line.tree
            and not (final and number >= tracks - TREES)
            and (chance.random() < every * 1.25 or (final and not line.main))
        ):
            text = f"{line.branch}: change {len(line.tree)} files, round {count}\n".encode()
            line.changed |= line.tree
            line.head = objects.commit(captured.oid, [line.head], at + timedelta(seconds=20), text)
            made_commits += 1
            if line.main:
                main, main_head = captured, line.head
            state[number], line.tree = captured, {}
            heads[line.branch] = line.head
        if final and not line.main and number < tracks - TREES and line.changed:
            fate = number % 10
            if fate < 8:  # merged; or squashed
                main = main.changed(line.changed)
                above = [main_head, line.head] if fate < 7 else [main_head]
                main_head = objects.commit(main.oid, above, at + timedelta(minutes=5), f"take {line.branch}\n".encode())
                made_commits += 1
            if fate < 9:
                heads.pop(line.branch, None)  # it is deleted once it is taken, or given up with its commits on the hub
    while made_commits < commits:
        made_commits += 1
        path = chance.choice([*main.texts])
        main = main.changed({path: edited(main.texts[path], chance, made_commits)})
        main_head = objects.commit(main.oid, [main_head], end - timedelta(minutes=9), b"by hand: %d\n" % made_commits)
    heads["main"] = main_head

    refs = [f"update refs/heads/{name} {oid}" for name, oid in heads.items()]
    for line in lines:
        if line.branch not in heads:
            refs.append(f"update refs/remotes/hub/{line.branch} {line.head}")
    rows = []
    for commit, note in notes.items():
        rows.append((f"{commit[:2]}/{commit[2:]}", "100644", objects.add("blob", note.render())))
    for item in tree_objects("sha1", rows):
        objects.found[item.oid] = item
        top = item.oid
    refs.append(f"update refs/notes/checkpoints {objects.commit(top, (), end, b'notes')}")
    ours = repo / ".git" / "baton" / "ours" / "tracks"
    ours.mkdir(parents=True)
    (repo / ".git" / "baton" / "ours" / "runs").mkdir()
    for line in lines:
        name, (tip, oid) = f"track-{line.number:03}", tips[line.number]
        here, fetched = chain_ref(name), f"refs/baton/remotes/hub/tracks/{encode_track(name)}"
        if line.number % ONLY_FETCHED == 3:
            refs.append(f"update {fetched} {tip}")
            continue
        refs += [f"update {here} {tip}", f"update {tip_ref(name)} {oid}"]
        refs.append(f"update {fetched} {behind[line.number] if line.number >= tracks - TREES else tip}")
        (ours / encode_track(name)).write_text("gitbaton ours 1\n" + "".join(f"{one}\n" for one in line.ids))
    refs += talk_refs
    with Baton(repo, door="binary") as baton:
        assert isinstance(baton.repo.objects, BinaryObjects)
        baton.repo.objects.write_pack(objects.found.values())
    git(repo, "update-ref", "--stdin", stdin="".join(f"{row}\n" for row in refs))
    git(repo, "reset", "-q", "--hard")
    settle(folder, lines[-TREES:], places, met)
    keep_runs(repo, int(RUNS * scale))
    share(folder, repo)
    for place in (repo, folder / "hub.git"):
        git(place, "gc", "-q", "--prune=now")


def checkpoint(
    objects: Objects,
    line: Line,
    level: int,
    at: datetime,
    base: Source,
    captured: Source,
    fresh: dict[str, bytes],
    place: tuple[Path, datetime],
    refs: list[str] | None,
) -> tuple[bytes, Checkpoint]:
    """The canonical JSON of a track's next checkpoint, and its value. ``refs``: where those of its first conversation go,
    if it is kept."""
    from gitbaton.base.codec import encode
    from gitbaton.base.model import (
        Agent,
        Carried,
        Checkpoint,
        ClientPlan,
        FileState,
        IndexState,
        Observed,
        PlanItem,
        Prompt,
        TestRun,
        Turn,
        WorktreeId,
    )
    from gitbaton.base.values import replace

    number = line.number
    session = f"{number:08x}-0000-4000-8000-{level // 25:012x}"
    words = level % 12 == 0
    ends = not words and level % 4 != 2
    agent = Agent(name="claude", session=session)
    if level % 25 == 0:
        line.asked, line.stored = [], None
        if level == 0 and refs is not None:
            line.stored = talk(objects, session, at, refs)
    if line.stored:
        agent = Agent(name="claude", session=session, transcript=line.stored[0])
    if not words and not ends:
        line.asked = [*line.asked, Prompt(text=f"make part {level} of track {number} async, and keep the old tests", at=at)][
            -12:
        ]
    files = FileState(
        tree=captured.oid,
        index=IndexState(tree=base.oid),
        operation=None,
        changed=len(fresh),
        skipped=(),
        worktree=WorktreeId(path=str(place[0]), created=place[1]),
    )
    common = Checkpoint(
        track=f"track-{number:03}",
        step="-",
        branch=line.branch,
        head=line.head,
        created=at,
        files=files,
        previous=line.ids[-1] if line.ids else None,
    )
    if words:
        if level % 36 == 0:
            line.decisions = [*line.decisions, f"decision {level} of track {number}: keep the old API until 2.0"][-4:]
        c = replace(
            common,
            step=f"part {level // 12} of track {number} is done{' with a zebra' * (level % 600 == number % 7 == 0)}",
            note=f"a note on part {level // 12},\nof two lines",
            next_cmd="make test",
            validation="green" if level % 24 else "pending",
            decisions=tuple(line.decisions),
            label=f"milestone-{number}-{level}" if level % 120 == 60 else None,
        )
        return encode(c), c
    assert line.words is not None and (line.words[1].files is not None)
    oid, old = line.words
    tree = line.words[1].files.tree
    line.turns += ends
    tests = (
        TestRun(
            command="python -m pytest -q tests",
            result="passed" if level % 3 else "failed",
            passed=120 + level % 7,
            failed=0 if level % 3 else 2,
            names=() if level % 3 else ("tests/test_a.py::test_one", "tests/test_a.py::test_two"),
            started=at - timedelta(seconds=90),
            ended=at - timedelta(seconds=60),
            tree=line.last_tree or None,
        ),
    )
    items = tuple(
        PlanItem(text=f"step {n} of the plan for track {number}", state=("done", "doing", "open")[n % 3]) for n in range(6)
    )
    observed = Observed(
        plans=(ClientPlan(agent="claude", session=session, changed=at - timedelta(minutes=3), items=items),),
        tests=tests if line.last_tree else (),
        edited=tuple(fresh),
        asked=tuple(line.asked[-6:]),
        turns=max(1, len(line.asked)),
        said=line.stored[1] if line.stored else None,
        until=at - timedelta(seconds=1),
    )
    line.last_tree = captured.oid
    step = f"turn ended: {line.asked[-1].text if line.asked else 'go on'}" if ends else "before a prompt (auto)"
    c = replace(
        common,
        step=step,
        next_cmd=old.next_cmd,
        decisions=old.decisions,
        kind="auto",
        agent=agent,
        carried=Carried(
            id=oid, step=old.step, created=old.created, branch=old.branch, head=old.head, tree=tree, turns=line.turns
        ),
        observed=observed if ends else None,
        turn=Turn(began=line.ids[-1]) if ends else None,
    )
    return encode(c), c


def talk(objects: Objects, session: str, at: datetime, refs: list[str]) -> tuple[str, str]:
    """Keep a conversation and what was said in it; the position that a checkpoint names, and the blob of what was said."""
    from gitbaton.agents.transcripts import layout
    from gitbaton.base.codec.checkpoint import told_bytes
    from gitbaton.base.model import Prompt, Told, Transcript
    from gitbaton.git.objects import TreeEntry

    class Algorithm:
        algorithm = "sha1"

    def kept(name: str, lines: list[bytes], text: str) -> tuple[str, list[str], int]:
        blobs = [objects.add("blob", data) for data in layout.chunks(lines)]
        size = sum(map(len, lines))
        place = Transcript(size=size, lines=len(lines))
        entries = [TreeEntry(mode=b"100644", name=b"%08d" % n, oid=oid) for n, oid in enumerate(blobs)]
        made = layout.frame(Algorithm, entries, layout.meta(place, size, "claude", name))  # type: ignore[arg-type]
        objects.found |= {one.oid: one for one in made}
        commit = objects.commit(made[-1].oid, (), at, text.encode())
        refs.append(f"update {layout.transcript_ref('claude', name)} {commit}")
        return commit, blobs, size

    rows = []
    for n in range(80):
        kind = "user" if n % 8 == 0 else "assistant"
        text = f"line {n}: " + f"word{n} of the session {session} about parsers and tests. " * 12
        row = {"type": kind, "sessionId": session, "timestamp": at.isoformat(), "message": {"role": kind, "content": text}}
        rows.append(json.dumps(row).encode() + b"\n")
    commit, _, size = kept(session, rows, f"conversation of {len(rows)} lines\n")
    told = told_bytes(Told(asked=(Prompt(text="make it async", at=at),), said=Prompt(text="all is done\n- one\n- two", at=at)))
    _, blobs, _ = kept(layout.told_session(session), told.splitlines(keepends=True), "what was said\n")
    return f"bytes={size} lines={len(rows)} stored={commit}", blobs[0]


def settle(folder: Path, lines: list[Line], places: list[Path], met: list[datetime]) -> None:
    """Make the linked work trees, each with the newest track that was worked on there, and its files."""
    repo = places[0]
    for line in lines:
        at = line.number % TREES
        place = places[at]
        if at:
            words = [line.branch] if not line.main else ["--detach", "main"]
            git(repo, "worktree", "add", "-q", str(place), *words)
        git_dir = Path(git(place, "rev-parse", "--absolute-git-dir"))
        (git_dir / "baton").mkdir(exist_ok=True)
        mark = git_dir / "baton" / "worktree"
        mark.touch()
        moment = int(met[at].timestamp()) * 10**9 + met[at].microsecond * 1000
        os.utime(mark, ns=(moment, moment))
        if line.number % ONLY_FETCHED != 3:
            git(place, "symbolic-ref", "BATON_HEAD", f"refs/checkpoints/track-{line.number:03}")
        for path, data in line.tree.items():
            (place / path).write_bytes(data)


def keep_runs(repo: Path, count: int) -> None:
    """Run plans of four steps."""
    folder = repo.parent / "plans"
    folder.mkdir()

    def one(number: int) -> None:
        (folder / f"{number}.toml").write_text(PLAN)
        words = ("git-baton", "run", "--plan", str(folder / f"{number}.toml"), "--run", f"nightly-{number:02}")
        subprocess.run(words, cwd=repo, check=True, capture_output=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(one, range(count)))


def share(folder: Path, repo: Path) -> None:
    """Make the hub, which has all but what is newest in the work trees."""
    hub = folder / "hub.git"
    git(folder, "init", "-q", "--bare", "-b", "main", str(hub))
    git(hub, "fetch", "-q", str(repo), "refs/baton/remotes/hub/tracks/*:refs/baton/tracks/*", "refs/heads/*:refs/heads/*",
        "refs/notes/checkpoints:refs/notes/checkpoints", "refs/baton/transcripts/*:refs/baton/transcripts/*",
        "refs/baton/runs/*:refs/baton/runs/*", "refs/remotes/hub/*:refs/heads/*")  # fmt: skip
    git(repo, "remote", "add", "hub", str(hub))
    git(repo, "fetch", "-q", "hub")
    git(repo, "fetch", "-q", "hub", "+refs/baton/runs/*:refs/baton/remotes/hub/runs/*",
        "+refs/baton/transcripts/*:refs/baton/remotes/hub/transcripts/*",
        "+refs/notes/checkpoints:refs/baton/remotes/hub/notes")  # fmt: skip


def copied(source: Path, target: Path) -> Path:
    """Copy a built repository, with the links between its work trees and its remote."""
    subprocess.run(["cp", "-a", str(source.resolve()), str(target)], check=True)
    old, new = str(source.resolve()), str(target.resolve())
    for path in [*target.glob("repo/.git/worktrees/*/gitdir"), *target.glob("wt/*/.git"), target / "repo" / ".git" / "config"]:
        path.write_text(path.read_text().replace(f"{old}/", f"{new}/"))
    return target


SPAWN = """
import os, sys, time
start = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, used = os.wait4(pid, 0)
spent = time.perf_counter() - start
print(spent, used.ru_utime + used.ru_stime, used.ru_maxrss // 1024, os.waitstatus_to_exitcode(status))
"""


def measured(words: Sequence[str], cwd: Path, env: dict[str, str]) -> tuple[float, float, int, int]:
    """Seconds, processor seconds, MiB of the largest process, and exit status of a command; started by a small process, since
    the memory of who starts one counts for it."""
    program = shutil.which(words[0], path=env["PATH"])
    with open(os.devnull, "wb") as null:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", SPAWN, str(program), *words[1:]],
            cwd=cwd,
            env=env,
            stdout=subprocess.PIPE,
            stderr=null,
        )
    spent, used, most, code = done.stdout.split()[-4:]
    return float(spent), float(used), int(most), int(code)


def main(folder: Path, env: dict[str, str], runs: int, only: str = "") -> Iterator[str]:
    """The table, line by line, as each is measured."""
    year = folder / "year"
    if not year.exists():
        subprocess.run([sys.executable, "-m", "tests.bench.year", str(year)], env=env, check=True)
    repo = year / "repo"
    words = ("git-baton", "log", "--porcelain", "-n", "60")
    listed = subprocess.run(words, cwd=repo, env=env, check=True, capture_output=True, text=True).stdout
    old = listed.splitlines()[-1].split("\t")[0]
    said = {"old": old, "out": str(folder / f"out{time.time_ns()}"), "track": "track-100"}
    yield "| verb | s | cpu s | MiB | exit | plain git | s |"
    yield "|---|---:|---:|---:|---:|---|---:|"
    for writes, verbs in ((False, VERBS), (True, WRITING)):
        for text, plain in verbs:
            if only and only not in text:
                continue
            best: tuple[float, float, int, int] | None = None
            for _ in range(1 if writes else runs):
                cwd = copied(year, folder / f"copy{time.time_ns()}") / "repo" if writes else repo
                one = measured(["git-baton", *(word.format(**said) for word in text.split())], cwd, env)
                best = one if best is None or one < best else best
                if writes:
                    theirs = measured(["git", *plain], cwd, env)[0] if plain else None
                    shutil.rmtree(cwd.parent)
                else:
                    theirs = measured(["git", *plain], repo, env)[0] if plain else None
            assert best is not None
            beside = f"git {' '.join(plain)} | {theirs:.2f}" if theirs is not None else "|"
            yield f"| {text} | {best[0]:.2f} | {best[1]:.2f} | {best[2]} | {best[3]} | {beside} |"


if __name__ == "__main__":
    if len(sys.argv) == 3:
        copied(Path(sys.argv[1]), Path(sys.argv[2]))
    else:
        build(Path(sys.argv[1]), float(os.environ.get("YEAR", "1")))
