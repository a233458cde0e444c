"""Explain a hit's score in lines whose numbers add up to it."""

from plait.ranking.hybrid import Fused
from plait.types import Signals


def explain_score(fused: Fused, relevance: float, signals: Signals) -> tuple[str, ...]:
    """List the contributions, the score they add up to, and the evidence for the relevance."""
    lines = []
    if fused.keyword is not None:
        detail = _keyword_detail(signals)
        lines.append(_line("keyword", fused.keyword, fused.keyword_share, detail))
    if fused.vector is not None:
        lines.append(_line("vector", fused.vector, fused.vector_share, _vector_detail(signals)))
    if fused.neighbours:
        lines.append(f"neighbours {fused.neighbours:.4f} (messages before and after it)")
    if fused.cover:
        lines.append(
            f"words {fused.cover:.4f} ({signals.coverage:.0%} of the query's words, by rarity)"
        )
    lines.append(f"score {fused.score:.4f}")
    words = ", ".join(signals.matched) or "none"
    lines.append(f"relevance {relevance:.2f}: matching words {words} ({signals.coverage:.0%})")
    return tuple(lines)


def _line(name: str, value: float, share: float, detail: str) -> str:
    product = f"{value:.4f} x {share:.4f} = {value * share:.4f}" if share != 1.0 else f"{value:.4f}"
    return f"{name} {product}{detail}"


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
