"""Read what was said in a session, in its order."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from plait.errors import AmbiguousId, PlaitError
from plait.facts.messages import is_instruction
from plait.facts.names import Named, out_of_reach
from plait.protocols import Following, Store
from plait.ranking.hybrid import ANSWER_SHARE
from plait.searching.readable import load_readable, readable_passages, unreadable
from plait.text import clean
from plait.types import EVERYTHING, Answer, Document, Filter, Hit, Passage
from plait.types.ids import AGENT_FIELD, IMPORTED_SESSION, SHORT_SESSION, short_session
from plait.types.queries import asks

if TYPE_CHECKING:
    from plait.protocols import ReadAhead

# A question, the results of a few tools or an instruction, then the reply.
REPLY_WITHIN = 4
# No document of a session has a later place.
_THE_END = (2**63 - 1, "")


def here(store: Store, where: Filter, places: Sequence[str | None]) -> Filter:
    """Return a filter for the session of the first of these projects that has one of its name.

    One name in two projects is two sessions. As with other names, the project's hides the personal
    one, and a user's own those that are shared. A filter that was narrowed to others stays as it
    is.
    """
    if where.session is None or set(where.projects or ()) != set(places):
        return where
    for last in range(1, len(places)):
        own = where._replace(projects=tuple(places[:last]))
        if _has_messages(store, own):
            return own
    return where


def whole_session(store: Store, where: Filter) -> Filter:
    """Return a filter with the whole name of its session: it may name an imported one in short.

    What has exactly that name comes first. Other fields of the filter do not count, except for
    kinds: a note does not hide the messages of a session.

    Raises:
        AmbiguousId: Several sessions begin so.
    """
    name = where.session or ""
    if not may_be_short(name):
        return where
    own, messages = reach_of_session(where)
    if (ahead := store.ahead) is not None:
        is_there, known = ahead.session(own, messages)
        begun = sorted(row for row, has_messages in known.items() if has_messages)
        if not all(map(str.isascii, known)):  # a letter may be written in two ways
            begun = begun_by(store, messages)
    else:
        damaged: list[str] = []
        is_there = bool(store.scan(own, limit=1, damaged=damaged) or damaged)
        begun = [] if is_there else begun_by(store, messages)
    if is_there:
        return where
    if len(begun) > 1:
        raise AmbiguousId(
            f"'{name}' matches {len(begun)} sessions. Write more of the name.", subject=name
        )
    return where._replace(session=begun[0]) if begun else where


def joined_session(
    session: str | None, filter_of: Callable[[Mapping[str, str]], Filter]
) -> str | None:
    """Return the session that a text belongs to; it may name an imported one in short.

    Raises:
        AmbiguousId: Several sessions begin so.
    """
    if not isinstance(session, str) or ":" not in session:
        return session
    return filter_of({"session": session, "kind": "message"}).session


def _has_messages(store: Store, where: Filter) -> bool:
    damaged: list[str] = []
    messages = where._replace(kinds=("message",))
    return bool(store.scan(messages, limit=1, by_turn=True, damaged=damaged) or damaged)


def reach_of_session(where: Filter) -> tuple[Filter, Filter]:
    """Return filters for what has exactly the name of a filter's session, and for its messages."""
    reach = EVERYTHING._replace(session=where.session, projects=where.projects, scopes=where.scopes)
    return reach._replace(kinds=where.kinds), reach._replace(kinds=("message",))


def begun_by(store: Store, where: Filter) -> list[str]:
    """Return the imported sessions whose names begin like the filter's, if it has a name's form.

    The form is ``AGENT:`` and eight or more characters, as answers show it.
    """
    name = where.session or ""
    if not may_be_short(name):
        return []
    rows = store.remembered(f"{IMPORTED_SESSION}{name}")
    names = sorted(row.removeprefix(IMPORTED_SESSION) for row in rows)
    return [row for row in names if _has_messages(store, where._replace(session=row))]


def may_be_short(name: str) -> bool:
    """Tell whether a name may be the beginning of that of an imported session."""
    agent, _, start = name.partition(":")
    return bool(agent) and len(start) >= SHORT_SESSION and name.isascii()


def why_unknown(store: Store, name: str, other: PlaitError) -> PlaitError:
    """Return why a name is no session here: it may be one of another project."""
    name = clean(name)
    where = EVERYTHING._replace(session=name, kinds=("message",), scopes=False)
    for known in (name, *begun_by(store, where)):
        for message in store.scan(where._replace(session=known), limit=1, damaged=[]):
            return out_of_reach(name, message, "read")
    return other


def conversation(
    store: Store, where: Filter, last: int | None, damaged: list[str] | None = None
) -> list[Document]:
    """Return messages whole, in the order of their turns; with ``last`` only so many at the end."""
    if last is None:
        heads = store.scan(where, by_turn=True, damaged=damaged)
    else:
        heads = store.scan(where, by_turn=True, before=_THE_END, limit=last, damaged=damaged)[::-1]
    return load_readable(store, [head.id for head in heads], damaged)


def with_replies(
    store: Store, answer: Answer, where: Filter, ahead: "ReadAhead | None" = None
) -> Answer:
    """Return an answer in which each message is followed by its reply, if that is one passage.

    A reply often shares no word with its question, and then has no evidence of its own. One that
    cannot be read is left out, and the receipt tells it.
    """
    damaged: list[str] = []
    known = {hit.document.id for hit in answer}
    hits: list[Hit] = []
    for hit in answer:
        hits.append(hit)
        document = hit.document
        if document.turn is None or is_last_word(hit):
            continue
        if ahead is None:
            following = _following(store, document, where, damaged)
        else:
            following = ahead.following(document.id)
        reply, passage = _reply(document.turn, following)
        if reply is not None and reply.chunk_count == 1 and reply.id not in known:
            known.add(reply.id)
            score = hit.score * ANSWER_SHARE
            whole = [passage] if passage is not None else []
            for own in whole or readable_passages(store, reply.id, 0, 0, damaged):
                hits.append(Hit(own, reply, score, 0.0, hit.source, own.text))
    notices = map(unreadable, dict.fromkeys(damaged))
    return Answer(hits, answer.receipt._replace(degraded=(*answer.receipt.degraded, *notices)))


def is_last_word(hit: Hit) -> bool:
    """Tell whether an agent asks nothing: what the user says next is about something else."""
    return hit.document.origin == "agent" and not asks(hit.passage.text)


def _following(
    store: Store, document: Document, where: Filter, damaged: list[str]
) -> list[Following]:
    """Return the next messages of a session, and which of them pass the filter."""

    def scan(passing: Filter, damaged: list[str]) -> list[Document]:
        home = passing._replace(session=document.session, projects=(document.project,))
        return store.scan(
            home, by_turn=True, after=document.place, limit=REPLY_WITHIN, damaged=damaged
        )

    visible = {row.id for row in scan(where, damaged)}
    # Of what the filter hides, nothing is told, not even that it is damaged.
    rows = scan(EVERYTHING._replace(scopes=where.scopes), []) if visible else []
    return [(row, None, row.id in visible) for row in rows]


def _reply(
    turn: int, following: Sequence[Following]
) -> tuple[Document, Passage | None] | tuple[None, None]:
    """Return the message that replies to a turn: the next one that is not in between.

    What is in between counts even if it is hidden. A hidden reply is none: the message after it
    replies to something else. A gap in the numbering is a gap in the conversation. Without a reply,
    the first of the visible tools and instructions is what there is.
    """
    between: list[tuple[Document, Passage | None]] = []
    for place, (row, passage, is_visible) in enumerate(following, turn + 1):
        if row.turn != place:
            break
        if _is_between(row):
            between += [(row, passage)] if is_visible else []
        elif is_visible:
            return row, passage
        else:
            break
    return between[0] if between else (None, None)


def _is_between(row: Document) -> bool:
    return row.origin == "tool" or is_instruction(row.role)


def by_importance(rows: Sequence[Named], hit: Document | None = None) -> list[tuple[int, Named]]:
    """Return documents with their places, in the order in which they are kept if some do not fit.

    Of a conversation its end is kept: a reader wants to go on from there. Around a ``hit``, it is
    kept itself, then the turns that are nearest to it.
    """
    places = list(enumerate(rows))
    if hit is not None:
        middle = next((place for place, (row, _) in places if row.id == hit.id), 0)
        return sorted(places, key=lambda row: abs(row[0] - middle))
    messages = [row for row in places if _is_message(row)]
    return [*(row for row in places if not _is_message(row)), *reversed(messages)]


def _is_message(row: tuple[int, Named]) -> bool:
    _, (document, _) = row
    return document.kind == "message"


def short_sessions(documents: Iterable[Document]) -> dict[str, str]:
    """Return sessions as they are shown: imported ones short, unless two look alike."""
    shown: dict[str, str] = {}
    for document in documents:
        name = document.session or ""
        is_imported = document.metadata.get(AGENT_FIELD) == name.partition(":")[0]
        shown[name] = short_session(name) if is_imported else name
    uses = Counter(shown.values())
    return {name: short if uses[short] == 1 else name for name, short in shown.items()}
