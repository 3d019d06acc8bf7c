"""Scanning: secrets in what is stored or about to be sent are found where they stand, and never shown."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from gitbaton import Baton
from gitbaton.agents.transcripts.layout import frame
from gitbaton.base.codec import canonical, encode, message
from gitbaton.base.errors import GitError
from gitbaton.base.model import Agent, Carried, Checkpoint
from gitbaton.base.values import replace
from gitbaton.care.scanning import NOT_SCANNED, Hit, lacking, scan
from gitbaton.care.scanning.objects import readable, scanner
from gitbaton.checkpoints.store import chain_ref
from gitbaton.checkpoints.store.chain import root_objects
from gitbaton.checkpoints.store.refs import TRANSCRIPTS, remote_ref
from gitbaton.cli.commands.finding import hit_place
from gitbaton.git.objectlists import contents
from gitbaton.git.objects import LARGEST, Object, Objects, RefChange, TreeEntry, commit_data, new_object
from tests.kit import Sandbox, integer_clock
from tests.kit.repos import SOME_TIME

KEY = "AKIA" + "QX3VT5MNLRJ7WZ2D"
OTHER = "AKIA" + "Z7PLMW4KQRT2NXV5"
PASSWORD = "tr0ub4dor-and-3-more"
FIELDS: dict[str, dict[str, object]] = {
    "step": {"step": f"used {KEY}"},
    "note": {"note": f"first line\nexport K={KEY}\n"},
    "next_cmd": {"next_cmd": f"deploy {KEY} now"},
    "decision": {"decisions": ("harmless", f"because of {KEY}")},
    "label": {"label": f"l {KEY}"},
    "extra.deploy": {"extra": (("deploy", KEY),)},
    "carried.step": {
        "carried": Carried(id="a" * 40, step=f"carried {KEY}", created=SOME_TIME, branch=None, head=None, tree=None)
    },
    "agent": {"agent": Agent(name="claude", session=KEY)},
    "branch": {"branch": f"topic/{KEY}"},
}


def record(number: int, **words: object) -> Checkpoint:
    created = SOME_TIME + timedelta(seconds=number)
    return Checkpoint(**{"track": "t", "step": f"step {number}", "created": created, **words})  # type: ignore[arg-type]


def put(baton: Baton, *checkpoints: Checkpoint, track: str = "t", base: str | None = None) -> list[str]:
    """Chain commits as a gitbaton without redaction wrote them; the checkpoints' ids."""
    algorithm, objects = baton.repo.layout.algorithm, baton.store.objects
    at = objects.info(chain_ref(track))
    if at is None:
        objects.write(root_objects(baton.repo.layout.algorithm))
    old, tip, ids = at.oid if at else None, at.oid if at else baton.store.root, []
    tree = baton.store.tree_of(base) or new_object(algorithm, "tree", b"").oid
    for checkpoint in checkpoints:
        raw = encode(checkpoint)
        parents = (tip, base) if base else (tip,)
        author = b"A U Thor <a@example.com> %d +0000" % int(checkpoint.created.timestamp())
        data = commit_data(tree=tree, parents=parents, author=author, message=message(checkpoint.step, raw))
        commit = new_object(algorithm, "commit", data)
        objects.write([commit])
        tip = commit.oid
        ids.append(new_object(algorithm, "blob", raw).oid)
    objects.update([RefChange(name=chain_ref(track), new=tip, old=old)])
    return ids


@pytest.fixture
def baton(repo: Sandbox) -> Iterator[Baton]:
    repo.git("config", "baton.redact", "off")  # as checkpoints were stored before there was redaction
    repo.git("config", "baton.transcripts", "off")
    with repo.open(clock=integer_clock(), door="binary") as opened:
        yield opened


def brief(hits: tuple[Hit, ...]) -> list[tuple[str | None, str, str]]:
    return [(h.checkpoint, h.where, h.kind) for h in hits]


def test_every_word_of_a_checkpoint(baton: Baton, repo: Sandbox) -> None:
    put(baton, record(0, note="harmless " + "0123456789abcdef" * 4, extra=(("head", "a" * 40),)))
    assert not scan(baton).hits
    names = list(FIELDS)
    ids = put(baton, *(record(n + 1, **FIELDS[name]) for n, name in enumerate(names)))
    found = scan(baton, ["t"])
    assert {(h.checkpoint, h.path) for h in found.hits} == set(zip(ids, names, strict=True)) and found.checkpoints == 10
    assert all((h.line, h.kind, h.shown) == (0, "aws-key", "AKIA…") for h in found.hits)
    chain = repo.git("rev-list", "--first-parent", chain_ref("t")).split()
    assert [h.commit for h in found.hits] == chain[: len(names)]  # the newest first
    assert {h.checkpoint for h in lacking(baton, [chain[0]])} == set(ids)
    assert lacking(baton, [chain[0]], [chain[1]]) == found.hits[:1]


def test_a_password_is_found_in_words_and_not_shown(baton: Baton) -> None:
    ids = put(baton, record(0, note=f"password={PASSWORD}"), record(1, extra=(("password", PASSWORD),)))
    hits = scan(baton).hits
    assert [(h.checkpoint, h.path, h.shown) for h in reversed(hits)] == [(ids[0], "note", ""), (ids[1], "extra.password", "")]


def test_what_stands_beside_the_json(baton: Baton) -> None:
    """A later paragraph, a key that nobody knows, a message that is no record: what is pushed is looked at."""
    objects = baton.store.objects
    put(baton, record(0))
    below = objects.info(chain_ref("t"))
    assert below is not None
    texts = [
        message("x", encode(record(1))) + f"\nReserved: {KEY}\n".encode(),
        message("x", encode(record(2)).replace(b"\n}\n", f',\n  "later": [{{"k": "{KEY}"}}]\n}}\n'.encode())),
        message(f"{KEY}", encode(record(3))),
        f"mine\n\n{KEY}\n".encode(),
    ]
    for text in texts:
        data = commit_data(
            tree=baton.store.base_tree(objects.head().oid), parents=(below.oid,), author=b"A <a> 1 +0000", message=text
        )
        made = new_object(baton.repo.layout.algorithm, "commit", data)
        objects.write([made])
        (hit,) = lacking(baton, [made.oid], [below.oid])
        assert (hit.commit, hit.path) == (made.oid, "later" if b"later" in text else "message")
        assert (hit.checkpoint is None) == text.startswith(b"mine")


@pytest.mark.deep
def test_a_file_is_named_with_the_checkpoint_that_brought_it_in(baton: Baton, repo: Sandbox) -> None:
    repo.write("a.txt", f"two\n\nkey = {KEY}\n")
    first = baton.snapshot("one", track="t").stored
    repo.write("b.txt", "more\n")
    baton.snapshot("two", track="t")
    repo.write("sub/naïve name", f"{OTHER}\n{KEY}\n")
    third = baton.snapshot("three", track="t").stored
    repo.git("checkout", "-q", "--", "a.txt")
    tip = baton.snapshot("four", track="t").stored
    assert not scan(baton).hits
    expected = [
        (first.id, "a.txt:3", "aws-key"),
        (third.id, "sub/naïve name:1", "aws-key"),
        (third.id, "sub/naïve name:2", "aws-key"),
    ]
    assert sorted(brief(scan(baton, files=True).hits), key=lambda h: h[1]) == expected
    assert brief(lacking(baton, [tip.commit], [third.commit])) == []
    assert brief(lacking(baton, [tip.commit], [first.commit])) == expected[1:]
    assert {h.commit for h in scan(baton, files=True).hits} == {first.commit, third.commit}
    assert brief(scan(baton, [third.id[:8]], files=True).hits)[:1] == [(third.id, "a.txt:3", "aws-key")]
    assert not scan(baton, [third.id[:8]]).hits


@pytest.mark.deep
def test_what_is_staged_belongs_to_its_checkpoint(baton: Baton, repo: Sandbox) -> None:
    repo.write("a.txt", f"{KEY}\n")
    repo.git("add", "a.txt")
    repo.write("a.txt", "one\n")
    stored = baton.snapshot("one", track="t").stored
    assert stored.base != repo.head()
    for found in (scan(baton, files=True).hits, scan(baton, [stored.id], files=True).hits):
        assert brief(found) == [(stored.id, "a.txt:1", "aws-key")]


@pytest.mark.deep
def test_what_the_other_side_has_does_not_count(baton: Baton, repo: Sandbox) -> None:
    published = repo.commit("second", a_txt=f"{KEY}\n")
    third = repo.commit("third", a_txt="three\n")
    repo.write("a.txt", f"{KEY}\n")  # an old version comes back
    tip = baton.snapshot("one", track="t").stored
    assert brief(lacking(baton, [tip.commit], [third])) == []
    assert not scan(baton, files=True).hits
    mine = lacking(baton, [third], [repo.git("rev-parse", f"{published}~1")])
    assert [(h.checkpoint, h.commit, h.where) for h in mine] == [(None, published, "a.txt:1")]
    assert lacking(baton, [tip.commit], ["b" * 40, third, "--output=x"]) == ()  # what is not here excludes nothing
    with pytest.raises(GitError, match="does not exist"):
        lacking(baton, ["b" * 40], [])
    assert lacking(baton, [], [third]) == ()


@pytest.mark.deep
def test_large_texts_are_listed_and_binary_files_are_looked_at(baton: Baton, repo: Sandbox) -> None:
    key = f"{KEY}\n".encode()
    repo.write("large.txt", b"line\n" * 40_000 + key)
    repo.write("large.bin", b"\0" + b"line\n" * 40_000 + key)
    repo.write("small.bin", b"\0" + key)
    repo.write("late.bin", b"line\n" * 1700 + b"\0" + key)  # the NUL comes too late to tell
    repo.write("wide.txt", ("key\n" + KEY).encode("utf-16"))
    repo.write("empty.txt", b"")
    commit = repo.commit("second")
    with repo.open(door="binary") as opened:
        everything = brief(lacking(opened, [commit]))
        words = [w for _, w, _ in everything]
        assert sorted(words) == ["large.bin:40001", "large.txt:40001", "late.bin:1701", "small.bin:1", "wide.txt:2"]
    repo.git("config", "baton.maxFileSize", "100k")
    with repo.open(door="binary") as opened:
        assert (None, "large.txt:1", NOT_SCANNED) in brief(lacking(opened, [commit]))
        assert not any("large.bin" in where for _, where, _ in brief(lacking(opened, [commit])))


def test_how_large_a_file_may_be_is_said_by_the_setting_alone(baton: Baton, repo: Sandbox) -> None:
    known, limits = baton.repo.objects.info(repo.git("rev-parse", "HEAD:a.txt")), list[int]()
    assert known is not None

    class Asked:
        """Objects that only note how much of one is asked for."""

        def read_many(self, oids: Sequence[str], limit: int) -> Iterator[Object | None]:
            limits.append(limit)
            return baton.repo.objects.read_many(oids, limit)

    ((_, data),) = contents(cast("Objects", Asked()), [replace(known, size=LARGEST + 1)])
    assert len(data) == known.size and limits == [LARGEST + 1]


def test_what_cannot_be_read_is_an_error(baton: Baton, repo: Sandbox) -> None:
    commit = repo.commit("second", b_txt="two\n")
    blob = repo.git("rev-parse", "HEAD:b.txt")
    path = repo.loose(blob)
    held = path.read_bytes()
    for data in (held[:10], None):
        path.unlink()
        if data:
            path.write_bytes(data)
        with pytest.raises(GitError):
            lacking(baton, [commit])


@pytest.mark.deep
def test_a_partial_clone_passes_over_what_it_left_out(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("second", a_txt=f"{KEY}\n")
    repo.commit("third", a_txt="three\n")
    repo.git("config", "uploadpack.allowFilter", "true")
    repo.git("clone", "-q", "--filter=blob:none", f"file://{repo.path}", str(tmp_path / "clone"))
    clone = Sandbox(tmp_path / "clone")
    head = clone.head()
    clone.commit("mine", b_txt=f"{OTHER}\n")
    with clone.open(door="binary") as opened:
        assert brief(lacking(opened, [clone.head()])) == [(None, "b.txt:1", "aws-key")]
        assert brief(lacking(opened, [clone.head()], [head])) == [(None, "b.txt:1", "aws-key")]


@pytest.mark.deep
def test_everything_is_tracks_safety_notes_conversations_and_what_was_fetched(baton: Baton, repo: Sandbox) -> None:
    (first,) = put(baton, record(0, note=KEY))
    (second,) = put(baton, record(0, note=OTHER), track="u")
    objects, algorithm = baton.store.objects, baton.repo.layout.algorithm
    repo.git("update-ref", remote_ref("origin", "tracks/z"), chain_ref("u"))
    repo.git("update-ref", "refs/baton/safety/main-worktree", chain_ref("u"))
    repo.git("update-ref", "refs/checkpoints/x", repo.git("hash-object", "-w", "--stdin", stdin=encode(record(9, step=KEY))))
    note = f"mine\n\ncheckpoint {first}\nnote: x\n\ncheckpoint {second}\nnote: {KEY}\n"
    repo.git("notes", "--ref=checkpoints", "add", "-m", note, "HEAD")
    told = f'{{"text": "x"}}\n{{"text": "[redacted:aws-key] {KEY}"}}\n{{"text": "\\"password\\": \\"{PASSWORD}\\""}}\n'
    chunk = new_object(algorithm, "blob", told.encode())
    entries = [TreeEntry(mode=b"100644", name=b"00000000", oid=chunk.oid)]
    trees = frame(objects, entries, canonical({"v": 1, "agent": "claude", "session": "s1"}))
    data = commit_data(tree=trees[-1].oid, parents=(), author=b"A <a> 1 +0000", message=b"conversation of 2 lines\n")
    commit = new_object(algorithm, "commit", data)
    objects.write([chunk, *trees, commit])
    repo.git("update-ref", TRANSCRIPTS + "claude/s1", commit.oid)
    tip = new_object(algorithm, "blob", encode(record(9, step=KEY))).oid
    found = scan(baton, everything=True)
    assert sorted((h.checkpoint or "", h.path, h.line) for h in found.hits) == sorted(
        [
            (first, "note", 0),
            (second, "note", 0),
            (tip, "step", 0),
            (second, repo.head(), 7),
            ("", "transcripts/claude/s1/chunks/00000000", 2),
            ("", "transcripts/claude/s1/chunks/00000000", 3),
        ]
    )
    assert found.checkpoints == 2 and not found.problems
    assert [(h.line, h.kind) for h in lacking(baton, [commit.oid])] == [(2, "aws-key")]  # what cannot be mistaken
    repo.write("b.txt", KEY)
    kept = baton.snapshot("keep", track="v").stored
    assert (kept.id, "b.txt:1", "aws-key") in brief(scan(baton, everything=True, files=True).hits)


def test_the_command(baton: Baton, repo: Sandbox) -> None:
    ids = put(baton, record(0, note=KEY), record(1), record(2, step=f"password={PASSWORD}"))
    repo.write("new\nname", f"\n{OTHER}\n")
    stored = baton.snapshot("files", track="t").stored
    done = repo.baton("scan", "t", "--files")
    assert done.code == 1
    rows = [f"{ids[2][:10]} step: ", f"{ids[0][:10]} note: aws-key AKIA…", f'{stored.id[:10]} "new\\nname":2: aws-key AKIA…']
    assert [line[: len(row)] for line, row in zip(done.out.splitlines(), rows, strict=True)] == rows
    assert f"git baton forget --everywhere {ids[2][:10]} {ids[0][:10]} {stored.id[:10]}'" in done.err
    assert "baton.redactAllow" in done.err
    told = repo.baton("scan", "--json", "t", "--files")
    assert told.code == 1 and told.json["checkpoints"] == 4
    assert [h["field"] for h in told.json["hits"]] == ["step", "note", None]
    assert told.json["hits"][2] | {"path": "new\nname", "line": 2, "checkpoint": stored.id} == told.json["hits"][2]
    assert not [s for s in (KEY, OTHER, PASSWORD) if s in done.out + done.err + told.out + told.err]
    clean = repo.baton("scan", ids[1])
    assert (clean.code, clean.out) == (0, "") and clean.err.startswith("hint: no secret in the words; ")
    assert repo.baton("scan", "--all", "t").code == 129 and repo.baton("scan", "nothing").code == 2


def test_a_broken_ref_is_said_and_the_rest_scanned(baton: Baton, repo: Sandbox) -> None:
    put(baton, record(0))
    (repo.path / ".git" / chain_ref("broken")).write_text("")
    found = scan(baton, everything=True)
    assert found.checkpoints == 1 and [p.where for p in found.problems] == [chain_ref("broken")]
    done = repo.baton("scan", "--all")
    assert done.code == 128 and chain_ref("broken") in done.err.splitlines()[0]
    assert done.err.splitlines()[1:] == ["hint: git baton doctor --mend"]


@pytest.mark.parametrize("files", [False, True])
def test_a_track_with_a_torn_tree_is_named_and_the_others_scanned(baton: Baton, repo: Sandbox, files: bool) -> None:
    repo.write("kept.txt", f"key\n{KEY}\n")
    stored = [baton.snapshot("step", track=track).stored for track in ("t", "u")]
    repo.write("kept.txt", "torn\n")
    torn = baton.snapshot("step", track="t").stored
    repo.loose(torn.tree).write_bytes(b"")
    done = repo.baton("scan", "--all", *["--files"] * files)
    assert (done.code, stored[1].id[:10] in done.out) == ((1, True) if files else (128, False))
    assert f"warning: '{chain_ref('t')}' is not scanned: 'git rev-list' failed: object file " in done.err
    assert done.err.endswith("hint: git baton doctor --mend\n") and "fatal" not in done.err


def test_a_checkpoint_that_cannot_be_read_is_said_and_others_that_hold_a_file_are_named(baton: Baton, repo: Sandbox) -> None:
    repo.write("kept.txt", f"key\n{KEY}\n")
    ids = [baton.snapshot(f"step {n}", track=track).stored.id for n, track in enumerate(("t", "u"))]
    (repo.path / ".git" / chain_ref("broken")).write_text("")
    for names in (["t"], ["--all"]):
        told = repo.baton("scan", "--files", "--json", *names)
        assert told.code == 1 and set(told.json["hits"][0]["held"]) == set(ids)
        assert told.err.count("\n") == 2 and chain_ref("broken") in told.err.splitlines()[0]
    no_tree = b"40000 sub\0" + bytes.fromhex(repo.git("rev-parse", "HEAD:a.txt"))
    (repo.path / "tree").write_bytes(no_tree)
    tree = repo.git("hash-object", "-w", "-t", "tree", "tree")
    put(baton, record(9), track="u", base=repo.git("commit-tree", "-m", "no tree", tree))
    done = repo.baton("scan", "--files", "t")
    assert done.code == 1 and all(oid[:10] in done.err.splitlines()[0] for oid in ids)
    commit = repo.git("rev-parse", chain_ref("u"))
    assert [line for line in done.err.splitlines() if f"'{commit}' is not scanned: object " in line], done.err


@pytest.mark.parametrize("form", ["--object-format=sha256"])
def test_other_object_formats(form: str, tmp_path: Path) -> None:
    other = Sandbox.init(tmp_path / "other", form)
    other.git("config", "baton.redact", "off")
    head = other.commit("first", a_txt="one\n")
    other.write("a.txt", f"{KEY}\n")
    with other.open(clock=integer_clock()) as opened:
        stored = opened.snapshot(f"uses {OTHER}", track="t").stored
        found = lacking(opened, [stored.commit], [head])
        assert brief(found) == [(stored.id, "step", "aws-key"), (stored.id, "a.txt:1", "aws-key")]


PEM = "-----BEGIN RSA " + "PRIVATE KEY-----"
SNAGS = [
    PEM,
    PEM + "\nshort\n",
    "PuTTY-User-" + "Key-File-3: ssh-rsa\n",
    "EXAMPLE",
    "aws_secret_access_key =",
    "//r/:_authToken=",
]
ALONE = [KEY, PEM + "\n" + "MIIEpAIBAAKCAQEA7bq9" * 8 + "\n", "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", ""]


def test_files_that_are_looked_at_together_hide_nothing_from_each_other(repo: Sandbox) -> None:
    """A file whose end would go with the next one's beginning changes nothing of what is found."""
    texts = [(SNAGS + ALONE)[n * 7 % 10] + " " * (n // 10) + f"\n# {n}\n" * (n % 2) for n in range(60)]
    for n, text in enumerate(texts):
        repo.write(f"f{n:02}", text)
    commit = repo.commit("second")
    with repo.open(door="binary") as opened:
        find = scanner(opened).find
        alone = {text for text in texts if find(text, sure=True)}
        assert {texts[int(h.path[1:])] for h in lacking(opened, [commit])} == alone and len(alone) > 15


@pytest.mark.deep
def test_binary_files_are_read_as_far_as_anybody_could(repo: Sandbox, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "rows.db")) as rows, rows:
        rows.execute("create table secrets (name text, value text, at text)")
        rows.execute("insert into secrets values ('aws', ?, '2026')", (KEY,))
        rows.execute("insert into secrets values ('github', ?, '2026')", ("ghp_" + "a1B2c3D4e5F6" * 3,))
    repo.write("rows.db", (tmp_path / "rows.db").read_bytes())
    repo.write("wide.bin", b"\xff\0" + f"one\nkey {KEY} end".encode("utf-16-le") + b"\x01")
    repo.write("lines.bin", b"\0\xfe\n\n" + KEY.encode() + b"\xff")
    repo.write("noise.bin", b"\0" + bytes(range(256)) * 3000)
    commit = repo.commit("second")
    with repo.open(door="binary") as opened:
        found = sorted((hit.path, hit.kind) for hit in lacking(opened, [commit]))
        assert ("lines.bin:3", "aws-key") in [(hit.where, hit.kind) for hit in lacking(opened, [commit])]
    assert found == [("lines.bin", "aws-key"), ("rows.db", "aws-key"), ("rows.db", "github-token"), ("wide.bin", "aws-key")]


@pytest.mark.deep
def test_a_large_binary_file_takes_no_time_to_speak_of(repo: Sandbox) -> None:
    noise = random.Random(5).randbytes(20 << 20)
    started = time.process_time()
    with repo.open(door="binary") as opened:
        found = scanner(opened).find(readable(noise + KEY.encode()), sure=True)
    assert [finding.kind for finding in found] == ["aws-key"]
    assert time.process_time() - started < 4  # 0.1 s and 0.5 s on an idle machine


@pytest.mark.deep
def test_names_of_files_and_folders(baton: Baton, repo: Sandbox) -> None:
    first = repo.head()
    repo.write(f"dumps/{KEY}/data", b"1")
    repo.write(f"{OTHER}.txt", "x")
    second = repo.commit("second")
    oid = put(baton, record(1), base=second)[0]
    tip = repo.git("rev-parse", "refs/baton/tracks/t")
    with repo.open(door="binary") as opened:
        found = lacking(opened, [tip], [first])
        assert sorted((hit.commit, hit.where, hit.kind) for hit in found) == [
            (second, "name of [redacted:aws-key].txt", "aws-key"),
            (second, "name of dumps/[redacted:aws-key]", "aws-key"),
        ]
        assert oid and not [hit for hit in found if KEY in str(hit)]
        assert lacking(opened, [tip], [second]) == ()
        repo.git("checkout", "-q", first)
    with repo.open(door="binary") as opened:
        assert [hit.where[:7] for hit in scan(opened, everything=True, files=True).hits] == ["name of", "name of"]


def test_a_secret_below_hundreds_of_folders_is_found_and_its_checkpoint_named(repo: Sandbox) -> None:
    repo.write("/".join(["d"] * 400) + "/a.txt", f"key = {KEY}\n")
    repo.ok("snapshot", "--track", "t", "--step", "one")
    done = repo.baton("scan", "--all", "--files")
    assert done.code == 1 and f"forget --everywhere {repo.git('rev-parse', 'refs/checkpoints/t')[:10]}' removes" in done.err


@pytest.mark.full
def test_all_checkpoints_that_hold_a_file_are_named(baton: Baton, repo: Sandbox) -> None:
    repo.write("kept.txt", f"key\n{KEY}\n")
    ids = [baton.snapshot(f"step {n}", track=track).stored.id for n, track in enumerate(("t", "t", "u"))]
    repo.git("mv", "-f", "a.txt", "b.txt")
    (repo.path / "kept.txt").unlink()
    baton.snapshot("without", track="t")
    done = repo.baton("scan", "t", "--files")
    said = done.err.splitlines()[0].removeprefix("hint: 'git baton forget --everywhere ").removesuffix("' removes them")
    assert done.code == 1 and sorted(said.split()) == sorted(oid[:10] for oid in ids)
    assert set(repo.baton("scan", "t", "--files", "--json").json["hits"][0]["held"]) == set(ids)
    assert repo.baton("forget", "--yes", "--everywhere", *said.split()).code == 0
    assert repo.baton("scan", "--all", "--files").code == 0
    for number in range(21):
        repo.write("kept.txt", KEY)
        baton.snapshot(f"again {number}", track="t")
    assert "' removes the first 20 of the 21 checkpoints that hold them" in repo.baton("scan", "t", "--files").err


def test_messages_and_notes_are_called_by_what_they_belong_to(baton: Baton, repo: Sandbox) -> None:
    repo.git("notes", "--ref=checkpoints", "add", "-m", f"mine\n{KEY}", "HEAD")
    done = repo.baton("scan", "--all")
    assert done.code == 1 and done.out == f"note on {repo.head()[:10]}:2: aws-key AKIA…\n"
    commit = repo.git("commit-tree", "-m", f"used {KEY}", "HEAD^{tree}")
    (hit,) = lacking(baton, [commit])
    assert hit_place(baton, hit) == f"commit {commit[:10]} message"
