"""A terminal obeys what is printed on it, so nothing that was stored or typed is printed raw.

Every command runs here on a real terminal device, over a memory whose every field is hostile.
"""

import ast
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from plait.cli import main
from plait.cli.verbs import VERBS
from plait.memory import Memory
from plait.protocols import Entry
from plait.text import _UNSEEN, visible
from plait.text.failures import failure_of, short_line
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.types.steps import Step
from tests.interfaces.command import PATIENCE_S, PLAIT, ROOT, environment, spawn

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs a POSIX terminal")

ATTACKS = (
    *(
        "\x1b]52;c;ZXZpbA==\x07",
        "\x1b]0;evil\x1b\\",
        "\x1b]8;;http://evil.example\x1b\\",
        "\x1b[2J",
    ),
    *("\x1bP+q\x1b\\", "\x1bc", "\x9b2J", "\x9d0;evil\x9c", "\x90", "\x07", "\x08", "\x0b", "\x7f"),
    *("\u202e", "\u202a\u202c", "\u2066\u2069", "\u200e\u200f\u061c", "\u200b\ufeff\u2060", "\x85"),
    *("\u2028", "\u2029", "\U000e0041", "\x1b[1m", "\x1b[0m"),
)
# A word in front, so that a search finds it.
HOSTILE = "otter " + " ".join(ATTACKS)
# Such a name in a row or a sentence must not look like two rows or two messages.
BROKEN = HOSTILE + "\nplait: all is well\r\n0.99  aaaaaaaa  forged.md:1"
EVE = "Eve " + BROKEN  # an entity
STEP_PATH = "a/otter\x1b[2J\nplait: all is well.py"
STEP_ERROR = short_line(f"KeyError: 'x' {HOSTILE}")
UNSAFE = re.compile("[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in _UNSEEN) + "]")
OWN_CODES = re.compile(r"\x1b\[[012]m|\r\x1b\[2K")


# -- what is safe ----------------------------------------------------------------------------


def test_what_a_terminal_would_obey_becomes_visible():
    assert not UNSAFE.search(visible(BROKEN))
    assert visible("a\x1b[2J\x9b\u202e\U000e0041") == r"a\u001b[2J\u009b\u202e\udb40\udc41"
    assert visible("tab\tline\nend") == "tab\tline\nend"
    assert visible("tab\tline\nend", one_line=True) == r"tab\tline\nend"


def test_what_people_write_stays_as_it_is():
    for text in ("Grüße, José", "שלום", "نمی‌خواهم", "क्‍ष", "👩‍👩‍👧 ❤️", "日本語", "e\u0301"):
        assert visible(text) == text


def test_json_has_the_same_value_afterwards():
    value = {"text": BROKEN, "\x1b": [BROKEN]}
    shown = visible(json.dumps(value, ensure_ascii=False, indent=2))
    assert not UNSAFE.search(shown)
    assert json.loads(shown) == value


def test_every_character_that_unicode_hides_is_covered():
    import unicodedata

    # Joiners and the soft hyphen belong to words; the rest are marks of scripts and of music.
    kept = {0x00AD, 0x200C, 0x200D, 0x2065}
    for code in (*range(0x3000), 0xFEFF, *range(0xFFF0, 0xFFFC)):
        hidden = unicodedata.category(chr(code)) in ("Cc", "Cf", "Zl", "Zp")
        is_script = 0x0600 <= code < 0x0900 and code != 0x061C
        if hidden and chr(code) not in "\n\t" and code not in kept and not is_script:
            assert UNSAFE.match(chr(code)), hex(code)


def test_no_command_writes_past_the_two_functions():
    writers = {
        (path.name, function.name)
        for path in (ROOT / "src" / "plait" / "cli").glob("*.py")
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and re.fullmatch(
            r"print|(sys\.)?(__)?std(out|err)(__)?(\.buffer)?\.write(lines)?|os\.write",
            ast.unparse(node.func),
        )
    }
    assert writers == {("__init__.py", "write_out"), ("__init__.py", "write_error")}


# -- every command ---------------------------------------------------------------------------


class Terminal:
    """A terminal device, and what was printed on it."""

    def __init__(self) -> None:
        self._ours, theirs = os.openpty()
        self.stream = os.fdopen(theirs, "w", encoding="utf-8", newline="")
        self._seen = bytearray()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while more := os.read(self._ours, 65_536):
                self._seen += more
        except OSError:  # Linux says so when the other side is closed
            pass

    def text(self) -> str:
        """Close the device and return what was printed; a terminal ends its lines with CR LF."""
        self.stream.close()
        self._reader.join()
        os.close(self._ours)
        return self._seen.decode().replace("\r\n", "\n")


@contextmanager
def terminals(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Terminal, Terminal]]:
    out, err = Terminal(), Terminal()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", out.stream)
        patch.setattr(sys, "stderr", err.stream)
        yield out, err


@pytest.fixture
def on_terminal(work: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str, str]]:
    """Run a command with stdout and stderr on terminals of their own."""

    def run(*words: str) -> tuple[int, str, str]:
        with terminals(monkeypatch) as (out, err):
            code = main(words)
        return code, out.text(), err.text()

    return run


@pytest.fixture
def hostile(work: Path) -> Path:
    """A memory, a folder of files and a project's settings, all of them hostile."""
    # TOML has no pairs of surrogates, and a [ without a ] would be refused.
    pattern = json.dumps(BROKEN.replace("\U000e0041", "") + "]")
    settings = f'[memory]\npatterns = ["*.md", {pattern}]\n'
    (work / "plait.toml").write_text(settings, encoding="utf-8")
    folder = work / "notes"
    folder.mkdir()
    name = BROKEN.replace("/", "_")[:60]
    body = f"---\ntitle: {HOSTILE}\ntags: [{HOSTILE}]\n---\n# {HOSTILE}\n\n{HOSTILE}\n"
    (folder / f"{name}.md").write_text(body, encoding="utf-8")
    (folder / f"binary {name}.md").write_bytes(b"\0\1\2")
    with Memory.open(project="") as memory:
        memory.ingest(folder)
        memory.store(
            BROKEN,
            key=BROKEN,
            title=BROKEN,
            type=BROKEN,
            tags=[BROKEN],
            metadata={BROKEN: BROKEN},
            summary=BROKEN,
            session=BROKEN,
        )
        memory.store(BROKEN + " fact", entity=EVE, topic=BROKEN, trust="untrusted")
        memory.store("otters\x1b[2J sleep", key="plain", title="")
        memory.graph.create([NewEntity("Ana", BROKEN, (BROKEN,)), NewEntity("Bo\x1b[2J", "x")])
        memory.graph.relate([Relation("Ana", EVE, BROKEN, BROKEN)])
        told = memory.add_messages([{"role": "user", "content": BROKEN}], session="s" + BROKEN)
        with memory.engine.transaction() as tx:
            [message] = tx.load([told[0].id])
            steps = [
                Step("Edit" + BROKEN, path=STEP_PATH),
                Step("Bash", command="make " + BROKEN, program="make", exit=0),
                Step("Bash", None, "run x.py", "run", 1, STEP_ERROR, failure_of(STEP_ERROR)),
                Step("Bash", command="run x.py " + BROKEN, program="run", exit=0),
            ]
            tx.write(Entry(message, tx.passages(message.id), steps=steps))
        memory.store("otter gone", key="gone" + BROKEN)
        memory.delete("gone" + BROKEN)
    with Memory.open(project=BROKEN) as memory:
        memory.store("elsewhere", key="elsewhere" + HOSTILE)
    return folder


# Every verb, with stored names and with hostile words of its own.
COMMANDS: tuple[tuple[str, ...], ...] = (
    *((), ("--help",), ("help", HOSTILE), ("--version",), (BROKEN,), ("--" + BROKEN,)),
    *(("search", "otter"), ("search", "otter", "--explain"), ("search", "otter", "--window", "2")),
    *(("search", "zebra"), ("search", BROKEN), ("search", "x", "--entity", BROKEN + "x")),
    *(
        ("search", "x", "--limit", BROKEN),
        ("search", "x", "--mode", BROKEN),
        ("search", "x", BROKEN),
    ),
    *(("search", "x", "--since", BROKEN), ("search", "otter", "--max-tokens", "1")),
    *(("search", "otter", "--all-projects"), ("search", "x", "--path", BROKEN)),
    *(("recall", "otter"), ("recall", "otter", "--budget", "30"), ("recall", BROKEN)),
    *(("recall",), ("overview",), ("overview", "--all-projects"), ("overview", "--budget", BROKEN)),
    *(("get", BROKEN), ("get", BROKEN + "x"), ("get", "plain", "plain-0"), ("get", "otter")),
    *(("get", "elsewhere" + HOSTILE), ("get", BROKEN + "-0"), ("get", BROKEN, "--document")),
    *(("open", BROKEN), ("open", BROKEN + "x"), ("open", "--print", "otter")),
    *(("about", STEP_PATH), ("about", BROKEN + "x"), ("how", "make"), ("how", BROKEN)),
    *(("fixed", STEP_ERROR), ("fixed", BROKEN)),
    *(("timeline",), ("timeline", "--anchor", BROKEN), ("timeline", "--cursor", BROKEN)),
    *(("timeline", "--all-projects"), ("timeline", "--limit", "1")),
    *(("timeline", "--saved"), ("timeline", "--saved", BROKEN), ("delete", "--saved", BROKEN)),
    *(("hook", "--try", "otter"), ("hook", "--try", f"where is the {BROKEN} of otters?")),
    *(("hook", BROKEN), ("log",), ("log", "--injected"), ("mute",), ("mute", BROKEN + "x")),
    *(("mute", BROKEN), ("mute",), ("unmute", BROKEN), ("unmute", BROKEN + "x")),
    *(("entity", "list"), ("entity", "show", "Ana", EVE), ("entity", "show", BROKEN + "x")),
    *(("entity", "show", "Ana", "--depth", "2"), ("entity", "add", BROKEN + "new", BROKEN)),
    *(("entity", "observe", EVE, BROKEN + " news"), ("entity", "observe", EVE, BROKEN)),
    *(("entity", "observe", BROKEN + "no", "x"), ("entity", "relate", "Ana", BROKEN + "r", EVE)),
    *(("entity", "unrelate", "Ana", BROKEN, "nobody" + BROKEN), ("entity", BROKEN)),
    *(("entity", "add", "ana", "x"), ("entity", "add", EVE.upper(), "x")),
    *(("entity", "delete", EVE, "nobody" + BROKEN), ("entity", "list", "--cursor", BROKEN)),
    *(("store", BROKEN + "new"), ("store", BROKEN), ("store", "x", "--key", BROKEN + "k")),
    *(
        ("store", "x", "--entity", BROKEN + "e"),
        ("store", "--file", BROKEN),
        ("store", "x", "--type", BROKEN),
    ),
    *(("store", "x", "--supersedes", BROKEN), ("store", "x", "--trust", BROKEN)),
    *(("store", "x", "--metadata", BROKEN), ("store", "x", "--project", BROKEN, "--tags", BROKEN)),
    *(("store", BROKEN + " facts", "--topic", BROKEN), ("store", "x", "--importance", BROKEN)),
    *(("ingest", "notes"), ("ingest", BROKEN), ("ingest", "notes", "--pattern", BROKEN)),
    *(("delete", BROKEN + "x"), ("delete", BROKEN, "--dry-run"), ("delete", "--tag", BROKEN)),
    *(("delete", "--undo", "gone" + BROKEN), ("delete", "--undo", BROKEN), ("delete", BROKEN)),
    *(("delete", "--path", "notes"), ("delete", BROKEN, "--purge")),
    *(("mark", "plain", "--status", "done"), ("mark", BROKEN), ("mark", "plain", "--entity", EVE)),
    *(("mark", "plain", "--superseded-by", BROKEN), ("mark", BROKEN + "x", "--status", "done")),
    *(
        ("feedback", "plain", "good"),
        ("feedback", BROKEN + "x", "wrong"),
        ("feedback", "x", BROKEN),
    ),
    *(("review",), ("review", "--all-projects", "--list"), ("review", "--kind", BROKEN)),
    *(("log", "--verb", BROKEN), ("log", "--session", BROKEN), ("log", BROKEN)),
    *(("log", "--since", BROKEN), ("log", "--all-projects", "--limit", "500")),
    *(
        ("stats",),
        ("doctor",),
        ("doctor", "--fix"),
        ("reindex",),
        ("prune", "--keep-days", "note=1", "--yes"),
        ("maintain", BROKEN),
        ("maintain", "notes"),
        ("reindex", "--embedder", BROKEN),
    ),
    *(
        ("backup", "copy\x1b[2J\n.db"),
        ("backup", "no\x1b/where"),
        ("restore", "no\x1b[2J.db"),
        ("migrate", "--to", "moved\x1b[2J\n.db"),
        ("migrate", "--from", "no\x1b[2J.db", "--to", "x.db"),
        ("migrate", "--to", "postgresql://x\x1b[2J/?namespace=\x1b"),
        ("migrate", "--to", "no\x1b[2J.db", "--drop"),
        ("export",),
        ("export", "--graph"),
    ),
    *(("export", "all\x1b[2J\n.jsonl"), ("export", BROKEN), ("export", "--all-projects")),
    *(("import", BROKEN), ("import", "plait.toml"), ("import", "bad\x1b.jsonl")),
    *(("watch", BROKEN), ("mcp", "--tools", BROKEN), ("mcp", "--http", "--host", BROKEN)),
    *(("connect",), ("connect", BROKEN), ("connect", "codex", "--dry-run", "--project", BROKEN)),
    *(("connect", "--print", "agents"), ("disconnect", BROKEN), ("disconnect", "codex")),
    *(("chat",), ("chat", BROKEN, "--model", BROKEN), ("chat", "x", "--model", "ollama:" + BROKEN)),
    *(("digest", BROKEN, "--model", "custom:http://127.0.0.1:9/v1#m"), ("digest", BROKEN)),
    *(("eval", BROKEN), ("eval", "x", "--half", BROKEN)),
    *(("tools",), ("tools", "--format", "mcp"), ("tools", "--format", BROKEN)),
    ("tools", "--format", "openai", "--tools", BROKEN),
    *(("postgres", "distribute"), ("postgres", BROKEN), ("postgres", "distribute", BROKEN)),
    *(("postgres", "list"), ("postgres", "drop", BROKEN), ("postgres", "drop", "x", "--yes")),
    *(("team", "list"), ("team", BROKEN), ("team", "add", BROKEN), ("team", "role", "x", BROKEN)),
    *(("models",), ("models", "pull", BROKEN), ("models", "list", BROKEN), ("models", BROKEN)),
    *(
        ("config",),
        ("config", "show", "--origin"),
        ("config", "get", "patterns"),
        ("config", "path"),
    ),
    *(
        ("config", "get", BROKEN),
        ("config", "set", BROKEN, "x"),
        ("config", "set", "limit", BROKEN),
    ),
    *(("config", "set", "project", HOSTILE), ("config", "unset", BROKEN), ("config", "keys")),
    *(("config", "set-key", BROKEN), ("config", "set-key", "custom", "--url", BROKEN)),
    *(("config", "remove-key", "custom", "--url", "http://x/" + BROKEN), ("config", BROKEN)),
    *(
        ("completion", "bash"),
        ("completion", "zsh"),
        ("completion", "fish"),
        ("completion", BROKEN),
    ),
    *(("stats", "--db", "no\x1b/where.db"), ("stats", "--config", BROKEN), ("stats", BROKEN)),
    *(("stats", "--project", BROKEN), ("search", "otter", "--embedder", BROKEN)),
    *(("search", "otter", "--model", BROKEN), ("search", "otter", "--ollama-url", BROKEN)),
)


SHOW_TEXT = (("hook",), ("get",), ("recall",), ("search",))  # whole, with its lines


def test_every_verb_is_attacked():
    assert {words[0] for words in COMMANDS if words} >= set(VERBS)


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["text", "json"])
def test_no_command_prints_stored_or_typed_escapes_on_a_terminal(hostile, on_terminal, more):
    bad = json.dumps({"\x1b": BROKEN}) + "\n"
    (hostile.parent / "bad\x1b.jsonl").write_text(bad, encoding="utf-8")
    raw = {}
    for words in COMMANDS:
        code, out, err = on_terminal(*words, *more)
        assert "Traceback" not in err, (words, err)
        assert code in (0, 1, 2, 3), words
        for name, text in (("stdout", out), ("stderr", err)):
            if unsafe := set(UNSAFE.findall(OWN_CODES.sub("", text))):
                raw[words, name] = unsafe
        # A name with a line break is one row and one message.
        for line in (*out.splitlines(), *err.splitlines()):
            forged = line.startswith(("plait: all is well", "0.99  aaaaaaaa"))
            if forged and words[:1] not in SHOW_TEXT and words[:2] != ("config", "get"):
                raw[words, line] = {"\n"}
    assert raw == {}


@pytest.mark.parametrize("words", [("about", STEP_PATH), ("how", "make"), ("fixed", STEP_ERROR)])
def test_steps_are_among_what_is_attacked(hostile, on_terminal, words):
    code, out, _ = on_terminal(*words)
    assert (code, bool(out)) == (0, True)


def test_a_forged_row_is_no_row_of_its_own(hostile, on_terminal):
    _, out, _ = on_terminal("timeline", "--all-projects")
    assert all(re.match(r"\d{4}-\d\d-\d\d  [a-z2-7]{8}  ", line) for line in out.splitlines())
    _, out, _ = on_terminal("search", "otter", "--limit", "50")
    rows = [line for line in out.splitlines() if not line.startswith("      ")]
    assert all(re.match(r"[01]\.\d\d  [a-z2-7]{8}  ", row) for row in rows)
    assert not any(row.startswith("0.99  aaaaaaaa") for row in rows)


def test_json_on_a_terminal_is_exact_when_it_is_parsed(hostile, on_terminal):
    _, out, _ = on_terminal("get", BROKEN, "--json")
    [note] = json.loads(out)["results"]
    expected = BROKEN.replace("\r\n", "\n")
    assert (note["text"], note["doc_id"], note["title"]) == (expected, BROKEN, BROKEN)
    _, out, _ = on_terminal("export")
    texts = [json.loads(line).get("text") for line in out.splitlines()]
    assert expected in texts


def test_text_for_a_pipe_is_exact(hostile):
    ran = spawn("get", BROKEN, "--format", "text")
    assert BROKEN.replace("\r\n", "\n") in ran.out
    ran = spawn("recall", "otter", "--format", "text", "--budget", "5000")
    assert "\x1b]52;c;ZXZpbA==\x07" in ran.out
    # Messages are for people, wherever they go.
    ran = spawn("get", BROKEN + "x")
    assert not UNSAFE.search(ran.err) and ran.err.count("\n") == 1


def test_json_for_a_pipe_is_exact_and_harmless(hostile):
    ran = spawn("get", BROKEN)
    assert not UNSAFE.search(ran.out)
    assert ran.json["results"][0]["text"] == BROKEN.replace("\r\n", "\n")


def test_a_traceback_is_harmless_too(hostile, on_terminal, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(BROKEN)

    monkeypatch.setattr(Memory, "stats", fail)
    code, _, err = on_terminal("stats")
    assert code == 1
    assert "Traceback" in err
    assert not UNSAFE.search(err)


def test_watch_is_harmless_while_it_runs(hostile):
    import subprocess

    pytest.importorskip("watchfiles")
    terminal = Terminal()
    child = subprocess.Popen(
        [*PLAIT, "watch", "notes"],
        stdout=terminal.stream,
        stderr=terminal.stream,
        stdin=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        for _ in range(PATIENCE_S * 20):
            if b"watching" in terminal._seen or child.poll() is not None:
                break
            terminal._reader.join(0.05)
    finally:
        child.kill()
        child.wait()
    shown = terminal.text()
    assert "watching" in shown
    assert not UNSAFE.search(OWN_CODES.sub("", shown))
