"""Hits, answers and documents as plain dicts: what ``to_dict`` returns and ``--json`` prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from plait.errors import Notice
from plait.times import show_time
from plait.types import Answer, Document, Hit, Receipt

# How an interface words a message. `str` words it for Python programmers.
Wording = Callable[[str | Notice], str]


def time_text(moment: int | None) -> str | None:
    """Return a time as people read it, local with its offset; ``None`` stays."""
    return None if moment is None else show_time(moment)


def hit_dict(hit: Hit) -> dict[str, Any]:
    """Return a hit; some values have two names, because other systems use the second."""
    signals = hit.signals
    fields: dict[str, Any] = {
        "id": hit.id,
        "doc_id": hit.doc_id,
        "chunk_id": hit.chunk_id,
        "score": round(hit.score, 4),
        "relevance": round(hit.relevance, 4),
        "weak": hit.is_weak,
        "source": hit.source,
        "heading": hit.heading,
        "entity": hit.entity,
        "metadata": dict(hit.document.metadata),
        "text": hit.text.strip("\n"),
        "content": hit.content.strip("\n"),
        "snippet": hit.snippet,
        "highlights": [list(span) for span in hit.highlights],
        "file_path": hit.file_path,
        "file_title": hit.file_title,
        "start_line": hit.start_line,
        "end_line": hit.end_line,
        "kind": hit.document.kind,
        "memory_type": hit.memory_type,
        "type": hit.document.type,
        "tags": list(hit.document.tags),
        "project": hit.document.project,
        "origin": hit.document.origin,
        "trust": hit.document.trust,
        "status": hit.document.status or "active",
        "event_at": time_text(hit.document.event_at),
        **turn_dict(hit.document),
        **period_dict(hit.document, hit.superseded_by),
        "chunk_rowid": hit.chunk_rowid,
        "signals": {
            "bm25": _rounded(signals.bm25),
            "cosine": _rounded(signals.cosine),
            "keyword": _rounded(signals.keyword),
            "vector": _rounded(signals.vector),
            "keyword_rank": signals.keyword_rank,
            "vector_rank": signals.vector_rank,
            "coverage": _rounded(signals.coverage),
            "matched": list(signals.matched),
        },
    }
    if hit.folded:
        fields["folded"] = list(hit.folded)
    if hit.changed_since:
        fields["changed_since"] = list(hit.changed_since)
    if hit.reasons:
        fields["reasons"] = list(hit.reasons)
    return fields


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def corrections_of(receipt: Receipt) -> list[dict[str, str]]:
    """Return the words that were searched for instead of those typed."""
    return [{"typed": typed, "searched": searched} for typed, searched in receipt.corrections]


def receipt_dict(receipt: Receipt, worded: Wording = str) -> dict[str, Any]:
    """Return how the search ran, what it cost and what was degraded."""
    return {
        "query": receipt.query,
        "mode_asked": receipt.mode_asked,
        "mode_used": receipt.mode_used,
        "fusion": receipt.fusion,
        "weights": {"keyword": receipt.keyword_weight, "vector": receipt.vector_weight},
        "degraded": [worded(reason) for reason in receipt.degraded],
        "ignored": [worded(reason) for reason in receipt.ignored],
        "corrections": corrections_of(receipt),
        "candidates": {
            "keyword": receipt.keyword_candidates,
            "vector": receipt.vector_candidates,
            "union": receipt.candidates,
        },
        "approximate": receipt.approximate,
        "pending_vectors": receipt.pending_vectors,
        "indexed_at": time_text(receipt.indexed_at),
        "milliseconds": receipt.milliseconds,
        "tokens": receipt.tokens,
    }


def answer_dict(answer: Answer, worded: Wording = str) -> dict[str, Any]:
    """Return the hits of a search and its receipt."""
    return {
        "results": [hit_dict(hit) for hit in answer],
        "receipt": receipt_dict(answer.receipt, worded),
    }


def turn_dict(document: Document) -> dict[str, Any]:
    """Return the place of a message in its conversation."""
    return {"session": document.session, "role": document.role, "turn": document.turn}


def period_dict(document: Document, superseded_by: str | None) -> dict[str, str | None]:
    """Return the topic of a fact, since when and until when it holds, and what replaced what."""
    return {
        "topic": document.topic,
        "valid_from": time_text(document.valid_from),
        "valid_to": time_text(document.valid_to),
        "supersedes": document.supersedes,
        "superseded_by": superseded_by,
    }


def document_dict(
    document: Document, superseded_by: str | None = None, secret: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a document; the text only if it was loaded. ``secret``: kinds of secrets in it."""
    fields: dict[str, Any] = {
        "id": document.id,
        "doc_id": document.doc_id,
        **{name: value for name, value in document._asdict().items() if name not in ("id", "text")},
        "tags": list(document.tags),
        "source_path": document.path,
        "file_mtime": time_text(document.mtime),
        "status": document.status or "active",
    }
    for name in ("created_at", "updated_at", "event_at", "indexed_at"):
        fields[name] = time_text(fields[name])
    fields.update(period_dict(document, superseded_by))
    fields["secret"] = list(secret)
    del fields["mtime"]
    if document.text:
        fields["text"] = document.text
    return fields
