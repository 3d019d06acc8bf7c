"""Track names: a bijection between NFC names and legal ref components."""

from __future__ import annotations

import subprocess
import unicodedata

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from gitbaton.base.codec import check_track, decode_track, decode_tracks, encode_track, is_control
from gitbaton.base.errors import UsageError
from tests.kit import Sandbox
from tests.kit.tables import each

NAMES = st.text(max_size=40)


def legal(name: str) -> str | None:
    """The NFC form, or None where a name is refused."""
    try:
        return check_track(name)
    except UsageError:
        return None


@pytest.mark.deep
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(NAMES)
def test_encoding_is_a_bijection_on_nfc_names(name: str) -> None:
    nfc = unicodedata.normalize("NFC", name)
    wanted = bool(nfc.strip()) and not any(is_control(c) for c in nfc)
    encoded = "".join(
        chr(b) if chr(b).isascii() and (chr(b).isalnum() or b in b"_-") else f"%{b:02X}" for b in nfc.encode("utf-8")
    )
    if not wanted or len(encoded) > 200:
        assert legal(name) is None
        return
    assert check_track(name) == nfc and encode_track(name) == encoded and decode_track(encoded) == nfc


LETTERS = st.text(st.sampled_from(["e", "\u0301", "é", "E", "%", "C", "3", "\u212b", "Å", " ", "/"]), min_size=1, max_size=5)


@pytest.mark.deep
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LETTERS, LETTERS)
def test_two_names_have_one_form_only_when_they_are_one_name(a: str, b: str) -> None:
    assume(legal(a) is not None and legal(b) is not None)
    assert (encode_track(a) == encode_track(b)) == (check_track(a) == check_track(b))


@pytest.mark.deep
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(st.sampled_from("aZ09_-%2F5cCé/. "), max_size=12), st.text(max_size=12)))
def test_what_is_decoded_is_exactly_what_would_be_encoded(encoded: str) -> None:
    name = decode_track(encoded)
    assert name is None or encode_track(name) == encoded


@pytest.mark.deep
def test_every_result_is_a_legal_ref(repo: Sandbox) -> None:
    found: list[str] = []

    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
    @given(NAMES)
    def collect(name: str) -> None:
        if legal(name) is not None:
            found.append(encode_track(name))

    collect()
    found += [encode_track(n) for n in ("-x", "@", "a..b", "x.lock", "/", "a//b", ".", "..", "HEAD", "a b", "~^:?*[\\", "@{1}")]
    for name in sorted(set(found)):
        assert subprocess.run(["git", "check-ref-format", f"refs/baton/tracks/{name}"]).returncode == 0, name
    commands = "".join(f"create refs/baton/tracks/{name} {repo.head()}\n" for name in {n.lower(): n for n in found}.values())
    repo.git("update-ref", "--stdin", stdin=commands.encode())


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("JX_JUMP_DEBUG WORK", "JX_JUMP_DEBUG%20WORK"),
        ("feature/login", "feature%2Flogin"),
        ("v1.2", "v1%2E2"),
        ("100%", "100%25"),
        ("e\u0301", "%C3%A9"),
        ("\u00e9", "%C3%A9"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
        ("a" * 200, "a" * 200),
        (" a ", "%20a%20"),
    ],
)
def test_names_and_their_form(name: str, encoded: str) -> None:
    assert encode_track(name) == encoded
    assert decode_track(encoded) == unicodedata.normalize("NFC", name)


@each(
    "encoded",
    [
        *("", "a b", "a.b", "a/b", "%2f", "%41", "%", "%2", "%GG", "%FF", "%C3", "%65%CC%81", "e%CC%81", "%00", "%0A", "%20"),
        *("a" * 201, "%E2%80%AE", "%ED%A0%80", "é", "a\n"),
    ],
)
def test_a_form_that_is_not_canonical_is_no_name(encoded: str) -> None:
    assert decode_track(encoded) is None


@each(
    "more",
    [[], [""], ["a\nb"], ["é"], ["a%20b"], ["%2f"], ["a" * 200], ["a" * 201], ["\n"], ["", ""], ["a b", ""], ["\udcff"], ["?"]],
)
def test_many_forms_are_names_as_each_alone_is(more: list[str]) -> None:
    for encoded in (more, ["a", "b-_9", *more], [*more, "%C3%A9", "a"], ["%41", *more]):
        assert decode_tracks(encoded) == [decode_track(one) for one in encoded]


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("", "empty"),
        (" \u3000", "empty"),
        ("a\nb", "control"),
        ("a\x7f", "control"),
        ("a\u200db", "control"),
        ("\u202eabc", "control"),
        ("a\ud800", "control"),
        ("a\udcff", "control"),
        ("a" * 201, "longer than 200"),
        ("é" * 34, "longer than 200"),
        ("/" * 67, "longer than 200"),
    ],
)
def test_refused_names(name: str, word: str) -> None:
    with pytest.raises(UsageError, match=word) as caught:
        encode_track(name)
    assert caught.value.message.isprintable()


def test_a_name_that_differs_only_in_case_is_refused(repo: Sandbox) -> None:
    with repo.open() as baton:
        baton.snapshot("one", track="Main", files=False)
        with pytest.raises(UsageError, match="Main"):
            baton.snapshot("two", track="main", files=False)
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/baton") == "refs/baton/tracks/Main"
