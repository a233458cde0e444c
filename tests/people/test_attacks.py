"""A member with a login of his own and any SQL: what he tries, and that it fails."""

from threading import Thread
from typing import Any

import psycopg
import pytest
from psycopg import errors

from plait.errors import StoreError, UsageError
from plait.exporting.migrating import drop
from plait.stores.postgres.fences import put_up
from plait.stores.postgres.labels import label_of
from plait.stores.postgres.store import PostgresStore
from tests.codes import has_code
from tests.people.conftest import Opened, Team, Trio, run

REFUSED = errors.InsufficientPrivilege
ATTEMPTS = (
    "UPDATE plait.members SET role = 'owner' WHERE member = session_user",
    "UPDATE plait.members SET projects = '{shop}' WHERE member = session_user",
    "INSERT INTO plait.members (ns, member, role, added_at) VALUES (:ns, session_user, 'owner', 0)",
    "INSERT INTO plait.members (ns, member, role, added_at) VALUES (:ns, session_user, 'owner', 0) "
    "ON CONFLICT (ns, member) DO UPDATE SET role = 'owner', projects = '{shop}'",
    "DELETE FROM plait.members",
    "UPDATE plait.members SET member = 'x'",
    "INSERT INTO plait.namespaces (ns, name, analyzer) VALUES (:ns, 'x', '')",
    "UPDATE plait.namespaces SET name = 'x'",
    "DELETE FROM plait.namespaces",
    "INSERT INTO plait.schema_version (version) VALUES (99)",
    "UPDATE plait.generations SET current = 0",
    "UPDATE plait.audit SET verb = 'x'",
    "ALTER TABLE plait.documents DISABLE ROW LEVEL SECURITY",
    "DROP POLICY seeing ON plait.documents",
    "CREATE TABLE plait.mine (x int)",
    "CREATE FUNCTION plait.x() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE OR REPLACE FUNCTION plait.my_labels() RETURNS bigint[] LANGUAGE sql AS 'SELECT NULL'",
    "TRUNCATE plait.audit",
    "CREATE TRIGGER t BEFORE INSERT ON plait.documents EXECUTE FUNCTION plait.my_labels()",
    "SET ROLE postgres",
    "SET SESSION AUTHORIZATION postgres",
)


def private(trio: Trio, role: str) -> int:
    return label_of(trio.team.ns, "private", role)


def stored_privately(trio: Trio, opened: Opened) -> tuple[str, int]:
    """The id and the place of a text that only the writer sees."""
    done = opened(trio.writer).store("the salary is high", key="pay", visibility="private")
    [(place,)] = trio.team.as_administrator(
        "SELECT place FROM plait.documents WHERE id = %s", [done.id]
    )
    return done.id, place


@pytest.mark.parametrize("where", ["his memory", "another"])
@pytest.mark.parametrize("who", ["owner", "writer", "reader"])
def test_no_member_gets_more_than_he_was_given(trio: Trio, who: str, where: str) -> None:
    ns = trio.team.ns if where == "his memory" else 1
    state = "SELECT ns, member, role, projects FROM plait.members ORDER BY 1, 2"
    before = trio.team.as_administrator(state)
    for statement in ATTEMPTS:
        try:
            rows = trio.team.as_role(getattr(trio, who), statement.replace(":ns", str(ns)))
        except REFUSED:
            rows = [(0,)]
        assert rows == [(0,)], statement
    assert trio.team.as_administrator(state) == before


def test_an_owner_gives_no_rights_in_other_memories(trio: Trio) -> None:
    add = "INSERT INTO plait.members (ns, member, role, added_at) VALUES (1, %s, 'owner', 0)"
    with pytest.raises(REFUSED):
        trio.team.as_role(trio.owner, add, [trio.writer])
    move = "UPDATE plait.members SET ns = 1 WHERE member = %s"
    with pytest.raises(REFUSED):
        trio.team.as_role(trio.owner, move, [trio.writer])


def test_without_the_fence_the_server_refuses_rather_than_shows(trio: Trio, opened: Opened) -> None:
    stored_privately(trio, opened)
    with psycopg.connect(trio.team.dsn(trio.owner)) as connection:
        connection.execute("SET row_security = off")
        with pytest.raises(REFUSED):
            connection.execute("SELECT count(*) FROM plait.documents")


def test_a_key_that_is_taken_does_not_betray_itself(trio: Trio, opened: Opened) -> None:
    _, place = stored_privately(trio, opened)
    team = trio.team
    [(ref,)] = team.as_administrator("SELECT ref FROM plait.passages WHERE document = %s", [place])
    tries = (
        (
            "INSERT INTO plait.postings (ns, term, ref, times, length, places) "
            "VALUES (%s, 'salary', %s, 1, 1, '{1}')",
            ref,
        ),
        ("INSERT INTO plait.tags (ns, tag, document) VALUES (%s, 'x', %s)", place),
        (
            "INSERT INTO plait.steps (ns, document, place, tool) VALUES (%s, %s, 0, 'x')",
            place,
        ),
        (
            "INSERT INTO plait.signals (ns, ref, reads, days, last_day, last_read) "
            "VALUES (%s, %s, 1, 1, 1, 1)",
            ref,
        ),
    )
    for statement, key in tries:
        with pytest.raises(REFUSED):  # and not that there is one already
            team.as_role(trio.owner, statement, [team.ns, key])
        with pytest.raises(REFUSED):
            team.as_role(trio.owner, statement, [team.ns, key + 1_000])


def test_nobody_slips_a_passage_under_a_private_document(trio: Trio, opened: Opened) -> None:
    _, place = stored_privately(trio, opened)
    slip = (
        "INSERT INTO plait.passages (ns, ref, id, document, ordinal, start, start_line, end_line, "
        "heading, text, title_terms, hash, length, terms) "
        "VALUES (%s, 99, 'x', %s, 1, 0, 1, 1, '', 'x', '', '', 1, '{}')"
    )
    with pytest.raises(REFUSED):
        trio.team.as_role(trio.owner, slip, [trio.team.ns, place])
    opened(trio.owner).store("mine", key="mine")
    move = "UPDATE plait.passages SET document = %s WHERE ns = %s"
    with pytest.raises(REFUSED):
        trio.team.as_role(trio.owner, move, [place, trio.team.ns])


def test_nobody_writes_with_the_label_of_another(trio: Trio, opened: Opened) -> None:
    opened(trio.owner).store("mine", key="mine")
    take = "UPDATE plait.documents SET label = %s WHERE ns = %s"
    values = [private(trio, trio.writer), trio.team.ns]
    with pytest.raises(REFUSED):
        trio.team.as_role(trio.owner, take, values)


def test_the_log_can_neither_be_forged_nor_erased(trio: Trio, opened: Opened) -> None:
    team = trio.team
    opened(trio.writer).store("open", key="open")
    forge = (
        "INSERT INTO plait.audit (ns, number, at, origin, door, verb, project, document, member) "
        "VALUES (%s, 99, 0, 'user', 'cli', %s, '', 'x', %s)"
    )
    for verb, member in (("store", trio.owner), ("store", None), ("team", trio.writer)):
        with pytest.raises(REFUSED):
            team.as_role(trio.writer, forge, [team.ns, verb, member])
    team.as_role(trio.owner, "DELETE FROM plait.audit")
    assert team.as_administrator("SELECT DISTINCT verb FROM plait.audit") == [("team",)]


HIDDEN = {
    ("documents", "key"): "pay",
    ("documents", "title"): "pay",
    ("passages", "text"): "the salary is high",
    ("postings", "term"): "salari",
    ("tags", "tag"): "money",
    ("audit", "verb"): "store",
}
MODES = ("enable_seqscan", "enable_indexscan")
CONDITIONS = (
    "t.{} COLLATE \"C\" >= '{}'",
    "t.{} >= ANY (ARRAY['{}'])",
    # The server takes a subscript to cost nothing, and so tries it before all that costs anything.
    "('{{\"{1}\": 1}}'::jsonb)[t.{0}] IS NOT NULL",
    "('{{\"{1}\": 1}}'::jsonb)[t.{0}] IS NULL",
)


def shape(plan: Any) -> Any:
    """A plan with what was counted in it, and without the conditions themselves."""
    if isinstance(plan, dict):
        conditions = ("Filter", "Index Cond", "Recheck Cond")
        return {name: shape(part) for name, part in plan.items() if name not in conditions}
    return [shape(part) for part in plan] if isinstance(plan, list) else plan


@pytest.mark.parametrize("who", ["owner", "reader", "former"])
@pytest.mark.parametrize("mode", MODES)
def test_explain_does_not_tell_whether_a_hidden_row_meets_a_condition(
    trio: Trio, opened: Opened, who: str, mode: str
) -> None:
    """It would, letter by letter, if the server tried a condition before the fence."""
    opened(trio.writer).store("the salary is high", key="pay", tags=["money"], visibility="private")
    trio.team.as_administrator("ANALYZE plait.documents")
    role = trio.reader if who == "former" else getattr(trio, who)
    if who == "former":
        opened(trio.owner).team.remove(role)
    label = private(trio, trio.writer)
    with psycopg.connect(trio.team.dsn(role), autocommit=True) as connection:
        connection.execute(f"SET {mode} = off")
        for (table, column), value in HIDDEN.items():
            for condition in CONDITIONS:
                told = []
                for guess in (value, value + "zzz"):
                    plan = connection.execute(
                        "EXPLAIN (ANALYZE, FORMAT JSON, TIMING OFF, COSTS OFF, SUMMARY OFF, "
                        f"BUFFERS OFF) SELECT 1 FROM plait.{table} AS t "
                        f"WHERE t.ns = {trio.team.ns} AND t.label = {label} "
                        f"AND {condition.format(column, guess)}"
                    ).fetchone()
                    assert plan is not None
                    told.append(shape(plan[0]))
                assert told[0] == told[1], (table, column, condition)


ESTIMATED = (
    "t.{} = '{}'",
    "t.{0} >= '{1}' AND t.{0} < '{1}~'",
    "t.{} = ANY (ARRAY['{}', 'x'])",
    "t.{} IN (SELECT x FROM (VALUES ('{}')) AS v (x))",
)


def test_estimates_do_not_tell_whether_a_hidden_word_is_there(trio: Trio, opened: Opened) -> None:
    """They would of frequent ones, and of the first and the last, if the server counted texts."""
    wim = opened(trio.writer)
    for number in range(60):
        text = f"the salary of person {number} is high"
        wim.store(text, key=f"pay-{number}", tags=["money"], visibility="private")
        opened(trio.owner).store(f"plums for guest {number}", key=f"guest-{number}", tags=["food"])
    trio.team.as_administrator("ANALYZE")
    with psycopg.connect(trio.team.dsn(trio.reader), autocommit=True) as connection:
        for (table, column), value in HIDDEN.items():
            if column == "verb":
                continue  # which verbs there are, everybody knows
            for condition in ESTIMATED:
                told = []
                for guess in (value, f"{value}q", "zzzz", "000"):
                    plan = connection.execute(
                        f"EXPLAIN (FORMAT JSON) SELECT 1 FROM plait.{table} AS t "
                        f"WHERE t.ns = {trio.team.ns} AND {condition.format(column, guess)}"
                    ).fetchone()
                    assert plan is not None
                    told.append(shape(plan[0]))
                assert all(one == told[0] for one in told), (table, column, condition)


def test_texts_that_were_counted_before_the_first_member_are_forgotten(team: Team) -> None:
    with team.memory() as memory:
        for number in range(60):
            memory.store(f"plum {number}", key=f"note-{number}")
    team.as_administrator("ANALYZE")
    counted = (
        "SELECT count(*) FROM pg_stats WHERE schemaname = 'plait' AND (tablename, attname) "
        "IN (('postings', 'term'), ('documents', 'key'), ('passages', 'text'))"
    )
    assert team.as_administrator(counted) == [(3,)]
    team.member("mia")
    assert team.as_administrator(counted) == [(0,)]
    team.as_administrator("ANALYZE")
    assert team.as_administrator(counted) == [(0,)]


def test_rights_from_before_end_with_the_first_member(team: Team) -> None:
    dan = team.person("dan")
    team.memory().close()
    team.as_administrator(f'GRANT ALL ON SCHEMA plait TO "{dan}", PUBLIC')
    team.as_administrator(f'GRANT ALL ON ALL TABLES IN SCHEMA plait TO "{dan}", PUBLIC')
    team.member("mia")
    for statement in (
        "TRUNCATE plait.documents",
        "SELECT 1 FROM plait.documents",
        "CREATE TABLE plait.loot (text text)",
    ):
        with pytest.raises(REFUSED):
            team.as_role(dan, statement)


def test_a_writer_cannot_make_others_drop_the_memory(trio: Trio, opened: Opened) -> None:
    opened(trio.owner).store("plums", key="ours")
    mark = "INSERT INTO plait.facts (ns, name, value) VALUES (%s, 'moving', '{}')"
    with pytest.raises(REFUSED):
        trio.team.as_role(trio.writer, mark, [trio.team.ns])
    trio.team.as_administrator(mark, [trio.team.ns])
    with pytest.raises(UsageError):
        drop(trio.team.address(None))
    assert trio.team.as_administrator("SELECT count(*) FROM plait.documents") == [(1,)]


# With types that fit a multiplication of plait's better than those of the server's own do.
TRAP = (
    "CREATE TABLE public.loot (reader text, text text); GRANT ALL ON public.loot TO PUBLIC; "
    "CREATE FUNCTION public.trap(a bigint, b float8) RETURNS float8 LANGUAGE plpgsql AS $$ BEGIN "
    "INSERT INTO public.loot SELECT current_user, text FROM plait.passages; "
    "RETURN a::float8 * b; END $$; "
    "CREATE OPERATOR public.* (LEFTARG = bigint, RIGHTARG = float8, FUNCTION = public.trap)"
)


@pytest.mark.parametrize("allowed", ["PUBLIC", "one role"])
def test_a_member_cannot_put_an_operator_before_the_servers_own(
    team: Team, opened: Opened, allowed: str
) -> None:
    ana, ben = team.member("ana"), team.member("ben")
    opened(ana).store("heron", visibility="private")
    grantee = ben if allowed == "one role" else allowed
    team.as_administrator(f"GRANT CREATE ON SCHEMA public TO {grantee}")
    team.as_role(ben, TRAP)
    check = has_code("open_search_path")
    for role in (ana, None):
        with pytest.raises(StoreError, check=check) as refused:
            team.memory(role)
        told = refused.value.notice.text
        assert f"REVOKE CREATE ON SCHEMA public FROM {grantee};" in told
        plain = f"ALTER ROLE {role or 'CURRENT_USER'} IN DATABASE {team.database} SET search_path"
        team.as_administrator(f"{plain} = ''")
        with team.memory(role) as memory:
            assert len(memory.search("heron").hits) == 1
        team.as_administrator(f"{plain} TO DEFAULT")
    assert team.as_administrator("SELECT * FROM public.loot") == []


def test_where_others_may_add_functions_there_are_no_members(team: Team) -> None:
    ana = team.person("ana")
    team.as_administrator("GRANT CREATE ON SCHEMA public TO PUBLIC")
    with team.memory() as memory:
        with pytest.raises(StoreError, check=has_code("open_search_path")):
            memory.team.add(ana)
        assert memory.team.members() == []
        team.as_administrator("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
        memory.team.add(ana)


def test_functions_tell_nobody_about_others(trio: Trio, opened: Opened) -> None:
    stored_privately(trio, opened)
    labels = trio.team.as_role(trio.owner, "SELECT plait.my_labels()")[0][0]
    assert sorted(labels) == sorted([0, private(trio, trio.owner)])
    stranger = trio.team.person("sam")
    with pytest.raises(REFUSED):
        trio.team.as_role(stranger, "SELECT plait.my_memories()")
    shadow = "SELECT set_config('search_path', 'pg_temp, public', false), plait.my_memories()"
    assert trio.team.as_role(trio.owner, shadow)[0][1] == [trio.team.ns]


def test_the_planners_statistics_are_hidden(trio: Trio, opened: Opened) -> None:
    stored_privately(trio, opened)
    trio.team.as_administrator("ANALYZE plait.documents")
    sees = "SELECT count(*) FROM pg_stats WHERE schemaname = 'plait' AND tablename = 'documents'"
    assert trio.team.as_role(trio.owner, sees) == [(0,)]


def test_the_labels_of_plait_are_those_of_the_server(team: Team) -> None:
    member = team.member("mia", projects=["shop", "käse \ue000"])
    store = PostgresStore(team.address(member))
    own = store.membership.labels or []
    store.close()
    assert sorted(own) == sorted(team.as_role(member, "SELECT plait.my_labels()")[0][0])


def test_writers_of_different_roles_do_not_lose_each_others_texts(
    trio: Trio, opened: Opened
) -> None:
    def write(role: str, visibility: str) -> None:
        memory = opened(role)
        for number in range(10):
            memory.store(f"{role} plums {number}", key=f"note {number}", visibility=visibility)

    threads = [
        Thread(target=write, args=arguments)
        for arguments in (
            (trio.writer, "private"),
            (trio.owner, "private"),
            (trio.owner, "team"),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    admin = opened(None)
    assert len(admin.engine.scan(admin._filter(None), limit=100)) == 30
    assert all(row.level == "ok" for row in admin.engine.check())
    wim = opened(trio.writer)
    assert len(wim.engine.scan(wim._filter(None), limit=100)) == 20


def test_a_table_without_a_fence_is_noticed(trio: Trio) -> None:
    with psycopg.connect(trio.team.dsn()) as connection:
        run(connection, "CREATE TABLE plait.forgotten (ns bigint)")
        with pytest.raises(StoreError, check=has_code("foreign_table", "forgotten")):
            put_up(connection)
        connection.rollback()


def test_a_row_in_the_trash_does_not_show_what_comes_back(trio: Trio, opened: Opened) -> None:
    wim, team = opened(trio.writer), trio.team
    id_ = wim.store("plums", key="diary").id  # everybody knows its id
    wim.mark("diary", visibility="private")
    wim.store("secret plums", key="diary")
    wim.delete("diary")
    team.as_role(
        trio.owner,
        "INSERT INTO plait.trash (ns, id, deleted_at, batch, document, bare, trust) "
        "SELECT ns, %s, 0, '', '{}', '{}', 'trusted' FROM plait.namespaces",
        [id_],
    )
    team.as_administrator(
        "UPDATE plait.trash AS t SET document = o.document, bare = o.bare, batch = o.batch "
        "FROM plait.trash AS o WHERE o.label <> 0 AND t.label = 0"
    )
    wim.undo("diary")
    labels = "SELECT DISTINCT label FROM plait.documents WHERE id = %s"
    assert team.as_administrator(labels, [id_]) == [(private(trio, trio.writer),)]
