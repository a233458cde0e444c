"""Rank by use (the limbic score): salience, recency and co-occurrence, as pure arithmetic.

Two scores come from the same history. `rank` is the composite score of mcp-memory, for
``search_semantic``. `weigh` gives the one factor by which plain search multiplies a score after
everything else: use, age, importance, feedback and status together. Its bounds keep it from
overturning the ranking, and `relevance` does not know it. Nothing here reads a clock or a store:
moments are UTC milliseconds, and ``now`` is an argument.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeVar

from plait.protocols import Use
from plait.types import KINDS, Document, DocumentStatus, Kind, Ref, Trust
from plait.types.records import NamedTuple

_Item = TypeVar("_Item", bound=Hashable)

HOUR_MS = 3_600_000
HOURS_PER_DAY = 24

# How far use can change a score of plain search: down by a fifth or up by a quarter. Each is the
# inverse of the other, so a passage below 0.64 of another's score never overtakes it.
LOWEST = 0.8
HIGHEST = 1.25
NEUTRAL = 1.0

# mcp-memory gives a hit without a distance a base within these bounds, by its place among the RRF
# scores: keywords alone neither bury it nor put it on top.
KEYWORD_BASE = 0.2
KEYWORD_SPAN = 0.6

# Days. Conversation ages faster than text that somebody chose to store.
HALF_LIVES: Mapping[Kind, float] = MappingProxyType({"message": 7.0})


class Constants(NamedTuple):
    """The tunable numbers: the first eight are mcp-memory's, the others are for plain search.

    ``half_lives`` gives the decay of a kind in days, above 0; infinity means that it never ages.
    Other kinds decay by ``lambda_hourly``, a half-life of 289 days.
    """

    beta_sal: float = 0.5  # how much importance raises a score
    beta_deg: float = 0.15  # how much relations add to importance
    alpha_cons: float = 0.2  # how much use on many days adds to importance
    d_max: int = 15  # relations beyond this many add nothing
    lambda_hourly: float = 0.0001
    temporal_floor: float = 0.1
    cooc_floor: float = 0.1
    gamma: float = 0.01  # how much co-occurrence raises a score; at 0.1 it dominated
    half_lives: Mapping[Kind, float] = HALF_LIVES
    enabled: bool = True
    use_weight: float = 0.2  # the increase at full use; co-occurrence may add the rest
    age_weight: float = 0.04  # the largest that cost no collection 0.005 nDCG@10 at random ages
    # Full use is fixed: relative to the most-read candidate, a single read could be full use.
    full_reads: int = 20
    full_days: int = 10
    # Half a step each way: whoever stores a text says how much it matters, but not to which query.
    importance_weight: float = 0.1
    # How far feedback goes that is all good or all wrong; the first judgement goes half as far.
    feedback_weight: float = 0.2
    # How much lower what is done, and what is archived, ranks.
    done_cost: float = 0.1
    archived_cost: float = 0.2


DEFAULT_CONSTANTS = Constants()
_HALF_LIFE = "half_life_"


def constants_from(pairs: Iterable[tuple[str, float]]) -> Constants:
    """Return the default constants with changes; ``half_life_KIND`` sets a half-life in days.

    >>> constants_from([("gamma", 0.02), ("half_life_message", 30)]).half_lives["message"]
    30

    Raises:
        ValueError: The name is unknown, or the value is out of range.
    """
    changed: dict[str, Any] = {}
    half_lives: dict[Kind, float] = {**HALF_LIVES}
    for name, number in pairs:
        kind = name.removeprefix(_HALF_LIFE)
        matches = [known for known in KINDS if known == kind and name != kind]
        if matches and number > 0:
            half_lives[matches[0]] = number
        elif name in Constants._fields[:8] + Constants._fields[10:] and number >= 0:
            changed[name] = type(Constants._field_defaults[name])(number)
        else:
            raise ValueError(name)
    return DEFAULT_CONSTANTS._replace(half_lives=half_lives, **changed)


class History(NamedTuple):
    """How a candidate was used, and how old it is.

    ``days`` counts distinct days with a read. ``moment`` is when it happened, else when it was
    created. ``together`` has (count, last time) for each other candidate it was read with.
    ``good`` and ``wrong`` count the feedback.
    """

    reads: int = 0
    days: int = 0
    last_read: int | None = None
    degree: int = 0
    moment: int | None = None
    together: tuple[tuple[int, int], ...] = ()
    good: int = 0
    wrong: int = 0


class EntityCandidate(NamedTuple):
    """A candidate of ``search_semantic``; without ``distance`` it is a hit by keywords only.

    ``rrf`` is 0 for all candidates when no keyword matched: then distances alone give the base.
    """

    history: History = History()
    distance: float | None = None
    rrf: float = 0.0
    kind: Kind = "entity"


class Scoring(NamedTuple):
    """A limbic score, which may exceed 1, and the parts that ``search_semantic`` shows."""

    limbic_score: float
    importance: float
    temporal_factor: float
    cooc_boost: float


class Weight(NamedTuple):
    """The factor of plain search, and the factors whose product it is before its bounds.

    ``stated`` comes from the importance that the document was stored with, ``feedback`` from what
    was judged good or wrong, ``status`` from being done or archived; ``None`` without any.
    """

    factor: float = NEUTRAL
    use: float = NEUTRAL
    together: float = NEUTRAL
    age: float = NEUTRAL
    stated: float | None = None
    feedback: float | None = None
    status: float | None = None

    @property
    def product(self) -> float:
        """The factors multiplied, before the bounds."""
        product = self.use * self.together * self.age
        for factor in (self.stated, self.feedback, self.status):
            product *= NEUTRAL if factor is None else factor
        return product


def history_of(
    document: Document, use: Use | None, among: Collection[Ref] | None = None
) -> History:
    """Combine the use that the store counted for a passage with the age of its document.

    Args:
        document: The passage's document.
        use: How the passage was read.
        among: Count being read together only with these passages; all by default.
    """
    # An entity is as young as the newest of its observations.
    moment = document.updated_at if document.kind == "entity" else document.event_at
    if use is None:
        return History(moment=moment)
    pairs = tuple(times for mate, times in use.together.items() if among is None or mate in among)
    return History(
        use.reads, use.days, use.last_read, use.degree, moment, pairs, use.good, use.wrong
    )


def importance(
    history: History,
    most_reads: int,
    most_days: int,
    constants: Constants = DEFAULT_CONSTANTS,
) -> float:
    """Return the use of a candidate relative to the most used one; relations and days add to it.

    >>> round(importance(History(reads=5, days=1), most_reads=10, most_days=1), 4)
    0.7472
    """
    if most_reads <= 0:
        return 0.0
    reads = math.log2(1 + max(0, history.reads)) / math.log2(1 + most_reads)
    related = min(max(0, history.degree), constants.d_max) / max(1, constants.d_max)
    lasting = (
        math.log2(1 + max(0, history.days)) / math.log2(1 + most_days) if most_days > 1 else 0.0
    )
    return reads * (1 + constants.beta_deg * related) * (1 + constants.alpha_cons * lasting)


def temporal(
    moment: int | None,
    now: int,
    constants: Constants = DEFAULT_CONSTANTS,
    kind: Kind = "entity",
) -> float:
    """Decay with age: 1 when fresh, unknown or in the future, then down to a floor.

    >>> round(temporal(0, 90 * 24 * HOUR_MS), 4)
    0.8057
    """
    return _decay(moment, now, _hourly_rate(kind, constants), constants.temporal_floor)


def cooccurrence(
    together: tuple[tuple[int, int], ...], now: int, constants: Constants = DEFAULT_CONSTANTS
) -> float:
    """Add up how often, and how recently, the other candidates were read with this one.

    >>> round(cooccurrence(((10, 0),), now=0), 4)
    3.4594
    """
    boosts = (
        math.log2(1 + max(0, count))
        * _decay(last, now, constants.lambda_hourly, constants.cooc_floor)
        for count, last in together
    )
    # A file and a server list these in other orders: an exact sum is the same in any.
    return math.fsum(boosts)


def base_relevance(distance: float | None, rrf: float, lowest: float, highest: float) -> float:
    """Score without use: the cosine, or the place between the lowest and the highest RRF score.

    >>> base_relevance(0.1, 0.0, 0.0, 0.0), base_relevance(None, 3.0, 1.0, 3.0)
    (0.9, 0.8)
    """
    if distance is not None:
        return max(0.0, 1.0 - distance)
    return KEYWORD_BASE + KEYWORD_SPAN * (rrf - lowest) / ((highest - lowest) or 1.0)


def rank(
    candidates: Mapping[_Item, EntityCandidate],
    now: int,
    constants: Constants = DEFAULT_CONSTANTS,
) -> list[tuple[_Item, Scoring]]:
    """Score every candidate, best first; equal scores keep the given order."""
    rows = candidates.values()
    most_reads = max((row.history.reads for row in rows), default=0)
    most_days = max((row.history.days for row in rows), default=0)
    lowest = min((row.rrf for row in rows), default=0.0)
    highest = max((row.rrf for row in rows), default=0.0)
    scored: list[tuple[_Item, Scoring]] = []
    for item, row in candidates.items():
        history = row.history
        salience = importance(history, most_reads, most_days, constants)
        last_seen = history.moment if history.last_read is None else history.last_read
        freshness = temporal(last_seen, now, constants, row.kind)
        boost = cooccurrence(history.together, now, constants)
        score = base_relevance(row.distance, row.rrf, lowest, highest) * freshness
        score *= (1 + constants.beta_sal * salience) * (1 + constants.gamma * boost)
        scored.append((item, Scoring(score, salience, freshness, boost)))
    return sorted(scored, key=lambda pair: -pair[1].limbic_score)


def weigh(
    history: History,
    now: int,
    constants: Constants = DEFAULT_CONSTANTS,
    *,
    kind: Kind = "observation",
    trust: Trust = "trusted",
    pinned: bool = False,
    stated: float | None = None,
    status: DocumentStatus | None = None,
) -> Weight:
    """Return the factor of plain search, in 0.8..1.25, with its parts; 1 without history.

    ``stated`` is the importance that the document was stored with, 0 to 1; 0.5 changes nothing.
    Only here do use, age, importance, feedback and status meet, and all of them share the bounds.

    >>> used = History(reads=5, days=3, last_read=0, moment=0)
    >>> round(weigh(used, now=0).factor, 4), weigh(History(moment=0), now=0).factor
    (1.0952, 1.0)
    """
    if not constants.enabled:
        return Weight()
    feedback = _feedback_factor(history, constants, trust)
    if trust != "trusted":
        # An attacker who plants a text can also have it read: reads must not even keep it young.
        history = History(moment=history.moment)
    use = _lift_of_use(history, now, constants, kind)
    together = 1.0 + constants.gamma * cooccurrence(history.together, now, constants)
    age = _cost_of_age(history, now, constants, kind)
    low = NEUTRAL if pinned else LOWEST
    importance_factor = _stated_factor(stated, constants, trust)
    lowered = _status_factor(status, constants)
    weight = Weight(NEUTRAL, use, together, age, importance_factor, feedback, lowered)
    return weight._replace(factor=min(HIGHEST, max(low, weight.product)))


def explain_weight(weight: Weight, history: History) -> str:
    """Explain in one line how use, age, importance, feedback and status changed a score.

    >>> explain_weight(Weight(1.0494, 1.06, 1.0, 0.99), History(reads=3, days=2))
    'limbic x 1.0494: use 1.0600 (3 reads on 2 days), together 1.0000, age 0.9900'
    """
    reads = "1 read" if history.reads == 1 else f"{history.reads} reads"
    days = "1 day" if history.days == 1 else f"{history.days} days"
    product = weight.product
    bound = "" if math.isclose(product, weight.factor) else f", bounded from {product:.4f}"
    others = "" if weight.stated is None else f", importance {weight.stated:.4f}"
    if weight.feedback is not None:
        judged = f"{history.good} good, {history.wrong} wrong"
        others += f", feedback {weight.feedback:.4f} ({judged})"
    if weight.status is not None:
        others += f", status {weight.status:.4f}"
    return (
        f"limbic x {weight.factor:.4f}: use {weight.use:.4f} ({reads} on {days}), "
        f"together {weight.together:.4f}, age {weight.age:.4f}{others}{bound}"
    )


def _stated_factor(stated: float | None, constants: Constants, trust: Trust) -> float | None:
    """Return the factor of the importance that a document was stored with."""
    if stated is None:
        return None
    factor = NEUTRAL + constants.importance_weight * (2.0 * stated - 1.0)
    # Whoever plants a text also says how important it is.
    return factor if trust == "trusted" else min(NEUTRAL, factor)


def _feedback_factor(history: History, constants: Constants, trust: Trust) -> float | None:
    """Return the factor of feedback: its balance, which one more judgement changes less and less.

    >>> used = (History(good=1), History(good=3), History(wrong=1))
    >>> [_feedback_factor(each, DEFAULT_CONSTANTS, "trusted") for each in used]
    [1.1, 1.15, 0.9]
    """
    judged = history.good + history.wrong
    if judged <= 0:
        return None
    balance = (history.good - history.wrong) / (judged + 1)
    factor = max(0.0, NEUTRAL + constants.feedback_weight * balance)
    # Whoever plants a text may also praise it.
    return factor if trust == "trusted" else min(NEUTRAL, factor)


def _status_factor(status: DocumentStatus | None, constants: Constants) -> float | None:
    if status is None or status == "active":
        return None
    cost = constants.done_cost if status == "done" else constants.archived_cost
    return max(0.0, NEUTRAL - cost)


def _lift_of_use(history: History, now: int, constants: Constants, kind: Kind) -> float:
    """Count reads relative to full use, fading with time since the last one."""
    if history.reads <= 0:
        return NEUTRAL  # most passages of most answers
    most_reads = max(constants.full_reads, history.reads, 1)
    most_days = max(constants.full_days, history.days, 2)
    attainable = (1 + constants.beta_deg) * (1 + constants.alpha_cons)
    share = importance(history, most_reads, most_days, constants) / attainable
    return 1.0 + constants.use_weight * share * temporal(history.last_read, now, constants, kind)


def _cost_of_age(history: History, now: int, constants: Constants, kind: Kind) -> float:
    """Lower a score by age since the last read; a file does not age until somebody edits it."""
    if kind == "file":
        return NEUTRAL
    moments = [moment for moment in (history.moment, history.last_read) if moment is not None]
    last_seen = max(moments, default=None)
    return 1.0 - constants.age_weight * (1.0 - temporal(last_seen, now, constants, kind))


def _hourly_rate(kind: Kind, constants: Constants) -> float:
    half_life = constants.half_lives.get(kind)
    if half_life is None:
        return constants.lambda_hourly
    return math.log(2) / (half_life * HOURS_PER_DAY)


def _decay(moment: int | None, now: int, hourly_rate: float, floor: float) -> float:
    # A moment after ``now`` (a clock was set back) is fresh: never more than 1.
    hours = 0.0 if moment is None else max(0, now - moment) / HOUR_MS
    return max(floor, math.exp(-hourly_rate * hours))
