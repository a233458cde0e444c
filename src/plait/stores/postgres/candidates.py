"""Passages with all that ranking needs, and the messages around them."""

from collections.abc import Sequence

from plait.protocols import Candidate
from plait.stores.postgres import documents, signals
from plait.stores.postgres.connection import SQLRow, SQLStatement
from plait.stores.postgres.documents import JOINED
from plait.stores.postgres.filters import Conditions
from plait.stores.sqlite import analysis, fileless
from plait.types import Ref
from plait.types.queries import AFTER_A_MARK, QUESTION_MARKS, Terms, Turn

_WITH_ENTITY = documents.HYDRATE.replace(
    " FROM ",
    ", CASE WHEN d.parent IS NOT NULL THEN (SELECT e.title FROM plait.documents AS e "
    "WHERE e.ns = %(ns)s AND e.id = d.parent AND e.label = d.label) END FROM ",
    1,
)
_RANKED = (
    _WITH_ENTITY,
    signals.USES,
    signals.PAIRS,
    signals.DEGREES,
    documents.SUCCESSORS_OF,
    signals.ANY_USE,
)
# What comes next in the conversation after each message that asks something.
_REPLIES = (
    "SELECT q.ref, q.project, q.session, r.reply, r.turn, r.text FROM (SELECT p.ref, d.project, "  # noqa: S608
    f"d.session, d.turn FROM {JOINED} AND p.ref = ANY(%(refs)s) AND d.turn IS NOT NULL "
    "AND d.kind = 'message' AND d.chunk_count = 1 "
    "AND right(rtrim(p.text, %(after_a_mark)s), 1) = ANY(%(marks)s)) AS q "
    f"CROSS JOIN LATERAL (SELECT p.ref AS reply, d.turn, p.text FROM {JOINED} "
    "AND d.project = q.project AND d.session = q.session AND d.turn = q.turn + 1 "
    "AND d.chunk_count = 1 AND {conditions} "
    "ORDER BY d.id LIMIT 1) AS r"
)


def hydrating(refs: Sequence[Ref], now: int, *, ranking: bool) -> list[SQLStatement]:
    """Return the statements that read passages with their documents."""
    values = {"refs": list(refs), "now": now}
    return [(sql, values) for sql in (_RANKED if ranking else (documents.HYDRATE,))]


def of_replies_too(statement: SQLStatement, replying: SQLStatement) -> SQLStatement:
    """Return a statement about passages that is about the replies to messages, too."""
    (sql, values), (replies, own) = statement, replying
    listed = replies.replace("%(refs)s", "%(asking)s")
    both = f"(%(refs)s::bigint[] || ARRAY(SELECT y.reply FROM ({listed}) AS y))"  # noqa: S608
    return sql.replace("%(refs)s", both), {**own, **values, "asking": own["refs"]}


def hydrated(
    answers: Sequence[Sequence[SQLRow]], *, ranking: bool, terms: Terms
) -> dict[Ref, Candidate]:
    """Return the answers to `hydrating` as values."""
    if not ranking:
        pairs = map(documents.passage_and_document, answers[0])
        return {passage.ref: Candidate(passage, document) for passage, document in pairs}
    return {ref: with_words(row, terms) for ref, row in unread(answers).items()}


def unread(answers: Sequence[Sequence[SQLRow]]) -> dict[Ref, Candidate]:
    """Return the answers to `hydrating` for ranking as values; nobody has read the texts yet."""
    rows, *others = answers
    read, together, degrees, replaced, any_use = others
    uses = signals.uses(read, together, degrees) if any_use else {}
    successors: dict[str, str] = dict(replaced)
    candidates = {}
    for row in rows:
        passage, document = documents.passage_and_document(row[:-1])
        candidates[passage.ref] = Candidate(
            passage,
            document,
            use=uses.get(passage.ref),
            superseded_by=successors.get(document.id),
            entity=row[-1],
        )
    return candidates


def with_words(candidate: Candidate, terms: Terms) -> Candidate:
    """Return a candidate with its words."""
    connection, (passage, document, *_) = fileless.connection(), candidate
    return candidate._replace(
        tokens=analysis.tokens_among(connection, passage.text, terms),
        name_terms=analysis.name_terms(connection, passage, document, terms),
    )


def replying(refs: Sequence[Ref], where: Conditions) -> SQLStatement:
    """Return the statement for the messages after those of these passages that ask something."""
    values = {"refs": list(refs), "after_a_mark": AFTER_A_MARK, "marks": list(QUESTION_MARKS)}
    return where.stated(_REPLIES), {**where.values, **values}


def replied(rows: Sequence[SQLRow]) -> dict[Ref, list[tuple[Ref, Turn]]]:
    """Return the answer to `replying` by the passages that ask."""
    return {
        asking: [(ref, Turn.of(f"{project}\0{session}", turn, text))]
        for asking, project, session, ref, turn, text in rows
    }
