"""Redaction as a pure thing: keys of many vendors go, what only looks like one stays, and twice is once."""

from __future__ import annotations

import base64
import json
import re
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitbaton.base.errors import UsageError
from gitbaton.base.model import Checkpoint, Observed, Prompt
from gitbaton.base.secrets import Redacted, Redactor, SecretMatch, differences, told
from gitbaton.base.secrets.context import CONTEXT
from gitbaton.base.secrets.redactor import rows
from gitbaton.base.secrets.rules import CONTEXT_WORDS, LONG, RULES, compiled
from gitbaton.base.secrets.shipped import SHIPPED
from gitbaton.base.values import replace
from tests.kit import rules
from tests.kit.checkpoints import WHEN
from tests.kit.keys import ALNUM, BASE64, Maker, keys
from tests.kit.lookalikes import lookalikes
from tests.kit.tables import each

ON = Redactor()
PLACEHOLDER = re.compile(r"\[redacted:[a-z][a-z0-9-]+\]")
KEYS = keys()
FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
PIECES = st.sampled_from(
    [text for text, _ in keys(3).values()]
    + [
        "password=",
        "token: ",
        '"',
        "'",
        "\\",
        "\n",
        " ",
        "://u:",
        "@h",
        "[redacted:",
        "[redacted:aws-key]",
        "curl -u ",
        "é",
        "\U0001f511",
    ]
    + ["-----BEGIN ", "{", "}", "Bearer ", "=", ":", "&x=", "sk-", "\\n", "%3D", "x" * 20]
)
LEAVES = st.none() | st.booleans() | st.integers()
WORDS = st.lists(PIECES | st.text(max_size=8), max_size=8).map("".join)
JSON = st.recursive(LEAVES | WORDS, lambda x: st.lists(x, max_size=3) | st.dictionaries(WORDS, x, max_size=3), max_leaves=6)


@pytest.mark.deep
@each("name", KEYS)
def test_a_key_goes(name: str) -> None:
    for seed in range(4):
        text, secret = keys(seed)[name]
        for around in ("{}", "see {} there", "x: ({}).", '"{}"', "a\n{}\nb", "echo '\\n{}'"):
            done = ON.text(around.format(text))
            assert secret not in done and PLACEHOLDER.search(done), (around, text)
        if text == secret:
            assert PLACEHOLDER.fullmatch(ON.text(text)), text


def test_only_the_secret_goes() -> None:
    word = Maker().of(ALNUM, 12)
    assert (
        ON.text(f"psql postgres://me:{word}@db:5432/app -c x") == "psql postgres://me:[redacted:url-password]@db:5432/app -c x"
    )
    assert ON.text(f"curl -u me:{word} https://x") == "curl -u me:[redacted:password] https://x"
    assert ON.text(f"password={word} and more") == "password=[redacted:password] and more"
    assert ON.text(f"GET /x?token={word}&page=2") == "GET /x?token=[redacted:token]&page=2"
    assert ON.text("ak: AK" + f"IA{'Q7' * 8}, eu-west-1") == "ak: [redacted:aws-key], eu-west-1"


def test_passwords_as_people_write_them() -> None:
    word = "hunT" + "3r2x"
    for text in (
        "password is {}",
        "pw={}",
        "DB_PASS={}",
        "<password>{}</password>",
        'password="{} a!"',
        "docker login -u a -p {}",
    ):
        assert word not in ON.text(text.format(word)), text
    for text in (
        'passphrase: "correct horse battery {}"',
        "IDENTIFIED BY '{}'",
        "mysql -u root -p{} db",
        "Set-Cookie: sid=0123456789{}",
    ):
        assert word not in ON.text(text.format(word)), text
    for text in ('password="[redacted:password]"', "password is [redacted:token]", "pw: '[redacted:aws-key] x'"):
        assert ON.text(text) == text


def test_passwords_with_signs_in_them() -> None:
    word = "k0D|zDF2" + "WF[~=D*;q"
    for text in ("password = '{}'", 'DB_PASSWORD="{}"', "x --password '{}'"):
        assert ON.text(text.format(word)) == text.format("[redacted:password]"), text
    for mixed in (word, "i>rF0v," + "qW1e^T>'x", "(Rb1=" + "OcW{+;rh:"):
        raw = json.dumps({"password": mixed, "a": 1}).encode()
        assert ON.line(raw) == b'{"password": "[redacted:password]", "a": 1}'
        assert ON.assigned("db.password", mixed) == "[redacted:password]"
        assert Redactor("on", (re.escape(mixed),)).assigned("db.password", mixed) == mixed
    for text in (
        'password = "{user}:{name}2!"',
        "password=$_POST['a']",
        "secret := corev1.Secret{}",
        "identified by 'alice'",
        "signing key: 4AEE18F83AFDEB23",
        "/etc/passwd:root:x:0:0",
        "pytest --db postgres://postgres:postgres@localhost:5432/t",
    ):
        assert ON.text(text) == text


def test_a_name_before_the_name_hides_nothing() -> None:
    word = Maker().of(ALNUM, 12)
    for text in ("the key is DB_PASSWORD={}, use it", "secret: token: {}", "key: password='{}'", "--token --password={}"):
        assert word not in ON.text(text.format(word)), text


def test_credentials_of_files_of_tools() -> None:
    word, pem = Maker().of(ALNUM, 14), KEYS["pem"][0]
    both = base64.b64encode(f"me:{word}".encode()).decode()
    for text, secret in (
        (f"machine h.example login me password {word}", word),
        (f"localhost:5432:db:me:{word}", word),
        (f"redis-cli -h x -a {word} ping", word),
        (f'"auths": {{"r.example": {{"auth": "{both}"}}}}', both),
        (f"client-key-data: {base64.b64encode(pem.encode()).decode()}", base64.b64encode(pem.encode()).decode()[20:60]),
        (json.dumps({"a": json.dumps({"b": json.dumps({"password": word})})}), word),
    ):
        assert secret not in ON.text(text) and secret not in ON.line(json.dumps({"out": text}).encode()).decode(), text
    harmless = base64.b64encode(pem.replace("RSA PRIVATE" + " KEY", "CERTIFICATE").encode()).decode()
    assert ON.text(f"ca-data: {harmless}") == f"ca-data: {harmless}"


def test_colours_hide_nothing() -> None:
    key = KEYS["github"][0]
    for text in (
        f"\x1b[31m{key}\x1b[0m",
        f"\x1b[01;31m\x1b[K{key[:4]}\x1b[m\x1b[K{key[4:]}",
        f"\x1b[2;37m{KEYS['npm'][0]}\x1b[0m",
    ):
        for done in (ON.text(text), ON.line(json.dumps({"a": text}).encode()).decode(), ON.line(text.encode()).decode()):
            assert key[4:] not in done and KEYS["npm"][0] not in done and "[redacted:" in done
        assert len(ON.find(text.encode(), sure=True)) == 1
    assert ON.text(f"\x1b[1m{key}\x1b[0m ok") == "\x1b[1m[redacted:github-token]\x1b[0m ok"


def test_what_only_looks_like_a_key_stays() -> None:
    assert len(lookalikes()) >= 300
    assert [(text, ON.text(text)) for text in lookalikes() if ON.text(text) != text] == []
    assert [text for text in lookalikes() if ON.find(text, sure=True)] == []
    whole = "\n".join(lookalikes())
    assert ON.text(whole) == whole


def test_zeros_in_base64_are_no_key_however_many() -> None:
    text = f"zeros: {base64.b64encode(bytes(120_000)).decode()} end"
    assert ON.text(text) == text


def test_sure_is_for_formats_and_not_for_words() -> None:
    unsure = {"password", "password-prose", "password-json", "password-yaml", "token", "api-key", "option", "environ"}
    unsure |= {"jwt", "url", "url-at", "curl", "bearer", "basic"}
    found = {name for name, (text, _) in KEYS.items() if ON.find(text.encode(), sure=True)}
    assert found == KEYS.keys() - unsure


def test_places_in_bytes_are_bytes() -> None:
    key = KEYS["github"][0]
    raw = "schlüssel: ".encode() + b"\xff\x00 " + key.encode() + b" \xfe"
    (found,) = ON.find(raw, sure=True)
    assert (found.kind, raw[found.start : found.end]) == ("github-token", key.encode())
    assert ON.find(f"é {key}", sure=False) == [SecretMatch(kind="github-token", start=2, end=2 + len(key))]


@FEW
@given(WORDS)
def test_twice_is_once_and_placeholders_stay(text: str) -> None:
    once = ON.text(text)
    assert ON.text(once) == once and ON.find(once, sure=False) == []
    assert bool(ON.find(text, sure=False)) == (once != text)


@pytest.mark.deep
@FEW
@given(JSON, st.booleans())
def test_a_line_of_json_stays_one(value: object, plain: bool) -> None:
    raw = json.dumps(value, ensure_ascii=plain).encode("utf-8", "surrogatepass") + b"\n"
    if "\ud800" <= max(json.dumps(value, ensure_ascii=False), default="") <= "\udfff" and not plain:
        return
    done = ON.line(raw)
    assert done.count(b"\n") == 1 and done.endswith(b"\n") and ON.line(done) == done
    assert type(json.loads(done)) is type(value)
    assert _shape(json.loads(done)) == _shape(value) or isinstance(value, dict)
    if not PLACEHOLDER.search(done.decode("utf-8", "surrogatepass")):
        assert done is raw


def _shape(value: object) -> object:
    """What redaction must not change: everything but strings."""
    if isinstance(value, list):
        return [_shape(item) for item in value]
    if isinstance(value, dict):
        return [_shape(item) for item in value.values()]
    return "" if isinstance(value, str) else value


@FEW
@given(st.binary(max_size=60), WORDS, st.sampled_from([b"", b"\n", b"\r\n"]))
def test_any_line_stays_one(noise: bytes, text: str, end: bytes) -> None:
    raw = (noise + text.encode("utf-8", "surrogateescape" if text.isascii() else "replace")).replace(b"\n", b" ") + end
    done = ON.line(raw)
    assert done.count(b"\n") == raw.count(b"\n") and ON.line(done) == done
    assert done == raw or b"[redacted:" in done


def test_a_line_knows_names_escapes_and_json_within_json() -> None:
    word = Maker().of(ALNUM, 12)
    inner = json.dumps({"password": word, "n": 1})
    raw = json.dumps({"tool": inner, "password": word, "usage": {"input_tokens": 12345678}, "token": None}).encode()
    inner = json.dumps({"password": "[redacted:password]", "n": 1})
    wanted = {"tool": inner, "password": "[redacted:password]", "usage": {"input_tokens": 12345678}, "token": None}
    assert ON.line(raw) == json.dumps(wanted).encode()
    for named in (["x", "--password", word, "y"], [{"name": "DB_PASSWORD", "value": word}, {"name": "a", "value": "b"}]):
        assert ON.line(json.dumps(named).encode()) == json.dumps(named).replace(word, "[redacted:password]").encode()
    key = KEYS["github"][0]
    assert ON.line(f'{{"a": "caf\\u00e9 \\u{ord(key[0]):04x}{key[1:]} \\/ x"}}'.encode()) == (
        rb'{"a": "caf\u00e9 [redacted:github-token] \/ x"}'
    )
    assert ON.line(json.dumps({"a": KEYS["pem"][0]}).encode()) == b'{"a": "[redacted:private-key]"}'
    assert ON.line(b"not json: " + key.encode() + b"\n") == b"not json: [redacted:github-token]\n"


def test_every_rule_is_behind_its_words() -> None:
    """What a pattern matches holds one of its needles: else the cheap look would hide it."""
    for kind, needles, pattern, _ in (*RULES, *SHIPPED):
        plain = re.sub(r"^\(\?i\)", "", pattern)
        for needle in needles:
            assert needle == needle.lower() or "(?i" not in plain, kind
    texts = [text for seed in range(6) for text, _ in keys(seed).values()]
    for place, (_, needles, pattern, _) in enumerate((*RULES, *SHIPPED)):
        assert all(place in rows(text) for text in texts if compiled(pattern).search(text)), needles
    assert len(CONTEXT) == len(CONTEXT_WORDS)
    for (pattern, _), needles in zip(CONTEXT, CONTEXT_WORDS, strict=True):
        matched = [text for text in texts if compiled(pattern).search(text)]
        assert all(any(needle in text.lower() for needle in needles) for text in matched), needles
    assert min(len(keys(seed)["discord"][0]) for seed in range(9)) >= LONG


def test_the_librarys_rules_are_the_librarys() -> None:
    assert rules.TARGET.read_text() == rules.generated()
    kinds = {take.kind for take in rules.DECIDED.values() if isinstance(take, rules.Take)}
    assert kinds == {kind for kind, _, _, _ in SHIPPED}
    assert rules.bounded(r"a+[+*]\+b*[^]+]{3,}") == r"a{1,256}[+*]\+b{0,256}[^]+]{3,1024}"


def test_nothing_repeats_without_an_end() -> None:
    for pattern in [*(pattern for _, _, pattern, _ in (*RULES, *SHIPPED)), *(pattern for pattern, _ in CONTEXT)]:
        assert rules.bounded(pattern) == pattern


@pytest.mark.full
def test_long_odd_text_takes_no_long_time() -> None:
    ON.find("\n".join(text for text, _ in KEYS.values()), sure=False)
    needles = {needle for row in (*(row[1] for row in (*RULES, *SHIPPED)), *CONTEXT_WORDS) for needle in row}
    odd = [
        "a",
        "-",
        "=",
        "password=",
        "a://a:",
        "a:b@",
        "-----BEGIN PRIVATE" + " KEY-----",
        "eyJaaaaaaaaaaaaa.",
        "xox" + "b-1-",
        "curl -u ",
        "token:",
        "\x1b[31m",
    ]

    def seconds(seed: str, size: int) -> float:
        text = (seed * (size // len(seed) + 1))[:size]
        begun = time.process_time()
        ON.find(text, sure=False)
        return time.process_time() - begun

    def slow(seed: str) -> bool:
        """Eight times the text takes about eight times as long: 64 times where a rule tries every end for every start."""
        return all(seconds(seed, 65536) > 24 * min(seconds(seed, 8192) for _ in range(3)) for _ in range(5))

    assert [seed for seed in sorted(needles | set(odd)) if slow(seed)] == []


def test_modes_and_the_allow_list() -> None:
    text, key = "password=" + Maker().of(ALNUM, 12), KEYS["github"][0]
    assert Redactor("off").text(text) == text and Redactor("off").find(key, sure=True) == []
    assert Redactor("off").line(text.encode()) == text.encode()
    random = Maker(5).of(BASE64, 60)
    assert ON.text(f"x {random} y") == f"x {random} y"
    assert Redactor("strict").text(f"x {random} y") == "x [redacted:entropy] y"
    assert Redactor("strict").text("4f2c9e1d7b" * 4) == "4f2c9e1d7b" * 4
    assert Redactor("on", ("gh" + "p_.*", "no")).text(f"{text} {key}") == f"password=[redacted:password] {key}"
    assert Redactor("on", (key[:20],)).text(key) == "[redacted:github-token]"
    with pytest.raises(UsageError, match=re.escape("baton.redactAllow is '(x'; ")):
        Redactor("on", ("(x",))


def test_what_holds_no_secret_is_the_very_same_value() -> None:
    asked = tuple(Prompt(text=f"prompt {n}", at=WHEN) for n in range(3))
    seen = Observed(asked=asked, edited=("a", "b"))
    assert ON.observed(seen) is seen
    told = replace(seen, asked=(*asked, Prompt(text="export GITHUB_TOKEN=" + "ghp_" + "a1B2" * 9, at=WHEN)))
    found = ON.observed(told)
    assert found is not told and found.asked[:3] == asked and "[redacted:" in found.asked[3].text
    assert found.asked[0] is asked[0] and ON.observed(found) is found


def test_a_checkpoint_is_redacted_word_by_word() -> None:
    key, word = KEYS["github"][0], Maker().of(ALNUM, 12)
    c = Checkpoint(
        track="t",
        created=WHEN,
        step=key,
        note=f"a {key} b",
        next_cmd=f"curl -u x:{word} y",
        decisions=(key, "plain"),
        label=key,
        extra=(("db.password", word), ("k", key)),
    )
    done = ON.checkpoint(c)
    here = "[redacted:github-token]"
    assert (done.step, done.note, done.decisions, done.label) == (here, f"a {here} b", (here, "plain"), here)
    assert done.extra == (("db.password", "[redacted:password]"), ("k", here))
    named = replace(c, step="x", extra=((key, "a"), ("redacted.github-token", "b"), (f"x-{key}", "c"), ("y", "d")))
    names = ["redacted.github-token.2", "redacted.github-token", "redacted.github-token.3", "y"]
    assert [pair[0] for pair in ON.checkpoint(named).extra] == names and key not in told(
        differences(named, ON.checkpoint(named))
    )
    plain = replace(c, step="x", note="", next_cmd="", decisions=(), label=None, extra=())
    assert ON.checkpoint(plain) is plain and ON.checkpoint(done) is done and Redactor("off").checkpoint(c) is c
    said = differences(c, done)
    assert said[2] == Redacted(field="next_cmd", kind="password") and len(said) == 7
    assert told(said[:2]) == "redacted 2 secrets: step (github-token), note (github-token)"


@pytest.mark.deep
@FEW
@given(st.lists(WORDS | JSON.map(json.dumps), max_size=6))
def test_many_lines_are_judged_as_each_alone(lines: list[str]) -> None:
    raw = "\n".join(lines).encode("utf-8", "surrogatepass")
    for redact in (Redactor(), Redactor("strict"), Redactor("off")):
        alone = [(number, line, redact.line(line)) for number, line in enumerate(raw.split(b"\n"), 1)]
        assert [*redact.lines(raw)] == [(number, line, new) for number, line, new in alone if new != line]


@pytest.mark.deep
@FEW
@given(st.lists(WORDS, max_size=6))
def test_many_texts_are_judged_as_each_alone(texts: list[str]) -> None:
    for redact in (Redactor(), Redactor("strict"), Redactor("off")):
        for _ in range(2):  # the second time they are known
            assert redact.leaves({*texts}) == all(Redactor(redact.mode).text(text) == text for text in texts)


@pytest.mark.deep
@FEW
@given(st.lists(WORDS, max_size=6), st.lists(WORDS, max_size=6))
def test_a_file_that_is_not_suspected_holds_no_key(first: list[str], second: list[str]) -> None:
    redact = Redactor()
    files = ["\n".join(words).encode("utf-8", "surrogatepass") for words in (first, second, [*first, *second])]
    for data in files:
        if not redact.suspects([data]):
            assert not redact.find(data, sure=True)
    assert redact.suspects(files) or not any(redact.find(data, sure=True) for data in files)


@pytest.mark.deep
@each("name", KEYS)
def test_a_key_in_a_later_version_of_a_file_is_suspected(name: str) -> None:
    text = KEYS[name][0]
    redact = Redactor()
    assert not redact.suspects([b"one\ntwo\nthree"])
    data = f"one\n{text}\nthree".encode()
    assert redact.suspects([data]) or not redact.find(data, sure=True)
    assert redact.suspects([data, data + b"\nfour"]) or not redact.find(data, sure=True), "and always is"
