"""Random acts by two users of one memory: each gets what he would get alone.

The oracle is another memory in which the same user does the same acts and nobody else is. Names of
the other user's documents are tried too; alone they are names that nobody has.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import PlaitError
from plait.memory import Memory
from plait.memory.scoping import ScopedMemory
from plait.types import Document
from plait.types.relations import Relation
from plait.types.reports import Stored

USERS = ("ana", "ben")
NOBODY = "aaaaaaaaaaaaa"
WORDS = ("tea", "rum", "moon", "port", "ship")
KEYS = ("k1", "k2", "Café")
SESSIONS = ("s", "s0", "s1", "book")
# What everybody may read, under names that users take too.
SHARED = (
    Document(text="The moon of the harbour is in the handbook.", key="k1", project="book"),
    Document(kind="message", text="Shared.", session="s0", role="user", project="book"),
    Document(kind="message", text="Shared.", session="book", role="user", project="book"),
)

# What a user does: the verb, two small numbers that choose words, keys and targets.
Act = tuple[str, int, int]
VERBS = (
    *("note", "fact", "about", "topic", "web", "copy", "message", "relate"),
    *("delete", "purge", "undo", "forget", "reimport", "supersede", "erase"),
    *("read theirs", "delete theirs", "take theirs", "undo theirs"),
    *("add messages", "ingest", "ingest less"),
)
ACTS = st.lists(
    st.tuples(
        st.sampled_from(USERS),
        st.tuples(st.sampled_from(VERBS), st.integers(0, 4), st.integers(0, 4)),
    ),
    min_size=4,
    max_size=14,
)


def short(stored: Stored) -> tuple[object, ...]:
    flags = (stored.duplicate, stored.replaced, stored.recalled, stored.lowered, stored.chunks)
    return (*flags, len(stored.superseded), len(stored.beside), len(stored.near))


def perform(  # noqa: C901
    memory: ScopedMemory, act: Act, theirs: Sequence[str], folder: Path
) -> object:
    """Do one act; return what it told, without ids and times."""
    verb, first, second = act
    word, key = WORDS[first], KEYS[second % len(KEYS)]
    other = theirs[(first * 5 + second) % len(theirs)] if theirs else NOBODY
    sentence = f"The {word} of the harbour is sold on day {second} of the month."
    if verb == "note":
        return short(memory.store(sentence, key=key))
    if verb == "fact":
        return short(memory.store(sentence))
    if verb == "about":
        return short(memory.store(sentence, entity=word))
    if verb == "topic":
        return short(memory.store(sentence, entity=word, topic=key))
    if verb == "web":
        return short(memory.store(sentence, trust="untrusted", origin="web"))
    if verb == "copy":
        return short(memory.store(sentence, key=key, origin="agent"))
    if verb == "message":
        rows = [Document(kind="message", text=word, session="s"), Document(text=word, key=key)]
        return [short(row) for row in memory.store_many(rows)]
    if verb == "relate":
        return len(memory.graph.relate([Relation(word, WORDS[second], "near")]))
    if verb == "delete":
        return memory.delete(key).doc_ids
    if verb == "purge":
        return memory.delete(key, purge=True).chunks_deleted
    if verb == "undo":
        return len(memory.undo())
    if verb == "forget":
        return memory.graph.delete([word], purge=bool(second % 2))[:2]
    if verb == "reimport":
        return memory.import_lines(list(memory.export()))[:4]
    if verb == "supersede":
        return short(memory.store(f"Not {word}.", supersedes=key))
    if verb == "erase":
        return memory.erase()[:5]
    if verb == "read theirs":
        return [memory.passages_of(other), memory.get(other)]
    if verb == "delete theirs":
        return memory.delete(other, purge=bool(second % 2), all_projects=True)
    if verb == "take theirs":
        return memory.store_many([Document(id=other, text=word)])
    if verb == "add messages":
        messages = [{"role": "user", "content": word, "id": key}, {"role": "ai", "content": word}]
        return [short(row) for row in memory.add_messages(messages, session=f"s{second % 2}")]
    if verb.startswith("ingest"):
        file = folder / f"{word}.md"
        file.write_text(sentence, encoding="utf-8")
        if verb == "ingest less":
            file.unlink()
        report = memory.ingest(folder, allow_removal=True)
        return [(row.path, row.outcome, row.chunks) for row in report.reports]
    return memory.undo(other)


def told(memory: ScopedMemory, act: Act, theirs: Sequence[str], folder: Path) -> object:
    try:
        return perform(memory, act, theirs, folder)
    except PlaitError as error:
        return error.code


def view(memory: ScopedMemory) -> dict[str, Any]:
    """All that a user can see, without ids and times."""
    rows = memory.timeline(limit=1000, all_projects=True, where={"all_versions": True})
    graph = memory.graph.read()
    stats = memory.stats()
    hits = [memory.search(query, limit=100) for query in (*WORDS, "harbour month", '"the tea"')]
    return {
        "timeline": sorted((row.doc_id if row.key else "", row.summary) for row in rows),
        "trust": sorted((row.summary or "", row.trust, row.turn or 0) for row in rows),
        "entities": [(entity.name, entity.contents) for entity in graph.entities],
        "relations": [edge[:3] for edge in graph.relations],
        "stats": (*stats[:5], stats.kinds, stats.projects, stats.sources),
        "hits": [sorted((hit.text, round(hit.relevance, 4)) for hit in answer) for answer in hits],
        "scores": [[round(hit.score, 4) for hit in answer] for answer in hits],
        "export": len(list(memory.export())),
        "talks": [[row.text for row in memory.conversation(name)] for name in SESSIONS],
        "semantic": sorted(row["name"] for row in memory.graph.search_semantic("tea rum")),
    }


def ids_of(memory: ScopedMemory) -> list[str]:
    own = {"all_versions": True, "trusts": ["trusted"], "project": memory.config.project}
    rows = memory.timeline(limit=1000, where=own)
    entities = [entity.id for entity in memory.graph.read().entities]
    return [*(row.id for row in rows), *entities, *(row.id[:9] for row in rows)]


@given(ACTS)
@settings(max_examples=30)
def test_a_user_gets_what_he_would_get_alone(acts: list[tuple[str, Act]]) -> None:
    with (
        TemporaryDirectory() as folder,
        Memory.open(":memory:", embedder="none", project="") as shared,
        Memory.open(":memory:", embedder="none", project="") as ana,
        Memory.open(":memory:", embedder="none", project="") as ben,
    ):
        for memory in (shared, ana, ben):
            memory.store_many(SHARED)
        together = {name: shared.scope(name, shared=["book"]) for name in USERS}
        alone = {
            name: memory.scope(name, shared=["book"])
            for name, memory in (("ana", ana), ("ben", ben))
        }
        seen: dict[str, list[str]] = {name: [] for name in USERS}
        for name, act in acts:
            other = USERS[1 - USERS.index(name)]
            seen[other] += ids_of(together[other])
            here = told(together[name], act, seen[other], Path(folder))
            names = [NOBODY] if seen[other] else []
            assert here == told(alone[name], act, names, Path(folder))
        for name in USERS:
            assert view(together[name]) == view(alone[name])
