"""Every command on a memory in PostgreSQL: it works, or one sentence says what to do instead.

The address has a password throughout, which nothing may print.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from plait.cli import main
from plait.cli.verbs import VERBS
from plait.memory import Memory
from plait.types.ids import new_id
from tests import servers
from tests.interfaces.command import Ran
from tests.postgres.statements import Sent, everything_wrong, recorded

PASSWORD = "geheim-otter-lagoon"
Run = Callable[..., Ran]

# About the whole database, not one memory.
_OF_THE_DATABASE = ("SELECT name, passages FROM plait.namespaces", "SELECT 1 FROM pg_roles")
# Words, exit code, and what the answer or the message has.
COMMANDS: tuple[tuple[tuple[str, ...], int, str], ...] = (
    (("store", "Deploys are on Fridays", "--key", "deploys"), 0, '"doc_id": "deploys"'),
    (("store", "Ana likes tea", "--entity", "Ana"), 0, '"entity"'),
    (("ingest", "notes"), 0, '"files": 1'),
    (("search", "otter"), 0, "otter sleeps"),
    (("search", "where does the animal rest", "--explain"), 0, "otter sleeps"),
    (("recall", "otter"), 0, "otter sleeps"),
    (("overview",), 0, "plait-recall"),
    (("get", "otter"), 0, "otter sleeps"),
    (("open", "--print", "otter"), 2, "otter"),
    (("timeline",), 0, "otter sleeps"),
    (("timeline", "--saved"), 3, ""),
    (("about", "src/cart.py"), 3, ""),
    (("how", "make"), 3, ""),
    (("fixed", "KeyError"), 3, ""),
    (("entity", "list"), 0, "Bo"),
    (("entity", "add", "Cy", "likes rain"), 0, "likes rain"),
    (("entity", "relate", "Bo", "knows", "Cy"), 0, "knows"),
    (("delete", "otter", "--dry-run"), 0, '"dry_run": true'),
    (("delete", "spare"), 0, "spare"),
    (("delete", "--undo", "deleted"), 0, "deleted"),
    (("delete", "secret", "--purge"), 0, '"purged": true'),
    (("mark", "todo", "--status", "done"), 0, "marked"),
    (("feedback", "otter-0", "good"), 0, "good"),
    (("review", "--list"), 3, "nothing to settle"),
    (("prune", "--keep-days", "note=1", "--yes"), 3, "nothing goes by keep_days"),
    (("maintain",), 0, '"vectors": 0'),
    (("maintain", "--dry-run"), 0, '"dry_run": true'),
    (("reindex",), 0, '"status": "ok"'),
    (("reindex", "--compact", "--embeddings"), 0, '"status": "ok"'),
    (("stats",), 0, '"path": "postgresql://'),
    (("doctor",), 0, '"ok": true'),
    (("doctor", "--fix"), 0, '"ok": true'),
    (("doctor", "--salvage", "new.db"), 2, "plait cannot salvage"),
    (("backup", "copy.db"), 2, "pg_dump"),
    (("migrate", "--to", "moved.db"), 0, "moved.db"),
    (("postgres", "distribute"), 1, "itus"),
    (("restore", "copy.db"), 2, "pg_restore"),
    (("restore",), 2, "pg_restore"),
    (("restore", "--undo"), 2, "pg_restore"),
    (("export",), 0, "otter sleeps"),
    (("export", "all.jsonl"), 0, "all.jsonl"),
    (("export", "--format", "markdown", "snapshot"), 0, "snapshot"),
    (("import", "other.jsonl"), 0, '"added": 1'),
    (("import", "auto", "--dry-run"), 3, "sessions"),
    (("watch", "nowhere"), 1, "nowhere"),
    (("mcp", "--tools", "magic"), 2, "magic"),
    (("chat",), 2, "terminal"),
    (("digest", "s1"), 2, "model"),
    (("tools", "--format", "mcp"), 0, "memory_search"),
    (("connect", "codex", "--dry-run"), 2, "plait config set db_path"),
    (("disconnect", "codex"), 3, "not connected"),
    (("hook", "--try", "where does the otter sleep?"), 0, "otter sleeps"),
    (("log",), 0, "store"),
    (("mute", "todo"), 0, "muted"),
    (("unmute", "otter-0"), 3, ""),
    (("eval", "--make", "1"), 2, "No document here has a title"),
    (("eval", "nowhere"), 2, "nowhere"),
    (("models",), 0, "builtin"),
    (("postgres", "distribute"), 1, "no extension named citus"),
    (("postgres", "list"), 0, "passages"),
    (("postgres", "drop"), 2, "Add --yes"),
    (("team", "list"), 0, "no members"),
    (("team", "add", "nobody_here"), 3, "CREATE ROLE nobody_here LOGIN"),
    (("team", "role", "nobody_here", "reader"), 3, "not a member"),
    (("team", "remove", "nobody_here"), 3, "not a member"),
    (("team", "remove"), 2, "takes one name"),
    (("store", "x", "--visibility", "private"), 2, "has no members"),
    (("config",), 0, '"backend": "postgres"'),
    (("config", "show", "--origin"), 0, "environment PLAIT_DB"),
    (("config", "get", "db_path"), 0, "postgresql://"),
    (("completion", "bash"), 0, "plait"),
)


def with_password(address: str) -> str:
    """The same address with a password; the server of the tests asks for none."""
    place = urlsplit(address)
    user, at, host = place.netloc.rpartition("@")
    login = f"{user.partition(':')[0]}:{PASSWORD}{at}" if at else ""
    secret = "" if at else f"&password={PASSWORD}"
    return f"postgresql://{login}{host}{place.path}?{place.query}{secret}"


@pytest.fixture(scope="module")
def address() -> str:
    made = with_password(servers.address(new_id()))
    with Memory.open(made, project="") as memory:
        memory.store("The otter sleeps at noon", key="otter")
        for key in ("spare", "deleted", "secret", "todo"):
            memory.store(f"Nobody needs the {key} one", key=key)
        memory.delete("deleted")
        memory.store("Bo drinks coffee", entity="Bo")
    return made


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.md").write_text("# Keys\n\nRotate the keys in spring.\n", "utf-8")
    (tmp_path / "other.jsonl").write_text(
        json.dumps({"key": new_id(), "text": new_id()}) + "\n", "utf-8"
    )
    yield lambda *words: _ran(words, capsys)
    # Nor does it lie about in a file, such as the record of hooks.
    for path in (*tmp_path.rglob("*"), *Path(os.environ["HOME"]).rglob("*")):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path


def _ran(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> Ran:
    capsys.readouterr()
    code = main(words)
    ran = Ran(code, *capsys.readouterr())
    assert PASSWORD not in ran.out + ran.err
    assert "Traceback" not in ran.err
    return ran


def test_every_verb_is_tried() -> None:
    assert {words[0] for words, _, _ in COMMANDS} == set(VERBS)


@pytest.mark.parametrize(("words", "code", "fragment"), COMMANDS, ids=lambda part: str(part)[:50])
def test_a_verb_works_or_says_what_to_do(
    address: str,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    fragment: str,
) -> None:
    monkeypatch.setenv("PLAIT_DB", address)
    sent: dict[str, Sent] = {}
    with recorded(monkeypatch, sent):
        ran = run(*words)
    assert (ran.code, fragment in ran.out + ran.err) == (code, True), ran
    # No command takes an address for a path.
    assert not [*Path().rglob("*postgres*")]
    own = {sql: row for sql, row in sent.items() if not sql.startswith(_OF_THE_DATABASE)}
    assert everything_wrong(own, servers.need()) == {}


@pytest.mark.parametrize(
    ("host", "most"), [("127.0.0.1:9", 20), ("nowhere.invalid", 20)], ids=["refused", "unknown"]
)
@pytest.mark.parametrize("verb", ["search otter", "store otter", "doctor", "stats", "reindex"])
def test_a_server_that_cannot_be_reached_is_one_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, host: str, most: int, verb: str
) -> None:
    monkeypatch.setenv("PLAIT_SQLITE_OPEN_TIMEOUT_SECS", "0.2")
    ran = run("--db", f"postgresql://ana:{PASSWORD}@{host}/team", *verb.split())
    assert ran.code == 1
    assert f"postgresql://ana@{host}/team" in ran.err


@pytest.mark.parametrize("verb", ["migrate --to", "migrate --from", "postgres distribute"])
def test_a_second_address_is_told_without_its_password(
    run: Run, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("PLAIT_SQLITE_OPEN_TIMEOUT_SECS", "0.2")
    with Memory.open(embedder="none", project="") as memory:
        memory.store("x")
    words = [*verb.split(), f"postgresql://ana:{PASSWORD}@127.0.0.1:9/team"]
    ran = run(*words, *(("--to", "moved.db") if "--from" in words else ()))
    assert ran.code == 1
    assert "postgresql://ana@127.0.0.1:9/team" in ran.err


@pytest.mark.parametrize(
    "words",
    [
        ("search", "x", "--db", f"postgresql://ana:a/{PASSWORD}@db/team"),
        ("search", "x", "--db", f"mysql://ana:{PASSWORD}@db/team"),
        (f"postgresql://ana:{PASSWORD}@db/team", "search", "x"),
        ("search", "x", "--limit", f"postgresql://ana:{PASSWORD}@db/team"),
        ("backup", f"postgresql://ana:{PASSWORD}@db/team"),
        ("restore", f"postgresql://ana:{PASSWORD}@db/team"),
        ("import", f"postgresql://ana:{PASSWORD}@db/team"),
        ("doctor", "--salvage", f"postgresql://ana:{PASSWORD}@db/team"),
        ("connect", "codex", "--dry-run", "--db", f"postgresql://ana:{PASSWORD}@db/team"),
        ("config", "set", "limit", f"postgresql://db/team?password={PASSWORD}"),
    ],
    ids=lambda words: " ".join(words)[:50],
)
def test_a_refusal_repeats_no_password(run: Run, words: tuple[str, ...]) -> None:
    with Memory.open(embedder="none", project="") as memory:
        memory.store("x")
    ran = run(*words)
    assert ran.code == 2
    assert ran.err.count("\n") == 1


def test_a_suggested_command_opens_the_same_memory(run: Run, address: str) -> None:
    ran = run("--db", address, "backup", "copy.db")
    [suggested] = re.findall(r"plait migrate --from '([^']+)' --to FILE", ran.err)
    with Memory.open(address, project="") as memory, Memory.open(suggested, project="") as other:
        assert other.path == memory.path == suggested
        assert other.stats().doc_count == memory.stats().doc_count > 0


def test_clients_are_given_the_address_but_no_password(run: Run, address: str) -> None:
    plain = "postgresql://ana@db/team?namespace=shop"
    ran = run("connect", "codex", "--dry-run", "--db", plain)
    assert ran.json["command"][1:] == ["--db", plain, "mcp"]
    # One in plait's own settings is not repeated in theirs.
    assert run("config", "set", "db_path", "postgresql://ana@db/team").code == 0
    assert "postgresql" not in str(run("connect", "codex", "--dry-run").json["command"])


def test_a_memory_that_is_not_there_is_told_and_not_made(run: Run) -> None:
    missing = servers.address(new_id())
    ran = run("--db", missing, "search", "otter")
    assert (ran.code, "there is no memory at" in ran.err) == (3, True)
    assert run("--db", missing, "doctor").code == 3
    assert run("--db", missing, "--read-only", "store", "otter").code != 0
    with Memory.open(missing, create=False, project="") as memory:
        assert not memory.is_there
        assert len(memory.search("otter")) == 0
        assert memory.stats().doc_count == 0


def test_a_memory_that_is_not_there_to_be_moved_is_told_with_those_that_are(run: Run) -> None:
    missing = servers.address(new_id())
    ran = run("migrate", "--from", missing, "--to", "new.db")
    assert ran.code != 0
    assert "ingest" not in ran.err
    assert "To see which there are: plait postgres list " in ran.err
