"""Canonical JSON and commit messages: the same bytes for the same value, limits, and nothing that forges anything."""

from __future__ import annotations

import hashlib
import json
import os
import unicodedata
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gitbaton
from gitbaton.base import model
from gitbaton.base.codec import canonical, decode, encode, known, message, parse, path_document, payload, plain, timestamp
from gitbaton.base.codec.checkpoint import MAX_FLAGS, MAX_SKIPPED
from gitbaton.base.codec.text import MAX_BYTES, MAX_EXTRAS, MAX_FIELD, is_control
from gitbaton.base.errors import RecordError, UsageError
from gitbaton.base.model import (
    UNBORN,
    Agent,
    Checkpoint,
    FileState,
    Flag,
    IndexState,
    Observed,
    Operation,
    Skipped,
    Turn,
    Usage,
    WorktreeId,
)
from gitbaton.base.values import replace
from tests.kit import Sandbox
from tests.kit.checkpoints import CHECKPOINTS, OID, TEXT, WHEN
from tests.kit.tables import each


def checkpoint(**fields: Any) -> Checkpoint:
    return Checkpoint(**{"track": "main", "step": "a step", "created": WHEN, **fields})


def file_state(**fields: Any) -> FileState:
    worktree = WorktreeId(path="/w", created=WHEN)
    given: dict[str, Any] = {"tree": OID, "index": IndexState(tree=OID), "operation": None, "changed": 0, "skipped": ()}
    return FileState(**{**given, "worktree": worktree, **fields})


@cache
def schema() -> jsonschema.Draft202012Validator:
    path = Path(gitbaton.__file__).parent / "data" / "checkpoint-1.schema.json"
    found = json.loads(path.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def hold(raw: bytes) -> None:
    """Hold the bytes of a checkpoint against the schema that ships in the package."""
    schema().validate(json.loads(raw))


def blob_id(raw: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(raw) + raw).hexdigest()


@pytest.mark.full
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHECKPOINTS)
def test_any_checkpoint_gives_back_its_value_its_bytes_and_its_id(c: Checkpoint) -> None:
    raw = encode(c)
    hold(raw)
    assert decode(raw) == c
    names: tuple[str, ...] = Checkpoint.__match_args__
    assert [getattr(known(raw), name) for name in names] == [getattr(c, name) for name in names], "each by itself"
    assert known(raw, whole=True) == c
    assert known(raw) == c and hash(known(raw)) == hash(c) and replace(known(raw), note="n") == replace(c, note="n")
    assert encode(decode(raw)) == raw and blob_id(encode(decode(raw))) == blob_id(raw)
    assert raw.endswith(b"\n}\n") and b"\n\n" not in raw and raw.count(b"\n}\n") == 1
    text = raw.decode("utf-8")
    assert not [ch for ch in text.replace("\n", "") if unicodedata.category(ch) in ("Cc", "Cf", "Zl", "Zp", "Cs")]


def test_a_checkpoint_of_yesterday_is_of_no_known_turn() -> None:
    raw = encode(checkpoint())
    assert b'"turn"' not in raw and decode(raw).turn is None
    today = replace(
        decode(raw), turn=Turn(began="a" * 40, ended="b" * 40, edited=("a.py", os.fsdecode(b"\xff")), edited_more=2)
    )
    assert decode(encode(today)) == today
    said = json.loads(encode(today))["turn"]
    assert said == {"began": "a" * 40, "ended": "b" * 40, "edited": {"paths": ["a.py", {"b64": "/w=="}], "more": 2}}
    assert list(json.loads(encode(today)))[-1] == "turn", "older versions keep what they do not know"
    many = replace(today, turn=Turn(head=UNBORN, edited=tuple(f"{n}.py" for n in range(2000))))
    back = decode(encode(many)).turn
    assert back is not None and (len(back.edited), back.edited_more, back.head) == (1000, 1000, UNBORN)


def test_a_checkpoint_of_yesterday_tells_no_model_and_no_tokens() -> None:
    before = encode(checkpoint(agent=Agent(name="claude", session="s")))
    assert list(json.loads(before)["agent"]) == ["name", "session", "transcript"], "its bytes are those of yesterday"
    agent = Agent(name="claude", session="s", model="claude-opus-4-5", usage=Usage(input=3, output=2, cached=1))
    raw = encode(checkpoint(agent=agent))
    hold(raw)
    assert decode(raw).agent == agent and list(json.loads(raw)["agent"])[-2:] == ["model", "usage"]
    for wrong in ('"usage": {"input": 1}', '"usage": []', '"usage": {"input": -1, "output": 0, "cached": 0}', '"model": 1'):
        bad = before.replace(b'"transcript": null', f'"transcript": null, {wrong}'.encode())
        with pytest.raises(RecordError):
            decode(bad)


@each("turn", ['{"began": "x"}', '{"head": null}', '{"edited": []}', '{"edited": {"paths": [1]}}', "[]"])
def test_a_turn_that_breaks_the_format_is_a_record_error(turn: str) -> None:
    raw = encode(checkpoint()).rstrip().removesuffix(b"}").rstrip() + b',\n  "turn": ' + turn.encode() + b"\n}\n"
    with pytest.raises(RecordError):
        decode(raw)


@pytest.mark.full
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHECKPOINTS, st.binary(max_size=40))
def test_the_message_holds_the_bytes_whatever_the_step_says(c: Checkpoint, later: bytes) -> None:
    raw = encode(c)
    text = message(c.step, raw)
    assert payload(text) == raw
    assert payload(text + b"\nreserved\n\n" + later) == raw
    subject, empty, _ = text.split(b"\n", 2)
    assert empty == b"" and 0 < len(subject) <= 72 and subject == subject.strip()
    assert not any(map(is_control, subject.decode("utf-8")))


def test_a_file_state_is_read_field_by_field_as_it_is_read_whole() -> None:
    odd = '"worktree": {\n    "worktree": {\n      "path": "no"\n    }'
    full = file_state(
        index=IndexState(tree=OID, flags=(Flag(path=odd, bits="as"),), flags_more=1, unmerged=2),
        operation=Operation(kind="rebase", head=OID, onto=None, refs=(("worktree", odd),)),
        changed=3,
        skipped=(Skipped(path=odd, reason="fifo"), Skipped(path=os.fsdecode(b"\xff"), reason="fifo")),
        skipped_more=4,
        raw=5,
        held=6,
    )
    names: tuple[str, ...] = FileState.__match_args__
    for path in ("/w", odd, os.fsdecode(b"/\xff"), "/w\\"):
        for files in (full, file_state()):
            files = replace(files, worktree=WorktreeId(path=path, created=WHEN))
            raw = encode(checkpoint(files=files))
            assert decode(raw).files == files
            assert known(raw).files is not None and [getattr(known(raw).files, name) for name in names] == [
                getattr(files, name) for name in names
            ], "each by itself"
            assert known(raw).files == files and hash(known(raw).files) == hash(files)
            seen = known(raw).files
            assert seen is not None and replace(seen, changed=9) == replace(files, changed=9)
            assert seen.holding(["a"]) == files.holding(["a"]) and encode(known(raw)) == raw
    assert known(encode(checkpoint())).files is None


@each("other", [b'{"v": 1,', b'{\n  "odd": 2,\n  "v": 1,', b'{\n  "v": 1,\n  "odd": {\n  "agent": 3\n  },'])
def test_what_is_not_as_we_write_it_is_read_whole(other: bytes) -> None:
    raw = encode(checkpoint(agent=Agent(name="claude", session="s"))).replace(b'{\n  "v": 1,', other)
    assert known(raw) == decode(raw) == known(raw, whole=True) and known(raw).agent == Agent(name="claude", session="s")


@pytest.mark.parametrize(
    ("step", "subject"),
    [
        ("a step", "a step"),
        ("one\ntwo", "one"),
        ("\n\n  third line\nx", "third line"),
        ("bell\x07 and \x1b[31mred", "bell? and ?[31mred"),
        ("split\x0bhere\u2028there", "split?here?there"),
        ("carriage\r\nreturn", "carriage"),
        ("x" * 100, "x" * 72),
        ("é" * 50, "é" * 36),
        ("x" + "é" * 50, "x" + "é" * 35),
        ("a" * 71 + " b", "a" * 71),
    ],
)
def test_the_subject_is_the_first_line_cut_to_72_bytes_at_a_character(step: str, subject: str) -> None:
    assert message(step, b"{\n}\n") == subject.encode() + b"\n\n{\n}\n"


@pytest.mark.deep
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TEXT, TEXT, TEXT)
def test_no_field_forges_another(step: str, note: str, extra: str) -> None:
    c = checkpoint(step="s" + step, note=note, extra=(("k", extra),))
    plain_json = json.loads(encode(c))
    assert list(plain_json) == list(schema().schema["required"])
    assert (plain_json["step"], plain_json["note"], plain_json["extra"]) == ("s" + step, note, {"k": extra})


def test_each_control_and_format_character_is_escaped_and_no_other() -> None:
    for code in [*range(0x3000), *range(0xD7F0, 0x10000, 7), 0xFEFF, 0x1F600, 0xE0001, 0x110BD, 0x1D173, 0x10FFFF]:
        char = chr(code)
        raw = canonical(char)
        if char == "\n":
            assert raw == b'"\\n"\n'
        elif char == "\t":
            assert raw == b'"\\t"\n'
        elif char in '"\\':
            assert raw == f'"\\{char}"\n'.encode()
        elif unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs"):
            units = char.encode("utf-16-be", "surrogatepass")
            escaped = "".join(f"\\u{int.from_bytes(units[i : i + 2], 'big'):04x}" for i in range(0, len(units), 2))
            assert raw == f'"{escaped}"\n'.encode()
        else:
            assert raw == f'"{char}"\n'.encode()


def test_readers_accept_either_form_of_a_character_and_any_layout() -> None:
    c = checkpoint(note="é\u202e\x1b", extra=(("a", "1"), ("b", "2")), files=file_state())
    compact = json.dumps(json.loads(encode(c)), ensure_ascii=True, separators=(",", ":")).encode()
    raw = json.dumps(json.loads(encode(c)), ensure_ascii=False, sort_keys=True, indent=7).encode()
    assert decode(compact) == decode(raw) != None  # noqa: E711
    assert decode(compact).note == c.note and dict(decode(raw).extra) == dict(c.extra)


def test_an_unknown_key_is_no_error() -> None:
    document = json.loads(encode(checkpoint()))
    document["later"] = {"deep": [1, 2, {"x": None}]}
    hold(json.dumps(document).encode())
    assert decode(json.dumps(document).encode()) == checkpoint()


def test_a_test_run_of_yesterday_says_nothing_of_whether_a_test_ran() -> None:
    run = model.TestRun(command="go test ./...", result="unknown", passed=0, ended=WHEN)
    c = checkpoint(observed=Observed(tests=(run,)))
    yesterday = b'{"command":"go test ./...","ended":"%s","passed":0,"result":"unknown"}' % timestamp(WHEN).encode()
    assert json.loads(encode(c))["observed"]["tests"] == [json.loads(yesterday)] and decode(encode(c)) == c
    today = checkpoint(observed=Observed(tests=(replace(run, empty=True),)))
    hold(encode(today))
    assert decode(encode(today)) == today != c


@pytest.mark.deep
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(lambda t: t.encode("utf-8", "surrogatepass"))))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with pytest.raises(RecordError):
        decode(raw)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.deep
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), JSON)
def test_any_value_at_any_place_is_read_or_refused(data: st.DataObject, other: Any) -> None:
    document = json.loads(encode(checkpoint(files=file_state(skipped=(Skipped(path="x", reason="excluded"),)), label="l")))
    at: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(at)) if isinstance(at, dict) else st.integers(0, len(at) - 1))
        if not (isinstance(at[key], (dict, list)) and at[key] and data.draw(st.booleans())):
            break
        at = at[key]
    if data.draw(st.booleans()) and isinstance(at, dict):
        del at[key]
    else:
        at[key] = other
    raw = json.dumps(document).encode()
    try:
        found = decode(raw)
    except RecordError as error:
        assert "\n" not in error.message and plain(error.message) == error.message
    else:
        hold(raw)
        assert found.step


BROKEN: list[tuple[bytes, str]] = [
    (b'{"v": 1, "v": 1}', "twice"),
    (b'{"v": 1.0}', "not an integer"),
    (b'{"v": NaN}', "not an integer"),
    (b'{"v": -Infinity}', "not an integer"),
    (b'{"v": 1e3}', "not an integer"),
    (b'{"v": 99999999999999999999}', "'v'"),
    (b'{"v": ' + b"9" * 5000 + b"}", "not JSON"),
    (b'{"v": 1, "note": "\\ud800"}', "surrogate"),
    (b'{"v": 1, "x\\udfff": 1}', "surrogate"),
    (b'{"v": "\xff"}', "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b"[" * 9 + b"]" * 9, "deeper than 8"),
    (b'{"a":' * 9 + b"1" + b"}" * 9, "deeper than 8"),
    (b"[]", "not an object"),
    (b"null", "not an object"),
    (b"", "not JSON"),
    (b"\xef\xbb\xbf{}", "not JSON"),
    (b"{}" + b" " * MAX_BYTES, "limit"),
]


@pytest.mark.parametrize(("raw", "word"), BROKEN, ids=range(len(BROKEN)))
def test_what_breaks_the_format_is_a_record_error(raw: bytes, word: str) -> None:
    with pytest.raises(RecordError, match=word):
        decode(raw)


def test_depth_8_is_read() -> None:
    assert parse(b"[" * 8 + b"]" * 8) is not None


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"step": ""}, "step is empty"),
        ({"step": " \n\t "}, "step is empty"),
        ({"step": "\u200b\x07"}, "no visible"),
        ({"step": None}, "step is not text"),
        ({"step": "\ud800"}, "not UTF-8"),
        ({"note": "x\udcff"}, "note is not UTF-8"),
        ({"note": "x" * (MAX_FIELD + 1)}, "note has 65537 bytes"),
        ({"next_cmd": "é" * (MAX_FIELD // 2 + 1)}, "next_cmd has 65538 bytes"),
        ({"decisions": ("ok", "\udcff")}, "decision is not UTF-8"),
        ({"decisions": (1,)}, "decision is not text"),
        ({"label": " "}, "label is empty"),
        ({"label": "\u200b"}, "label has no visible"),
        ({"validation": "grün"}, "validation 'grün'"),
        ({"kind": "other"}, "kind 'other'"),
        ({"extra": (("bad key", "1"),)}, "bad key"),
        ({"extra": (("", "1"),)}, "extra key"),
        ({"extra": (("k" * 65, "1"),)}, "extra key"),
        ({"extra": (("k\n", "1"),)}, "extra key"),
        ({"extra": (("k", "1"), ("k", "2"))}, "'k' is given twice"),
        ({"extra": (("k", "\udcff"),)}, "extra 'k' is not UTF-8"),
        ({"extra": (("k", 5),)}, "extra 'k' is not text"),
        ({"extra": tuple((f"k{i}", "") for i in range(MAX_EXTRAS + 1))}, "257 extras"),
        ({"extra": tuple((f"k{i}", "x" * 9000) for i in range(200))}, "limit is 1048576"),
        ({"agent": Agent(name="\udcff")}, "agent's name is not UTF-8"),
        ({"track": "a\nb"}, "control"),
        ({"track": 7}, "track is not text"),
    ],
)
def test_what_must_not_be_stored_is_a_usage_error(fields: dict[str, Any], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        encode(checkpoint(**fields))


@pytest.mark.deep
def test_what_is_at_its_limit_is_stored_and_read() -> None:
    extra = tuple((f"k{i}", "v") for i in range(MAX_EXTRAS))
    c = checkpoint(note="x" * MAX_FIELD, next_cmd="é" * (MAX_FIELD // 2), extra=extra, decisions=("d",) * 20_000)
    hold(encode(c))
    assert decode(encode(c)) == c


@each("key", ["step", "note", "next_cmd"])
def test_a_field_over_64_kib_is_not_read(key: str) -> None:
    document = json.loads(encode(checkpoint()))
    document[key] = "é" * (MAX_FIELD // 2 + 1)
    with pytest.raises(RecordError, match=key):
        decode(json.dumps(document, ensure_ascii=False).encode())


@pytest.mark.deep
def test_more_than_1000_skipped_paths_and_flags_are_counted() -> None:
    skipped = tuple(Skipped(path=f"p{i}", reason="too-large") for i in range(MAX_SKIPPED + 7))
    flags = tuple(Flag(path=f"f{i}", bits="s") for i in range(MAX_FLAGS + 5))
    raw = encode(checkpoint(files=file_state(skipped=skipped, index=IndexState(tree=OID, flags=flags))))
    hold(raw)
    files = decode(raw).files
    assert files is not None
    assert len(files.skipped) == MAX_SKIPPED and files.skipped_more == 7
    assert len(files.index.flags) == MAX_FLAGS and files.index.flags_more == 5
    assert encode(checkpoint(files=files)) == raw


@pytest.mark.deep
def test_no_number_of_long_skipped_paths_makes_a_checkpoint_too_large() -> None:
    skipped = tuple(Skipped(path=f"{i:04}/" + "\x01" * 1000, reason="excluded") for i in range(900))
    raw = encode(checkpoint(note="\x01" * 60_000, files=file_state(skipped=skipped)))
    hold(raw)
    files = decode(raw).files
    assert files is not None and files.skipped[0] == skipped[0]
    assert len(files.skipped) + files.skipped_more == 900 and files.skipped_more > 0


def test_more_in_the_lists_than_a_writer_would_put_is_refused() -> None:
    for place, item in (("skipped", {"path": "x", "reason": "excluded"}), ("flags", {"path": "x", "bits": "a"})):
        document = json.loads(encode(checkpoint(files=file_state())))
        holder = document["files"] if place == "skipped" else document["files"]["index"]
        holder[place] = [item] * 1001
        with pytest.raises(RecordError, match=place):
            decode(json.dumps(document).encode())


def test_a_path_or_branch_that_is_not_utf8_is_stored_as_its_bytes() -> None:
    name = os.fsdecode(b"caf\xe9/\xff")
    assert path_document(name) == {"b64": "Y2Fm6S//"}
    c = checkpoint(branch=name, files=file_state(skipped=(Skipped(path=name, reason="excluded"),)))
    hold(encode(c))
    assert decode(encode(c)) == c
    for wrong in ("%%%", "é", 5, None):
        document = json.loads(encode(c))
        document["branch"] = {"b64": wrong}
        with pytest.raises(RecordError, match="branch"):
            decode(json.dumps(document).encode())


@each("text", [b"", b"no json", b"s\n\n", b"s\n\n{", b"s\n\nx\n}\n", b"s\n{\n}\n", b"s\n\n{}\n"])
def test_a_message_without_a_checkpoint_is_a_record_error(text: bytes) -> None:
    with pytest.raises(RecordError):
        payload(text)


def test_a_huge_message_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(RecordError, match="limit"):
        payload(b"s\n\n{" + b" " * (MAX_BYTES + 1) + b"\n}\n")


def test_what_a_real_snapshot_stores_holds_against_the_schema(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("big.bin", b"\0" * 4096)
    repo.git("config", "baton.maxFileSize", "1k")
    with repo.open() as baton:
        first = baton.snapshot("one", track="main", extra={"k": "v"}, decisions=["d"], label="L").stored
        stored = baton.snapshot("two\x1b\u202e", track="main").stored
        head = baton.repo.objects.head()
    for item in (first, stored):
        hold(item.raw)
    assert repo.git("cat-file", "-p", "refs/checkpoints/main") == stored.raw.decode().removesuffix("\n")
    assert repo.git("rev-parse", "refs/checkpoints/main") == stored.id == blob_id(stored.raw)
    assert stored.checkpoint.head == head.oid and stored.checkpoint.branch == "side"
    assert replace(stored.checkpoint) == decode(stored.raw)
