"""Repositories that 5b105d9 wrote: every verb says of them what it said then, but for the words that were changed on purpose.

Who changes such words adds a row to CHANGED, and nothing else: a row says which verbs, what they said, and what they say now.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kit import Outcome, Sandbox
from tests.kit.tiers import deep, full
from tests.kit.yesterday import READS, WRITES, Changed, answers, ask, lines, payload, said, today, unpack, words

AHEAD = r"(is %s ahead)( of the checkpoint's commit \w+)"
LEXER = r"\1\2; 1 path was committed since, not as the checkpoint holds it: 'src/lexer.txt'"
BOTH = r"\1\2; 2 paths were committed since, not as the checkpoint holds them: 'a.txt', 'src/lexer.txt'"
AUTO = "resume --track auto --live|verify --track auto"
FREED = "'git gc' frees their bytes; git runs it in its own time"
TRACKS = r"\1the tracks are \2, \3, \4, \5,"
NONE = "the hooks of an agent record it: 'git baton agent list' says which agents have them"
SETTLE = "'git baton run settle deploy --run single --done' or 'git baton run settle deploy --run single --undone'"
WHAT = '  "what": "restore of e5bee44127: in a conflict"'
STAYS = '1 commit since stays: 9e322512a1 "faster"\n'
NEWER = "warning: origin has 1 newer checkpoint of track 'main': 'git baton sync origin' joins them\n"
APART = "warning: origin has 1 checkpoint of track 'main' that is not here: 'git baton sync origin' joins them\n"
ON_HEAD = """\
checkpoint 09d822baf2cdb24790e91c72751f37f3e2fa7fcd
kind=auto
label=
created=2026-01-01T10:18:00.000000Z
previous=c37629d3f5fe29c496841859b614217392bbbd38
commit=464c553a70dbcfbb3874b2b17afbd41e06cb31bf
base=9e322512a1877bb21c5bdba77e49c4708980c59f
agent=claude s-1
track=auto
step=agent begins
note=
validation=green (stale: files changed since)
branch=main
head=9e322512a1877bb21c5bdba77e49c4708980c59f
next_cmd=
carried=f1b8ac3a02067b5720690f77600e22f0ba89e5cf 2026-01-01T10:14:00.000000Z
title=before compaction (auto)
files=aca3559625c3e5f570e151a27e6fa2dc64c84836
changed=0
index=6634fa991d63babc3782dc1c9a44359758289ac0
"""
CHANGED = (
    # A commit is the newest checkpoint on it, an automatic one, too; a log says what a remote has and is not here.
    Changed("show HEAD", r"\A\Z", ON_HEAD, code=0),
    Changed("show HEAD", r"^(fatal|hint): .*\n", ""),
    Changed("log( -n 2| --all| --all --json| --porcelain| -z)?", r"\A\Z", NEWER),
    Changed("branch rescue main~1", r"\Arescue ", "made branch 'rescue' at "),
    Changed("log --all -n 5", r"\n[^\n]+\n\Z", "\n"),  # a restore counts
    # Decisions have numbers and times, and what stands is listed.
    Changed("resume( --live)?( --json)", r'^  "runs": ', '  "decisions": [],\n  "runs": '),
    Changed("status --json", r'^      "live": ', '      "decisions": [],\n      "live": '),
    Changed("show before-rewrite", r"^decision=(?!no)(.*)", r"decision=\1\ndecision.1=made 2026-01-01T10:04:00.000000Z"),
    Changed("show before-rewrite", r"^decision=no (.*)", r"decision=no \1\ndecision.2=made 2026-01-01T10:04:00.000000Z"),
    # Committed is not drift, drift is against the newest checkpoint, and what was committed otherwise is named.
    Changed("resume --track auto --live", r"^head=\w+", "head=9e322512a1"),
    Changed(
        "resume --track auto --live",
        r"^since=(.*?);.*$",
        r'title=\1\nsince="agent begins": 1 turn, 4 files, 1 commit',
    ),
    Changed("resume --track auto --live", r"^(drift=)head-ahead:1,files-changed:4", r"\1files-changed:3"),
    Changed("show auto", r"^head=\w+", "head=9e322512a1877bb21c5bdba77e49c4708980c59f"),
    Changed("show auto", r"^since=", "title="),
    Changed(AUTO, r"^(?:head-ahead:1: )?HEAD .* is 1 commit ahead.*\n", ""),
    Changed(AUTO, r"files-changed:4: 4 paths", "files-changed:3: 3 paths"),
    Changed(AUTO, r"4 paths differ", "3 paths differ"),
    Changed(AUTO, r"'out.txt', 'plan.toml', 'run.sh' and 1 more", "'out.txt', 'plan.toml', 'run.sh'"),
    Changed("verify --track auto", r"\Z", "", code=0),
    Changed("resume --live|resume --live --json|verify|verify --strict|verify --json", AHEAD % "1 commit", LEXER),
    Changed("verify --track far|hook claude SessionStart", AHEAD % "2 commits", BOTH),
    Changed("status", r"^(   auto .*)head-ahead:1,files-changed:4", r"\1files-changed:3"),
    Changed("status", r"^(   auto .*)head-ahead:1,files-changed:5", r"\1files-changed:5"),
    Changed("status --porcelain", r"^(\tauto\t.*)head-ahead:1,files-changed:4", r"\1files-changed:3"),
    Changed(
        "status --json",
        r'("track": "auto",[\s\S]*?)"head-ahead:1",\n *"files-changed:4"([\s\S]*?)"moved": true,\n( *)"files_changed": 4,',
        r'\1"files-changed:3"\2"moved": false,\n\3"files_changed": 3,\n\3"words": {\n\3  "drift": [\n\3    "committed:1",\n'
        r'\3    "files-changed:4"\n\3  ],\n\3  "moved": false,\n\3  "files_changed": 4\n\3},',
    ),
    Changed("(resume|status|verify).* --json|status --json", r'^( *)("commits": \d+,)$', r'\1\2\n\1"gone": 0,'),
    Changed("steps far-run", r"\A\Z", r"run 'far-run' is foreign: its newest records came from elsewhere\n"),
    # Where a track was judged is a column.
    Changed("status --porcelain", r"(^\*?\t.*)$", r"\1\tHERE"),
    Changed("status --porcelain", r" step$", " step place since"),
    # What has happened since the words is one, too.
    Changed("status --porcelain", r"(^\tauto\t.*)$", r"\1\t1 turn, 4 files, 1 commit"),
    Changed("status --porcelain", r"(^\*?\t(?!auto\t).*)$", r"\1\t"),
    # What is carried out is named in words, too: of a revert no checkpoint says it.
    Changed("restore -n main~1 --exact --index --json", r'^  "plan": ', f'{WHAT},\n  "plan": '),
    Changed("status --json", r'^      \}(,\n      "remotes"|$)', r'      },\n      "place": "HERE"\1'),
    # Which refs were left alone is told.
    Changed("prune .*--json", r'^  "bytes": (\w+)$', r'  "bytes": \1,\n  "broken": []'),
    # A plan is of its own paths.
    Changed("restore -n main~1 --exact --index --json", r'(?<="plan": ")\w+', "951079b167927793f0ec07915e124e680463ef1e"),
    Changed(
        "undo -n.*",
        "(nothing to undo in this work tree)$",
        r"\1\nhint: 'git baton log --all' lists what 'git baton restore CHECKPOINT' brings back",
    ),
    # Every hint names a command that works as it is typed.
    Changed(
        "resume --track gone",
        r"(hint: )track ('auto')\nhint: track (.+)\nhint: track (.+)\nhint: track (.+)\nhint: track",
        TRACKS,
    ),
    Changed("transcript show main", "baton.transcripts is 'off', 'position' or 'full'", NONE),
    Changed("resume.*", "'git baton approve publish'", "'git baton run approve publish --run plan'"),
    Changed("resume.*", "'git baton settle deploy' decides", SETTLE),
    # The verbs of runs and threads stand under one word each.
    Changed("run --plan .*|run --continue .*", "git baton approve publish", "git baton run approve publish"),
    Changed("thread show nobody", "'git baton threads' lists", "'git baton thread list' lists"),
    Changed("restore -n far", "'git baton diff'", "'git baton diff fd85a0a239'"),
    Changed("push -n origin", "git baton sync$", "git baton sync origin"),
    Changed(
        "log nothing", "there is no track 'nothing'\n", "there is no checkpoint 'nothing'\nhint: see 'git baton log --all'\n"
    ),
    Changed("forget before-rewrite", "--everywhere'", "--everywhere ID'"),
    # What is written anew without the words that go is not told: no file goes with it.
    Changed("forget -n .* --everywhere", r"^safety checkpoint \w+ would be written again without what is forgotten\n", ""),
    # Restores are rows that count.
    Changed("log -n 2", r"^e5bee44127 .*\n", ""),
    # A session is told the newest state first.
    Changed(
        "hook claude SessionStart",
        r"instruction: check the drift first; nothing (.*?)\.\\n\\nstep(.*?)\\ndrift(.*?)\\nrecorded on"
        r".*?--track '(.*?)' --step",
        r"instruction, and nothing \1. Check the drift first: git baton verify --track '\4'\\ndrift\3\\n\\n"
        r"Written AGE (3 files, 2 commits since):\\nstep\2\\n\\nTo see this again: git baton resume --live --track '\4'\\n"
        r"Before you stop, hand on what is done and what is left (it commits nothing to your branches, and leaves the index and"
        r" your files alone): git baton snapshot --track '\4' --step",
    ),
    # An age of more than 99 days is the date, which stands there already.
    Changed("(thread )?show( .*)?", r" \( AGE \)$", ""),
    Changed("pin main~2", "'ID' is pinned already", "pinned already: in a conflict"),
    Changed("prune -n .*(?<!--json)", r"remove safety ", "remove safety checkpoint "),
    Changed("prune .*", "their bytes are free once git has collected garbage; 'git gc' does, in its own time", FREED),
    Changed(
        "(restore|undo|redo).*",
        "a conflict is somebody else's work; --force changes it all the same",
        "a conflict is somebody else's change; --force overwrites it",
    ),
    # A plan says first which commits stay, and which edits it takes back that no checkpoint holds.
    Changed(
        "restore -n (main~1|conflict --index)",
        r"\A(?=(?s:.*)would write run\.sh)",
        STAYS + "also takes back 1 edit of your own since: run.sh\n",
    ),
    Changed("restore .*", r"^(would keep|keep|kept) (.*) \(unknown\)$", r"\1 \2 (not in that checkpoint)"),
    Changed("restore (-n )?main~1", r"\A(?=would|write)", '1 commit since stays: ID "faster"\n'),
    Changed("restore -n far --foreign", r"\A(?=would)", "2 commits since stay: 122e537124..9e322512a1\n"),
    Changed(
        "restore -n main~1 --exact --index --json",
        r'^  "warnings": \[\n',
        '\\g<0>    "1 commit since stays: 9e322512a1 \\\\"faster\\\\"",\n'
        '    "also takes back 3 edits of your own since: out.txt, plan.toml, run.sh",\n',
    ),
    Changed(".*", "(an interrupted restore was completed)$", r"\1 (ID); 'git baton undo' takes it back"),
    Changed(
        "doctor",
        "^ok   latest: LATEST says what the tracks say$",
        "MEND latest: LATEST is behind the tracks\n     git baton export",
    ),
    Changed("doctor", "so not 'git log' shows the entries", "so 'git log' does not show the entries"),
    Changed(
        "doctor",
        "^MEND hooks: git does not call ours: .*$",
        "note hooks: git's hooks are not installed; they say when HEAD leaves a checkpoint",
    ),
    Changed(
        "doctor", "^MEND notes.rewriteRef: not set$", "note notes.rewriteRef: not set, so amend and rebase leave them behind"
    ),
    # A pinned checkpoint is forgotten with --force only.
    Changed("forget -n main~1", r"^(would forget .*)$", r"\1 pinned", code=1),
    Changed(
        "forget -n main~1",
        r"\A\Z",
        "fatal: nothing is forgotten: 'e5bee44127' is pinned\nhint: 'git baton unpin e5bee44127' takes the pin back\n",
    ),
)


SPELLED = {
    "forget before-rewrite": "forget --yes before-rewrite",
    **{
        line: re.sub(r"\A\w+", r"\g<0> --porcelain", line)
        for line in lines("\n".join([READS, *WRITES.values()]))
        if re.match(r"(resume|show)\b(?!.*--json)", line)
    },
}
"""Command lines that need other words to do the same today."""


LISTS = re.compile(r"log( -n 2| --all| --all -n 5| far| auto| auto -n 2| 'side work/b')?( #\d)?\Z")
"""Command lines whose list has another form now: id, kind, age, tests, files and words, and the restores among them."""
ROWS = {
    "status": re.compile(r"([* ])  (\S.*?) +\w+ AGE (\w+) +(.*?)(?: {2,}(\S.*))?"),
    "tracks": re.compile(r"([* ]) (\S.*) (\w{4})\w* AGE : (.*)"),
}
"""Of command lines whose rows have another form and order now: how a row was."""
NEW = re.compile(
    r"^(?:  untracked: |hint: (?:(?:[a-z0-9:/, -]+ makes? the exit status 1; )?"
    r"'git (?:baton diff|log|switch) [^']*' (?:shows what|goes back) "
    r"|\d+ files? not in that checkpoint stays?;|'[^']*' went on at both sides:|to merge them with git:"
    r"|'[^']*' goes on from it$|'git baton tracks use [^']*' goes on with that one$|no secret in the words;)).*\n",
    re.MULTILINE,
)
"""Hints that no verb gave, and the names of what a first push makes public."""
TABLES = re.compile(r"(steps|journal show|threads|thread log|prune -n|forget|worktree|pin)(?!.*--(json|why)).*")
"""Command lines whose rows stand in columns now: each row says the same words in another order."""
PLANS = re.compile(r"prune -n|forget|worktree|pin ")
SHORT = re.compile(r"\b(?:ID|[0-9a-f]{4}|[0-9a-f]{10})\b")
"""An id in a plan: of ten digits then, of as few as are unique now."""
STATES = {"green": "+ green", "failed": "x failed", "stale": "~ stale", "pending": ". -"}


A_FORMAT = {
    "resume",
    "show before-rewrite",
    "status --porcelain",
    "restore -n main~1 --exact --index --json",
    "transcript show auto",
    "steps plan",
    "journal show plan --step publish",
    "thread show talk @~1 --json",
    "prune -n --keep-last 1",
    "doctor",
    "verify --track auto",
}
"""What reads each format once: checkpoints, labels, LATEST, restores, talks, runs, records, threads, pins, all of it."""


def _track(row: str, form: re.Pattern[str]) -> str:
    """What a row says of a track as today's status and tracks word it: whether it is current, its name, and then the facts."""
    old = form.fullmatch(row)
    if old is None:
        name, *facts = re.split(" {2,}", row[2:])
        facts = facts[3:] if len(facts) > 3 else [facts[0], facts[2]]  # not WHERE, WHO and AGE
        facts = [*facts[:2], facts[-1]] if len(facts) > 3 else facts  # nor SINCE
        return " | ".join((row[0], name.removeprefix("> "), *facts))
    mark, name, *facts = old.groups("")
    if len(facts) == 3:
        state, step, drift = facts
        counts = [f"{number} {what}" for what, number in re.findall(r"(ahead|files)[a-z-]*:(\d+)", drift)]
        moved = f"! {', '.join(counts)}" if counts else "= home"
        facts = [STATES[state], moved, step.partition(" (foreign")[0]]
    return " | ".join((mark, name, *facts))


def worded(line: str, answer: list[str | int]) -> list[str | int]:
    """An answer with the rows of such a list as their words, in alphabetical order, but for what only one form tells."""
    code, out, err = answer
    err = NEW.sub("", str(err))
    answer = [code, out, err]
    if form := ROWS.get(line.partition(" #")[0]):
        told = str(out).splitlines()
        told = told[1:-1] if told[0].startswith("  TRACK ") else told  # its heading and its last line are new
        return [code, "\n".join(sorted(_track(row, form) for row in told)), err]
    if TABLES.fullmatch(line):
        plain = re.sub(r"\bkey |\bAGE\b|\bnow\b|\d{4}-\d\d-\d\d|(?<= )[-+!x~.](?= )", " ", str(out))
        plain = SHORT.sub("", plain) if PLANS.match(line) else plain
        said = (re.findall(r"[^\s,:]+", row) for row in plain.splitlines())
        return [code, "\n".join(" ".join(sorted(words)) for words in said), err]
    if not LISTS.match(line):
        return answer
    rows = []
    for row in str(out).splitlines():
        old = re.match(r"\w+ +(\w+) +AGE +(.*)", row)
        text = f"{STATES[old[1]]} {old[2]}" if old else re.sub(r"^\w+ +[o.] +\S+| \d+ files?(?=  )", "", row)
        text = re.sub(r"(?<!foreign): |\(auto\)", " ", text)
        rows += [" ".join(sorted(text.split()))] if not row.startswith(" ") else []
    return [code, "\n".join(rows), err]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository with something of everything; who asks it changes nothing that another one sees."""
    return unpack(tmp_path_factory.mktemp("yesterday"), "whole")


@pytest.mark.parametrize(
    "line", [line if line in A_FORMAT else (full if number % 2 else deep)(line) for number, line in enumerate(lines(READS))]
)
def test_what_5b105d9_wrote_reads_as_it_did(whole: Path, tmp_path: Path, line: str) -> None:
    if line == "doctor":  # it says that LATEST is of another form, until some verb has written it anew
        whole = unpack(tmp_path, "whole")
    done = Sandbox(whole).baton(*words(SPELLED.get(line, line)), stdin=payload(line, whole))
    then = today(answers()["reads"][line], line, CHANGED)
    assert worded(line, said(done, whole, fresh=False)) == worded(line, then)


@pytest.mark.deep
@pytest.mark.parametrize("state", WRITES)
def test_what_5b105d9_wrote_goes_on_as_it_did(tmp_path: Path, state: str) -> None:
    """Also from the middle of a restore and of a join, and with the log of a saver that was killed."""
    place = unpack(tmp_path, state)

    def run(words: Sequence[str], stdin: bytes) -> Outcome:
        return Sandbox(place).baton(*words, stdin=stdin)

    then = answers()[state]
    now = ask(run, place, WRITES[state], fresh=True, spelled=SPELLED)
    # Of a join nothing is left to join; of a checkpoint that was recorded first, it stands beside it.
    changed = [row for row in CHANGED if not (state in ("mid-join", "whole") and row.new == NEWER)]
    changed += [Changed("log( --all)?|resume --live", r"\A\Z", APART)] if state == "whole" else []
    told = {line: today(answer, line.partition(" #")[0], changed) for line, answer in then.items()}
    assert {line: worded(line, answer) for line, answer in now.items()} == {
        line: worded(line, answer) for line, answer in told.items()
    }
    Sandbox(place).fsck()


def test_every_change_of_words_is_one() -> None:
    """No row of the table is left over: each changes what some verb said."""
    asked = [(line.partition(" #")[0], answer) for then in answers().values() for line, answer in then.items()]
    for change in CHANGED:
        meant = [answer for line, answer in asked if re.fullmatch(change.verbs, line)]
        assert any(today(answer, "", (change._replace(verbs=""),)) != answer for answer in meant), change
