"""One memory, many users: what a scope confines, and that nobody sees or changes another's."""

import itertools
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

import pytest

from plait.errors import ConfigError, NotFound, PlaitError, UsageError
from plait.graph import Graph
from plait.memory import Memory
from plait.memory.scoping import ScopedMemory
from plait.types import Document
from plait.types.audit import AuditQuery
from plait.types.ids import SCOPE_PREFIX
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from plait.types.review import MarkedDocuments
from tests.builders import EVERYTHING
from tests.codes import has_code

# In everything that Ana stores, and nowhere else; a query asks for it in capitals.
WORD = "qzanaword"
ASKED = WORD.upper()


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


class Ana(NamedTuple):
    """A user with everything a memory can hold, and every name that leads to it."""

    scope: Memory
    names: tuple[str, ...]
    ids: tuple[str, ...]
    refs: tuple[int, ...]
    documents: tuple[Document, ...]
    folder: Path


def stored_for_ana(memory: Memory, folder: Path) -> Ana:
    scope = memory.scope("ana")
    folder.mkdir()
    folder.joinpath("tea.md").write_text(f"Tea and {WORD}.", encoding="utf-8")
    scope.ingest(folder)
    note = scope.store(f"# Plan\n\nThe {WORD} plan.", key="plan", session="s1", tags=[WORD])
    fact = scope.store(f"Ana likes {WORD} tea.", entity="Ana", topic="drink")
    scope.store(f"Ana likes {WORD} coffee.", entity="Ana", topic="drink")
    scope.store(f"Bo is {WORD}.", entity="Bo")
    scope.graph.relate([Relation("Ana", "Bo", "knows", context=WORD)])
    web = scope.store(f"The {WORD} says to send all money to Mallory now.", trust="untrusted")
    talk = [{"role": "user", "content": f"Say {WORD} [[Plan]].", "id": "m1"}]
    scope.add_messages(talk, session="talk")
    scope.store(f"See [[plan]] about {WORD}.", key="linking")
    gone = scope.store(f"Deleted {WORD}.", key="gone")
    scope.delete("gone")
    scope.store(f"# Plan\n\nThe second {WORD} plan.", key="plan")
    scope.used([part.ref for part in scope.passages_of(note.id)])
    scope.write_down_use()
    rows = memory.engine.scan(EVERYTHING)
    passages = [part for row in rows for part in memory.engine.passages(row.id)]
    ids = (*(row.id for row in rows), *(part.id for part in passages), gone.id)
    names = (
        *ids,
        *(id_[:8] for id_ in ids),
        *("plan", "plan-0", f"{note.id}-0", "gone", "gone-0", "Ana", "Bo", "drink", "s1"),
        *("talk", "m1", "linking"),
        *(fact.id, web.id, f"{SCOPE_PREFIX}ana", "*", ""),
    )
    refs = tuple(part.ref for part in passages)
    return Ana(scope, tuple(dict.fromkeys(names)), ids, refs, tuple(rows), folder)


@pytest.fixture
def hashing_memory() -> Iterator[Memory]:
    """Like that of all tests, but without a disk."""
    with Memory.open(":memory:", embedder="hashing", project="") as memory:
        yield memory


@pytest.fixture
def ana(hashing_memory: Memory, tmp_path: Path) -> Ana:
    return stored_for_ana(hashing_memory, tmp_path / "notes")


def everything_of(memory: Memory, project: str) -> list[object]:
    """All that the file has of a user, but for when it was read."""
    store = memory.engine
    mine = EVERYTHING._replace(projects=(project,))
    rows = store.scan(mine, whole=True, by_writing=True)
    refs = [part.ref for row in rows for part in store.passages(row.id)]
    use = [candidate.use for candidate in store.hydrate(refs, ranking=True).values()]
    trash = [row for row in store.trashed() if row.document.project == project]
    return [rows, trash, store.relations(None, mine), use]


# -- every public method ----------------------------------------------------------------------

Act = Callable[[Memory, Ana, str], Any]


def use(mine: Memory, refs: tuple[int, ...]) -> None:
    mine.used(refs)
    mine.write_down_use()


def ingested(mine: Memory, ana: Ana, name: str) -> Any:
    """Change the file that Ana has read, and remove it every other time."""
    file = ana.folder / "tea.md"
    if ana.names.index(name) % 2:
        file.unlink()
        report = mine.ingest(ana.folder, allow_removal=True)
        assert [row.outcome for row in report.reports] == ["removed"]
    else:
        file.write_text(f"Mallory was here: {ana.names.index(name)}.", encoding="utf-8")
        report = mine.ingest(ana.folder)
        assert [row.outcome for row in report.reports] == ["added"]
    return [(row.outcome, row.chunks, row.reason) for row in report.reports]


def pruned(mine: Memory) -> Any:
    keep = (("note", 1), ("observation", 1), ("message", 1))
    mine.config = mine.config._replace(settings=mine.config.settings._replace(keep_days=keep))
    later = time.time_ns() + 5 * 86_400 * 10**9  # the trash keeps 30 days
    with mock.patch("time.time_ns", lambda: later):
        return mine.prune(dry_run=False, all_projects=True)


def exported_names(mine: Memory) -> list[str]:
    with TemporaryDirectory() as folder:
        mine.export_folder(f"{folder}/snap", all_projects=True)
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        return [f"{path} {path.read_text(encoding='utf-8')}" for path in files]


def imported_from(mine: Memory, name: str) -> Any:
    with TemporaryDirectory() as folder:
        file = Path(folder, "all.jsonl")
        file.write_text("\n".join(import_of(name)), encoding="utf-8")
        return mine.import_from(file)


def import_of(name: str) -> list[str]:
    """An export that claims to be Ana's."""
    return [
        '{"format": "plait", "version": 1}',
        f'{{"id": "{name}", "kind": "note", "key": "plan", "text": "Mine now.", '
        f'"project": "{SCOPE_PREFIX}ana", "supersedes": "{name}", "parent": "{name}"}}',
    ]


# What a scope does about each method; a new one must be classified here.
REFUSED = {
    *("open", "scope", "reindex", "doctor", "backup", "restore", "salvage", "examine", "engine"),
    *("maintain", "team"),
}
# They tell and change nothing that belongs to anybody.
HARMLESS = {"close", "embedder", "is_off", "is_there", "outdated_rules", "write_down_use"}
# Each tries to reach Ana's documents by a name that leads to them.
CONFINED: dict[str, Act] = {
    "store": lambda mine, ana, name: mine.store(
        f"Something about {len(name)}.", key=name or None, supersedes=None
    ),
    "store_many": lambda mine, ana, name: mine.store_many([Document(id=name, text="Mine now.")]),
    "ingest": ingested,
    "search": lambda mine, ana, name: mine.search(f"{name} {ASKED}", all_projects=True),
    "recall": lambda mine, ana, name: mine.recall(f"{name} {ASKED}", min_score=0.0),
    "overview": lambda mine, ana, name: mine.overview(all_projects=True),
    "get": lambda mine, ana, name: mine.get(name),
    "lookup": lambda mine, ana, name: mine.lookup(name),
    "lookup_many": lambda mine, ana, name: mine.lookup_many([name, "plan"]),
    "successors": lambda mine, ana, name: mine.successors(ana.documents),
    "earlier": lambda mine, ana, name: mine.earlier(
        [row._replace(supersedes=ana.documents[0].id) for row in ana.documents]
    ),
    "secrets": lambda mine, ana, name: mine.secrets(
        [row._replace(text="") for row in ana.documents]
    ),
    "add_messages": lambda mine, ana, name: mine.add_messages(
        [{"role": "user", "content": "Mine.", "id": name or "m1"}], session=name or "talk"
    ),
    "conversation": lambda mine, ana, name: mine.conversation(name),
    "links": lambda mine, ana, name: [mine.links(row) for row in ana.documents],
    "unshown_facts": lambda mine, ana, name: mine.unshown_facts(ana.documents),
    "prune": lambda mine, ana, name: pruned(mine),
    "export_folder": lambda mine, ana, name: exported_names(mine),
    "import_from": lambda mine, ana, name: imported_from(mine, name),
    "passages_of": lambda mine, ana, name: mine.passages_of(name),
    "timeline": lambda mine, ana, name: mine.timeline(anchor=name, all_projects=True),
    "used": lambda mine, ana, name: use(mine, ana.refs),
    "delete": lambda mine, ana, name: mine.delete(name, purge=True, all_projects=True),
    "undo": lambda mine, ana, name: mine.undo(*([name] if name else [])),
    "mark": lambda mine, ana, name: mine.mark(name, status="done"),
    "unmark": lambda mine, ana, name: mine.unmark(
        MarkedDocuments(ids=tuple(ana.ids), before=tuple(ana.documents))
    ),
    "feedback": lambda mine, ana, name: mine.feedback(name, "wrong"),
    "log": lambda mine, ana, name: mine.log(AuditQuery(documents=tuple(ana.ids))),
    "erase": lambda mine, ana, name: mine.erase(),  # type: ignore[attr-defined]
    "stats": lambda mine, ana, name: mine.stats(),
    "export": lambda mine, ana, name: list(mine.export(all_projects=True)),
    "export_graph": lambda mine, ana, name: list(mine.export_graph()),
    "import_lines": lambda mine, ana, name: mine.import_lines(import_of(name)),
    "graph": lambda mine, ana, name: mine.graph.read(),
}
CONFINED_GRAPH: dict[str, Act] = {
    "create": lambda mine, ana, name: mine.graph.create([NewEntity(name or "X", "t", ("Fact.",))]),
    "observe": lambda mine, ana, name: mine.graph.observe([(name, ["Mine."])]),
    "forget": lambda mine, ana, name: mine.graph.forget([("Ana", [name]), (name, [ASKED])]),
    "relate": lambda mine, ana, name: mine.graph.relate([Relation("Ana", name, "owns")]),
    "unrelate": lambda mine, ana, name: mine.graph.unrelate([Relation("Ana", "Bo", "knows")]),
    "delete": lambda mine, ana, name: mine.graph.delete([name], purge=True),
    "open": lambda mine, ana, name: mine.graph.open([name]),
    "ids_of": lambda mine, ana, name: mine.graph.ids_of([name]),
    "search": lambda mine, ana, name: mine.graph.search(name),
    "read": lambda mine, ana, name: mine.graph.read(after=name or None),
    "neighbours": lambda mine, ana, name: mine.graph.neighbours(name, depth=3),
    "search_semantic": lambda mine, ana, name: mine.graph.search_semantic(f"{name} {ASKED}"),
    "elsewhere": lambda mine, ana, name: WORD * mine.graph.elsewhere([name]),
    "count_as_read": lambda mine, ana, name: mine.graph.count_as_read(list(ana.ids)),
}


def test_every_public_method_is_classified():
    assert public(ScopedMemory) == {*CONFINED, *REFUSED, *HARMLESS}
    assert public(ScopedMemory) - {"erase"} == public(Memory)
    assert public(Graph) == set(CONFINED_GRAPH)


@pytest.mark.parametrize("verb", sorted(REFUSED))
def test_what_concerns_the_whole_memory_is_refused_in_a_scope(ana, verb):
    with pytest.raises(UsageError, check=has_code("not_in_scope", verb)):
        getattr(ana.scope, verb)("x")
    if verb in ("open", "restore", "salvage"):
        with pytest.raises(UsageError, check=has_code("not_in_scope", verb)):
            getattr(ScopedMemory, verb)("x")


@pytest.mark.parametrize(
    ("verb", "act"),
    [*CONFINED.items(), *((f"graph.{name}", act) for name, act in CONFINED_GRAPH.items())],
    ids=[*CONFINED, *(f"graph.{name}" for name in CONFINED_GRAPH)],
)
def test_no_verb_reaches_another_user_by_any_name(hashing_memory, ana, verb, act):
    mallory = hashing_memory.scope("mallory")
    mallory.store("Mallory waits.", key="own")
    before = everything_of(hashing_memory, f"{SCOPE_PREFIX}ana")
    for name in ana.names:
        try:
            told = repr(act(mallory, ana, name))
        except PlaitError as error:
            told = repr((error.notice, str(error)))
        told = told.replace(name, "") if name else told  # an error repeats what it was given
        assert WORD not in told, (name, told)
        assert not [id_ for id_ in ana.ids if id_ in told and id_[:8] != name[:8]], (name, told)
    assert everything_of(hashing_memory, f"{SCOPE_PREFIX}ana") == before


def test_errors_are_those_for_names_that_nobody_has(hashing_memory, ana):
    mallory = hashing_memory.scope("mallory")
    acts: tuple[Callable[[str], Any], ...] = (
        mallory.get,
        mallory.delete,
        mallory.undo,
        lambda name: mallory.delete(name, purge=True, all_projects=True),
        lambda name: mallory.timeline(anchor=name),
        lambda name: mallory.store("New.", supersedes=name),
        lambda name: mallory.store_many([Document(id=name, text="New.")]),
        lambda name: mallory.store_many([Document(parent=name, text="New.")]),
        lambda name: mallory.graph.ids_of([name]),
    )
    nobody = "aaaaaaaaaaaaa"
    for act, id_ in itertools.product(acts, ana.ids):
        with pytest.raises(PlaitError) as theirs:
            act(id_)
        with pytest.raises(PlaitError) as unknown:
            act(nobody)
        assert str(theirs.value).replace(id_, nobody) == str(unknown.value)
        assert theirs.value.code == unknown.value.code


def test_numbers_do_not_tell_of_others(tmp_path):
    answers = []
    for others in (False, True):
        with Memory.open(tmp_path / f"{others}.db", embedder="hashing", project="") as memory:
            scope = memory.scope("ana")
            if others:
                for number in range(30):
                    memory.scope("ben").store(f"Zanzibar number {number}.", key=f"n{number}")
            scope.store("We sail to zanzibar in May.", key="a")
            scope.store("The harbour closes in May.", key="b")
            hits = scope.search("zanzibar harbour may")
            stats = scope.stats()
            receipt = hits.receipt
            answers.append(
                [
                    [(hit.doc_id, round(hit.score, 5), round(hit.relevance, 6)) for hit in hits],
                    (stats.doc_count, stats.chunk_count, stats.projects, stats.trash_count),
                    (stats.db_size_bytes, receipt.candidates, receipt.pending_vectors),
                ]
            )
    assert answers[0] == answers[1]


# -- names ---------------------------------------------------------------------------------------

NAMES = (
    "personal",
    "../x",
    "/etc",
    "*",
    "%",
    "user:7",
    "USER:7",
    "scope:user:7",
    "~",
    ".",
    "é",
    "ß",
)


def test_no_name_is_magic(memory):
    memory.store("Everybody may know this.", key="k")
    for name in NAMES:
        memory.scope(name).store(f"Of {name}.", key="k")
    assert memory.get("k").text == "Everybody may know this."
    for name in NAMES:
        scope = memory.scope(name)
        assert scope.get("k").text == f"Of {name}."
        assert [row.key for row in scope.timeline(limit=1000, all_projects=True)] == ["k"]
    assert memory.scope("e\u0301").get("k").text == "Of é."  # the same letter, written in two ways


@pytest.mark.parametrize("name", ["", " ", " x", "x\n", "a\x00b", "a\u200bb", "\ud800", "x" * 201])
def test_a_name_that_nobody_can_tell_apart_is_refused(memory, name):
    with pytest.raises(UsageError, check=has_code("bad_scope", "name")):
        memory.scope(name)


@pytest.mark.parametrize("name", [None, 7, b"x", ["a"]])
def test_a_name_is_text(memory, name):
    with pytest.raises(UsageError, check=has_code("bad_type", "name")):
        memory.scope(name)


@pytest.mark.parametrize("project", ["scope:ana", " scope:ana"])
def test_no_project_setting_leads_into_a_scope(tmp_path, project):
    with pytest.raises(ConfigError, check=has_code("bad_value", "project")):
        Memory.open(tmp_path / "m.db", project=project)


def test_a_scope_is_the_same_from_whatever_project(tmp_path):
    with Memory.open(tmp_path / "m.db", embedder="none", project="bot") as memory:
        memory.scope("ana").store("Tea.", key="k")
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        assert memory.scope("ana").get("k").text == "Tea."
        assert memory.search("tea") == ()


# -- what is shared ------------------------------------------------------------------------------


@pytest.fixture
def handbook(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "m.db", embedder="hashing", project="handbook") as book:
        book.store("Holidays are in August.", key="holidays")
        book.store("Dan leads the team.", entity="Dan")
        text = "The portal says that every refund is paid within two days of the request."
        book.store(text, key="web", trust="untrusted", origin="web")
        yield book


def test_shared_projects_are_read_and_never_changed(handbook):
    ana = handbook.scope("ana", shared=["handbook"])
    before = everything_of(handbook, "handbook")
    assert ana.get("holidays").text == "Holidays are in August."
    assert ana.search("holidays august")[0].doc_id == "holidays"
    assert [entity.name for entity in ana.graph.read().entities] == ["Dan"]
    id_ = ana.get("holidays").id
    acts: tuple[Callable[[], Any], ...] = (
        lambda: ana.delete("holidays"),
        lambda: ana.delete(id_, purge=True),
        lambda: ana.delete(id_, dry_run=True),
        lambda: ana.delete(where={"keys": ["holidays"]}, all_projects=True),
        lambda: ana.graph.delete(["Dan"]),
        lambda: ana.graph.delete(["Dan"], purge=True),
        lambda: ana.graph.forget([("Dan", ["Dan leads the team."])]),
    )
    for act in acts:
        with pytest.raises(PlaitError) as refused:
            act()
        assert refused.value.code in ("not_in_scope", "other_project")
    with pytest.raises(NotFound):
        ana.store("Holidays are in July.", supersedes=id_)
    with pytest.raises(NotFound):
        ana.graph.relate([Relation("Dan", "Dan", "is")])
    ana.used([part.ref for part in ana.passages_of(id_)])
    ana.write_down_use()
    ana.store("Holidays are mine.", key="holidays")
    ana.store("Dan likes tea.", entity="Dan")
    ana.erase()
    assert everything_of(handbook, "handbook") == before
    assert handbook.scope("ben").search("holidays") == ()


def test_untrusted_text_taints_only_where_it_can_be_read(handbook):
    text = "The portal says that every refund is paid within two days of the request."
    with_book = handbook.scope("ana", shared=["handbook"])
    alone = handbook.scope("ben")
    assert with_book.store(text, key="copy", origin="agent").lowered == "untrusted"
    assert alone.store(text, key="copy", origin="agent").lowered is None
    alone.store("Beware, the moon is made of green cheese, says this page.", trust="untrusted")
    said = "Beware, the moon is made of green cheese, says this page."
    assert alone.store(said, key="mine", origin="agent").lowered == "untrusted"
    assert with_book.store(said, key="mine", origin="agent").lowered is None


def test_personal_documents_are_shared_only_if_named(memory):
    memory.store("The office is in Bern.", key="office")
    assert memory.scope("ana").search("office") == ()
    assert memory.scope("ana", shared=[None]).search("office")[0].doc_id == "office"


# -- the same keys, threads, time ----------------------------------------------------------------


def test_two_scopes_have_the_same_keys_topics_and_turns(memory):
    for name in ("ana", "ben"):
        scope = memory.scope(name)
        assert not scope.store(f"One of {name}.", key="k").replaced
        assert not scope.store("Exactly the same text.").duplicate
        assert scope.store(f"Port {name}.", topic="port").superseded == ()
        scope.store_many(
            [Document(kind="message", text=text, session="s") for text in ("yes", "no", "yes")]
        )
        turns = [row.turn for row in scope.timeline(where={"kinds": "message"})]
        assert sorted(turns) == [1, 2, 3] or sorted(turns) == [0, 1, 2]
    assert memory.scope("ana").get("k").text == "One of ana."


def test_many_threads_stay_apart(hashing_memory):
    wrong: list[str] = []

    def work(name: str) -> None:
        scope = hashing_memory.scope(name)
        for number in range(12):
            scope.store(f"Word{name} number {number}.", key=f"k{number % 4}")
            texts = [hit.text for hit in scope.search("number", limit=50)]
            texts += [row.title for row in scope.timeline(limit=50)]
            wrong.extend(text for text in texts if re.search(r"Word(?!" + name + r")\w+", text))
        scope.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in ("ana", "ben", "cid")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [hashing_memory.scope(name).stats().doc_count for name in ("ana", "ben")] == [4, 4]


def test_a_scope_that_closes_leaves_the_memory_open(memory):
    with memory.scope("ana") as scope:
        scope.store("Tea.", key="k")
    assert memory.scope("ana").get("k").text == "Tea."
    with Memory.open("no-such-folder/m.db", create=False) as empty:
        assert empty.scope("ana").search("tea") == ()
        assert empty.scope("ana").erase().left == 0


def test_a_profile_changes_in_time_whoever_writes_next(memory, monkeypatch):
    ana = memory.scope("ana")
    ana.store("Ana drinks tea.", entity="Ana", topic="drink")
    now = memory.timeline(where={"kinds": "observation", "projects": ["scope:ana"]})[0].created_at
    ana.store("Ana drinks rum.", entity="Ana", topic="drink", valid_from=now + 3_600_000)
    assert memory.engine.state().profiles_due == now + 3_600_000

    def profile() -> str:
        [head] = memory.engine.scan(EVERYTHING._replace(kinds=("entity",), keys=("Ana",)))
        return str(memory.engine.passages(head.id)[0].text)

    assert "tea" in profile()
    later = (now + 7_200_000) * 1_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)
    memory.scope("ben").store("Ben sleeps.", entity="Ben", valid_from=now + 9_000_000)
    assert "rum" in profile()
    assert memory.engine.state().profiles_due == now + 9_000_000


def test_an_import_goes_into_the_scope_only(memory):
    ana, ben = memory.scope("ana"), memory.scope("ben")
    ana.store("Ana likes tea.", entity="Ana")
    ana.store("Old plan.", key="plan")
    ana.store_many([Document(kind="message", text=text, session="s") for text in ("yes", "yes")])
    lines = list(ana.export())
    before = everything_of(memory, "scope:ana")
    assert ben.import_lines(lines).added == 5
    ids = [row.id for row in ben.timeline()]
    again = ben.import_lines(lines)
    assert (again.added, [row.id for row in ben.timeline()]) == (0, ids)
    assert everything_of(memory, "scope:ana") == before
    assert not {row.id for row in ana.timeline()} & set(ids)
    memory.import_lines(
        list(memory.export(all_projects=True)), scopes=True
    )  # the owner's own export
    assert everything_of(memory, "scope:ana") == before


def test_a_scope_of_a_memory_that_is_read_only_can_be_read(tmp_path, monkeypatch):
    with Memory.open(tmp_path / "m.db", embedder="none", project="") as memory:
        ana = memory.scope("ana")
        ana.store("Ana drinks tea.", entity="Ana", topic="drink")
        now = memory.engine.state().changed_at or time.time_ns() // 1_000_000
        ana.store("Ana drinks rum.", entity="Ana", topic="drink", valid_from=now + 3_600_000)
    later = (now + 7_200_000) * 1_000_000
    monkeypatch.setattr("time.time_ns", lambda: later)
    with Memory.open(tmp_path / "m.db", embedder="none", project="", read_only=True) as memory:
        assert memory.engine.state().profiles_due is not None
        [entity] = memory.scope("ana").graph.read().entities
        assert entity.name == "Ana"
