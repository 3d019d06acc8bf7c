"""Stored words where they are shown: what cannot be seen is a mark, emoji stay, and no word ends the quotes it stands in."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.codec import alike, bare, canonical, escaped, in_double_quotes, in_quotes, is_hidden, looks, plain
from tests.kit.tables import each

UNSEEN = {
    "control": "\x1b",
    "delete": "\x7f",
    "C1": "\x9b",
    "soft hyphen": "\xad",
    "grapheme joiner": "\u034f",
    "Arabic mark": "\u061c",
    "Hangul filler": "\u115f",
    "Khmer vowel": "\u17b4",
    "Mongolian separator": "\u180e",
    "Mongolian variation selector": "\u180f",
    "zero width space": "\u200b",
    "lone joiner": "\u200d",
    "line separator": "\u2028",
    "direction": "\u202e",
    "isolate": "\u2066",
    "shorthand": "\U0001bca0",
    "word joiner": "\u2060",
    "half width filler": "\uffa0",
    "filler": "\u3164",
    "variation selector": "\ufe0f",
    "byte order mark": "\ufeff",
    "annotation": "\ufff9",
    "music": "\U0001d173",
    "tag": "\U000e0041",
    "later variation selector": "\U000e0100",
    "private": "\ue000",
    "private plane": "\U000f0000",
    "the last character": "\U0010ffff",
    "no character": "\ufdd0",
    "unassigned": "\u0378",
    "unassigned ignorable": "\U000e0fff",
    "half a pair": "\ud800",
}
EMOJI = [
    "\u2764\ufe0f",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "\U0001f3c3\U0001f3fd\u200d\u2642\ufe0f",
    "\U0001f3f3\ufe0f\u200d\U0001f308",
    "1\ufe0f\u20e3",
    "\U0001f1e9\U0001f1ea",
    "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
]
FLAG = "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in "run") + "\U000e007f"  # whose tags say something
SEQUENCE = [char for text in EMOJI for char in text]


@each("char", UNSEEN.values())
def test_what_cannot_be_seen_is_a_mark(char: str) -> None:
    assert is_hidden(char) and plain(f"a{char}b") == "a?b" and plain(f"a{char}b", keep=char) == f"a{char}b"
    assert in_quotes(f"a{char}b") == "'a?b'" and bare(f"a{char}b") == "'a?b'"
    shown = escaped(canonical([f"a{char}b"]).decode())
    assert char not in shown and json.loads(shown) == [f"a{char}b"] and shown.isascii()


@each("text", EMOJI)
def test_emoji_stay(text: str) -> None:
    assert plain(f"so {text}!") == f"so {text}!" and in_quotes(text) == f"'{text}'" and escaped(f'"{text}"') == f'"{text}"'


@each(
    ("text, shown"),
    [
        ("a\ufe0f", "a?"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f?"),
        ("\u2764\u200d", "\u2764?"),
        ("\u2764\u200d\u200d\u2764", "\u2764??\u2764"),
        ("7\ufe0f", "7?"),
        (FLAG, "\U0001f3f4????"),
        ("Łódź, Ελλάδα, ไทย, e\u0301, 日本\u3000x, \xa0", "Łódź, Ελλάδα, ไทย, e\u0301, 日本\u3000x, \xa0"),
    ],
)
def test_what_is_no_sequence_hides_nothing(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.mark.deep
@settings(max_examples=300, deadline=None)
@given(st.text(st.one_of(st.characters(), st.sampled_from([*UNSEEN.values(), *SEQUENCE])), max_size=12))
def test_nothing_that_is_shown_hides_anything(text: str) -> None:
    shown = plain(text)
    blanks = "".join(" " if unicodedata.category(c) == "Zs" or c in SEQUENCE else c for c in shown)
    assert len(shown) == len(text) and blanks.isprintable()
    assert not any(is_hidden(c) for c in shown if c not in SEQUENCE)
    assert plain(shown) == shown


@pytest.mark.deep
@settings(max_examples=300, deadline=None)
@given(st.text(st.one_of(st.characters(), st.sampled_from("'\"`\\ .,:")), max_size=12))
def test_nothing_ends_the_quotes(text: str) -> None:
    for word in (in_quotes(text), in_double_quotes(text)):
        assert re.fullmatch(r"""'(?:[^'"`]*[^'"`\\])?'|"(?:[^"\\]|\\.)*\"""", word, re.S) or '"' not in text
    assert not re.search(r"(?<!\\)(?:\\\\)*['`]", in_quotes(text)[1:-1])


@each(
    "text, shown",
    [
        ("main", "main"),
        ("feature/x-1.2_b", "feature/x-1.2_b"),
        ("Claude Code", "'Claude Code'"),
        ("src/x.py::test_a", "src/x.py::test_a"),
        ("main: passed", "'main: passed'"),
        ("main, recorded here", "'main, recorded here'"),
        ("it's", '"it\\\'s"'),
        ('say "x"', '"say \\"x\\""'),
        ("a`b`", '"a\\`b\\`"'),
        ("C:\\x", "'C:\\x'"),
        ("C:\\", '"C:\\\\"'),
        ("(foreign)", "'(foreign)'"),
        ("", "''"),
        (" main", "' main'"),
        ("main\xa0", "'main?'"),
    ],
)
def test_a_word_without_quotes_is_only_itself(text: str, shown: str) -> None:
    assert bare(text) == shown


def test_a_command_needs_no_quotes() -> None:
    assert bare("pytest -q tests/x.py", blanks=True) == "pytest -q tests/x.py"
    assert bare("pytest -q: passed (1 passed), now", blanks=True) == "'pytest -q: passed (1 passed), now'"


@each("other", ["MAIN", "main\ufe0f", "ma\u00adin", " main", "main\u3000", "m\U000e0041ain"])
def test_names_that_look_the_same(other: str) -> None:
    assert looks(other) == looks("main") and "'main'" in alike(other, "main")
