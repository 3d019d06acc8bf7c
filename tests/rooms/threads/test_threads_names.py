"""Names of threads and namespaces as refs: any name, nothing but ours, and all of them side by side."""

from __future__ import annotations

import hashlib
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.langgraph.threads.names import (
    LATE,
    THREADS,
    Cut,
    cut,
    escape,
    late_ref,
    names_of,
    prefix_of,
    ref_of,
    tree_name,
    unescape,
)
from tests.kit import Sandbox
from tests.kit.tables import each

UUID = "6f1c2c1e-9b0a-4a58-8f6e-0d9c5b7a1e2f"
NESTED = "|".join(f"child{n}:{UUID}" for n in range(8))
NAMES = (
    *("", "_", "=", "=_", "%", "%5F", "a", "A", "aa", "a/b", "a/", "/", "//", ".", "..", "...", ".hidden", "a..b", "x.lock"),
    *(".lock", "@", "@{", "@{u}", "HEAD", "refs/heads/main", "-", "--all", "~^:?*[\\", "a b", " ", "\t", "\n", "a\nb", "\0"),
    *("\x7f", "é", "e\u0301", "日本語", "😀", "\ud800", "\udfff", "a\udce9", "\u202e", NESTED, NESTED + "|", "child:" + UUID),
    *("Thread", "thread", "THREAD", "x" * 198, "x" * 199, "x" * 200, "x" * 201, "x" * 398, "x" * 399, "x" * 3000, "/" * 350),
    *("x" * 197 + "/", "x" * 198 + "/", "x" * 196 + "/y", "é" * 180, "x" * 199 + "/" + "y" * 199, "日" * 100 + "/_"),
)
PART = re.compile(r"(?:[A-Za-z0-9_=+-]|%[0-9A-F]{2})+%?\Z")
HASH = "0123456789abcdef" * 4
ANY = st.one_of(
    st.sampled_from(NAMES), st.text(st.characters(exclude_categories=()), max_size=40), st.text("x/%é", max_size=150)
)


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def whole(ref: str, *known: str) -> tuple[str, str] | None:
    """The names of a ref, where each is there or known."""
    names = names_of(ref, *known)
    return names if names is None or not any(isinstance(name, Cut) for name in names) else None


@pytest.mark.deep
@settings(max_examples=300, deadline=None)
@given(ANY, ANY)
def test_any_names_come_back_from_their_refs(thread: str, namespace: str) -> None:
    ref, late = ref_of(thread, namespace), late_ref(thread, namespace)
    assert len(ref) < 725 and len(late) < 725
    assert whole(ref, thread, namespace) == whole(late, thread, namespace) == (thread, namespace)
    bare = names_of(ref)
    assert bare is not None and ref_of(*bare) == ref and late_ref(*bare) == late and names_of(late) == bare
    assert (bare == (thread, namespace)) is not cut(ref)
    assert ref.startswith(prefix_of(thread)[0]) and late.startswith(prefix_of(thread)[1])
    assert late.removeprefix(LATE) == ref.removeprefix(THREADS)
    assert all(PART.match(part) and len(part) <= 200 for part in ref.split("/")), "none is cut inside a %XX"


@pytest.mark.full
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(ANY, ANY), max_size=12, unique=True))
def test_no_ref_is_the_folder_of_another_and_no_two_are_one(names: list[tuple[str, str]]) -> None:
    refs = [ref_of(*names_) for names_ in names]
    assert len({*refs}) == len(refs)
    assert not [(a, b) for a in refs for b in refs if b.startswith(a + "/")]
    for thread, _ in names:
        own = [ref for ref in refs if ref.startswith(prefix_of(thread)[0])]
        assert {(names_of(ref, thread) or ("",))[0] for ref in own} <= {thread}, "a prefix takes in no other thread"


@pytest.mark.deep
@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text("=_%/Aa0F2", max_size=24), st.text(max_size=24)))
def test_a_ref_that_we_would_not_write_is_not_ours(rest: str) -> None:
    for prefix in (THREADS, LATE):
        found = names_of(prefix + rest)
        assert found is None or (ref_of if prefix == THREADS else late_ref)(*found) == prefix + rest
    assert names_of(rest) is None
    assert unescape(rest) is None or escape(unescape(rest) or "") == rest


@each(
    "rest",
    (
        *("", "_", "=a", "=a/", "/=a", "=a/=b/=c", "a/_", "_/a", "=/_", "_/=", "=%61/_", "=%2f/_", "=%C3/_", "=%/=a/_"),
        *(
            f"+a+{HASH[1:]}/_",
            f"+a+{HASH}%/_",
            f"++{HASH}/_",
            f"+a+{HASH}/=b/_",
            f"+{'a' * 41}+{HASH}/_",
            f"=a/+a+{HASH.upper()}",
        ),
        *(f"+%C3%A+{HASH}/_", f"+a.b+{HASH}/_", f"+a+{HASH}", "=" + "x" * 198 + "%/" + "x" * 199 + "%/" + "x" * 80 + "/_"),
        *("=a/_/", "=a//_", "=a%/b/_", "=a b/_", "=é/_", "=%ED%A0%BD%/_", "=" + "x" * 200 + "/_", "=%FF/_", "=%C0%80/_"),
    ),
)
def test_forms_that_are_not_ours(rest: str) -> None:
    assert names_of(THREADS + rest) is None


def test_names_too_long_for_a_ref_are_cut_and_those_of_trees_refused() -> None:
    assert (
        ref_of("日" * 200, "y" * 400)
        == f"{THREADS}+{'%E6%97%A5' * 4}%E6+{digest('%E6%97%A5' * 200)}/+{'y' * 40}+{digest('y' * 400)}"
    )
    assert not cut(ref_of("x" * 396, "y" * 297)) and cut(ref_of("x" * 399, "")) and cut(ref_of("", "y" * 300))
    one = names_of(ref_of("x" * 500, ""))
    assert one is not None and one[0] != str(one[0]) and str(one[0]) != one[0] and len({*one, str(one[0])}) == 3
    assert names_of(ref_of("x" * 500, ""), "y" * 500, "x" * 499) == one != ("x" * 500, "")
    assert names_of(ref_of("x" * 500, ""), "x" * 500) == ("x" * 500, "")
    with pytest.raises(UsageError, match=r"^name 'é?.*' has 6000 bytes in its encoded form; the limit is 4000$"):
        tree_name("é" * 1000)
    assert names_of(THREADS + "=" + "x" * 4000 + "/_") is None


@pytest.mark.deep
def test_git_holds_all_of_them_side_by_side(repo: Sandbox) -> None:
    pairs = [(name, "") for name in NAMES] + [("t", name) for name in NAMES] + [(name, name) for name in NAMES[:60]]
    refs = {ref_of(*names): names for names in pairs}
    refs |= {late_ref(*names): names for names in refs.values()}
    assert len(refs) > 250 and {("x" * 3000, ""), ("t", "x" * 3000)} <= {*refs.values()}
    head = repo.head()
    repo.git("update-ref", "--stdin", stdin="".join(f"create {ref} {head}\n" for ref in refs).encode())
    listed = repo.git("for-each-ref", "--format=%(refname)", "refs/baton/").split("\n")
    assert {ref: whole(ref, *NAMES) for ref in listed} == refs
    for ref in [*refs][:: len(refs) // 40]:
        repo.git("check-ref-format", ref)
    repo.git("pack-refs", "--all")
    assert len(repo.git("for-each-ref", "refs/baton/").split("\n")) == len(refs)
