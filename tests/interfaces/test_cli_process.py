"""What only a real process shows: terminals, pipes, signals, locales and strange bytes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait import __version__
from plait.errors import PIP
from plait.writing.folder import BATCH_FILES
from tests.interfaces.command import PATIENCE_S, PLAIT, environment, spawn

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX terminals and signals")


def on_terminal(*words: str, **env: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command whose stdout is a terminal."""
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*PLAIT, *words],
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment(**env),
    ) as child:
        os.close(theirs)
        out = read_terminal(ours)
        assert child.stderr is not None
        err = child.stderr.read().decode()
    return child.returncode, out, err


def read_terminal(handle: int, until: bytes | None = None) -> str:
    """What was written to a terminal, up to its end or to a pattern."""
    seen = b""
    while until is None or not re.search(until, seen):
        try:
            more = os.read(handle, 65_536)
        except OSError:  # Linux: the other side is closed
            break
        if not more:
            break
        seen += more
    if until is None:
        os.close(handle)
    return seen.decode().replace("\r\n", "\n")


@pytest.fixture
def filled(plait, notes):
    """A memory that real processes share, and the command line to look into it."""
    assert plait("ingest", "notes").code == 0
    return plait


# -- where the answer goes -----------------------------------------------------------------


def test_store_and_search_as_processes_of_their_own(work):
    assert spawn("store", "--doc-id", "X", "--text", "The fence is green").json["chunks"] == 1
    ran = spawn("search", "green", "fence")
    assert (ran.code, ran.err) == (0, "")
    assert ran.json["results"][0]["doc_id"] == "X"


def test_a_pipe_gets_one_line_of_json(filled):
    ran = spawn("search", "ssh password")
    assert ran.out.count("\n") == 1
    assert json.loads(ran.out)["results"]


@posix_only
def test_a_terminal_gets_text_in_colour_and_the_next_command(filled):
    code, out, err = on_terminal("search", "ssh", "password")
    assert code == 0
    assert re.match(r"[01]\.\d\d  ", out)
    assert "\x1b[1mpassword\x1b[0m" in out
    assert re.search(r"plait get [a-z2-7]{8}", err)


@posix_only
def test_no_color_is_obeyed_on_a_terminal(filled):
    _, out, _ = on_terminal("search", "ssh", "password", NO_COLOR="1")
    assert re.match(r"[01]\.\d\d  ", out)
    assert "\x1b" not in out


@posix_only
def test_a_terminal_gets_json_when_it_asks_for_it(filled):
    _, out, err = on_terminal("search", "ssh", "password", "--json")
    assert json.loads(out)["results"]
    assert out.startswith("{\n  ")
    assert err == ""


@posix_only
def test_a_reader_that_has_had_enough_is_no_failure(filled):
    script = '"$0" -m plait export | head -1; echo "${PIPESTATUS[0]}"'
    done = subprocess.run(
        ["bash", "-c", script, PLAIT[0]], capture_output=True, env=environment(), check=True
    )
    assert done.stdout.splitlines() == [b'{"format": "plait", "version": 1}', b"0"]
    assert done.stderr == b""


@posix_only
def test_a_reader_that_is_gone_from_the_start_is_no_failure(filled):
    ours, theirs = os.pipe()
    os.close(ours)
    with subprocess.Popen(
        [*PLAIT, "timeline"], stdout=theirs, stderr=subprocess.PIPE, env=environment()
    ) as child:
        os.close(theirs)
        assert child.stderr is not None
        assert child.stderr.read() == b""
    assert child.returncode == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_answer_that_cannot_be_written_is_a_failure(filled):
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PLAIT, "search", "password"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == b"plait: Cannot write the output: No space left on device.\n"


@posix_only
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(filled, closed):
    done = subprocess.run(
        ["bash", "-c", f'"$0" -m plait search password {closed}', PLAIT[0]],
        capture_output=True,
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# -- bytes and locales ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C"},
        {"LC_ALL": "POSIX"},
        {"LC_ALL": "C", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
    ],
)
def test_text_is_utf_8_whatever_the_locale_says(work, locale):
    words = "Grüße aus 京都 — naïve ☕"
    assert spawn("store", "--key", "gruß", "--text", words, env=locale).code == 0
    ran = spawn("search", "京都", env=locale)
    assert ran.json["results"][0]["text"] == words
    text = spawn("search", "Grüße", "--format", "text", env=locale)
    assert words in text.out
    assert spawn("get", "gruß", env=locale).json["results"][0]["title"] == "gruß"


@posix_only
def test_a_path_is_found_where_the_locale_is_not_utf_8(work):
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0"}
    assert spawn("store", "a fact", env=plain).code == 0
    assert spawn("export", "naïve.jsonl", env=plain).code == 0
    assert "a fact" in (work / "naïve.jsonl").read_text(encoding="utf-8")
    assert spawn("import", "naïve.jsonl", env=plain).code == 0
    ran = spawn("--db", "größe.db", "store", "a fact", env=plain)
    assert ran.code == 2
    assert "PYTHONUTF8=1" in ran.err


@posix_only
@pytest.mark.parametrize(
    ("words", "label"),
    [
        ([b"caf\xe9"], "The text"),
        (["--text", b"caf\xe9"], "The text"),
        (["x", "--key", b"\xe9"], "--key"),
        (["x", "--title", b"\xe9"], "--title"),
        (["x", "--tags", b"a,\xe9"], "--tags"),
        (["x", "--type", b"\xe9"], "--type"),
        (["x", "--metadata", b"author=\xe9"], "--metadata"),
        (["x", "--summary", b"\xe9"], "--summary"),
        (["x", "--session", b"\xe9"], "--session"),
        (["x", "--project", b"\xe9"], "--project"),
    ],
)
def test_bytes_that_are_not_utf_8_are_never_stored_as_something_else(filled, words, label):
    ran = spawn("store", *words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"plait: {label} is not UTF-8 text")
    assert ran.err.count("\n") == 1
    assert filled("stats").json["doc_count"] == 3


@posix_only
@pytest.mark.parametrize(
    "words",
    [
        ["search", b"caf\xe9 password"],
        ["search", "--query", b"\xff\xfe"],
        ["search", "password", "--tag", b"\xe9"],
        ["search", "password", "--path", b"n\xe9"],
        ["search", "password", "--source", b"n\xe9"],
        ["search", "password", "--metadata", b"a=\xe9"],
        ["search", "password", "--project", b"\xe9"],
        ["search", "password", "--since", b"\xe9"],
        ["store", b"caf\xe9"],
        ["store", "--key", b"\xe9", "--text", "x"],
        ["store", "x", "--title", b"\xe9", "--tags", b"\xe9", "--metadata", b"\xe9=\xe9"],
        ["store", "x", "--type", b"\xe9", "--session", b"\xe9", "--summary", b"\xe9"],
        ["store", "--file", b"n\xe9.md"],
        ["ingest", b"n\xe9"],
        ["ingest", "notes", "--pattern", b"*.\xe9"],
        ["get", b"\xe9\xe9\xe9\xe9\xe9\xe9"],
        ["delete", b"\xe9"],
        ["timeline", "--cursor", b"\xe9"],
        ["backup", b"c\xe9.db"],
        ["export", b"e\xe9.jsonl"],
        ["import", b"e\xe9.jsonl"],
        ["--db", b"m\xe9.db", "stats"],
        ["--db", b"m\xe9.db", "store", "x"],
        ["--config", b"c\xe9.toml", "stats"],
        ["config", "get", b"\xe9"],
        ["config", "set", "model", b"\xe9"],
        [b"\xe9"],
        ["search", b"--\xe9"],
    ],
    ids=lambda words: b" ".join(w if isinstance(w, bytes) else w.encode() for w in words).decode(
        "latin-1"
    ),
)
def test_arguments_that_are_not_utf_8_are_taken_or_refused_but_never_crash(filled, words):
    ran = spawn(*words)
    assert ran.code in (0, 1, 2, 3)
    assert "Traceback" not in ran.err
    assert ran.code == 0 or ran.err.startswith("plait: ")
    assert filled("doctor").json["ok"]
    assert filled("search", "ssh password").json["results"][0]["doc_id"] == "TOOLS.md"


# -- interrupted ---------------------------------------------------------------------------


@posix_only
def test_ctrl_c_during_ingest_keeps_what_is_done_and_the_next_run_goes_on(work):
    folder = work / "many"
    folder.mkdir()
    for number in range(1_000):
        text = f"# Note {number}\n\n" + f"Fact {number} about the number {number}. " * 20
        (folder / f"{number:05}.md").write_text(text, encoding="utf-8")
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*PLAIT, "ingest", "many"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        env=environment(),
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    ) as child:
        os.close(theirs)
        # The bar moves once a batch is written.
        read_terminal(ours, until=rb"\b%d/1,000" % BATCH_FILES)
        child.send_signal(signal.SIGINT)
        rest = read_terminal(ours)
        assert child.stdout is not None
        report = json.loads(child.stdout.read())
    assert child.returncode == 130
    assert report["interrupted"]
    assert "interrupted" in rest
    assert "Traceback" not in rest
    kept = spawn("stats").json["doc_count"]
    assert BATCH_FILES <= report["files"] == kept < 1_000
    assert spawn("doctor").json["ok"]
    again = spawn("ingest", "many", "--incremental").json
    assert (again["added"], again["unchanged"]) == (1_000 - kept, kept)


def heed_ctrl_c() -> None:
    """A shell's background jobs ignore SIGINT, and their children would too."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@posix_only
def test_watch_indexes_what_changes_until_ctrl_c(work, notes):
    pytest.importorskip("watchfiles")
    # The memory lies in the watched folder itself: its own writing must not wake it again.
    with subprocess.Popen(
        [*PLAIT, "watch", "notes", "--db", "notes/memory.db"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert json.loads(child.stdout.readline())["added"] == 3
        assert b"watching" in child.stderr.readline()
        # Once: whether the watcher is up already makes no difference.
        (notes / "fresh.md").write_text("A fresh fact.\n", encoding="utf-8")
        report = json.loads(next_line(child))
        child.send_signal(signal.SIGINT)
        try:
            rest, err = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
    assert report["added"] == 1
    assert rest.count(b"\n") <= 1
    assert (child.returncode, err) == (130, b"")
    assert spawn("--db", "notes/memory.db", "search", "fresh fact").code == 0


@posix_only
def test_watch_gives_its_tip_once(work, notes):
    pytest.importorskip("watchfiles")
    with subprocess.Popen(
        [*PLAIT, "watch", "notes", "--format", "text"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
        preexec_fn=heed_ctrl_c,
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline().startswith(b"3 files: 3 added")
        (notes / "fresh.md").write_text("A fresh fact.\n", encoding="utf-8")
        assert b"1 added" in next_line(child)
        child.send_signal(signal.SIGINT)
        try:
            _, err = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
    assert err.count(b"plait search WORDS") == 1
    assert b"KeyboardInterrupt" not in err


def test_watch_looks_again_once_the_watcher_is_up(plait, notes, monkeypatch):
    watchfiles = pytest.importorskip("watchfiles")

    def watch(*paths: str, **options: object) -> Iterator[set[tuple[int, str]]]:
        # Between the first run and the watcher, which therefore sees nothing.
        (notes / "late.md").write_text("A late fact.\n", encoding="utf-8")
        yield set()
        yield set()
        raise KeyboardInterrupt

    monkeypatch.setattr(watchfiles, "watch", watch)
    ran = plait("watch", "notes")
    assert [json.loads(line)["added"] for line in ran.out.splitlines()] == [3, 1]
    assert plait("search", "late fact").code == 0


def test_watch_prints_nothing_when_there_is_no_news(plait, notes, monkeypatch):
    watchfiles = pytest.importorskip("watchfiles")

    def watch(*paths: str, **options: object) -> Iterator[set[tuple[int, str]]]:
        yield set()
        raise KeyboardInterrupt

    monkeypatch.setattr(watchfiles, "watch", watch)
    (notes / "empty.md").write_text("", encoding="utf-8")
    ran = plait("watch", "notes")
    assert len(ran.out.splitlines()) == 1


def test_watch_says_which_package_it_needs_once_the_path_is_right(plait, notes, monkeypatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    assert "nowhere" in plait("watch", "nowhere").err
    ran = plait("watch", "notes")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.endswith(f"Run in a clone of plait: {PIP} install '.[watch]'\n")


@posix_only
def test_eval_shows_on_a_terminal_how_far_it_is(work):
    folder = work / "questions"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text('{"_id": "a", "text": "Rotate keys."}', encoding="utf-8")
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "keys"}', encoding="utf-8")
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta\t1\n", encoding="utf-8")
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [*PLAIT, "eval", "questions"], stdout=subprocess.PIPE, stderr=theirs, env=environment()
    ) as child:
        os.close(theirs)
        shown = read_terminal(ours)
        assert child.stdout is not None
        assert json.loads(child.stdout.read())["collections"]
    assert "storing documents, 0 of 1" in shown
    assert "hybrid: question 1 of 1" in shown
    assert shown.endswith("\r\x1b[2K")


def next_line(child: subprocess.Popen[bytes], touched: Path | None = None) -> bytes:
    """Return what the child prints next; a file is touched until then."""
    import select

    assert child.stdout is not None
    for _ in range(PATIENCE_S * 2):
        if select.select([child.stdout], [], [], 0.5)[0]:
            return child.stdout.readline()
        if touched is not None:
            touched.touch()
    raise AssertionError("the change was never seen")


@pytest.mark.parametrize(
    "words",
    [
        ("ingest", "notes"),
        ("store", "We deploy on Fridays"),
        ("search", "deploy keys"),
        ("recall", "deploy keys"),
        ("get", "TOOLS.md"),
        ("delete", "TOOLS.md"),
        ("reindex",),
        ("stats",),
        (),
    ],
    ids=lambda words: words[0] if words else "plait",
)
def test_no_command_leaves_a_journal_behind(filled, words):
    memory = Path(filled("stats").json["path"])
    assert filled(*words).code == 0
    assert [path.name for path in memory.parent.glob(f"{memory.name}*")] == [memory.name]


# -- the end of the process -------------------------------------------------------------------

ENDING = """
import atexit, sys, threading
atexit.register(sys.stderr.write, "at exit")
{before}
from plait.__main__ import command
sys.argv = ["plait", "--version"]
try:
    command()
except SystemExit as end:
    sys.stderr.write(f"as usual with {{end.code}}, ")
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        ("", "at exit"),
        ("sys.setprofile(lambda *_: None)", "as usual with 0, at exit"),
        ("sys.settrace(lambda *_: None)", "as usual with 0, at exit"),
        (
            "threading.Thread(target=threading.main_thread().join).start()",
            "as usual with 0, at exit",
        ),
    ],
    ids=["at once", "profiled", "traced", "another thread"],
)
def test_a_process_ends_at_once_only_if_nothing_is_lost(before, told):
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(before=before)],
        capture_output=True,
        encoding="utf-8",
        env=environment(),
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"plait {__version__}\n", told)
