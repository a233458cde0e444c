"""Bad input: one sentence with the value, the right exit code, nothing lost.

The words of the sentence are tested in test_wording.py.
"""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from plait.memory import Memory
from tests.interfaces.command import PATIENCE_S, PLAIT, Ran, environment, spawn

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX limits and permissions")
MEGABYTE = 1024 * 1024


def assert_clear(ran: Ran, code: int, *fragments: str) -> None:
    """One line on stderr that starts with our name and holds every fragment; no answer."""
    assert ran.code == code, ran
    assert ran.out == "" or ran.code == 3  # then it is the empty form
    assert ran.err.startswith("plait: ")
    assert ran.err.count("\n") == 1, ran.err
    assert "Traceback" not in ran.err
    for fragment in fragments:
        assert fragment in ran.err, ran.err


@pytest.fixture
def keeper(plait):
    """A memory whose one fact must survive whatever is tried."""
    plait("store", "--doc-id", "kept", "--text", "the fact that must stay")
    yield plait
    assert plait("get", "kept").json["results"][0]["text"] == "the fact that must stay"
    assert plait("stats").json["doc_count"] == 1


FILTERS = [
    *("--path", "--source", "--session", "--since", "--until", "--as-of", "--key-prefix"),
    *("--tag", "--kind", "--type", "--memory-type", "--entity", "--topic", "--named"),
    *("--mentions", "--status", "--trust"),
]


@pytest.mark.parametrize("option", FILTERS)
@pytest.mark.parametrize(
    "words", [["search", "x"], ["recall", "x"], ["overview"], ["timeline"], ["export"], ["delete"]]
)
def test_an_empty_filter_is_refused_by_every_verb(keeper, words, option):
    """A script with ``--path "$UNSET"`` must not empty the memory."""
    for value in ("", " "):
        ran = keeper(*words, option, value)
        assert_clear(ran, 2, f"{option} is empty. Give it a value, or leave it out.")


@pytest.mark.parametrize(
    "words",
    [
        ["delete", "--saved"],
        ["timeline", "--saved"],
        ["delete", "--kind", "note", "--tag", "x", "--tag"],
        ["import", "--undo"],
        ["import", "auto", "--path"],
        ["import", "auto", "--session"],
        ["import", "auto", "--since"],
        ["log", "--since"],
        ["log", "--session"],
        ["log", "--verb"],
        ["review", "--kind"],
        ["ingest", ".", "--pattern"],
        ["ingest", ".", "--include"],
    ],
    ids=" ".join,
)
def test_other_options_that_narrow_are_refused_when_empty(keeper, words):
    assert_clear(keeper(*words, ""), 2, f"{words[-1]} is empty. Give it a value, or leave it out.")


TABLE: list[tuple[list[str], int, list[str]]] = [
    # files and folders
    (["ingest", "nowhere"], 1, ["nowhere"]),
    (["ingest", ""], 2, ["PATH is empty"]),
    (["backup", ""], 2, ["FILE is empty"]),
    (["ingest"], 2, ["ingest"]),
    (["ingest", ".", "--pattern", "*.md,["], 2, ["'['", "without a ]"]),
    (["ingest", ".", "--include", "cod"], 2, ["'cod'", "notes, code, pdf, chats", "'code'"]),
    (["watch", ".", "--include", "pdf,["], 2, ["'['", "without a ]"]),
    (["config", "set", "patterns", "["], 2, ["'['", "without a ]"]),
    (["config", "set", "patterns", "*.md,note"], 2, ["'note'", "'notes'"]),
    (["mcp", "--http", "--port", "99999"], 2, ["99999", "0 to 65,535"]),
    (["mcp", "--http", "--port", "-1"], 2, ["-1", "0 to 65,535"]),
    (["log", "--limit", "0"], 2, ["--limit is 0"]),
    (["completion"], 2, ["Missing argument: SHELL"]),
    (["restore", "."], 2, ["is a folder", "plait restore backup.db"]),
    (["--db", ".", "doctor", "--salvage", "new.db"], 1, ["is a folder", "--db PATH"]),
    (["restore", "nowhere.db"], 1, ["nowhere.db", "Check the path."]),
    (["--config", "nowhere.toml", "stats"], 2, ["nowhere.toml", "Check the path"]),
    (["store", "--file", "binary.bin"], 1, ["binary.bin", "Convert it to text first."]),
    (["import", "--undo", "zzz"], 3, ["zzz", "No import is left to undo."]),
    (["import", "--undo"], 3, ["No sessions were imported"]),
    (["chat", " "], 2, ["The question is empty. For example: plait chat"]),
    (["team", "add"], 2, ["one name", "plait team add ana"]),
    (["team", "role", "ana"], 2, ["plait team role ana writer"]),
    (["entity", "observe", "Jorun"], 2, ["plait entity observe NAME TEXT"]),
    (["about", " "], 2, ["plait about src/cart.py"]),
    (["how", ""], 2, ["plait how pytest"]),
    (["fixed", ""], 2, ["plait fixed"]),
    (["store", "--file", "nowhere.md"], 1, ["nowhere.md"]),
    (["store", "--file", "."], 1, ["folder"]),
    (["eval", "nowhere"], 2, ["nowhere", "corpus.jsonl"]),
    (["eval", ".", "--notes", "nowhere"], 1, ["nowhere"]),
    (["import", "nowhere.jsonl"], 1, ["nowhere.jsonl"]),
    (["import", "."], 2, [" .", "plait ingest"]),
    (["import", "garbage.txt"], 2, ["garbage.txt", "JSON", "plait ingest"]),
    (["import", "binary.bin"], 1, ["binary.bin", "UTF-8"]),
    (["import", "other.jsonl"], 2, ["Line 1"]),
    (["import", "chat.jsonl"], 2, ["a conversation", "--messages"]),
    (["import", "newer.jsonl"], 2, ["99"]),
    (["import", "cut.jsonl"], 2, ["Line 2", "JSON"]),
    (["backup", "garbage.txt"], 2, ["garbage.txt"]),
    (["backup", "no/such/folder/copy.db"], 1, ["no/such/folder/copy.db"]),
    (["export", "garbage.txt"], 2, ["garbage.txt"]),
    (["export", "no/such/folder/all.jsonl"], 1, ["no/such/folder"]),
    # the memory's file
    (["--db", "garbage.db", "search", "x"], 1, ["garbage.db"]),
    (["--db", "garbage.db", "store", "x"], 1, ["garbage.db"]),
    (["--db", "garbage.db", "doctor", "--fix"], 1, ["garbage.db"]),
    (["--db", "stranger.db", "search", "x"], 1, ["stranger.db"]),
    (["--db", "stranger.db", "store", "x"], 1, ["stranger.db"]),
    (["--db", ".", "search", "x"], 1, ["folder"]),
    (["--db", ".", "store", "x"], 1, ["folder"]),
    (["--db", "", "search", "x"], 2, ["--db is empty"]),
    (["--db", "mysql://ana:geheim@host/db", "search", "x"], 2, ["mysql://", "PostgreSQL"]),
    (["--db", "postgres://ana:gehe/im@host/db", "search", "x"], 2, ["%2F"]),
    (["--db", "postgres://host/db?namespace=", "search", "x"], 2, ["name of a memory"]),
    # queries
    (["search"], 2, ["query"]),
    (["search", "x", "--query", "y"], 2, ["once"]),
    (["search", "x", "--limit", "0"], 2, ["limit", "got 0", "1 to 1000"]),
    (["search", "x", "--limit", "-3"], 2, ["limit", "got -3", "1 to 1000"]),
    (["search", "x", "--limit", "1000000"], 2, ["limit", "got 1000000", "1 to 1000"]),
    (["search", "x", "--limit", "many"], 2, ["--limit", "'many'"]),
    (["search", "x", "--limit"], 2, ["--limit needs a value", "plait search --help"]),
    (["timeline", "--limit", "0"], 2, ["limit", "got 0"]),
    (["timeline", "--cursor", "abc"], 2, ["'abc'"]),
    (["timeline", "--cursor", "99999999999999999999999-x"], 2, ["9999"]),
    (["search", "x", "--mode", "fuzzy"], 2, ["'fuzzy'", "hybrid, keyword, vector"]),
    (["search", "x", "--fusion", "sum"], 2, ["'sum'", "weighted, rrf"]),
    (["search", "x", "--window", "6"], 2, ["window", "6", "0 to 5"]),
    (["search", "x", "--min-score", "1.5"], 2, ["min_score", "1.5", "0 to 1"]),
    (["search", "x", "--min-score", "nan"], 2, ["min_score", "nan"]),
    (["search", "x", "--since", "gestern"], 2, ["'gestern'"]),
    (["search", "x", "--as-of", "99999-01-01"], 2, ["'99999-01-01'"]),
    (["search", "x", "--kind", "banana"], 2, ["--kind is 'banana'", "file, note, observation"]),
    (["search", "x", "--kind", "note,banana"], 2, ["--kind is 'banana'"]),
    (["search", "x", "--memory-type", "long"], 2, ["--memory-type is 'long'", "semantic"]),
    (["search", "x", "--trust", "maybe"], 2, ["--trust is 'maybe'", "untrusted"]),
    (["delete", "--kind", "note", "--tag", " , "], 2, ["--tag is empty"]),
    (["search", "x", "--metadata", "author"], 2, ["'author' is not KEY=VALUE"]),
    (["search", "x", "--embedder", "oracle"], 2, ["'oracle'", "custom, hashing"]),
    (["search", "x", "--format", "xml"], 2, ["--format", "'xml'", "json"]),
    (["search", "x", "--keyword-weight", "0.8", "--vector-weight", "0.8"], 2, ["1.6"]),
    (
        ["search", "x", "--keyword-weight", "0", "--vector-weight", "0"],
        2,
        ["keyword_weight", "vector_weight"],
    ),
    (["search", "x", "--keyword-weight", "-1"], 2, ["keyword_weight", "-1", "0 to 1"]),
    (["search", "x", "--vector-weight", "lots"], 2, ["'lots'"]),
    # names
    (["get"], 2, ["NAME", "plait get --help"]),
    (["get", "nobody"], 3, ["'nobody'", "plait search"]),
    (["get", ""], 3, ["plait search"]),
    (["delete"], 2, ["delete"]),
    (["delete", "nobody"], 3, ["nobody"]),
    (["delete", "kept", "nobody"], 3, ["nobody"]),
    (["delete", "--all-projects"], 2, ["delete"]),
    (["delete", "kept", "--kind", "note"], 2, ["id", "key"]),
    (["delete", "--undo", "kept"], 3, ["kept"]),
    (["delete", "--purge", "--kind", "note"], 2, ["cannot be undone", "--dry-run"]),
    # texts
    (["store", ""], 2, ["text"]),
    (["store", "--text", " \n"], 2, ["text"]),
    (["store", "--text", "x", "--file", "garbage.txt"], 2, ["once"]),
    (["store", "--doc-id", "", "--text", "x"], 2, ["key"]),
    (["store", "--doc-id", " ", "--text", "x"], 2, ["key"]),
    (["store", "--doc-id", "", "--file", "garbage.txt"], 2, ["key"]),
    (["store", "x", "--metadata", "author"], 2, ["'author' is not KEY=VALUE", "author=Ana"]),
    (["store", "x", "--provenance", "model"], 2, ["'model'", "--provenance model=m1"]),
    (["store", "x", "--metadata", "=Ana"], 2, ["'=Ana' is not KEY=VALUE"]),
    (["store", "x", "--event-at", "soon"], 2, ["'soon'"]),
    (["store", "x", "--trust", "maybe"], 2, ["'maybe'", "trusted"]),
    (["store", "x", "--importance", "high"], 2, ["'high'"]),
    (["store", "x", "--importance", "7"], 2, ["importance", "7", "0 to 1"]),
    (["store", "a\0b"], 2, ["NUL"]),
    # options and settings
    (["search", "x", "--limti", "5"], 2, ["--limti", "'--limit'"]),
    (["search", "x", "--zzz"], 2, ["--zzz", "plait search --help", "-- --zzz"]),
    (["--zzz", "search", "x"], 2, ["--zzz"]),
    (["--limit", "5", "search", "x"], 2, ["--limit", "plait COMMAND"]),
    (["--db"], 2, ["--db needs a value"]),
    (["stats", "extra"], 2, ["extra", "plait stats --help"]),
    (["completion", "tcsh"], 2, ["'tcsh'", "bash"]),
    (["help", "frobnicate"], 2, ["'frobnicate'", "plait --help"]),
    (["config", "get", "limt"], 2, ["'limt'", "'limit'"]),
    (["config", "get", "zzz"], 2, ["'zzz'", "plait config show"]),
    (["config", "get"], 2, ["plait config get db_path"]),
    (["config", "set", "limit"], 2, ["plait config set limit 5"]),
    (["config", "set", "limt", "5"], 2, ["'limt'", "'limit'"]),
    (["config", "set", "limit", "lots"], 2, ["limit", "1 to 1000", "'lots'"]),
    (["config", "set", "embedding_provider", "custom"], 2, ["custom:http"]),
    (["config", "set", "api_key", "sk-secret"], 2, ["plait config set-key"]),
    (["config", "set-key"], 2, ["plait config set-key openai"]),
    (["config", "set-key", "custom"], 2, ["plait config set-key custom --url"]),
    (["config", "set-key", "openai", "sk-secret"], 2, ["plait config set-key PROVIDER"]),
    (["config", "remove-key", "openai"], 3, ["plait config keys"]),
    (["config", "set", "embedding_provider", "oracle"], 2, ["'oracle'", "builtin"]),
    (["config", "unset"], 2, ["plait config unset limit"]),
    (["config", "unset", "limt"], 2, ["'limt'", "'limit'"]),
    (["config", "unset", "limit"], 3, ["limit", "plait config show"]),
    (["eval", ".", "--max-queries", "0"], 2, ["--max-queries is 0"]),
    (["eval", ".", "--weights", "0.5,much"], 2, ["--weights"]),
    (["eval", ".", "--weights", "2"], 2, ["keyword weight is 2"]),
    (["eval", ".", "--fusions", "magic"], 2, ["'magic'", "weighted, rrf"]),
    (["eval", ".", "--half", "left"], 2, ["'left'", "odd, even, both"]),
    (["eval", ".", "--pad", "-1"], 2, ["--pad is -1"]),
    (["watch", "nowhere"], 1, ["nowhere"]),
    (["watch"], 2, ["plait watch ~/notes"]),
    (["stats", "--config", "nowhere.toml"], 2, ["nowhere.toml"]),
    (["stats", "--config", "garbage.txt"], 2, ["garbage.txt"]),
    (["stats", "--config", "unknown.toml"], 2, ["'colour'", "unknown.toml"]),
    (["stats", "--config", "heavy.toml"], 2, ["0.9", "1.8", "heavy.toml"]),
    (["stats", "--config", "postgres.toml"], 2, ["PostgreSQL"]),
    (["search", "x", "--chunk-size", "1"], 2, ["chunk_size", "got 1"]),
    (["search", "x", "--overlap", "900"], 2, ["chunk_overlap", "900", "half"]),
]


@pytest.mark.parametrize(("words", "code", "fragments"), TABLE, ids=lambda part: str(part)[:60])
def test_a_bad_command_is_refused_clearly_and_costs_nothing(keeper, work, words, code, fragments):
    (work / "garbage.txt").write_text("this is no database, no export, no TOML\n" * 40, "utf-8")
    (work / "garbage.db").write_text("this is no database\n" * 400, "utf-8")
    (work / "binary.bin").write_bytes(b"\x89PNG\x00\xff" * 100)
    (work / "other.jsonl").write_text('{"speaker": "user", "words": "hello"}\n', "utf-8")
    (work / "chat.jsonl").write_text('{"role": "user", "content": "hello"}\n', "utf-8")
    (work / "newer.jsonl").write_text('{"format": "plait", "version": 99}\n', "utf-8")
    (work / "cut.jsonl").write_text('{"key": "a", "text": "b"}\n{"key": "c", "te', "utf-8")
    (work / "unknown.toml").write_text('[memory]\ncolour = "blue"\n', "utf-8")
    (work / "heavy.toml").write_text(
        "[memory]\nkeyword_weight = 0.9\nvector_weight = 0.9\n", "utf-8"
    )
    (work / "postgres.toml").write_text(
        '[storage.provider.config]\nprovider = "postgres"\n', "utf-8"
    )
    stranger = apsw.Connection(str(work / "stranger.db"))
    stranger.execute("CREATE TABLE IF NOT EXISTS songs (title)").fetchall()
    stranger.close()
    before = {path: path.read_bytes() for path in work.iterdir()}
    assert_clear(keeper(*words), code, *fragments)
    after = {path: path.read_bytes() for path in work.iterdir()}
    assert after == before


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_folder_that_is_missing_is_told_alike_whether_or_not_it_is_tried(keeper, dry):
    ran = keeper("maintain", "nowhere", *dry)
    assert ran.code == 1
    sentence = "No such file or folder: nowhere. Check the spelling, or give the full path."
    assert ran.err == f"plait: {sentence}\n"


def test_an_ambiguous_beginning_lists_its_candidates(plait):
    ids = {"abcdefaaaaaaa": "first", "abcdefbbbbbbb": "second"}
    header = '{"format": "plait", "version": 1}'
    rows = [f'{{"id": "{id_}", "key": "{key}", "text": "{key}"}}' for id_, key in ids.items()]
    Path("two.jsonl").write_text("\n".join([header, *rows]), encoding="utf-8")
    assert plait("import", "two.jsonl").code == 0
    assert_clear(plait("get", "abcdef"), 2, "'abcdef'", *ids)
    assert_clear(plait("delete", "abcdef"), 2, "'abcdef'", *ids)
    assert plait("get", "abcdefa").json["results"][0]["key"] == "first"
    assert plait("stats").json["doc_count"] == 2


def test_a_memory_from_a_newer_plait_is_refused_and_left_alone(plait, work):
    plait("--db", "memory.db", "store", "a fact")
    connection = apsw.Connection("memory.db")
    version = connection.execute("PRAGMA user_version").fetchall()[0][0]
    connection.execute("PRAGMA user_version = 99").fetchall()
    connection.close()
    for words in (["search", "fact"], ["store", "another"], ["doctor", "--fix"], ["stats"]):
        assert_clear(plait("--db", "memory.db", *words), 1, "memory.db", "99")
    connection = apsw.Connection("memory.db")
    connection.execute(f"PRAGMA user_version = {version}").fetchall()
    connection.close()
    assert plait("--db", "memory.db", "stats").json["doc_count"] == 1


def test_a_locked_memory_is_read_all_the_same_and_written_later(plait, work):
    plait("--db", "memory.db", "store", "a fact")
    Path("hasty.toml").write_text("[memory]\nsqlite_open_timeout_secs = 0.05\n", encoding="utf-8")
    hasty = ["--db", "memory.db", "--config", "hasty.toml"]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, "memory.db"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment(),
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        for words in (["store", "another"], ["delete", "--kind", "observation"], ["reindex"]):
            assert_clear(plait(*hasty, *words), 1, "memory.db")
        assert plait(*hasty, "search", "fact").code == 0
        holder.communicate(b"\n", PATIENCE_S)
    assert plait(*hasty, "store", "another").code == 0
    assert plait(*hasty, "stats").json["doc_count"] == 2


HOLD = """
import apsw, sys
connection = apsw.Connection(sys.argv[1])
connection.execute("BEGIN IMMEDIATE").fetchall()
print("held", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK").fetchall()
"""


@posix_only
@pytest.mark.parametrize("room", [40_000, 150_000, 400_000])
def test_a_full_disk_stops_a_command_but_loses_nothing(work, room):
    spawn("store", "--doc-id", "kept", "--text", "the fact that must stay")
    (work / "notes").mkdir()
    for number in range(300):
        text = f"# Note {number}\n\n" + f"Word{number} fills the disk. " * 60
        (work / "notes" / f"{number}.md").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [*PLAIT, "ingest", "notes"],
        capture_output=True,
        encoding="utf-8",
        env=environment(PYTHONDONTWRITEBYTECODE="1"),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
        timeout=PATIENCE_S,
        check=False,
    )
    assert_clear(Ran(done.returncode, done.stdout, done.stderr), 1, "memory.db")
    assert "disk" in done.stderr or "space" in done.stderr
    assert spawn("get", "kept").json["results"][0]["text"] == "the fact that must stay"
    assert spawn("doctor").json["ok"]
    assert spawn("ingest", "notes").json["errors"] == []
    assert spawn("stats").json["doc_count"] == 301


# Root reads everything, so the child becomes nobody; by then it must have loaded all it needs,
# since the interpreter may live in a folder that is root's alone.
AS_NOBODY = """
import contextlib, difflib, encodings.utf_8_sig, importlib, io, json, locale, os, pkgutil, sys
import tempfile, traceback
import plait
for module in pkgutil.walk_packages(plait.__path__, "plait."):
    if not module.name.endswith("__main__") and ".adapters." not in module.name:
        importlib.import_module(module.name)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
from plait.cli import main
rows = []
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(io.StringIO()) as err:
            code = main(words)
    rows.append((code, out.getvalue(), err.getvalue()))
json.dump(rows, sys.stdout)
"""


@posix_only
def test_what_may_not_be_read_is_named_and_the_rest_goes_in(open_folder):
    notes = open_folder / "notes"
    (notes / "closed").mkdir(parents=True)
    (notes / "open.md").write_text("An open secret.\n", encoding="utf-8")
    (notes / "shut.md").write_text("A shut secret.\n", encoding="utf-8")
    (notes / "closed" / "in.md").write_text("A closed secret.\n", encoding="utf-8")
    (open_folder / "home").mkdir()
    (open_folder / "home").chmod(0o777)
    (notes / "shut.md").chmod(0)
    (notes / "closed").chmod(0)
    (notes / "shut.db").write_bytes(b"SQLite format 3\0")
    (notes / "shut.db").chmod(0)

    home = open_folder / "home"
    commands = (
        ("ingest", "notes"),
        ("ingest", "notes/closed"),
        ("store", "--file", "notes/shut.md"),
        ("search", "secret"),
        ("--db", "/m.db", "store", "x"),
        ("backup", "notes/closed/b.db"),
        ("export", "notes/closed/e.jsonl"),
        ("--db", "notes/shut.db", "search", "x"),
    )
    words = [("--db", str(home / "m.db"), *command) for command in commands]
    try:
        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, json.dumps(words)],
            capture_output=True,
            encoding="utf-8",
            env=environment(HOME=str(home)),
            cwd=open_folder,
            check=False,
        )
    finally:
        (notes / "closed").chmod(0o755)
    assert done.stderr == ""
    ingested, closed, shut, searched, unwritable, copied, exported, memory = (
        Ran(*row) for row in json.loads(done.stdout)
    )
    assert ingested.json["files"] == 1
    reasons = {Path(row["path"]).name: row["reason"] for row in ingested.json["left_out"]}
    assert reasons.keys() == {"shut.md", "closed"}
    assert all("ermission" in reason for reason in reasons.values())
    assert_clear(closed, 1, "notes/closed")
    assert_clear(shut, 1, "shut.md", "ermission")
    assert searched.json["results"][0]["doc_id"] == "open.md"
    assert_clear(unwritable, 1, "/m.db", "ermission")
    assert_clear(copied, 1, "notes/closed/b.db", "ermission")
    assert_clear(exported, 1, "ermission")
    assert_clear(memory, 1, "shut.db: the file may not be read. Check its permissions.")


@pytest.mark.skipif(sys.platform != "linux", reason="reads its peak from /proc")
def test_a_file_of_200_mb_in_one_line_is_skipped_without_being_read(work):
    (work / "notes").mkdir()
    (work / "notes" / "small.md").write_text("A small note.\n", encoding="utf-8")
    with (work / "notes" / "huge.md").open("wb") as file:
        file.truncate(200 * MEGABYTE)  # one line of NULs that takes no room on the disk
    # The child tells its own peak: what wait4 reports includes the parent's size at the fork.
    script = (
        "import sys; from plait.cli import main; code = main(['ingest', 'notes']);"
        "sys.stderr.write(open('/proc/self/status', encoding='utf-8').read()); sys.exit(code)"
    )
    child = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, env=environment(), check=True
    )
    report = Ran(0, child.stdout.decode(), "").json
    assert (report["files"], report["skipped"]) == (1, 1)
    (left_out,) = report["left_out"]
    assert "200" in left_out["reason"]
    assert "10 MB" in left_out["reason"]
    (peak,) = [line for line in child.stderr.decode().splitlines() if line.startswith("VmHWM")]
    assert int(peak.split()[1]) < 100 * 1024  # KiB
    ran = spawn("store", "--file", "notes/huge.md")
    assert_clear(ran, 1, "huge.md", "10 MB")
    assert spawn("search", "small note").code == 0


@posix_only
@pytest.mark.parametrize("megabytes", [12, pytest.param(200, marks=pytest.mark.soak)])
@pytest.mark.slow
def test_a_huge_line_goes_in_when_the_cap_is_raised(work, megabytes):
    words = b"the quick brown fox jumps over the lazy dog and then some more of them "
    line = words * (megabytes * MEGABYTE // len(words)) + b"needle\n"
    (work / "huge.md").write_bytes(line)
    (work / "big.toml").write_text("[memory]\nmax_file_mb = 256\n", encoding="utf-8")
    ran = spawn("--config", "big.toml", "ingest", "huge.md")
    assert (ran.code, ran.json["files"]) == (0, 1)
    assert ran.json["chunks"] > len(line) // 2_000
    hits = spawn("search", "needle").json["results"]
    assert hits[0]["text"].endswith("needle")


def test_a_damaged_memory_is_named_and_never_answers_nonsense(plait, work):
    with Memory.open("memory.db", project="") as memory:
        for number in range(200):
            memory.store(f"fact number {number} " * 20, key=f"k{number}")
    data = bytearray(Path("memory.db").read_bytes())
    for place in range(8 * 4096, len(data) - 4096, 4096):
        data[place : place + 64] = b"\xa5" * 64
    Path("memory.db").write_bytes(bytes(data))
    for words in (["search", "fact"], ["get", "k7"], ["timeline"], ["doctor"], ["stats"]):
        ran = plait("--db", "memory.db", *words)
        assert "Traceback" not in ran.err
        assert ran.code in (0, 1)
        if ran.code == 1 and words != ["doctor"]:
            assert_clear(ran, 1, "memory.db")
    report = plait("--db", "memory.db", "doctor")
    assert report.code == 1
