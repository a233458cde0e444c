"""Why a hit scored what it scored, in lines whose numbers add up to the score."""

from plait.types import Fusion, Signals


def explain(
    score: float,
    relevance: float,
    signals: Signals,
    *,
    fusion: Fusion,
    keyword_weight: float,
    vector_weight: float,
) -> tuple[str, ...]:
    """The two contributions, the score they make, and the evidence behind ``relevance``."""
    keyword_share, vector_share = _shares(signals, fusion, keyword_weight, vector_weight)
    lines = []
    if signals.keyword is not None:
        lines.append(_line("keyword", signals.keyword, keyword_share, _keyword_detail(signals)))
    if signals.vector is not None:
        lines.append(_line("vector", signals.vector, vector_share, _vector_detail(signals)))
    lines.append(f"score {score:.4f}")
    words = ", ".join(signals.matched) or "none"
    lines.append(f"relevance {relevance:.2f}: words found {words} ({signals.coverage:.0%})")
    return tuple(lines)


def _shares(
    signals: Signals, fusion: Fusion, keyword_weight: float, vector_weight: float
) -> tuple[float, float]:
    """What each part counts; parts of RRF are ready to be added as they are."""
    if fusion == "rrf":
        return 1.0, 1.0
    if fusion == "seed001":
        return keyword_weight, vector_weight
    keyword = keyword_weight if signals.keyword is not None else 0.0
    vector = vector_weight if signals.vector is not None else 0.0
    if not keyword + vector:
        keyword, vector = float(signals.keyword is not None), float(signals.vector is not None)
    total = (keyword + vector) or 1.0
    return keyword / total, vector / total


def _line(name: str, value: float, share: float, detail: str) -> str:
    product = f"{value:.4f} x {share:.2f} = {value * share:.4f}" if share != 1.0 else f"{value:.4f}"
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
