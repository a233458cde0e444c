"""Explain a hit's score in lines whose numbers add up to it."""

from plait.ranking.hybrid import Fused, SecondLook
from plait.ranking.relevance import nearness
from plait.types import Signals
from plait.types.queries import Chance


def explain_score(
    fused: Fused,
    relevance: float,
    signals: Signals,
    chance: Chance,
    look: SecondLook | None = None,
    *,
    across: bool = False,
    uncommon: float = 0.0,
) -> tuple[str, ...]:
    """List the contributions, the score they add up to, and the evidence for the relevance.

    ``look`` is what a second look told, for those that got one. ``across``: the passage is in
    another language than the query.
    """
    lines = []
    if fused.keyword is not None:
        detail = _keyword_detail(signals)
        lines.append(_line("keyword", fused.keyword, fused.keyword_share, detail))
    if fused.vector is not None:
        lines.append(_line("vector", fused.vector, fused.vector_share, _vector_detail(signals)))
    if fused.neighbours:
        lines.append(f"neighbours {fused.neighbours:.4f} (messages before and after it)")
    if fused.cover:
        lines.append(f"words {fused.cover:.4f} ({_words_detail(signals, look)})")
    if fused.sentence:
        lines.append(
            f"sentence {fused.sentence:.4f} ({signals.sentence:.0%} of the query, by the words of "
            "its best sentence)"
        )
    lines.append(f"score {fused.score:.4f}")
    words = ", ".join(signals.matched) or "none"
    matching = f"matching words {words} ({signals.coverage:.0%})"
    if uncommon:
        matching += f", {'rare' if uncommon > 0 else 'common'} in English ({uncommon:+.1f})"
    near = _nearness(signals.cosine, chance)
    if signals.sentence is not None:
        near += f"; {signals.sentence:.0%} of the query in its best sentence"
    if across:
        near += "; in another language, so that missing words do not count against it"
    lines.append(f"relevance {relevance:.2f}: {matching}{near}")
    return tuple(lines)


def _line(name: str, value: float, share: float, detail: str) -> str:
    product = f"{value:.4f} x {share:.4f} = {value * share:.4f}" if share != 1.0 else f"{value:.4f}"
    return f"{name} {product}{detail}"


def _words_detail(signals: Signals, look: SecondLook | None) -> str:
    """Return which share of the query's words counts, and whose words they are."""
    detail = f"{signals.coverage:.0%} of the query's words, by rarity"
    if look is None:
        return detail
    if look.document > max(look.coverage, look.with_messages):
        return f"{detail}; {look.document:.0%} with the other passages of its document"
    if look.with_messages > look.coverage:
        return f"{detail}; {look.around:.0%} with the messages around it, which count half"
    return detail


def _nearness(cosine: float | None, chance: Chance) -> str:
    if cosine is None:
        return "; no vector"
    spreads = nearness(cosine, chance)
    side = "above" if spreads >= 0 else "below"
    return (
        f"; cosine {abs(spreads):.1f} spreads {side} chance "
        f"({chance.cosine:.3f} ± {chance.spread:.3f} among {chance.passages:,})"
    )


def _keyword_detail(signals: Signals) -> str:
    if signals.bm25 is None:
        return " (not among the keyword candidates)"
    return f" (bm25 {signals.bm25:.3f}, rank {signals.keyword_rank})"


def _vector_detail(signals: Signals) -> str:
    if signals.cosine is None:
        return " (vector pending: median of the others)"
    if signals.vector_rank is None:
        return f" (cosine {signals.cosine:.3f}, not among the vector candidates)"
    return f" (cosine {signals.cosine:.3f}, rank {signals.vector_rank})"
