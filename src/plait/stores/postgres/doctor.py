"""Check a memory and repair what can be made again; the server looks after its own pages."""

from plait.errors import advise
from plait.stores.postgres.connection import Channel, Connections
from plait.stores.postgres.state import generations
from plait.stores.postgres.terms import postings
from plait.stores.sqlite.state import Generation
from plait.types import Passage
from plait.types.reports import Finding

_FIX = advise("doctor_fix")
_REINDEX = advise("reindex")
# Passages whose postings are compared or written at a time.
SLICE = 500

_ORPHANS = {
    "passages": "document NOT IN (SELECT place FROM plait.documents WHERE ns = %(ns)s)",
    "tags": "document NOT IN (SELECT place FROM plait.documents WHERE ns = %(ns)s)",
    "steps": "document NOT IN (SELECT place FROM plait.documents WHERE ns = %(ns)s)",
    "relations": "source NOT IN (SELECT place FROM plait.documents WHERE ns = %(ns)s) "
    "OR target NOT IN (SELECT place FROM plait.documents WHERE ns = %(ns)s)",
    "signals": "ref NOT IN (SELECT ref FROM plait.passages WHERE ns = %(ns)s)",
    "signal_pairs": "one NOT IN (SELECT ref FROM plait.passages WHERE ns = %(ns)s) "
    "OR other NOT IN (SELECT ref FROM plait.passages WHERE ns = %(ns)s)",
    "postings": "ref NOT IN (SELECT ref FROM plait.passages WHERE ns = %(ns)s)",
    "unembedded": "ref NOT IN (SELECT ref FROM plait.passages WHERE ns = %(ns)s) "
    "OR generation NOT IN (SELECT id FROM plait.generations WHERE ns = %(ns)s)",
}
_VECTORS = {
    "embeddings": "ref NOT IN (SELECT ref FROM plait.passages WHERE ns = %(ns)s) "
    "OR generation NOT IN (SELECT id FROM plait.generations WHERE ns = %(ns)s)",
}
_TOTALS = (
    "SELECT n.passages, n.tokens, (SELECT count(*) FROM plait.passages WHERE ns = %(ns)s), "
    "(SELECT coalesce(sum(length), 0)::bigint FROM plait.passages WHERE ns = %(ns)s) "
    "FROM plait.namespaces AS n WHERE n.ns = %(ns)s"
)
_RECOUNT = (
    "UPDATE plait.namespaces SET passages = %(passages)s, tokens = %(tokens)s WHERE ns = %(ns)s"
)
_SOME = (
    "SELECT p.ref, p.heading, p.text, p.title_terms, p.length, p.terms FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND p.ref > %(after)s ORDER BY p.ref LIMIT %(limit)s"
)
_KEPT = (
    "SELECT t.term, t.ref, t.times, t.length, t.places FROM plait.postings AS t "
    "WHERE t.ns = %(ns)s AND t.ref = ANY(%(refs)s)"
)
_UNLISTED = (
    "SELECT count(*) FROM plait.passages AS p WHERE p.ns = %(ns)s AND (EXISTS (SELECT 1 "
    "FROM plait.embeddings AS e WHERE e.ns = %(ns)s AND e.generation = %(generation)s "
    "AND e.ref = p.ref)) = (EXISTS (SELECT 1 FROM plait.unembedded AS u WHERE u.ns = %(ns)s "
    "AND u.generation = %(generation)s AND u.ref = p.ref))"
)
_LIST_AGAIN = (
    "INSERT INTO plait.unembedded (ns, generation, ref, reason, label) "
    "SELECT %(ns)s, %(generation)s, p.ref, 'pending', p.label FROM plait.passages AS p "
    "WHERE p.ns = %(ns)s AND NOT EXISTS (SELECT 1 FROM plait.embeddings AS e WHERE e.ns = %(ns)s "
    "AND e.generation = %(generation)s AND e.ref = p.ref) ON CONFLICT DO NOTHING",
    "DELETE FROM plait.unembedded AS u USING plait.embeddings AS e WHERE u.ns = %(ns)s "
    "AND u.generation = %(generation)s AND e.ns = %(ns)s AND e.generation = %(generation)s "
    "AND e.ref = u.ref",
)
_WAITING = (
    "SELECT count(*) FROM plait.unembedded WHERE ns = %(ns)s AND generation = %(generation)s "
    "AND reason = 'pending'"
)


def examine(connections: Connections, *, has_vectors: bool, fix: bool) -> list[Finding]:
    """Check what belongs together; with ``fix``, repair it in one transaction."""
    lending = connections.writing if fix else connections.lent
    with lending() as session:
        findings = [
            _orphans(session, has_vectors=has_vectors, fix=fix),
            _counts(session, fix=fix),
            _postings(session, fix=fix),
        ]
        if has_vectors:
            findings += [_vectors(session, row, fix=fix) for row in generations(session)]
    return findings


def _result(check: str, sound: str, wrong: str, *, bad: bool, fix: bool) -> Finding:
    if not bad:
        return Finding(check, "ok", sound)
    if fix:
        return Finding(check, "ok", f"repaired: {wrong}", fixed=True)
    return Finding(check, "error", f"{wrong[0].upper()}{wrong[1:]}.", advice=_FIX)


def _orphans(session: Channel, *, has_vectors: bool, fix: bool) -> Finding:
    tables = {**_ORPHANS, **(_VECTORS if has_vectors else {})}
    lost = 0
    for table, condition in tables.items():
        where = f"FROM plait.{table} WHERE ns = %(ns)s AND ({condition})"
        lost += session.value(f"SELECT count(*) {where}")
        if fix:
            session.execute(f"DELETE {where}")
    wrong = f"{lost} rows belong to nothing"
    return _result("rows", "every row belongs to something", wrong, bad=bool(lost), fix=fix)


def _counts(session: Channel, *, fix: bool) -> Finding:
    [(passages, tokens, own_passages, own_tokens)] = session.rows(_TOTALS)
    bad = (passages, tokens) != (own_passages, own_tokens)
    if bad and fix:
        session.execute(_RECOUNT, passages=own_passages, tokens=own_tokens)
    wrong = "the passages or their words are miscounted"
    return _result("counts", f"{passages} passages are counted", wrong, bad=bad, fix=fix)


def _postings(session: Channel, *, fix: bool) -> Finding:
    """Compare the postings with what the texts say, passage by passage."""
    bad, after = 0, -1
    while some := session.rows(_SOME, after=after, limit=SLICE):
        after = some[-1][0]
        kept: dict[int, list[tuple[object, ...]]] = {}
        for term, ref, times, length, places in session.rows(_KEPT, refs=[row[0] for row in some]):
            kept.setdefault(ref, []).append((term, times, length, places))
        for ref, heading, text, title, length, terms in some:
            listed, own = postings(Passage(text, heading), title)
            wanted = sorted((row.term, row.times, own, row.places) for row in listed)
            same = sorted(kept.get(ref, []), key=str) == sorted(wanted, key=str)
            if not same or length != own or {*terms} != {row.term for row in listed}:
                bad += 1
                if fix:
                    _index_again(session, ref, Passage(text, heading), title)
    if bad and fix:
        _counts(session, fix=True)
    wrong = f"the words of {bad} passages are not indexed as they are"
    return _result("keywords", "the keyword index is complete", wrong, bad=bool(bad), fix=fix)


def _index_again(session: Channel, ref: int, passage: Passage, title: str) -> None:
    listed, length = postings(passage, title)
    session.execute("DELETE FROM plait.postings WHERE ns = %(ns)s AND ref = %(ref)s", ref=ref)
    for row in listed:
        session.execute(
            "INSERT INTO plait.postings (ns, term, ref, times, length, places, label) "
            "SELECT %(ns)s, %(term)s, p.ref, %(times)s, %(length)s, %(places)s, p.label "
            "FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.ref = %(ref)s",
            row._asdict(),
            ref=ref,
            length=length,
        )
    session.execute(
        "UPDATE plait.passages SET terms = %(terms)s, length = %(length)s "
        "WHERE ns = %(ns)s AND ref = %(ref)s",
        terms=[row.term for row in listed],
        length=length,
        ref=ref,
    )


def _vectors(session: Channel, generation: Generation, *, fix: bool) -> Finding:
    lost = session.value(_UNLISTED, generation=generation.id)
    name = "vectors" if generation.current else "vectors being built"
    if fix:
        for sql in _LIST_AGAIN:
            session.execute(sql, generation=generation.id)
    if lost:
        wrong = f"{lost} passages have neither a vector nor a reason for it, or both"
        return _result(name, "", wrong, bad=True, fix=fix)
    if not generation.current:
        return Finding(name, "warning", "A reindex was not finished.", advice=_REINDEX)
    if waiting := session.value(_WAITING, generation=generation.id):
        return Finding(name, "warning", f"{waiting} passages wait for a vector.", advice=_REINDEX)
    return Finding(name, "ok", "every passage has a vector or cannot have one")
