"""``git baton page``: a track over time as one file, in a real browser and without one."""

from __future__ import annotations

import html.parser
import re
from datetime import timedelta
from pathlib import Path

import pytest

from tests.kit import Sandbox
from tests.kit.browser import Browser, needs_browser
from tests.kit.keys import keys
from tests.kit.manytracks import BEGIN, many_tracks
from tests.kit.repos import integer_clock
from tests.kit.talks import Talk

KEY = keys(11)["github"][0]
HOSTILE = "<script>document.title='hit'</script><img src=x onerror=alert(1)> \"' &amp; \u202e\x1b[31m"


def story(repo: Sandbox, tmp_path: Path) -> Path:
    """A repository in which something was done, and its page."""
    repo.commit("first", **{"a.py": "one\n"})
    repo.ok("snapshot", "--track", "parser", "lexer done", "--validation", "green", "--note", HOSTILE)
    talk = Talk(repo, tmp_path / "talk.jsonl")
    for number, prompt in enumerate(("round to even", HOSTILE)):
        talk.ask(prompt)
        talk.plan(**{"write the changelog": "pending"})
        talk.edit("a.py", f"{number}\n")
        talk.run("pytest -q", "1 passed in 0.1s\n")
        talk.stop()
    repo.ok("snapshot", "--track", "x<y", f"other {HOSTILE}", "--validation", "failed")
    repo.write("a.py", "broken\n")
    repo.ok("restore", "parser~2", "--force")
    repo.write("b<i>.py", "new\n")
    repo.ok("snapshot", "--track", "parser", "back again")
    file = tmp_path / "page.html"
    repo.ok("page", "-o", str(file))
    return file


class Reader(html.parser.HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.deep
def test_a_page_is_one_file_that_asks_for_nothing(repo: Sandbox, tmp_path: Path) -> None:
    text = story(repo, tmp_path).read_text()
    read = Reader(text)
    asking = {"src", "href", "action", "background", "poster", "srcset", "style"}
    assert [tag for tag in read.tags if asking & tag[1].keys() or any(name.startswith("on") for name in tag[1])] == []
    assert {tag for tag, _ in read.tags} & {"img", "iframe", "object", "link", "base"} == set()
    assert sum(tag == "script" for tag, _ in read.tags) == 1
    assert "default-src 'none'" in text
    assert "\x1b" not in text


@pytest.mark.full
def test_words_tests_plans_files_and_diffs_are_in_it(repo: Sandbox, tmp_path: Path) -> None:
    text = Reader(story(repo, tmp_path).read_text()).text
    for said in ("lexer done", "+ green", "x failed", "+ passed", "open: write the changelog", "b<i>.py", "+new", "2 tracks"):
        assert said in text, said
    assert re.search(r"restored [0-9a-f]{10}: lexer done", text) and "commit: first" in text
    assert "<script>document.title='hit'</script>" in text


def test_files_of_an_unborn_branch_are_in_it(tmp_path: Path) -> None:
    box = Sandbox.init(tmp_path / "unborn")
    box.write("a.py", "one\n")
    box.ok("snapshot", "--track", "t", "begin")
    box.ok("page", "-o", str(tmp_path / "page.html"))
    text = Reader((tmp_path / "page.html").read_text()).text
    assert "1 file" in text and "a.py" in text


@pytest.mark.deep
def test_a_restore_that_was_undone_says_so(repo: Sandbox, tmp_path: Path) -> None:
    def restores() -> list[tuple[str, ...]]:
        repo.ok("page", "-o", str(tmp_path / "page.html"))
        found = re.findall(
            r'<li class="(r[ g]*)l0".*?</time>(?:<em class="f">(\w+)</em>)?<span>(\w+)', (tmp_path / "page.html").read_text()
        )
        return [(kind.strip(), *rest) for kind, *rest in found]

    for n in ("1", "2"):
        repo.write("a.txt", n)
        repo.ok("snapshot", "--track", "t", f"step {n}")
    repo.ok("restore", "t~1")
    assert restores() == [("r", "", "restored")]
    assert "undone" not in repo.ok("log").out
    repo.ok("undo")
    assert restores() == [("r", "", "undo"), ("r", "undone", "restored")]
    assert "(undone) restored" in repo.ok("log").out and "(undone) restored" in repo.ok("log", "--graph").out
    repo.ok("redo")
    assert restores() == [("r g", "", "redo"), ("r", "", "undo"), ("r", "", "restored")]
    assert "undone" not in repo.ok("log").out


@pytest.mark.deep
def test_secrets_stay_out_of_words_and_diffs(repo: Sandbox, tmp_path: Path) -> None:
    repo.commit("first", **{"a.py": "one\n"})
    repo.git("config", "baton.redact", "off")
    repo.ok("snapshot", f"with {KEY}")
    repo.write("a.py", f"key = '{KEY}'\n")
    repo.ok("snapshot", "key in a file")
    repo.git("config", "baton.redact", "on")
    done = repo.ok("page", "-o", str(tmp_path / "page.html"))
    assert "1 diff left out: 'git baton scan --files' says why" in done.out
    text = (tmp_path / "page.html").read_text()
    assert KEY not in text and "it holds what looks like a secret" in text


@pytest.mark.deep
def test_names_of_things_hold_no_secret_either_also_where_redaction_is_off(repo: Sandbox, tmp_path: Path) -> None:
    repo.git("config", "baton.redact", "off")
    repo.git("checkout", "-qb", f"b-{KEY}")
    repo.write(f"f-{KEY}.txt", "x\n")
    repo.ok("snapshot", "one", "--track", "t")
    repo.write(f"g-{KEY}.txt", "x\n")
    repo.ok("snapshot", f"two {KEY}", "--track", "t")
    repo.ok("page", "-o", str(tmp_path / "page.html"))
    assert KEY not in (tmp_path / "page.html").read_text()
    assert KEY not in repo.ok("summary", "t").out


@pytest.mark.deep
def test_only_a_page_is_written_over(repo: Sandbox, tmp_path: Path) -> None:
    repo.ok("snapshot", "one")
    mine = tmp_path / "mine.html"
    mine.write_text("precious")
    done = repo.baton("page", "-o", str(mine))
    assert (done.code, mine.read_text()) == (128, "precious") and "is no page of git baton" in done.err
    beside = tmp_path / "page.html.new"
    beside.write_text("precious")
    for _ in range(2):
        repo.ok("page", "-o", str(tmp_path / "page.html"))
    assert beside.read_text() == "precious"


@pytest.mark.deep
def test_old_diffs_name_the_command_that_shows_them(repo: Sandbox, tmp_path: Path) -> None:
    """Those of the newest 200 are shown."""
    with repo.open(clock=integer_clock(BEGIN - timedelta(days=1))) as baton:
        for number in range(2):
            repo.write("a.py", f"{number}\n")
            baton.snapshot(f"step {number}", track="t")
    many_tracks(repo.path, 200, depth=1)
    repo.ok("page", "-o", str(tmp_path / "page.html"))
    commands = re.findall(r"<code>(git baton diff \w+ \w+)</code>", (tmp_path / "page.html").read_text())
    assert len(commands) == 1 and repo.run("sh", "-c", commands[0]).out.count("\n+") >= 1


@pytest.mark.deep
def test_what_cannot_be_written_or_shown_is_said(repo: Sandbox, tmp_path: Path) -> None:
    assert repo.baton("page").err.startswith("fatal: there is no checkpoint")
    repo.ok("snapshot", "one")
    assert repo.baton("page", "-o", str(tmp_path)).err == f"fatal: '{tmp_path}' is a folder\n"
    assert repo.baton("page", "nope").code == 2


def test_the_page_is_in_no_snapshot(repo: Sandbox) -> None:
    repo.ok("snapshot", "one")
    below = repo.path / "d"
    below.mkdir()
    said = repo.baton("page", "main", cwd=below)
    assert said.code == 0 and said.out.startswith("../.git/baton/page.html: 1 checkpoint, ")
    assert b"git baton" in (repo.path / ".git/baton/page.html").read_bytes()
    assert repo.ok("page").out.startswith(".git/baton/page.html: ")
    assert repo.git("status", "--porcelain", "-uall") == "" and repo.ok("diff", "--stat").out == ""


@pytest.mark.full
@needs_browser
def test_a_browser_draws_filters_and_unfolds_without_a_complaint(repo: Sandbox, tmp_path: Path) -> None:
    file = story(repo, tmp_path)
    with Browser(tmp_path / "profile") as tab:
        tab.open(file)
        assert tab.run("document.title") == f"{repo.path.name}: 5 checkpoints"
        assert tab.run("getComputedStyle(document.querySelector('li.c i')).borderRadius") == "50%"
        visible = "rows.filter(row => !row.hidden).length"
        every = tab.run(visible)
        tab.run("boxes[1].click()")
        assert tab.run(visible) < every
        tab.run("boxes[1].click()")
        tab.key("/")
        assert tab.run("document.activeElement.id") == "q"
        for letter in "b<i>.py":
            tab.key(letter)
        tab.key("Enter")
        assert tab.run(visible) == 1 and tab.run("count.value") == "1 found"
        tab.run("query.value = ''; shown(); document.activeElement.blur()")
        tab.key("j")
        tab.key("j")
        assert tab.run("document.activeElement.closest('li') === rows.filter(row => row.classList.contains('c'))[1]")
        tab.key("Enter")
        assert tab.run("document.activeElement.parentElement.open")
        assert tab.run("[...document.querySelectorAll('input')].every(i => i.labels.length || i.ariaLabel)")
        assert tab.complaints() == []


CONTRAST = """
(() => {
  const parts = text => text.match(/[\\d.]+/g).map(Number);
  const light = text => { const [r, g, b] = parts(text).map(v => v / 255).map(
    v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = at => { const found = getComputedStyle(at).backgroundColor;
    return parts(found)[3] === 0 ? behind(at.parentElement) : found; };
  const worst = [];
  for (const places of ["body *", "li.c summary *"]) {
    for (const at of document.querySelectorAll(places)) {
      if (!at.checkVisibility() || ![...at.childNodes].some(node => node.nodeType === 3 && node.data.trim())) continue;
      const pair = [light(getComputedStyle(at).color), light(behind(at))].sort((a, b) => b - a);
      const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
      if (ratio < 4.5) worst.push(at.outerHTML.slice(0, 60) + " " + ratio);
    }
    document.querySelectorAll("summary").forEach(at => at.style.background = "var(--hit)");  // as the one that has the focus
  }
  return worst.join();
})()
"""


@pytest.mark.full
@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(repo: Sandbox, tmp_path: Path, scheme: str) -> None:
    file = story(repo, tmp_path)
    with Browser(tmp_path / "profile") as tab:
        tab.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        tab.open(file)
        tab.run("document.querySelectorAll('details').forEach(at => at.open = true)")
        assert tab.run(CONTRAST) == ""


@pytest.mark.full
@needs_browser
@pytest.mark.parametrize("columns", [320, 1200])
def test_an_id_is_one_line(repo: Sandbox, tmp_path: Path, columns: int) -> None:
    file = story(repo, tmp_path)
    with Browser(tmp_path / "profile") as tab:
        tab.ask("Emulation.setDeviceMetricsOverride", width=columns, height=800, deviceScaleFactor=1, mobile=False)
        tab.open(file)
        tab.run("document.querySelectorAll('li.c > details').forEach(at => at.open = true)")
        assert tab.run("Math.max(...[...document.querySelectorAll('dd.o')].map(at => at.offsetHeight))") < 30
        assert tab.run("document.documentElement.scrollWidth") <= columns


@pytest.mark.full
@needs_browser
def test_ten_thousand_checkpoints_are_drawn(repo: Sandbox, tmp_path: Path) -> None:
    many_tracks(repo.path, 20, depth=500)
    repo.ok("page", "-o", str(tmp_path / "page.html"))
    assert (tmp_path / "page.html").stat().st_size < 12 << 20
    with Browser(tmp_path / "profile") as tab:
        tab.open(tmp_path / "page.html")
        assert tab.run("rows.length") == 10_001  # and the commit
        tab.run("query.value = 'step 9 of agent 3'; shown()")
        assert tab.run("count.value") == "1 found"
        assert tab.run("document.querySelector('main').offsetHeight") < 200  # nothing in the place of what is hidden
        tab.run("query.value = ''; shown()")
        assert tab.run("document.querySelector('main').offsetHeight") > 10_000 * 20
        assert tab.complaints() == []
