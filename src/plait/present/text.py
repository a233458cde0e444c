"""Results as text for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from plait.errors import Notice, advise, is_plain_name, quotable, quoted, shell_word
from plait.facts.names import changed_mark, distinct_names
from plait.times import show_day, show_end, show_time
from plait.types import PROVENANCE, Answer, Document, Hit, Passage, Receipt
from plait.types.ids import SHORT_ID

if TYPE_CHECKING:
    from plait.present.json import Wording
    from plait.searching.links import Links
    from plait.types.reports import (
        FileReport,
        Finding,
        IngestReport,
        Salvaged,
        Stats,
        Stored,
    )

# Marks, not codes of a terminal: whoever prints a text escapes the codes that others put into it.
BOLD, DIM, PLAIN = "\0b", "\0d", "\0p"
INDENT = " " * 6
NAMES_SHOWN = 8  # as many as fit on a line
LINKS_SHOWN = 20  # of each direction
NAME_CHARS = 60  # longer names are cut


# -- parts of sentences ---------------------------------------------------------------------


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or plural.

    >>> counted(1, "passage"), counted(1932, "passage"), counted(2, "entity"), counted(2, "day")
    ('1 passage', '1,932 passages', '2 entities', '2 days')
    """
    takes_ies = noun[-1] == "y" and noun[-2] not in "aeiou"
    plural = f"{noun[:-1]}ies" if takes_ies else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def on_a_line(name: str) -> str:
    r"""Return a name that fits into a sentence: on one line, and cut if it is long.

    >>> on_a_line("two\nlines")
    'two lines'
    """
    flat = " ".join(name.split())
    return flat if len(flat) <= NAME_CHARS else f"{flat[: NAME_CHARS - 1]}…"


# Whatever begins a new line somewhere, as `str.splitlines` knows it, and how it is written.
_BREAKS = {
    ord(sign): sign.encode("unicode_escape").decode("ascii")
    for sign in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
}


def as_lines(rows: Iterable[str]) -> str:
    r"""Return one line for each row: a line break inside a name must not look like another row.

    >>> as_lines(["a.md", "b\nc.md"])
    'a.md\nb\\nc.md'
    """
    return "\n".join(row.translate(_BREAKS) for row in rows)


def _named(project: str) -> str:
    """Return a project's name: bare if it is plain, else quoted."""
    return project if is_plain_name(project) else quoted(project)


def in_project(project: str | None) -> str:
    """Return `` in PROJECT``, or nothing for the personal project."""
    return f" in {_named(project)}" if project else ""


def _short_ids(ids: Sequence[str]) -> str:
    return ", ".join(id_[:SHORT_ID] for id_ in ids)


def _paint(text: str, code: str, *, color: bool) -> str:
    return f"{code}{text}{PLAIN}" if color and text else text


# -- reading --------------------------------------------------------------------------------


def answer_text(answer: Answer, *, color: bool = False, home: str | None = None) -> str:
    """Return two lines for each hit: score, id and location; then the snippet.

    A hit of another project than ``home`` names its own.
    """
    lines = []
    names = distinct_names(hit.document for hit in answer)
    for hit in answer:
        heading = f"  {hit.heading}" if hit.heading else ""
        name = location(hit, names[hit.document.id])
        title = _paint(name, BOLD, color=color) + _paint(heading, DIM, color=color)
        weak = "  (weak)" if hit.is_weak else ""
        told = [*_foreign(hit.document, home), *_bracketed(hit.document, hit.superseded_by)]
        told += [f"[{changed_mark(hit.changed_since)}]"] if hit.changed_since else []
        marks = "".join(f"  {mark}" for mark in told)
        copies = f"  (+ {counted(len(hit.folded), 'copy')})" if hit.folded else ""
        lines.append(f"{hit.score:.2f}  {hit.id[:SHORT_ID]}  {title}{weak}{marks}{copies}")
        # With --window the neighbours were asked for, so the whole text is shown.
        body = highlighted(hit, color=color) if hit.context is None else hit.text.strip("\n")
        lines += [f"{INDENT}{line}" for line in body.splitlines()]
        lines += [_paint(f"{INDENT}  {reason}", DIM, color=color) for reason in hit.reasons]
    return as_lines(lines)


def _foreign(document: Document, home: str | None) -> list[str]:
    """Return the project of a document, if it is another one than ``home``."""
    project = document.project
    return [] if project in (None, home) else [f"[project {_named(project or '')}]"]


def highlighted(hit: Hit, *, color: bool) -> str:
    """Return the snippet; on a terminal the matching words are bold."""
    if not color:
        return hit.snippet
    parts, reached = [], 0
    for start, end in hit.highlights:
        parts += [hit.snippet[reached:start], _paint(hit.snippet[start:end], BOLD, color=True)]
        reached = end
    return "".join([*parts, hit.snippet[reached:]])


def location(hit: Hit, name: str) -> str:
    """Return ``ops/ssh.md:41`` for a file or a note with a key, else the kind and the day.

    For a message: who said it, when, and in which session.
    """
    document = hit.document
    if document.role:
        return f"{document.role} {show_day(document.event_at)} {document.session or ''}".rstrip()
    if document.kind == "file" or document.key:
        return f"{name}:{hit.start_line}"
    return f"{document.kind} {show_day(document.event_at)}"


def corrections_text(receipt: Receipt) -> str:
    """Return which words were searched for instead of those typed; empty if none were.

    >>> corrections_text(Receipt(corrections=(("certifcate", "certificate"),)))
    "Searched for 'certificate' instead of 'certifcate'."
    """
    pairs = [
        f"{quoted(searched)} instead of {quoted(typed)}" for typed, searched in receipt.corrections
    ]
    return f"Searched for {', '.join(pairs)}." if pairs else ""


def receipt_text(receipt: Receipt, hits: int) -> str:
    """Return the receipt in one line."""
    mode: str = receipt.mode_used
    if receipt.mode_used != receipt.mode_asked:
        mode = f"{receipt.mode_used} (asked: {receipt.mode_asked})"
    cost = f"{receipt.milliseconds:,.1f} ms, about {counted(receipt.tokens, 'token')}"
    return f"{counted(hits, 'hit')}, {mode}, {cost}"


def document_text(
    document: Document,
    superseded_by: str | None = None,
    secret: Sequence[str] = (),
    earlier: int = 0,
) -> str:
    """Return a whole document below a line that describes it."""
    is_message = document.kind == "message"
    session = document.session if is_message else None
    facts = [document.kind, session or "", document.type or "", ", ".join(document.tags)]
    facts += [show_day(document.event_at), document.path or ""]
    facts += [
        f"{name} {document.metadata[name]}" for name in PROVENANCE if name in document.metadata
    ]
    facts += _bracketed(document, superseded_by, secret, earlier)
    title = document.title or (is_message and document.role) or document.doc_id
    body = document.text.strip("\n")
    head = f"{document.id}  {title}  ({'; '.join(filter(None, facts))})"
    return f"{as_lines([head])}\n\n{body}"


def links_text(links: Links) -> str:
    """Return what a document links to and what links to it, in a line each; empty if nothing."""
    to = [row.target if row.target_id else f"{row.target} (not there)" for row in links.links]
    lines = []
    for words, names in (
        ("Links to", to),
        ("Linked from", [row.source for row in links.backlinks]),
    ):
        if names:
            more = f", … ({len(names):,} in all)" if len(names) > LINKS_SHOWN else ""
            lines.append(f"{words}: {', '.join(map(on_a_line, names[:LINKS_SHOWN]))}{more}")
    return as_lines(lines)


def passage_text(
    passage: Passage,
    document: Document,
    superseded_by: str | None = None,
    secret: Sequence[str] = (),
    earlier: int = 0,
) -> str:
    """Return a whole passage below a line that says where it is; a message, who said it when."""
    lines = f"{document.doc_id}:{passage.start_line}-{passage.end_line}"
    if document.kind == "message":
        facts = [document.kind, document.session or "", show_day(document.event_at)]
        if document.chunk_count > 1:
            facts.append(f"lines {passage.start_line}-{passage.end_line}")
        lines = f"{document.role or document.doc_id}  ({'; '.join(filter(None, facts))})"
    marks = _bracketed(document, superseded_by, secret, earlier)
    head = "  ".join(filter(None, [passage.id, lines, passage.heading, *marks]))
    return f"{as_lines([head])}\n\n{passage.text.strip(chr(10))}"


def caveats(
    document: Document,
    superseded_by: str | None = None,
    secret: Sequence[str] = (),
    earlier: int = 0,
) -> list[str]:
    """Return what to know about a document: trust, status, topic, facts replaced, end, secrets."""
    told = [name for name in (document.trust, document.status) if name not in ("trusted", "active")]
    topic = f"topic {quotable(document.topic)}" if document.topic else ""
    replaced = f"{earlier:,} earlier" if earlier else ""
    end = show_end(document.valid_to, superseded_by and superseded_by[:SHORT_ID])
    held = f"secret: {', '.join(secret)}" if secret else ""
    return [caveat for caveat in (*told, topic, replaced, end, held) if caveat]


def _bracketed(
    document: Document, superseded_by: str | None, secret: Sequence[str] = (), earlier: int = 0
) -> list[str]:
    return [f"[{caveat}]" for caveat in caveats(document, superseded_by, secret, earlier)]


def sort_of(document: Document) -> str:
    """Return what a row of a timeline calls a document: its type, who said it, or its kind."""
    return document.type or document.role or document.kind


def timeline_text(
    documents: Sequence[Document],
    successors: Mapping[str, str] = MappingProxyType({}),
    secrets: Mapping[str, Sequence[str]] = MappingProxyType({}),
    home: str | None = None,
) -> str:
    """Return one line for each document.

    Args:
        documents: The documents, in the order to show.
        successors: By the id of a superseded document, the id of the one that replaced it.
        secrets: By the id of a document that holds secrets, their kinds.
        home: The current project; documents of another one name it.
    """
    lines = []
    for document in documents:
        kind = sort_of(document)
        summary = document.summary or document.title
        if document.title and document.title not in summary:
            summary = f"{document.title}: {summary}"
        id_ = document.id
        marks = _bracketed(document, successors.get(id_), secrets.get(id_, ()))
        summary = "  ".join([summary, *_foreign(document, home), *marks])
        day = show_day(document.event_at)
        lines.append(f"{day}  {document.id[:SHORT_ID]}  {kind:<11} {summary}")
    return as_lines(lines)


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
    return as_lines([line + in_project(project)])


def added_text(stored: Sequence[Stored], session: str, project: str | None) -> str:
    """Return what became of messages that were added to a session, in one line."""
    new = [row for row in stored if row.id and not (row.duplicate or row.replaced)]
    parts = [counted(len(new), "message")]
    for count, verb in (
        (sum(row.replaced for row in stored), "replaced"),
        (sum(row.duplicate and bool(row.id) for row in stored), "known"),
        (sum(not row.id for row in stored), "left out"),
    ):
        parts += [f"{count:,} {verb}"] if count else []
    return as_lines([f"Stored {on_a_line(session)} ({', '.join(parts)}){in_project(project)}"])


def stored_remarks(stored: Stored) -> list[str]:
    """Return what the author of a stored text should check."""
    remarks = []
    if stored.shortened:
        remarks.append("part of the text was recalled from this memory and was left out")
    if stored.lowered:
        remarks.append(lowered_remark(stored.lowered))
    if stored.beside:
        ids = _short_ids(stored.beside)
        remarks.append(f"not trusted enough to supersede {ids}: both are current now")
    if stored.secret:
        remarks.append(secret_remark(stored.secret))
    for near in stored.near:
        differences = f"; {', '.join(near.differences)}" if near.differences else ""
        remarks.append(f"almost the same as {near.id[:SHORT_ID]} ({near.reason}{differences})")
    return remarks


def lowered_remark(trust: str) -> str:
    """Say that a text was stored with a lower trust than was asked for, and why."""
    return f"stored as {trust}: it repeats or replaces such a text, or is too long to tell"


def secret_remark(kinds: Sequence[str]) -> str:
    """Say that a stored text holds secrets, without their values."""
    return f"the stored text holds a secret ({', '.join(kinds)}); the memory is not encrypted"


def pending_notice(pending: int) -> Notice:
    """Say that passages have no vector yet, and advise a reindex."""
    verb = "waits" if pending == 1 else "wait"
    text = f"{counted(pending, 'passage')} {verb} for a vector."
    return Notice(text, "pending_vectors", str(pending), advise("reindex"))


def ingest_text(
    report: IngestReport, project: str | None, worded: Wording = str, *, verbose: bool = False
) -> str:
    """Return the outcome in one line, then what was left out and why.

    Skipped files are counted by reason; ``verbose`` names each of them. Failed ones are named.
    """
    from plait.types.reports import OUTCOMES  # 2 ms that a search does not need

    dropped = sum(row.code == "interrupted" for row in report.reports)
    outcomes = {outcome: report.count(outcome) for outcome in OUTCOMES}
    outcomes["skipped"] -= dropped
    counts = [f"{count:,} {outcome}" for outcome, count in outcomes.items() if count]
    total = counted(len(report.reports) - dropped, "file")
    passages = counted(report.chunks, "passage")
    project_part = in_project(project) if report.chunks else ""
    lines = [f"{total}: {', '.join(counts) or 'none matched'}; {passages} written{project_part}"]
    if report.ignored:
        lines[0] += f"; {counted(report.ignored, 'file')} of other types ignored"
        lines[0] += _ignored_types(report)
    if report.pending:
        lines.append(worded(pending_notice(report.pending)))
    lines += [
        f"  {row.outcome}: {row.path} ({row.reason})"
        for row in report.reports
        if row.reason and row.outcome in ("added", "changed", "moved")
    ]
    lines += [_left_out(row) for row in report.reports if row.outcome == "failed"]
    for reason, rows in _skipped(report).items():
        if len(rows) == 1 or verbose:
            lines += map(_left_out, rows)
        else:
            shown = rows[0].reason if len({row.reason for row in rows}) == 1 else reason
            lines.append(f"  skipped: {counted(len(rows), 'file')} ({shown}); --verbose names them")
    if report.interrupted and report.left + dropped:
        lines.append(f"  not read yet: {counted(report.left + dropped, 'file')}")
    return as_lines(lines)


def _ignored_types(report: IngestReport) -> str:
    """Return which types of files were ignored, and how to include those that can be read."""
    from plait.writing.file_types import include_for

    shown = report.ignored_types[:NAMES_SHOWN]
    if not shown:
        return ""
    types = [f"{count:,} {ending or 'without an ending'}" for ending, count in shown]
    more = ", …" if len(report.ignored_types) > NAMES_SHOWN else ""
    words = dict.fromkeys(include_for(ending) for ending, _ in shown)
    options = " ".join(f"--include {shell_word(word, 'PATTERN')}" for word in words if word)
    hint = f"; read more with {options}" if options else ""
    return f" ({', '.join(types)}{more}{hint})"


def _left_out(row: FileReport) -> str:
    return f"  {row.outcome}: {row.path} ({row.reason})"


def _skipped(report: IngestReport) -> dict[str, list[FileReport]]:
    """Return the skipped files by reason, without what differs from file to file."""
    groups: dict[str, list[FileReport]] = {}
    for row in report.reports:
        if row.outcome == "skipped" and row.code != "interrupted":
            # As in "too large: 12 MB, limit 10 MB".
            groups.setdefault(row.reason.partition(":")[0], []).append(row)
    return groups


def ingest_remarks(report: IngestReport) -> list[str]:
    """Return what the owner should check: files with secrets, documents from other projects."""
    remarks = [
        f"{counted(count, 'document')} moved here from project {on_a_line(project)}, with their "
        "folder"
        for project, count in report.taken_from.items()
    ]
    if report.outdated is not None:
        remarks.append(report.outdated.text)
    rows = [row for row in report.reports if row.secret]
    if not rows:
        return remarks
    verb = "holds" if len(rows) == 1 else "hold"
    names = ", ".join(f"{row.path} ({', '.join(row.secret)})" for row in rows[:NAMES_SHOWN])
    more = ", …" if len(rows) > NAMES_SHOWN else ""
    return [
        *remarks,
        f"{counted(len(rows), 'file')} {verb} secrets, now in the memory too: {names}{more}",
    ]


# -- the memory -----------------------------------------------------------------------------


def stats_text(stats: Stats, undo: str = "", embedder: str = "") -> str:
    """Return what is in a memory.

    ``undo`` is the command that restores from its trash; ``embedder`` makes its vectors.
    """
    kinds = ", ".join(counted(count, name) for name, count in stats.kinds) or "nothing yet"
    lines = [
        f"memory     {stats.path}",
        f"documents  {stats.doc_count:,} ({kinds})",
        f"passages   {stats.chunk_count:,}",
        f"vectors    {_vectors(stats, embedder)}",
        f"size       {stats.db_size_bytes / 1024 / 1024:.1f} MB",
    ]
    if stats.projects:
        names = ", ".join(
            f"{_named(name or 'personal')} ({count:,})" for name, count in stats.projects
        )
        lines.append(f"projects   {names}")
    if stats.trash_count:
        lines.append(f"trash      {stats.trash_count:,}" + (f" (see {undo})" if undo else ""))
    if stats.indexed_at:
        lines.append(f"indexed    {show_time(stats.indexed_at)}")
    return as_lines(lines)


def _vectors(stats: Stats, embedder: str) -> str:
    if stats.space is None:
        if stats.pending_count:
            waiting = "1 waits" if stats.pending_count == 1 else f"{stats.pending_count:,} wait"
            return f"none yet, {waiting} for {embedder or 'the embedder'}"
        return "none (keyword search only)" if stats.chunk_count else "none yet"
    pending = f", {stats.pending_count:,} pending" if stats.pending_count else ""
    return f"{stats.embedded_count:,}{pending}, {stats.space}"


def findings_text(
    findings: Sequence[Finding], worded: Wording = str, *, color: bool = False
) -> str:
    """Return one line for each check of ``doctor``."""
    lines = []
    for finding in findings:
        level = "fixed" if finding.fixed else finding.level
        mark = _paint(f"{level:<8}", BOLD if finding.level != "ok" else DIM, color=color)
        lines.append(f"{mark} {finding.check}: {worded(finding.notice)}")
    return as_lines(lines)


def salvaged_text(done: Salvaged) -> str:
    """Return what was copied out of a damaged memory, and each thing that was not."""
    kept = dict(done.kept)
    lines = [
        f"Copied to {done.target}: {counted(kept.get('documents', 0), 'document')}, "
        f"{counted(kept.get('passages', 0), 'passage')}"
    ]
    lines += [f"kept     {table}: {rows:,}" for table, rows in done.kept]
    for loss in done.lost:
        lines.append(f"lost     {loss.table}: {loss.rows:,}")
        lines += [f"         {on_a_line(name)}" for name in loss.names]
    lines += [f"mended   {on_a_line(name)}" for name in done.mended]
    if not done.lost:
        lines.append("Nothing that is known to have been there is lost.")
    return as_lines(lines)
