"""Values to JSON and to text. Pure: nothing is read, written or decided here."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from plait.times import show_day, show_end, show_time
from plait.types import (
    Answer,
    Deleted,
    Document,
    Finding,
    Hit,
    IngestReport,
    Passage,
    Receipt,
    Stats,
    Stored,
)

if TYPE_CHECKING:
    from plait.packing import Recalled

SHORT_ID = 8  # two more than the shortest prefix that is accepted
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
INDENT = " " * 6
NAMES_SHOWN = 8  # a line's worth
NAME_SHOWN = 60  # characters of one of them
WEAK = 0.2  # relevance below which a hit is hardly more than the nearest there was
INTERRUPTED = "interrupted"  # how the reason of a file begins that Ctrl-C kept out


def _time(moment: int | None) -> str | None:
    return None if moment is None else show_time(moment)


def hit_dict(hit: Hit) -> dict[str, Any]:
    """A hit with every name that users of the seed systems look for."""
    signals = hit.signals
    found: dict[str, Any] = {
        "id": hit.id,
        "doc_id": hit.doc_id,
        "chunk_id": hit.chunk_id,
        "score": round(hit.score, 4),
        "relevance": round(hit.relevance, 4),
        "source": hit.source,
        "heading": hit.heading,
        "entity": hit.entity,
        "text": hit.text.strip("\n"),
        "content": hit.content.strip("\n"),
        "snippet": hit.snippet,
        "highlights": [list(place) for place in hit.highlights],
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
        found["reasons"] = list(hit.reasons)
    return found


def _rounded(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def receipt_dict(receipt: Receipt) -> dict[str, Any]:
    """What the answer cost and how far it can be trusted."""
    return {
        "query": receipt.query,
        "mode_asked": receipt.mode_asked,
        "mode_used": receipt.mode_used,
        "fusion": receipt.fusion,
        "weights": {"keyword": receipt.keyword_weight, "vector": receipt.vector_weight},
        "degraded": list(receipt.degraded),
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


def answer_dict(answer: Answer) -> dict[str, Any]:
    """A whole answer, the one shape of every search."""
    return {
        "results": [hit_dict(hit) for hit in answer],
        "receipt": receipt_dict(answer.receipt),
    }


def recalled_dict(recalled: "Recalled") -> dict[str, Any]:
    """A packed answer: the text, what it cost, and what is in it."""
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
                "trust": item.hit.document.trust,
                "origin": item.hit.document.origin,
                **_period_dict(item.hit.document, item.hit.superseded_by),
            }
            for item in recalled.items
        ],
        "left_out": recalled.left_out,
        "receipt": receipt_dict(recalled.receipt),
    }


def _period_dict(document: Document, superseded_by: str | None) -> dict[str, str | None]:
    return {
        "valid_from": _time(document.valid_from),
        "valid_to": _time(document.valid_to),
        "superseded_by": superseded_by,
    }


def document_dict(document: Document, superseded_by: str | None = None) -> dict[str, Any]:
    """A document; its text only where it was loaded."""
    found: dict[str, Any] = {
        "id": document.id,
        "doc_id": document.doc_id,
        **{name: value for name, value in document._asdict().items() if name not in ("id", "text")},
        "tags": list(document.tags),
        "source_path": document.path,
        "file_mtime": _time(document.mtime),
    }
    for name in ("created_at", "updated_at", "event_at", "indexed_at"):
        found[name] = _time(found[name])
    found.update(_period_dict(document, superseded_by))
    del found["mtime"]
    if document.text:
        found["text"] = document.text
    return found


def passage_dict(
    passage: Passage, document: Document, superseded_by: str | None = None
) -> dict[str, Any]:
    """A passage and where it stands."""
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
        **_period_dict(document, superseded_by),
    }


def timeline_dict(document: Document, superseded_by: str | None = None) -> dict[str, Any]:
    """One row of a timeline: enough to decide whether to read on."""
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
        **_period_dict(document, superseded_by),
    }


def stored_dict(stored: Stored, project: str | None) -> dict[str, Any]:
    """What ``store`` did, and in which project; ``None`` is personal."""
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
    }


def ingest_dict(report: IngestReport, project: str | None) -> dict[str, Any]:
    """What ``ingest`` did and in which project, with every file that did not get in."""
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
        "removed": report.count("removed"),
        "ignored": report.ignored,
        "pending": report.pending,
        "interrupted": report.interrupted,
        "project": project,
        "left_out": [
            {"path": row.path, "outcome": row.outcome, "reason": row.reason} for row in left_out
        ],
    }


def deleted_dict(deleted: Deleted) -> dict[str, Any]:
    """What ``delete`` removed."""
    return {
        "doc_id": deleted.doc_ids[0] if len(deleted.doc_ids) == 1 else None,
        "chunks_deleted": deleted.chunks_deleted,
        "doc_ids": list(deleted.doc_ids),
        "ids": list(deleted.ids),
        "purged": deleted.purged,
    }


def stats_dict(stats: Stats) -> dict[str, Any]:
    """Counts and sizes."""
    found = stats._asdict()
    for name in ("first_event_at", "last_event_at", "indexed_at"):
        found[name] = _time(found[name])
    found["space"] = None if stats.space is None else str(stats.space)
    found["kinds"] = dict(stats.kinds)
    found["projects"] = {name or "personal": count for name, count in stats.projects}
    found["sources"] = dict(stats.sources)
    return found


def findings_dict(findings: Sequence[Finding]) -> dict[str, Any]:
    """What ``doctor`` saw."""
    return {
        "ok": all(finding.level != "error" for finding in findings),
        "findings": [finding._asdict() for finding in findings],
    }


def stored_text(stored: Stored, project: str | None) -> str:
    """What ``store`` did, in one line."""
    if stored.recalled and stored.matched is None:
        return "Not stored: all of it was recalled from this memory"
    verb = "Known already as" if stored.duplicate else "Replaced" if stored.replaced else "Stored"
    name = stored.doc_id if stored.doc_id != stored.id else stored.id[:SHORT_ID]
    written = f"{verb} {name} ({counted(stored.chunks, 'passage')})"
    if stored.superseded:
        written += f" in the place of {_names(stored.superseded)}"
    return written + in_project(project)


def stored_remarks(stored: Stored) -> list[str]:
    """What whoever stored something should look at."""
    found = []
    if stored.shortened:
        found.append("a part of it was recalled from this memory, and left out")
    if stored.beside:
        found.append(
            f"not trusted enough to take the place of {_names(stored.beside)}: both stand now"
        )
    for near in stored.near:
        differ = f"; {', '.join(near.differences)}" if near.differences else ""
        found.append(f"almost the same as {near.id[:SHORT_ID]} ({near.reason}{differ})")
    return found


def _names(ids: Sequence[str]) -> str:
    return ", ".join(id_[:SHORT_ID] for id_ in ids)


# -- text for people -----------------------------------------------------------------------


def _paint(text: str, code: str, *, color: bool) -> str:
    return f"{code}{text}{PLAIN}" if color and text else text


def counted(number: int, noun: str) -> str:
    """A number with its noun, as people write it.

    >>> counted(1, "passage"), counted(1932, "passage"), counted(2, "entity")
    ('1 passage', '1,932 passages', '2 entities')
    """
    many = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else many}"


def in_project(project: str | None) -> str:
    """Where something was written, where that is not the ordinary place."""
    return f" in {project}" if project else ""


def waiting(pending: int) -> str:
    """What to do about passages that have no vector yet."""
    verb = "waits" if pending == 1 else "wait"
    return f"{counted(pending, 'passage')} {verb} for a vector. Run: plait reindex"


def highlighted(hit: Hit, *, color: bool) -> str:
    """The snippet, with the words that matched in bold on a terminal."""
    if not color:
        return hit.snippet
    parts, reached = [], 0
    for start, end in hit.highlights:
        parts += [hit.snippet[reached:start], _paint(hit.snippet[start:end], BOLD, color=True)]
        reached = end
    return "".join([*parts, hit.snippet[reached:]])


def place(hit: Hit) -> str:
    """Where a hit stands: ``ops/ssh.md:41`` for a file, its name or id for stored text."""
    if hit.document.kind == "file" or hit.document.key:
        return f"{hit.doc_id}:{hit.start_line}"
    return f"{hit.document.kind} {show_day(hit.document.event_at)}"


def is_weak(hit: Hit) -> bool:
    """Whether little speaks for a hit, whatever its score: that compares it with the others."""
    return hit.relevance < WEAK


def answer_text(answer: Answer, *, color: bool = False) -> str:
    """Two lines a hit: score, id and place, then the words that answer."""
    lines = []
    for hit in answer:
        heading = f"  {hit.heading}" if hit.heading else ""
        warning = "".join(f"  [{said}]" for said in _doubts(hit.document, hit.superseded_by))
        where = _paint(place(hit), BOLD, color=color) + _paint(heading, DIM, color=color)
        weak = "  (weak)" if is_weak(hit) else ""
        lines.append(f"{hit.score:.2f}  {hit.id[:SHORT_ID]}  {where}{weak}{warning}")
        shown = hit.snippet if hit.context is None else hit.text.strip("\n")
        body = highlighted(hit, color=color) if hit.context is None else shown
        lines += [f"{INDENT}{line}" for line in body.splitlines()]
        lines += [_paint(f"{INDENT}  {reason}", DIM, color=color) for reason in hit.reasons]
    return "\n".join(lines)


def receipt_text(receipt: Receipt, hits: int) -> str:
    """The receipt in one line."""
    mode: str = receipt.mode_used
    if receipt.mode_used != receipt.mode_asked:
        mode = f"{receipt.mode_used} (asked: {receipt.mode_asked})"
    spent = f"{receipt.milliseconds:,.1f} ms, about {counted(receipt.tokens, 'token')}"
    return f"{counted(hits, 'hit')}, {mode}, {spent}"


def document_text(document: Document, superseded_by: str | None = None) -> str:
    """A whole document under a line that says what it is."""
    facts = [document.kind, document.type or "", ", ".join(document.tags)]
    facts += [show_day(document.event_at), document.path or ""]
    facts += [f"[{said}]" for said in _doubts(document, superseded_by)]
    title = document.title or document.doc_id
    body = document.text.strip("\n")
    return f"{document.id}  {title}  ({'; '.join(filter(None, facts))})\n\n{body}"


def passage_text(passage: Passage, document: Document, superseded_by: str | None = None) -> str:
    """A whole passage with its heading path."""
    where = f"{document.doc_id}:{passage.start_line}-{passage.end_line}"
    doubts = [f"[{said}]" for said in _doubts(document, superseded_by)]
    head = "  ".join(filter(None, [passage.id, where, passage.heading, *doubts]))
    return f"{head}\n\n{passage.text.strip(chr(10))}"


def _doubts(document: Document, superseded_by: str | None) -> list[str]:
    """What a reader must know before believing it."""
    trust = "" if document.trust == "trusted" else document.trust
    end = show_end(document.valid_to, superseded_by and superseded_by[:SHORT_ID])
    return [said for said in (trust, end) if said]


def timeline_text(
    documents: Sequence[Document], successors: Mapping[str, str] = MappingProxyType({})
) -> str:
    """One line a document, newest first; ``successors`` are what took some documents' place."""
    lines = []
    for document in documents:
        kind = document.type or document.kind
        words = document.summary or document.title
        if document.title and document.title not in words:
            words = f"{document.title}: {words}"
        doubts = _doubts(document, successors.get(document.id))
        words = "  ".join([words, *(f"[{said}]" for said in doubts)])
        lines.append(f"{show_day(document.event_at)}  {document.id[:SHORT_ID]}  {kind:<11} {words}")
    return "\n".join(lines)


def ingest_text(report: IngestReport, project: str | None) -> str:
    """The outcome in one line, then every file that was left out and why."""
    counts = [
        f"{report.count(outcome):,} {outcome}"
        for outcome in ("added", "changed", "unchanged", "removed", "skipped", "failed")
        if report.count(outcome)
    ]
    total = counted(len(report.reports), "file")
    written = counted(report.chunks, "passage")
    where = in_project(project) if report.chunks else ""
    lines = [f"{total}: {', '.join(counts) or 'none fits'}; {written} written{where}"]
    if report.ignored:
        lines[0] += f"; {counted(report.ignored, 'file')} of other types ignored"
    if report.pending:
        lines.append(waiting(report.pending))
    left_out = [row for row in report.reports if row.outcome in ("skipped", "failed")]
    dropped = [row for row in left_out if row.reason.startswith(INTERRUPTED)]
    lines += [
        f"  {row.outcome}: {row.path} ({row.reason})"
        for row in left_out
        if not row.reason.startswith(INTERRUPTED)
    ]
    if dropped:
        lines.append(f"  skipped: {counted(len(dropped), 'file')} ({dropped[0].reason})")
    return "\n".join(lines)


def on_a_line(name: str) -> str:
    r"""A name as part of a sentence of ours: on one line, and no longer than a name.

    >>> on_a_line("two\nlines")
    'two lines'
    """
    shown = " ".join(name.split())
    return shown if len(shown) <= NAME_SHOWN else f"{shown[: NAME_SHOWN - 1]}…"


def deleted_text(deleted: Deleted) -> str:
    """What went, by name as far as a line holds it."""
    names = ", ".join(on_a_line(name) for name in deleted.doc_ids[:NAMES_SHOWN])
    more = " …" if len(deleted.doc_ids) > NAMES_SHOWN else ""
    documents = counted(len(deleted.ids), "document")
    return f"{documents}, {counted(deleted.chunks_deleted, 'passage')}: {names}{more}"


def still_there(paths: Sequence[str], ignore_file: str) -> str:
    """That deleted files come back, and how to keep them out."""
    if len(paths) == 1:
        return (
            f"the file is still at {paths[0]}: the next ingest brings it back. "
            f"To keep it out, add it to {ignore_file}"
        )
    return (
        f"{len(paths):,} files are still on the disk, {paths[0]} among them: the next ingest "
        f"brings them back. To keep them out, add them to {ignore_file}"
    )


def beside_namesake(name: str, other: str) -> str:
    """That an entity was made although one is called almost the same."""
    return f"made a new entity '{on_a_line(name)}'; there is also '{on_a_line(other)}'"


def stats_text(stats: Stats) -> str:
    """What is in a memory."""
    kinds = ", ".join(counted(count, name) for name, count in stats.kinds) or "nothing yet"
    lines = [
        f"memory     {stats.path}",
        f"documents  {stats.doc_count:,} ({kinds})",
        f"passages   {stats.chunk_count:,}",
        f"vectors    {_vectors(stats)}",
        f"size       {stats.db_size_bytes / 1024 / 1024:.1f} MB",
    ]
    if stats.projects:
        names = ", ".join(f"{name or 'personal'} ({count:,})" for name, count in stats.projects)
        lines.append(f"projects   {names}")
    if stats.trash_count:
        lines.append(f"trash      {stats.trash_count:,} (see plait delete --undo)")
    if stats.indexed_at:
        lines.append(f"indexed    {show_time(stats.indexed_at)}")
    return "\n".join(lines)


def _vectors(stats: Stats) -> str:
    if stats.space is None:
        return "none (keyword search only)" if stats.chunk_count else "none yet"
    waiting = f", {stats.pending_count:,} pending" if stats.pending_count else ""
    return f"{stats.embedded_count:,}{waiting}, {stats.space}"


def findings_text(findings: Sequence[Finding], *, color: bool = False) -> str:
    """One line a check."""
    lines = []
    for finding in findings:
        mark = "fixed" if finding.fixed else finding.level
        shown = _paint(f"{mark:<8}", BOLD if finding.level != "ok" else DIM, color=color)
        lines.append(f"{shown} {finding.check}: {finding.message}")
    return "\n".join(lines)
