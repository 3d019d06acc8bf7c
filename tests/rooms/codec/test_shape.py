"""Shapes of records: what is told from them without reading a record is what reading it gives."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base import model
from gitbaton.base.codec import canonical, decode, document, encode
from gitbaton.base.codec.shape import texts_in
from gitbaton.base.errors import RecordError
from gitbaton.base.model import Agent, Checkpoint, ClientPlan, Observed, PlanItem, Prompt, Standing, Stored, Turn
from gitbaton.base.secrets import Redactor
from gitbaton.base.values import replace
from gitbaton.care.scanning.objects import is_clean
from gitbaton.checkpoints.render import exported_json
from tests.kit.checkpoints import CHECKPOINTS, OID, WHEN
from tests.kit.tables import each

ON = Redactor()
KEY = "AKIA" + "QWERTYUIOPASDFG7"
LINE = re.compile(rb'(?m)^( *(?:"[^"\\]*": )?)("(?:[^"\\\n]|\\.)*"|[0-9]+)(?=,?$)')
PLAN = ClientPlan(agent="claude", session="s", changed=WHEN, items=(PlanItem(text="item", state="open"),), title="plan")
RUN = model.TestRun(command="make", result="failed", names=("t::a", "t::b"), ended=WHEN, edited=("e.py",), lacks="a word")
SEEN = Observed(plans=(PLAN,), tests=(RUN,), edited=("f.py",), asked=(Prompt(text="go", at=WHEN, about="it"),), turns=3)
MUCH = Checkpoint(
    track="main",
    step="a step",
    note="a note",
    next_cmd="make",
    decisions=("one", "two"),
    label="name",
    branch="side",
    head=OID,
    created=WHEN,
    agent=Agent(name="claude", session="s", transcript=None, model="m"),
    observed=SEEN,
    standing=Standing(note="kept", last=2),
    turn=Turn(began=OID, edited=("g.py",)),
)


def stored(raw: bytes) -> Stored:
    return Stored(id=OID, commit=OID, base=None, tree=OID, raw=raw, checkpoint=decode(raw))


def told_otherwise(raw: bytes, value: bytes) -> list[bytes]:
    """The same record with each of its texts and numbers as another one, each time one."""
    return [raw[: m.start(2)] + value + raw[m.end(2) :] for m in LINE.finditer(raw)]


def hold(raw: bytes) -> bool:
    """Hold what is told of bytes against what reading and writing them gives; whether anything is."""
    texts = texts_in(raw)
    if texts is None:
        return False
    try:
        c = decode(raw)
    except RecordError:
        return True  # it is not read then, and so never comes so far
    assert canonical(document(c)) == raw
    s = stored(raw)
    if is_clean(ON, s):
        assert ON.checkpoint(c) == c and ON.text(c.track) == c.track and ON.text(c.branch or "") == (c.branch or "")
    assert exported_json(s, written=True) == exported_json(s)
    return True


@pytest.mark.full
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHECKPOINTS, st.sampled_from([b'"x"', b'""', b'"\\n"', b'"\\u0041"', b"0", b"00", b"7", b'"' + KEY.encode() + b'"']))
def test_any_record_is_told_as_it_is_read(c: Checkpoint, value: bytes) -> None:
    hold(encode(c))
    hold(encode(replace(c, extra=())))
    for other in told_otherwise(encode(replace(c, extra=())), value):
        hold(other)
    assert texts_in(encode(c)) is None or not c.extra


@pytest.mark.deep
def test_a_record_of_a_known_shape_is_told_by_its_shape() -> None:
    raw = encode(MUCH)
    assert hold(raw), "it is known now"
    values = ('"x"', '"a \\"b\\" \\\\n\\tc"', '""', '"\\u0041"', '"\\/"', "0", "7", "007", "-1", '"\u00e9"', '"\u202e"', "null")
    held = [hold(other) for value in values for other in told_otherwise(raw, value.encode())]
    assert 100 < sum(held) < len(held), "those with other texts of the same form, and not with other forms"


@each(
    "name, raw",
    {
        "a key of a later version": encode(MUCH).replace(b'  "previous"', b'  "later": "x",\n  "previous"'),
        "a key twice": encode(MUCH).replace(b'  "note"', b'  "note": "x",\n  "note"'),
        "keys in another order": encode(MUCH).replace(
            b'"label": "name",\n  "kind": "manual"', b'"kind": "manual",\n  "label": "name"'
        ),
        "another margin": encode(MUCH).replace(b'    "one"', b'     "one"'),
        "an escape that is not needed": encode(MUCH).replace(b"a note", b"a\\u0020note"),
        "a control character": encode(MUCH).replace(b"a note", b"a\x7fnote"),
        "no UTF-8": encode(MUCH).replace(b"a note", b"a\xffnote"),
        "a path in other characters": encode(replace(MUCH, branch="caf\udce9")),
        "pairs": encode(replace(MUCH, extra=(("a", "b"),))),
        "nothing": b"",
    }.items(),
)
def test_nothing_is_told_of_other_bytes(name: str, raw: bytes) -> None:
    assert texts_in(encode(MUCH)) is not None
    assert texts_in(raw) is None, name


def planted() -> dict[str, Checkpoint]:
    """Checkpoints with a secret, each in another field that is redacted."""
    o, said = SEEN, Prompt(text=KEY, at=WHEN)
    fields: dict[str, dict[str, Any]] = {
        "step": {"step": KEY},
        "note": {"note": f"first\n{KEY}"},
        "next_cmd": {"next_cmd": f"x --password {KEY}"},
        "decision": {"decisions": ("one", KEY)},
        "label": {"label": KEY},
        "branch": {"branch": KEY},
        "model": {"agent": Agent(name="claude", session="s", transcript=None, model=KEY)},
        "plan": {"observed": replace(o, plans=(replace(PLAN, title=KEY),))},
        "item": {"observed": replace(o, plans=(replace(PLAN, items=(PlanItem(text=KEY, state="open"),)),))},
        "test": {"observed": replace(o, tests=(replace(RUN, names=("t::a", KEY)),))},
        "command": {"observed": replace(o, tests=(replace(RUN, command=f"a \\ {KEY}"),))},
        "prompt": {"observed": replace(o, asked=(said,))},
        "path": {"observed": replace(o, edited=(f"{KEY}.py",))},
        "standing": {"standing": Standing(note=KEY, last=2)},
        "turn": {"turn": Turn(began=OID, edited=(KEY,))},
        "an id's place": {"step": KEY, "created": WHEN + timedelta(days=1)},
    }
    return {name: replace(MUCH, **more) for name, more in fields.items()}


@each("name", planted())
def test_a_secret_in_a_record_of_a_known_shape_is_seen(name: str) -> None:
    raw = encode(planted()[name])
    assert is_clean(ON, stored(encode(MUCH))), "the shape is known, and its texts are"
    assert texts_in(raw) is not None and not is_clean(ON, stored(raw))
    assert is_clean(Redactor("off"), stored(raw)), "where redaction is off, it may be told"
