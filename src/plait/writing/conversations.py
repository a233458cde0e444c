"""Store messages: each is the next turn of its session, and none is taken for another.

What a message says may have been said before: nothing is compared with what is stored, except to
leave out plait's own answers and to lower the trust of copies. A message with a key is stored once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from plait.errors import UsageError
from plait.facts.credentials import document_secrets
from plait.facts.messages import read_message
from plait.text import clean
from plait.text.normal_form import composed
from plait.times import as_moment
from plait.types import Document, Filter, Trust
from plait.types.guarding import check_type
from plait.types.ids import SESSION_SOURCE
from plait.types.reports import Stored
from plait.writing import echoes
from plait.writing.changes import Change
from plait.writing.copies import New
from plait.writing.documents import new_document, now_ms
from plait.writing.echoes import NOTHING_NEW, Storable
from plait.writing.writer import Writer

# The result for a message in which nothing was said.
NOTHING_SAID = Stored("", "", 0)
# What a message with a key may differ in from the stored one and still be the same.
_OWN_TO_STORED = (
    *("id", "text", "turn", "trust", "created_at", "updated_at", "indexed_at", "chunk_count"),
)


def store_message(writer: Writer, document: Document) -> Stored:
    """Store one message as the next turn of its session, or in place of the one with its key."""
    [stored] = _store(writer, [document], [None])
    return stored


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
    # They were said one after another; with one time for all, a timeline would shuffle them.
    first = now_ms() + 1 - len(documents)
    times = range(first, first + len(documents))
    return _store(writer, documents, times, names=[f"messages[{n}]" for n in range(len(times))])


def _document(message: Mapping[str, Any], fields: Mapping[str, Any]) -> Document:
    read = read_message(message)
    return new_document(
        read.text,
        key=read.id,
        role=read.role,
        metadata=read.metadata,
        event_at=as_moment(check_type("time", read.time, "Moment | None"), "time"),
        tags=(),
        memory_type=None,
        importance=None,
        entity=None,
        topic=None,
        supersedes=None,
        valid_from=None,
        **fields,
    )


def _store(
    writer: Writer,
    given: Sequence[Document],
    times: Sequence[int | None],
    *,
    names: Sequence[str] = (),
) -> list[Stored]:
    """Store messages in one transaction; those without a time get theirs from ``times``.

    ``names`` are for errors. With them, a message in which nothing was said is left out.
    """
    asked = {place: _at_home(document) for place, document in enumerate(given)}
    results: dict[int, Stored] = {}
    for place, document in asked.items():
        with _naming(names and names[place]):
            writer.check_size(document)
        if names and not document.text.strip():
            results[place] = NOTHING_SAID
    spoken = {place: document for place, document in asked.items() if place not in results}
    own = dict(zip(spoken, _guarded(writer, list(spoken.values())), strict=True))
    known = _known(writer, spoken.values())
    changes: dict[int, Change] = {}
    for place, document in spoken.items():
        if own[place].is_empty:
            results[place] = NOTHING_NEW
            continue
        here = known.get(document.key)
        with _naming(names and names[place]):
            time = times[place] if here is None else here.event_at
            entry = writer.prepare(_dated(own[place].document, time))
        if here is not None and _is_same(entry.document, here, document.trust):
            results[place] = _unchanged(here, entry.document)
        else:
            changes[place] = Change(entry)
    written = writer.write(list(changes.values())) if changes else []
    for place, stored in zip(changes, written, strict=True):
        results[place] = own[place].noted(stored, asked[place])
    return [results[place] for place in asked]


def _at_home(document: Document) -> Document:
    """Return a message as it is stored; its key is unique in its session, which is its source."""
    session = composed(clean(document.session or ""))
    if document.key is None:
        return document._replace(session=session)
    key = composed(clean(document.key))
    return document._replace(session=session, source=f"{SESSION_SOURCE}{session}", key=key)


def _guarded(writer: Writer, documents: Sequence[Document]) -> list[Storable]:
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


def _dated(document: Document, time: int | None) -> Document:
    return document if document.event_at is not None else document._replace(event_at=time)


def _known(writer: Writer, documents: Iterable[Document]) -> dict[str | None, Document]:
    """Return the stored messages that these would replace, by key."""
    keyed = [document for document in documents if document.key is not None]
    stored = writer.store.known(keyed) if keyed else []
    return {row.key: here for row, here in zip(keyed, stored, strict=True) if here is not None}


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
