"""Store messages: each is the next turn of its session, and none is taken for another.

What a message says may have been said before: nothing is compared with what is stored, except to
leave out plait's own answers and to lower the trust of copies. A message with a key is stored once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from plait.errors import UsageError
from plait.facts.credentials import document_secrets
from plait.facts.messages import origin_of, read_message
from plait.text import clean
from plait.text.normal_form import composed
from plait.times import Moment, as_moment
from plait.types import Document, Filter, Trust
from plait.types.guarding import check_type
from plait.types.ids import SESSION_SOURCE
from plait.types.records import NamedTuple
from plait.types.reports import Stored
from plait.writing import echoes
from plait.writing.changes import Change
from plait.writing.copies import New
from plait.writing.documents import check_message, new_document
from plait.writing.echoes import NOTHING_NEW, Storable
from plait.writing.writer import Writer

# The result for a message in which nothing was said.
NOTHING_SAID = Stored("", "", 0)
# What a message with a key may differ in from the stored one and still be the same.
_OWN_TO_STORED = (
    *("id", "text", "turn", "trust", "created_at", "updated_at", "indexed_at", "chunk_count"),
)


def by_its_role(document: Document) -> Document:
    """Return a message with the origin of its role, unless it has one that is not the default."""
    if document.role is None or document.origin != Document._field_defaults["origin"]:
        return document
    return document._replace(origin=origin_of(document.role))


def store_message(writer: Writer, document: Document) -> Stored:
    """Store one message as the next turn of its session, or in place of the one with its key."""
    return _store(writer, [document])[0]


def add_messages(
    writer: Writer,
    messages: Iterable[Mapping[str, Any]],
    session: str,
    *,
    origin: str | None,
    trust: str,
) -> list[Stored]:
    """Store the messages of a chat API, all or none; the results keep their order.

    Raises:
        UsageError: A message is refused; the subject names it, as in ``messages[2]``.
    """
    fields: dict[str, Any] = {"session": session, "origin": origin, "trust": trust}
    fields["project"] = writer.project
    documents = []
    for place, message in enumerate(messages):
        with _naming(f"messages[{place}]"):
            documents.append(_document(message, fields))
    return _store(writer, documents, names=[f"messages[{n}]" for n in range(len(documents))])


def _document(message: Mapping[str, Any], fields: Mapping[str, Any]) -> Document:
    read = read_message(message)
    fields = {**fields, "origin": fields["origin"] or read.origin}
    return new_document(
        read.text,
        key=read.id,
        role=read.role,
        metadata=read.metadata,
        event_at=_moment(check_type("time", read.time, "Moment | None")),
        tags=(),
        memory_type=None,
        importance=None,
        entity=None,
        topic=None,
        supersedes=None,
        valid_from=None,
        **fields,
    )


def _moment(time: "Moment | None") -> int | None:
    """Return the time of a message; some chat programs write the number as a text.

    >>> _moment("1700000000"), _moment("1700000000.5"), _moment("1700000000000")
    (1700000000000, 1700000000500, 1700000000000)
    """
    if isinstance(time, str) and time.isascii():
        whole, _, part = time.partition(".")
        if whole.isdecimal() and 10 <= len(whole) <= 13 and (not part or part.isdecimal()):
            time = float(time)
    return as_moment(time, "time")


class Prepared(NamedTuple):
    """Messages by their places in a request: what to write, and what is decided already."""

    changes: Mapping[int, Change]
    results: Mapping[int, Stored]
    asked: Mapping[int, Document]
    own: Mapping[int, Storable]

    def noted(self, place: int, stored: Stored) -> Stored:
        """Return the result of a written message, with what was left out of it."""
        return self.own[place].noted(stored, self.asked[place])


def prepare(
    writer: Writer, given: Mapping[int, Document], *, names: Sequence[str] = ()
) -> Prepared:
    """Prepare messages to be written, each as the next turn of its session.

    ``names`` are for errors. With them, a message in which nothing was said is left out.

    Raises:
        UsageError: A message has no session, or a field has a bad value.
    """
    asked: dict[int, Document] = {}
    results: dict[int, Stored] = {}
    for place, document in given.items():
        with _naming(names and names[place]):
            asked[place] = _at_home(document)
            writer.check_size(asked[place])
        if names and not document.text.strip():
            results[place] = NOTHING_SAID
    spoken = {place: document for place, document in asked.items() if place not in results}
    own = _guarded(writer, spoken)
    known = _known(writer, spoken)
    changes: dict[int, Change] = {}
    for place, document in spoken.items():
        if own[place].is_empty:
            results[place] = NOTHING_NEW
            continue
        here, ready = known.get(place), own[place].document
        if here is not None and ready.event_at is None:
            ready = ready._replace(event_at=here.event_at)
        with _naming(names and names[place]):
            entry = writer.prepare(ready)
        if here is not None and _is_same(entry.document, here, document.trust):
            results[place] = _unchanged(here, entry.document)
        else:
            changes[place] = Change(entry, undated=ready.event_at is None)
    return Prepared(changes, results, asked, own)


def _store(writer: Writer, given: Sequence[Document], *, names: Sequence[str] = ()) -> list[Stored]:
    """Store messages in one transaction."""
    ready = prepare(writer, dict(enumerate(given)), names=names)
    results = dict(ready.results)
    written = writer.write(list(ready.changes.values())) if ready.changes else []
    for place, stored in zip(ready.changes, written, strict=True):
        results[place] = ready.noted(place, stored)
    return [results[place] for place in range(len(given))]


def _at_home(document: Document) -> Document:
    """Return a message as it is stored; its key is unique in its session, which is its source.

    Raises:
        UsageError: It has no session, or fields of a fact.
    """
    of_facts = (document.parent, document.topic, document.supersedes, document.valid_from)
    is_fact = any(value is not None for value in of_facts)
    check_message(document.role, document.session, is_fact=is_fact)
    session = composed(clean(document.session or ""))
    if document.key is None:
        return document._replace(session=session)
    key = composed(clean(document.key))
    return document._replace(session=session, source=f"{SESSION_SOURCE}{session}", key=key)


def _guarded(writer: Writer, documents: Mapping[int, Document]) -> dict[int, Storable]:
    """Return messages as they may be stored, each session apart."""
    sessions: dict[tuple[str | None, str | None], dict[int, Document]] = {}
    for place, document in documents.items():
        home = (document.project, document.session)
        sessions.setdefault(home, {})[place] = document
    guarded: dict[int, Storable] = {}
    for rows in sessions.values():
        guarded |= zip(rows, _guarded_session(writer, list(rows.values())), strict=True)
    return guarded


def _guarded_session(writer: Writer, documents: Sequence[Document]) -> list[Storable]:
    """Return messages of one session as they may be stored.

    The name of a session that has trusted messages is its address by now. Otherwise one untrusted
    message would lower all that follow, if the name is long.
    """
    own = echoes.storable_all(writer.store, [New(document) for document in documents])
    lowered = any(
        mine.document.trust != document.trust for mine, document in zip(own, documents, strict=True)
    )
    if not lowered or not _is_trusted(writer, documents[0]):
        return own
    nameless = [New(document._replace(session=None)) for document in documents]
    return [
        mine._replace(document=mine.document._replace(session=documents[0].session))
        for mine in echoes.storable_all(writer.store, nameless)
    ]


def _is_trusted(writer: Writer, document: Document) -> bool:
    """Tell whether the session of a message has trusted ones; this reads all of the session."""
    trusted = Filter(
        session=document.session,
        projects=(document.project,),
        kinds=("message",),
        trusts=("trusted",),
    )
    return bool(writer.store.scan(trusted, limit=1))


def _known(writer: Writer, documents: Mapping[int, Document]) -> dict[int, Document]:
    """Return the stored messages that these would replace, by the same places."""
    named = {place: row for place, row in documents.items() if row.key is not None or row.id}
    stored = writer.store.known(list(named.values())) if named else []
    return {place: here for place, here in zip(named, stored, strict=True) if here is not None}


def _is_same(document: Document, here: Document, asked: Trust) -> bool:
    """Tell whether a message is stored already, whatever came to be known of its text since."""
    own = {name: getattr(here, name) for name in _OWN_TO_STORED}
    return here.trust in (asked, document.trust) and document._replace(**own) == here


def _unchanged(here: Document, document: Document) -> Stored:
    return Stored(
        here.id,
        here.doc_id,
        here.chunk_count,
        duplicate=True,
        matched=here.id,
        turn=here.turn,
        secret=document_secrets(document),
    )


@contextmanager
def _naming(name: str | Sequence[str]) -> Iterator[None]:
    """Name the message in the error of what is done with it, if it has a name."""
    try:
        yield
    except UsageError as error:
        if not isinstance(name, str):
            raise
        raise UsageError(
            f"{name}: {error.notice.text} No message was stored.",
            code=error.code,
            subject=name,
            advice=error.advice,
        ) from error
