"""``transcript show``, ``export`` and ``restore --conversation``, end to end, with transcripts as the clients write them."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from gitbaton.agents.claude import folder_of
from gitbaton.agents.client import client
from gitbaton.agents.converting import MOST, Converted, converted
from gitbaton.agents.signs import Message
from gitbaton.agents.transcripts import Mode, record
from gitbaton.base.clients import HookEvent
from gitbaton.base.codec import transcript_text
from gitbaton.base.errors import BatonError, NoAnswerError
from gitbaton.base.model import Agent
from gitbaton.care.tools import conversations
from tests.kit import Sandbox
from tests.kit.agents import Client
from tests.kit.far import Far
from tests.kit.guides import GUIDES, block_with
from tests.kit.past import Past
from tests.kit.spoken import COMMAND, PATH, PRINTED, RECORDS, SPOKEN, SUMMARY, TEXT, UNSAID, compacted, recorded, taken
from tests.kit.state import assert_same, state_of
from tests.kit.tiers import some
from tests.rooms.agents.test_conversation_formats import CLAUDE, CODEX, COPILOT, GEMINI, OLD, said
from tests.rooms.agents.test_conversation_formats import rows as lines

TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
UUID4 = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
FILES = {
    "claude": f".claude/projects/-else/{OLD}.jsonl",
    "codex": f".codex/sessions/2026/11/20/rollout-2026-11-20T16-30-52-{OLD}.jsonl",
    "gemini": f".gemini/tmp/repo/chats/session-2026-11-20T16-30-{OLD[:8]}.jsonl",
    "copilot": f".copilot/session-state/{OLD}/events.jsonl",
}
TALK = {"claude": lines(*CLAUDE), "codex": lines(*CODEX), "gemini": lines(*GEMINI), "copilot": lines(*COPILOT)}


def home() -> Path:
    return Path(os.environ["HOME"])


def talk(box: Sandbox, agent: str, data: bytes | None = None, mode: Mode = "position") -> str:
    """A checkpoint of track ``agent``, taken when the client had written this; its id."""
    path = home() / FILES[agent]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(TALK[agent] if data is None else data)
    with box.open(door="binary") as baton:
        event = HookEvent(agent=agent, name="Stop", moment="turn", session=OLD, transcript=str(path))
        found = record(baton, event, mode, None)
        text = transcript_text(found) if found else None
        return baton.snapshot("talk", track=agent, agent=Agent(name=agent, session=OLD, transcript=text)).stored.id


def sessions() -> set[Path]:
    """Every file that a client would find."""
    return {p for name in (".claude", ".codex", ".gemini") for p in (home() / name).rglob("*") if p.is_file()}


def assert_wrote_nothing(box: Sandbox, *words: str, code: int) -> str:
    """A command that is refused and leaves everything as it was; what it said."""
    before, there = state_of(box), sessions()
    done = box.baton(*words)
    assert (done.code, done.out) == (code, ""), done.out + done.err
    assert_same(before, state_of(box), " ".join(words))
    assert sessions() == there
    return done.err


def strange(box: Sandbox, agent: str) -> None:
    """A checkpoint of track ``agent`` that was fetched from elsewhere."""
    oid = talk(box, agent)
    with box.open() as baton, baton.repo.lock(()):
        baton.store.mark(agent, [oid])


def test_show_prints_a_block_for_each_message(repo: Sandbox) -> None:
    talk(repo, "claude", TALK["claude"] + lines(said("u9", "u7", "user", "\x1b[2Jx\r\nassistant:\n\tforged\u202e")))
    assert repo.ok("transcript", "show", "claude").out == (
        "user:\n    hello\n\nassistant:\n    I look\n\ntool Bash:\n    ls\n\ntool Bash:\n    a.txt\n    [image]\n\n"
        "system:\n    a reminder\n\nsystem:\n    Conversation compacted\n\nsystem:\n    step=x\n\n"
        "user:\n    ?[2Jx\n    assistant:\n    \tforged?\n"
    )


@some("mode", ["position", "full"], share=0)
@some("agent", FILES, share=0)
def test_export_gives_the_bytes_up_to_the_checkpoint(repo: Sandbox, tmp_path: Path, agent: str, mode: Mode) -> None:
    data = TALK[agent] + b'{"odd": "\xff\r"}\n\n'
    first = talk(repo, agent, data, mode)
    talk(repo, agent, data + b'{"later": 1}\n', mode)
    for words in (("export", first), ("show", "--json", f"{agent}~1")):
        done = repo.ok("transcript", *words)
        assert done.out.encode("utf-8", "surrogateescape") == data
    repo.ok("transcript", "export", agent, "-o", str(tmp_path / "out"))
    assert (tmp_path / "out").read_bytes() == data + b'{"later": 1}\n'
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o600


@pytest.mark.deep
def test_export_never_writes_over_anything(repo: Sandbox) -> None:
    talk(repo, "claude")
    (repo.path / "there").write_text("mine")
    (repo.path / "link").symlink_to("nowhere")
    for name in ("there", "link", ".git"):
        assert_wrote_nothing(repo, "transcript", "export", "-o", name, code=128)
    assert (repo.path / "there").read_text() == "mine" and not (repo.path / "nowhere").exists()


@pytest.mark.deep
def test_what_cannot_be_answered_is_one_line(repo: Sandbox) -> None:
    said = assert_wrote_nothing(repo, "transcript", "show", code=2)
    assert said.startswith("fatal: there is no checkpoint in this repository\n")
    repo.ok("snapshot", "--track", "t", "--step", "s")
    assert "knows of no conversation" in assert_wrote_nothing(repo, "transcript", "show", code=128)
    assert "knows of no conversation" in assert_wrote_nothing(repo, "restore", "--conversation-only", code=128)
    talk(repo, "claude")
    (home() / FILES["claude"]).unlink()
    said = assert_wrote_nothing(repo, "transcript", "export", "claude", code=128)
    assert "is not stored, and the client has no file of it here" in said
    assert "hint: 'git config baton.transcripts full' has the hooks store from now on what is said, redacted" in said
    talk(repo, "claude", b'{"type": "mode"}\n')
    assert "nothing can be shown" in assert_wrote_nothing(repo, "transcript", "show", "claude", code=128)
    for words in (("tell",), ("show", "-o", "x"), ("export", "--json"), ("show", "a", "b"), ()):
        assert_wrote_nothing(repo, "transcript", *words, code=129)


def test_foreign_lines_are_quoted(repo: Sandbox) -> None:
    strange(repo, "gemini")
    rows = repo.ok("transcript", "show", "gemini").out.splitlines()
    assert rows[:4] == ["> user:", ">     hello", ">", "> assistant:"] and all(row.startswith(">") for row in rows)


def written(out: str, agent: str) -> tuple[Path, str]:
    """The new session that a command says it wrote, and the line that resumes it."""
    match = re.search(rf"^written: '(.*?({UUID4})\.jsonl)'$", out, re.M)
    assert match, out
    command = {"claude": "claude --resume", "codex": "codex resume"}[agent]
    line = re.search(r"^resume it with: (.*)$", out, re.M)
    assert line and line.group(1).endswith(f"{command} {match.group(2)}"), out
    return Path(match.group(1)), line.group(1)


@pytest.mark.deep
def test_a_claude_session_comes_back_beside_the_old_one(repo: Sandbox) -> None:
    talk(repo, "claude")
    there = sessions()
    before = state_of(repo)
    path, line = written(repo.ok("restore", "--conversation-only", "claude").out, "claude")
    assert_same(before, state_of(repo), "restore --conversation-only")
    assert path.parent == home() / ".claude/projects" / folder_of(str(repo.path.resolve()))
    assert sessions() - there == {path} and stat.S_IMODE(path.stat().st_mode) == 0o600
    new = path.stem
    assert [json.loads(row) for row in path.read_bytes().splitlines()] == [
        {**row, "sessionId": new} if "sessionId" in row else row for row in CLAUDE
    ]
    assert line == f"claude --resume {new}" and (home() / FILES["claude"]).read_bytes() == TALK["claude"]


def test_a_codex_session_comes_back_beside_the_old_one(repo: Sandbox, tmp_path: Path) -> None:
    talk(repo, "codex", mode="full")
    (home() / FILES["codex"]).unlink()
    done = repo.baton("--repo-root", str(repo.path), "restore", "--conversation-only", "codex", cwd=tmp_path)
    assert "warning: it ends within a call of the tool 'local_shell'" in done.err
    path, line = written(done.out, "codex")
    assert re.fullmatch(rf"sessions/(\d{{4}})/(\d\d)/(\d\d)/rollout-\1-\2-\3T\d\d-\d\d-\d\d-{UUID4}\.jsonl", str(below(path)))
    assert json.loads(path.read_bytes().splitlines()[0])["payload"]["id"] in path.name
    assert line == f"cd {shlex.quote(str(repo.path))} && codex resume {path.stem[-36:]}"


def below(path: Path) -> Path:
    return path.relative_to(home() / ".codex")


def test_the_clients_own_variables_count(repo: Sandbox, tmp_path: Path) -> None:
    talk(repo, "claude", mode="full")
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path / "config")}
    done = repo.ok("restore", "--conversation-only", "--json", "claude", env=env)
    assert done.json["path"].startswith(f"{tmp_path}/config/projects/") and Path(done.json["path"]).is_file()
    assert done.json["command"] == f"claude --resume {done.json['session']}" and done.json["v"] == 1


@pytest.mark.deep
def test_files_and_conversation_come_back_together(repo: Sandbox) -> None:
    repo.write("a.txt", "then\n")
    talk(repo, "claude")
    repo.write("a.txt", "now\n")
    there = sessions()
    dry = repo.ok("restore", "--conversation", "--dry-run", "claude")
    assert re.search(rf"^would write: '.*{UUID4}\.jsonl'$", dry.out, re.M) and "would write a.txt" in dry.out
    assert (repo.path / "a.txt").read_text() == "now\n" and sessions() == there
    done = repo.ok("restore", "--conversation", "claude")
    path, _ = written(done.out, "claude")
    assert done.out.index("write a.txt") < done.out.index("written: ") and path.is_file()
    assert (repo.path / "a.txt").read_text() == "then\n"
    repo.ok("undo")
    assert (repo.path / "a.txt").read_text() == "now\n" and path.is_file()


def test_a_conflict_does_not_keep_the_conversation_back(repo: Sandbox) -> None:
    repo.write("a.txt", "then\n")
    talk(repo, "claude")
    (repo.path / "a.txt").unlink()
    (repo.path / "a.txt").mkdir()
    repo.write("a.txt/mine", "mine\n")
    done = repo.baton("restore", "--conversation", "claude")
    assert done.code == 1 and written(done.out, "claude")[0].is_file()
    assert (repo.path / "a.txt/mine").read_text() == "mine\n"


@pytest.mark.deep
def test_nothing_is_restored_where_the_conversation_cannot_be(repo: Sandbox) -> None:
    repo.write("a.txt", "then\n")
    for agent in ("copilot", "claude", "codex"):
        talk(repo, agent, None if agent == "copilot" else b'{"type": "mode"}\n')
    repo.ok("snapshot", "--track", "words", "--step", "s")
    talk(repo, "claude")
    (home() / FILES["claude"]).unlink()
    repo.write("a.txt", "now\n")
    cases = (
        ("copilot", 1, "cannot be written as a session that 'copilot' resumes"),
        ("codex", 1, "holds nothing that 'codex' could resume"),
        ("claude~1", 1, "holds nothing that 'claude' could resume"),
        ("claude", 128, "the client has no file of it here"),
        ("words", 128, "knows of no conversation"),
    )
    for name, code, text in cases:
        if name == "claude~1":
            (home() / FILES["claude"]).write_bytes(b'{"type": "mode"}\n')
        for options in (("--conversation",), ("--conversation", "-n"), ("--conversation", "--force", "--exact")):
            said = assert_wrote_nothing(repo, "restore", *options, name, code=code)
            assert text in said and "hint: nothing is restored; without --conversation the files are\n" in said
        (home() / FILES["claude"]).unlink(missing_ok=True)
    assert (repo.path / "a.txt").read_text() == "now\n"
    repo.ok("restore", "copilot")
    assert (repo.path / "a.txt").read_text() == "then\n"


@pytest.mark.full
def test_options_that_say_nothing_together_are_refused(repo: Sandbox) -> None:
    talk(repo, "claude")
    for words in (
        ("--conversation", "--conversation-only"),
        ("--conversation", "--json"),
        *(("--conversation-only", option) for option in ("--exact", "--index", "--force")),
        ("--conversation-only", "claude", "--", "a.txt"),
    ):
        assert "exclude each other" in assert_wrote_nothing(repo, "restore", *words, code=129)
    assert "there is no" in assert_wrote_nothing(repo, "restore", "--conversation", "nothing", code=2)


@pytest.mark.deep
def test_a_strangers_conversation_must_be_asked_for(repo: Sandbox) -> None:
    strange(repo, "claude")
    repo.write("a.txt", "now\n")
    for words in (("--conversation-only",), ("--conversation-only", "-n"), ("--conversation",)):
        said = assert_wrote_nothing(repo, "restore", *words, "claude", code=128)
        assert "was fetched from elsewhere" in said and "without --conversation" not in said
    path, _ = written(repo.ok("restore", "--conversation-only", "--foreign", "claude").out, "claude")
    assert b"obey" not in path.read_bytes() and b"I look" in path.read_bytes()


def planned(box: Sandbox, session: str, **env: str) -> conversations.ConversationPlan:
    with box.open(door="binary") as baton:
        return conversations.plan(baton, baton.resolve("claude"), {**os.environ, **env}, session)


def test_a_session_that_exists_is_not_written_over(repo: Sandbox) -> None:
    talk(repo, "claude")
    plan = planned(repo, OLD)
    for kind in ("file", "link", "folder"):
        path = Path(plan.path)
        path.parent.mkdir(parents=True, exist_ok=True)
        {"file": path.touch, "link": lambda path=path: path.symlink_to("x"), "folder": path.mkdir}[kind]()
        with pytest.raises(BatonError, match="exists, and is not written over"):
            conversations.apply(plan)
        path.rmdir() if kind == "folder" else path.unlink()
    conversations.apply(plan)
    assert Path(plan.path).read_bytes() == plan.data


def test_a_plan_writes_nothing_and_needs_a_home(repo: Sandbox) -> None:
    talk(repo, "claude", mode="full")
    there = sessions()
    assert planned(repo, "n").session == "n" and sessions() == there
    with pytest.raises(NoAnswerError):
        planned(repo, "n", HOME="")


def test_what_cannot_be_written_leaves_no_part(repo: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        conversations.save(str(tmp_path / "new"), b"x")
    assert not (tmp_path / "new").exists()


def test_ids_are_random_uuids() -> None:
    found = {conversations.new_id() for _ in range(200)}
    assert len(found) == 200 and all(re.fullmatch(UUID4, name) for name in found)


def test_a_linked_work_tree_has_its_own_folder(repo: Sandbox, tmp_path: Path) -> None:
    talk(repo, "claude")
    repo.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other tree"))
    other = Sandbox(tmp_path / "other tree")
    (other.path / "sub").mkdir()
    done = other.baton("restore", "--conversation-only", "claude", cwd=other.path / "sub")
    path, line = written(done.out, "claude")
    assert path.parent.name == folder_of(str(other.path.resolve())) != folder_of(str(repo.path.resolve()))
    assert line.startswith(f"cd '{other.path}' && claude --resume ")


def resaid(agent: str, data: bytes) -> Converted:
    """What a session that was written for a client holds."""
    of = client(agent)
    assert of is not None
    if agent != "opencode":
        return converted(of, data)
    rows = [
        {"data": part, "message_role": row["info"]["role"], "message_agent": row["info"]["agent"]}
        for row in json.loads(data)["messages"]
        for part in row["parts"]
    ]
    return converted(of, lines(*rows))


def as_rows(messages: Iterable[Message], who: Sequence[str] = ("user", "assistant")) -> list[tuple[str, str]]:
    """What was said, a row for each part of it, without calls that are told as texts."""
    rows = [(m.who, row) for m in messages if m.who in who for row in m.text.split("\n") if row]
    return [(side, row) for side, row in rows if not row.startswith(("[tool ", "[result] "))]


@pytest.mark.parametrize("other", ["claude", "codex", "gemini", "opencode"])
def test_a_conversation_becomes_a_session_of_another_client(repo: Sandbox, other: str) -> None:
    """Each message once, from its side; what was not carried is named, and no secret goes to a place where it was not."""
    for source in [name for name in RECORDS if name != other]:
        path = recorded(source, home())
        path.write_text(path.read_text().replace(PRINTED, f"{PRINTED} export API_TOKEN={TOKEN}"))
        taken(source, repo, path, "position")
        there = everything()
        dry = repo.ok("restore", "--conversation-only", "--as", other, "--dry-run", source)
        left = {"image": 1, "thought": 1, "system message": 1} if source != "copilot" else {"thought": 1, "system message": 1}
        told = "; ".join(["5 messages", f"left out: {', '.join(f'{number} {noun}' for noun, number in left.items())}"])
        assert everything() == there and f"{told}\n" in dry.out
        done = repo.ok("restore", "--conversation-only", "--as", other, "--json", source).json
        found = Path(done["path"])
        assert (done["messages"], done["cut"], done["agent"]) == (5, 0, other)
        assert done["left_out"] == {noun.replace(" ", "_"): number for noun, number in left.items()}
        assert everything() - there == {found} and stat.S_IMODE(found.stat().st_mode) == 0o600
        text = found.read_text()
        assert TOKEN not in text and TOKEN in path.read_text() and not any(words in text for words in UNSAID)
        back = resaid(other, found.read_bytes())
        assert as_rows(back.messages) == list(SPOKEN) and TEXT in text and PATH in text
        assert [m.text for m in back.messages if m.who == "command"] == [COMMAND]
        assert not back.left_out and back.open_call is None


def everything() -> set[Path]:
    """Every file below the home folder."""
    return {path for path in home().rglob("*") if path.is_file()}


@pytest.mark.deep
@pytest.mark.parametrize("other", ["claude", "codex", "gemini", "opencode"])
def test_a_summary_stays_where_it_was_written(repo: Sandbox, other: str) -> None:
    for source in [name for name in ("claude", "codex") if name != other]:
        taken(source, repo, recorded(source, home(), compacted(source)))
        done = repo.ok("restore", "--conversation-only", "--as", other, "--json", source).json
        back = resaid(other, Path(done["path"]).read_bytes())
        summary = [("summary", SUMMARY)] if other != "gemini" else []  # that writes nothing down that tells it from a prompt
        assert as_rows(back.messages, ("user", "assistant", "summary")) == [*SPOKEN[:3], *summary, *SPOKEN[3:]]


@pytest.mark.parametrize("other", ["claude", "codex", "gemini", "opencode"])
def test_a_call_that_has_no_answer_is_closed_and_what_is_large_is_cut(repo: Sandbox, other: str) -> None:
    source = "codex" if other == "claude" else "claude"
    first = [{**row} for row in RECORDS[source]()[: 9 if source == "codex" else 4]]
    text = json.dumps(first).replace(PRINTED, "x" * 5_000)
    last = json.loads(
        json.dumps(RECORDS[source]()[7 if source == "codex" else 2]).replace("c1", "c9").replace("toolu_1", "toolu_9")
    )
    last |= {} if source == "codex" else {"uuid": "u9", "parentUuid": "u3"}
    taken(source, repo, recorded(source, home(), [*json.loads(text), last]))
    done = repo.ok("restore", "--conversation-only", "--as", other, source)
    assert "2 messages; left out: " in done.out and "; cut: 1 of the calls and results\n" in done.out
    assert f"it ends within a call of the tool '{'exec_command' if source == 'codex' else 'Bash'}'" in done.err
    path = re.search(r"^written: '(.*)'$", done.out, re.M)
    assert path is not None
    calls = [m for m in resaid(other, Path(path[1]).read_bytes()).messages if m.who == "command"]
    assert [m.text for m in calls] == [COMMAND, COMMAND] and "interrupted" in calls[1].answer
    assert len(calls[0].answer) <= MOST and "\n[3060 characters are left out]\n" in calls[0].answer


@pytest.mark.parametrize("agent", ["claude", "qwen", "droid"])
def test_what_was_said_before_a_call_comes_before_it(agent: str) -> None:
    of, text, name = client(agent), {"type": "text", "text": "I look."}, {"droid": "Execute"}.get(agent, "Bash")
    blocks: list[object] = [text, {"type": "tool_use", "id": "k", "name": name, "input": {"command": "ls"}}]
    record = {"type": "message" if agent == "droid" else "assistant", "uuid": "u", "id": "u", "parentUuid": None}
    message: dict[str, object] = {"role": "assistant", "content": blocks}
    if agent == "qwen":
        call = {"id": "k", "name": "run_shell_command", "args": {"command": "ls"}}
        message = {"parts": [{"text": "I look."}, {"functionCall": call}]}
    assert of is not None
    found = converted(of, lines({**record, "message": message})).messages
    assert [(m.who, m.text) for m in found[1:]] == [("assistant", "I look."), ("command", "ls")]


def test_a_checkpoint_without_files_brings_back_what_was_said(repo: Sandbox) -> None:
    Past(repo).turn("Halve it, please", "half.py", "x / 2\n", "half: begun", "It halves.")
    repo.ok("import", "--client", "claude", "--yes")
    (repo.path / "half.py").write_text("mine\n")
    key = json.loads(repo.ok("log", "--kind", "imported", "--json").out)["checkpoints"][0]["id"][:12]
    only = f"hint: 'git baton restore --conversation-only {key}' brings back what was said\n"
    for options in ([], ["--conversation", "--exact"], ["--conversation", "--index", "-n"]):
        said = assert_wrote_nothing(repo, "restore", *options, key, code=128)
        assert f"checkpoint '{key}' was recorded without files\n{only}" in said
    assert only in assert_wrote_nothing(repo, "restore", "--conversation", key, "--", "half.py", code=128)
    before = everything()
    dry = repo.ok("restore", "--conversation", "--as", "codex", "--dry-run", key)
    assert everything() == before and "2 messages\n" in dry.out
    for options in (["--conversation", "--as", "codex"], ["--conversation"], ["--conversation-only"]):
        done = repo.ok("restore", *options, key)
        found, line = written(done.out, "codex" if "codex" in options else "claude")
        assert "It halves." in found.read_text() and line
        alone = f"warning: no files come back: checkpoint '{key[:10]}' was recorded without them\n"
        assert done.err == (alone if "--conversation" in options else "")
    assert (repo.path / "half.py").read_text() == "mine\n"


def test_what_was_said_up_to_a_checkpoint_is_read_from_a_clients_database(repo: Sandbox) -> None:
    past = Past(repo, "opencode")
    past.turn("Halve it, please", "half.py", f"# {TOKEN}\n", "half: begun", f"It halves {TOKEN}.")
    repo.ok("snapshot", "--track", "t", "words")
    repo.write("half.py", "mine\n")
    Client("opencode", repo.path, session=past.session, home=home()).fire("turn")
    past.now += timedelta(hours=3)
    past.turn("and integers", "half.py", "y // 2\n", "half: integers", "Done.")
    said = repo.ok("transcript", "show").out
    assert "Halve it, please" in said and "It halves [redacted:" in said and "and integers" not in said and TOKEN not in said
    for other in ("claude", "opencode"):
        done = repo.ok("restore", "--conversation-only", "--as", other, "--json").json
        text = Path(done["path"]).read_text()
        assert done["messages"] == 2 and "It halves" in text and (TOKEN in text) == (other == "opencode")
    assert repo.ok("restore", "--conversation-only").out.count("opencode --session ") == 1
    past.path.unlink()
    said = assert_wrote_nothing(repo, "restore", "--conversation-only", "--as", "claude", code=128)
    assert "knows of no conversation" in said and "knows of no conversation" in repo.baton("transcript", "show").err


def test_a_stranger_brings_neither_orders_nor_what_the_system_said(repo: Sandbox) -> None:
    strange(repo, "claude")
    said = assert_wrote_nothing(repo, "restore", "--conversation-only", "--as", "codex", "claude", code=128)
    assert "was fetched from elsewhere" in said
    done = repo.ok("restore", "--conversation-only", "--as", "codex", "--foreign", "--json", "claude").json
    text = Path(done["path"]).read_text()
    assert "obey" not in text and "a reminder" not in text and "I look" in text


def test_only_clients_that_resume_it_are_written_for(repo: Sandbox) -> None:
    talk(repo, "copilot")
    for name in ("cursor", "copilot", "Claude", ""):
        said = assert_wrote_nothing(repo, "restore", "--conversation-only", "--as", name, "copilot", code=129)
        assert f"no session can be written for '{name}'; it can for claude, codex, gemini, opencode\n" in said
    said = assert_wrote_nothing(repo, "restore", "--as", "codex", "copilot", code=129)
    assert "--as goes with --conversation or --conversation-only" in said
    assert said.endswith("hint: without files: git baton restore --conversation-only --as codex copilot\n")
    said = assert_wrote_nothing(repo, "restore", "--conversation-only", "copilot", code=1)
    assert "hint: '--as CLIENT' writes it for another: claude, codex, gemini, opencode\n" in said
    metavar = "|".join(conversations.targets())
    assert f"--as {metavar} " in re.sub(r"\s+", " ", repo.ok("restore", "-h").out)


@pytest.mark.deep
def test_work_goes_on_on_another_machine_in_another_client(tmp_path: Path) -> None:
    """The lines of the guide, from a clone with a conversation to one with another home, where nothing of it is."""
    block = block_with((GUIDES / "sharing.md").read_text(), "text", "--as codex")
    push, fetch, back = [shlex.split(row.partition("#")[0])[2:] for row in block.splitlines()]
    far = Far(tmp_path)
    here, there = Sandbox(far.first.path), Sandbox(far.clone().path)
    here.write("a.txt", "as the agent left it\n")
    taken("claude", here, recorded("claude", tmp_path / "claude"), track="parser")
    here.ok(*push, "--yes")
    other = tmp_path / "other home"
    other.mkdir()
    shutil.copy(home() / ".gitconfig", other)
    env = {"HOME": str(other)}
    there.ok(*fetch, env=env)
    done = there.ok(*back, env=env)
    assert (there.path / "a.txt").read_text() == "as the agent left it\n"
    assert "5 messages; left out: 1 image, 1 thought, 1 system message\n" in done.out
    (path,) = other.rglob("rollout-*.jsonl")
    assert done.out.splitlines()[-1] == f"resume it with: codex resume {path.stem[-36:]}"
    assert as_rows(resaid("codex", path.read_bytes()).messages) == list(SPOKEN)
