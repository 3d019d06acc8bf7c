"""Made-up keys of many vendors, put together when they are asked for, and strings that only look like keys."""

from __future__ import annotations

import base64
import json
import random
import string

LETTERS = string.ascii_letters
ALNUM = LETTERS + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits
URL = ALNUM + "-_"
BASE64 = ALNUM + "+/"


class Maker:
    """Random words, the same for the same seed, that hold digits and are no words of a language."""

    def __init__(self, seed: int = 0) -> None:
        self.random = random.Random(seed)

    def of(self, alphabet: str, size: int) -> str:
        """So many characters, with a letter first and a digit among them where the alphabet has any."""
        text = "".join(self.random.choices(alphabet, k=size - 2))
        letters = [char for char in alphabet if char.isalpha()]
        digits = [char for char in alphabet if char.isdigit()] or letters
        return self.random.choice(letters) + text + self.random.choice(digits)

    def jwt(self) -> str:
        """A signed token."""
        parts = ({"alg": "HS" + "256", "typ": "JWT"}, {"sub": self.of(HEX, 12), "iat": 1516239022})
        return ".".join([*(self._base64(json.dumps(part).encode()) for part in parts), self.of(URL, 43)])

    def pem(self, kind: str = "RSA ", lines: int = 6, *, end: bool = True) -> str:
        """A private key in armour."""
        body = "\n".join(self.of(BASE64, 64) for _ in range(lines))
        dashes = "-" * 5
        head = f"{dashes}BEGIN {kind}PRIVATE" + f" KEY{dashes}\n{body}"
        return f"{head}\n{dashes}END {kind}PRIVATE KEY{dashes}" if end else head

    def _base64(self, data: bytes) -> str:
        return base64.urlsafe_b64encode(data).decode().rstrip("=")


# Name, what the key begins with (in two pieces, so that none stands in this file), alphabet and number of characters.
_PLAIN: tuple[tuple[str, tuple[str, str], str, int], ...] = (
    ("aws-key", ("AK", "IA"), UPPER, 16),
    ("aws-session", ("AS", "IA"), UPPER, 16),
    ("anthropic", ("sk-", "ant-api03-"), URL, 95),
    ("openai-project", ("sk-", "proj-"), URL, 120),
    ("openai-service", ("sk-", "svcacct-"), URL, 80),
    ("google", ("AI", "za"), URL, 35),
    ("google-oauth", ("GOC", "SPX-"), URL, 28),
    ("github", ("gh", "p_"), ALNUM, 36),
    ("github-server", ("gh", "s_"), ALNUM, 36),
    ("github-fine", ("github", "_pat_"), ALNUM + "_", 82),
    ("gitlab", ("gl", "pat-"), URL, 20),
    ("gitlab-runner", ("gl", "rt-"), URL, 20),
    ("gitlab-registration", ("gl", "rtr-"), URL, 20),
    ("heroku", ("HRKU", "-AA"), URL, 58),
    ("figma", ("fi", "gd_"), ALNUM, 40),
    ("buildkite", ("bk", "ua_"), HEX, 40),
    ("netlify", ("nf", "p_"), ALNUM, 40),
    ("sonar", ("sq", "p_"), HEX, 40),
    ("contentful", ("CF", "PAT-"), URL, 43),
    ("tavily", ("tv", "ly-dev-"), ALNUM, 32),
    ("elevenlabs", ("s", "k_"), HEX, 48),
    ("huggingface", ("hf", "_"), LETTERS, 34),
    ("digitalocean", ("do", "p_v1_"), HEX, 64),
    ("shopify", ("shp", "at_"), HEX, 32),
    ("databricks", ("da", "pi"), HEX, 32),
    ("linear", ("lin", "_api_"), ALNUM, 40),
    ("notion", ("ntn", "_"), ALNUM, 46),
    ("vault", ("hv", "s."), URL, 90),
    ("docker", ("dckr", "_pat_"), URL, 27),
    ("doppler", ("dp", ".pt."), ALNUM, 43),
    ("planetscale", ("pscale", "_tkn_"), ALNUM, 43),
    ("sentry", ("sntr", "yu_"), HEX, 64),
    ("newrelic", ("NR", "AK-"), UPPER, 27),
    ("telegram", ("123456", "7890:AA"), URL, 33),
    ("slack", ("xox", "b-123456789012-1234567890123-"), ALNUM, 24),
    ("slack-app", ("xa", "pp-1-A0123456789-1234567890123-"), HEX, 64),
    ("slack-hook", ("https://hooks.", "slack.com/services/T012345678/B012345678/"), ALNUM, 24),
    ("stripe", ("sk", "_live_"), ALNUM, 24),
    ("stripe-restricted", ("rk", "_live_"), ALNUM, 99),
    ("stripe-hook", ("wh", "sec_"), ALNUM, 32),
    ("twilio", ("S", "K"), HEX, 32),
    ("mailgun", ("ke", "y-"), HEX, 32),
    ("square", ("sq0", "csp-"), URL, 43),
    ("npm", ("np", "m_"), ALNUM, 36),
    ("pypi", ("py", "pi-AgEIcHlwaS5vcmc"), URL, 120),
    ("groq", ("gs", "k_"), ALNUM, 52),
)


def keys(seed: int = 0) -> dict[str, tuple[str, str]]:
    """By name: a text with one secret, and the part of it that must not survive."""
    m = Maker(seed)
    found = {name: "".join(begin) + m.of(alphabet, size) for name, begin, alphabet, size in _PLAIN}
    found |= {
        "openai": "sk-" + m.of(ALNUM, 20) + "T3Blbk" + "FJ" + m.of(ALNUM, 20),
        "grafana": "gl" + "sa_" + m.of(ALNUM, 32) + "_" + m.of(HEX, 8),
        "discord": "M" + m.of(ALNUM, 23) + "." + m.of(URL, 6) + "." + m.of(ALNUM, 27),
        "sendgrid": "S" + "G." + m.of(URL, 22) + "." + m.of(URL, 43),
        "mailchimp": m.of(HEX, 32) + "-u" + "s12",
        "azure": m.of(URL, 3) + "8" + "Q~" + m.of(ALNUM, 34),
        "jwt": m.jwt(),
        "pem": m.pem(),
        "openssh": m.pem("OPENSSH "),
        "pem-plain": m.pem("", 3),
        "pem-cut": m.pem("EC ", 2, end=False),
        "pem-escaped": m.pem("", 4).replace("\n", "\\n"),
    }
    return {name: (text, text) for name, text in found.items()} | _said(m)


def _said(m: Maker) -> dict[str, tuple[str, str]]:
    """Secrets that their surroundings give away."""
    secret, word, account = m.of(BASE64, 40), m.of(ALNUM, 14), m.of(BASE64, 86) + "=="
    sig, basic = m.of(ALNUM, 43) + "%3D", base64.b64encode(f"u:{word}".encode()).decode()
    return {
        "aws-secret": (f"aws_secret_access_key = {secret}", secret),
        "azure-storage": (f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={account};EndpointSuffix=x", account),
        "azure-sas": (f"https://a.blob.core.windows.net/c/b?sv=2022-11-02&se=2030-01-01&sig={sig}", sig),
        "google-service": (json.dumps({"type": "service_account", "private_key": m.pem("", 5)}), "PRIVATE KEY"),
        "url": (f"psql postgres://admin:{word}@db.internal:5432/app", word),
        "url-at": (f"https://deploy:{word}@@x.example.org/r.git", word),
        "curl": (f"curl -sS -u admin:{word} https://x.example.org/", word),
        "bearer": (f"curl -H 'Authorization: Bearer {secret}' https://x.example.org", secret),
        "basic": (f"Authorization: Basic {basic}", basic),
        "password": (f"the password is set: password={word} as before", word),
        "password-prose": (f"log in with password: {word}, then go on", word),
        "password-json": (json.dumps({"user": "x", "password": word}), word),
        "password-yaml": (f"  DB_PASSWORD: '{word}'\n  DB_HOST: db", word),
        "token": (f"export SERVICE_TOKEN={secret}", secret),
        "api-key": (f'api_key = "{secret}"', secret),
        "option": (f"tool login --password {word} --user x", word),
        "environ": (f'os.environ["API_KEY"] = "{secret}"', secret),
    }
