"""Secrets known by their surroundings: URLs with a password, credentials of a command, ``password = ...``."""

from __future__ import annotations

import re

from gitbaton.base.secrets.rules import compiled

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Judge = Callable[[re.Match[str]], str]

# What is not the secret itself: a variable, a template, a placeholder, a call, a type.
_STANDS_FOR = (
    r"\$\{[^}]{0,200}\}?|\$\{\{.{0,200}|\$\(.{0,200}|\$env:\w{1,100}|\$[A-Za-z_]\w{0,100}(?:[\[(:-].{0,200})?|\$[0-9@*?#!$]|%\w{1,100}%|%[-\w]{0,4}s|%\(\w{1,100}\)s|"
    r"\{\{?.{0,200}|<[^>]{0,200}>?|&(?:amp;)?lt;.{0,200}|\[[A-Za-z_ -]{0,100}\]?|\(.{0,200}|"
    r"(?:[\w-]{0,20}[-_.])?[xX*.#_?\u2022-]{3,200}|"
    r"(?:process\.env|os\.environ|os\.getenv|env|secrets?|vault|ref\+\w{1,20}|op|keyring|config|settings|self|this|args|opts?)(?:\.|:|\[).{0,200}|"
    r"\w[\w.]{0,100}(?:[(\[].{0,400}|\{\d{0,3})|[A-Za-z_.]{1,40}[)}\]].{0,400}|!\w.{0,100}|--.{0,100}"
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
    r"required|missing|expired|postgres|mysql|guest|invalid|disabled|enabled|unknown|default|prompt|hidden|sha\d{1,3}|md5|hs256|rs256|v?\d{1,4}(?:\.\d{1,4}){1,3}"
)
_NAME = (
    r"_{0,2}[A-Za-z]?[a-z]{1,20}(?:[A-Z][a-z]{1,20}|_[a-z0-9]{1,20}){0,6}[0-9]{0,2}|"
    r"[A-Z]{2,20}(?:_[A-Z0-9]{1,20}){0,6}"
)
_KEY_ID = r"[0-9A-F]{8}|[0-9A-F]{16}|[0-9A-F]{40}"  # of a key of GnuPG's
_NUMBER = r"[0-9a-f]{16,512}"  # no name of a thing, though it may have no digit, or nothing else
_MIXED = r"(?=.*[A-Za-z])(?=.*[0-9]).{6,512}"
_FEW_WORDS = r"(?=.*[0-9!@#$%^&*+])\S{1,64}(?: \S{1,64}){1,2}"
_SIGNS = r"[^\s.]*[!@#^*~?&%+=;|][^\s]*"
_CODE = (
    r"\{\w{0,60}\}|\$[{(]|\{\{|[<%]\w{1,60}[>%]|"
    r"%[-\w]{0,4}s|%\(|\]\(|\w\(.{0,100}\)|A-Z|a-z|0-9|\\|\(\?|process\.|env\.|=>|::|redacted"
)
_CHAIN = r"[&*!$]{0,2}[A-Za-z_]\w{0,40}(?:[!?]{0,2}\.[A-Za-z_]\w{0,40}){1,6}[!?]?"
_DELIVERED = ("postgres", "mysql", "root", "guest", "admin", "test", "user", "app")
_WORD = r"[A-Za-z]{1,200}(?:-[A-Za-z]{1,200}){0,20}"


def _is(pattern: str, text: str) -> bool:
    return compiled(pattern).fullmatch(text) is not None


def harmless(text: str, *, quoted: bool = False) -> bool:
    """Whether a value stands for a secret that it is not: a variable, a template, a row of x, a documented example."""
    return bool((_is(_STANDS_FOR, text) and not _strong(text, quoted)) or compiled(_SAYS_SO).search(text))


def named(key: str, text: str) -> str:
    """Return the kind of a value that is a secret as a whole, by what it is called: signs in it end it nowhere. Else empty."""
    name = compiled(rf".{{0,200}}?({_NAMES})").fullmatch(key)
    if name is None:
        return ""
    kind = _kind(name.group(1).lower())
    before = key[: name.start(1)][-12:]
    if (name.group(1).lower() == "key" and not _is(_BEFORE_KEY, before)) or (
        name.group(1).lower() == "pass" and before[-1:].isalnum()
    ):
        return ""
    return kind if _strong(text, kind == "password") and not compiled(_SAYS_SO).search(text) else ""


def _strong(text: str, quoted: bool) -> bool:
    """Whether a value with brackets and signs in it is a password as generators make them, and no piece of code."""
    if not 8 <= len(text) <= 128 or not _is(_SIGNS, text) or compiled(_CODE).search(text) or _is(_CHAIN, text):
        return False
    classes = sum(bool(compiled(part).search(text)) for part in ("[a-z]", "[A-Z]", "[0-9]"))
    return classes >= (2 if quoted else 3)


def _assigned(match: re.Match[str]) -> str:
    """Return the kind of what is assigned; empty where it is code, a path or a word of a sentence and no secret."""
    name, quoted = match["name"].lower(), match["quoted"]
    text = quoted or match["bare"]
    kind = _kind(name)
    before = match.string[max(match.start() - 12, 0) : match.start()]
    if (name == "key" and not _is(_BEFORE_KEY, before)) or (match["gap"].isspace() and kind != "password"):
        return ""
    if name in ("pass", "pw") and (before[-1:].isalnum() or not (before[-1:] in ("_", "-") or _is(_MIXED, text))):
        return ""
    if harmless(text, quoted=bool(quoted)) or _is(_KIND_OF_THING, text) or _is(_PATH, text) or _is(_NAMED, text):
        return ""
    if before.endswith("/") and match["gap"] == ":":  # /etc/passwd:root:x
        return ""
    if before.lower().rstrip("_ -").endswith("signing") and _is(_KEY_ID, text):
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
    text, quoted = match["s"], match.string[match.start("s") - 1] in "\"'"
    if harmless(text, quoted=quoted) or _is(_PATH, text) or _is(_NAMED, text) or _is(_KIND_OF_THING, text):
        return ""
    kind = _kind(match["name"].replace("-", "_"))
    return kind if kind == "password" or any(map(str.isdigit, text)) else ""


def _url(match: re.Match[str]) -> str:
    # ``postgres:postgres@localhost`` is what a server comes with, on the machine itself.
    user = match.string[: match.start("s") - 1].rpartition("/")[2]
    host = match.string[match.end("s") + 1 : match.end("s") + 11]
    delivered = user == match["s"] and user in _DELIVERED and host.startswith(("localhost", "127.0.0.1"))
    return "" if harmless(match["s"]) or delivered else "url-password"


def _argument(match: re.Match[str]) -> str:
    return "" if harmless(match["s"]) or match["s"].isdigit() else "password"


def _identified(match: re.Match[str]) -> str:
    said = match.group()[:10].isupper() or (any(map(str.isdigit, match["s"])) and not match["s"].isalpha())
    return _argument(match) if said else ""


def _registry(match: re.Match[str]) -> str:
    """``user:password`` in base64, as clients of registries keep them."""
    from binascii import Error, a2b_base64

    try:
        return "authorization" if b":" in a2b_base64(match["s"]) else ""
    except Error:
        return ""


def _authorization(match: re.Match[str]) -> str:
    text = match["s"]
    return "" if harmless(text) or (text.isalpha() and len(text) < 16) else "authorization"


def _any_case(word: str) -> str:
    """Return a pattern of a word in capitals or not; quicker than (?i), with which there is no set of letters to look for
    first."""
    return "".join(f"[{char}{char.upper()}]" for char in word)


# All begin with a set of letters, and what must stand before ``key`` and ``pass`` is looked at afterwards.
_NAMES = (
    rf"[pPkKsStTcC](?:(?<=[pP])(?:{_any_case('ass')}(?:[wW](?:{_any_case('or')})?[dD]|{_any_case('phrase')}|{_any_case('code')})?"
    rf"|[wW][dD]?)|(?<=[kK]){_any_case('ey')}|(?<=[sS]){_any_case('ecret')}|(?<=[tT]){_any_case('oken')}"
    rf"|(?<=[cC]){_any_case('redential')}[sS]?)"
)
_BEFORE_KEY = r"(?is).*(?:api|app|access|secret|private|auth|encryption|signing|account|shared|master)[_ -]?"
_BARE = r"[^\s\"'`<>,;\\|]"
_ASSIGNED = (
    rf"(?P<name>{_NAMES})(?:\\{{0,7}}[\"'`\])]{{1,3}})?(?P<gap>[ \t]{{0,8}}(?::=|=>|==|=|:(?!:))[ \t]{{0,8}}"
    rf"|>(?=[^<>\s]{{4,200}}</)| (?:is|was):? )"
    rf"(?:\\{{0,7}}(?P<quote>[\"'`])(?P<quoted>[^\n\f\"'`\\]{{5,512}})(?=\\{{0,7}}(?P=quote))"
    rf"|(?P<bare>(?:(?!&\w{{1,40}}=){_BARE}){{4,511}}(?<![.,:)\]}}])))"
)
_OPTION = (
    r"--(?<![\w-]--)[\w-]{0,30}(?P<name>password|passphrase|pass|token|secret|(?:api|access|secret|private)-key)"
    rf"[ =]{{1,4}}[\"']?(?P<s>(?<=[\"'])[^\"'\n\\]{{4,128}}(?=[\"'])|(?!-){_BARE}{{4,512}})"
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
    r"[aA](?:uthorization|UTHORIZATION)[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?(?i:bearer|basic|token|apikey|digest|ssws)\s{1,4}"
    r"(?P<s>[A-Za-z0-9+/=._~-]{6,4096})"
)
_BEARER = r"[Bb]earer\s{1,4}(?P<s>(?=[A-Za-z+/=_~-]{0,64}[0-9.])[A-Za-z0-9+/=._~-]{20,4096})"

_NETRC = r"machine\s{1,8}\S{1,253}\s{1,8}login\s{1,8}\S{1,128}\s{1,8}password\s{1,8}(?P<s>[^\s\"']{3,256})"
_PGPASS = r":(?:5432|5433|6432):[\w*.-]{1,63}:[\w*.-]{1,63}:(?P<s>[^\s\"'/]{4,128})"
_REDIS = r"redis-cli\b[^\n|;]{0,200}?\s-a\s{1,4}[\"']?(?P<s>(?!-)[^\s\"']{4,128})"
_REGISTRY = r"[\"']auth\\{0,7}[\"']\s{0,4}:\s{0,4}\\{0,7}[\"'](?P<s>[A-Za-z0-9+/]{12,2048}={0,2})(?=\\{0,7}[\"'])"

CONTEXT: tuple[tuple[str, Judge], ...] = (
    (_URL, _url),
    (_URL_USER, _url),
    (_CURL, _argument),
    (_MYSQL, _argument),
    (_SSHPASS, _argument),
    (_LOGIN, _argument),
    (_IDENTIFIED, _identified),
    (_COOKIE, lambda match: "" if harmless(match["s"]) else "cookie"),
    (_AUTHORIZATION, _authorization),
    (_BEARER, _authorization),
    (_NETRC, _argument),
    (_PGPASS, _argument),
    (_REDIS, _argument),
    (_REGISTRY, _registry),
    (_OPTION, _option),
    (_ASSIGNED, _assigned),
)
