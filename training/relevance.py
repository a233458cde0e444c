"""Learn and measure how likely a hit is about the question.

Each subject is stored in memories of several sizes, and asked its own questions and those of other
subjects. ``fit`` learns the coefficients of `plait.ranking.relevance` from the first hits, and
writes them there; ``measure`` prints, for collections that are not fitted on, how often recall is
silent on foreign questions and answers its own, and the calibration error. Needs only plait.

    python training/relevance.py fit --eval ../shared/eval --train ../shared/train --processes 16
    python training/relevance.py measure --eval ../shared/eval --train ../shared/train --size 30000
"""

import argparse
import json
import lzma
import math
import random
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import NamedTuple

from plait.evaluate.collections import load_collection
from plait.memory import Memory
from plait.ranking import hybrid, relevance
from plait.searching.recall import DEFAULT_RECALLED
from plait.text import parse
from plait.text.english import empty_words
from plait.types import WEAK_RELEVANCE, Document, Hit
from plait.types.queries import Chance

SOURCE = Path(__file__).parent.parent / "src" / "plait" / "ranking" / "relevance.py"
SIZES = (50, 400, 2000)
PADDED = 30_000
PADDED_FURTHER = 300_000
QUESTIONS = 120
LARGE_QUESTIONS = 300
# Own questions whose first hit is not the judged one count this much: many of these hits are right,
# since collections judge few passages, and nearly all are about the question.
UNSURE = 0.3
LOOKED_UP = 0.15  # how much looking up a word or two counts beside the questions of a memory
RIDGE = 1e-4
BINS = 10
COVER, NEARNESS = 3, 5  # the places of their coefficients
LARGE = 3.0  # few of the memories are large: each counts for so many
# How much the own questions of a memory count beside the foreign ones, up to a size: so that about
# as many foreign questions pass the default floor at every size.
OWN_WEIGHTS = {10_000: 1.3, 100_000: 0.7, 10_000_000: 3.5}
# The same for questions without a known word: nearly all of these are foreign.
OWN_WORDLESS = 0.3
PADDING = (
    "wikipedia_en_heading_passage",
    "docs_mdn_en",
    "docs_kubernetes_multi",
    "arxiv_title_abstract",
    "docs_github",
    "docs_postgres_git",
    "wikipedia_zh_title_passage",
    "docs_mdn_translated",
)
KEPT_FOR_QUESTIONS = 7_000  # rows at the beginning of a file that are never used as padding


class Asked(NamedTuple):
    """A question and the keys of the documents that answer it."""

    text: str
    answers: frozenset[str]


class Subject(NamedTuple):
    """Texts by key, and questions about them."""

    texts: dict[str, tuple[str, str]]
    questions: list[Asked]


class Row(NamedTuple):
    """The evidence of one first hit; ``right`` is what the number should tell."""

    own: bool
    right: bool
    covered: float
    rarity: float
    cosine: float | None
    chance: Chance
    weight: float = 1.0
    best: float = 0.0
    lookup: bool = False
    sentence: float | None = None

    @property
    def relevance(self) -> float:
        """What plait says."""
        if self.rarity < 0:
            return 0.0  # no hit at all
        return relevance.relevance(
            *(self.covered, self.rarity, self.cosine, self.chance),
            sentence=self.sentence,
            lookup=self.lookup,
        )


# -- subjects ------------------------------------------------------------------------------


def pairs(
    path: Path, most: int, chosen: Callable[[list[str]], bool] = bool, skip: int = 0
) -> Subject:
    """Read a file of question, passage and language."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        rows = (line.rstrip("\n").split("\t") for line in file)
        wanted = (row for row in rows if len(row) == 3 and row[1].strip() and chosen(row))
        listed = list(islice(wanted, skip, skip + most))
    keys = [f"{path.stem}/{number + skip}" for number in range(len(listed))]
    return Subject(
        {key: ("", row[1]) for key, row in zip(keys, listed, strict=True)},
        [Asked(row[0], frozenset([key])) for key, row in zip(keys, listed, strict=True)],
    )


class Data:
    """Loads subjects by name, each once."""

    def __init__(self, collections: Path, training: Path) -> None:
        self._collections = collections
        self._training = training
        self._loaded: dict[str, Subject] = {}

    def __getitem__(self, name: str) -> Subject:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> Subject:
        if name.startswith("across "):
            # Questions of one language, passages of another.
            first, second = name.split()[1:]
            return Subject(self[second].texts, self[first].questions)
        if (self._collections / name).is_dir():
            collection = load_collection(str(self._collections / name))
            texts = {row.key or "": (row.title, row.text) for row in collection.documents}
            questions = [
                Asked(row.text, frozenset(key for key, grade in row.grades.items() if grade > 0))
                for row in collection.questions
            ]
            return Subject(texts, questions)
        file, _, language = name.partition(":")
        path = self._training / f"{file}.tsv.xz"
        if file == "docs_crosslingual_sections":
            languages = ("de", "es", "fr", "ru", "zh", "pt")
            return pairs(
                path,
                3_000,
                lambda row: row[1].isascii() and len(row[0]) <= 70 and row[2][:2] in languages,
            )
        return pairs(path, 6_000, lambda row: row[2].startswith(language))

    def padding(self, most: int, without: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
        """Yield texts on many subjects."""
        files = [name for name in PADDING if not any(name in other for other in without)]
        for left, name in zip(range(len(files), 0, -1), reversed(files), strict=True):
            share = -(-most // left)
            path = self._training / f"{name}.tsv.xz"
            texts = pairs(path, share, skip=KEPT_FOR_QUESTIONS).texts
            yield from texts.items()
            most -= len(texts)


# -- asking --------------------------------------------------------------------------------


def ask_all(
    data: Data,
    name: str,
    size: int,
    others: Sequence[str],
    *,
    count: int = QUESTIONS,
    padded: int = 0,
    learns: bool = True,
) -> list[Row]:
    """Store a subject, padded to a size; ask its own questions and those of others."""
    dice = random.Random(f"{name} {size}")
    texts, own = chosen(data[name], size, count, dice)
    with (
        tempfile.TemporaryDirectory() as folder,
        Memory.open(f"{folder}/m.db", project="") as memory,
    ):
        store(memory, texts.items())
        if padded:
            store(memory, data.padding(padded - memory.stats().chunk_count, [name, *others]))
        rows = [ask(memory, question, own=True) for question in own]
        for other in others:
            foreign = data[other].questions
            for question in dice.sample(foreign, min(len(foreign), -(-count // len(others)))):
                rows.append(ask(memory, question._replace(answers=frozenset())))
        if learns:
            rows += looked_up(memory, own, dice)
        print(
            f"{name} {memory.stats().chunk_count:,}: {len(own)} own, "
            f"{sum(row.right for row in rows)} right, {len(rows) - len(own)} foreign, "
            f"{memory.engine.state().chance}",
            flush=True,
        )
    return rows


def looked_up(memory: Memory, own: Sequence[Asked], dice: random.Random) -> list[Row]:
    """Ask for a word or two that the memory knows: whatever has them is what was asked for."""
    rows = []
    for number, question in enumerate(own):
        words = parse(question.text).words
        vocabulary = memory.engine.vocabulary(words)
        known = [
            word
            for word in words
            if word not in empty_words()
            and any(vocabulary.holding.get(term) for _, _, term in vocabulary.terms[word])
        ]
        wanted = dice.sample(known, min(len(known), 1 + number % 2))
        if wanted:
            row = ask(memory, Asked(" ".join(wanted), frozenset()))
            if row.covered >= relevance.ALL_WORDS:
                rows.append(row._replace(right=True, lookup=True))
    return rows


def weight_of(row: Row) -> float:
    """Return the weight of all the questions of this kind in a memory."""
    passages = row.chance.passages
    of_memory = LARGE if passages > min(OWN_WEIGHTS) else 1.0
    if row.lookup:
        return of_memory * LOOKED_UP
    if not row.own:
        return of_memory
    own = next(weight for size, weight in OWN_WEIGHTS.items() if passages <= size)
    return of_memory * own * (1.0 if row.right else UNSURE)


def weighed(rows: Sequence[Row], weight: Callable[[Row], float] = weight_of) -> list[Row]:
    """Return the rows with weights: the questions of one kind in a memory share theirs."""
    counts = Counter((row.chance, row.own, row.lookup) for row in rows)  # each memory has its own
    return [
        row._replace(weight=weight(row) / counts[row.chance, row.own, row.lookup]) for row in rows
    ]


def chosen(
    subject: Subject, size: int, count: int, dice: random.Random
) -> tuple[dict[str, tuple[str, str]], list[Asked]]:
    """Return about as many texts as asked for, and questions that some of them answer."""
    questions = dice.sample(subject.questions, len(subject.questions))
    kept: dict[str, None] = {}
    own: list[Asked] = []
    for question in questions:
        more = question.answers - kept.keys()
        if len(own) < count and len(kept) + len(more) <= 0.9 * size:
            kept.update(dict.fromkeys(sorted(more)))
            own.append(question)
    rest = [key for key in subject.texts if key not in kept]
    dice.shuffle(rest)
    keys = [*kept, *rest[: max(0, size - len(kept))]]
    return {key: subject.texts[key] for key in keys}, own


def store(memory: Memory, texts: Iterable[tuple[str, tuple[str, str]]]) -> None:
    """Store texts as `plait eval` does."""
    memory.store_many(
        Document(key=key, kind="message", session=key, title=title, text=text)
        for key, (title, text) in texts
        if text.strip()
    )


def ask(memory: Memory, question: Asked, *, own: bool = False) -> Row:
    """Return the evidence of the first hit."""
    answer = memory.search(question.text, limit=10)
    state = memory.engine.state()
    words = parse(question.text).words
    vocabulary = memory.engine.vocabulary(words)
    telling = [word for word in words if word not in empty_words()] or words
    terms = {term for word in telling for _, _, term in vocabulary.terms[word]}
    rarities = hybrid.rarities(terms, vocabulary.passages, vocabulary.holding)
    rarity = hybrid.rarity(rarities, vocabulary.holding)
    chance = relevance.chance_among(state.chance, memory.embedder.tuning, vocabulary.passages)
    # What recall looks at: it is silent if all of them are weak.
    best = max((hit.relevance for hit in answer[:DEFAULT_RECALLED]), default=0.0)
    if not answer:
        return Row(own, False, 0.0, -1.0, None, chance, best=best)
    first: Hit = answer[0]
    right = first.document.key in question.answers
    covered, cosine = first.signals.coverage, first.signals.cosine
    sentence = first.signals.sentence
    return Row(own, right, covered, rarity, cosine, chance, best=best, sentence=sentence)


# -- learning ------------------------------------------------------------------------------


def from_sentence(row: Row) -> list[float]:
    """Return what the coefficients are multiplied with, in the order of the module."""
    constant, size, rarity, cover, _, near, _ = from_vector(row)
    return [constant, size, rarity, cover, 0.0, near, row.sentence or 0.0]


def from_vector(row: Row) -> list[float]:
    """Return the same for a passage whose sentences were not compared."""
    return evidence(row, relevance.nearness(row.cosine or 0.0, row.chance))


def from_words(row: Row) -> list[float]:
    """Return the same for a passage without a vector."""
    return evidence(row, 0.0)


def evidence(row: Row, near: float) -> list[float]:
    """Return what words, size and nearness tell."""
    size = relevance.learned_size(row.chance)
    rarity = relevance.unlikeliness(row.covered, row.rarity, row.chance)
    cover = relevance.without_nearness(row.covered, near)
    return [1.0, size, size * rarity, cover, float(row.covered >= relevance.ALL_WORDS), near, 0.0]


def from_nearness(row: Row) -> list[float]:
    """Return the same for a question whose words are unknown."""
    return [1.0, relevance.nearness(row.cosine or 0.0, row.chance)]


def learned(
    rows: Sequence[Row],
    features: Callable[[Row], list[float]],
    given: Callable[[Row], float] = lambda row: 0.0,
) -> tuple[float, ...]:
    """Return the coefficients of a logistic regression, by Newton's method."""
    table = [(features(row), given(row), float(row.right), row.weight) for row in rows]
    size, total = len(table[0][0]), sum(weight for *_, weight in table)
    weights = [0.0] * size
    for _ in range(30):
        slope = [0.0] + [-RIDGE * total * weight for weight in weights[1:]]
        curve = [[RIDGE * total * (i == j > 0) for j in range(size)] for i in range(size)]
        for values, by_hand, right, weight in table:
            share = 1.0 / (1.0 + math.exp(-by_hand - sum(map(float.__mul__, weights, values))))
            for i in range(size):
                slope[i] += weight * (right - share) * values[i]
                for j in range(size):
                    curve[i][j] += weight * share * (1.0 - share) * values[i] * values[j]
        weights = [a + b for a, b in zip(weights, solved(curve, slope), strict=True)]
    return tuple(round(weight, 3) for weight in weights)


def monotone(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """Return coefficients by which a passage that has words is not worse for being nearer."""
    values = list(coefficients)
    least = math.ceil(1000 * values[COVER] / relevance.NEAREST + 1) / 1000
    values[NEARNESS] = max(values[NEARNESS], least)
    return tuple(values)


def farther(row: Row) -> float:
    """Return what counts against a passage by hand, whatever is learned."""
    return relevance.FARTHER * min(0.0, relevance.nearness(row.cosine or 0.0, row.chance))


def balanced(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with weights by which all own questions together have their share."""
    totals = {own: sum(row.weight for row in rows if row.own == own) for own in (True, False)}
    share = {True: OWN_WORDLESS, False: 1.0}
    return [row._replace(weight=row.weight * share[row.own] / totals[row.own]) for row in rows]


def solved(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solve a small system of linear equations."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for place in range(len(rows)):
        best = max(range(place, len(rows)), key=lambda number: abs(rows[number][place]))
        rows[place], rows[best] = rows[best], rows[place]
        pivot = rows[place]
        for number, row in enumerate(rows):
            if number != place:
                factor = row[place] / pivot[place]
                rows[number] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return [row[-1] / row[place] for place, row in enumerate(rows)]


def write(name: str, coefficients: tuple[float, ...]) -> None:
    """Write coefficients into the module."""
    text = SOURCE.read_text(encoding="utf-8")
    text = re.sub(rf"^{name} = \(.*\)$", f"{name} = {coefficients}", text, flags=re.MULTILINE)
    SOURCE.write_text(text, encoding="utf-8")


# -- measuring -----------------------------------------------------------------------------


def calibration_error(rows: Sequence[Row]) -> float:
    """Return the expected calibration error, own and foreign questions counting half each."""
    bins: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        weight = 0.5 / sum(other.own == row.own for other in rows)
        place = min(BINS - 1, int(row.relevance * BINS))
        bins.setdefault(place, []).append((weight, row.relevance - row.right))
    return sum(abs(sum(weight * off for weight, off in part)) for part in bins.values())


def report(name: str, size: int, rows: Sequence[Row]) -> None:
    """Print a row of the table."""
    right = [row for row in rows if row.right]
    foreign = [row for row in rows if not row.own]
    own = [row for row in rows if row.own]
    floors = (0.2, WEAK_RELEVANCE, 0.3)
    told = " | ".join(
        f"{sum(row.best < floor for row in foreign) / len(foreign):.3f} / "
        f"{sum(row.best >= floor for row in right) / len(right):.3f}"
        for floor in floors
    )
    print(
        f"| {name} | {size:,} | {len(foreign)} | {len(right)} of {len(own)} | {told} "
        f"| {calibration_error(rows):.3f} |",
        flush=True,
    )


ENGLISH = ("cosqa_dev", "cranfield", "friendsqa_dev_utterances", "qmsum_val", "medquad_qa")
SPOKEN = ("friendsqa_dev_utterances", "qmsum_val")
# Subject, and what its foreign questions are from.
FITTED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("medquad_qa", (*ENGLISH[:4], "docs_postgres_git", "arxiv_title_abstract")),
    ("arxiv_title_abstract", (*ENGLISH[1:], "docs_github")),
    ("wikipedia_en_heading_passage", ("cosqa_dev", "cranfield", *SPOKEN)),
    ("docs_github", (*ENGLISH[1:], "arxiv_title_abstract")),
    ("docs_postgres_git", (*ENGLISH[1:], "arxiv_title_abstract")),
    ("cosqa_dev", (*ENGLISH[1:], "arxiv_title_abstract")),
    ("cranfield", ("cosqa_dev", *ENGLISH[2:], "docs_github")),
    ("jaquad_dev", ("docs_mdn_translated:ja",)),
    ("wikipedia_zh_title_passage", ("docs_mdn_translated:zh",)),
    ("docs_mdn_translated:es", ("wikipedia_en_heading_passage",)),
    ("docs_crosslingual_sections", ("jaquad_dev", "wikipedia_zh_title_passage")),
)
# Those that are padded, and asked about conversations besides.
FITTED_LARGE = {
    PADDED: (
        *("medquad_qa", "jaquad_dev", "cosqa_dev"),
        *("arxiv_title_abstract", "docs_github", "wikipedia_en_heading_passage"),
    ),
    PADDED_FURTHER: ("medquad_qa", "jaquad_dev", "cosqa_dev"),
}
MEASURED: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("squad_dev", ENGLISH),
    ("scifact", (*ENGLISH[:4], "squad_dev")),
    ("xquad_en", ENGLISH),
    ("xquad_es", ("docs_mdn_translated:es",)),
    ("xquad_ru", ("docs_mdn_translated:ru",)),
    ("xquad_zh", ("docs_mdn_translated:zh", "wikipedia_zh_title_passage")),
)


def main() -> None:
    """Learn or measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("act", choices=["fit", "measure"])
    parser.add_argument("--eval", type=Path, required=True)
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--size", type=int, action="append", help="of the memories to measure")
    parser.add_argument("--only", action="append", help="measure only these")
    parser.add_argument("--rows", type=Path, help="keep the evidence here, or read it from here")
    parser.add_argument("--processes", type=int, default=1, help="that gather evidence at once")
    arguments = parser.parse_args()
    data = Data(arguments.eval, arguments.train)
    if arguments.act == "fit":
        rows = gathered(data, arguments.rows, arguments.processes)
        hits = [row for row in weighed(rows) if row.cosine is not None]
        known = [row for row in hits if row.rarity]
        asked = [row for row in known if not row.lookup]
        compared = [row for row in asked if row.sentence is not None]
        write("LEARNED", monotone(learned(compared, from_sentence, farther)))
        write("LEARNED_FROM_VECTOR", monotone(learned(asked, from_vector, farther)))
        write("LEARNED_FROM_LOOKUPS", monotone(learned(known, from_vector, farther)))
        write("LEARNED_FROM_WORDS", learned(known, from_words))
        # From any hit without a word: questions of which not one word is known are too few.
        alike = weighed(rows, lambda row: 1.0)
        wordless = [row for row in alike if row.cosine is not None and not row.covered]
        write("LEARNED_FROM_NEARNESS", learned(balanced(wordless), from_nearness))
        print(SOURCE.read_text(encoding="utf-8").partition("# Learned")[2].partition("\n\n")[0])
        return
    for size in arguments.size or (50, 2000):
        for name, others in MEASURED:
            if arguments.only and name not in arguments.only:
                continue
            large = size > len(data[name].texts) * 1.5
            if large and name.startswith("xquad") and not arguments.only:
                continue
            foreign, padded = (SPOKEN, size) if large else (others, 0)
            rows = ask_all(data, name, size, foreign, count=200, padded=padded, learns=False)
            report(name, size, rows)


class Asking(NamedTuple):
    """One memory to gather evidence from."""

    data: Data
    name: str
    size: int
    others: Sequence[str]
    questions: int = QUESTIONS
    padded: int = 0


def gather(asking: Asking) -> list[Row]:
    """Return the evidence of one memory."""
    data, name, size, others, questions, padded = asking
    return ask_all(data, name, size, others, count=questions, padded=padded)


def gathered(data: Data, kept: Path | None, processes: int) -> list[Row]:
    """Return the evidence of all fitted subjects; read it from a file where it was kept."""
    if kept is not None and kept.exists():
        lines = kept.read_text(encoding="utf-8").splitlines()
        listed = [Row(*json.loads(line)) for line in lines]
        return [row._replace(chance=Chance(*row.chance)) for row in listed]
    memories = [  # the slowest first
        Asking(data, name, SIZES[-1], SPOKEN, LARGE_QUESTIONS, size)
        for size, names in sorted(FITTED_LARGE.items(), reverse=True)
        for name in names
    ]
    memories += [Asking(data, name, size, others) for size in SIZES for name, others in FITTED]
    with Pool(processes) as pool:
        rows = [row for listed in pool.imap(gather, memories, chunksize=1) for row in listed]
    if kept is not None:
        kept.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return rows


if __name__ == "__main__":
    main()
