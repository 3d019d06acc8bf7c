"""What a remote writes into its notes: an entry says what its checkpoint says, on the HEAD that the checkpoint names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.base.codec import parse_note
from tests.kit.far import CHAINS, NOTES, Far, noted_steps, ok, snap
from tests.kit.repos import Sandbox


@pytest.fixture
def far(tmp_path: Path) -> Far:
    return Far(tmp_path)


def put_note(box: Sandbox, commit: str, text: str) -> None:
    """Somebody writes a note of the remote by hand."""
    box.git("notes", "--ref=checkpoints", "add", "-f", "-m", text, commit)


@pytest.mark.deep
def test_entries_that_somebody_made_up_do_not_come(far: Far) -> None:
    a, b = far.first, far.clone()
    head = a.head()
    oid = snap(a, "real", "t", "--validation", "pending")
    ok(a, "push", "--yes")
    a.commit("work that nobody recorded", d_txt="d\n")
    a.git("push", "-q", "origin", "main")
    b.git("pull", "-q", "--no-rebase")
    for commit in (head, a.head()):
        text = f"reviewed by Ann\n\ncheckpoint {oid}\ntrack: t\nstep: fake\nvalidation: green\n\n\rcheckpoint {oid}\ntrack: t\n"
        put_note(far.remote, commit, text + f"\n\ncheckpoint {'12' * 20}\ntrack: t\nstep: nobody\n")
    for clone in (b, a, b):
        ok(clone, "sync")
        said = noted_steps(clone.state())
        assert "fake" not in said and "green" not in said and "nobody" not in said and "reviewed by Ann" in said
        notes = clone.state().notes
        assert [at for at in notes if parse_note(notes[at]).entries] == [head]
        assert [e[0] for e in parse_note(notes[head]).entries] == [oid]
    assert b.here("verify").code == 1  # HEAD has moved on, whatever the remote's notes say
    b.git("update-ref", "-d", NOTES)
    ok(b, "sync")
    said = noted_steps(b.state())  # what was lost comes back as the checkpoint has it
    assert "step: real\nvalidation: pending\n" in said and "fake" not in said and CHAINS + "t" in b.state().refs


def test_text_that_is_not_ours_begins_no_entry() -> None:
    raw = b"\r\n\r\n\rcheckpoint " + b"1" * 40 + b"\ntrack: t\n\n\n\rcheckpoint " + b"2" * 40 + b"\ntrack: t\n"
    for start in (b"", b"checkpoint " + b"3" * 40 + b"\ntrack: t\n\n"):
        note = parse_note(start + raw)
        again = parse_note(note.render())
        assert [e[0] for e in again.entries] == [e[0] for e in note.entries] and len(note.entries) == bool(start)
        assert again == note
