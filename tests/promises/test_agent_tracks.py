"""Which track a hook writes: never another client's by accident, never for a subagent, and it says who wrote the tip."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import permutations

import pytest

from gitbaton.base.model import Agent
from tests.kit import Sandbox
from tests.kit.agents import CLIENTS, Client, autos, checkpoints, log_of, steps, tracks, untouched
from tests.kit.state import snap
from tests.kit.tiers import some


def linked(repo: Sandbox, name: str, *options: str) -> Sandbox:
    """A linked work tree beside the repository."""
    place = repo.path.parent / name
    repo.git("worktree", "add", "-q", *options, str(place))
    return Sandbox(place)


def writers(repo: Sandbox) -> dict[str, set[str]]:
    """The sessions whose hooks wrote to each track."""
    found: dict[str, set[str]] = defaultdict(set)
    for track in tracks(repo):
        for record in autos(repo, track):
            found[track].add(record["agent"]["session"])
    return dict(found)


def work(client: Client, number: int, *options: str) -> None:
    """An edit and a turn in the client's work tree."""
    (client.place / "work.txt").write_text(f"{client.session} {number}\n")
    client.turn(f"{client.session} {number}", *options)


def check_apart(repo: Sandbox, *sessions: str) -> None:
    """No track was written by two sessions, and each session's turns were kept."""
    found = writers(repo)
    assert all(len(names) == 1 for names in found.values()), found
    assert {name for names in found.values() for name in names} == set(sessions), found


@pytest.mark.deep
def test_the_order_of_what_names_a_track(repo: Sandbox) -> None:
    repo.git("checkout", "-q", "-b", "topic")
    for name in ("other", "third"):
        snap(repo, name, "o", "--no-set-current")
    client = Client("claude", repo.path)
    work(client, 0)
    assert "topic" in tracks(repo), "none is current: the branch names it"
    snap(repo, "here", "h")
    work(client, 1)
    assert steps(autos(repo, "here")) == [f"turn ended: {client.session} 0; last prompt: {client.session} 1"]
    payload = client.payload("Stop")
    repo.write("work.txt", "env\n")
    client.send("Stop", payload, env={"GIT_BATON_TRACK": "from env"})
    assert len(autos(repo, "from%20env")) == 1
    repo.write("work.txt", "option\n")
    payload = client.payload("Stop", last_assistant_message="of another turn")  # the same one would be the same event
    client.send("Stop", payload, "--track", "given", env={"GIT_BATON_TRACK": "from env"})
    assert len(autos(repo, "given")) == 1 and len(autos(repo, "from%20env")) == 1 and len(autos(repo, "here")) == 1
    assert "'given'" in client.fire("start", "--track", "given")


@some("form", ["--track=given", "--track given"], share=0)
@some("agent", CLIENTS, share=0)
def test_a_track_named_at_install(repo: Sandbox, agent: str, form: str) -> None:
    snap(repo, "here", "h")
    work(Client(agent, repo.path), 0, *form.split())
    assert len(autos(repo, "given")) == 1 and autos(repo, "here") == []


@pytest.mark.full
@some("name", ["", " ", "a\x1bb", "x" * 300, "HERE"])
def test_a_track_of_that_name_cannot_be(repo: Sandbox, name: str) -> None:
    snap(repo, "here", "h")
    client = Client("claude", repo.path)
    repo.write("work.txt", "x\n")
    state = untouched(repo)
    done = client.send("Stop", client.payload("Stop"), "--track", name)
    assert (done.code, done.out) == (0, "") and state == untouched(repo)
    assert len(checkpoints(repo, "here")) <= 2 and set(tracks(repo)) == {"here"}


@pytest.mark.deep
def test_a_hook_does_not_change_the_current_track_of_another_name(repo: Sandbox) -> None:
    snap(repo, "here", "h")
    work(Client("claude", repo.path), 0, "--track", "given")
    assert repo.ok("resume", "--porcelain").out.splitlines()[0] == "track=here"


@pytest.mark.full
@some("order", list(permutations("mab"))[::3])
@some("start", [["-b", "feature/a"], ["--detach"]])
def test_clients_in_several_work_trees(repo: Sandbox, order: tuple[str, ...], start: list[str]) -> None:
    snap(repo, "t", "S")
    one, two = linked(repo, "one", *start), linked(repo, "two", *["feature/b" if w == "feature/a" else w for w in start])
    places = {"m": repo.path, "a": one.path, "b": two.path}
    clients = [
        Client(agent, places[name], session=name) for agent, name in zip(("claude", "codex", "claude"), order, strict=True)
    ]
    for number in range(2):
        for client in clients:
            client.fire("start")
            work(client, number)
    found = writers(repo)
    assert found["t"] == {"m"}
    assert all(len(names) == 1 for names in found.values()), found
    if "--detach" not in start:
        check_apart(repo, "m", "a", "b")


BRANCHES = [
    ("feature/x", "feature-x"),
    ("fix", "Fix"),
    ("a/b", "a%2Fb"),
    ("caf\u00e9", "cafe\u0301"),
    ("x" * 200, "x" * 199 + "y"),
    ("\u00e9" * 60, "\u00e9" * 59 + "e"),
    ("t", "other"),
    ("main2", "T"),
]


@pytest.mark.deep
@some(("left", "right"), BRANCHES, share=3)
def test_branches_of_nearly_the_same_name(repo: Sandbox, left: str, right: str) -> None:
    snap(repo, "t", "S")
    one, two = linked(repo, "one", "-b", left), linked(repo, "two", "-b", right)
    clients = [Client("claude", one.path, session="a"), Client("claude", two.path, session="b")]
    for number in range(2):
        for client in clients:
            work(client, number)
    found = writers(repo)
    assert all(len(names) == 1 for names in found.values()), found
    assert steps(autos(repo, "t")) == [], "the main work tree's current track was written from elsewhere"


@pytest.mark.full
def test_a_branch_of_the_name_of_another_work_trees_track(repo: Sandbox) -> None:
    snap(repo, "topic", "S")
    other = linked(repo, "one", "-b", "topic")
    work(Client("claude", other.path, session="b"), 0)
    work(Client("claude", repo.path, session="a"), 0)
    assert writers(repo).get("topic") == {"a"}, writers(repo)


@pytest.mark.full
def test_such_a_track_whose_checkpoint_holds_no_files(repo: Sandbox) -> None:
    snap(repo, "topic", "S", "--no-files")
    other = linked(repo, "one", "-b", "topic")
    work(Client("claude", other.path, session="b"), 0)
    work(Client("claude", repo.path, session="a"), 0)
    assert writers(repo).get("topic") == {"a"}, writers(repo)


@pytest.mark.full
def test_the_branch_changes_hands(repo: Sandbox) -> None:
    """Work tree one leaves its branch, work tree two takes it: they must not meet on the track of that branch."""
    snap(repo, "t", "S")
    one, two = linked(repo, "one", "-b", "feature"), linked(repo, "two", "-b", "later")
    first, second = Client("claude", one.path, session="a"), Client("claude", two.path, session="b")
    work(first, 0)
    one.git("checkout", "-q", "--detach")
    two.git("add", "-A")
    two.git("checkout", "-q", "feature")
    work(second, 0)
    work(first, 1)
    work(second, 1)
    assert all(len(names) == 1 for names in writers(repo).values()), writers(repo)


@pytest.mark.full
def test_a_track_set_for_the_whole_repository(repo: Sandbox) -> None:
    repo.git("config", "baton.track", "shared")
    snap(repo, "shared", "S")
    one, two = linked(repo, "one", "-b", "a"), linked(repo, "two", "-b", "b")
    for number in range(2):
        for place, session in ((one.path, "a"), (two.path, "b"), (repo.path, "m")):
            work(Client("claude", place, session=session), number)
    assert all(len(names) == 1 for names in writers(repo).values()), writers(repo)


@pytest.mark.full
def test_two_work_trees_start_at_once(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    places = [linked(repo, f"w{n}", "-b", f"same/{n}") for n in range(4)]
    clients = [Client("claude", p.path, session=f"w{n}") for n, p in enumerate(places)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda c: work(c, 0), clients))
    check_apart(repo, "w0", "w1", "w2", "w3")


CHILDREN = [("claude", {"agent_id": "a1", "agent_type": "x"}), ("codex", {"agent_id": "a1"}), ("opencode", {"child": True})]


@pytest.mark.full
@some(("agent", "fields"), CHILDREN)
def test_a_subagent_changes_nothing(repo: Sandbox, agent: str, fields: dict[str, object]) -> None:
    snap(repo, "t", "S")
    repo.git("config", "baton.auto", "edit")
    client = Client(agent, repo.path)
    client.fire("prompt", prompt="the user's")
    before = repo.git("for-each-ref")
    for number, moment in enumerate(("prompt", "edit", "compact", "turn", "end")):
        repo.write("work.txt", f"{number}\n")
        client.fire(moment, **{"prompt": "the subagent's", **fields})
    if agent == "claude":
        client.fire("SubagentStop")
        client.fire("SubagentStart")
    assert repo.git("for-each-ref") == before
    client.fire("turn")
    assert steps(autos(repo, "t")) == ["turn ended: the user's"]


def tip_of_the_past(repo: Sandbox, ago: timedelta, session: str | None, agent: str = "claude") -> None:
    """A tip that a client's hook wrote some time ago."""
    with repo.open(clock=lambda: datetime.now(UTC) - ago) as baton:
        baton.snapshot("turn ended: x", track="t", kind="auto", agent=Agent(name=agent, session=session))


@some(
    ("ago", "session", "said"),
    [(1, "theirs", True), (9, "theirs", True), (11, "theirs", False), (600, "theirs", False), (1, "mine", False)],
    2,
    share=0,
)
@some("agent", ["claude", "codex", "copilot", "opencode"], 2, share=0)
def test_another_sessions_tip_is_said(repo: Sandbox, agent: str, ago: int, session: str, said: bool) -> None:
    tip_of_the_past(repo, timedelta(minutes=ago), session, agent)
    text = Client(agent, repo.path, session="mine").fire("start", "--track", "t")
    assert ("another session" in text.lower()) is said, text


@pytest.mark.deep
def test_a_tip_of_the_future_breaks_nothing(repo: Sandbox) -> None:
    tip_of_the_past(repo, -timedelta(days=2), "theirs")
    client = Client("claude", repo.path)
    assert "turn ended: x" in client.fire("start", "--track", "t")
    work(client, 0, "--track", "t")
    assert len(autos(repo, "t")) == 2 and log_of(repo) == ""


@pytest.mark.full
def test_another_session_is_named_until_it_ends(repo: Sandbox) -> None:
    snap(repo, "t", "S")
    mine, theirs = (Client("claude", repo.path, session=name) for name in ("mine", "theirs"))
    work(theirs, 0)
    assert "another session" in mine.fire("start").lower()
    work(mine, 1)
    assert "another session" in mine.fire("start", source="compact").lower(), "one's own checkpoint does not hide the other"
    assert "another session" in theirs.fire("start", source="compact").lower()
    repo.write("last.txt", "x\n")
    theirs.fire("end")
    assert "another session" not in mine.fire("start").lower()
