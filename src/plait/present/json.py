"""Results as plain dicts, ready for JSON: the shapes that scripts and agents read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from plait.errors import Notice
from plait.times import show_time
from plait.types import Answer, Document, Hit, Passage, Receipt

if TYPE_CHECKING:
    from plait.searching.recall import Recalled
    from plait.types.reports import (
        Deleted,
        Finding,
        IngestReport,
        Reindexed,
        Salvaged,
        Stats,
        Stored,
    )

# How an interface words a message. `str` words it for Python programmers.
Wording = Callable[[str | Notice], str]


def _time(moment: int | None) -> str | None:
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
        "event_at": _time(hit.document.event_at),
        **_turn_dict(hit.document),
        **_period_dict(hit.document, hit.superseded_by),
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
    if hit.reasons:
        fields["reasons"] = list(hit.reasons)
    return fields


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


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
        "candidates": {
            "keyword": receipt.keyword_candidates,
            "vector": receipt.vector_candidates,
            "union": receipt.candidates,
        },
        "pending_vectors": receipt.pending_vectors,
        "indexed_at": _time(receipt.indexed_at),
        "milliseconds": receipt.milliseconds,
        "tokens": receipt.tokens,
    }


def answer_dict(answer: Answer, worded: Wording = str) -> dict[str, Any]:
    """Return the hits of a search and its receipt."""
    return {
        "results": [hit_dict(hit) for hit in answer],
        "receipt": receipt_dict(answer.receipt, worded),
    }


def recalled_dict(recalled: Recalled, worded: Wording = str) -> dict[str, Any]:
    """Return a recalled text, its cost and the hits it contains."""
    return {
        "text": recalled.text,
        "tokens": recalled.tokens,
        "budget_tokens": recalled.budget_tokens,
        "results": [
            {
                "id": item.hit.id,
                "doc_id": item.hit.doc_id,
                "score": round(item.hit.score, 4),
                "relevance": round(item.hit.relevance, 4),
                "heading": item.hit.heading,
                "start_line": item.start_line,
                "end_line": item.end_line,
                "whole": item.whole,
                "pinned": item.hit.document.pinned,
                "trust": item.hit.document.trust,
                "origin": item.hit.document.origin,
                **_period_dict(item.hit.document, item.hit.superseded_by),
            }
            for item in recalled.items
        ],
        "left_out": recalled.left_out,
        "receipt": receipt_dict(recalled.receipt, worded),
    }


def _turn_dict(document: Document) -> dict[str, Any]:
    return {"session": document.session, "role": document.role, "turn": document.turn}


def _period_dict(document: Document, superseded_by: str | None) -> dict[str, str | None]:
    return {
        "valid_from": _time(document.valid_from),
        "valid_to": _time(document.valid_to),
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
        "file_mtime": _time(document.mtime),
    }
    for name in ("created_at", "updated_at", "event_at", "indexed_at"):
        fields[name] = _time(fields[name])
    fields.update(_period_dict(document, superseded_by))
    fields["secret"] = list(secret)
    del fields["mtime"]
    if document.text:
        fields["text"] = document.text
    return fields


def passage_dict(
    passage: Passage,
    document: Document,
    superseded_by: str | None = None,
    secret: Sequence[str] = (),
) -> dict[str, Any]:
    """Return a passage and where it is in its document, which holds ``secret``."""
    return {
        "id": passage.id,
        "doc_id": document.doc_id,
        "chunk_id": f"{document.doc_id}-{passage.ordinal}",
        "document": document.id,
        "title": document.title,
        "heading": passage.heading,
        "text": passage.text.strip("\n"),
        "file_path": document.path,
        "start_line": passage.start_line,
        "end_line": passage.end_line,
        "kind": document.kind,
        "type": document.type,
        "tags": list(document.tags),
        "trust": document.trust,
        "origin": document.origin,
        "event_at": _time(document.event_at),
        **_turn_dict(document),
        **_period_dict(document, superseded_by),
        "secret": list(secret),
    }


def timeline_dict(
    document: Document, superseded_by: str | None = None, secret: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a row of a timeline: enough to decide whether to read the document."""
    return {
        "id": document.id,
        "doc_id": document.doc_id,
        "created_at": _time(document.created_at),
        "event_at": _time(document.event_at),
        "kind": document.kind,
        "type": document.type,
        "tags": list(document.tags),
        "title": document.title,
        "summary": document.summary or "",
        "trust": document.trust,
        **_turn_dict(document),
        **_period_dict(document, superseded_by),
        "secret": list(secret),
    }


def stored_dict(stored: Stored, project: str | None) -> dict[str, Any]:
    """Return what ``store`` did, and in which project; ``None`` is personal."""
    return {
        "doc_id": stored.doc_id,
        "chunks": stored.chunks,
        "id": stored.id,
        "duplicate": stored.duplicate,
        "replaced": stored.replaced,
        "pending": stored.pending,
        "project": project,
        "matched": stored.matched,
        "superseded": list(stored.superseded),
        "beside": list(stored.beside),
        "near": [near._asdict() for near in stored.near],
        "recalled": stored.recalled,
        "shortened": stored.shortened,
        "entity": stored.entity,
        "lowered": stored.lowered,
        "secret": list(stored.secret),
        "turn": stored.turn,
    }


def added_dict(stored: Sequence[Stored], session: str, project: str | None) -> dict[str, Any]:
    """Return what became of messages that were added to a session, in their order."""
    return {
        "session": session,
        "project": project,
        "messages": sum(bool(row.id) for row in stored),
        "results": [stored_dict(row, project) for row in stored],
    }


def ingest_dict(report: IngestReport, project: str | None, worded: Wording = str) -> dict[str, Any]:
    """Return what ``ingest`` did and in which project, with every file that was left out."""
    left_out = [row for row in report.reports if row.outcome in ("skipped", "failed")]
    return {
        "files": report.count("added", "changed"),
        "chunks": report.chunks,
        "skipped": report.count("unchanged", "skipped"),
        "errors": [
            f"{row.path}: {row.reason}" for row in report.reports if row.outcome == "failed"
        ],
        "added": report.count("added"),
        "changed": report.count("changed"),
        "unchanged": report.count("unchanged"),
        "moved": report.count("moved"),
        "removed": report.count("removed"),
        "kept": report.count("kept"),
        "taken_from": report.taken_from,
        "caution": None if report.caution is None else worded(report.caution),
        "ignored": report.ignored,
        "pending": report.pending,
        "interrupted": report.interrupted,
        "project": project,
        "left_out": [
            {"path": row.path, "outcome": row.outcome, "reason": row.reason} for row in left_out
        ],
        "secret": [
            {"path": row.path, "kinds": list(row.secret)} for row in report.reports if row.secret
        ],
    }


def deleted_dict(deleted: Deleted) -> dict[str, Any]:
    """Return what ``delete`` removed."""
    return {
        "doc_id": deleted.doc_ids[0] if len(deleted.doc_ids) == 1 else None,
        "chunks_deleted": deleted.chunks_deleted,
        "doc_ids": list(deleted.doc_ids),
        "ids": list(deleted.ids),
        "purged": deleted.purged,
        "copies": list(deleted.copies),
    }


def reindexed_dict(done: Reindexed) -> dict[str, Any]:
    """Return what ``reindex`` did."""
    return {
        "status": "ok" if done.trouble is None else "partial",
        "chunks": done.chunks,
        "embedded": done.embedded,
        "rechunked": done.rechunked,
        "swapped": done.swapped,
    }


def stats_dict(stats: Stats) -> dict[str, Any]:
    """Return the counts and sizes of a memory."""
    fields = stats._asdict()
    for name in ("first_event_at", "last_event_at", "indexed_at"):
        fields[name] = _time(fields[name])
    fields["space"] = None if stats.space is None else str(stats.space)
    fields["kinds"] = dict(stats.kinds)
    fields["projects"] = {name or "personal": count for name, count in stats.projects}
    fields["sources"] = dict(stats.sources)
    return fields


def salvaged_dict(done: Salvaged) -> dict[str, Any]:
    """Return what was salvaged."""
    return {
        "path": done.path,
        "target": done.target,
        "kept": dict(done.kept),
        "lost": [
            {"table": loss.table, "count": loss.rows, "names": list(loss.names)}
            for loss in done.lost
        ],
        "mended": list(done.mended),
        "unreadable_cells": done.unreadable_cells,
    }


def findings_dict(findings: Sequence[Finding], worded: Wording = str) -> dict[str, Any]:
    """Return the findings of ``doctor``."""
    return {
        "ok": all(finding.level != "error" for finding in findings),
        "findings": [
            {
                "check": finding.check,
                "level": finding.level,
                "message": worded(finding.notice),
                "fixed": finding.fixed,
            }
            for finding in findings
        ],
    }
