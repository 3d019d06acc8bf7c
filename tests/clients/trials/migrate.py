"""A migration: jots move from a JSON file to sqlite, two steps of five done."""

from __future__ import annotations

import json
from pathlib import Path

from tests.clients.trials.stage import Detour, Session, Task, python, unittests
from tests.kit import Outcome

README = """# jots

Short notes on the command line, kept in the folder `$JOTS` (else the home folder).

    python -m jots add TEXT...
    python -m jots list
    python -m jots tag NUMBER TAG...
    python -m jots done NUMBER
    python -m jots export

`export` prints everything as JSON. `python -m unittest` runs the tests.
"""
STORE = '''"""Keep jots in a JSON file."""

import json
import os


def place():
    """The folder that holds the jots."""
    return os.environ.get("JOTS") or os.path.expanduser("~")


def path():
    """The file."""
    return os.path.join(place(), "jots.json")


def load():
    """Every jot."""
    if not os.path.exists(path()):
        return []
    with open(path()) as file:
        return json.load(file)


def save(jots):
    """Write every jot."""
    with open(path(), "w") as file:
        json.dump(jots, file)


def add(text):
    """A new jot; its number."""
    jots = load()
    jots.append({"number": len(jots) + 1, "text": text, "tags": [], "done": False})
    save(jots)
    return len(jots)


def find(jots, number):
    """One of them."""
    return next(jot for jot in jots if jot["number"] == number)


def tag(number, tags):
    """Give a jot more tags."""
    jots = load()
    find(jots, number)["tags"] += tags
    save(jots)


def done(number):
    """A jot is done."""
    jots = load()
    find(jots, number)["done"] = True
    save(jots)
'''
DB = '''"""Keep jots in a sqlite database."""

import os
import sqlite3

TABLES = """
create table if not exists jots (number integer primary key, text text not null, done integer not null default 0);
create table if not exists tags (jot integer not null references jots, place integer not null, tag text not null);
"""


def path():
    """The file."""
    return os.path.join(os.environ.get("JOTS") or os.path.expanduser("~"), "jots.db")


def connect():
    """The database, its tables made where they are not there."""
    db = sqlite3.connect(path())
    db.executescript(TABLES)
    return db
'''
DB_ADD = '''

def add(text):
    """A new jot; its number."""
    with connect() as db:
        return db.execute("insert into jots (text) values (?)", (text,)).lastrowid


def load():
    """Every jot."""
    with connect() as db:
        rows = db.execute("select number, text, done from jots order by number").fetchall()
        tags = db.execute("select jot, tag from tags order by jot, place").fetchall()
    return [
        {"number": number, "text": text, "tags": [tag for jot, tag in tags if jot == number], "done": bool(done)}
        for number, text, done in rows
    ]
'''
MAIN = '''"""The command line of jots."""

import argparse
import json

from jots import store


def shown(jot):
    """A jot as a line."""
    tags = "".join(f" +{tag}" for tag in jot["tags"])
    return f"{jot['number']:>3} [{'x' if jot['done'] else ' '}] {jot['text']}{tags}"


def main():
    """Do what is asked for."""
    parser = argparse.ArgumentParser(prog="jots")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("add").add_argument("text", nargs="+")
    verbs.add_parser("list")
    tag = verbs.add_parser("tag")
    tag.add_argument("number", type=int)
    tag.add_argument("tags", nargs="+")
    verbs.add_parser("done").add_argument("number", type=int)
    verbs.add_parser("export")
    given = parser.parse_args()
    if given.verb == "add":
        print(f"jot {store.add(' '.join(given.text))}")
    elif given.verb == "list":
        for jot in store.load():
            print(shown(jot))
    elif given.verb == "tag":
        store.tag(given.number, given.tags)
    elif given.verb == "done":
        store.done(given.number)
    elif given.verb == "export":
        print(json.dumps(store.load(), indent=1))


if __name__ == "__main__":
    main()
'''
TESTS = '''"""What jots does, through its command line."""

import json
import os
import subprocess
import sys
import tempfile
import unittest


class Jots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def jots(self, *words):
        """What a command prints."""
        env = {**os.environ, "JOTS": self.folder}
        done = subprocess.run([sys.executable, "-m", "jots", *words], env=env, capture_output=True, text=True, check=True)
        return done.stdout

    def test_add_and_list(self):
        self.assertEqual(self.jots("add", "buy", "bread"), "jot 1\\n")
        self.assertEqual(self.jots("add", "call Ada"), "jot 2\\n")
        self.assertEqual(self.jots("list"), "  1 [ ] buy bread\\n  2 [ ] call Ada\\n")
'''
REST = """
    def test_tag_and_done(self):
        self.jots("add", "buy bread")
        self.jots("tag", "1", "shop", "today")
        self.jots("done", "1")
        self.assertEqual(self.jots("list"), "  1 [x] buy bread +shop +today\\n")
"""
EXPORT = """
    def test_export(self):
        self.jots("add", "buy bread")
        self.assertEqual(json.loads(self.jots("export")), [{"number": 1, "text": "buy bread", "tags": [], "done": False}])
"""
TABLE = """
    def test_the_tables_are_made_once(self):
        code = "from jots import db; db.connect(); print(db.connect().execute('select count(*) from jots').fetchone())"
        env = {**os.environ, "JOTS": self.folder}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "(0,)\\n")
"""
FIRST = """Move jots from the JSON file (jots/store.py) to sqlite, in small steps, and commit after each step that is green. \
What the commands print stays as it is, byte for byte. One thing changes: today `done 7` and `tag 7 x` are a traceback where \
there is no jot 7; say `no jot 7` on standard error and end with status 4. At last store.py is gone. People have old jots.json \
files, so there must be a way to take one in. Begin with the tables and tell me the steps."""
SECOND = """Good, adopt it is, with the renaming as you say. Where the file is not there (or was adopted before) it prints \
"nothing to adopt" and that is no error. And tags: lower case, sorted, each once, whatever people type."""
THIRD = "go on"
PLAN = (
    "tables (jots/db.py)",
    "add and list use jots/db.py",
    "tag and done use jots/db.py; no jot N: stderr, status 4; tags lower case, sorted, once",
    "adopt FILE: takes in an old jots.json, renames it to FILE.adopted; 'nothing to adopt'",
    "export uses jots/db.py, store.py goes, README",
)


def plan(session: Session, done: int) -> None:
    """The plan with so many items done, and the one after them begun."""
    states = ["completed"] * done + ["in_progress"] + ["pending"] * len(PLAN)
    session.plan(**dict(zip(PLAN, states, strict=False)))


def play(session: Session) -> None:
    """Tables, add and list; the moved tag and done are begun."""
    session.prompt(FIRST)
    session.run("python -m unittest")
    session.edit("jots/db.py", DB)
    session.edit("tests/test_jots.py", TESTS + REST + EXPORT + TABLE)
    session.run("python -m unittest")
    session.run("git add -A && git commit -q -m 'the tables of the database'")
    session.words("step 1 of 5, the tables, is done", next_cmd="python -m unittest", validation="green")
    session.end(
        "The tables are there (jots/db.py) and committed. The steps:\n"
        "1. the tables: done\n"
        "2. add and list\n"
        "3. tag and done, with `no jot 7` and status 4\n"
        "4. `jots adopt FILE`: takes in an old jots.json and then renames it to FILE.adopted, so that nobody adopts it twice\n"
        "5. export; store.py goes, README"
    )
    session.prompt(SECOND)
    plan(session, 1)
    session.edit("jots/db.py", DB + DB_ADD)
    session.edit("jots/__main__.py", HALF_MAIN)
    session.run("python -m unittest")
    session.end(
        "add and list work on the database now. The tests of tag, done and export fail until these are moved as well, so I have"
        " not committed."
    )
    session.prompt(THIRD)
    plan(session, 2)
    session.edit("jots/db.py", DB + DB_ADD + HALF_TAG)
    session.run("python -m unittest")
    session.fresh(
        "2 of 5 done: tables (committed), add and list (not committed); begun: 3, db.tag is written and nobody calls it yet",
        next_cmd="python -m unittest",
        validation="failed",
        note="Output stays byte for byte. Commit after each green step. Left:\n"
        "3. tag and done use jots/db.py; where there is no jot 7: `no jot 7` on standard error, status 4; tags are kept in"
        " lower case, sorted, each once\n"
        "4. `jots adopt FILE` takes in an old jots.json, then renames it to FILE.adopted; where it is not there: prints"
        " `nothing to adopt`, status 0\n"
        "5. export from the database, store.py goes, README",
    )
    session.end("db.tag is begun, nothing calls it yet. Next: call it from the command line, then done.")


HALF_MAIN = (
    MAIN.replace("from jots import store", "from jots import db, store")
    .replace("store.add(", "db.add(")
    .replace("for jot in store.load()", "for jot in db.load()")
)
HALF_TAG = '''

def tag(number, tags):
    """Give a jot more tags."""
    with connect() as db:
        for place, tag in enumerate(tags):
            db.execute("insert into tags (jot, place, tag) values (?, ?, ?)", (number, place, tag))
'''
DETOUR = Detour(
    prompt="No, wait. Call it `import`, leave the old file where it is, and let people type tags as they like. An unknown"
    " number says `unknown jot` and ends with status 2.",
    plan=("tags as they were typed", "import FILE leaves the old file", "unknown jot, status 2"),
    edited={"jots/db.py": DB + DB_ADD + '\n\ndef take(path):\n    """Import an old file."""\n'},
    said="It is called import, then, and says `unknown jot` with status 2.",
)

SOLVED_DB = (
    DB.replace("import os\n", "import json\nimport os\n")
    + DB_ADD
    + '''

def known(db, number):
    """Whether there is such a jot."""
    return db.execute("select 1 from jots where number = ?", (number,)).fetchone() is not None


def tag(number, tags):
    """Give a jot more tags; whether there is one."""
    with connect() as db:
        if not known(db, number):
            return False
        put(db, number, tags)
    return True


def put(db, number, tags):
    """Tags in lower case, sorted, each once."""
    old = [row[0] for row in db.execute("select tag from tags where jot = ?", (number,))]
    db.execute("delete from tags where jot = ?", (number,))
    for place, tag in enumerate(sorted({tag.lower() for tag in [*old, *tags]})):
        db.execute("insert into tags (jot, place, tag) values (?, ?, ?)", (number, place, tag))


def done(number):
    """A jot is done; whether there is one."""
    with connect() as db:
        return db.execute("update jots set done = 1 where number = ?", (number,)).rowcount == 1


def adopt(path):
    """Take in an old file; whether there was one."""
    if not os.path.exists(path):
        return False
    with open(path) as file:
        jots = json.load(file)
    with connect() as db:
        for jot in jots:
            number = db.execute("insert into jots (text, done) values (?, ?)", (jot["text"], int(jot["done"]))).lastrowid
            put(db, number, jot["tags"])
    os.rename(path, path + ".adopted")
    return True
'''
)
SOLVED_MAIN = (
    HALF_MAIN.replace("from jots import db, store", "import sys\n\nfrom jots import db")
    .replace("store.load()", "db.load()")
    .replace("        store.tag(given.number, given.tags)\n", "        known(given.number, db.tag(given.number, given.tags))\n")
    .replace("        store.done(given.number)\n", "        known(given.number, db.done(given.number))\n")
    .replace(
        '    verbs.add_parser("export")\n',
        '    verbs.add_parser("export")\n    verbs.add_parser("adopt").add_argument("file")\n',
    )
    .replace(
        "\n\nif __name__",
        '    elif given.verb == "adopt" and not db.adopt(given.file):\n        print("nothing to adopt")\n\n\nif __name__',
    )
    .replace(
        "def main():",
        'def known(number, there):\n    """End where there is no such jot."""\n    if not there:\n'
        '        print(f"no jot {number}",'
        " file=sys.stderr)\n        sys.exit(4)\n\n\ndef main():",
    )
)


def jots(place: Path, *words: str) -> Outcome:
    """The program over a folder of the judge's own."""
    home = place / "kept"
    home.mkdir(exist_ok=True)
    return python(place, "-m", "jots", *words, JOTS=str(home), HOME=str(home))


def listed(place: Path) -> str:
    """What list prints; the database alone is asked."""
    (place / "kept" / "jots.json").unlink(missing_ok=True)
    return jots(place, "list").out


def two(place: Path) -> None:
    """Two jots are added."""
    assert jots(place, "add", "buy", "bread").out == "jot 1\n"
    assert jots(place, "add", "call Ada").out == "jot 2\n"


def add_and_list(place: Path) -> bool:
    """They print what they did."""
    two(place)
    return listed(place) == "  1 [ ] buy bread\n  2 [ ] call Ada\n"


def done(place: Path) -> bool:
    """It is in the database."""
    two(place)
    jots(place, "done", "2")
    return listed(place) == "  1 [ ] buy bread\n  2 [x] call Ada\n"


def tag(place: Path) -> bool:
    """So are tags."""
    two(place)
    jots(place, "tag", "1", "shop", "today")
    return listed(place).splitlines()[0] == "  1 [ ] buy bread +shop +today"


def export(place: Path) -> bool:
    """Byte for byte as it was."""
    two(place)
    jots(place, "tag", "1", "shop")
    (place / "kept" / "jots.json").unlink(missing_ok=True)
    first = {"number": 1, "text": "buy bread", "tags": ["shop"], "done": False}
    second = {"number": 2, "text": "call Ada", "tags": [], "done": False}
    return jots(place, "export").out == json.dumps([first, second], indent=1) + "\n"


def no_store(place: Path) -> bool:
    """The old module is gone, and nothing names it."""
    return not (place / "jots" / "store.py").exists() and "store" not in (place / "jots" / "__main__.py").read_text()


def only_sqlite(place: Path) -> bool:
    """No command writes the old file."""
    two(place)
    jots(place, "tag", "1", "shop")
    jots(place, "done", "1")
    return [path.name for path in (place / "kept").iterdir()] == ["jots.db"]


def no_jot(place: Path) -> bool:
    """An unknown number is said, and has a status."""
    two(place)
    found = [jots(place, "done", "7"), jots(place, "tag", "7", "x")]
    return all(one.code == 4 and one.err.strip() == "no jot 7" for one in found)


def tags(place: Path) -> bool:
    """Lower case, sorted, once."""
    two(place)
    jots(place, "tag", "1", "today", "Shop")
    jots(place, "tag", "1", "SHOP", "cash")
    return listed(place).splitlines()[0] == "  1 [ ] buy bread +cash +shop +today"


def adopted(place: Path) -> Path:
    """An old file is taken in."""
    old = place / "old.json"
    old.write_text(json.dumps([{"number": 1, "text": "an old one", "tags": ["then"], "done": True}]))
    assert jots(place, "adopt", str(old)).code == 0
    return old


def adopt(place: Path) -> bool:
    """By this name, with tags and done."""
    adopted(place)
    return listed(place) == "  1 [x] an old one +then\n"


def renamed(place: Path) -> bool:
    """The file is kept under another name."""
    old = adopted(place)
    return not old.exists() and Path(f"{old}.adopted").exists()


def twice(place: Path) -> bool:
    """The second time is no error."""
    again = jots(place, "adopt", str(adopted(place)))
    return again.code == 0 and again.out.strip() == "nothing to adopt"


TASK = Task(
    name="migrate",
    files={
        "README.md": README,
        "jots/__init__.py": '"""Short notes."""\n',
        "jots/__main__.py": MAIN,
        "jots/store.py": STORE,
        "tests/__init__.py": "",
        "tests/test_jots.py": TESTS + REST + EXPORT,
        ".gitignore": "__pycache__/\n",
    },
    play=play,
    detour=DETOUR,
    solution={"jots/db.py": SOLVED_DB, "jots/__main__.py": SOLVED_MAIN, "jots/store.py": None},
    facts={
        "the tests pass": unittests,
        "add and list": add_and_list,
        "done": done,
        "tag": tag,
        "export": export,
        "the old store is gone": no_store,
        "only the database is written": only_sqlite,
        "no jot 7, status 4": no_jot,
        "tags: lower case, sorted, once": tags,
        "adopt takes in an old file": adopt,
        "and renames it": renamed,
        "nothing to adopt": twice,
    },
    hidden=(
        "no jot 7, status 4",
        "tags: lower case, sorted, once",
        "adopt takes in an old file",
        "and renames it",
        "nothing to adopt",
    ),
)
