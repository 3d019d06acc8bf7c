"""Long texts without their middle: what stays is whole sentences, tables and fences, and the last paragraph."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from gitbaton.base.codec.words import GAP, middle
from tests.kit.tables import each

SENTENCE = "The parser reads one line of the file and keeps it."
LAST = "Shall I go on with the printer?"
FENCE = "```\n" + "\n".join(f"row {n} of a fence. It goes on" for n in range(12)) + "\n```"
TABLE = "\n".join(f"| cell {n}. | another |" for n in range(16))


def points(count: int, begin: int = 0) -> str:
    return "\n".join(f"- point {n} of a list that is long" for n in range(begin, begin + count))


def test_a_short_text_is_whole() -> None:
    assert middle(f"  {SENTENCE}\n\n{LAST}\n") == f"{SENTENCE}\n\n{LAST}"
    assert middle("x" * 850) == "x" * 850, "as long as what would stay of it"


def test_the_beginning_and_the_end_stay_at_the_ends_of_lines() -> None:
    text = f"# Heading\n\n{points(80)}\n\n{LAST}"
    found = middle(text, head=250, tail=600)
    before, after = found.split(f"\n{GAP}\n")
    assert before == f"# Heading\n\n{points(7)}" and text.startswith(before)
    assert text.endswith(after) and after.endswith(LAST) and after.startswith("- point ")
    assert len(before) <= 250 and 500 < len(after) <= 600


def test_between_two_sentences_of_a_long_line() -> None:
    before, after = middle(" ".join([SENTENCE] * 40)).split(f"\n{GAP}\n")
    assert before == " ".join([SENTENCE] * 4) and after == " ".join([SENTENCE] * 11)


def test_lines_that_are_wrapped_are_no_ends_of_sentences() -> None:
    wrapped = SENTENCE.replace("of the file", "of the\nfile")
    before, after = middle("\n".join([wrapped] * 40)).split(f"\n{GAP}\n")
    assert before.endswith("keeps it.") and after.startswith("The parser")


def test_the_last_paragraph_is_whole_where_it_has_room() -> None:
    last = "What is left:\n" + points(23)
    assert 600 < len(last) <= 850
    found = middle(f"{SENTENCE}\n\n{points(60)}\n\n{last}")
    assert found == f"{SENTENCE}\n{GAP}\n{last}"


@each("block", [FENCE, TABLE])
def test_a_table_or_a_fence_is_there_whole_or_not_at_all(block: str) -> None:
    for lines in range(12):
        for more in range(30):
            text = f"{points(lines)}\n\n{block}\n\n{points(more, 100)}\n\n{block}\n{points(lines, 50)}\n\n{SENTENCE}"
            for part in middle(text).split(f"\n{GAP}\n"):
                kept = part.count(block)
                assert part.replace(block, "").count(block[:3]) == 0, part
                assert kept <= 2


def test_one_that_alone_is_too_long_is_cut_at_a_line_or_a_word() -> None:
    rows = "```\n" + "\n".join(f"line {n}" for n in range(500)) + "\n```"
    gap, *after = middle(rows).split("\n")
    assert gap == GAP and after == rows.split("\n")[-len(after) :] and len(after) > 50, (
        "no beginning of a fence without its end"
    )
    assert set(middle("word " * 500).split()) == {"word", GAP}
    assert len(middle("8 " + "x" * 5000 + " 9")) == len(middle("x" * 5000)), "most of the room is used"
    assert len(middle("x" * 5000)) == 250 + 600 + len(GAP) + 2


@given(
    st.lists(
        st.sampled_from([SENTENCE, "", "- a point", "```", "| a | b |", "wrapped without", "an end", "x" * 300, "e.g. this. "])
    ),
    st.integers(0, 300),
    st.integers(1, 700),
)
@example([SENTENCE] * 30, 0, 10)
def test_it_is_never_longer_and_what_stays_stood_there(rows: list[str], head: int, tail: int) -> None:
    text = "\n".join(rows).strip()
    found = middle(text, head, tail)
    assert len(found) <= max(head + tail + len(GAP) + 2, 1)
    if found != text:
        before, _, after = found.rpartition(GAP)
        assert text.startswith(before.strip()) and text.endswith(after.strip("\n"))
        assert middle(found, head, tail) == found
