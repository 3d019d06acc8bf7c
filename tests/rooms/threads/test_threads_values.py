"""Stored values of threads as people see them: everything by its name, nothing constructed, nothing that drives a terminal."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import re
import sys
import uuid

import ormsgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.types import Send

from gitbaton.base.codec import is_control
from gitbaton.base.secrets import Redactor
from gitbaton.langgraph.threads.decoding import MOST, SCREEN, WHOLE, document, documents, opaque, opened, pretty
from tests.kit.tables import each

SERDE = JsonPlusSerializer(pickle_fallback=True)
REDACTOR = Redactor("on")


@dataclasses.dataclass
class Point:
    x: int
    y: object


class Colour(enum.Enum):
    RED = "red"


def shown(kind: str, data: bytes, name: str = "ch") -> list[str]:
    doc = document(opened((kind, data)), SCREEN, REDACTOR.text)
    return pretty(documents([(name, doc)], REDACTOR.line)[0])


def said(content: object) -> str:
    return "\n".join(shown(*SERDE.dumps_typed(content)))


def test_every_type_that_the_serialiser_knows_prints_by_its_name() -> None:
    when = datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC)
    expected = {
        "None": None,
        "True": True,
        "-7": -7,
        "1.5": 1.5,
        "'caf\u00e9'": "caf\u00e9",
        r"'a\x1b[31m\u202e'": "a\x1b[31m\u202e",
        "b'\\x00a'": b"\0a",
        "[1, 'two', [3]]": [1, "two", [3]],
        "{'a': {'b': 1}}": {"a": {"b": 1}},
        "{1: 2}": {1: 2},
        "datetime('2026-01-02T03:04:00+00:00')": when,
        "date(2026, 1, 2)": when.date(),
        "timedelta(1, 0, 0)": datetime.timedelta(days=1),
        "UUID('00000000000000000000000000000007')": uuid.UUID(int=7),
        "Decimal('1.50')": decimal.Decimal("1.50"),
        "re.compile('x', 34)": re.compile("x", re.IGNORECASE),
        "PosixPath('/', 'a')": pathlib.PosixPath("/a"),
        "set([1])": {1},
        "deque([1, 2])": collections.deque([1, 2]),
        "Point(x=1, y=[2])": Point(1, [2]),
        "Colour('red')": Colour.RED,
        "Send('node', {'a': 1})": Send("node", {"a": 1}),
        "_DeltaSnapshot([1])": _DeltaSnapshot([1]),
        "HumanMessage(content='hi', id='7')": HumanMessage("hi", id="7"),
        "nan": float("nan"),
    }
    assert {text: said(content) for text, content in expected.items()} == {text: text for text in expected}


def test_a_long_value_is_laid_out_and_cut() -> None:
    rows = shown(*SERDE.dumps_typed([HumanMessage("x" * 60, id=str(n)) for n in range(70)]))
    assert rows[0] == "[" and rows[1].startswith("  HumanMessage(content='xxx") and rows[-2:] == ["  ... 20 more", "]"]
    answer = AIMessage("one line\nand another one, which is so long that the text is one of several lines\n", id="8")
    rows = shown(*SERDE.dumps_typed(answer))
    assert rows[:3] == ["AIMessage(", "  content='one line\\n'", rows[2]] and rows[2].startswith("    'and another one")
    assert said("y" * 5000).endswith("... 3,000 more characters") and len(said("y" * 5000)) < 2100
    assert said(b"z" * 5000).endswith("... 3,000 more bytes")
    assert len(shown(*SERDE.dumps_typed({f"k{n}": list(range(1000, 1100)) for n in range(400)}))) <= MOST + 1


def test_what_is_never_opened() -> None:
    for kind, why in (
        ("pickle", "never opened"),
        ("msgpack+aes", "encrypted, not opened"),
        ("x", "of a type that is not known"),
    ):
        assert opaque(kind) == why
        with pytest.raises(ValueError, match=re.escape(why)):
            opened((kind, b"cos\nsystem\n(S'touch /tmp/x'\ntR."))
    assert shown("json", b'{"lc": 2, "id": ["os", "system"]}') == ["{'lc': 2, 'id': ['os', 'system']}"]


def ext(code: int, *parts: object) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(code, ormsgpack.packb(parts)))


def test_nothing_that_the_data_names_is_imported_or_called(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trap_of_mine.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for code in range(9):
        rows = shown("msgpack", ext(code, "trap_of_mine", "run", ["x"], "go"))
        assert len(rows) == 1 and "trap_of_mine" not in sys.modules
    assert shown("msgpack", ext(1, "os", "system", ["true"])) == ["os.system('true')"]
    forged = ext(2, "x\x1b]0;", "y\n) z", {"a b": 1, "$cut": "forged"})
    (row,) = shown("msgpack", forged)
    assert row.startswith("type 'x\\x1b]0;.y\\n) z'(") and "forged" in row and not any(map(is_control, row))


def test_a_map_cannot_pass_for_an_object() -> None:
    assert said({"$type": "HumanMessage", "$fields": {}}) == "{'$type': 'HumanMessage', '$fields': {}}"
    assert said({"$cut": "all"}) == "{'$cut': 'all'}" and said([{"$text": "a", "$cut": "b"}]) == "[{'$text': 'a', '$cut': 'b'}]"


@each(
    "data",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xffab",
        b"\x91" * 100_000 + b"\x01",
        b"\xa1\xff",
        b"",
        b"\x81\xd4\x05\x01\x01",
    ],
)
def test_what_is_no_msgpack_is_one_error(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^not msgpack, as its type says$"):
        opened(("msgpack", data))


def test_nesting_is_cut_wherever_it_comes_from() -> None:
    nested = b"\x01"
    for _ in range(3000):
        nested = ormsgpack.packb(ormsgpack.Ext(7, nested))
    assert "nested deeper than 12" in "\n".join(shown("msgpack", nested))
    assert "nested deeper than 12" in "\n".join(shown("msgpack", b"\x91" * 900 + b"\x01"))
    assert "nested deeper than 12" in "\n".join(shown("json", b"[" * 200 + b"]" * 200))
    for bad in (b"[" * 100_000, b"nan", b"\xff", b"1" * 5000):
        with pytest.raises(ValueError, match="not JSON"):
            opened(("json", bad))


def test_secrets_are_replaced_by_what_they_are_and_by_what_they_are_called() -> None:
    key = "ghp_" + "aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA3bC5"
    assert key not in said({"note": f"use {key} here"}) and "[redacted:" in said({"note": f"use {key} here"})
    assert "hunter2hunter2" not in said({"password": "hunter2hunter2"})
    assert "hunter2hunter2" not in "\n".join(shown("msgpack", ormsgpack.packb("hunter2hunter2"), "password"))
    assert key not in said("x " * 990 + key + " y" * 900)  # where the text is cut
    assert key not in said(key.encode())


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text() | st.binary(max_size=40),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=20,
)


@pytest.mark.deep
@settings(max_examples=150, deadline=None)
@given(values)
def test_whatever_was_stored_prints_plain_and_is_json(content: object) -> None:
    try:
        kind, data = SERDE.dumps_typed(content)
    except Exception:  # the serialiser refuses halves of surrogate pairs
        return
    for row in shown(kind, data):
        assert not any(map(is_control, row))
    doc = document(opened((kind, data)), WHOLE, lambda text: text)
    assert restored(json.loads(json.dumps(doc, allow_nan=False))) == repr(content)


def restored(doc: object) -> str:
    """The value of its JSON, which leaves nothing out."""
    if isinstance(doc, list):
        return "[" + ", ".join(map(restored, doc)) + "]"
    if not isinstance(doc, dict):
        return repr(doc)
    if "$type" not in doc:
        return "{" + ", ".join(f"{key!r}: {restored(item)}" for key, item in doc.items()) + "}"
    if doc["$type"] == "dict":
        return "{" + ", ".join(f"{key!r}: {restored(item)}" for key, item in doc["$value"]) + "}"
    import base64

    return repr(base64.b64decode(doc["$value"])) if doc["$type"] == "bytes" else doc["$value"]


@pytest.mark.deep
@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(["msgpack", "json", "bytes", "null"]))
def test_rubbish_is_shown_or_refused_in_words(data: bytes, kind: str) -> None:
    for candidate in (data, ormsgpack.packb(ormsgpack.Ext(len(data) % 10, data))):
        try:
            rows = shown(kind, candidate)
        except ValueError as error:
            assert str(error) in ("not msgpack, as its type says", "not JSON, as its type says")
        else:
            assert rows and not any(is_control(char) for row in rows for char in row)
