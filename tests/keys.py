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


def keys(seed: int = 0) -> dict[str, tuple[str, str]]:
    """By name: a text with one secret, and the part of it that must not survive."""
    m = Maker(seed)
    bare = {
        "aws-key": "AK" + "IA" + m.of(UPPER, 16),
        "aws-session": "AS" + "IA" + m.of(UPPER, 16),
        "anthropic": "sk-" + "ant-api03-" + m.of(URL, 93) + "AA",
        "openai": "sk-" + m.of(ALNUM, 20) + "T3Blbk" + "FJ" + m.of(ALNUM, 20),
        "openai-project": "sk-" + "proj-" + m.of(URL, 120),
        "openai-service": "sk-" + "svcacct-" + m.of(URL, 80),
        "google": "AI" + "za" + m.of(URL, 34) + "x",
        "google-oauth": "GOC" + "SPX-" + m.of(URL, 28),
        "github": "gh" + "p_" + m.of(ALNUM, 36),
        "github-server": "gh" + "s_" + m.of(ALNUM, 36),
        "github-fine": "github" + "_pat_" + m.of(ALNUM, 22) + "_" + m.of(ALNUM, 59),
        "gitlab": "gl" + "pat-" + m.of(URL, 20),
        "gitlab-runner": "gl" + "rt-" + m.of(URL, 20),
        "huggingface": "hf" + "_" + m.of(LETTERS, 34),
        "digitalocean": "do" + "p_v1_" + m.of(HEX, 64),
        "shopify": "shp" + "at_" + m.of(HEX, 32),
        "databricks": "da" + "pi" + m.of(HEX, 32),
        "linear": "lin" + "_api_" + m.of(ALNUM, 40),
        "notion": "ntn" + "_" + m.of(ALNUM, 46),
        "vault": "hv" + "s." + m.of(URL, 90),
        "docker": "dckr" + "_pat_" + m.of(URL, 27),
        "grafana": "gl" + "sa_" + m.of(ALNUM, 32) + "_" + m.of(HEX, 8),
        "doppler": "dp" + ".pt." + m.of(ALNUM, 43),
        "planetscale": "pscale" + "_tkn_" + m.of(ALNUM, 43),
        "sentry": "sntr" + "yu_" + m.of(HEX, 64),
        "newrelic": "NR" + "AK-" + m.of(UPPER, 27),
        "telegram": "123456" + "7890:" + "AA" + m.of(URL, 32) + "x",
        "discord": "M" + m.of(ALNUM, 23) + "." + m.of(URL, 6) + "." + m.of(ALNUM, 27),
        "slack": "xox" + "b-" + "123456789012-" + "1234567890123-" + m.of(ALNUM, 24),
        "slack-app": "xa" + "pp-1-" + m.of(UPPER, 11) + "-1234567890123-" + m.of(HEX, 64),
        "slack-hook": "https://hooks."
        + "slack.com/services/T"
        + m.of(UPPER, 9)
        + "/B"
        + m.of(UPPER, 9)
        + "/"
        + m.of(ALNUM, 24),
        "stripe": "sk" + "_live_" + m.of(ALNUM, 24),
        "stripe-restricted": "rk" + "_live_" + m.of(ALNUM, 99),
        "stripe-hook": "wh" + "sec_" + m.of(ALNUM, 32),
        "twilio": "S" + "K" + m.of(HEX, 32),
        "sendgrid": "S" + "G." + m.of(URL, 21) + "x." + m.of(URL, 42) + "x",
        "mailgun": "ke" + "y-" + m.of(HEX, 32),
        "mailchimp": m.of(HEX, 32) + "-u" + "s12",
        "square": "sq0" + "csp-" + m.of(URL, 42) + "x",
        "npm": "np" + "m_" + m.of(ALNUM, 36),
        "pypi": "py" + "pi-AgEIcHlwaS5vcmc" + m.of(URL, 120),
        "jwt": m.jwt(),
        "pem": m.pem(),
        "openssh": m.pem("OPENSSH "),
        "pem-plain": m.pem("", 3),
        "pem-cut": m.pem("EC ", 2, end=False),
        "pem-escaped": m.pem("", 4).replace("\n", "\\n"),
        "azure": m.of(URL, 3) + "8" + "Q~" + m.of(ALNUM, 34),
    }
    found = {name: (text, text) for name, text in bare.items()}
    secret, word = m.of(BASE64, 40), m.of(ALNUM, 14)
    account = m.of(BASE64, 86) + "=="
    sig = m.of(ALNUM, 43) + "%3D"
    basic = base64.b64encode(f"u:{word}".encode()).decode()
    return found | {
        "aws-secret": (f"aws_secret_access_key = {secret}", secret),
        "azure-storage": ("DefaultEndpointsProtocol=https;AccountName=a;Account" + f"Key={account};EndpointSuffix=x", account),
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
