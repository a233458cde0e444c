"""A small memory with something in every table, ways to damage its file, and what must hold."""

import io
import json
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import apsw

from plait.cli import main
from plait.memory import Memory
from plait.testing import HashingEmbedder
from plait.types import TRUSTS, Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.reliability.memories import connection_of, prose, settings, store_of

PAGE = 4_096
KEY = "KEYMARK3"
NOTES = 40
DELETED = range(30, 34)
ANY_TRUST = {"trusts": TRUSTS}


def build(path: Path) -> bytes:
    """Write a memory with notes, messages, facts, edges, trash and use; return its bytes."""
    config = settings(path)._replace(project="harbour")
    with Memory.open(embedder=HashingEmbedder(), config=config) as memory:
        for number in range(NOTES):
            memory.store(
                prose(f"zanzibar{number}"),
                key=f"KEYMARK{number}",
                title=f"Note {number}",
                summary=f"What note {number} is about",
                tags=[f"tag{number % 7}"],
                metadata={"number": str(number)},
                trust="untrusted" if number % 9 == 0 else "trusted",
            )
        memory.store_many(
            Document(
                kind="message",
                text=f"Turn {turn} of a talk",
                session="talk",
                role="user",
                turn=turn,
            )
            for turn in range(1, 6)
        )
        memory.graph.create([NewEntity("Ana", "person", ("likes tea", "sails")), NewEntity("Bo")])
        memory.graph.relate([Relation("Ana", "Bo", "knows", "from school")])
        memory.store("We deploy on Mondays.", topic="deploys")
        memory.store("We deploy on Fridays.", topic="deploys")
        for number in DELETED:
            memory.delete(f"KEYMARK{number}")
        hits = memory.search("zanzibar1 zanzibar2", limit=4)
        memory.used([hit.passage.ref for hit in hits])
        memory.write_down_use()
        connection_of(memory).execute(
            "INSERT INTO embedding_cache VALUES ('name', x'0000803f0000803f', 1, 1)"
        )
        with store_of(memory).transaction() as transaction:
            transaction.remember(**{"history:number": "7"})
        connection_of(memory).execute(
            "INSERT INTO steps SELECT min(d.rowid), n.value, 'Bash', 'src/', 'a.py', 'make', "
            "'make', 0, 'no', 7 FROM documents AS d, json_each('[0, 1]') AS n "
            "WHERE d.kind = 'message' GROUP BY n.value"
        )
        store_of(memory).tidy(compact=True)
    return path.read_bytes()


# -- damaged bytes ---------------------------------------------------------------------------


class Roots(NamedTuple):
    """Root pages of the tables and indexes of a file, by the kind of their tree."""

    tables: list[int]
    indexes: list[int]


def roots_of(data: bytes) -> Roots:
    """Where the trees of a sound memory begin."""
    connection = apsw.Connection(":memory:")
    # subtle: a database in memory has no journal, which these two bytes of the header promise.
    connection.deserialize("main", data[:18] + b"\1\1" + data[20:])
    listed = [
        int(root)
        for (root,) in connection.execute("SELECT rootpage FROM sqlite_schema WHERE rootpage > 1")
    ]
    connection.close()
    tables = [root for root in listed if data[(root - 1) * PAGE] in (5, 13)]
    return Roots(tables, [root for root in listed if root not in tables])


Damage = Callable[[bytearray, random.Random, Roots], None]


def _flip_bytes(data: bytearray, dice: random.Random, roots: Roots) -> None:
    for _ in range(dice.choice((1, 3, 10, 100))):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _garble(data: bytearray, dice: random.Random, roots: Roots) -> None:
    start = dice.randrange(len(data))
    for place in range(start, min(len(data), start + dice.choice((4, 40, 400)))):
        data[place] = dice.randrange(256)


def _zero_page(data: bytearray, dice: random.Random, roots: Roots) -> None:
    start = dice.randrange(len(data) // PAGE) * PAGE
    data[start : start + PAGE] = bytes(PAGE)


def _swap(data: bytearray, first: int, second: int) -> None:
    one, two = slice((first - 1) * PAGE, first * PAGE), slice((second - 1) * PAGE, second * PAGE)
    data[one], data[two] = data[two], data[one]


def _swap_pages(data: bytearray, dice: random.Random, roots: Roots) -> None:
    pages = range(2, len(data) // PAGE + 1)
    _swap(data, dice.choice(pages), dice.choice(pages))


def _swap_index_roots(data: bytearray, dice: random.Random, roots: Roots) -> None:
    _swap(data, *dice.sample(roots.indexes, 2))


def _swap_table_roots(data: bytearray, dice: random.Random, roots: Roots) -> None:
    _swap(data, *dice.sample(roots.tables, 2))


def _repeat_page(data: bytearray, dice: random.Random, roots: Roots) -> None:
    """A page that was written to the wrong place."""
    pages = range(1, len(data) // PAGE)
    source, target = dice.choice(pages) * PAGE, dice.choice(pages) * PAGE
    data[target : target + PAGE] = data[source : source + PAGE]


def _truncate(data: bytearray, dice: random.Random, roots: Roots) -> None:
    size = dice.choice((dice.randrange(len(data)), dice.randrange(len(data) // PAGE) * PAGE))
    del data[max(1, size) :]


def _header(data: bytearray, dice: random.Random, roots: Roots) -> None:
    data[dice.randrange(100)] = dice.choice((0, 1, 255, dice.randrange(256)))


def _page_head(data: bytearray, dice: random.Random, roots: Roots) -> None:
    """The first bytes of a page say what it is and where its cells are."""
    start = dice.randrange(len(data) // PAGE) * PAGE
    data[start + dice.randrange(12 if start else 112)] = dice.randrange(256)


def _schema(data: bytearray, dice: random.Random, roots: Roots) -> None:
    data[dice.randrange(100, PAGE)] ^= 1 << dice.randrange(8)


DAMAGES: tuple[Damage, ...] = (
    _flip_bytes,
    _garble,
    _zero_page,
    _swap_pages,
    _swap_index_roots,
    _swap_table_roots,
    _repeat_page,
    _truncate,
    _header,
    _page_head,
    _schema,
)


def damaged_copy(data: bytes, seed: int, roots: Roots) -> tuple[str, bytes]:
    """Return a damaged copy of a file, and what was done to it."""
    dice = random.Random(seed)
    damage = DAMAGES[seed % len(DAMAGES)]
    copy = bytearray(data)
    damage(copy, dice, roots)
    return damage.__name__.strip("_"), bytes(copy)


# -- damaged rows ----------------------------------------------------------------------------

BAD_UTF8 = "CAST(x'6162ff6364' AS TEXT)"
_NOTE = f"WHERE key = '{KEY}'"
_PASSAGE = f"WHERE document = (SELECT rowid FROM documents {_NOTE})"
_READ = "WHERE passage = (SELECT min(passage) FROM signals)"
_TRASHED = "WHERE id = (SELECT min(id) FROM trash)"
ROW_DAMAGES: dict[str, str] = {
    "a summary that is not UTF-8": f"UPDATE documents SET summary = {BAD_UTF8} {_NOTE}",
    "a title that is not UTF-8": f"UPDATE documents SET title = {BAD_UTF8} {_NOTE}",
    "a key that is not UTF-8": f"UPDATE documents SET key = {BAD_UTF8} {_NOTE}",
    "a project that is not UTF-8": f"UPDATE documents SET project = {BAD_UTF8} {_NOTE}",
    "metadata that is not UTF-8": f"UPDATE documents SET metadata = {BAD_UTF8} {_NOTE}",
    "metadata that is not JSON": f"UPDATE documents SET metadata = '{{\"a\":' {_NOTE}",
    "metadata that is a list": f"UPDATE documents SET metadata = '[1]' {_NOTE}",
    "tags that are not JSON": f"UPDATE documents SET tags = '[\"a' {_NOTE}",
    "tags that are numbers": f"UPDATE documents SET tags = '[1, null]' {_NOTE}",
    "tags that are a blob": f"UPDATE documents SET tags = x'5b5d' {_NOTE}",
    "an unknown kind": f"UPDATE documents SET kind = 'strange' {_NOTE}",
    "an unknown trust": f"UPDATE documents SET trust = 'strange' {_NOTE}",
    "no trust": f"UPDATE documents SET trust = x'' {_NOTE}",
    "an unknown origin": f"UPDATE documents SET origin = 'strange' {_NOTE}",
    "a time that is text": f"UPDATE documents SET event_at = 'noon' {_NOTE}",
    "a time that is a blob": f"UPDATE documents SET created_at = x'00' {_NOTE}",
    "a huge time": f"UPDATE documents SET event_at = 9223372036854775807 {_NOTE}",
    "a negative time": f"UPDATE documents SET valid_from = -9223372036854775808 {_NOTE}",
    "an importance that is text": f"UPDATE documents SET importance = 'very' {_NOTE}",
    "a title that is a blob": f"UPDATE documents SET title = x'00ff' {_NOTE}",
    "an id that is a blob": f"UPDATE documents SET id = x'00ff' {_NOTE}",
    "a preface that is a blob": f"UPDATE documents SET preface = x'ff' {_NOTE}",
    "a turn that is text": "UPDATE documents SET turn = 'first' WHERE turn = 1",
    "a text that is not UTF-8": f"UPDATE passages SET text = {BAD_UTF8} {_PASSAGE}",
    "a text that is a blob": f"UPDATE passages SET text = x'00ff' {_PASSAGE}",
    "a heading that is not UTF-8": f"UPDATE passages SET heading = {BAD_UTF8} {_PASSAGE}",
    "a negative ordinal": f"UPDATE passages SET ordinal = -ordinal - 1 {_PASSAGE}",
    "a start that is text": f"UPDATE passages SET start = 'here' {_PASSAGE}",
    "a start beyond everything": f"UPDATE passages SET start = 9223372036854775807 {_PASSAGE}",
    "a changed text": f"UPDATE passages SET text = replace(text, 'a', 'o') {_PASSAGE}",
    "a passage of nobody": f"UPDATE passages SET document = 9999 {_PASSAGE}",
    "a block of vectors that is too short": "UPDATE vector_blocks SET data = x'0102'",
    "a block of vectors that is text": "UPDATE vector_blocks SET data = 'text'",
    "vectors without a size": "UPDATE generations SET dims = 'many'",
    "vectors of no size": "UPDATE generations SET dims = 0",
    "vectors of an unreadable space": "UPDATE generations SET space = '[1'",
    "a sample that is no vector": "UPDATE generations SET canary = x'010203'",
    "trash that is not JSON": f"UPDATE trash SET document = '{{' {_TRASHED}",
    "trash that is another JSON": f"UPDATE trash SET document = '[]' {_TRASHED}",
    "trash of half a document": (
        f"""UPDATE trash SET document = '{{"document": {{"id": 7}}}}' {_TRASHED}"""
    ),
    "trash that is not UTF-8": f"UPDATE trash SET document = {BAD_UTF8} {_TRASHED}",
    "a delete without a time": f"UPDATE trash SET deleted_at = 'noon' {_TRASHED}",
    "a number in meta that is none": "UPDATE meta SET value = 'x' WHERE name = 'latest_turn'",
    "an unreadable value in meta": f"UPDATE meta SET value = {BAD_UTF8} WHERE name = 'chunker'",
    "a count of passages that is none": "UPDATE meta SET value = 'x' WHERE name = 'passages'",
    "an unreadable count of passages": (
        f"UPDATE meta SET value = {BAD_UTF8} WHERE name = 'passages'"
    ),
    "a cached vector that is none": "UPDATE embedding_cache SET embedding = x'01'",
    "a mark that is not UTF-8": f"UPDATE histories SET value = {BAD_UTF8}",
    "a step that is not UTF-8": f"UPDATE steps SET command = {BAD_UTF8} WHERE place = 0",
    "a step that is a blob": "UPDATE steps SET file = x'00ff', exit = 'two' WHERE place = 0",
    "a step of nobody": "UPDATE steps SET document = 9999 WHERE place = 0",
    "use that is text": f"UPDATE signals SET reads = 'often' {_READ}",
    "feedback that is text": f"UPDATE signals SET good = 'very' {_READ}",
    "an audit entry without a time": "UPDATE audit SET at = 'never' WHERE rowid = 1",
    "an audit entry that is not UTF-8": f"UPDATE audit SET session = {BAD_UTF8} WHERE rowid = 1",
    "a status that is none": "UPDATE documents SET status = 'gone' WHERE rowid = 1",
    "pairs that are text": "UPDATE signal_pairs SET times = 'often'",
    "a relation that is a blob": "UPDATE relations SET type = x'ff', created_at = 'noon'",
    "a relation that is not UTF-8": f"UPDATE relations SET context = {BAD_UTF8}",
    "an unknown reason": "INSERT INTO unembedded VALUES (1, 1, 'strange')",
}


def damage_row(path: Path, sql: str) -> None:
    """Change a row as no plait would: no rule of the schema holds."""
    connection = apsw.Connection(str(path))
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.execute("PRAGMA ignore_check_constraints = ON").fetchall()
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    connection.execute(sql).fetchall()
    assert connection.changes() > 0, sql
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


# -- what must hold --------------------------------------------------------------------------


class Done(NamedTuple):
    """What one command did."""

    code: int
    out: str
    err: str


READS: tuple[tuple[str, ...], ...] = (
    ("search", "zanzibar3 copper"),
    ("search", "copper", "--mode", "vector"),
    ("search", "copper", "--tag", "tag3"),
    ("recall", "copper garden"),
    ("overview",),
    ("get", KEY),
    ("timeline",),
    ("how", "make"),
    ("export",),
    ("stats",),
    ("entity", "list"),
)
CHECK, REPAIR = ("doctor",), ("doctor", "--fix")
WRITES: tuple[tuple[str, ...], ...] = (
    ("store", "A new fact about copper"),
    ("store", "A new text", "--doc-id", KEY),
    ("delete", "KEYMARK5"),
    ("delete", "--undo"),
)


def command(path: Path, *words: str) -> Done:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(["--db", str(path), "--project", "harbour", *words])
    return Done(code, out.getvalue(), err.getvalue())


def bad_manners(done: Done) -> list[str]:
    """What is wrong with how a command ended: anything but an answer or a sentence."""
    problems = []
    if done.code not in (0, 1, 2, 3):
        problems.append(f"exit code {done.code}")
    if "Traceback" in done.err or "this is a bug" in done.err:
        problems.append(done.err[-1500:])
    if any(not line.startswith("plait: ") for line in done.err.splitlines()):
        problems.append(f"more than a sentence: {done.err[-600:]!r}")
    if done.code == 1 and not done.err and '"ok": false' not in done.out and not done.out:
        problems.append("failed without a word")
    return problems


def trouble_with(path: Path, commands: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Everything that is wrong with how commands meet a damaged file, which they may change."""
    for words in commands:
        done = command(path, *words)
        yield from (f"{' '.join(words)}: {problem}" for problem in bad_manners(done))
        if words == REPAIR and "doctor --fix" in done.out + done.err:
            yield f"a repair that advises itself: {(done.out + done.err)[-600:]}"


Content = dict[str, tuple[object, ...]]


def content_of(path: Path) -> Content | str:
    """Return what doctor vouches for: every document by id, name and word; or a failure."""
    exported = command(path, "export", "--all-projects")
    if exported.code:
        return exported.err
    fields = ("key", "kind", "text", "project", "trust", "topic", "parent", "valid_to", "session")
    records = [json.loads(line) for line in exported.out.splitlines()[1:]]
    content = {row["id"]: tuple(map(row.get, fields)) for row in records if "id" in row}
    config = settings(path)._replace(project="harbour")
    with Memory.open(embedder=HashingEmbedder(), config=config) as memory:
        for id_, (key, kind, text, *_) in content.items():
            if kind is None and isinstance(text, str) and text.strip():
                hits = memory.search(text.partition(" ")[0], mode="keyword", where=ANY_TRUST)
                by_word = id_ in {hit.document.id for hit in hits}
                named, _ = memory.lookup_many([str(key)])
                content[id_] += (by_word, id_ in {document.id for document, _ in named})
    return content
