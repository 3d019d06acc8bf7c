"""Writes gitbaton/base/secrets/shipped.py anew from the rules of detect-secrets: ``python -m tests.kit.rules``.

Each of its patterns is decided on here: taken, or left with a reason. A version of the library that brings others does not
pass before somebody has decided on those, too.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any, NamedTuple

from gitbaton.base.secrets.rules import BEGIN, END
from tests.kit.places import PACKAGE

TARGET = PACKAGE / "base" / "secrets" / "shipped.py"
LIBRARY = "detect_secrets"
_HEADER = '''"""Rules of detect-secrets {version}, made by ``python -m tests.kit.rules`` and not by hand.

Copyright Yelp, Inc.; they are used under the Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0. What is changed:
quantifiers are bounded, groups that are not the secret do not capture, and some patterns must not begin or end within a word.
The form is that of ``rules.py``.
"""

ENTROPY = {entropy}
SHIPPED: tuple[tuple[str, tuple[str, ...], str, bool], ...] = (
'''


class Take(NamedTuple):
    """A pattern that is taken: the placeholder's word, its needles, whether nothing but a secret looks like it; ``edges``: it
    must stand as a word; ``only``: the part that is the secret."""

    kind: str
    needles: tuple[str, ...]
    sure: bool = True
    edges: bool = False
    only: str = ""


_WIDER = "rules.py has it wider: the library's ends before today's keys do, and would leave the rest"
_OURS = "context.py has it: only with what says that it is a value, and only the value goes"
_HEAD_ONLY = "it matches the first line and would leave the key itself; rules.py takes the whole block"
_SUBSET = "the rule for URLs with a password finds it"

DECIDED: dict[tuple[str, int], Take | str] = {
    ("ArtifactoryDetector", 0): Take("artifactory-key", ("AKC",), only="AKC[a-zA-Z0-9]{10,}"),
    ("ArtifactoryDetector", 1): "any word of capitals that begins with AP and a letter up to F is one",
    ("AWSKeyDetector", 0): Take("aws-key", ("A3T", "ABIA", "ACCA", "AKIA", "ASIA"), edges=True),
    ("AWSKeyDetector", 1): "object ids in quotes near the word aws are such; rules.py wants an assignment",
    ("AzureStorageKeyDetector", 0): Take("azure-storage-key", ("AccountKey=",), only="[a-zA-Z0-9+\\/=]{88}"),
    ("BasicAuthDetector", 0): "it takes digests of images, too; context.py knows them",
    ("CloudantDetector", 0): _OURS,
    ("CloudantDetector", 1): "24 letters after a blank are a word",
    ("CloudantDetector", 2): _SUBSET,
    ("CloudantDetector", 3): _SUBSET,
    ("DiscordBotTokenDetector", 0): _WIDER,
    ("GitHubTokenDetector", 0): _WIDER,
    ("GitLabTokenDetector", 0): Take("gitlab-token", ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-")),
    ("GitLabTokenDetector", 1): Take("gitlab-token", ("GR1348941",)),
    ("GitLabTokenDetector", 2): Take("gitlab-token", ("glcbt-",)),
    ("GitLabTokenDetector", 3): Take("gitlab-token", ("glimt-",)),
    ("GitLabTokenDetector", 4): Take("gitlab-token", ("glptt-",)),
    ("GitLabTokenDetector", 5): Take("gitlab-token", ("glagent-",)),
    ("GitLabTokenDetector", 6): Take("gitlab-token", ("gloas-",)),
    ("IbmCloudIamDetector", 0): _OURS,
    ("IbmCosHmacDetector", 0): _OURS,
    ("IPPublicDetector", 0): "an address is no secret",
    ("JwtTokenDetector", 0): "it needs a decoder to tell tokens from dotted words; rules.py asks for two parts of JSON",
    ("MailchimpDetector", 0): Take("mailchimp-key", ("-us",), edges=True),
    ("NpmDetector", 0): _WIDER,
    ("OpenAIDetector", 0): Take("openai-key", ("T3BlbkFJ",)),
    **{("PrivateKeyDetector", number): _HEAD_ONLY for number in range(8)},
    ("PypiTokenDetector", 0): Take("pypi-token", ("pypi-AgEIcHlwaS5vcmc",)),
    ("PypiTokenDetector", 1): Take("pypi-token", ("pypi-AgENdGVzdC5weXBpLm9yZw",)),
    ("SendGridDetector", 0): Take("sendgrid-key", ("SG.",), edges=True),
    ("SlackDetector", 0): Take("slack-token", ("xoxa-", "xoxb-", "xoxp-", "xoxo-", "xoxs-", "xoxr-")),
    ("SlackDetector", 1): Take("slack-webhook", ("hooks.slack.com",)),
    ("SoftlayerDetector", 0): _OURS,
    ("SoftlayerDetector", 1): Take("softlayer-key", ("api.softlayer.com",), only="([a-z0-9]{64})"),
    ("SquareOAuthDetector", 0): Take("square-token", ("sq0csp-",)),
    ("StripeDetector", 0): _WIDER,
    ("TelegramBotTokenDetector", 0): "a time with a slug behind it is one; rules.py knows how the second half begins",
    ("TwilioKeyDetector", 0): Take("twilio-key", ("AC",), sure=False, edges=True),
    ("TwilioKeyDetector", 1): Take("twilio-key", ("SK",), edges=True),
}


def patterns() -> dict[tuple[str, int], re.Pattern[str]]:
    """Every pattern of the library's, by its detector and place."""
    plugins = importlib.import_module(f"{LIBRARY}.plugins")
    base: Any = importlib.import_module(f"{LIBRARY}.plugins.base")
    found: dict[tuple[str, int], re.Pattern[str]] = {}
    for info in pkgutil.iter_modules(plugins.__path__):
        module = importlib.import_module(f"{LIBRARY}.plugins.{info.name}")
        for name, kind in vars(module).items():
            ours = isinstance(kind, type) and issubclass(kind, base.RegexBasedDetector) and kind.__module__ == module.__name__
            if ours and kind is not base.RegexBasedDetector:
                found |= {(name, number): pattern for number, pattern in enumerate(kind.denylist)}
    return found


def bounded(pattern: str) -> str:
    """The pattern with an end to every quantifier."""
    result, inside, last = [], False, 0
    for match in re.finditer(r"\\.|\{(\d+),\}|.", pattern, re.DOTALL):
        piece = match.group()
        if not inside and piece in ("*", "+"):
            piece = "{0,256}" if piece == "*" else "{1,256}"
        elif not inside and match.group(1):
            piece = f"{{{match.group(1)},1024}}"
        elif piece == "[" and not inside:
            inside, last = True, match.end() + pattern.startswith("^", match.end())
        elif piece == "]" and match.start() > last:
            inside = False
        result.append(piece)
    return "".join(result)


def converted(pattern: re.Pattern[str], take: Take) -> str:
    """A pattern of the library's in our form."""
    text = re.sub(r"(?<!\\)\((?!\?)", "(?:", pattern.pattern)
    if take.only:
        only = re.sub(r"(?<!\\)\((?!\?)", "(?:", take.only)
        assert text.count(only) == 1, (text, only)
        text = text.replace(only, f"({only})")
    text = bounded(text)
    if pattern.flags & re.IGNORECASE:
        text = f"(?i:{text})"
    return f"{BEGIN}(?:{text}){END}" if take.edges else text


def generated() -> str:
    """What shipped.py must hold. Raises LookupError for patterns that nobody has decided on, or that are gone."""
    found = patterns()
    if odd := sorted(found.keys() ^ DECIDED.keys()):
        raise LookupError(f"decide on {odd} in {__name__}")
    version = importlib.import_module(f"{LIBRARY}.__version__").VERSION
    entropy: Any = importlib.import_module(f"{LIBRARY}.plugins.high_entropy_strings")
    rows = []
    for key, take in DECIDED.items():
        if isinstance(take, Take):
            text = converted(found[key], take)
            quote = '"' if '"' not in text else '"""'
            needles = ", ".join(f'"{needle}"' for needle in take.needles) + ("," if len(take.needles) == 1 else "")
            fields = (f'"{take.kind}"', f"({needles})", f"r{quote}{text}{quote}", str(take.sure))
            rows.append("    (\n" + "".join(f"        {field},\n" for field in fields) + "    ),\n")
    limit = entropy.Base64HighEntropyString().entropy_limit
    return _HEADER.format(version=version, entropy=limit) + "".join(rows) + ")\n"


if __name__ == "__main__":
    TARGET.write_text(generated(), encoding="utf-8")
