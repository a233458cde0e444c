"""Measure `plait review` on a generated memory with known repeats and contradictions.

Run: python benchmarks/review.py [PASSAGES]. It prints precision and recall of duplicates and of
contradictions (kinds ``contradiction`` and ``outdated``), and the CPU time of the whole review. The
memory is made up by a fixed seed: facts about services, people and places, pairs that repeat or
contradict each other in several ways, and as many that only look like it.
"""

import random
import resource
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from plait import Memory
from plait.memory.review import review
from plait.times import DAY_MS
from plait.types import Document

SEED = 12
START = 1_700_000_000_000  # November 2023: nobody has read any of it since
SYLLABLES = (
    "ba",
    "be",
    "bi",
    "bo",
    "ka",
    "ke",
    "lo",
    "lu",
    "ma",
    "mi",
    "no",
    "nu",
    "pa",
    "ri",
    "ro",
    "sa",
    "ta",
    "te",
    "vo",
    "zu",
)
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
MONTHS = ("January", "February", "March", "April", "June", "July")
# Templates with a thing, and one value; the words behind | are another way to say it.
TEMPLATES = (
    ("The {0} service listens on port {n}", "The {0} service answers on port {n}"),
    (
        "The {0} team meets on {d}s in the small room",
        "The {0} team gathers on {d}s in the small room",
    ),
    (
        "The contract with {0} ends on {n} {m} 2026",
        "The contract with {0} finishes on {n} {m} 2026",
    ),
    ("The {0} database keeps {n} days of history", "The {0} db keeps {n} days of history"),
    ("{0} likes to review code before noon on {d}s", "{0} likes to check code before noon on {d}s"),
    ("The nightly backup of {0} begins at {h}:00", "The nightly backup of {0} starts at {h}:00"),
    (
        "The licence of {0} costs {n} euros per seat",
        "The licence of {0} costs {n} euros for each seat",
    ),
    ("Invoices from {0} are due after {n} days", "Bills from {0} are due after {n} days"),
    (
        "The {0} cluster has {n} large machines in Oslo",
        "The {0} cluster has {n} big machines in Oslo",
    ),
    (
        "We buy paper and ink for {0} every {n} weeks",
        "We purchase paper and ink for {0} every {n} weeks",
    ),
)
NOTHING_NEW = (
    "{0} prefers short answers with an example at the end",
    "The owner of {0} is the platform group in Lisbon",
    "Ask the {0} people before changing the shared schema",
    "The {0} prototype was dropped because it was too slow",
)
PROSE = (
    "the report was read by several people and nobody had a remark about it",
    "after lunch the group walked along the river and talked about the plan",
    "a long discussion about colours ended without any decision at all",
    "the old printer in the hall makes a noise when it wakes up",
    "some pages of the manual are still missing and will be written later",
)


class Made(NamedTuple):
    """A generated memory: its documents, and which pairs of keys in their metadata were planted."""

    documents: list[Document]
    repeats: set[frozenset[str]]
    contradictions: set[frozenset[str]]


class _Maker:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names: set[str] = set()
        self.documents: list[Document] = []
        self.repeats: set[frozenset[str]] = set()
        self.contradictions: set[frozenset[str]] = set()

    def name(self) -> str:
        """Return a name that nothing else has."""
        while True:
            name = "".join(self._random.choices(SYLLABLES, k=5)).capitalize()
            if name not in self._names:
                self._names.add(name)
                return name

    def add(self, text: str, day: float, **fields: str) -> str:
        """Add a fact and return its mark."""
        mark = f"m{len(self.documents)}"
        moment = START + round(day * DAY_MS)
        self.documents.append(
            Document(
                kind="observation",
                text=text,
                metadata={"mark": mark},
                event_at=moment,
                created_at=moment,
                updated_at=moment,
                **fields,  # type: ignore[arg-type]
            )
        )
        return mark

    def values(self) -> dict[str, object]:
        """Return one value of each kind."""
        return {
            "n": self._random.randrange(11, 29),
            "d": self._random.choice(DAYS),
            "m": self._random.choice(MONTHS),
            "h": self._random.randrange(1, 9),
        }

    def other_values(self, values: dict[str, object]) -> dict[str, object]:
        """Return values that all differ from these, but for the month."""
        while True:
            fresh = {**self.values(), "m": values["m"]}
            if all(fresh[name] != values[name] for name in "ndh"):
                return fresh

    def plain(self) -> None:
        """Add a fact that nothing repeats."""
        if self._random.random() < 0.5:
            self.add(self._random.choice(NOTHING_NEW).format(self.name()), self._day())
        else:
            template, _ = self._random.choice(TEMPLATES)
            self.add(template.format(self.name(), **self.values()), self._day())

    def _day(self) -> float:
        return self._random.uniform(0, 300)

    def repeat(self, way: int) -> None:
        """Add a fact twice: spelt otherwise, with a filler, with a word more, or reworded."""
        template, reworded = self._random.choice(TEMPLATES)
        name, values = self.name(), self.values()
        text = template.format(name, **values)
        again = (
            text.lower() + ".",
            f"Note that {text[0].lower()}{text[1:]} now",
            f"{text}, as agreed",
            reworded.format(name, **values),
        )[way % 4]
        self.repeats.add(frozenset((self.add(text, self._day()), self.add(again, self._day()))))

    def contradict(self, way: int) -> None:
        """Add a fact and one that it cannot be true with: another value, a denial, reworded."""
        template, reworded = self._random.choice(TEMPLATES)
        name, values = self.name(), self.values()
        first, day = template.format(name, **values), self._day()
        fresh = self.other_values(values)
        second = (
            template.format(name, **fresh),
            f"{template.format(name, **fresh)} now",
            _denied(first),
            reworded.format(name, **fresh),
        )[way % 4]
        pair = (self.add(first, day), self.add(second, day + (way % 3) * 20))
        self.contradictions.add(frozenset(pair))

    def mislead(self, way: int) -> None:
        """Add facts that look alike and are not about the same thing."""
        template, _ = self._random.choice(TEMPLATES)
        values, day = self.values(), self._day()
        match way % 4:
            case 0:  # one sentence, two things
                for _ in range(2):
                    self.add(template.format(self.name(), **values), day)
            case 1:  # numbered things
                name = self.name()
                for number in (3, 4):
                    self.add(f"Server {number} of {name} has {values['n']} GB of memory", day)
            case 2:  # a series of measurements
                name = self.name()
                for step in range(6):
                    self.add(f"The {name} run took {700 + 13 * step} seconds", day + step)
            case _:  # another project
                name = self.name()
                for project in ("north", "south"):
                    fields = {"project": project}
                    self.add(template.format(name, **self.values()), day, **fields)

    def note(self, size: int) -> None:
        """Add a long note, of prose that states nothing."""
        lines = [f"{self._random.choice(PROSE).capitalize()} ({self.name()})." for _ in range(size)]
        mark = f"m{len(self.documents)}"
        moment = START + round(self._day() * DAY_MS)
        self.documents.append(
            Document(
                kind="note",
                key=f"notes/{mark}.md",
                text="\n\n".join(lines),
                metadata={"mark": mark},
                event_at=moment,
            )
        )

    def later_note(self) -> None:
        """Add a fact, and a long note of later days that has another value."""
        template, _ = self._random.choice(TEMPLATES)
        name, values = self.name(), self.values()
        day = self._day()
        fact = self.add(template.format(name, **values), day)
        self.note(12)
        note = self.documents[-1]
        sentence = template.format(name, **self.other_values(values))
        text = note.text.replace("\n\n", f"\n\n{sentence}. ", 1)
        moment = START + round((day + 30) * DAY_MS)
        self.documents[-1] = note._replace(text=text, event_at=moment)
        self.contradictions.add(frozenset((fact, note.metadata["mark"])))


def _denied(text: str) -> str:
    for verb in (" likes ", " keeps ", " costs ", " has ", " meets ", " ends ", " listens "):
        if verb in text:
            return text.replace(verb, f" does not{verb.rstrip('s ')} ", 1)
    for verb in (" begins ", " are "):
        if verb in text:
            return text.replace(verb, f"{verb}not ", 1)
    return text.replace("We buy", "We do not buy", 1)


def make(passages: int, seed: int = SEED) -> Made:
    """Return a memory of about so many passages; a tenth of its facts repeat or contradict."""
    maker = _Maker(seed)
    tenth = max(4, passages // 40)
    for way in range(tenth):
        maker.repeat(way)
        maker.contradict(way)
        maker.mislead(way)
        if way % 4 == 0:
            maker.later_note()
    while len(maker.documents) < passages * 0.7:
        maker.plain()
    for _ in range(passages // 29):
        maker.note(120)
    return Made(maker.documents, maker.repeats, maker.contradictions)


class Quality(NamedTuple):
    """Precision and recall."""

    precision: float
    recall: float


def judge(memory: Memory, made: Made, limit: int = 1_000) -> tuple[Quality, Quality]:
    """Return how well a review finds the repeats, and the contradictions."""
    kinds = ("duplicate", "contradiction", "outdated")
    items = review(memory, kinds, limit=limit, all_projects=True).items
    ids = {id_ for item in items for id_ in item.ids}
    marks = {row.id: row.metadata["mark"] for row in memory.engine.load(list(ids))}
    pairs: dict[bool, set[frozenset[str]]] = {True: set(), False: set()}
    for item in items:
        pairs[item.kind == "duplicate"].add(frozenset(marks[id_] for id_ in item.ids))
    return _quality(pairs[True], made.repeats), _quality(pairs[False], made.contradictions)


def _quality(pairs: set[frozenset[str]], planted: set[frozenset[str]]) -> Quality:
    right = len(pairs & planted)
    return Quality(right / max(1, len(pairs)), right / max(1, len(planted)))


def main() -> None:
    """Print the figures."""
    passages = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    made = make(passages)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(Path(folder) / "memory.db", project="", embedder="builtin") as memory,
    ):
        memory.store_many(made.documents)
        stats = memory.stats()
        before = resource.getrusage(resource.RUSAGE_SELF)
        whole = review(memory, limit=1_000, all_projects=True)
        after = resource.getrusage(resource.RUSAGE_SELF)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        repeats, contradictions = judge(memory, made)
    sys.stdout.write(
        f"{stats.chunk_count:,} passages, {stats.doc_count:,} documents\n"
        f"review: {cpu:.2f} s CPU, {dict(whole.counts)}\n"
        f"duplicates: precision {repeats.precision:.3f}, recall {repeats.recall:.3f} "
        f"({len(made.repeats)} planted)\n"
        f"contradictions: precision {contradictions.precision:.3f}, "
        f"recall {contradictions.recall:.3f} ({len(made.contradictions)} planted)\n"
    )


if __name__ == "__main__":
    main()
