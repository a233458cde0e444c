"""Results as plain dicts, ready for JSON: the shapes that scripts and agents read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plait.types import Document, Passage
from plait.types.shapes import Wording as Wording
from plait.types.shapes import answer_dict as answer_dict
from plait.types.shapes import document_dict as document_dict
from plait.types.shapes import period_dict, receipt_dict, time_text, turn_dict

if TYPE_CHECKING:
    from plait.searching.links import Links
    from plait.searching.recall import Recalled
    from plait.types.reports import (
        Deleted,
        Finding,
        IngestReport,
        Migrated,
        Reindexed,
        Salvaged,
        Stats,
        Stored,
    )


def recalled_dict(recalled: Recalled, worded: Wording = str) -> dict[str, Any]:
    """Return a recalled text, its cost and the hits it contains."""
    return {
        "text": recalled.text,
        "tokens": recalled.tokens,
        "budget_tokens": recalled.budget_tokens,
        "overview": recalled.is_overview,
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
                **({"section": item.section, "text": item.text} if item.section else {}),
                **changed_dict(item.hit.changed_since),
                **period_dict(item.hit.document, item.hit.superseded_by),
            }
            for item in recalled.items
        ],
        "left_out": recalled.left_out,
        "receipt": receipt_dict(recalled.receipt, worded),
    }


def changed_dict(paths: Sequence[str]) -> dict[str, Any]:
    """Return the files that changed since a message, if any did."""
    return {"changed_since": list(paths)} if paths else {}


def links_dict(links: Links) -> dict[str, Any]:
    """Return the links of a document and those to it; one that leads nowhere has no id."""
    return {
        "links": [
            {"target": row.target, "id": row.target_id or None, "heading": row.context}
            for row in links.links
        ],
        "backlinks": [
            {"source": row.source, "id": row.source_id, "heading": row.context}
            for row in links.backlinks
        ],
    }


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
        "event_at": time_text(document.event_at),
        **turn_dict(document),
        **period_dict(document, superseded_by),
        "secret": list(secret),
    }


def timeline_dict(
    document: Document, superseded_by: str | None = None, secret: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a row of a timeline: enough to decide whether to read the document."""
    return {
        "id": document.id,
        "doc_id": document.doc_id,
        "created_at": time_text(document.created_at),
        "event_at": time_text(document.event_at),
        "kind": document.kind,
        "type": document.type,
        "tags": list(document.tags),
        "title": document.title,
        "summary": document.summary or "",
        "trust": document.trust,
        **turn_dict(document),
        **period_dict(document, superseded_by),
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


def ingest_dict(
    report: IngestReport,
    project: str | None,
    worded: Wording = str,
    hints: Sequence[str] = (),
) -> dict[str, Any]:
    """Return what ``ingest`` did and in which project, with every file that was left out.

    ``hints`` say where the documents are found, if that may not be where they are expected.
    """
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
        "elsewhere": report.elsewhere,
        "hints": list(hints),
        "caution": None if report.caution is None else worded(report.caution),
        "ignored": report.ignored,
        "ignored_types": dict(report.ignored_types),
        "pending": report.pending,
        "interrupted": report.interrupted,
        "left": report.left,
        "project": project,
        "left_out": [
            {"path": row.path, "outcome": row.outcome, "reason": row.reason} for row in left_out
        ],
        "remarks": [
            {"path": row.path, "remark": row.reason}
            for row in report.reports
            if row.reason and row.outcome in ("added", "changed", "moved")
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
        fields[name] = time_text(fields[name])
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


def migrated_dict(done: Migrated) -> dict[str, Any]:
    """Return what was moved, and how it was verified."""
    return {
        "source": done.source,
        "target": done.target,
        "tables": [table._asdict() for table in done.tables],
        "rounds": done.rounds,
        "queries": done.queries,
        "same": done.same,
    }
