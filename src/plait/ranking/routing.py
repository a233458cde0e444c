"""Seed 002's reading of a query: does it ask for one fact, or does it look around?

A factual query trusts the cosine, an exploring one the limbic score. The phrases are English and
Spanish, the languages of that system's users. Pure arithmetic, without stores or clocks.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Literal, TypeVar

Item = TypeVar("Item", bound=Hashable)
Strategy = Literal["cosine_heavy", "hybrid_balanced", "limbic_heavy"]

# Points per phrase. Written without accents, which people leave out when they type a query.
FACTUAL = (
    *("what is", "who is", "when did", "when was", "where is", "which version", "how many"),
    *("exact", "error code", "port number", "path of", "url of", "name of", "value of"),
    *("que es", "quien es", "cuando fue", "donde esta", "que version", "cuantos", "cuantas"),
    *("exacto", "exacta", "codigo de error", "ruta de", "nombre de", "valor de"),
)
INTERMEDIATE = (
    *("how do", "how to", "how does", "configure", "set up", "install", "steps", "fix"),
    *("como se", "como hacer", "como funciona", "configurar", "instalar", "pasos", "arreglar"),
)
EXPLORATORY = (
    *("tell me about", "anything about", "everything about", "overview", "related to", "ideas"),
    *("what do we know", "explore", "history of", "similar to", "in general", "summary of"),
    *("hablame de", "todo sobre", "algo sobre", "panorama", "relacionado con", "que sabemos"),
    *("explorar", "historia de", "parecido a", "en general", "resumen de"),
)
POINTS = ((FACTUAL, 2), (INTERMEDIATE, 1), (EXPLORATORY, -2))

SHORT_WORDS, LONG_WORDS = 3, 10
SMALL_LIMIT, LARGE_LIMIT = 3, 10
DECISIVE = 2  # points either way

COSINE_SHARE: dict[Strategy, float] = {"cosine_heavy": 0.7, "limbic_heavy": 0.3}

_UNACCENTED = str.maketrans("áéíóúü", "aeiouu")


def points(query: str, limit: int) -> int:
    """How factual a query is: above 0 for one fact, below for looking around.

    >>> points("what is the port number", 5), points("tell me about our deploys", 10)
    (4, -3)
    """
    words = re.findall(r"\w+", query.lower().translate(_UNACCENTED))
    text = f" {' '.join(words)} "
    total = sum(worth for phrases, worth in POINTS for phrase in phrases if f" {phrase} " in text)
    total += (len(words) <= SHORT_WORDS) - (len(words) >= LONG_WORDS)
    return total + (limit <= SMALL_LIMIT) - (limit >= LARGE_LIMIT)


def strategy(query: str, limit: int) -> Strategy:
    """Which score a query should trust.

    >>> strategy("what is the port number", 5), strategy("deploy on fridays and mondays", 5)
    ('cosine_heavy', 'hybrid_balanced')
    """
    total = points(query, limit)
    if total >= DECISIVE:
        return "cosine_heavy"
    return "limbic_heavy" if total <= -DECISIVE else "hybrid_balanced"


def blend(
    scored: Sequence[tuple[Item, float, float | None]], chosen: Strategy
) -> list[tuple[Item, float]]:
    """Mix limbic scores and cosines by strategy, best first; equal scores keep the order given.

    Args:
        scored: Item, limbic score, and cosine distance, ``None`` for a hit by keywords only,
            whose cosine then counts 0.
        chosen: ``hybrid_balanced`` leaves the limbic scores as they are.
    """
    mixed = [(item, limbic) for item, limbic, _ in scored]
    if chosen != "hybrid_balanced" and scored:
        share = COSINE_SHARE[chosen]
        lowest = min(limbic for _, limbic, _ in scored)
        span = (max(limbic for _, limbic, _ in scored) - lowest) or 1.0
        mixed = [
            (item, share * _cosine(distance) + (1 - share) * (limbic - lowest) / span)
            for item, limbic, distance in scored
        ]
    return sorted(mixed, key=lambda pair: -pair[1])


def _cosine(distance: float | None) -> float:
    return 0.0 if distance is None else max(0.0, 1.0 - distance)
