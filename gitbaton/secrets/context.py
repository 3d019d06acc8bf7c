"""Secrets that only their surroundings give away: URLs with a password, credentials of a command, ``password = ...``."""

from __future__ import annotations

import re

from gitbaton.secrets.patterns import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Judge = Callable[[re.Match[str]], str]

# What is not the secret itself: a variable, a template, a placeholder, a call, a type.
_STANDS_FOR = (
    r"\$\{[^}]{0,200}\}?|\$\{\{.{0,200}|\$\(.{0,200}|\$env:\w{1,100}|\$[A-Za-z_]\w{0,100}|\$[0-9@*?#!$]|%\w{1,100}%|%[-\w]{0,4}s|%\(\w{1,100}\)s|"
    r"\{\{?.{0,200}|<[^>]{0,200}>?|&(?:amp;)?lt;.{0,200}|\[[A-Za-z_ -]{0,100}\]?|\(.{0,200}|"
    r"(?:[\w-]{0,20}[-_.])?[xX*.#_?\u2022-]{3,200}|"
    r"(?:process\.env|os\.environ|os\.getenv|env|secrets?|vault|ref\+\w{1,20}|op|keyring|config|settings|self|this|args|opts?)(?:\.|:|\[).{0,200}|"
    r"\w[\w.]{0,100}[(\[].{0,400}|[A-Za-z_.]{1,40}[)}\]].{0,400}|!\w.{0,100}|--.{0,100}"
)
_SAYS_SO = r"(?i)example|change[-_]?me|placeholder|dummy|(?:your|my|insert|replace|enter)[-_ .]|redacted|x{6}|\*{3}"
_PATH = (
    r"(?:~|\.{1,2}|[A-Za-z]:)?(?:[/\\][\w.@%+-]{1,40}){1,20}[/\\]?|"
    r"[\w.-]{1,40}\.(?:txt|json|ya?ml|toml|pem|key|env|md|py|js|ts|sh)"
)
_DOTTED = r"[A-Za-z_]\w{0,30}(?:\.[A-Za-z_]\w{0,30}){1,6}"
_NAMED = r"(?i)[A-Z_.$-]{0,60}(?:passw(?:or)?d|passphrase|pwd|secret|token|key|credentials?)[A-Z_.-]{0,60}[0-9]?"
_KIND_OF_THING = (
    r"(?i)u?int\d*|float\d*|bytes\d*|string|str|char\d*|varchar|bool(?:ean)?|true|false|none|null|nil|undefined|optional|"
    r"required|missing|expired|invalid|disabled|enabled|unknown|default|prompt|hidden|sha\d{1,3}|md5|hs256|rs256|v?\d{1,4}(?:\.\d{1,4}){1,3}"
)
_NAME = (
    r"_{0,2}[A-Za-z]?[a-z]{1,20}(?:[A-Z][a-z]{1,20}|_[a-z0-9]{1,20}){0,6}[0-9]{0,2}|"
    r"[A-Z]{2,20}(?:_[A-Z0-9]{1,20}){0,6}"
)
_NUMBER = r"[0-9a-f]{16,512}"  # no name of a thing, though it may have no digit, or nothing else
_MIXED = r"(?=.*[A-Za-z])(?=.*[0-9]).{6,512}"
_FEW_WORDS = r"(?=.*[0-9!@#$%^&*+])\S{1,64}(?: \S{1,64}){1,2}"
_WORD = r"[A-Za-z]{1,200}(?:-[A-Za-z]{1,200}){0,20}"


def _is(pattern: str, text: str) -> bool:
    return compiled(pattern).fullmatch(text) is not None


def harmless(text: str) -> bool:
    """Whether a value stands for a secret that it is not: a variable, a template, a row of x, a documented example."""
    return bool(_is(_STANDS_FOR, text) or compiled(_SAYS_SO).search(text))


def _assigned(match: re.Match[str]) -> str:
    """The kind of what is assigned; empty where it is code, a path or a word of a sentence and no secret."""
    name, quoted = match["name"].lower(), match["quoted"]
    text = quoted or match["bare"]
    kind = _kind(name)
    before = match.string[max(match.start() - 12, 0) : match.start()]
    if (name == "key" and not _is(_BEFORE_KEY, before)) or (match["gap"].isspace() and kind != "password"):
        return ""
    if name in ("pass", "pw") and (before[-1:].isalnum() or not (before[-1:] in ("_", "-") or _is(_MIXED, text))):
        return ""
    if harmless(text) or _is(_KIND_OF_THING, text) or _is(_PATH, text) or _is(_NAMED, text):
        return ""
    if " " in text and (kind != "password" or (name != "passphrase" and not _is(_FEW_WORDS, text))):
        return ""
    if kind == "password":
        return kind if _password_like(text, bool(quoted), match["gap"]) else ""
    digits = sum(map(str.isdigit, text))
    if _is(_NUMBER, text):
        return kind
    if text.isdigit() or (not digits and (not quoted or len(text) < 16)):
        return ""
    if not quoted and (_is(_DOTTED, text) or _is(_NAME, text)):
        return ""
    return kind if len(text) >= 8 else ""


def _password_like(text: str, quoted: bool, gap: str) -> bool:
    """Passwords are shorter than tokens and may be words; in a sentence, a mere word is none."""
    if quoted:
        return len(text) >= 5
    if _is(_DOTTED, text):
        return False
    if _is(_WORD, text):
        return gap == "=" and len(text) >= 8
    return not text.isdigit() or len(text) >= 6


def _kind(name: str) -> str:
    if name.endswith("key"):
        return "api-key"
    if "secret" in name or "credential" in name:
        return "secret"
    return "token" if name.endswith("token") else "password"


def _option(match: re.Match[str]) -> str:
    text = match["s"]
    if harmless(text) or _is(_PATH, text) or _is(_NAMED, text) or _is(_KIND_OF_THING, text):
        return ""
    kind = _kind(match["name"].replace("-", "_"))
    return kind if kind == "password" or any(map(str.isdigit, text)) else ""


def _url(match: re.Match[str]) -> str:
    return "" if harmless(match["s"]) else "url-password"


def _argument(match: re.Match[str]) -> str:
    return "" if harmless(match["s"]) or match["s"].isdigit() else "password"


def _cookie(match: re.Match[str]) -> str:
    return "" if harmless(match["s"]) else "cookie"


def _authorization(match: re.Match[str]) -> str:
    text = match["s"]
    return "" if harmless(text) or (text.isalpha() and len(text) < 16) else "authorization"


def _any_case(word: str) -> str:
    """A pattern of a word in capitals or not; quicker than (?i), with which there is no set of letters to look for first."""
    return "".join(f"[{char}{char.upper()}]" for char in word)


# All begin with a set of letters, and what must stand before ``key`` and ``pass`` is looked at afterwards.
_NAMES = (
    rf"[pPkKsStTcC](?:(?<=[pP])(?:{_any_case('ass')}(?:[wW](?:{_any_case('or')})?[dD]|{_any_case('phrase')}|{_any_case('code')})?"
    rf"|[wW][dD]?)|(?<=[kK]){_any_case('ey')}|(?<=[sS]){_any_case('ecret')}|(?<=[tT]){_any_case('oken')}"
    rf"|(?<=[cC]){_any_case('redential')}[sS]?)"
)
_BEFORE_KEY = r"(?is).*(?:api|access|secret|private|auth|encryption|signing|account|shared|master)[_ -]?"
_BARE = r"[^\s\"'`<>,;\\|]"
_ASSIGNED = (
    rf"(?P<name>{_NAMES})(?:\\?[\"'`\])]{{1,3}})?(?P<gap>[ \t]{{0,8}}(?::=|=>|==|=|:(?!:))[ \t]{{0,8}}"
    rf"|>(?=[^<>\s]{{4,200}}</)| (?:is|was):? )"
    rf"(?:\\{{0,3}}(?P<quote>[\"'`])(?P<quoted>[^\n\f\"'`\\]{{5,512}})(?=\\{{0,3}}(?P=quote))"
    rf"|(?P<bare>(?:(?!&\w{{1,40}}=){_BARE}){{4,511}}(?<![.,:)\]}}])))"
)
_OPTION = (
    r"--(?<![\w-]--)[\w-]{0,30}(?P<name>password|passphrase|pass|token|secret|(?:api|access|secret|private)-key)"
    rf"[ =]{{1,4}}[\"']?(?P<s>(?!-){_BARE}{{4,512}})"
)
_URL = r"://[^\s:@/\"'<>?#\\]{0,128}:(?P<s>[^\s/\"'<>?#\\]{1,256})@(?!sha256:|sha512:)(?=[\w\[$%{.-])"
_URL_USER = r"://(?P<s>[A-Za-z0-9_-]{20,128}):(?:x-oauth-basic)?@"
_CURL = r"curl\b[^\n|;]{0,200}?\s(?:-u|--(?:proxy-)?user)[ =]?[\"']?[^\s:\"'$]{0,128}:(?P<s>[^\s\"']{2,256})"
_MYSQL = r"mysql(?:dump|admin)?\b[^\n|;]{0,200}?\s-p(?P<s>[^\s\"']{4,128})"
_SSHPASS = r"sshpass\s{1,4}-p\s{0,4}[\"']?(?P<s>[^\s\"']{4,128})"
_LOGIN = r"login\b[^\n|;]{0,100}?\s-p[ =]{1,4}[\"']?(?P<s>(?!-)[^\s\"']{4,128})"
_IDENTIFIED = r"[iI](?:dentified|DENTIFIED)\s{1,4}(?i:with\s{1,4}\w{1,40}\s{1,4})?(?i:by)\s{1,4}[\"'](?P<s>[^\"'\s]{4,128})"
_COOKIE = r"[cC]ookie[\"']?:\s{0,4}[\"']?[\w.-]{1,64}=(?P<s>(?=[A-Za-z%+/=._-]{0,64}[0-9])[A-Za-z0-9%+/=._-]{16,4096})"
_AUTHORIZATION = (
    r"[aA](?:uthorization|UTHORIZATION)[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?(?i:bearer|basic|token|apikey|digest)\s{1,4}"
    r"(?P<s>[A-Za-z0-9+/=._~-]{6,4096})"
)
_BEARER = r"[Bb]earer\s{1,4}(?P<s>(?=[A-Za-z+/=_~-]{0,64}[0-9.])[A-Za-z0-9+/=._~-]{20,4096})"

CONTEXT: tuple[tuple[str, Judge], ...] = (
    (_URL, _url),
    (_URL_USER, _url),
    (_CURL, _argument),
    (_MYSQL, _argument),
    (_SSHPASS, _argument),
    (_LOGIN, _argument),
    (_IDENTIFIED, _argument),
    (_COOKIE, _cookie),
    (_AUTHORIZATION, _authorization),
    (_BEARER, _authorization),
    (_OPTION, _option),
    (_ASSIGNED, _assigned),
)
