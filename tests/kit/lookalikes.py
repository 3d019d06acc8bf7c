"""Strings that look a little like secrets and are none: what redaction must leave alone."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
import zlib
from pathlib import Path

from tests.kit.keys import ALNUM, BASE64, HEX, UPPER, URL, Maker

# One a line, as people and tools write them.
_LINES = r"""
password=$PASSWORD
password="${DB_PASSWORD}"
password: ${{ secrets.DB_PASSWORD }}
token: ${{ secrets.GITHUB_TOKEN }}
token=$(cat /run/secrets/token)
token=`pass show x`
api_key = os.environ["API_KEY"]
api_key = os.getenv("API_KEY", "")
os.environ["API_KEY"]
apiKey: process.env.API_KEY,
const token = process.env.GITHUB_TOKEN ?? "";
secret = settings.SECRET_KEY
password = self.password
password = getpass.getpass()
password = getpass("Password: ")
token = get_token(user)
token = tokens[i + 1]
token = tokenizer.next_token()
token: str
token: Optional[str] = None
token: string;
password: Mapped[str] = mapped_column(String(255))
def login(user: str, password: str) -> Token:
password = None
password=None, token=None
secret: bytes32
"password": null
"token": ""
"password": {"type": "string", "minLength": 8}
"token_type": "Bearer"
{"input_tokens": 120345, "output_tokens": 4096, "cache_read_input_tokens": 88123}
max_tokens=4096
max_token: 4096
the token: it expires after an hour
password: required
password: <your-password>
password: <redacted>
password=********
password: xxxxxxxx
api_key=YOUR_API_KEY
api_key: your-api-key-here
API_KEY=changeme
token=<token>
secret=%SECRET%
token: {{ .Values.token }}
token: {token}
password: !vault |
password_file: /run/secrets/db
--password-file /run/secrets/x
--password-stdin
--token $TOKEN
--token "$GITHUB_TOKEN"
--secret id=npmrc,src=.npmrc
docker run -u 1000:1000 alpine
docker run --user nobody:nogroup alpine
chown user:group file
curl -u "$USER:$PASS" https://example.com
curl -fsSL https://example.com/install.sh | sh
curl -H "Authorization: Bearer $TOKEN" https://example.com
Authorization: Bearer <token>
Authorization: Bearer ${TOKEN}
use the Authorization: Bearer header
Authorization: Basic authentication is off
git log --author=me@example.com
git clone git@github.com:owner/repo.git
git clone https://github.com/owner/repo.git
git clone ssh://git@host.example.org:22/owner/repo.git
https://host:8080/path@v2
https://user@host.example.org/path
https://example.com/a:b@c
http://localhost:3000/?x=a@b
http://[::1]:8080/x@y
postgres://user:$PGPASSWORD@db/app
postgres://user:${PGPASSWORD}@db/app
postgres://user:<password>@db/app
postgresql://app@db.internal:5432/app
redis://localhost:6379/0
docker://alpine:3.19@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b
image: registry.example.org:5000/team/app@sha256:c5b1261d6d3e43071626931fc004f70149baeba2c8ec672bd4f27761f8e1ad6b
ghcr.io/astral-sh/uv:0.5.11@sha256:2381d6aa60c326b71fd40023f921a0a3b8f91b14d5db6b90402e65a635053709
npm install left-pad@1.3.0
npm:@types/node@22.10.2
pkg:npm/%40angular/core@17.0.0
go get golang.org/x/crypto@v0.31.0
pip install 'typer>=0.27,<0.29'
uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683
uses: actions/setup-python@v5
ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl me@example.org
ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQC7vbqajDRNX1WlXnYk0i6kQGk0T4pU5K8 user@host
-----BEGIN PUBLIC KEY-----
-----BEGIN CERTIFICATE-----
-----BEGIN PRIVATE KEY----- is the first line of the file
grep -r "BEGIN RSA PRIVATE KEY" .
PuTTY-User-Key-File-2 is the format of the key
id_rsa.pub and ~/.ssh/id_ed25519.pub
key: value
key-value store
primary_key=True
sort_key: created_at
cache-key: linux-build-v3-4f2c
public_key: MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
access_key_id: null
private_key_path=/etc/ssl/private/server.key
secret_key_base: <%= ENV["SECRET_KEY_BASE"] %>
secrets: inherit
secretName: tls-example
tokenize: true
tokens: 12
token_count=123456
csrf_token = form.csrf_token
nextToken: undefined
"pageToken": "string"
bearerFormat: JWT
credentials: include
credentials: 'same-origin'
credential.helper=store
git config credential.helper osxkeychain
passwd: files systemd
PWD=/home/user/src/project
OLDPWD=/tmp/x
pass=12 fail=0
passed: 1234, failed: 0
by-pass: true
tests pass: 4182
assert password == expected_password
if token == other_token:
token := r.Header.Get("X-Token")
password := os.Getenv("PGPASSWORD")
String password = System.getenv("DB_PASSWORD");
private final String token;
let secret = await vault.read("secret/data/app");
export GITHUB_TOKEN
unset AWS_SECRET_ACCESS_KEY
aws configure get aws_access_key_id
AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY}
arn:aws:iam::123456789012:role/deploy-role-for-production
arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db
sk-learn and sk-image
scikit-learn==1.6.0
task-12345678901234567890 is done
risk-assessment-of-the-whole-migration-plan
desk-proj-layout-for-the-new-office-in-berlin
the hf_hub_download function of huggingface_hub
hf_transfer_enabled_by_default_in_this_release
npm_config_registry_is_not_set_in_this_environment
npm_lifecycle_event
pypi-publish-to-the-test-index
glpat is the prefix of a token of GitLab
ghp_ is the prefix of GitHub's
AKIA is the prefix of a key id
AKIAIOSFODNN7EXAMPLE
aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
sk-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
SG.x.y
eyJ is how base64 of an object begins
eyJhbGciOiJub25lIn0
xoxo from all of us
the dp.state of the planner
whsec_ and rk_live are prefixes
the 1//0 fraction
key-value-pairs-and-other-things
mailchimp is at us12
AC power, SK telecom
2026-11-21T23:34:07.123456Z
1700000000:step-three-of-the-migration-finished-well
12:34:56.789
v1.2.3-rc.1+build.20261121
1.2.3.4
192.168.0.1:8080
#ff00aa #FFF rgba(12, 34, 56, 0.7)
--ff-brand-color: #1a2b3c4d;
ETag: "33a64df551425fcc55e4d42a148795d9f25f89d4"
ETag: W/"0815-17b4c2e1f3a"
/usr/lib/x86_64-linux-gnu/libcrypto.so.3
C:\Users\me\AppData\Local\Programs\Python\Python312\python.exe
~/.cache/pip/http-v2/7/f/2/a/1/7f2a1c5b9e8d4c3b2a190f8e7d6c5b4a39281706f5e4d3c2b1a09f8e
node_modules/.pnpm/@babel+core@7.26.0/node_modules/@babel/core/lib/index.js
src/components/PasswordField.tsx:120:17
tests/test_token.py::TestToken::test_refresh_token[expired-401]
gitbaton/base/secrets/rules.py
refs/baton/transcripts/claude/0b1f7c1e-8a5d-4b7e-9a53-0e1f5f1f2b3c
refs/heads/feature/SECRET-1234-rotate-keys
origin/dependabot/npm_and_yarn/webpack-5.97.1
HEAD detached at 4f2c9e1
git reset --keep 4f2c9e1d7b
diff --git a/x b/y
index 83db48f..bf2a1c9 100644
@@ -12,7 +12,9 @@ def token(self) -> str:
Change-Id: I8f2c1d3b4a5968778695a4b3c2d1e0f9a8b7c6d5
Co-authored-by: A B <a.b@example.org>
Traceback (most recent call last):
KeyError: 'password'
E       AssertionError: assert 'token' in response.json()
InsecureRequestWarning: Unverified HTTPS request
!function(e,t){"use strict";var n=e.token||t.password;return n}(this,{});
const{token:e,password:t}=n;e&&(r.headers.authorization="Bearer "+e)
var a=b?c:d,password=e.password,token=f.token;g(h)
SELECT password_hash, token FROM users WHERE id = 1;
ALTER TABLE users ADD COLUMN password VARCHAR(255);
GRANT ALL ON app.* TO 'app'@'localhost' IDENTIFIED BY PASSWORD;
mysql -u root -p app < dump.sql
mysql --defaults-file=/etc/my.cnf -e "select 1"
sshpass -f /run/secrets/pw ssh host
openssl rand -base64 32
python -c "import secrets; print(secrets.token_hex(16))"
from secrets import token_urlsafe
class TokenBucket: capacity=100, refill_rate=12.5
The secret: we cache the trees.
The password: ask Anna for it.
token: see README.md
The api key: stored in 1Password, vault "Team".
Authorization is done in middleware.py, line 120
decision: tokens live in Redis, keys rotate every 30 days
next: git baton resume --track main
[redacted:aws-key]
password=[redacted:password]
"""


def lookalikes() -> tuple[str, ...]:
    """More than three hundred of them."""
    m = Maker(7)
    source = Path(__file__).read_text(encoding="utf-8")
    sha = [hashlib.new(name, str(n).encode()).hexdigest() for n in range(12) for name in ("sha1", "sha256", "md5")]
    code = [base64.b64encode(source[n : n + 200].encode()).decode() for n in range(0, 3000, 300)]
    packed = base64.b64encode(zlib.compress(source.encode())).decode()
    locks = []
    for n in range(12):
        digest = hashlib.sha512(str(n).encode()).digest()
        locks += [
            f'"integrity": "sha512-{base64.b64encode(digest).decode()}",',
            f'  resolved "https://registry.yarnpkg.com/x/-/x-1.{n}.0.tgz#{hashlib.sha1(bytes([n])).hexdigest()}"',
            f'checksum = "{hashlib.sha256(bytes([n])).hexdigest()}"',
            f"golang.org/x/net v0.{n}.0 h1:{base64.b64encode(digest[:32]).decode()}",
            f"    --hash=sha256:{hashlib.sha256(bytes([n])).hexdigest()} \\",
            f'{{file = "x-{n}.whl", hash = "sha256:{digest[:32].hex()}"}},',
        ]
    others = [str(uuid.UUID(int=m.random.getrandbits(128), version=4)) for _ in range(10)]
    others += [f"{oid[:10]} step {n}" for n, oid in enumerate(sha)]
    others += [base64.b64encode(json.dumps({"name": f"item {n}", "size": n}).encode()).decode() for n in range(8)]
    others += [
        f"data:image/png;base64,{packed[:400]}",
        packed[:600],
        f"sourceMappingURL=data:application/json;base64,{packed[200:500]}",
    ]
    others += [m.of(alphabet, size) for alphabet in (ALNUM, BASE64, HEX, UPPER, URL) for size in (12, 24, 60)]
    return tuple(dict.fromkeys([*_LINES.strip().splitlines(), *sha, *code, *locks, *others]))
