"""Our own rules: formats that the library of ``shipped.py`` lacks, knows only in part, or takes for more than they are.

A rule is (kind, needles, pattern, sure). One of the needles stands in every text that the pattern matches, in lower case where
the pattern ignores case; a rule without needles needs a word of LONG characters. The secret is group 1, or the whole match
where the pattern has no group. Every quantifier is bounded. ``sure``: nothing but a secret looks like this. Patterns are
compiled when they are first needed: most texts need none.
"""

from __future__ import annotations

import re

# Where a short prefix may begin: not within a word, but after an escape as in "\nAKIA" or "%3DAKIA".
BEGIN = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2}))"
_LITERAL = r"(?:[A-Za-z0-9_/-]|\\\.)+(?![*+?{])"
_COMPILED: dict[str, re.Pattern[str]] = {}
LONG = 55
# The needles of the rules of context.py, in their order: one of them stands, in lower case, in every text that they match.
CONTEXT_WORDS: tuple[tuple[str, ...], ...] = (
    ("://",),
    ("://",),
    ("curl",),
    ("mysql",),
    ("sshpass",),
    ("login",),
    ("identified",),
    ("cookie",),
    ("authorization",),
    ("bearer",),
    ("machine",),
    (":5432:", ":5433:", ":6432:"),
    ("redis-cli",),
    ("auth",),
    ("--",),
    ("pass", "pw", "key", "secret", "token", "credential"),
)
END = r"(?![0-9A-Za-z])"
_SEP = r"(?:\\[nrt]|[\s\"'+>|,;*#-])"
_PEM = (
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"(?:(?!-----)[\s\S]){40,20000}-----END [A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----|"
    rf"{_SEP}{{0,16}}(?:[A-Z][A-Za-z-]{{1,20}}:[^\n\\]{{0,100}}{_SEP}{{1,16}}){{0,6}}"
    rf"[A-Za-z0-9+/=]{{16,20000}}(?:{_SEP}{{1,16}}[A-Za-z0-9+/=]{{16,20000}}){{0,500}})"
)
_PUTTY = r"PuTTY-User-Key-File-[23]:(?:(?!Private-MAC|PuTTY-User)[\s\S]){0,20000}Private-MAC: ?[0-9a-f]{40,64}"

_GITLAB = tuple(
    f"gl{word}-" for word in ("pat", "dt", "ft", "soat", "rt", "cbt", "imt", "ptt", "agent", "oas", "ffct", "wt", "rtr")
)

Rule = tuple[str, tuple[str, ...], str, bool]

RULES: tuple[Rule, ...] = (
    ("private-key", ("PRIVATE KEY",), _PEM, True),
    ("private-key", ("PuTTY-User-Key-File",), _PUTTY, True),
    ("anthropic-key", ("sk-ant-",), r"sk-ant-[a-z0-9]{2,10}-[A-Za-z0-9_-]{20,200}", True),
    ("openai-key", ("sk-",), rf"{BEGIN}sk-(?:proj|svcacct|admin|service|None)-[A-Za-z0-9_-]{{20,250}}", True),
    ("openai-key", ("sk-",), rf"{BEGIN}sk-(?=[A-Za-z]{{0,48}}[0-9])[A-Za-z0-9]{{32,64}}{END}", True),
    ("openrouter-key", ("sk-or-",), r"sk-or-v1-[0-9a-f]{64}", True),
    ("google-key", ("AIza",), rf"AIza[0-9A-Za-z_-]{{35}}{END}", True),
    ("google-oauth", ("GOCSPX-",), r"GOCSPX-[A-Za-z0-9_-]{28}", True),
    ("google-oauth", ("ya29.",), rf"{BEGIN}ya29\.[A-Za-z0-9_-]{{20,1024}}", True),
    ("google-oauth", ("1//0",), rf"{BEGIN}1//0[A-Za-z0-9_-]{{40,200}}", True),
    ("github-token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{36,255}", True),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[pousr]_[A-Za-z0-9_]{36,255}", True),
    (
        "gitlab-token",
        _GITLAB,
        rf"{BEGIN}(?:{'|'.join(_GITLAB)})[A-Za-z0-9_.=-]{{20,1024}}",
        True,
    ),
    ("huggingface-token", ("hf_", "api_org_"), rf"{BEGIN}(?:hf|api_org)_[A-Za-z]{{34}}{END}", True),
    ("huggingface-token", ("hf_",), rf"{BEGIN}hf_(?=[A-Za-z]{{0,36}}[0-9])[A-Za-z0-9]{{30,40}}{END}", True),
    ("digitalocean-token", ("_v1_",), r"do[opr]_v1_[a-f0-9]{64}", True),
    ("shopify-token", ("shp",), r"shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32}", True),
    ("databricks-token", ("dapi",), rf"{BEGIN}dapi[a-f0-9]{{32}}(?:-\d)?{END}", True),
    ("linear-key", ("lin_",), r"lin_(?:api|oauth)_[A-Za-z0-9]{40,64}", True),
    ("notion-token", ("ntn_",), rf"{BEGIN}ntn_[A-Za-z0-9]{{40,60}}{END}", True),
    ("notion-token", ("secret_",), rf"{BEGIN}secret_[A-Za-z0-9]{{43}}{END}", True),
    ("vault-token", ("hvs.", "hvb.", "hvr."), rf"{BEGIN}hv[sbr]\.[A-Za-z0-9_-]{{20,300}}", True),
    ("docker-token", ("dckr_",), r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,60}", True),
    (
        "grafana-token",
        ("glsa_", "glc_"),
        rf"{BEGIN}(?:glsa_[A-Za-z0-9]{{32}}_[A-Fa-f0-9]{{8}}|glc_[A-Za-z0-9+/]{{32,400}}={{0,3}})",
        True,
    ),
    (
        "doppler-token",
        ("dp.",),
        rf"{BEGIN}dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{1,40}}\.)?[A-Za-z0-9]{{40,44}}{END}",
        True,
    ),
    ("planetscale-token", ("pscale_",), r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64}", True),
    ("sentry-token", ("sntry",), r"sntry[su]_[A-Za-z0-9+/=_-]{40,400}", True),
    ("newrelic-key", ("NRAK-", "NRJS-", "NRII-", "NRAA-"), r"NR(?:AK|JS|II|AA)-[A-Za-z0-9_-]{19,40}", True),
    ("telegram-token", (":AA",), rf"{BEGIN}[0-9]{{8,10}}:AA[0-9A-Za-z_-]{{33}}(?![0-9A-Za-z_-])", True),
    ("discord-token", (), r"[MNO][a-zA-Z\d_-]{23,27}\.[a-zA-Z\d_-]{6}\.[a-zA-Z\d_-]{27,40}", True),
    (
        "discord-webhook",
        ("/webhooks/",),
        r"discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/([0-9]{17,20}/[A-Za-z0-9_-]{60,80})",
        True,
    ),
    ("slack-token", ("xox", "xapp-"), r"(?:xox[a-z]|xapp)(?:-[A-Za-z0-9.]{1,256}){2,8}", True),
    (
        "slack-webhook",
        ("hooks.slack",),
        r"hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/([A-Za-z0-9_/-]{20,120})",
        True,
    ),
    ("stripe-key", ("k_live_", "k_test_"), r"[sr]k_(?:live|test)_[0-9a-zA-Z]{16,247}", True),
    ("stripe-key", ("whsec_",), rf"{BEGIN}whsec_[A-Za-z0-9+/=]{{32,64}}", True),
    ("mailgun-key", ("key-",), rf"{BEGIN}key-[0-9a-f]{{32}}{END}", True),
    (
        "square-token",
        ("EAAA", "sq0"),
        rf"{BEGIN}(?:EAAA[\w-]{{60}}|sq0(?:atp|csp|idp)-[\w-]{{22,43}}){END}",
        True,
    ),
    ("npm-token", ("npm_",), rf"{BEGIN}npm_[A-Za-z0-9]{{36}}{END}", True),
    (
        "npm-token",
        ("_authToken", "_auth", "_password"),
        r"//[^\s\"']{1,200}/:_(?:authToken|auth|password)\s{0,8}=\s{0,8}[\"']?([^\s\"'${<]{8,300})",
        True,
    ),
    ("pypi-token", ("pypi-AgE",), r"pypi-AgE[A-Za-z0-9_-]{40,1024}", True),
    ("rubygems-key", ("rubygems_",), rf"{BEGIN}rubygems_[a-f0-9]{{48}}{END}", True),
    ("cargo-token", ("cio",), rf"{BEGIN}cio[A-Za-z0-9]{{32}}{END}", False),
    ("groq-key", ("gsk_",), rf"{BEGIN}gsk_[A-Za-z0-9]{{52}}{END}", True),
    ("xai-key", ("xai-",), rf"{BEGIN}xai-[A-Za-z0-9]{{70,90}}{END}", True),
    ("perplexity-key", ("pplx-",), rf"{BEGIN}pplx-[A-Za-z0-9]{{40,60}}{END}", True),
    ("replicate-token", ("r8_",), rf"{BEGIN}r8_[A-Za-z0-9]{{37,40}}{END}", True),
    ("fly-token", ("fo1_", "fm1", "fm2_"), rf"{BEGIN}(?:fo1_[A-Za-z0-9_-]{{43}}|fm[12][ar]?_[A-Za-z0-9+/=]{{100,1000}})", True),
    ("supabase-key", ("sbp_", "sb_secret_"), rf"{BEGIN}(?:sbp_[a-f0-9]{{40}}|sb_secret_[A-Za-z0-9_-]{{20,60}}){END}", True),
    ("postman-key", ("PMAK-",), r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}", True),
    ("pulumi-token", ("pul-",), rf"{BEGIN}pul-[a-f0-9]{{40}}{END}", True),
    ("terraform-token", ("atlasv1",), r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}", True),
    (
        "atlassian-token",
        ("ATATT3", "ATCTT3", "ATBB"),
        rf"{BEGIN}(?:AT[AC]TT3[A-Za-z0-9_=-]{{60,300}}|ATBB[A-Za-z0-9]{{32}}{END})",
        True,
    ),
    ("heroku-key", ("HRKU-AA",), r"HRKU-AA[A-Za-z0-9_-]{50,80}", True),
    ("figma-token", ("figd_",), rf"{BEGIN}figd_[A-Za-z0-9_-]{{38,60}}", True),
    ("buildkite-token", ("bkua_",), rf"{BEGIN}bkua_[a-f0-9]{{40}}{END}", True),
    ("circleci-token", ("CCIPAT_",), r"CCIPAT_[A-Za-z0-9]{20,24}_[a-f0-9]{40}", True),
    ("netlify-token", ("nfp_",), rf"{BEGIN}nfp_[A-Za-z0-9]{{36,48}}{END}", True),
    ("brevo-key", ("xkeysib-",), r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}", True),
    ("dynatrace-token", ("dt0c01.",), r"dt0c01\.[A-Z2-7]{24}\.[A-Z2-7]{64}", True),
    ("sonar-token", ("sqp_", "squ_", "sqa_"), rf"{BEGIN}sq[pua]_[a-f0-9]{{40}}{END}", True),
    ("contentful-token", ("CFPAT-",), r"CFPAT-[A-Za-z0-9_-]{43}", True),
    ("langsmith-key", ("lsv2_",), rf"{BEGIN}lsv2_(?:pt|sk)_[a-f0-9]{{32}}_[a-f0-9]{{10}}{END}", True),
    ("tavily-key", ("tvly-",), rf"{BEGIN}tvly-(?:dev-|prod-)?[A-Za-z0-9_-]{{30,60}}{END}", True),
    ("elevenlabs-key", ("sk_",), rf"{BEGIN}sk_[a-f0-9]{{48}}{END}", True),
    (
        "private-key",  # in base64, as in a kubeconfig: BEGIN and the kind, as they come out at that place
        ("LS0tLS1CRUdJTi",),
        r"LS0tLS1CRUdJTi(?:BSU0EgUFJJVkFURS|BFQyBQUklWQVRF|BPUEVOU1NIIFBSSVZBVE|BQUklWQVRF|BFTkNSWVBURUQgUFJJVkFURS|BEU0EgUFJJVkFURS)"
        r"[A-Za-z0-9+/]{40,20000}={0,2}",
        True,
    ),
    ("age-key", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{58,2000}", True),
    ("azure-secret", ("Q~",), r"[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}(?![A-Za-z0-9_~-])", True),
    (
        "azure-storage-key",
        ("AccountKey", "SharedAccessKey"),
        r"(?:AccountKey|SharedAccessKey)\s{0,4}=\s{0,4}([A-Za-z0-9+/]{43,86}={1,2})",
        True,
    ),
    ("azure-storage-key", ("+ASt", "ACDb"), r"[A-Za-z0-9/+]{76}(?:\+ASt|ACDb)[A-Za-z0-9/+]{5}[AQgw]==", True),
    ("azure-openai-key", ("JQQJ99",), r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}", True),
    ("azure-devops-token", ("AZDO",), rf"{BEGIN}[A-Za-z0-9]{{76}}AZDO[A-Za-z0-9]{{4}}{END}", True),
    ("rapidapi-key", ("jsn",), r"[a-f0-9]{10}msh[a-f0-9]{15}p1[a-f0-9]{6}jsn[a-f0-9]{12}", True),
    ("teams-webhook", ("webhook.office.com",), r"webhook\.office\.com/webhookb2/([A-Za-z0-9@/-]{60,300})", True),
    ("azure-sas", ("sig=",), r"[?&]sig=([A-Za-z0-9%+/=]{40,120})", True),
    (
        "aws-secret",
        ("secret", "aws"),
        r"(?i:aws[\w .-]{0,20}(?:secret|key|token)|secret_?access_?key)[\w \"'\]-]{0,12}"
        r"(?:=>|:=|[:=])\s{0,4}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
        True,
    ),
    ("jwt", ("eyJ",), rf"{BEGIN}eyJ[A-Za-z0-9_-]{{10,2000}}\.eyJ[A-Za-z0-9_-]{{8,16000}}(?:\.[A-Za-z0-9_-]{{0,2000}})?", False),
    ("jwt", ("eyJ",), rf"{BEGIN}eyJ[A-Za-z0-9_-]{{10,2000}}(?:\.[A-Za-z0-9_-]{{0,8000}}){{4}}", False),
)


def compiled(pattern: str) -> re.Pattern[str]:
    """The pattern, compiled once; what it calls a letter, a digit or a space is one in ASCII."""
    found = _COMPILED.get(pattern)
    if found is None:
        turned, rest = pattern, pattern.removeprefix(BEGIN)
        first = re.match(_LITERAL, rest) if rest != pattern else None
        if first is not None:  # its first letters before BEGIN, because only letters are looked for quickly
            word = first.group()
            turned = word + BEGIN.replace(")|", f"{word})|").removesuffix("))") + f"{word}))" + rest[len(word) :]
        found = _COMPILED[pattern] = re.compile(turned, re.ASCII)
    return found
