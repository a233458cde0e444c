"""A review finds what a person may want to settle, proposes one act each, and changes nothing."""

import random
import runpy
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait.errors import UsageError
from plait.facts import statements
from plait.facts.splitting import split_facts
from plait.facts.statements import MOST_COMPARED, MOST_WITH_WORD, StatedFact, SubjectIndex
from plait.memory import Memory
from plait.memory.review import PAGE, _Reviewer, review
from plait.types import Document
from plait.types.review import REVIEW_KINDS, Review, ReviewItem
from tests.codes import has_code
from tests.interfaces.command import ROOT

DAY = 86_400_000
SECRET = "password = 'x7-Kqz92!fWm'"


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory.open(tmp_path / "memory.db", project="", embedder="builtin") as opened:
        yield opened


def fact(memory: Memory, text: str, **fields: Any) -> str:
    """Store a fact without asking whether it resembles another; return its id."""
    days = fields.pop("days_ago", 0)
    document = Document(kind="observation", text=text, **fields)
    if days:
        moment = _now() - days * DAY
        document = document._replace(created_at=moment, updated_at=moment, event_at=moment)
    [stored] = memory.store_many([document])
    return stored.id


def _now() -> int:
    from plait.writing.documents import now_ms

    return now_ms()


def findings(memory: Memory, *kinds: str) -> list[ReviewItem]:
    return list(review(memory, kinds).items)


def test_a_fact_that_only_says_that_it_is_an_item_is_reviewed(memory: Memory) -> None:
    for port in (80, 81):
        fact(memory, f"The port of the server is {port}", metadata={"langgraph_value": "{}"})
    assert len(findings(memory, "outdated", "contradiction")) == 1


def test_precision_and_recall_on_a_generated_memory(memory: Memory) -> None:
    benchmark = runpy.run_path(str(ROOT / "benchmarks" / "review.py"))
    made = benchmark["make"](800)
    memory.store_many(made.documents)
    repeats, contradictions = benchmark["judge"](memory, made)
    for quality in (repeats, contradictions):
        assert quality.precision >= 0.9
        assert quality.recall >= 0.7


@pytest.mark.parametrize(
    ("first", "second", "kind"),
    [
        ("We deploy on Fridays.", "We deploy on Mondays.", "contradiction"),
        ("The API listens on port 8080", "The API now listens on port 8443", "contradiction"),
        ("The API listens on port 8080", "The API does not listen on port 8080", "contradiction"),
        ("The audit is on 3 March 2026", "The audit is on 10 March 2026", "contradiction"),
        ("The nightly backup begins at 3:00", "The nightly backup starts at 3:00", "duplicate"),
        ("The nightly backup begins at 3:00", "The nightly backup starts at 4:00", "contradiction"),
        ("Ana's budget is 1,500 euros", "ana's budget is 1500 euros, as agreed", "duplicate"),
        ("The payments service uses port 8080", "The search service uses port 8080", None),
        ("The payments service uses port 8080", "The search service uses port 9090", None),
        ("Server 3 has 16 GB of memory", "Server 4 has 16 GB of memory", None),
        ("web-2 was moved to rack 7", "web-3 was moved to rack 7", None),
        ("Madrid is where the summer party is", "Oslo is where the summer party is", None),
        ("Ana likes tea", "Bo likes tea", None),
        ("The cat sleeps", "The dog eats 3 fish", None),
    ],
)
def test_two_facts_are_compared_by_subject_and_values(
    memory: Memory, first: str, second: str, kind: str | None
) -> None:
    ids = {fact(memory, first), fact(memory, second)}
    items = findings(memory)
    assert [item.kind for item in items] == ([] if kind is None else [kind])
    for item in items:
        assert {*item.ids} == ids
        assert item.action == "supersede"
        assert item.why


def test_without_a_model_words_alone_decide(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="", embedder="none") as memory:
        fact(memory, "The nightly backup begins at 3:00")
        fact(memory, "The nightly backup starts at 3:00")
        fact(memory, "The nightly BACKUP begins at 3:00, please note.")
        assert [item.kind for item in findings(memory)] == ["duplicate"]


def test_the_later_of_two_facts_stays_and_the_better_described_of_two_repeats(
    memory: Memory,
) -> None:
    old = fact(memory, "The API listens on port 8080", days_ago=20)
    new = fact(memory, "The API listens on port 8443", days_ago=2)
    assert [(item.kind, item.ids) for item in findings(memory)] == [("outdated", (old, new))]
    plain = fact(memory, "Lunch for the whole team is at noon")
    pinned = fact(memory, "Lunch for the whole team is at noon!", pinned=True)
    [item] = findings(memory, "duplicate")
    assert item.ids == (plain, pinned)


def test_what_is_less_trusted_never_ends_what_is_more(memory: Memory) -> None:
    trusted = fact(memory, "The API listens on port 8080", days_ago=9)
    planted = fact(memory, "The API listens on port 6666", trust="untrusted")
    [item] = findings(memory)
    assert item.ids == (planted, trusted)


def test_two_answers_to_one_topic_are_a_contradiction(memory: Memory) -> None:
    memory.store("Ana owns the release", topic="owner")
    memory.store("Something about cheese", topic="owner", trust="untrusted")
    [item] = findings(memory)
    assert (item.kind, item.why) == ("contradiction", "two current facts on one topic")


def test_facts_of_other_things_projects_and_topics_are_not_compared(memory: Memory) -> None:
    memory.store("Prefers tea with 2 spoons of sugar", entity="Ana")
    memory.store("Prefers tea with 3 spoons of sugar", entity="Bo")
    fact(memory, "The door code has 4 digits", project="p")
    fact(memory, "The door code has 6 digits", project="q")
    fact(memory, "The front office opens at 8:00", topic="winter")
    fact(memory, "The front office opens at 9:00", topic="summer")
    assert review(memory, all_projects=True).items == ()


def test_measurements_are_not_contradictions(memory: Memory) -> None:
    for seconds in range(300, 306):
        fact(memory, f"The nightly test run took {seconds} seconds")
    assert findings(memory) == []


def test_a_later_text_contradicts_a_fact_and_an_earlier_one_does_not(memory: Memory) -> None:
    old = fact(memory, "The staging database runs PostgreSQL 15", days_ago=30)
    fact(memory, "The office plants need water every 9 days")
    body = (
        "Some words.\n\nThe staging database runs PostgreSQL 16 since spring.\n\n" + "More. " * 99
    )
    body += "\n\nThe office plants need water every 4 days. "
    [stored] = memory.store_many(
        [Document(kind="note", key="log.md", text=body, event_at=_now() - 5 * DAY)]
    )
    [item] = findings(memory, "outdated")
    assert (item.ids, item.action) == ((old, stored.id), "archive")
    assert "15 and 16" in item.why


def test_messages_of_an_assistant_contradict_nothing(memory: Memory) -> None:
    fact(memory, "The staging database runs PostgreSQL 15", days_ago=30)
    said = "The staging database runs PostgreSQL 16"
    memory.add_messages([{"role": "assistant", "content": said}], session="s")
    assert findings(memory, "outdated") == []
    memory.add_messages([{"role": "user", "content": said}], session="s")
    assert len(findings(memory, "outdated")) == 1


def test_secrets_are_named_by_kind_and_never_shown(memory: Memory) -> None:
    stored = memory.store(f"The deploy {SECRET} is kept here")
    [item] = findings(memory, "secret")
    assert (item.ids, item.action) == ((stored.id,), "purge")
    assert item.excerpts[0].startswith("observation of 20")
    fact(memory, f"The door has {SECRET} and 12 keys", days_ago=9)
    fact(memory, f"The door has {SECRET} and 14 keys now")
    told = repr(review(memory))
    assert "outdated" in told
    assert "Kqz92" not in told


def test_a_secret_is_named_wherever_it_is_stored(memory: Memory) -> None:
    ended = memory.store(f"The {SECRET} of the door", topic="door").id
    memory.store("The door has no lock", topic="door")
    planted = memory.store(f"Take {SECRET}", trust="quarantined", allow_secret=True).id
    note = memory.store("Nothing here", key="n", metadata={"password": "x7-Kqz92!fWm"}).id
    about = memory.store(f"Its {SECRET} is old", entity="Gate").id
    known = memory.store("The roof is red", entity="Roof").id
    roof = memory.lookup(known)[0].parent or ""
    with memory.engine.transaction() as transaction:  # as an import may bring it
        transaction.amend(roof, metadata={"password": "x7-Kqz92!fWm"})
    items = findings(memory, "secret")
    assert {item.ids for item in items} == {(id_,) for id_ in (ended, planted, note, about, roof)}
    assert {item.action for item in items} == {"purge"}
    for item in items:
        memory.delete(item.ids[0], purge=True)
    assert findings(memory, "secret") == []


def test_no_kind_of_finding_shows_a_secret(memory: Memory) -> None:
    fact(memory, f"Nobody reads {SECRET} here", days_ago=200)
    lost = f'{{"kind": "observation", "text": "Lost {SECRET}.", "parent": "abcdefghijklm"}}'
    memory.import_lines(['{"format": "plait", "version": 1}', lost])
    for place in ("sofa", "garden", "window", "kitchen", "attic", "cellar", "roof"):
        for animal in ("Cats", "Birds", "Fishes"):
            memory.store(f"{animal} like the {place} most", entity="Zoo")
        memory.store(f"The {place} has {SECRET}", entity="Zoo", allow_secret=True)
    results = review(memory)
    assert {"unread", "orphan", "oversized"} <= {*dict(results.counts)}
    assert "kqz92" not in repr(results).lower()


def test_damaged_rows_neither_end_a_review_nor_make_orphans(memory: Memory) -> None:
    old = fact(memory, "The API listens on port 8080", days_ago=30)
    fact(memory, "The API listens on port 8443", days_ago=20)
    memory.store_many(
        [Document(kind="observation", text=f"Word{n} stands alone") for n in range(PAGE + 5)]
    )
    belonging = memory.store("It is blue", entity="Boat").id
    parent = memory.lookup(belonging)[0].parent
    connection = apsw.Connection(memory.path)
    damage = "UPDATE documents SET status = x'ff' WHERE id IN (?, ?)"
    connection.execute(damage, (parent, belonging))
    connection.close()
    [item] = findings(memory, "outdated")
    assert item.ids[0] == old
    assert findings(memory, "orphan") == []


def test_what_holds_a_secret_is_named_so_that_a_person_knows_what_goes(
    memory: Memory, tmp_path: Path
) -> None:
    path = tmp_path / "router.md"
    path.write_text(f"The router has {SECRET}.", encoding="utf-8")
    memory.ingest(path)
    memory.store(f"The shed has {SECRET}", key=f"of {SECRET}")
    memory.add_messages([{"role": "user", "content": f"It is {SECRET}"}], session="trip")
    named = {text for item in findings(memory, "secret") for text in item.excerpts}
    assert {"router.md", "user in trip"} < named
    assert "Kqz92" not in repr(named)


def test_facts_that_nobody_reads_are_named_and_important_ones_are_not(memory: Memory) -> None:
    unread = fact(memory, "The attic has a wooden ladder", days_ago=200)
    fact(memory, "The cellar has a water pump", days_ago=200, pinned=True)
    fact(memory, "The roof was painted in green", days_ago=200, importance=0.9)
    fact(memory, "The garden gate squeaks loudly", days_ago=200, status="done")
    fact(memory, "The kitchen window is new", days_ago=10)
    read = fact(memory, "The chimney was swept by Cid", days_ago=200)
    memory.get(read)
    memory.write_down_use()
    [item] = findings(memory, "unread")
    assert (item.ids, item.action) == ((unread,), "archive")
    assert findings(memory, "stale") == []
    later = _Reviewer(memory, memory.engine, memory._filter(None), _now() + 100 * DAY)
    [stale] = later.run(["stale"])["stale"]
    assert (stale.ids, stale.why) == ((read,), "read 1 time, the last time 100 days ago")


def test_a_large_entity_gets_a_proposed_split(memory: Memory) -> None:
    animals = ("cats", "birds", "fishes")
    texts = [
        f"{name.capitalize()} like the {place} most"
        for name in animals
        for place in ("sofa", "garden", "window", "kitchen", "attic", "cellar", "roof", "hall")
    ]
    for text in texts:
        memory.store(text, entity="Zoo")
    [item] = findings(memory, "oversized")
    assert item.action == "split"
    assert {name for name, _ in item.groups} == {f"Zoo: {name}" for name in animals}
    assert sum(len(ids) for _, ids in item.groups) == len(texts)
    small = Memory.open(":memory:", project="", embedder="none")
    for text in texts[:20]:
        small.store(text, entity="Zoo")
    assert findings(small, "oversized") == []


def test_the_work_of_a_review_is_bounded(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    words, chance = [f"word{number}x" for number in range(60)], random.Random(7)
    alike = [statements.statement(" ".join(chance.sample(words, 30))) for _ in range(600)]
    index = SubjectIndex(alike)
    most = MOST_COMPARED + MOST_WITH_WORD
    pairs = list(index.pairs())
    assert len(pairs) == len({*pairs}) <= len(alike) * most < len(alike) * (len(alike) - 1) / 2
    assert len(list(index.near(alike[0]))) <= most
    apart = {str(n): f"{'Cats' if n % 2 else 'Birds'} {'x' * 10_000} {n}" for n in range(30)}
    assert [len(ids) for _, ids in split_facts("Zoo", apart)] == [15, 15]
    read: list[StatedFact] = []

    def near(_: SubjectIndex, states: StatedFact) -> tuple[int, ...]:
        read.append(states)
        return ()

    monkeypatch.setattr("plait.memory.review.MOST_SENTENCES", 5)
    monkeypatch.setattr(SubjectIndex, "near", near)
    fact(memory, "The API listens on port 8080", days_ago=9)
    memory.store("\n".join(f"The API listens on port {port}." for port in range(90)), key="long")
    assert findings(memory, "outdated") == []
    assert len(read) == 5


def test_many_facts_on_one_topic_are_each_compared_with_the_newest(memory: Memory) -> None:
    names, start = [f"Colour{number}" for number in range(20)], _now() - 100
    rows = [
        Document(kind="observation", text=name, topic=name, event_at=start + place)
        for place, name in enumerate(names)
    ]
    ids = [stored.id for stored in memory.store_many(rows)]
    connection = apsw.Connection(memory.path)
    connection.execute("UPDATE documents SET topic = 'colour'")
    connection.close()
    items = findings(memory, "contradiction")
    assert {item.ids for item in items} == {(old, ids[-1]) for old in ids[:-1]}


def test_what_belongs_to_nothing_is_named(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name in ("kept.md", "gone.md"):
        (folder / name).write_text(f"# {name}\n\nAbout {name}.", encoding="utf-8")
    memory.ingest(folder)
    (folder / "gone.md").unlink()
    memory.graph.create([_entity("Alone"), _entity("Busy", "A fact.")])
    lost = '{"kind": "observation", "text": "Lost.", "parent": "abcdefghijklm"}'
    memory.import_lines(['{"format": "plait", "version": 1}', lost])
    items = findings(memory, "orphan")
    whys = sorted(item.why.partition(":")[0] for item in items)
    assert whys == [
        "an entity without facts and relations",
        "its file is gone",
        "the entity it belongs to does not exist",
    ]
    assert {item.action for item in items} == {"delete"}
    for path in [*folder.iterdir()]:
        path.unlink()
    folder.rmdir()
    assert not any("file is gone" in item.why for item in findings(memory, "orphan"))


def _entity(name: str, *facts: str) -> Any:
    from plait.types.reports import NewEntity

    return NewEntity(name, "thing", facts)


def test_a_review_changes_nothing_and_is_limited(memory: Memory) -> None:
    for color in ("red", "blue", "green", "white", "black"):
        fact(memory, f"The {color} lamp hangs low")
        fact(memory, f"The {color} lamp hangs low.")
    before = list(memory.export())
    whole = review(memory)
    assert (len(whole.items), whole.total, dict(whole.counts)) == (5, 5, {"duplicate": 5})
    part = review(memory, limit=2)
    assert (len(part.items), part.total) == (2, 5)
    assert list(memory.export()) == before


def test_odd_requests_are_refused_and_no_memory_has_nothing_to_settle(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "none.db", create=False) as memory:
        assert review(memory) == Review()
        with pytest.raises(UsageError, check=has_code("bad_value")):
            review(memory, ["nonsense"])
        with pytest.raises(UsageError, check=has_code("bad_value")):
            review(memory, limit=0)
    assert len(REVIEW_KINDS) == 8


def test_a_scope_is_reviewed_alone(memory: Memory) -> None:
    fact(memory, "The API listens on port 8080")
    ana = memory.scope("ana")
    ana.store("The API listens on port 8443")
    assert findings(memory) == []
    assert findings(ana) == []
    ana.store("The API listens on port 9000")
    [item] = findings(ana)
    marked = ana.mark(item.ids[0], superseded_by=item.ids[1])
    assert findings(ana) == []
    ana.unmark(marked)
    assert [again.ids for again in findings(ana)] == [item.ids]
    assert review(memory, all_projects=True).items == ()
