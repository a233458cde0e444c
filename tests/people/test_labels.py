"""What comes back, or takes an id that others know, is seen by those whom it is meant for."""

import json
from pathlib import Path

import pytest

from plait.errors import UsageError
from plait.stores.sqlite.documents import FIELDS
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.types.visibility import Visibility
from tests.codes import has_code
from tests.people.conftest import Opened, Trio
from tests.people.test_attacks import private

OTHER_VISIBILITY = has_code("other_visibility")


def sees(opened: Opened, role: str, words: str) -> bool:
    return bool(opened(role).search(words, mode="keyword").hits)


@pytest.mark.parametrize("text", ["Ripe plums.", "Secret cherries."])
def test_a_file_that_is_ingested_privately_is_private_although_the_team_deleted_it(
    trio: Trio, opened: Opened, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "a.md"
    file.write_text("Ripe plums.", "utf-8")
    wim = opened(trio.writer)
    wim.ingest(str(tmp_path))
    wim.delete("a.md")
    file.write_text(text, "utf-8")
    wim.ingest(str(tmp_path), visibility="private")
    assert sees(opened, trio.writer, text)
    assert not sees(opened, trio.owner, text)
    [deleted] = opened(trio.owner).engine.trashed()  # as before: nothing of it was taken
    assert deleted.passages[0].text == "Ripe plums."


@pytest.mark.parametrize(("visibility", "shared"), [("private", False), (None, True)])
def test_a_file_with_a_new_name_is_shared_as_the_caller_says(
    trio: Trio, opened: Opened, tmp_path: Path, visibility: Visibility | None, *, shared: bool
) -> None:
    (tmp_path / "a.md").write_text("Ripe plums.", "utf-8")
    (tmp_path / "b.md").write_text("Pears.", "utf-8")
    wim = opened(trio.writer)
    wim.ingest(str(tmp_path))
    (tmp_path / "a.md").rename(tmp_path / "c.md")
    wim.ingest(str(tmp_path), visibility=visibility)
    paths = [row.path for row in opened(trio.owner).engine.scan(wim._filter(None))]
    assert (str(tmp_path / "c.md") in paths) == shared


def test_a_file_that_was_private_comes_back_privately(
    trio: Trio, opened: Opened, tmp_path: Path
) -> None:
    file = tmp_path / "a.md"
    file.write_text("Secret cherries.", "utf-8")
    wim = opened(trio.writer)
    wim.ingest(str(tmp_path), visibility="private")
    [before] = wim.engine.scan(wim._filter(None))
    wim.delete("a.md")
    wim.ingest(str(tmp_path))
    [after] = wim.engine.scan(wim._filter(None))
    assert after.id == before.id
    assert not sees(opened, trio.owner, "cherries")


def take_id(trio: Trio, opened: Opened, id_: str, kind: str = "entity") -> None:
    """Have a document of the owner with this id, which the whole team sees."""
    olga = opened(trio.owner)
    olga.store("A template.", key="template")
    columns = ", ".join(("ns", "place", "label", "preface", "fingerprint", *FIELDS))
    copy = (
        f"INSERT INTO plait.documents ({columns}) SELECT {columns} FROM (SELECT "
        "(jsonb_populate_record(d, %s)).* FROM plait.documents AS d WHERE d.key = 'template') AS c"
    )
    row = {"id": id_, "place": 900_000, "key": "Zorg", "kind": kind, "chunk_count": 0}
    taken = {**row, "title": "Zorg", "source": "entity"}
    assert trio.team.as_role(trio.owner, copy, [json.dumps(taken)]) == [(1,)]


def entity_of_the_writer(trio: Trio, opened: Opened) -> str:
    """The id of a deleted entity that all knew, with a fact and a relation that nobody did."""
    wim = opened(trio.writer)
    wim.graph.create([NewEntity("Zorg"), NewEntity("Ann")])
    [(id_,)] = trio.team.as_role(trio.owner, "SELECT id FROM plait.documents WHERE key = 'Zorg'")
    wim.mark("Zorg", visibility="private")
    wim.store("Zorg hides secret cherries", entity="Zorg")
    wim.graph.relate([Relation("Zorg", "Ann", "owes", "secret cherries")])
    wim.graph.delete(["Zorg"])
    return str(id_)


def secrets_of(trio: Trio, role: str) -> int:
    """How many passages and relations tell the secret to a member."""
    [(count,)] = trio.team.as_role(
        role,
        "SELECT (SELECT count(*) FROM plait.passages WHERE text LIKE '%%secret%%') "
        "+ (SELECT count(*) FROM plait.relations WHERE context LIKE '%%secret%%') "
        "+ (SELECT count(*) FROM plait.trashed_relations WHERE context LIKE '%%secret%%')",
        [],
    )
    return int(count)


def test_whoever_takes_the_id_of_a_deleted_entity_does_not_get_its_facts(
    trio: Trio, opened: Opened
) -> None:
    id_ = entity_of_the_writer(trio, opened)
    take_id(trio, opened, id_)
    wim = opened(trio.writer)
    for name in (id_, "Zorg"):
        with pytest.raises(UsageError, check=OTHER_VISIBILITY):
            wim.undo(name)
    wim.store("Pears", key="pears")
    wim.delete("pears")
    wim.undo("pears")  # this brings back relations, too
    assert secrets_of(trio, trio.owner) == 0
    trio.team.as_role(trio.owner, "DELETE FROM plait.documents WHERE id = %s", [id_])
    wim.undo("Zorg")
    assert secrets_of(trio, trio.owner) == 0
    assert secrets_of(trio, trio.writer) == 3  # the fact, the profile and the relation


def test_a_profile_repeats_only_facts_that_the_same_people_see(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    fact = wim.store("Zorg hides secret cherries", entity="Zorg").id
    label = [private(trio, trio.writer), fact]
    trio.team.as_administrator("UPDATE plait.documents SET label = %s WHERE id = %s", label)
    wim.store("Zorg likes plums", entity="Zorg")
    [profile] = opened(trio.owner).graph.open(["Zorg"]).entities
    assert [fact.text for fact in profile.observations] == ["Zorg likes plums"]
    assert "cherries" not in wim.get(profile.id).text
    wim.graph.delete(["Zorg"])
    assert [row.id for row in wim.engine.load([fact])] == [fact]  # it was not of that one


def test_an_earlier_version_does_not_replace_what_others_see(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    id_ = wim.store("secret cherries", key="diary", visibility="private").id
    wim.store("plums", key="diary", origin="agent")
    wim.mark("diary", visibility="team")
    with pytest.raises(UsageError, check=OTHER_VISIBILITY):
        wim.undo("diary")
    assert opened(trio.owner).get(id_).text == "plums"
    wim.mark("diary", visibility="private")
    wim.undo("diary")
    assert wim.get(id_).text == "secret cherries"


def put_into_trash(trio: Trio, role: str, id_: str, moment: int) -> None:
    """Have a deleted text of a member, which has the id of another one."""
    bare = "SELECT document, bare FROM plait.trash WHERE label = %s"
    [records] = trio.team.as_role(role, bare, [private(trio, role)])
    changed = [json.loads(record) for record in records]
    for record in changed:
        record["document"]["id"] = id_
    trio.team.as_role(
        role,
        "INSERT INTO plait.trash (ns, id, label, deleted_at, batch, document, bare, trust) "
        "VALUES (%s, %s, %s, %s, 'mine', %s, %s, 'trusted')",
        [trio.team.ns, id_, private(trio, role), moment, *map(json.dumps, changed)],
    )


@pytest.mark.parametrize("moment", [0, 2**60])
def test_of_two_deleted_texts_with_one_id_none_is_shown_to_the_other_ones_people(
    trio: Trio, opened: Opened, moment: int
) -> None:
    wim, olga = opened(trio.writer), opened(trio.owner)
    id_ = wim.store("Known plums", key="diary").id  # everybody knows its id
    wim.mark("diary", visibility="private")
    wim.store("secret cherries", key="diary")
    wim.delete("diary")
    olga.store("Pears", key="mine", visibility="private")
    olga.delete("mine")
    put_into_trash(trio, trio.owner, id_, moment)
    opened(None).undo(id_, all_projects=True)
    assert not sees(opened, trio.owner, "cherries")
    assert not sees(opened, trio.writer, "pears")
    # What has not come back is still there.
    kept = [*wim.engine.trashed(), *wim.engine.load([id_])]
    assert len(kept) == 1


def test_the_earlier_text_of_an_id_stays_with_its_people(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    id_ = wim.store("Known plums", key="diary").id
    wim.mark("diary", visibility="private")
    wim.store("secret cherries", key="diary")
    wim.delete("diary")
    take_id(trio, opened, id_, kind="note")
    wim.delete(id_)
    olga = [row.document.text for row in opened(trio.owner).engine.trashed()]
    assert olga == [""]
    assert [row.document.text for row in wim.engine.trashed()].count("secret cherries") == 1


def test_the_trash_of_the_team_names_no_private_passage(trio: Trio, opened: Opened) -> None:
    wim = opened(trio.writer)
    shared = [wim.store(f"Plums {word}", key=word).id for word in ("ripe", "red")]
    secret = wim.store("Plums in secret", key="secret", visibility="private").id
    refs = {id_: wim.engine.passages(id_)[0] for id_ in (*shared, secret)}
    with wim.engine.transaction() as t:
        t.touch([[passage.ref for passage in refs.values()]])

    def mates() -> set[str]:
        rows = trio.team.as_role(trio.owner, "SELECT document FROM plait.trash")
        return {mate for (row,) in rows for pair in json.loads(row)["use"] for mate in pair.split()}

    team = {refs[id_].id for id_ in shared}
    wim.delete("ripe")
    assert mates() == team
    wim.delete("secret")
    wim.delete("red")
    wim.undo("secret")  # what is known of it and the other one does not wait with that
    assert mates() == team
