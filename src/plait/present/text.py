"""Results as text for people."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from plait.errors import Notice, advise
from plait.times import show_day, show_end, show_time
from plait.types import SHORT_ID, Answer, Document, Hit, Passage, Receipt
from plait.types.reports import Deleted, FileReport, Finding, IngestReport, Stats, Stored

if TYPE_CHECKING:
    from plait.present.json import Wording

BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
INDENT = " " * 6
NAMES_SHOWN = 8  # as many as fit on a line
NAME_CHARS = 60  # longer names are cut
WEAK_RELEVANCE = 0.2  # below this, a hit has little in common with the query


# -- parts of sentences ---------------------------------------------------------------------


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or plural.

    >>> counted(1, "passage"), counted(1932, "passage"), counted(2, "entity")
    ('1 passage', '1,932 passages', '2 entities')
    """
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def on_a_line(name: str) -> str:
    r"""Return a name that fits into a sentence: on one line, and cut if it is long.

    >>> on_a_line("two\nlines")
    'two lines'
    """
    flat = " ".join(name.split())
    return flat if len(flat) <= NAME_CHARS else f"{flat[: NAME_CHARS - 1]}…"


def in_project(project: str | None) -> str:
    """Return `` in PROJECT``, or nothing for the personal project."""
    return f" in {project}" if project else ""


def _short_ids(ids: Sequence[str]) -> str:
    return ", ".join(id_[:SHORT_ID] for id_ in ids)


def _paint(text: str, code: str, *, color: bool) -> str:
    return f"{code}{text}{PLAIN}" if color and text else text


# -- reading --------------------------------------------------------------------------------


def answer_text(answer: Answer, *, color: bool = False) -> str:
    """Return two lines for each hit: score, id and location; then the snippet."""
    lines = []
    for hit in answer:
        heading = f"  {hit.heading}" if hit.heading else ""
        title = _paint(location(hit), BOLD, color=color) + _paint(heading, DIM, color=color)
        weak = "  (weak)" if is_weak(hit) else ""
        marks = "".join(f"  {mark}" for mark in _bracketed(hit.document, hit.superseded_by))
        lines.append(f"{hit.score:.2f}  {hit.id[:SHORT_ID]}  {title}{weak}{marks}")
        # With --window the neighbours were asked for, so the whole text is shown.
        body = highlighted(hit, color=color) if hit.context is None else hit.text.strip("\n")
        lines += [f"{INDENT}{line}" for line in body.splitlines()]
        lines += [_paint(f"{INDENT}  {reason}", DIM, color=color) for reason in hit.reasons]
    return "\n".join(lines)


def highlighted(hit: Hit, *, color: bool) -> str:
    """Return the snippet; on a terminal the matching words are bold."""
    if not color:
        return hit.snippet
    parts, reached = [], 0
    for start, end in hit.highlights:
        parts += [hit.snippet[reached:start], _paint(hit.snippet[start:end], BOLD, color=True)]
        reached = end
    return "".join([*parts, hit.snippet[reached:]])


def location(hit: Hit) -> str:
    """Return ``ops/ssh.md:41`` for a file or a note with a key, else the kind and the day."""
    if hit.document.kind == "file" or hit.document.key:
        return f"{hit.doc_id}:{hit.start_line}"
    return f"{hit.document.kind} {show_day(hit.document.event_at)}"


def is_weak(hit: Hit) -> bool:
    """Tell whether a hit has little in common with the query.

    The score cannot tell: it only compares a hit with the others.
    """
    return hit.relevance < WEAK_RELEVANCE


def receipt_text(receipt: Receipt, hits: int) -> str:
    """Return the receipt in one line."""
    mode: str = receipt.mode_used
    if receipt.mode_used != receipt.mode_asked:
        mode = f"{receipt.mode_used} (asked: {receipt.mode_asked})"
    cost = f"{receipt.milliseconds:,.1f} ms, about {counted(receipt.tokens, 'token')}"
    return f"{counted(hits, 'hit')}, {mode}, {cost}"


def document_text(document: Document, superseded_by: str | None = None) -> str:
    """Return a whole document below a line that describes it."""
    facts = [document.kind, document.type or "", ", ".join(document.tags)]
    facts += [show_day(document.event_at), document.path or ""]
    facts += _bracketed(document, superseded_by)
    title = document.title or document.doc_id
    body = document.text.strip("\n")
    return f"{document.id}  {title}  ({'; '.join(filter(None, facts))})\n\n{body}"


def passage_text(passage: Passage, document: Document, superseded_by: str | None = None) -> str:
    """Return a whole passage below a line that says where it is."""
    lines = f"{document.doc_id}:{passage.start_line}-{passage.end_line}"
    marks = _bracketed(document, superseded_by)
    head = "  ".join(filter(None, [passage.id, lines, passage.heading, *marks]))
    return f"{head}\n\n{passage.text.strip(chr(10))}"


def caveats(document: Document, superseded_by: str | None = None) -> list[str]:
    """Return the caveats about a document: not trusted, or no longer valid."""
    trust = "" if document.trust == "trusted" else document.trust
    end = show_end(document.valid_to, superseded_by and superseded_by[:SHORT_ID])
    return [caveat for caveat in (trust, end) if caveat]


def _bracketed(document: Document, superseded_by: str | None) -> list[str]:
    return [f"[{caveat}]" for caveat in caveats(document, superseded_by)]


def timeline_text(
    documents: Sequence[Document], successors: Mapping[str, str] = MappingProxyType({})
) -> str:
    """Return one line for each document.

    Args:
        documents: The documents, in the order to show.
        successors: By the id of a superseded document, the id of the one that replaced it.
    """
    lines = []
    for document in documents:
        kind = document.type or document.kind
        summary = document.summary or document.title
        if document.title and document.title not in summary:
            summary = f"{document.title}: {summary}"
        summary = "  ".join([summary, *_bracketed(document, successors.get(document.id))])
        day = show_day(document.event_at)
        lines.append(f"{day}  {document.id[:SHORT_ID]}  {kind:<11} {summary}")
    return "\n".join(lines)


# -- writing --------------------------------------------------------------------------------


def stored_text(stored: Stored, project: str | None) -> str:
    """Return what ``store`` did, in one line."""
    if stored.recalled and stored.matched is None:
        return "Not stored: all of it was recalled from this memory"
    verb = "Already stored as" if stored.duplicate else "Replaced" if stored.replaced else "Stored"
    name = stored.doc_id if stored.doc_id != stored.id else stored.id[:SHORT_ID]
    line = f"{verb} {name} ({counted(stored.chunks, 'passage')})"
    if stored.superseded:
        line += f", replacing {_short_ids(stored.superseded)}"
    return line + in_project(project)


def stored_remarks(stored: Stored) -> list[str]:
    """Return what the author of a stored text should check."""
    remarks = []
    if stored.shortened:
        remarks.append("part of the text was recalled from this memory and was left out")
    if stored.beside:
        ids = _short_ids(stored.beside)
        remarks.append(f"not trusted enough to supersede {ids}: both are current now")
    for near in stored.near:
        differences = f"; {', '.join(near.differences)}" if near.differences else ""
        remarks.append(f"almost the same as {near.id[:SHORT_ID]} ({near.reason}{differences})")
    return remarks


def pending_notice(pending: int) -> Notice:
    """Say that passages have no vector yet, and advise a reindex."""
    verb = "waits" if pending == 1 else "wait"
    text = f"{counted(pending, 'passage')} {verb} for a vector."
    return Notice(text, "pending_vectors", str(pending), advise("reindex"))


def ingest_text(report: IngestReport, project: str | None, worded: "Wording" = str) -> str:
    """Return the outcome in one line, then every file that was left out and why."""
    counts = [
        f"{report.count(outcome):,} {outcome}"
        for outcome in ("added", "changed", "unchanged", "removed", "skipped", "failed")
        if report.count(outcome)
    ]
    total = counted(len(report.reports), "file")
    passages = counted(report.chunks, "passage")
    project_part = in_project(project) if report.chunks else ""
    lines = [f"{total}: {', '.join(counts) or 'none matched'}; {passages} written{project_part}"]
    if report.ignored:
        lines[0] += f"; {counted(report.ignored, 'file')} of other types ignored"
    if report.pending:
        lines.append(worded(pending_notice(report.pending)))
    left_out = [row for row in report.reports if row.outcome in ("skipped", "failed")]
    interrupted = [row for row in left_out if _is_interrupted(row)]
    lines += [
        f"  {row.outcome}: {row.path} ({row.reason})"
        for row in left_out
        if not _is_interrupted(row)
    ]
    if interrupted:
        reason = interrupted[0].reason
        lines.append(f"  skipped: {counted(len(interrupted), 'file')} ({reason})")
    return "\n".join(lines)


def _is_interrupted(row: FileReport) -> bool:
    """Tell whether Ctrl-C came before this file."""
    return row.code == "interrupted"


def deleted_text(deleted: Deleted) -> str:
    """Return how much was deleted, with as many names as fit on a line."""
    names = ", ".join(on_a_line(name) for name in deleted.doc_ids[:NAMES_SHOWN])
    more = " …" if len(deleted.doc_ids) > NAMES_SHOWN else ""
    documents = counted(len(deleted.ids), "document")
    return f"{documents}, {counted(deleted.chunks_deleted, 'passage')}: {names}{more}"


# -- the memory -----------------------------------------------------------------------------


def stats_text(stats: Stats, undo: str = "") -> str:
    """Return what is in a memory; ``undo`` is the command that restores from its trash."""
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
        lines.append(f"trash      {stats.trash_count:,}" + (f" (see {undo})" if undo else ""))
    if stats.indexed_at:
        lines.append(f"indexed    {show_time(stats.indexed_at)}")
    return "\n".join(lines)


def _vectors(stats: Stats) -> str:
    if stats.space is None:
        return "none (keyword search only)" if stats.chunk_count else "none yet"
    pending = f", {stats.pending_count:,} pending" if stats.pending_count else ""
    return f"{stats.embedded_count:,}{pending}, {stats.space}"


def findings_text(
    findings: Sequence[Finding], worded: "Wording" = str, *, color: bool = False
) -> str:
    """Return one line for each check of ``doctor``."""
    lines = []
    for finding in findings:
        level = "fixed" if finding.fixed else finding.level
        mark = _paint(f"{level:<8}", BOLD if finding.level != "ok" else DIM, color=color)
        lines.append(f"{mark} {finding.check}: {worded(finding.notice)}")
    return "\n".join(lines)
