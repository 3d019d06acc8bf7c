"""Rules of our own: formats that the library of ``shipped.py`` lacks, knows only in part, or takes for more than they are.

A rule is (kind, needles, pattern, sure). One of the needles stands in every text that the pattern matches, in lower case where
the pattern ignores case; a rule without needles needs a word of LONG characters. The secret is group 1, or the whole match
where the pattern has no group. Every quantifier is bounded. ``sure``: nothing but a secret looks like this. Patterns are
compiled when they are first needed: most texts need none.

Keys known by a prefix of their own, which their vendors chose so that they can be found, stand in a table. Each row is the
placeholder's word, the prefixes, and what follows them: the least length of a key of letters, digits, ``_`` and ``-``, or its
very form; and where that was read in November 2026: V the vendor's own documentation, G the list of what GitHub's secret
scanning supports, L the rules of gitleaks, K those of kingfisher. Only facts were taken from there.
"""

from __future__ import annotations

import re
from functools import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

# Where a short prefix may begin: not within a word, but after an escape as in "\nAKIA" or "%3DAKIA".
BEGIN = r"(?:(?<![0-9A-Za-z])|(?<=\\[nrtbf])|(?<=%[0-9A-Fa-f]{2}))"
_LITERAL = r"(?:[A-Za-z0-9_/-]|\\\.)+(?![*+?{])"
_COMPILED: dict[str, re.Pattern[str]] = {}
LONG = 55
_SHORT, _PAYS = 200, 300_000  # characters: of a text that is sooner searched word by word; of all before a pattern pays
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
    """Return the pattern, compiled once; what it calls a letter, a digit or a space is one in ASCII."""
    found = _COMPILED.get(pattern)
    if found is None:
        turned, rest = pattern, pattern.removeprefix(BEGIN)
        first = re.match(_LITERAL, rest) if rest != pattern else None
        if first is not None:  # its first letters before BEGIN, because only letters are looked for quickly
            word = first.group()
            turned = word + BEGIN.replace(")|", f"{word})|").removesuffix("))") + f"{word}))" + rest[len(word) :]
        found = _COMPILED[pattern] = re.compile(turned, re.ASCII)
    return found


_SIGN = "[A-Za-z0-9_-]"
_MOST = 300
# Twelve letters and digits in a row with a digit among them: names of things are words between ``_`` and ``-``.
_DENSE = rf"(?={_SIGN}{{0,60}}?(?=[A-Za-z]{{0,11}}[0-9])[A-Za-z0-9]{{12}})"
# Capitals, small letters and a digit: behind a short prefix a name may stand as well.
_MIXED = rf"(?={_SIGN}{{0,40}}[A-Z])(?={_SIGN}{{0,40}}[a-z])(?={_SIGN}{{0,40}}[0-9])"
_HEX32, _HEX40, _HEX64 = (rf"[a-f0-9]{{{size}}}{END}" for size in (32, 40, 64))
_UUID = rf"[a-f0-9]{{8}}(?:-[a-f0-9]{{4}}){{3}}-[a-f0-9]{{12}}{END}"


def _mixed(least: int, most: int, signs: str = "A-Za-z0-9") -> str:
    return rf"{_MIXED}[{signs}]{{{least},{most}}}(?![A-Za-z0-9_-])"


_TABLE: tuple[tuple[str, str, int | str, str], ...] = (
    # Models, and what agents work with.
    ("nvidia-key", "nvapi-", 40, "VK"),
    ("cerebras-key", "csk-", 32, "V"),
    ("fireworks-key", "fw_", _mixed(22, 28), "VG"),
    ("together-key", "tgp_v1_", 30, "V"),
    ("anyscale-key", "esecret_", 20, "VG"),
    ("runpod-key", "rpa_", 30, "V"),
    ("voyage-key", "pa-", _mixed(41, 50, "A-Za-z0-9_-"), "V"),
    ("jina-key", "jina_", 40, "V"),
    ("langfuse-key", "sk-lf-", 30, "V"),
    ("helicone-key", "sk-helicone-", r"(?=[a-z-]{0,40}[0-9])[a-z0-9-]{24,60}", "V"),
    ("luma-key", "luma-", 30, "V"),
    ("firecrawl-key", "fc-", _HEX32, "V"),
    ("browserbase-key", "bb_live_", 20, "V"),
    ("apify-token", "apify_api_", 30, "VK"),
    ("e2b-key", "e2b_", _HEX40, "V"),
    ("daytona-key", "dtn_", _HEX64, "V"),
    ("mem0-key", "m0-", _mixed(36, 44), "V"),
    ("letta-key", "sk-let-", r"[A-Za-z0-9+/_-]{40,300}={0,2}", "V"),
    ("pinecone-key", "pcsk_", 40, "VG"),
    ("wandb-key", "wandb_v1_", 40, "V"),
    ("chroma-key", "ck-", _mixed(42, 50), "V"),
    ("turbopuffer-key", "tpuf_", 24, "V"),
    ("llamacloud-key", "llx-", 40, "V"),
    ("cursor-key", "crsr_", 40, "V"),
    ("windsurf-key", "sk-ws-", 30, "V"),
    ("upstage-key", "up_", _mixed(28, 34), "V"),
    ("modal-token", "ak- as-", _mixed(22, 22), "V"),
    ("brave-key", "BSA", _mixed(28, 28, "A-Za-z0-9_-"), "V"),
    ("google-key", "AQ.", rf"A{_DENSE}[A-Za-z0-9_-]{{40,80}}", "V"),
    ("bedrock-key", "ABSK", r"[A-Za-z0-9+/]{100,300}={0,2}", "VL"),
    ("bedrock-key", "bedrock-api-key-", r"[A-Za-z0-9+/=]{40,2000}", "VL"),
    ("zep-key", "z_1", r"[A-Za-z0-9_-]{30,200}\.[A-Za-z0-9_-]{20,200}", "V"),
    ("openai-key", "sess-", _mixed(40, 48), "V"),
    ("cartesia-key", "sk_car_", 20, "V"),
    ("you-key", "ydc-sk-", 20, "V"),
    # Clouds and what runs on them.
    ("tailscale-key", "tskey-", 20, "VGK"),
    ("vercel-token", "vercel_blob_rw_", 30, "V"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", 24, "VG"),
    ("cloudflare-token", "cfk_ cfut_ cfat_", 40, "VG"),
    ("cloudflare-key", "v1.0-", r"[a-f0-9]{24}-[a-f0-9]{146}", "L"),
    ("render-key", "rnd_", 24, "V"),
    ("neon-key", "napi_", 40, "VG"),
    ("xata-key", "xau_", 30, "V"),
    ("cockroach-key", "CCDB1_", 30, "VG"),
    ("mongodb-key", "mdb_sa_sk_", 30, "VGK"),
    ("aiven-password", "AVNS_", r"(?=[A-Za-z_-]{0,30}[0-9])[A-Za-z0-9_-]{15,30}", "VG"),
    ("supabase-key", "sbp_v0_", _HEX40, "VG"),
    ("databricks-token", "dkea dose", _HEX32, "G"),
    ("confluent-key", "cflt", rf"(?=[A-Za-z+/]{{0,59}}[0-9])[A-Za-z0-9+/]{{60}}{END}", "VG"),
    ("clickhouse-key", "4b1d", _mixed(38, 38), "L"),
    ("materialize-password", "mzp_", _HEX64, "VG"),
    ("tinybird-token", "p.eyJ", r"[A-Za-z0-9_-]{20,500}\.[A-Za-z0-9_-]{20,200}", "VG"),
    ("alibaba-key", "LTAI", rf"(?=[A-Za-z]{{0,23}}[0-9])[A-Za-z0-9]{{16,24}}{END}", "GL"),
    ("tencent-key", "AKID", rf"(?=[A-Za-z]{{0,31}}[0-9])[A-Za-z0-9]{{32}}{END}", "G"),
    ("volcengine-key", "AKLT", _mixed(40, 60, "A-Za-z0-9_-"), "G"),
    ("yandex-key", "AQVN", r"(?=[A-Za-z_-]{0,34}[0-9])[A-Za-z0-9_-]{35,40}", "GL"),
    ("akamai-token", "akab-", rf"[a-z0-9]{{16}}-[a-z0-9]{{16}}{END}", "V"),
    ("honeycomb-key", "hcaik_ hcaic_ hcamk_ hcbik_ hcbic_", 40, "V"),
    ("logfire-token", "pylf_v1_ pylf_v2_", 30, "V"),
    ("axiom-token", "xaat- xapt-", _UUID, "V"),
    ("datadog-key", "ddapp_ ddpat_", 24, "V"),
    ("dynatrace-token", "dt0s16. dt0s08. dt0s02. dt0s01.", r"[A-Z2-7]{8,24}\.[A-Z2-7]{64}", "V"),
    ("inngest-key", "signkey-", 30, "V"),
    ("trigger-key", "tr_dev_ tr_prod_ tr_stg_ tr_preview_ tr_pat_", 18, "V"),
    ("prefect-key", "pnu_ pnb_", 30, "VGK"),
    ("rootly-key", "rootly_", 40, "VG"),
    ("dbt-token", "dbtc_ dbtu_ dbts_", 20, "VG"),
    ("retool-key", "retool_", 24, "V"),
    ("posthog-key", "phx_ phs_ phr_ pha_", 30, "VGK"),
    ("pagerduty-token", "pdus+ pdeu+", r"(?=[A-Za-z_+-]{0,40}[0-9])[A-Za-z0-9_+-]{20,200}", "V"),
    ("launchdarkly-key", "sdk- api-", _UUID, "VL"),
    ("statsig-key", "secret- console-", _mixed(40, 46), "V"),
    ("growthbook-key", "secret_admin_ secret_user_ secret_readonly_", 20, "V"),
    ("flagsmith-key", "ser.", _mixed(22, 22), "V"),
    ("checkly-key", "cu_", _HEX32, "V"),
    ("healthchecks-key", "hcw_ hcr_", _mixed(28, 28), "V"),
    ("convex-key", "prod: dev: preview: project:", r"[a-z]{2,20}-[a-z]{2,20}-[0-9]{1,4}\|[A-Za-z0-9+/]{40,400}={0,2}", "V"),
    ("tigris-secret", "tsec_", 30, "V"),
    ("fauna-key", "fnA", _mixed(37, 40, "A-Za-z0-9_-"), "V"),
    ("appwrite-key", "standard_", rf"[a-f0-9]{{100,300}}{END}", "V"),
    ("alchemy-key", "alcht_", 20, "V"),
    ("quicknode-key", "QN_", _HEX32, "V"),
    # Where secrets, identities and packages are kept.
    ("onepassword-token", "ops_eyJ", r"[A-Za-z0-9+/_-]{40,2000}={0,2}", "VGL"),
    ("onepassword-key", "A3-", r"[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}", "L"),
    ("bitwarden-token", "0.", rf"{_UUID.removesuffix(END)}\.[A-Za-z0-9]{{30}}:[A-Za-z0-9+/]{{22,44}}={{0,2}}", "V"),
    ("infisical-token", "st.", r"[a-f0-9]{24}\.[a-f0-9]{32}\.[a-f0-9]{32}", "V"),
    ("stytch-secret", "secret-live- secret-test-", 30, "VG"),
    ("ory-token", "ory_pat_ ory_st_ ory_at_ ory_rt_ ory_ac_", 24, "V"),
    ("unkey-key", "unkey_", 16, "V"),
    ("zuplo-key", "zpka_", 30, "VG"),
    ("liveblocks-key", "sk_prod_ sk_dev_", 30, "V"),
    ("artifactory-key", "cmVmdGtu", rf"[A-Za-z0-9]{{50,64}}{END}", "GL"),
    ("nuget-key", "oy2", rf"(?=[a-z]{{0,42}}[0-9])[a-z0-9]{{43}}{END}", "GK"),
    ("packagist-token", "packagist_", 30, "VG"),
    ("clojars-token", "CLOJARS_", 40, "GL"),
    ("jsr-token", "jsrp_ jsrt_", 20, "V"),
    ("deno-token", "ddp_ ddo_ ddw_", 30, "V"),
    ("netlify-token", "nfo_ nfc_ nfb_ nfu_", 30, "V"),
    ("jetbrains-token", "perm: perm-", r"[A-Za-z0-9+/=]{4,80}\.[A-Za-z0-9+/=]{2,80}\.[A-Za-z0-9+/=]{16,80}", "V"),
    ("sourcegraph-token", "sgp_ slk_", 40, "VLK"),
    ("snyk-token", "snyk_uat. snyk_sat.", r"[A-Za-z0-9]{6,10}\.[A-Za-z0-9_.-]{40,300}", "V"),
    ("dependency-track-key", "odt_", 32, "VK"),
    ("harness-token", "pat. sat.", r"[A-Za-z0-9_-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}", "L"),
    ("infracost-key", "ico-", _mixed(32, 32), "L"),
    ("scalingo-token", "tk-us-", 40, "L"),
    ("defined-networking-token", "dnkey-", 40, "GL"),
    ("wakatime-key", "waka_", 30, "VG"),
    # Mail, chat, desks and documents.
    ("resend-key", "re_", rf"{_MIXED}(?:[A-Za-z0-9]{{6,12}}_)?[A-Za-z0-9]{{20,36}}(?![A-Za-z0-9_-])", "V"),
    ("mailersend-token", "mlsn.", r"[a-f0-9]{40,64}", "V"),
    ("brevo-key", "xsmtpsib-", 60, "G"),
    ("courier-key", "pk_prod_ pk_test_", rf"(?=[A-Z]{{0,27}}[0-9])[A-Z0-9]{{28}}{END}", "K"),
    ("telnyx-key", "KEY0", r"[0-9A-F]{30,40}_[A-Za-z0-9]{22}", "VG"),
    ("pubnub-key", "sec-c-", r"[A-Za-z0-9+/]{40,80}={0,2}", "G"),
    ("hubspot-token", "pat-na1- pat-na2- pat-eu1- pat-ap1-", _UUID, "VGK"),
    ("airtable-token", "pat", r"[A-Za-z0-9]{14}\.[a-f0-9]{64}", "GL"),
    ("typeform-token", "tfp_", 40, "VGK"),
    ("readme-key", "rdme_", 40, "GLK"),
    ("clickup-token", "pk_", rf"[0-9]{{7,9}}_[0-9A-Z]{{32}}{END}", "VK"),
    ("trello-token", "ATTA", r"[a-f0-9]{64}[A-F0-9]{8}", "K"),
    ("asana-token", "0/ 1/ 2/", rf"[0-9]{{15,17}}(?:/[0-9]{{15,17}})?:[a-f0-9]{{32}}{END}", "VK"),
    ("frameio-token", "fio-u-", 50, "VGLK"),
    ("mapbox-token", "sk.eyJ tk.eyJ", r"[A-Za-z0-9_-]{20,500}\.[A-Za-z0-9_-]{16,60}", "VG"),
    ("adafruit-key", "aio_", _mixed(28, 28), "GLK"),
    ("ionic-token", "ion_", r"(?=[A-Za-z]{0,41}[0-9])[A-Za-z0-9]{42}" + END, "GK"),
    ("lichess-token", "lip_", _mixed(20, 24), "G"),
    ("databento-key", "db-", _mixed(29, 29), "G"),
    ("adobe-secret", "p8e-", r"(?=[A-Za-z-]{0,31}[0-9])[A-Za-z0-9-]{32}" + END, "GLK"),
    ("segment-token", "sgp_", _mixed(64, 64), "GK"),
    ("facebook-token", "EAA", rf"(?=[A-Za-z]{{0,60}}[0-9])[A-Za-z0-9]{{90,300}}{END}", "GL"),
    ("instagram-token", "IGQV IGAA", rf"(?=[A-Za-z]{{0,60}}[0-9])[A-Za-z0-9]{{80,300}}{END}", "V"),
    ("twitter-token", "AAAAAAAAAAAAAAAAAAAAA", r"[A-Za-z0-9%]{60,200}(?![A-Za-z0-9%])", "GL"),
    ("linkedin-secret", "WPL_AP0. WPL_AP1.", r"[A-Za-z0-9.+/]{16,60}={0,2}", "G"),
    ("dropbox-token", "sl.", r"(?=[A-Za-z._-]{0,80}[0-9])(?:u\.)?[A-Za-z0-9_-]{100,1500}", "GL"),
    ("salesforce-token", "00D", r"[A-Za-z0-9]{12,15}![A-Za-z0-9._]{80,120}", "VK"),
    ("amazon-secret", "amzn1.oa2-cs.v1.", _HEX64, "G"),
    ("amazon-secret", "amzn.mws.", _UUID, "G"),
    ("onesignal-key", "os_v2_app_ os_v2_org_", 60, "VG"),
    ("klaviyo-key", "pk_", rf"[a-f0-9]{{34}}{END}", "V"),
    ("calcom-key", "cal_live_ cal_", _HEX32, "V"),
    ("dub-key", "dub_", _mixed(24, 24), "V"),
    ("outline-key", "ol_api_", 30, "V"),
    ("plain-key", "plainApiKey_", 20, "V"),
    ("linear-key", "lin_wh_", 20, "G"),
    ("wix-key", "IST.eyJ", r"[A-Za-z0-9_-]{20,500}\.[A-Za-z0-9_-]{20,3000}\.[A-Za-z0-9_-]{20,800}", "V"),
    # Payment and parcels.
    ("braintree-token", "access_token$production$ access_token$sandbox$", r"[a-z0-9]{16}\$[a-f0-9]{32}", "GL"),
    ("adyen-key", "AQE", r"[a-z]hm[A-Za-z0-9+/]{40,400}={0,2}(?:-[A-Za-z0-9+/=]{10,200}){0,2}", "V"),
    ("paddle-key", "pdl_live_ pdl_sdbx_ pdl_ntfset_", 30, "VG"),
    ("razorpay-key", "rzp_live_ rzp_test_", r"(?=[A-Za-z]{0,13}[0-9])[A-Za-z0-9]{14,30}", "VG"),
    ("flutterwave-key", "FLWSECK- FLWSECK_TEST-", r"[A-Za-z0-9]{12,40}(?:-X)?", "GL"),
    ("plaid-token", "access-production- access-sandbox- access-development-", _UUID, "GL"),
    ("mollie-key", "live_", _mixed(30, 30), "V"),
    ("gocardless-token", "live_", _mixed(40, 40, "A-Za-z0-9_-"), "VGLK"),
    ("polar-token", "polar_oat_ polar_pat_ polar_at_u_ polar_at_o_ polar_rt_u_ polar_rt_o_", 30, "V"),
    ("sumup-key", "sup_sk_", 20, "V"),
    ("mercury-token", "secret-token:mercury_", 16, "V"),
    ("brex-token", "bxt_", 20, "G"),
    ("xendit-key", "xnd_production_ xnd_development_", 20, "V"),
    ("midtrans-key", "Mid-server- SB-Mid-server-", r"(?=[A-Za-z_-]{0,20}[0-9])[A-Za-z0-9_-]{16,60}", "VG"),
    ("checkout-key", "sk_sbox_", 20, "VG"),
    ("shippo-token", "shippo_live_ shippo_test_", _HEX40, "GLK"),
    ("easypost-key", "EZAK EZTK", rf"[A-Za-z0-9]{{54}}{END}", "GLK"),
    ("duffel-token", "duffel_live_ duffel_test_", 36, "GL"),
)


_SPECIAL = str.maketrans({sign: "\\" + sign for sign in ".+$"})
_FORMS = {form: rf"{_DENSE}{_SIGN}{{{form},{_MOST}}}" for form in range(64)}
PREFIXED: tuple[Rule, ...] = tuple(
    (kind, (prefix,), BEGIN + prefix.translate(_SPECIAL) + (form if isinstance(form, str) else _FORMS[form]), True)
    for kind, given, form, _ in _TABLE
    for prefix in given.split()
)
# What a key may stand in: a word of so many signs, of which so many are behind its beginning.
_KEY_SIGN, _WORD, _REST, _HEAD = "[A-Za-z0-9_.+/=$:!|-]", 16, 14, 3
_APART = bytes(sign if chr(sign).isalnum() and sign < 128 else 32 for sign in range(256))
_ESCAPES = (("\\", r"\\[nrtbf]"), ("%", "%[0-9A-Fa-f]{2}"))
# By the run of letters and digits that a prefix begins with: the whole run where a sign follows, else its first three.
_RUNS: dict[bytes, list[str]] = {}
_BEGINNINGS: dict[bytes, list[str]] = {}
for _row in PREFIXED:
    _run = (re.findall("^[A-Za-z0-9]+", _row[1][0]) or [""])[0]
    _signed = _run != _row[1][0]
    (_RUNS if _signed else _BEGINNINGS).setdefault((_run if _signed else _run[:_HEAD]).encode(), []).append(_row[1][0])


class Needles:
    """Some words, to say which of them stand in a text. Many texts are searched for all words at once: the pattern for that is
    dear to compile, and does not pay for a few."""

    def __init__(self, words: Iterable[str]) -> None:
        self.words = tuple(words)
        self.left = _PAYS

    def within(self, text: str) -> list[str]:
        """Return the words that stand in a text."""
        if self.left > 0 or len(text) < _SHORT:
            self.left -= len(text)
            return [word for word in self.words if word in text]
        found = set(self._pattern.findall(text))
        return [one for word in found for one in self._alike[word] if one == word or one in text]

    @cached_property
    def _alike(self) -> dict[str, list[str]]:
        """Return the words that begin alike, by the shortest of them: where that stands, the others are asked for."""
        first = [word for word in self.words if not any(word != one and word.startswith(one) for one in self.words)]
        return {word: [one for one in self.words if one.startswith(word)] for word in first}

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        """The pattern that finds each place where one of the shortest begins: it takes one sign there and no more, so that
        none hides another."""
        signs = "".join(sorted({re.escape(word[0]) for word in self._alike}))
        return re.compile(rf"(?s)[{signs}](?<=(?=({_alternatives(self._alike)})).)")


def _alternatives(words: Iterable[str]) -> str:
    """Return a pattern of words of which none begins another, each sign of what they have in common once."""
    rest: dict[str, list[str]] = {}
    for word in words:
        if word:
            rest.setdefault(word[0], []).append(word[1:])
    parts = [re.escape(sign) + _alternatives(more) for sign, more in sorted(rest.items())]
    return "(?:" + "|".join(parts) + ")" if len(parts) > 1 else "".join(parts)


def begun(text: str) -> set[str]:
    """Return the prefixes with which something in a text begins that is long enough to be a key."""
    for sign, escape in _ESCAPES:
        text = compiled(escape).sub("\n", text) if sign in text else text
    runs = set(text.encode("utf-8", "surrogatepass").translate(_APART).split())
    asked = [prefix for run in runs.intersection(_RUNS) for prefix in _RUNS[run]]
    asked += [prefix for run in {run[:_HEAD] for run in runs}.intersection(_BEGINNINGS) for prefix in _BEGINNINGS[run]]
    return {prefix for prefix in asked if _begins_with(prefix, text)}


def _begins_with(prefix: str, text: str) -> bool:
    """Whether a prefix stands behind no letter or digit, with so much behind it and around it that it may be a key."""
    at = text.find(prefix)
    while at >= 0:
        if not (at and text[at - 1].isascii() and text[at - 1].isalnum()):
            here = compiled(_KEY_SIGN + "+").match(text, at)
            left = _WORD - (here.end() - at if here else 0)
            if left <= 0 or (left <= _WORD - _REST and compiled(rf"{_KEY_SIGN}{{{left}}}").match(text, max(at - left, 0), at)):
                return True
        at = text.find(prefix, at + 1)
    return False
