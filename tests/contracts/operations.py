"""Random operations on a memory, drawn from one seed."""

from collections.abc import Callable
from random import Random
from typing import Any

from plait.protocols import Entry
from plait.testing.hashing import HashingEmbedder
from plait.times import DAY_MS
from plait.types import TRUSTS, Document, Passage
from plait.types.relations import Relation
from plait.types.reports import NewEntity
from tests.builders import EVERYTHING, NOW, document, vector
from tests.contracts.twins import PROJECTS, Side

Act = Callable[[Side], object]

# Inflected, accented in both ways, of several scripts, of code, of letters that a server may
# refuse or fold, and longer than a page of its index takes.
_PLAIN = """deploy deploys deployed deployment deploying rotate rotates rotation key keys secret
apple apples banana orchard heron plover river window the a of and not"""
_ACCENTED = "naïve nai\u0308ve Straße STRASSE İstanbul istanbul ångström Ωmega ωmega ﬁsh"
_SCRIPTS = "日本語 東京 部署 ключ ключи сервер مفتاح शहर ภาษาไทย 한국어 서울"
_CODE = "c++ foo-bar v1.2.3 user_name getUserName snake_case_name a/b/c x@y.z 3.14 0x1f"
_ODD = "🙂 👩\u200d👩\u200d👧 \ufeffbom zero\u200bwidth \u202ertl\u202c \ue000private \ue000\ue002"
_MARKS = 'nul\0inside \0 it\'s “quoted” "double" back\\slash {brace} per%cent under_ %s %(ns)s'
WORDS = (
    *" ".join((_PLAIN, _ACCENTED, _SCRIPTS, _CODE, _ODD, _MARKS)).replace("\n", " ").split(" "),
    "tab\tbed",
    "longword" * 200,
)
TYPOS = ("deplyo", "rotaet", "banan", "orchrad", "ключь", "apqle", "secert", "windwo")
_NAMES = ("naïve", "nai\u0308ve", "日本", "nul\0key", "\ue000")
TAGS = ("ops", "ops/ssh", "ops/ssh/keys", "%", "a,b", '"q"', *_NAMES)
KEYS = ("note", "note-1", "note-2", "plan", "a/b.md", *_NAMES)
FILES = tuple(key for key in KEYS if "\0" not in key)  # a name of a file has none
SESSIONS = ("standup", "review", "nul\0session")
TOPICS = ("deploys", "editor", "naïve", "nai\u0308ve")
ENTITIES = ("Ana", "Ben", "Heron", "naïve", "日本", "nul\0name")
KINDS = ("file", "note", "observation", "message", "entity")


class Operations:
    """Draws operations; what exists is read from the oracle."""

    def __init__(self, seed: int, oracle: Side) -> None:
        self.random = Random(seed)
        self.oracle = oracle
        self._operations: list[tuple[int, Callable[[], Act]]] = [
            (14, self._note),
            (10, self._fact),
            (8, self._message),
            (3, self._messages),
            (4, self._many),
            (3, self._raw),
            (6, self._entity),
            (5, self._relate),
            (3, self._unrelate),
            (8, self._delete),
            (2, self._delete_where),
            (2, self._purge),
            (7, self._undo),
            (4, self._mark),
            (5, self._feedback),
            (6, self._touch),
            (5, self._amend),
            (2, self._recall),
            (1, self._reindex),
            (2, self._build),
            (2, self._cache),
            (1, self._scoped),
            (1, self._tidy),
        ]

    # -- what operations are made of -------------------------------------------------------

    def some(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def words(self, most: int = 8) -> str:
        count = self.random.randint(1, most)
        # Few words are common and many are rare, as in any language.
        listed = [WORDS[int(len(WORDS) * self.random.random() ** 1.7)] for _ in range(count)]
        return " ".join(listed)

    def text(self) -> str:
        if self.random.random() < 0.6:
            return self.words(25)
        parts = [f"# {self.words(3)}\n\n{self.words(40)}\n\n" * 1 for _ in range(4)]
        return "".join(parts) + self.words(200)

    def project(self) -> str:
        return self.random.choices(PROJECTS, (6, 2, 1))[0]

    def documents(self) -> list[Document]:
        return self.oracle.store.scan(EVERYTHING, by_writing=True)

    def any_document(self) -> Document | None:
        documents = self.documents()
        return self.random.choice(documents) if documents else None

    def passages(self, most: int = 4) -> list[str]:
        """Ids of some passages."""
        documents = self.documents()
        chosen = self.random.sample(documents, min(len(documents), most))
        listed = [self.oracle.store.passages(row.id) for row in chosen]
        return [passages[0].id for passages in listed if passages]

    def _tags(self) -> tuple[str, ...]:
        return tuple(self.random.sample(TAGS, self.random.choice([0, 0, 1, 2, 3])))

    def moment(self) -> int:
        return NOW + self.random.randint(-40, 40) * DAY_MS

    def named(self) -> str:
        """A name: mostly of something, by id, key, passage, prefix or text of an entity."""
        row = self.any_document()
        if row is None or self.random.random() < 0.1:
            return str(self.some(*KEYS, *ENTITIES, "nothing"))
        names = [row.id, row.id[:7], f"{row.doc_id}-0", *([row.key] if row.key else [])]
        passages = self.oracle.store.passages(row.id)
        if passages:
            names.append(self.random.choice(passages).id)
        return self.random.choice(names)

    def _entity_names(self) -> list[str]:
        known = [row.key for row in self.documents() if row.kind == "entity" and row.key]
        return known or list(ENTITIES[:2])

    # -- operations ------------------------------------------------------------------------

    def operation(self) -> tuple[str, Act]:
        weights = [weight for weight, _ in self._operations]
        [(_, make)] = self.random.choices(self._operations, weights)
        return make.__name__, make()

    def bulk(self, count: int) -> Act:
        """So many short notes: the engines have other plans for many passages than for few."""
        rows = [
            Document(key=f"bulk-{number}", text=self.words(8), title=self.words(1))
            for number in range(count)
        ]
        return lambda side: side.memory().store_many(rows, allow_secret=True)

    def _note(self) -> Act:
        project, text = self.project(), self.text()
        fields: dict[str, Any] = {
            "key": self.random.choice(KEYS),
            "title": self.words(4) if self.random.random() < 0.6 else "",
            "tags": self._tags(),
            "metadata": {self.words(1): self.words(2)} if self.random.random() < 0.4 else None,
            "summary": self.words(5) if self.random.random() < 0.2 else None,
            "pinned": self.random.random() < 0.1,
            "importance": self.some(None, None, 0.1, 0.9),
            "status": self.some(None, None, "done", "archived"),
            "event_at": self.some(None, self.moment()),
            "trust": self.random.choices(TRUSTS, (8, 2, 1))[0],
            "origin": self.some(None, "user", "agent", "tool"),
            "personal": self.random.random() < 0.2,
            "type": self.some(None, "decision", "ty\0pe"),
        }
        return lambda side: side.memory(project).store(text, **fields, allow_secret=True)

    def _fact(self) -> Act:
        project, text = self.project(), self.words(12)
        row = self.any_document()
        fields: dict[str, Any] = {
            "topic": self.some(None, *TOPICS),
            "entity": self.some(None, None, *ENTITIES),
            "tags": self._tags(),
            "valid_from": self.some(None, None, self.moment()),
            "trust": self.random.choices(TRUSTS, (8, 2, 1))[0],
            "origin": self.some(None, "agent"),
            "supersedes": row.id if row and self.random.random() < 0.2 else None,
            "title": self.some("", "Title\0nul"),
        }
        return lambda side: side.memory(project).store(text, **fields, allow_secret=True)

    def _message(self) -> Act:
        project, text = self.project(), self.words(20) + str(self.some("", "?", "？"))
        fields: dict[str, Any] = {
            "session": self.random.choice(SESSIONS),
            "role": self.some("user", "assistant"),
            "key": self.some(None, None, None, "m1", "m2"),
            "event_at": self.some(None, None, self.moment()),
        }
        return lambda side: side.memory(project).store(text, **fields, allow_secret=True)

    def _messages(self) -> Act:
        project, session = self.project(), self.random.choice(SESSIONS)
        rows = [
            {"role": self.some("user", "assistant"), "content": self.words(15), "id": id_}
            for id_ in self.random.sample(["i1", "i2", "i3", "i4", "i5"], 3)
        ]
        return lambda side: side.memory(project).add_messages(rows, session=session)

    def _many(self) -> Act:
        project = self.project()
        rows = [
            Document(key=self.some(None, *KEYS), text=self.text(), title=self.words(2))
            for _ in range(self.random.randint(1, 6))
        ]
        return lambda side: side.memory(project).store_many(rows, allow_secret=True)

    def _raw(self) -> Act:
        """A document of an import, straight to the store: its passages are as they come."""
        texts = [self.words(10) for _ in range(self.random.randint(0, 4))]
        row = document(
            self.random.choice(FILES),
            "".join(texts),
            kind="file",
            path=self.random.choice(FILES),
            source="/folder",
            title=self.words(3),
            id=f"raw{self.random.randint(100_000_000, 999_999_999)}a",
            metadata={"aliases": self.words(3), self.words(1): "x\0y"},
            session=self.some(None, *SESSIONS),
        )
        passages = [
            Passage(text, self.words(2), 1, 1, 0, place) for place, text in enumerate(texts)
        ]
        with_vectors = self.random.random() < 0.5

        def act(side: Side) -> object:
            embedder = HashingEmbedder(side.dims)
            vectors = embedder.embed(texts, "passage") if with_vectors and texts else ()
            space = embedder.space if vectors else None
            with side.store.transaction() as tx:
                known = tx.known(row)
                kept = row if known is None else row._replace(id=known.id)
                return tx.write(Entry(kept, passages, vectors, space))

        return act

    def _entity(self) -> Act:
        name = self.random.choice(ENTITIES)
        facts = tuple(self.words(10) for _ in range(self.random.randint(0, 3)))
        entity = NewEntity(name, self.some(None, "person"), facts)
        merge = self.random.random() < 0.8
        return lambda side: side.memory().graph.create([entity], merge=merge)

    def _edge(self) -> Relation:
        names = self._entity_names()
        source, target = self.random.choice(names), self.random.choice(names)
        return Relation(source, target, str(self.some("knows", "uses", "nul\0type")))

    def _relate(self) -> Act:
        edge = self._edge()._replace(context=self.some(None, self.words(3)))
        return lambda side: side.memory().graph.relate([edge])

    def _unrelate(self) -> Act:
        known = self.oracle.store.relations(None, EVERYTHING)
        edge = self.random.choice(known) if known else self._edge()
        end = self.some(None, None, self.moment())
        return lambda side: side.memory().graph.unrelate([edge], end=end)

    def _delete(self) -> Act:
        name, project = self.named(), self.project()
        wide = self.random.random() < 0.7
        return lambda side: side.memory(project).delete(name, all_projects=wide)

    def _delete_where(self) -> Act:
        where = {"tags": [self.random.choice(TAGS)]}
        return lambda side: side.memory().delete(where=where)

    def _purge(self) -> Act:
        trashed = self.oracle.store.trashed(texts=False)
        name = self.named()
        if trashed and self.random.random() < 0.5:
            name = self.random.choice(trashed).document.id
        return lambda side: side.memory().delete(name, purge=True, all_projects=True)

    def _undo(self) -> Act:
        trashed = self.oracle.store.trashed(texts=False)
        names = [self.random.choice(trashed).document.id] if trashed else []
        if self.random.random() < 0.5:
            names = []
        project, wide = self.project(), self.random.random() < 0.7
        return lambda side: side.memory(project).undo(*names, all_projects=wide)

    def _mark(self) -> Act:
        name, other = self.named(), self.named()
        changes: dict[str, Any] = self.random.choice(
            [{"status": "done"}, {"status": "active"}, {"superseded_by": other}, {"entity": "Ana"}]
        )
        taken_back = self.random.random() < 0.3

        def act(side: Side) -> object:
            marked = side.memory().mark(name, **changes, all_projects=True)
            if taken_back:
                side.memory().unmark(marked)
            return marked

        return act

    def _feedback(self) -> Act:
        name, verdict = self.named(), self.some("good", "wrong", None)
        return lambda side: side.memory().feedback(name, verdict).id

    def _touch(self) -> Act:
        answers = [self.passages() for _ in range(self.random.randint(1, 3))]

        def act(side: Side) -> None:
            for answer in answers:
                side.memory().used(side.refs(answer))
            side.memory().write_down_use()

        return act

    def _amend(self) -> Act:
        row = self.any_document()
        fields: dict[str, Any] = self.random.choice(
            [
                {"title": self.words(3)},
                {"tags": self._tags()},
                {"pinned": True},
                {"trust": self.some(*TRUSTS)},
                {"event_at": self.moment()},
                {"metadata": {self.words(1): self.words(1)}},
                {"valid_to": self.moment()},
                {"title": self.words(3), "tags": self._tags()},
            ]
        )

        def act(side: Side) -> None:
            with side.store.transaction() as tx:
                tx.amend("none" if row is None else row.id, **fields)

        return act

    def _recall(self) -> Act:
        text = self.words(4)

        def act(side: Side) -> object:
            recalled = side.memory().recall(text)
            side.memory().write_down_use()
            return recalled

        return act

    def _reindex(self) -> Act:
        dims = self.random.choice([64, 96])
        afresh = self.random.random() < 0.3

        def act(side: Side) -> object:
            side.use_embedder(dims)
            return side.memory().reindex(embeddings=afresh)

        return act

    def _build(self) -> Act:
        """A part of a change of the space: begun, some passages filled in, perhaps swapped."""
        dims, count = self.random.choice([64, 96]), self.random.choice([0, 3, 1_000])
        afresh, resume = self.random.random() < 0.5, self.random.random() < 0.7

        def act(side: Side) -> object:
            embedder = HashingEmbedder(dims)
            with side.store.transaction() as tx:
                begun = tx.begin(embedder.space, afresh=afresh, resume=resume)
            waiting = side.store.pending(embedder.space, count, building=True)
            made = embedder.embed([f"{row.title} {row.text}" for row in waiting], "passage")
            with side.store.transaction() as tx:
                rows = list(zip(waiting, made, strict=True))
                filled = tx.fill(embedder.space, rows, building=True)
                swapped = tx.swap(embedder.space)
            if swapped:
                side.use_embedder(dims)
            return begun, filled, swapped, waiting

        return act

    def _cache(self) -> Act:
        names = self.random.sample(["v1", "v2", "v3", "v4", "v5", "v6"], 3)

        def act(side: Side) -> object:
            with side.store.transaction() as tx:
                made = {name: vector(1.0, float(len(name))) for name in names[:2]}
                tx.cache(made, names[2:], 4)
            return side.store.cached(["v1", "v2", "v3", "v4", "v5", "v6"])

        return act

    def _scoped(self) -> Act:
        text, name = self.words(10), str(self.some("user:1", "user:2"))
        return lambda side: side.memory().scope(name).store(text)

    def _tidy(self) -> Act:
        return lambda side: side.store.tidy(keywords=True)
