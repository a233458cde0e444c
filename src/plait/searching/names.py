"""Look up what names refer to; the rules are in `plait.facts.names`."""

import re
from collections.abc import Sequence

from plait.errors import AmbiguousId, NotFound, PlaitError, StoreDamaged, advise, is_plain_name
from plait.facts.names import (
    MOST_FOLDERS,
    Named,
    Reach,
    choose,
    choose_elsewhere,
    shown_names,
    unknown_name,
)
from plait.protocols import Store
from plait.searching.readable import load_apart
from plait.text import clean
from plait.types import EVERYTHING

# How a list shows where a hit is: the name of a file, and a line.
_PLACE = re.compile(r"(.+):[0-9]+")


def resolve(
    store: Store, name: str, project: str | None, reach: Reach, *, exactly: bool = False
) -> Named:
    """Return the one document that a name refers to, and the passage if it names one.

    ``reach`` says what the name is for, and so whether it may refer to another project's. With
    ``exactly``, neither an alias nor a part of a key is a name.

    Raises:
        NotFound: Nothing has that name.
        AmbiguousId: Several documents have it; the message lists them.
    """
    stored_name = clean(_as_stored(store, name))
    here = EVERYTHING._replace(projects=tuple(dict.fromkeys((project, None))))
    named = choose(stored_name, store.find(stored_name, here), project)
    if named is not None:
        return named
    elsewhere = store.find(stored_name, EVERYTHING)
    if not elsewhere and not exactly:
        shown = _shown_as(store, stored_name, project, reach)
        if shown is not None:
            return shown
        if reach == "read":
            # Only to read: what changes something must be named exactly.
            known = _known_as(store, stored_name, project)
            if known is not None:
                return known
        else:
            raise _with_known(store, stored_name, project, unknown_name(name))
    return choose_elsewhere(name, elsewhere, reach)


def _shown_as(store: Store, name: str, project: str | None, reach: Reach) -> Named | None:
    """Return the file that lists show by this name: of several with one key, by its path as well.

    To read, the line behind it may be given too.
    """
    if reach == "read" and (place := _PLACE.fullmatch(name)):
        name = place[1]
    parts = name.split("/")
    here = EVERYTHING._replace(projects=tuple(dict.fromkeys((project, None))))
    shown: dict[str, Named] = {}
    for count in range(min(len(parts), MOST_FOLDERS)):
        for document, _ in store.find("/".join(parts[count:]), here):
            if document.path is not None and name in shown_names(document):
                shown[document.id] = (document, None)
    return choose(name, list(shown.values()), project)


def _with_known(store: Store, name: str, project: str | None, unknown: NotFound) -> NotFound:
    """Return the error for an unknown name, with the one that was probably meant."""
    try:
        known = _known_as(store, name, project)
    except AmbiguousId:
        return unknown
    if known is None:
        return unknown
    document, _ = known
    # Whoever named the file must not speak to a model.
    meant = document.doc_id if is_plain_name(document.doc_id) else document.id
    return unknown.with_notice(unknown.notice._replace(advice=advise("did_you_mean", name=meant)))


def _known_as(store: Store, name: str, project: str | None) -> Named | None:
    """Return the note that a link to this name leads to: by the name of its file or an alias."""
    from plait.searching.links import known_as

    where = EVERYTHING._replace(
        projects=tuple(dict.fromkeys((project, None))), kinds=("file", "note")
    )
    return choose(name, [(row, None) for row in known_as(store, name, where)], project)


def _as_stored(store: Store, name: str) -> str:
    """Return the spelling of a name that is stored: an accented letter can be written in two ways.

    A name that is not stored stays as it is.
    """
    if name.isascii():
        return name
    from plait.text.normal_form import spellings

    known = (form for form in spellings(name) if store.find(clean(form), EVERYTHING))
    return next(known, name)


def load_named(
    store: Store,
    names: Sequence[str],
    project: str | None,
    reach: Reach = "read",
    *,
    exactly: bool = False,
) -> tuple[list[Named], dict[str, PlaitError]]:
    """Read whole documents and named passages at once, and why the other names failed.

    A document that cannot be read is the trouble of its own name only.
    """
    resolved: list[tuple[str, Named]] = []
    troubles: dict[str, PlaitError] = {}
    for name in names:
        try:
            resolved.append((name, resolve(store, name, project, reach, exactly=exactly)))
        except (NotFound, AmbiguousId, StoreDamaged) as trouble:
            troubles[name] = trouble
    documents, damaged = load_apart(store, [row.id for _, (row, _) in resolved])
    whole = {row.id: row for row in documents}
    named: list[Named] = []
    for name, (row, passage) in resolved:
        if row.id in whole:
            named.append((whole[row.id], passage))
        elif row.id in damaged:
            troubles[name] = damaged[row.id]
        else:  # another process deleted it between the two reads
            troubles[name] = NotFound(
                f"Nothing is named '{name}' any more: it was deleted just now.",
                code="unknown_name",
                subject=name,
            )
    return named, troubles
