"""A secret is stored but flagged; what an agent stores is refused, unless it insists."""

import json

import pytest

from plait import Memory
from plait.errors import UsageError, advise
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.interfaces.command import SAMPLE, spawn
from tests.made_up_secrets import made_up_secrets
from tests.mcp.talk import call, text_of

VALUE = "ghp_q7Zt0LmW4xR9cVbN2sKdF6hJ8yTgUe3aPi5o"
NOTE = f"The deploy token of the crane is {VALUE}."
OTHER_NOTE = f"Ana uses {VALUE} for the crane."
KIND = "github token"
PASSWORD = "SSH password: `hunter2-otter-lagoon`"


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as opened:
        yield opened


def refused(act):
    """Run an act that must be refused; return the error, which must not repeat the value."""
    with pytest.raises(UsageError) as caught:
        act()
    error = caught.value
    assert (error.code, error.advice) == ("holds_secret", advise("insist_on_secret"))
    assert VALUE not in f"{error} {error.notice}"
    return error


# -- the library ---------------------------------------------------------------------------------


def test_what_a_person_stores_is_stored_and_flagged(memory):
    for stored in (
        memory.store(NOTE),
        memory.store(NOTE, key="crane"),
        *memory.store_many([Document(key="many", text=NOTE)]),
        memory.store("Clean text", key="titled", title=f"token: {VALUE}"),
        memory.store("Clean text", key="fields", metadata={"token": VALUE}),
        memory.store("Clean text", key="tags", tags=[VALUE]),
    ):
        assert stored.secret == (KIND,)
        assert stored.id
    assert memory.store("We deploy on Fridays").secret == ()
    assert memory.store(PASSWORD).secret == ("password",)
    assert memory.store("das Passwort ist Gartenzwerg7").secret == ("password",)
    assert memory.store("login ann, password Wint3rmoon99").secret == ("password",)


def test_ingest_names_the_files_that_hold_secrets(memory, tmp_path):
    report = memory.ingest(SAMPLE)
    flagged = {row.path.rpartition("/")[2]: row.secret for row in report.reports if row.secret}
    assert flagged == {"TOOLS.md": ("password",)}


@pytest.mark.parametrize("origin", ["agent", "tool"])
def test_an_agent_is_refused_in_every_verb_and_field_and_nothing_is_written(memory, origin):
    memory.graph.create([NewEntity("Crane")])
    before = memory.stats().doc_count
    for act in (
        lambda: memory.store(NOTE, origin=origin),
        lambda: memory.store(NOTE, origin=origin, key="crane"),
        lambda: memory.store(NOTE, origin=origin, topic="token"),
        lambda: memory.store("Clean text", origin=origin, title=VALUE),
        lambda: memory.store("Clean text", origin=origin, key="k", summary=VALUE),
        lambda: memory.store("Clean text", origin=origin, tags=[VALUE]),
        lambda: memory.store("Clean text", origin=origin, metadata={"x": VALUE}),
        lambda: memory.store("Clean text", origin=origin, entity=VALUE),
        lambda: memory.store(f"---\ntoken: {VALUE}\n---\nClean text", origin=origin, key="k"),
        lambda: memory.store_many([Document(key="many", text=NOTE, origin=origin)]),
        lambda: memory.graph.create([NewEntity("New", None, ("fine", NOTE))], origin=origin),
        lambda: memory.graph.create([NewEntity(VALUE)], origin=origin),
        lambda: memory.graph.observe([("Crane", ["fine", NOTE])], origin=origin),
        lambda: memory.graph.observe([(VALUE, ["fine"])], origin=origin, make=True),
    ):
        assert refused(act).subject == KIND
    assert memory.stats().doc_count == before


def test_an_agent_that_insists_is_obeyed_and_the_text_flagged(memory):
    assert memory.store(NOTE, origin="agent", allow_secret=True).secret == (KIND,)
    many = [Document(key="many", text=NOTE, origin="agent")]
    assert memory.store_many(many, allow_secret=True)[0].secret == (KIND,)
    made = memory.graph.create([NewEntity("Crane")], origin="agent")
    assert made.secret == ()
    [added] = memory.graph.observe([("Crane", [NOTE])], origin="agent", allow_secret=True)
    assert (added.secret, added.added) == ((KIND,), (NOTE,))


def test_every_kind_of_secret_is_refused(memory):
    for kind, text in made_up_secrets(1, seed=3):
        error = refused(lambda text=text: memory.store(text, origin="agent"))
        assert error.subject, kind
    assert memory.stats().doc_count == 0


def test_timeline_get_and_doctor_tell_without_a_value(memory):
    flagged = memory.store(NOTE).id
    plain = memory.store("We deploy on Fridays").id
    rows = memory.timeline()
    assert memory.secrets(rows) == {flagged: (KIND,)}
    assert memory.secrets([memory.get(flagged), memory.get(plain)]) == {flagged: (KIND,)}
    [finding] = [row for row in memory.doctor() if row.check == "secrets"]
    assert (finding.level, finding.code) == ("warning", "holds_secret")
    assert f"{KIND} (1)" in finding.message and flagged[:8] in finding.message
    assert VALUE not in finding.message
    memory.delete(flagged, purge=True)
    [finding] = [row for row in memory.doctor() if row.check == "secrets"]
    assert finding.level == "ok"


def test_the_flag_is_there_after_an_import_too(memory, tmp_path):
    memory.store(NOTE, key="crane")
    lines = list(memory.export())
    with Memory.open(tmp_path / "other.db", embedder="none", project="") as other:
        other.import_lines(lines)
        assert list(other.secrets(other.timeline()).values()) == [(KIND,)]


# -- the command line ----------------------------------------------------------------------------


def test_the_command_line_flags_refuses_and_obeys(tmp_path):
    database = ["--db", str(tmp_path / "memory.db"), "--embedder", "none", "--project", "personal"]
    stored = spawn(*database, "store", NOTE, "--key", "crane", "--json")
    assert stored.code == 0
    assert json.loads(stored.out)["secret"] == [KIND]
    assert f"holds a secret ({KIND})" in stored.err and VALUE not in stored.err

    agent = spawn(*database, "store", OTHER_NOTE, "--origin", "agent")
    assert (agent.code, agent.out) == (2, "")
    assert agent.err == (
        f"plait: Not stored: the text holds a secret ({KIND}). "
        "Leave it out, or add: --allow-secret\n"
    )
    assert spawn(*database, "store", OTHER_NOTE, "--origin", "agent", "--allow-secret").code == 0
    observed = spawn(*database, "entity", "add", "Crane", NOTE, "--origin", "tool")
    assert observed.code == 2 and "holds a secret" in observed.err
    insisted = spawn(
        *database, "entity", "add", "Crane", NOTE, "--origin", "tool", "--allow-secret"
    )
    assert insisted.code == 0 and f"holds a secret ({KIND})" in insisted.err

    [shown] = json.loads(spawn(*database, "get", "crane", "--json").out)["results"]
    assert shown["secret"] == [KIND]
    told = spawn(*database, "get", "crane-0", "--format", "text").err
    assert told == f"plait: crane holds a secret ({KIND})\n"
    rows = json.loads(spawn(*database, "timeline", "--json").out)["results"]
    assert [row["secret"] for row in rows] == [[KIND]] * 3
    assert f"[secret: {KIND}]" in spawn(*database, "timeline", "--format", "text").out

    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "wifi.md").write_text(PASSWORD, encoding="utf-8")
    ingested = spawn(*database, "ingest", str(folder), "--json")
    assert "1 file holds secrets, now in the memory too: " in ingested.err
    assert "wifi.md (password)" in ingested.err and "hunter2" not in ingested.err
    assert json.loads(ingested.out)["secret"] == [
        {"path": str(folder / "wifi.md"), "kinds": ["password"]}
    ]
    doctor = spawn(*database, "doctor", "--format", "text")
    assert doctor.code == 0
    assert f"4 documents hold secrets: {KIND} (3), password (1)." in doctor.out
    assert VALUE not in doctor.out + doctor.err


# -- relations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["agent", "tool"])
@pytest.mark.parametrize(
    "edge",
    [
        Relation("Crane", "Crane", f"token {VALUE}"),
        Relation("Crane", "Crane", "uses", NOTE),
        Relation("Crane", "Crane", "password", "Zx81-Spectrum7"),
    ],
    ids=["type", "context", "both"],
)
def test_a_relation_of_an_agent_holds_no_secret_in_its_type_or_context(memory, edge, origin):
    memory.graph.create([NewEntity("Crane")])
    own = Relation("Crane", "Crane", "lifts", "the boats of the harbour")
    error = refused(lambda: memory.graph.relate([own, edge], origin=origin))
    assert "Zx81" not in str(error)
    assert memory.graph.read().relations == ()
    assert memory.graph.relate([own], origin=origin) == [own]
    assert memory.graph.relate([edge], origin=origin, allow_secret=True) == [edge]


def test_a_person_relates_what_they_like(memory):
    memory.graph.create([NewEntity("Crane")])
    edge = Relation("Crane", "Crane", "uses", NOTE)
    assert memory.graph.relate([edge]) == [edge]


# -- MCP -----------------------------------------------------------------------------------------


def test_an_agent_is_refused_over_mcp_with_a_way_out(memory):
    turned_away = call(memory, "memory_store", {"text": NOTE})
    assert turned_away.is_error
    assert text_of(turned_away).startswith(f"Not stored: the text holds a secret ({KIND}).")
    assert "allow_secret=true" in text_of(turned_away) and VALUE not in text_of(turned_away)
    assert memory.stats().doc_count == 0

    insisted = call(memory, "memory_store", {"text": NOTE, "allow_secret": True})
    assert insisted.structured_content["secret"] == [KIND]
    id_ = insisted.structured_content["id"]
    [row] = call(memory, "memory_timeline").structured_content["results"]
    assert row["secret"] == [KIND]
    [whole] = call(memory, "memory_get", {"ids": [id_]}).structured_content["results"]
    assert whole["secret"] == [KIND]
    listed = call(memory, "timeline", {}, profiles=["layers"]).structured_content["results"]
    assert [row["secret"] for row in listed] == [[KIND]]


def test_the_graph_tools_refuse_too_and_take_the_argument_that_the_refusal_names(memory):
    entity = {"name": "Crane", "entityType": "machine", "observations": [NOTE]}
    facts = {"entityName": "Crane", "contents": [NOTE]}
    edge = {"from": "Crane", "to": "Crane", "relationType": f"token {VALUE}"}
    for tool, arguments in (
        ("create_entities", {"entities": [entity]}),
        ("add_observations", {"observations": [facts]}),
        ("create_relations", {"relations": [edge]}),
    ):
        if tool == "add_observations":
            call(memory, "delete_entities", {"entityNames": ["Crane"]}, profiles=["graph"])
            memory.graph.create([NewEntity("Crane")])
        turned_away = call(memory, tool, arguments, profiles=["graph"])
        assert turned_away.is_error and VALUE not in text_of(turned_away)
        assert "holds a secret" in text_of(turned_away)
        obeyed = call(memory, tool, {**arguments, "allow_secret": True}, profiles=["graph"])
        assert not obeyed.is_error and VALUE in text_of(obeyed)
