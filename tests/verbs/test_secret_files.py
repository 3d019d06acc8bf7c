"""Files whose names say that they hold secrets are left out, or named where git tracks them; so is a key in somebody's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitbaton.checkpoints.config import EXCLUDE
from tests.kit import Sandbox
from tests.kit.capturekit import skipped, snap
from tests.kit.places import ROOT
from tests.kit.tiers import deep

PASSWORD = "S3cr3tPassw0rd"
SECRET = (
    *(
        ".netrc",
        "_netrc",
        ".pgpass",
        ".my.cnf",
        ".git-credentials",
        ".htpasswd",
        "terraform.tfstate",
        "terraform.tfstate.backup",
    ),
    *("prod.tfvars", "x.auto.tfvars.json", "kubeconfig", "prod.kubeconfig", ".kube/config", ".vault-token", ".pypirc"),
    *("home/.docker/config.json", "a.p12", "a.pfx", "a.jks", "release.keystore", "AuthKey_1.p8", "k.ppk", "id_rsa", "id_ecdsa"),
    *(
        "id_ed25519_sk",
        ".ssh/config",
        ".ssh/work",
        ".aws/credentials",
        "gcloud/credentials.db",
        ".env.production",
        "master.key",
    ),
    *("application_default_credentials.json", "client_secret_12.json", ".azure/accessTokens.json", "gh/hosts.yml"),
    *(
        ".cargo/credentials.toml",
        ".gem/credentials",
        "rclone.conf",
        ".codex/auth.json",
        ".dev.vars",
        ".vault_pass.txt",
        "credentials.tfrc.json",
    ),
)
FINE = (
    *("id_rsa.pub", ".ssh/id_work.pub", "netrc.py", "kubeconfig.go", "config.json", "docker/config.json", "aws/credentials.py"),
    *("state.tf", "vars.tfvars.example", "keystore.py", "id_generator.py", "hosts.yml", "credentials", "my.cnf", "tfstate"),
    *(".env.example", "web/.env.sample", ".env.local.template", ".env.dist"),  # what a clone is to fill in
)


@pytest.fixture
def hub(repo: Sandbox, tmp_path: Path) -> Sandbox:
    """A remote ``origin`` that has what is committed."""
    repo.git("init", "-q", "--bare", str(tmp_path / "hub"))
    repo.git("remote", "add", "origin", str(tmp_path / "hub"))
    repo.git("push", "-q", "origin", "HEAD:refs/heads/main")
    return Sandbox(tmp_path / "hub")


def test_untracked_files_of_such_names_are_left_out(repo: Sandbox, hub: Sandbox) -> None:
    for name in (*SECRET, *FINE):
        repo.write(name, f"{PASSWORD if name in SECRET else 'fine'} {name}\n")
    stored = snap(repo)
    assert skipped(stored) == dict.fromkeys(SECRET, "excluded")
    assert set(repo.tree(stored.commit)) == {"a.txt", *FINE}
    repo.ok("push", "--yes")
    assert PASSWORD not in hub.everything()


@pytest.mark.parametrize(
    ("name", "plain", "token"),
    [
        (".npmrc", "registry=https://r/\n", f"//r/:_authToken={PASSWORD}\n"),
        ("web/.npmrc", "//r/:_authToken=${TOKEN}\n", f"_auth = {PASSWORD}\n"),
        (".yarnrc.yml", "nodeLinker: pnp\n", f"npmAuthToken: '{PASSWORD}'\n"),
    ],
)
def test_settings_are_left_out_where_a_token_stands_in_them(repo: Sandbox, name: str, plain: str, token: str) -> None:
    repo.write(name, plain)
    assert skipped(snap(repo)) == {}
    repo.write(name, plain + token)
    assert skipped(snap(repo)) == {name: "excluded"}


@pytest.mark.deep
def test_ones_own_list_can_begin_with_the_default(repo: Sandbox) -> None:
    for value in ("@default", "*.tmp"):
        repo.git("config", "--add", "baton.exclude", value)
    for name in (".netrc", "x.tmp", ".npmrc", "y"):
        repo.write(name, "registry=x\n")
    assert skipped(snap(repo)) == {".netrc": "excluded", "x.tmp": "excluded"}
    repo.git("config", "--unset-all", "baton.exclude")
    repo.git("config", "baton.exclude", ".npmrc")
    assert skipped(snap(repo)) == {".npmrc": "excluded"}, "what somebody names is left out whatever stands in it"


@pytest.mark.deep
def test_tracked_ones_are_named_at_push(repo: Sandbox, hub: Sandbox) -> None:
    for name, text in (
        ("prod.tfvars", "region = eu\n"),
        ("k.p12", b"\0\1\2"),
        (".htpasswd", f"u:{PASSWORD}\n"),
        (".npmrc", "a=b\n"),
    ):
        repo.write(name, text)
    repo.git("add", "-f", ".")
    repo.ok("snapshot", "--track", "t", "s")
    asked = repo.baton("push", "origin", "t")
    assert asked.code == 1 and "hold secrets: '.htpasswd', 'k.p12', 'prod.tfvars'" in asked.err
    done = repo.ok("push", "--yes", "origin", "t")
    said = [
        f"warning: '{name}' goes to 'origin': its name says that it holds secrets"
        for name in (".htpasswd", "k.p12", "prod.tfvars")
    ]
    assert sorted(row for row in done.err.splitlines() if row.startswith("warning")) == said
    repo.write("b.txt", "b\n")
    repo.ok("snapshot", "again")
    assert "secrets" not in repo.ok("push", "origin", "t").err, "the remote has them"


@pytest.mark.deep
@pytest.mark.parametrize(
    ("name", "text"),
    [
        (".netrc", f"machine h login me password {PASSWORD}\n"),
        (".git-credentials", f"https://me:{PASSWORD}@example.org\n"),
        ("deep/terraform.tfstate", f'{{"password": "{PASSWORD}"}}\n'),
        (".pypirc", f"[pypi]\npassword = {PASSWORD}\n"),
    ],
)
def test_what_a_tracked_one_holds_is_held_against_all_rules(repo: Sandbox, hub: Sandbox, name: str, text: str) -> None:
    repo.write(name, text)
    repo.write("code.py", f"password = '{PASSWORD}x'\n")  # which may be an example
    repo.commit("secret")
    repo.ok("snapshot", "--track", "t", "s")
    done = repo.baton("push", "--yes", "origin", "t")
    assert done.code == 1 and f"{name}:" in done.err and PASSWORD not in done.err + hub.everything()
    assert repo.ok("push", "--yes", "--no-scan", "origin", "t").code == 0


@pytest.mark.deep
def test_scan_lists_them(repo: Sandbox) -> None:
    for name in ("k.p12", "z.bin"):  # the same bytes under another name are no secret by their name
        repo.write(name, b"\0\1")
    repo.git("add", "-f", ".")
    repo.ok("snapshot", "--track", "t", "s")
    done = repo.baton("scan", "--files")
    assert done.code == 1 and "k.p12:1: secret-file" in done.out and ".bin" not in done.out
    assert "forget" in done.err and "redactAllow" not in done.err  # which allows no name


KEY = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.mark.parametrize("setting", ["user.name", deep("user.email")])
def test_a_key_in_the_name_of_who_took_a_checkpoint_does_not_leave(repo: Sandbox, hub: Sandbox, setting: str) -> None:
    repo.ok("snapshot", "--track", "t", "before")
    repo.git("config", setting, f"x {KEY}" if setting == "user.name" else f"{KEY}@example.org")
    repo.ok("snapshot", "s")
    repo.git("config", setting, "somebody")
    repo.ok("snapshot", "after")
    done = repo.baton("push", "--yes", "origin", "t")
    assert done.code == 1 and " author: github-token ghp_" in done.err and KEY not in done.err + hub.everything()
    assert repo.baton("scan").code == 1


@pytest.mark.deep
def test_the_guide_lists_the_default() -> None:
    guide = (ROOT / "gitbaton/data/guides/secrets.md").read_text()
    assert not [pattern for pattern in EXCLUDE if f"`{pattern.lstrip('!')}`" not in guide]
