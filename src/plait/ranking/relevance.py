"""How likely a hit is about the question: pure arithmetic on the evidence of one hit.

What counts: the share of the question's telling words that the passage has, which tells the less
the nearer the passage is; whether it has all of them; how rare they are together, and in a small
memory how rare they are in English; how near the passage is; how much of the question its best
sentence says. Nearness is measured against what chance finds: in a large memory something is
always near, and something has any two words. The coefficients were learned by
``training/relevance.py``. Whether a passage on the subject holds the answer, none of this can tell.
"""

import math

from plait.types import WEAK_RELEVANCE, Tuning
from plait.types.queries import LEAST_SPREAD, Chance

# Learned: constant, size of the memory, size x rarity, cover, all words, nearness, best sentence.
LEARNED = (-3.443, -0.605, 0.41, 2.633, 0.0, 0.529, 3.138)
# The same for passages whose sentences were not compared with the question.
LEARNED_FROM_VECTOR = (-3.237, -0.596, 0.448, 4.29, 0.444, 0.692, 0.0)
# The same for a word or two that are looked up: whatever has them is what was asked for.
LEARNED_FROM_LOOKUPS = (-3.157, -0.595, 0.394, 6.053, 1.806, 0.758, 0.0)
# The same from words alone, for passages without a vector.
LEARNED_FROM_WORDS = (-0.269, -0.79, 0.361, 6.152, 0.623, 0.0, 0.0)
# And from nearness alone, for questions whose words the memory does not know, such as those in
# another language: constant, nearness.
LEARNED_FROM_NEARNESS = (-3.443, 0.864)

# Set on XQuAD in seven languages, for a passage in another language than the question: few words
# of the question can be in it, so that neither their rarity nor the size of the memory counts.
# Constant, cover, nearness, best sentence.
ACROSS_LANGUAGES = (-3.69, 2.592, 0.864, 3.456)

# For each e-fold by which the words that a passage has are rarer in English than in so small a
# memory. Chosen on memories of 50 to 2,000 passages, see benchmarks/quality.md.
BY_UNCOMMON = 0.5

# How much nearer the nearest is for each e-fold of passages, in spreads: the median of 40 samples.
NEARER_PER_E_FOLD = 0.5
SAMPLED = 1_000  # passages that an embedder's own numbers are for
# How far a memory's sample may be from its embedder's numbers: the middle, in spreads, and the
# spread, as a factor.
UNUSUAL_SPREADS = 3.0
UNUSUAL_SPREAD = 2.0
# Passages of the smallest memories learned from: fewer say nothing about how rare words are.
SMALLEST = 50
# The size of a memory counts up to here. Chosen on memories of 300,000 that were learned from: with
# all of it fewer of their right answers were told, and 92 instead of 91 % of foreign questions not.
LARGEST = 200_000
# Nearness beyond these, in spreads, tells nothing more.
NEAREST = 8.0
FARTHEST = -3.0
# Set by hand: "run" and "test" are in many a note about something else, which is then farther than
# chance. Few questions of the collections are so short.
FARTHER = 0.7
# Set by hand: a passage without the words that the memory knows must be so much nearer, if nearness
# alone is to tell. A question in another language often has a name or two that are known.
WORDS_KNOWN = 3.0
# Set on the collections learned from: the larger a memory, the more passages are about a question
# without being the one that was meant. Where hits begin to be shown does not depend on it.
LESS_SURE = 0.06  # for each e-fold of passages
# Among so many passages evidence counts as it was learned; in smaller memories it counts more.
SURE_AMONG = 200
FLOOR = math.log(WEAK_RELEVANCE / (1.0 - WEAK_RELEVANCE))
FAR = -1.0  # a passage without any of the words that is no nearer is not shown at all
MOST_RARITY = 4.0
ALL_WORDS = 0.999  # a passage that covers so much has every word that was asked for


def chance_among(sample: Chance | None, tuning: Tuning, passages: int) -> Chance:
    """Return what chance finds among so many passages.

    Args:
        sample: The memory's own, of another size; without one, the embedder's numbers count.
        tuning: The embedder's.
        passages: How many the search may return.
    """
    usual = _among(Chance(tuning.unrelated, tuning.spread, SAMPLED), max(1, passages))
    if sample is None:
        return usual
    own = _among(sample, max(1, passages))
    if tuning.external:
        return own  # models differ too much to know what is usual
    # Notes on the very subjects of the foreign questions, planted or not, must not silence the
    # rest: a sample is believed within what memories of the same embedder have.
    spread = min(max(own.spread, usual.spread / UNUSUAL_SPREAD), usual.spread * UNUSUAL_SPREAD)
    reach = UNUSUAL_SPREADS * usual.spread
    cosine = min(max(own.cosine, usual.cosine - reach), usual.cosine + reach)
    return Chance(cosine, spread, own.passages)


def _among(chance: Chance, passages: int) -> Chance:
    """Return what chance finds among another number of passages."""
    spread = max(LEAST_SPREAD, chance.spread)
    nearer = NEARER_PER_E_FOLD * spread * math.log(passages / max(1, chance.passages))
    return Chance(chance.cosine + nearer, spread, passages)


def nearness(cosine: float, chance: Chance) -> float:
    """Return how much nearer than chance a passage is, in spreads.

    >>> nearness(0.5, Chance(0.25, 0.125, 100))
    2.0
    """
    return min(NEAREST, max(FARTHEST, (cosine - chance.cosine) / chance.spread))


def unlikeliness(covered: float, rarity: float, chance: Chance) -> float:
    """Return how unlikely it is that a passage has these words by chance; 1 if one passage would.

    One passage in ``e ** rarity`` has words of that rarity together, if they have nothing to do
    with each other.
    """
    return math.sqrt(min(MOST_RARITY, covered * rarity / math.log(_size(chance) + 1)))


def relevance(
    covered: float,
    rarity: float,
    cosine: float | None,
    chance: Chance,
    *,
    sentence: float | None = None,
    lookup: bool = False,
    across: bool = False,
    uncommon: float = 0.0,
) -> float:
    """Return how likely a hit is about the question, in 0..1; 0 if nothing speaks for it.

    Args:
        covered: The share of the question's telling words that the passage has, by rarity.
        rarity: The rarity of all of them together; 0 if the memory has none of them.
        cosine: Between question and passage; ``None`` for a passage without a vector.
        chance: What chance finds among as many passages.
        sentence: The share of the question that its best sentence says; ``None`` if not compared.
        lookup: Whether the question is a word or two, and no sentence.
        across: Whether the passage is in another language than the question.
        uncommon: How much rarer its words are in English than a small memory can tell, in e-folds;
            below 0 if they are common.
    """
    near = 0.0 if cosine is None else nearness(cosine, chance)
    if not covered and (cosine is None or near <= FAR):
        return 0.0
    constant, by_nearness = LEARNED_FROM_NEARNESS
    whatever_is_missing = constant + by_nearness * near
    if across and cosine is not None:
        constant, by_cover, by_nearness, by_sentence = ACROSS_LANGUAGES
        by_meaning = by_nearness * near + by_sentence * (sentence or 0.0)
        whatever_is_missing = max(whatever_is_missing, constant + by_cover * covered + by_meaning)
    if not rarity:
        return _share(whatever_is_missing)
    if not across:
        whatever_is_missing -= WORDS_KNOWN
    if cosine is None:
        learned = LEARNED_FROM_WORDS
    elif lookup:
        learned = LEARNED_FROM_LOOKUPS
    else:
        learned = LEARNED_FROM_VECTOR if sentence is None else LEARNED
    constant, by_size, by_rarity, by_cover, by_all, by_nearness, by_sentence = learned
    by_size += by_rarity * unlikeliness(covered, rarity, chance)
    by_words = by_cover * without_nearness(covered, near) + by_all * (covered >= ALL_WORDS)
    by_words += BY_UNCOMMON * uncommon
    by_meaning = by_nearness * near + FARTHER * min(0.0, near) + by_sentence * (sentence or 0.0)
    size = learned_size(chance)
    by_all_of_it = constant + by_size * size + by_words + by_meaning
    above = max(by_all_of_it, whatever_is_missing) - FLOOR
    if above > 0.0:
        above *= 1.0 - LESS_SURE * (size - math.log(SURE_AMONG))
    return _share(FLOOR + above)


def without_nearness(covered: float, near: float) -> float:
    """Return how much the share of the words tells beside nearness: the nearer, the less.

    >>> [without_nearness(0.5, near) for near in (0.0, 4.0, NEAREST)]
    [0.5, 0.25, 0.0]
    """
    return covered * (1.0 - near / NEAREST)


def learned_size(chance: Chance) -> float:
    """Return the logarithm of the size of a memory, as far as its meaning was learned."""
    return math.log(min(_size(chance), LARGEST))


def _size(chance: Chance) -> int:
    return max(SMALLEST, chance.passages)


def _share(logit: float) -> float:
    return 1.0 / (1.0 + math.exp(-logit))


# No word is known, and nothing is much nearer than chance finds: better no answer than any.
NONSENSE = relevance(0.0, 0.0, 1.0, Chance(0.0, 1.0, 1))
