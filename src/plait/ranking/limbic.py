"""Ranking that learns from use: salience, recency and co-occurrence, as pure arithmetic.

Two readings of one history. `rank` is the composite score of seed 002, for ``search_semantic``;
`factor` nudges the scores of plain search and cannot turn an answer upside down. Nothing here reads
a clock or a store: moments are UTC milliseconds, and ``now`` is an argument.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from plait.types import KINDS, Document, Kind, Trust

Item = TypeVar("Item", bound=Hashable)

HOUR_MS = 3_600_000
HOURS_PER_DAY = 24

# What history may do to a score of plain search: a fifth down or a quarter up, one the inverse of
# the other, so that a passage below 0.64 of another's score never overtakes it.
LOWEST = 0.8
HIGHEST = 1.25
NEUTRAL = 1.0

# Seed 002 gives a hit without a distance a base inside these bounds, by its place among the RRF
# scores: neither buried nor on top by keywords alone.
KEYWORD_BASE = 0.2
KEYWORD_SPAN = 0.6

# Days. Talk ages faster than what somebody chose to keep.
HALF_LIVES: Mapping[Kind, float] = MappingProxyType({"message": 7.0})


class Constants(NamedTuple):
    """What can be tuned; the first eight are seed 002's, the last four belong to plain search.

    ``half_lives`` says the decay in days for a kind, above 0, infinity meaning "never"; kinds that
    it does not name decay by ``lambda_hourly``, a half-life of 289 days.
    """

    beta_sal: float = 0.5  # how much importance lifts a score
    beta_deg: float = 0.15  # how much relations add to importance
    alpha_cons: float = 0.2  # how much use on many days adds to importance
    d_max: int = 15  # relations beyond this many add nothing
    lambda_hourly: float = 0.0001
    temporal_floor: float = 0.1
    cooc_floor: float = 0.1
    gamma: float = 0.01  # how much co-occurrence lifts a score; at 0.1 it decided alone
    half_lives: Mapping[Kind, float] = HALF_LIVES
    enabled: bool = True
    use_weight: float = 0.2  # the lift of what is in full use; co-occurrence may add the rest
    age_weight: float = 0.04  # the most that cost no collection 0.005 nDCG@10 at random ages
    # Fixed marks of full use: against the most-read candidate, one stray read would be full use.
    full_reads: int = 20
    full_days: int = 10


DEFAULTS = Constants()
_HALF_LIFE = "half_life_"


def constants_from(pairs: Iterable[tuple[str, float]]) -> Constants:
    """The usual constants with some of them changed, a half-life in days by ``half_life_KIND``.

    >>> constants_from([("gamma", 0.02), ("half_life_message", 30)]).half_lives["message"]
    30

    Raises:
        ValueError: There is no such constant, or no half-life of that length.
    """
    changed: dict[str, Any] = {}
    half_lives: dict[Kind, float] = {**HALF_LIVES}
    for name, number in pairs:
        kind = name.removeprefix(_HALF_LIFE)
        matches = [one for one in KINDS if one == kind and name != kind]
        if matches and number > 0:
            half_lives[matches[0]] = number
        elif name in Constants._fields[:8] + Constants._fields[10:] and number >= 0:
            changed[name] = type(Constants._field_defaults[name])(number)
        else:
            raise ValueError(name)
    return DEFAULTS._replace(half_lives=half_lives, **changed)


class Use(NamedTuple):
    """The history of one candidate.

    ``days`` counts distinct days with a read; ``moment`` is when it happened, else when it was
    created; ``together`` holds (count, last time) for each other candidate it was read with.
    """

    reads: int = 0
    days: int = 0
    last_read: int | None = None
    degree: int = 0
    moment: int | None = None
    together: tuple[tuple[int, int], ...] = ()


class Candidate(NamedTuple):
    """What ``search_semantic`` knows of an item; no ``distance`` means that only keywords found it.

    ``rrf`` is 0 for everyone when no keyword answered: then distances alone decide the base.
    """

    use: Use = Use()
    distance: float | None = None
    rrf: float = 0.0
    kind: Kind = "entity"


class Scoring(NamedTuple):
    """A limbic score, which may exceed 1, and the pieces that ``search_semantic`` shows."""

    limbic_score: float
    importance: float
    temporal_factor: float
    cooc_boost: float


class Weight(NamedTuple):
    """A factor of plain search, and the three factors whose product it is before its bounds."""

    factor: float = NEUTRAL
    use: float = NEUTRAL
    together: float = NEUTRAL
    age: float = NEUTRAL


def history(
    ref: int,
    document: Document,
    reads: Mapping[int, Sequence[Any]],
    together: Mapping[tuple[int, int], tuple[int, int]],
) -> Use:
    """What a store knows of a passage's use, with what its document says of its age.

    ``reads`` holds (reads, days, last read, degree) of each passage, ``together`` (times, last) of
    each pair. An entity is as young as the last thing that was said of it.
    """
    company = tuple(times for pair, times in together.items() if ref in pair)
    moment = document.updated_at if document.kind == "entity" else document.event_at
    return Use(*reads.get(ref, ()))._replace(moment=moment, together=company)


def importance(use: Use, most_reads: int, most_days: int, constants: Constants = DEFAULTS) -> float:
    """How much an item is used beside the most used one; relations and many days add to it.

    >>> round(importance(Use(reads=5, days=1), most_reads=10, most_days=1), 4)
    0.7472
    """
    if most_reads <= 0:
        return 0.0
    reads = math.log2(1 + max(0, use.reads)) / math.log2(1 + most_reads)
    related = min(max(0, use.degree), constants.d_max) / max(1, constants.d_max)
    lasting = math.log2(1 + max(0, use.days)) / math.log2(1 + most_days) if most_days > 1 else 0.0
    return reads * (1 + constants.beta_deg * related) * (1 + constants.alpha_cons * lasting)


def temporal(
    moment: int | None, now: int, constants: Constants = DEFAULTS, kind: Kind = "entity"
) -> float:
    """What time has left of a moment: 1 when fresh, unknown or in the future, then down to a floor.

    >>> round(temporal(0, 90 * 24 * HOUR_MS), 4)
    0.8057
    """
    return _faded(moment, now, _hourly_rate(kind, constants), constants.temporal_floor)


def cooccurrence(
    together: tuple[tuple[int, int], ...], now: int, constants: Constants = DEFAULTS
) -> float:
    """Sum over the other candidates of how often, and how lately, they were read with this one.

    >>> round(cooccurrence(((10, 0),), now=0), 4)
    3.4594
    """
    return sum(
        math.log2(1 + max(0, count))
        * _faded(last, now, constants.lambda_hourly, constants.cooc_floor)
        for count, last in together
    )


def base_relevance(distance: float | None, rrf: float, lowest: float, highest: float) -> float:
    """Relevance before use counts: the cosine, or the place between the lowest and highest RRF.

    >>> base_relevance(0.1, 0.0, 0.0, 0.0), base_relevance(None, 3.0, 1.0, 3.0)
    (0.9, 0.8)
    """
    if distance is not None:
        return max(0.0, 1.0 - distance)
    return KEYWORD_BASE + KEYWORD_SPAN * (rrf - lowest) / ((highest - lowest) or 1.0)


def rank(
    candidates: Mapping[Item, Candidate], now: int, constants: Constants = DEFAULTS
) -> list[tuple[Item, Scoring]]:
    """Every candidate with its limbic score, best first; equal scores keep the order given."""
    most_reads = max((one.use.reads for one in candidates.values()), default=0)
    most_days = max((one.use.days for one in candidates.values()), default=0)
    lowest = min((one.rrf for one in candidates.values()), default=0.0)
    highest = max((one.rrf for one in candidates.values()), default=0.0)
    scored: list[tuple[Item, Scoring]] = []
    for item, one in candidates.items():
        salient = importance(one.use, most_reads, most_days, constants)
        seen = one.use.moment if one.use.last_read is None else one.use.last_read
        fresh = temporal(seen, now, constants, one.kind)
        boost = cooccurrence(one.use.together, now, constants)
        score = base_relevance(one.distance, one.rrf, lowest, highest) * fresh
        score *= (1 + constants.beta_sal * salient) * (1 + constants.gamma * boost)
        scored.append((item, Scoring(score, salient, fresh, boost)))
    return sorted(scored, key=lambda pair: -pair[1].limbic_score)


def factor(
    use: Use,
    now: int,
    constants: Constants = DEFAULTS,
    *,
    kind: Kind = "observation",
    trust: Trust = "trusted",
    pinned: bool = False,
) -> float:
    """What history makes of a score in plain search: a factor in 0.8..1.25, 1 without history.

    >>> used = Use(reads=5, days=3, last_read=0, moment=0)
    >>> round(factor(used, now=0), 4), factor(Use(moment=0), now=0)
    (1.0952, 1.0)
    """
    return weigh(use, now, constants, kind=kind, trust=trust, pinned=pinned).factor


def weigh(
    use: Use,
    now: int,
    constants: Constants = DEFAULTS,
    *,
    kind: Kind = "observation",
    trust: Trust = "trusted",
    pinned: bool = False,
) -> Weight:
    """The `factor` with its parts, for ``--explain``."""
    if not constants.enabled:
        return Weight()
    if trust != "trusted":
        # Whoever plants a text can also have it read: its use must not even keep it young.
        use = Use(moment=use.moment)
    used = _lift_of_use(use, now, constants, kind)
    together = 1.0 + constants.gamma * cooccurrence(use.together, now, constants)
    age = _cost_of_age(use, now, constants, kind)
    low = NEUTRAL if pinned else LOWEST
    return Weight(min(HIGHEST, max(low, used * together * age)), used, together, age)


def explain(weight: Weight, use: Use) -> str:
    """One line that says what history did to a score.

    >>> explain(Weight(1.0494, 1.06, 1.0, 0.99), Use(reads=3, days=2))
    'limbic x 1.0494: use 1.0600 (3 reads on 2 days), together 1.0000, age 0.9900'
    """
    reads = "1 read" if use.reads == 1 else f"{use.reads} reads"
    days = "1 day" if use.days == 1 else f"{use.days} days"
    product = weight.use * weight.together * weight.age
    bound = "" if math.isclose(product, weight.factor) else f", bounded from {product:.4f}"
    return (
        f"limbic x {weight.factor:.4f}: use {weight.use:.4f} ({reads} on {days}), "
        f"together {weight.together:.4f}, age {weight.age:.4f}{bound}"
    )


def _lift_of_use(use: Use, now: int, constants: Constants, kind: Kind) -> float:
    """Reads count against a fixed mark and fade after the last one."""
    most_reads = max(constants.full_reads, use.reads, 1)
    most_days = max(constants.full_days, use.days, 2)
    attainable = (1 + constants.beta_deg) * (1 + constants.alpha_cons)
    share = importance(use, most_reads, most_days, constants) / attainable
    return 1.0 + constants.use_weight * share * temporal(use.last_read, now, constants, kind)


def _cost_of_age(use: Use, now: int, constants: Constants, kind: Kind) -> float:
    """A read makes young again; a file is as true as on its first day until somebody edits it."""
    if kind == "file":
        return NEUTRAL
    known = [moment for moment in (use.moment, use.last_read) if moment is not None]
    seen = max(known, default=None)
    return 1.0 - constants.age_weight * (1.0 - temporal(seen, now, constants, kind))


def _hourly_rate(kind: Kind, constants: Constants) -> float:
    half_life = constants.half_lives.get(kind)
    if half_life is None:
        return constants.lambda_hourly
    return math.log(2) / (half_life * HOURS_PER_DAY)


def _faded(moment: int | None, now: int, hourly_rate: float, floor: float) -> float:
    # A clock that was set back, or a moment yet to come, is fresh: never more than 1.
    hours = 0.0 if moment is None else max(0, now - moment) / HOUR_MS
    return max(floor, math.exp(-hourly_rate * hours))
