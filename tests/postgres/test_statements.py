"""Every statement names its memory in every table: so it runs where the tables are spread."""

import inspect
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from plait.protocols import Store, Transaction, Trashed, Unembedded
from plait.stores.postgres.ahead import Ahead
from plait.stores.postgres.store import PostgresStore
from plait.stores.postgres.transaction import PostgresTransaction
from plait.text import parse
from plait.types import Filter, Space
from plait.types.audit import AuditQuery
from plait.types.relations import Relation
from plait.types.steps import Step, StepName
from tests.builders import EVERYTHING, NOW, SPACE, entry, vector
from tests.postgres.conftest import Opening
from tests.postgres.own_server import OwnServer
from tests.postgres.statements import Sent, everything_wrong, is_exception, recorded, wrongs

OTHER = Space("test", "others", 4)
NARROW = Filter(
    kinds=("note", "message"),
    tags=("a",),
    keys=("first",),
    metadata=(("colour", "red"),),
    mentions=("apple",),
    named=("fir",),
    projects=(None, "shop"),
    session="s1",
    since=1,
    until=NOW + 1,
    key_prefix="f",
    path_prefix="/",
)


def methods(protocol: type) -> set[str]:
    return {name for name, _ in inspect.getmembers(protocol) if not name.startswith("_")} - {
        "analyzer",
        "now",
        "path",
        "read_only",
    }


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[tuple[str, str]]]:
    """The methods that were called."""
    names: set[tuple[str, str]] = set()

    def noting(kind: type, name: str) -> None:
        whole: Any = inspect.getattr_static(kind, name)
        inner: Any = whole.fget if isinstance(whole, property) else whole

        def call(*arguments: Any, **options: Any) -> Any:
            names.add((kind.__name__, name))
            return inner(*arguments, **options)

        monkeypatch.setattr(kind, name, property(call) if isinstance(whole, property) else call)

    for name in methods(Store):
        noting(PostgresStore, name)
    for name in methods(Transaction):
        noting(PostgresTransaction, name)
    yield names


def write_all(store: Store) -> list[str]:
    """Call every method that changes something; return the ids of what is left."""
    with store.transaction() as t:
        _note(t, "first", "red apple pie", "green pear", tags=("a", "a/b"))
        _note(t, "second", "blue plum", metadata={"colour": "red"}, path="/x", kind="file")
        message = entry("said", "a message", id="said", kind="message", session="s1", turn=1)
        t.write(message._replace(steps=[Step("Bash", command="make test", exit=1)]))
        _note(t, "one", "entity one", kind="entity")
        _note(t, "two", "entity two", kind="entity")
        _note(t, "seen", "it is red", kind="observation", parent="one", topic="colour")
        assert t.state is not None
    with store.transaction() as t:
        _change(t)
        _relate(t)
        _observe(t)
        _use(t)
        t.begin(OTHER, sample=vector(1, 0, 0, 0))
    waiting = store.pending(OTHER, 100, building=True)
    with store.transaction() as t:
        t.fill(OTHER, [(row, vector(0, 1, 0, 0)) for row in waiting[1:]], building=True)
        t.fill(OTHER, [(Unembedded(*waiting[0]), None)], building=True)
        assert t.swap(OTHER)
        t.begin(SPACE)
        t.swap(Space("", "", 0))
    with store.transaction() as t:
        _delete(t)
    return ["first", "one", "two", "seen"]


def _note(t: Transaction, id_: str, *texts: str, **fields: Any) -> None:
    axes = [vector(1, 0, 0, number) for number, _ in enumerate(texts)]
    t.write(entry(id_, *texts, vectors=axes, id=id_, **fields), fingerprint=b"f")


def _change(t: Transaction) -> None:
    changed = entry("first", "red apple pie", "yellow plum", vectors=[None, None], id="first")
    assert t.known(changed.document) is not None
    t.write(changed, keep_use=True)
    t.amend("first", title="New title", tags=("b",))
    t.free_turn(None, "s1", 1)
    assert (t.next_turn(None, "s1", 1), t.last_event(None, "s1")) == (1, NOW)
    t.remember(changed_at=str(NOW), chunker="c", histories_x="1")
    t.remember(chunker=None)


def _relate(t: Transaction) -> None:
    edge = Relation("one", "two", "knows", None, NOW, None, None, "one", "two")
    t.put_edge(edge)
    t.put_edge(edge._replace(context="at work"))
    assert t.edges("one", "two", "knows")
    t.drop_edge(edge)
    t.put_edge(edge)


def _observe(t: Transaction) -> None:
    observed = entry("seen", "it is blue", id="other", kind="observation", parent="one")
    t.rivals(observed.document._replace(topic="colour"), b"f", NOW)
    assert t.members(["one"]) == ["seen"]
    t.current_observations("one", "trusted", NOW)
    assert t.openings(["first"])
    t.entities_changed(0, NOW)
    t.next_change(NOW)
    t.successors(["first"])


def _use(t: Transaction) -> None:
    refs = [passage.ref for passage in t.passages("first")]
    t.touch([refs])
    t.judge(refs, good=1)
    t.judge(refs[:1])
    t.cache({"h": vector(1.0)}, ["h"], 10)
    t.cache({str(number): vector(1.0) for number in range(30)}, [], 5)


def _delete(t: Transaction) -> None:
    gone = ["one", "second"]
    t.trash([Trashed("batch", NOW, row, t.passages(row.id)) for row in t.load(gone)])
    t.delete(gone)
    assert len(t.trashed()) == len(t.trashed(gone, related=True)) == 2
    t.trashed(["one"], related=False, texts=False)
    for trashed in t.trashed(["one"]):
        back = entry("one", "entity one", id=trashed.document.id, kind="entity")
        t.write(back._replace(use=trashed.use or {}))
    t.restore_edges()
    t.set_aside(["second"])
    t.forget(["second"])
    t.unrecord("nothing")
    t.expire(0)
    t.clear_cache()


def read_all(store: Store, ids: list[str]) -> None:
    """Call every method that reads."""
    store.state()
    for text in (
        "red apple",
        '"red apple"',
        "appl*",
        "red NOT blue",
        "NEAR(red pie)",
        "red AND pie",
    ):
        query = parse(text)
        for where in (EVERYTHING, NARROW):
            store.keyword(query, 5, where)
            store.keyword(query._replace(local=True), 5, where, deadline=float("inf"))
            store.keyword(query._replace(rarest=True), 5, where)
    with store.transaction() as t:
        t.write(entry("axes", "one", vectors=[vector(1, 0, 0, 0)], id="axes"))
    for latest in (False, True):
        store.vector(vector(1, 0, 0, 0), SPACE, 3, NARROW, also=[1], latest=latest)
    for chosen in (None, NARROW):
        store.vocabulary(["red", "apple"], chosen, prefixes=["apple"], seen_by=EVERYTHING)
        store.stats(chosen)
    store.usage(NARROW)
    store.alike(["aple", "redd"], NARROW)
    refs = [ref for ref, _ in store.keyword(parse("red"), 9, EVERYTHING)]
    store.turns(refs)
    store.replies(refs, NARROW)
    store.hydrate(refs, ranking=True, terms=None)
    _read_ahead(store, refs, ids)
    [document] = store.load(ids[:1])
    store.embedded(document, store.passages(document.id, 0, 3))
    store.known([document, document._replace(id=""), document._replace(id="", kind="file")])
    for name in (ids[0], "first", "first-1", "abcdefgh", "nothing"):
        store.find(name, EVERYTHING)
    store.scan(NARROW, limit=3, by_turn=True, whole=True)
    store.scan(NARROW, limit=3, by_writing=True, before=(NOW, "x"))
    store.scan(EVERYTHING, after=(0, "x"))
    store.steps(EVERYTHING, StepName(program="make"), 3)
    store.successors(ids)
    store.relations(None, EVERYTHING)
    store.relations(ids, NARROW)
    store.trashed()
    store.trashed(distrusted=3)
    store.cached(["h"])
    store.remembered("histories")
    store.audit(AuditQuery(documents=(ids[0],)), 5)
    store.pending(SPACE, 3, building=False, project="shop")
    store.sample_chance(SPACE, [vector(0, 0, 1, 0)])
    store.tidy(compact=True, purged=True)
    store.tidy()
    store.check()
    store.check(fix=True)


def _read_ahead(store: Store, refs: list[int], ids: list[str]) -> None:
    """Call all that a search reads in one trip."""
    assert isinstance(store, PostgresStore)
    ahead, axis = store.ahead, vector(1, 0, 0, 0)
    late, asked, denied = float("inf"), parse("red aplle"), parse("red NOT серверами")
    with ahead.shared():
        assert store.ahead is ahead
    ahead.expect_session(NARROW, NARROW._replace(session="claude:12345678"))
    ahead.session(NARROW, NARROW._replace(session="claude:12345678"))
    ahead.expect_survey(parse("a pie"), prefixes=[], seen_by=NARROW, doubtful=["pie"])
    ahead.scan(NARROW)
    for query, doubtful in ((asked, ["aplle"]), (denied, [])):
        ahead.survey(query, prefixes=["red"], seen_by=NARROW, doubtful=doubtful, where=NARROW)
    ahead.expect_company([parse('"red pie"'), parse("apple")], 3, NARROW, ["red", "pie"])
    ahead.foresee(["aplle"], NARROW, ["the"], NARROW)
    ahead.alike(["aplle"], NARROW)
    ahead.vocabulary(["the"], NARROW)
    ahead.company([parse("red AND pie"), parse("red NOT pie")], 3, NARROW, ["red"])
    for query, near in ((asked, axis), (asked, None), (denied, axis)):
        ahead.branches(query, near, SPACE, (3, 3, 3), NARROW, deadline=late)
    ahead.gather(refs, refs, NARROW, near=refs, window=1, replies=True, steps=True)
    ahead.conversation(refs)
    ahead.spans([(id_, 0, 1) for id_ in ids])
    for name in ("first-1", "abcdefgh"):
        ahead.expect_named(name, NARROW, NARROW._replace(named=(name,)))
        ahead.expect_spans([(name, 0, 0)])
        ahead.named(name, NARROW, None)
    ahead.steps(ids)
    ahead.expect_pinned(NARROW, 3)
    ahead.beside([(id_, 0, 2) for id_ in ids], ids, ids, NARROW, ids, (4, 20))
    ahead.followed(ids, NARROW)
    assert methods(Ahead) - {"with_words", "following", "pinned", "earlier"} == {
        *("shared", "survey", "foresee", "alike", "vocabulary", "company", "expect_company"),
        *(
            "branches",
            "gather",
            "conversation",
            "spans",
            "steps",
            "beside",
            "expect_pinned",
            "rows",
        ),
        *("expect_spans", "expect_named", "named", "followed"),
        *("scan", "expect_session", "session", "expect_survey"),
    }


@pytest.fixture(scope="module")
def tables(server: OwnServer) -> Iterator[str]:
    """The address of a database with tables."""
    server.execute("CREATE DATABASE statements")
    dsn = f"postgresql://postgres@/statements?host={server.folder}"
    PostgresStore(dsn).close()
    yield dsn
    server.execute("DROP DATABASE statements WITH (FORCE)")


def test_every_statement_names_its_memory_in_every_table(
    tables: str, opening: Opening, monkeypatch: pytest.MonkeyPatch, called: set[tuple[str, str]]
) -> None:
    sent: dict[str, Sent] = {}
    with recorded(monkeypatch, sent):
        store = opening(tables)
        read_all(store, write_all(store))
        store.close()
    wanted = {("PostgresStore", name) for name in methods(Store)}
    wanted |= {("PostgresTransaction", name) for name in methods(Transaction)}
    assert wanted - called == set(), "not looked at"
    assert everything_wrong(sent, tables) == {}
    assert sum(not is_exception(sql) for sql in sent) > 150


@pytest.mark.parametrize(
    ("sql", "wrong"),
    [
        ("SELECT 1 FROM plait.documents WHERE id = 'x' OR ns = %(ns)s", "without its memory"),
        ("SELECT count(*) FROM plait.documents", "without its memory"),
        (
            "SELECT 1 FROM plait.passages AS p JOIN plait.documents AS d ON d.place = p.document "
            "WHERE p.ns = %(ns)s",
            "documents is read without",
        ),
        (
            "SELECT 1 FROM plait.tags AS t WHERE t.ns = %(ns)s AND t.document IN "
            "(SELECT d.place FROM plait.documents AS d WHERE d.kind = 'note')",
            "documents is read without",
        ),
        ("DELETE FROM plait.facts WHERE name = 'x' AND %(ns)s > 0", "without its memory"),
        ("UPDATE plait.facts SET value = now()::text WHERE ns = %(ns)s", "now() in UPDATE"),
        ("INSERT INTO plait.facts (name, ns, value) VALUES ('x', %(ns)s, '')", "a row without"),
        (
            "INSERT INTO plait.facts (ns, name, value) SELECT f.ns, f.name, f.value "
            "FROM plait.facts AS f WHERE f.ns = %(ns)s ON CONFLICT DO NOTHING",
            "a row without",
        ),
        (
            "INSERT INTO plait.facts (ns, name, value) VALUES (%(ns)s, 'x', "
            "(SELECT 'y' FROM plait.facts WHERE ns = %(ns)s))",
            "a query inside of VALUES",
        ),
        (
            "WITH gone AS (DELETE FROM plait.facts WHERE ns = %(ns)s RETURNING name) "
            "SELECT name FROM gone",
            "a change inside of WITH",
        ),
        (
            "SELECT 1 FROM plait.facts AS f JOIN plait.tags AS t ON t.ns = f.ns "
            "WHERE f.ns = %(ns)s FOR UPDATE",
            "FOR UPDATE over several",
        ),
        ("SET statement_timeout = 5", "a setting that lasts"),
        ("SELECT set_config('a.b', '1', false)", "a setting that lasts"),
        ("SELECT nextval('numbers')", "a sequence"),
        ("SELECT now()", "neither a memory's table"),
    ],
)
def test_a_statement_that_would_not_run_there_is_noticed(tables: str, sql: str, wrong: str) -> None:
    with psycopg.connect(tables) as connection:
        listed = wrongs(Sent(sql, {"ns": 1}), connection)
    assert any(wrong in message for message in listed)


def test_the_tables_have_nothing_that_cannot_be_spread(server: OwnServer, tables: str) -> None:
    def listed(sql: str) -> list[tuple[object, ...]]:
        return server.execute(sql, "statements")

    own = "relnamespace = 'plait'::regnamespace"
    assert listed(f"SELECT relname FROM pg_class WHERE {own} AND relkind NOT IN ('r', 'i')") == []
    assert (
        listed(f"SELECT tgname FROM pg_trigger JOIN pg_class AS c ON c.oid = tgrelid WHERE {own}")
        == []
    )
    assert (
        listed(
            "SELECT conname FROM pg_constraint WHERE connamespace = 'plait'::regnamespace "
            "AND contype NOT IN ('p', 'n', 'c')"
        )
        == []
    )
    without = listed(
        "SELECT x.indexrelid::regclass FROM pg_index AS x JOIN pg_class AS c ON c.oid = x.indrelid "
        f"JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum = x.indkey[0] "
        f"WHERE {own} AND a.attname <> 'ns'"
    )
    assert without == []
    unkeyed = listed(
        f"SELECT relname FROM pg_class AS c WHERE {own} AND relkind = 'r' AND NOT EXISTS "
        "(SELECT 1 FROM pg_index WHERE indrelid = c.oid AND indisprimary)"
    )
    assert unkeyed == [("schema_version",)]
