"""Check the keyword index as a whole, tidy it, rebuild it from the passages. Not its queries."""

from collections.abc import Iterator

import apsw

from plait.errors import advise
from plait.stores.sqlite import stale_terms
from plait.stores.sqlite.connection import Connections, checkpoint
from plait.stores.sqlite.documents import DOCUMENT_COLUMNS, document_from
from plait.stores.sqlite.keyword import (
    COUNTED,
    PLANNER_PASSAGES,
    REBUILT_PASSAGES,
    is_complete,
    is_stale,
    passage_count,
)
from plait.stores.sqlite.resembling import RARE_IN_PASSAGES
from plait.stores.sqlite.state import STALE_TERMS, forget_meta, get_meta, set_meta
from plait.stores.sqlite.write_lock import WriteLock
from plait.stores.sqlite.writer import title_columns
from plait.text.columns import split_columns
from plait.types import Ref
from plait.types.reports import Finding

# With more passages, a merge as a whole would hold the file for seconds.
MERGED_PASSAGES = 200_000
# Terms in more than this share of the passages are counted when they are indexed, and all that are
# not rare: whoever looks for near duplicates need not look these up.
FREQUENT_SHARE = 0.005
_COUNT_FREQUENT = "INSERT INTO frequent_terms SELECT term, doc FROM passages_vocab WHERE doc > ?"
_RECOUNT = (
    "INSERT INTO meta (name, value) SELECT ?, count(*) FROM passages WHERE true "
    "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
)
_INDEXED = (
    "SELECT rowid, document, ordinal, heading, text, title_terms, heading_terms, text_terms "
    "FROM passages"
)
_DOCUMENT = f"SELECT {DOCUMENT_COLUMNS} FROM documents AS d WHERE d.rowid = ?"  # noqa: S608
_INDEX_ANEW = (
    "UPDATE passages SET title_terms = ?, heading_terms = ?, text_terms = ? WHERE rowid = ?"
)

# What is indexed of a passage: of its title, heading and text; then the passage.
_Indexed = tuple[str, str | None, str | None, Ref]


def is_readable(connection: apsw.Connection) -> bool:
    """Tell whether FTS5 can read all of its index; takes no lock that a writer would wait for."""
    try:
        answer = connection.execute("PRAGMA quick_check('passages_fts')").get
    except (apsw.CorruptError, apsw.SQLError):
        return False
    return bool(answer == "ok")


def compact(connections: Connections) -> None:
    """Merge the keyword index, and return free space to the disk."""
    with WriteLock(connections) as connection:
        _merge(connection)
    connection.execute("VACUUM")
    if not connections.in_memory:
        from plait.stores.sqlite.replaced import current

        checkpoint(current(connections), "TRUNCATE")


def is_sound(connection: apsw.Connection) -> bool:
    """Tell whether the index and the passages agree word for word."""
    try:
        connection.execute(
            "INSERT INTO passages_fts (passages_fts, rank) VALUES ('integrity-check', 1)"
        )
    except (apsw.CorruptError, apsw.SQLError):
        return False
    return True


def needs_rebuild(
    connection: apsw.Connection, analyzer: str, large: int = REBUILT_PASSAGES
) -> bool:
    """Tell whether to rebuild the index: always, except for a large and sound one."""
    return (
        passage_count(connection) < large
        or get_meta(connection, "analyzer") != analyzer
        or not is_complete(connection)
        or not is_readable(connection)
    )


def merge_large(connections: Connections) -> None:
    """Merge the index of a large memory in slices; `tidy` merges that of others as a whole."""
    if passage_count(connections.get()) > MERGED_PASSAGES:
        stale_terms.merge(connections)


def _merge(connection: apsw.Connection) -> None:
    """Merge the index as a whole."""
    connection.execute(stale_terms.MERGE_ALL)
    stale_terms.drop_mark(connection)


def outgrown(connection: apsw.Connection, least: int) -> bool:
    """Tell whether the memory is large enough to tidy, and has changed enough since then."""
    return passage_count(connection) >= least and is_stale(connection)


def tidy(connection: apsw.Connection, least: int = PLANNER_PASSAGES) -> None:
    """Merge the index and count its common terms.

    FTS5 looks into every unmerged piece, and reads a term's whole list to count it.
    """
    passages = passage_count(connection)
    if passages <= MERGED_PASSAGES:
        _merge(connection)
    connection.execute("DELETE FROM frequent_terms")
    frequent = min(max(least, passages) * FREQUENT_SHARE, RARE_IN_PASSAGES)
    connection.execute(_COUNT_FREQUENT, (frequent,))
    set_meta(connection, "counted_passages", str(passages))


def rebuild(connection: apsw.Connection) -> int:
    """Rebuild the index from the passages, in the caller's transaction; return their number."""
    from plait.stores.sqlite.schema import make_keyword_index

    # Dropped, not emptied: FTS5 cannot empty an index whose tables or settings are damaged.
    make_keyword_index(connection)
    connection.execute("INSERT INTO passages_fts (passages_fts) VALUES ('rebuild')")
    forget_meta(connection, STALE_TERMS)
    # Only now: splitting updates the index row by row, which needs a sound one.
    _index_anew(connection)
    tidy(connection)
    recount(connection)
    return passage_count(connection)


def rebuild_lost(connections: Connections) -> None:
    """Rebuild the index, unless another process has done so meanwhile."""
    with WriteLock(connections) as connection:
        if not is_complete(connection):
            rebuild(connection)


def recount(connection: apsw.Connection) -> None:
    """Count the passages; triggers keep the number from then on."""
    connection.execute(_RECOUNT, (COUNTED,))


def _index_anew(connection: apsw.Connection) -> int:
    """Bring what is indexed of passages up to the current rules; return how many were not."""
    # All are read first: a cursor must not meet the rows that are written.
    outdated = list(_outdated(connection))
    connection.executemany(_INDEX_ANEW, outdated)
    return len(outdated)


def _outdated(connection: apsw.Connection) -> Iterator[_Indexed]:
    """Yield what should be indexed of the passages that were indexed under other rules."""
    last, titles = None, None
    for ref, document, ordinal, heading, text, *old in connection.execute(_INDEXED):
        if not (isinstance(heading, str) and isinstance(text, str)):
            # This is how half-written pages read.
            raise apsw.CorruptError(f"passage {ref} is not text")
        if document != last:  # those of one document are neighbours
            last, titles = document, _titles_of(connection, document)
        title = titles[ordinal != 0] if titles else old[0]
        fresh = [title, *split_columns(heading, text)]
        if fresh != old:
            yield title, fresh[1], fresh[2], ref


def _titles_of(connection: apsw.Connection, document: int) -> tuple[str, str] | None:
    """Return what is indexed of a document's names; ``None`` if its row cannot be read."""
    try:
        row = connection.execute(_DOCUMENT, (document,)).fetchone()
        return None if row is None else title_columns(document_from(row))
    except (apsw.CorruptError, UnicodeDecodeError):
        return None  # the index is made of what can be read


def check_rules(connections: Connections, analyzer: str, *, fix: bool) -> Finding:
    """Check that a sound index has every passage as the current rules index it.

    An older plait that writes to this file follows its own rules, and `meta` does not tell: every
    passage is looked at, which takes about 0.07 ms.
    """
    sound = Finding("keyword index", "ok", "matches the passages")
    connection = connections.get()
    if get_meta(connection, "analyzer") not in (None, analyzer):
        return sound  # known, and a reindex is advised anyway
    if not any(_outdated(connection)):
        return sound
    if not fix:
        text = "Some passages were indexed under the rules of another version of plait."
        return Finding("keyword index", "warning", text, advice=advise("doctor_fix"))
    with WriteLock(connections) as connection:
        count = _index_anew(connection)
    subject = "1 passage was" if count == 1 else f"{count:,} passages were"
    text = f"{subject} indexed anew, by the rules of this version of plait"
    return Finding("keyword index", "ok", text, fixed=True)


def rebuild_where_needed(
    connections: Connections, analyzer: str, large: int, *, force: bool
) -> int:
    """Rebuild the index in one transaction; return the number of passages.

    A ``large`` index is rebuilt only if `needs_rebuild` or with ``force``: writers would wait for
    seconds. Otherwise only passages that were indexed under other rules are indexed anew.
    """
    connection = connections.get()
    if not force and not needs_rebuild(connection, analyzer, large):
        if any(_outdated(connection)):
            with WriteLock(connections) as connection:
                _index_anew(connection)
        return passage_count(connection)
    with WriteLock(connections) as connection:
        return rebuild(connection)


def scrub(connections: Connections, patience: float | None = None) -> tuple[str, ...]:
    """Clear the bytes of what was purged; return other files that may still have some."""
    from plait.stores.sqlite import scrubbing

    scrubbing.scrub(connections, patience)
    return scrubbing.copies_beside(connections)
