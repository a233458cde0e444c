"""Random questions about a memory, drawn from the same seed as the operations on it."""

from typing import Any

from plait.protocols import Candidate
from plait.testing.hashing import HashingEmbedder
from plait.text import parse
from plait.types import TRUSTS, Filter, Space
from plait.types.audit import AuditQuery
from plait.types.queries import Query
from tests.builders import EVERYTHING
from tests.contracts.operations import KEYS, KINDS, SESSIONS, TAGS, TOPICS, TYPOS, Act, Operations
from tests.contracts.test_agreement import has_empty_minuend
from tests.contracts.twins import Side


class Course(Operations):
    """A random course of operations and questions."""

    def question(self) -> str:
        """The text of a query: words, phrases, prefixes, operators, repeated and misspelt words."""
        text = self._question()
        unclear = has_empty_minuend(self.oracle.store, parse(text).expression)
        return self.words(4) if unclear else text

    def _question(self) -> str:
        first, second, third = self.words(1), self.words(1), self.words(1)
        return str(
            self.some(
                self.words(4),
                f"{first} {first} {second}",
                f'"{first} {second}"',
                f'+"{first} {second}" {third}',
                f"{first[:3]}*",
                f"{first} AND {second}",
                f"{first} OR {second} NOT {third}",
                f"({first} OR {second}) AND NOT {third}",
                f"{first} NOT {second}",
                f"NEAR({first} {second}, {self.random.randint(1, 9)})",
                self.random.choice(TYPOS),
                f"{self.random.choice(TYPOS)} {second}",
                self.words(30),
                f"what is the {first} of {second}?",
            )
        )

    def filter(self) -> Filter:
        row = self.any_document()
        choices: dict[str, Any] = {
            "projects": self.some((None,), (None, "heron"), ("plover",)),
            "kinds": tuple(self.random.sample(KINDS, 2)),
            "tags": tuple(self.random.sample(TAGS, self.random.choice([1, 1, 2, 6]))),
            "keys": tuple(self.random.sample(KEYS, 2)),
            "key_prefix": self.some("note", "n", "日", "nul\0", "nai"),
            "path_prefix": self.some("a/", "n"),
            "source": self.some("/folder", "entity"),
            "session": self.random.choice(SESSIONS),
            "origins": (self.some("user", "agent"),),
            "trusts": tuple(self.random.sample(TRUSTS, self.random.randint(1, 3))),
            "statuses": (self.some("active", "done"),),
            "metadata": tuple(row.metadata.items()) if row else (),
            "since": self.moment(),
            "until": self.moment(),
            "as_of": self.moment(),
            "all_versions": True,
            "parents": (row.parent,) if row and row.parent else ("none",),
            "topics": (self.random.choice(TOPICS),),
            "pinned": self.random.random() < 0.5,
            "scopes": False,
            "named": (self.words(1), "note"),
            "mentions": (self.words(1), self.words(2)),
            "types": ("ty\0pe", "decision"),
        }
        count = self.random.choice([0, 0, 1, 1, 1, 2, 3])
        return Filter(**{name: choices[name] for name in self.random.sample([*choices], count)})

    def questions(self) -> list[tuple[str, Act]]:
        """A few of the questions that cost little, each about something else."""
        text, where, limit = self.question(), self.filter(), self.random.choice([3, 10, 200])
        query = parse(text)
        words = [self.words(1) for _ in range(3)] + [self.random.choice(TYPOS)]
        seen_by = self.some(None, self.filter())
        names = [self.named() for _ in range(3)]
        also = self.passages(6)
        return [
            (f"keyword {text!r} {where} {limit}", lambda side: keyword(side, query, limit, where)),
            (
                f"local {text!r} {where}",
                lambda side: keyword(side, query._replace(local=True), limit, where),
            ),
            (
                f"rarest {text!r} {where}",
                lambda side: keyword(side, query._replace(rarest=True), limit, where),
            ),
            (f"vector {text!r} {where}", lambda side: nearest(side, text, limit, where, also)),
            *self._searches(text, where),
            (
                f"vocabulary {words} {where} {seen_by}",
                lambda side: [
                    side.store.vocabulary(words, prefixes=words[:1], seen_by=seen_by),
                    side.store.vocabulary(words, where),
                ],
            ),
            (f"alike {words} {where}", lambda side: alike(side, words, where)),
            (f"find {names}", lambda side: [side.store.find(name, EVERYTHING) for name in names]),
            (f"scan {where}", lambda side: scans(side, where)),
            (f"stats {where}", lambda side: side.store.stats(where)),
        ]

    def _searches(self, text: str, where: Filter) -> list[tuple[str, Act]]:
        options: dict[str, Any] = {
            "mode": self.some("hybrid", "hybrid", "keyword", "vector"),
            "limit": self.some(5, 10, 50),
            "explain": True,
            "strict": self.random.random() < 0.2,
            "diverse": self.random.random() < 0.3,
            "best_per_document": self.random.random() < 0.3,
            "fusion": self.some(None, None, "rrf", "max"),
            "window": self.some(0, 0, 1),
            "offset": self.some(0, 0, 5),
        }
        project = self.project()
        return [
            (
                f"search {text!r} {options} {where}",
                lambda side: side.memory(project).search(text, where=where, **options),
            ),
            (f"search {text!r}", lambda side: side.memory(project).search(text)),
        ]

    def whole(self) -> list[tuple[str, Act]]:
        """Questions about all that there is."""
        documents = self.documents()
        ids = [row.id for row in documents]
        return [
            ("state", lambda side: side.store.state()),
            ("stats", lambda side: side.memory().stats()),
            ("load", lambda side: side.store.load(ids)),
            ("passages", lambda side: [side.store.passages(id_) for id_ in ids]),
            ("candidates", lambda side: candidates(side, ids)),
            ("trash", lambda side: side.store.trashed()),
            ("bare trash", lambda side: side.store.trashed(texts=False)),
            ("distrusted", lambda side: side.store.trashed(distrusted=3)),
            ("audit", lambda side: side.store.audit(AuditQuery(), 100)),
            ("relations", lambda side: side.store.relations(None, EVERYTHING)),
            ("relations of", lambda side: side.store.relations(ids[:40], Filter())),
            ("steps", lambda side: side.store.steps(EVERYTHING)),
            ("successors", lambda side: side.store.successors(ids)),
            ("known", lambda side: side.store.known(documents)),
            ("overview", lambda side: side.memory().overview()),
            ("graph", lambda side: side.memory().graph.read()),
            ("timeline", lambda side: side.memory().timeline(limit=200, all_projects=True)),
            ("check", lambda side: {row for row in side.store.check() if row.level != "ok"}),
        ]


def keyword(side: Side, query: Query, limit: int, where: Filter) -> object:
    return side.scored(side.store.keyword(query, limit, where))


def alike(side: Side, words: list[str], where: Filter) -> object:
    # A word without any may be absent.
    return {word: rows for word, rows in side.store.alike(words, where).items() if rows}


def nearest(side: Side, text: str, limit: int, where: Filter, also: list[str]) -> object:
    embedder = HashingEmbedder(side.dims)
    [made] = embedder.embed([text], "query")
    if made is None:
        return None
    refs, space, other = side.refs(also), embedder.space, Space("other", "model", side.dims)
    return [
        side.nearest(side.store.vector(made, space, limit, where, also=refs), limit),
        side.nearest(side.store.vector(made, space, limit, where, latest=True), limit),
        side.nearest(side.store.vector(made, other, limit, where), limit),
    ]


def scans(side: Side, where: Filter) -> object:
    store = side.store
    newest = store.scan(where, limit=5)
    oldest = store.scan(where, limit=5, after=(0, ""))
    pages = []
    if newest:
        last = newest[-1]
        cursor = (last.event_at or 0, last.id)
        pages = [store.scan(where, before=cursor), store.scan(where, after=cursor)]
    turns = store.scan(where, by_turn=True)
    if turns:
        middle = turns[len(turns) // 2].place
        pages += [
            store.scan(where, by_turn=True, before=middle, limit=3),
            store.scan(where, by_turn=True, after=middle, limit=3),
        ]
    return newest, oldest, pages, turns, store.scan(where, by_writing=True, whole=True)


def candidates(side: Side, ids: list[str]) -> object:
    """What ranking knows about every passage, named by ids."""
    refs = [passage.ref for id_ in ids for passage in side.store.passages(id_)]
    rows = side.store.hydrate(refs, ranking=True)
    names = {ref: row.passage.id for ref, row in rows.items()}
    parents = {row.document.parent for row in rows.values() if row.document.parent is not None}
    titles = {row.id: row.title for row in side.store.load(sorted(parents))}

    def named(row: Candidate) -> object:
        if row.entity is None and row.document.parent is not None:
            # A store that is near reads the name of the parent only where it is shown.
            row = row._replace(entity=titles.get(row.document.parent))
        if row.use is None:
            return row
        together = {names[ref]: times for ref, times in row.use.together.items()}
        return row._replace(use=None), row.use._replace(together={}), together

    turns = side.store.turns(refs)
    return [(named(rows[ref]), turns.get(ref)) for ref in refs]
