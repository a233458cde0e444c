"""The reasons of a hit are readable and add up to its score."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ranking.explain import explain_score
from plait.ranking.hybrid import Fused, SecondLook, max_fusion, rerank, rrf, weighted
from plait.types import Fusion, Signals
from plait.types.queries import Chance

NAMES = st.sampled_from("abcdef")
KEYWORD = st.none() | st.dictionaries(NAMES, st.floats(0.01, 50.0), max_size=6)
COSINES = st.none() | st.dictionaries(NAMES, st.floats(0.01, 1.0), max_size=6)
FUSIONS = st.sampled_from(["weighted", "rrf", "max"])
CHANCE = Chance(0.25, 0.125, 1_000)


def added_up(lines: tuple[str, ...]) -> float:
    """Add up the contributions as a reader would with a pencil."""
    total = 0.0
    for line in lines:
        if line.startswith(("keyword ", "vector ", "neighbours ", "words ")):
            numbers = line.split(" (")[0].split(" ")
            total += float(numbers[-1])
            if len(numbers) > 2:
                value, share = float(numbers[1]), float(numbers[3])
                assert value * share == pytest.approx(float(numbers[-1]), abs=0.006)
    return total


def fuse(
    fusion: Fusion,
    keyword: dict[str, float] | None,
    cosines: dict[str, float] | None,
    weights: tuple[float, float],
) -> dict[str, Fused]:
    ranked = None if keyword is None else sorted(keyword.items(), key=lambda pair: -pair[1])
    near = None if cosines is None else sorted(cosines.items(), key=lambda pair: -pair[1])
    if fusion == "rrf":
        return rrf(ranked, near)
    if fusion == "max":
        return max_fusion(ranked, near, keyword_weight=weights[0], vector_weight=weights[1])
    return weighted(
        ranked,
        cosines,
        list(dict.fromkeys([*(keyword or ()), *(cosines or ())])),
        keyword_weight=weights[0],
        vector_weight=weights[1],
    )


@given(FUSIONS, KEYWORD, COSINES, st.sampled_from([0.0, 0.25, 0.3, 0.5, 0.6, 1.0]))
def test_the_contributions_add_up_to_the_score(
    fusion: Fusion,
    keyword: dict[str, float] | None,
    cosines: dict[str, float] | None,
    weight: float,
) -> None:
    for fused in fuse(fusion, keyword, cosines, (weight, 1.0 - weight)).values():
        lines = explain_score(fused, 0.5, Signals(bm25=1.0, cosine=0.5), CHANCE)
        [total] = [line for line in lines if line.startswith("score ")]
        assert float(total.split()[1]) == pytest.approx(fused.score, abs=1e-4)
        assert added_up(lines) == pytest.approx(fused.score, abs=2e-4)


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        (
            Signals(keyword=1.0, bm25=3.25, keyword_rank=2, vector=0.5, cosine=0.4, vector_rank=7),
            ["keyword 1.0000 x 0.6000 = 0.6000 (bm25 3.250, rank 2)",
             "vector 0.5000 x 0.4000 = 0.2000 (cosine 0.400, rank 7)"],
        ),
        (
            Signals(keyword=0.0, vector=1.0, cosine=0.9, vector_rank=1),
            ["keyword 0.0000 x 0.6000 = 0.0000 (not among the keyword candidates)",
             "vector 1.0000 x 0.4000 = 0.4000 (cosine 0.900, rank 1)"],
        ),
        (
            Signals(keyword=1.0, bm25=1.0, keyword_rank=1, vector=0.5, cosine=0.4),
            ["keyword 1.0000 x 0.6000 = 0.6000 (bm25 1.000, rank 1)",
             "vector 0.5000 x 0.4000 = 0.2000 (cosine 0.400, not among the vector candidates)"],
        ),
        (
            Signals(keyword=1.0, bm25=1.0, keyword_rank=1, vector=0.5),
            ["keyword 1.0000 x 0.6000 = 0.6000 (bm25 1.000, rank 1)",
             "vector 0.5000 x 0.4000 = 0.2000 (vector pending: median of the others)"],
        ),
        (
            Signals(keyword=1.0, bm25=1.0, keyword_rank=1),
            ["keyword 1.0000 (bm25 1.000, rank 1)"],
        ),
        (Signals(), []),
    ],
)  # fmt: skip
def test_each_line_names_its_signal_and_where_it_came_from(
    signals: Signals, expected: list[str]
) -> None:
    alone = signals.vector is None
    fused = Fused(0.5, signals.keyword, signals.vector, 1.0 if alone else 0.6, 0.4)
    lines = explain_score(fused, 0.9, signals, CHANCE)
    assert [line for line in lines if re.match("keyword|vector", line)] == expected


def test_neighbours_and_words_are_listed_before_the_score() -> None:
    fused = Fused(0.75, 0.5, None, 0.8, neighbours=0.1, cover=0.25)
    lines = explain_score(
        fused, 0.9, Signals(keyword=0.5, bm25=1.0, keyword_rank=1, coverage=0.625), CHANCE
    )
    assert lines[1:4] == (
        "neighbours 0.1000 (messages before and after it)",
        "words 0.2500 (62% of the query's words, by rarity)",
        "score 0.7500",
    )
    assert added_up(lines) == pytest.approx(0.75)


@pytest.mark.parametrize(
    ("look", "told"),
    [
        (SecondLook(0.5), ""),
        (SecondLook(0.5, document=0.5, around=0.5), ""),
        (SecondLook(0.5, document=0.8), "; 80% with the other passages of its document"),
        (
            SecondLook(0.5, document=0.8, around=1.0),
            "; 80% with the other passages of its document",
        ),
        (SecondLook(0.5, around=0.8), "; 80% with the messages around it, which count half"),
        (
            SecondLook(0.5, document=0.6, around=0.8),
            "; 80% with the messages around it, which count half",
        ),
    ],
)
def test_words_that_others_have_are_told_apart(look: SecondLook, told: str) -> None:
    fused = rerank([Fused(0.5, 0.5, None)], [look])[0]
    lines = explain_score(fused, 0.9, Signals(keyword=0.5, coverage=0.5), CHANCE, look)
    [line] = [line for line in lines if line.startswith("words ")]
    assert line == f"words {fused.cover:.4f} (50% of the query's words, by rarity{told})"


@pytest.mark.parametrize(
    ("matched", "words"),
    [((), "matching words none (0%)"), (("key", "ssh"), "matching words key, ssh")],
)
def test_the_last_line_tells_the_evidence(matched: tuple[str, ...], words: str) -> None:
    signals = Signals(keyword=1.0, matched=matched, coverage=0.5 if matched else 0.0)
    lines = explain_score(Fused(1.0, 1.0, None), 0.25, signals, CHANCE)
    assert lines[-1].startswith("relevance 0.25")
    assert words in lines[-1]


@pytest.mark.parametrize(
    ("cosine", "told"),
    [
        (0.5, "; cosine 2.0 spreads above chance (0.250 ± 0.125 among 1,000)"),
        (0.125, "; cosine 1.0 spreads below chance (0.250 ± 0.125 among 1,000)"),
        (None, "; no vector"),
    ],
)
def test_the_last_line_compares_the_cosine_with_chance(cosine: float | None, told: str) -> None:
    lines = explain_score(Fused(1.0, 1.0, None), 0.25, Signals(cosine=cosine), CHANCE)
    assert lines[-1].endswith(told)


def test_the_last_line_tells_what_the_best_sentence_says() -> None:
    signals = Signals(cosine=0.5, sentence=0.427)
    lines = explain_score(Fused(1.0, 1.0, None), 0.25, signals, CHANCE)
    assert lines[-1].endswith("; 43% of the query in its best sentence")


def test_a_passage_in_another_language_says_so() -> None:
    lines = explain_score(Fused(1.0, 1.0, None), 0.3, Signals(cosine=0.3), CHANCE, across=True)
    assert lines[-1].endswith(
        "; in another language, so that missing words do not count against it"
    )
