"""Facts over time: which observations a new one repeats, replaces or contradicts.

Only an explicit id or the same topic ends a fact, never similarity. A fact that has ended stays,
with the moment at which it ended.
"""

from collections.abc import Iterable, Sequence

from plait.errors import NotFound, UsageError, advise
from plait.facts.names import is_item, where_it_is
from plait.facts.trust import outranks
from plait.protocols import Rivals, State, Store
from plait.times import DAY_MS, LAST_MOMENT
from plait.types import Document
from plait.types.records import NamedTuple

# More than the error of a clock that was set to local time instead of UTC.
CLOCKS_DIFFER_MS = DAY_MS
REPLACEABLE = ("observation", "note")
# Enough to say that there are more: each is a step back.
MOST_EARLIER = 20


class Verdict(NamedTuple):
    """What becomes of a new observation.

    ``document`` is written as given here, ``ended`` end when it starts, and ``beside`` are
    more trusted than the new one, which contradicts them without replacing them. ``changes`` tells
    whether a fact changed at its start.
    """

    document: Document
    ended: tuple[Document, ...] = ()
    beside: tuple[Document, ...] = ()
    changes: bool = False


def count_earlier(store: Store, documents: Iterable[Document]) -> dict[str, int]:
    """Return, by id, how many documents that still exist were replaced, each by the next one."""
    counts: dict[str, int] = {}
    last = {document.id: document.supersedes for document in documents}
    for _ in range(MOST_EARLIER):
        steps = [(id_, replaced) for id_, replaced in last.items() if replaced is not None]
        if not steps:
            break
        rows = store.known([Document(id=replaced) for _, replaced in steps])
        last = {}
        for (id_, _), row in zip(steps, rows, strict=True):
            if row is not None:
                counts[id_] = counts.get(id_, 0) + 1
                last[id_] = row.supersedes
    return counts


def holds(document: Document, moment: int) -> bool:
    """Tell whether a document is valid at a moment."""
    begun = document.valid_from is None or document.valid_from <= moment
    return begun and not is_over(document, moment)


def is_over(document: Document, moment: int) -> bool:
    """Tell whether a document has ended at a moment."""
    return document.valid_to is not None and document.valid_to <= moment


def begins_after(document: Document, moment: int) -> bool:
    """Tell whether a document becomes valid after a moment; false for one that never is."""
    if document.valid_from is None or document.valid_from <= moment:
        return False
    return document.valid_to is None or document.valid_to > document.valid_from


def end_of(document: Document, moment: int) -> int:
    """Return when a document that is replaced at a moment ends: never before it began."""
    return moment if document.valid_from is None else max(moment, document.valid_from)


def present(state: State, now: int) -> int:
    """Return now, but never a moment before the last change of a fact: clocks are set back."""
    changed = now if state.changed_at is None else state.changed_at
    return max(now, min(LAST_MOMENT, changed))


def next_moment(state: State, now: int) -> int:
    """Return the moment at which a new fact becomes valid, later than every earlier change."""
    if state.changed_at is None:
        return now
    return max(now, min(state.changed_at, LAST_MOMENT) + 1)


def decide(
    document: Document, start: int, rivals: Rivals, superseded: Document | None = None
) -> Verdict:
    """Decide what a new observation that is valid from ``start`` replaces; see `repeated` first.

    A fact that begins later stays as planned, and ends the new one.

    Args:
        document: The new observation.
        start: When it becomes valid.
        rivals: Stored observations of its project and entity that have not ended at ``start``.
        superseded: The stored document that it names as superseded; see `check_superseded`.
    """
    twin = find_twin(document, rivals.same_text, start)
    named = [] if superseded is None else [superseded]
    current = [mate for mate in rivals.same_topic if holds(mate, start)]
    replaced = list({old.id: old for old in (*named, *current)}.values())
    ended = [old for old in replaced if not outranks(old.trust, document.trust)]
    beside = [old for old in replaced if outranks(old.trust, document.trust)]
    if twin is not None and twin.topic is None and twin not in ended:
        # The same words, now with a topic or replacing others: keep one of them.
        ended.append(twin)
    document = document._replace(
        supersedes=ended[0].id if ended else None,
        valid_to=_until(document, start, rivals.same_topic, replaced),
    )
    has_past = bool(ended) or (document.topic is not None and not rivals.topic_is_new)
    changes = document.valid_from is None and has_past
    if changes:
        document = document._replace(valid_from=start)
    return Verdict(document, tuple(ended), tuple(beside), changes)


def _until(
    document: Document, start: int, mates: Iterable[Document], replaced: Sequence[Document]
) -> int | None:
    """Return when a new observation ends: when the next planned one of its topic begins."""
    planned = [
        mate.valid_from
        for mate in mates
        if mate.valid_from is not None
        and begins_after(mate, start)
        and mate not in replaced
        and not outranks(document.trust, mate.trust)
    ]
    ends = [end for end in (document.valid_to, *planned) if end is not None]
    return min(ends, default=None)


def find_twin(document: Document, same_text: Iterable[Document], moment: int) -> Document | None:
    """Return the stored duplicate of an observation at a moment, with the same trust.

    A fact that has ended by then is not a duplicate. Among several, the one of the same topic
    counts: the same words may belong to several topics.
    """
    if is_over(document, moment):
        return None
    # For a text without a topic, a planned fact counts as a duplicate too.
    planned_too = document.topic is None and not document.id
    twins = [
        twin
        for twin in same_text
        if twin.trust == document.trust
        and twin.id != document.id
        and not is_over(twin, moment)
        and (planned_too or twin.valid_from is None or twin.valid_from <= moment)
    ]
    return min(twins, key=lambda twin: twin.topic != document.topic, default=None)


def repeated(document: Document, start: int, rivals: Rivals) -> Document | None:
    """Return the stored observation that a new one repeats without adding anything.

    A new topic, or a fact that it replaces, would be an addition.
    """
    twin = find_twin(document, rivals.same_text, start)
    if twin is None or not answers(twin, document.topic):
        return None
    return twin if document.supersedes in (None, twin.id, twin.supersedes) else None


def answers(document: Document, topic: str | None) -> bool:
    """Tell whether an observation has this topic; always true for no topic."""
    return topic in (None, document.topic)


def check_superseded(
    old: Document | None, document: Document, start: int, successor: str | None
) -> None:
    """Check that a document can be superseded.

    Raises:
        NotFound: No document has the id that the new text supersedes.
        UsageError: It was already superseded, belongs elsewhere, or is of another kind.
    """
    if old is None:
        raise NotFound(
            f"There is nothing named '{document.supersedes}' to supersede.",
            code="unknown_name",
            subject=document.supersedes or "",
            advice=advise("search"),
        )
    if old.project != document.project:
        raise UsageError(
            f"{old.id} belongs to another project than the new text.",
            code="other_project",
            subject=old.id,
            advice=where_it_is(old, "store_in_project"),
        )
    if old.kind not in REPLACEABLE or is_item(old):
        kind = "an item of a program" if is_item(old) else f"of kind {old.kind}"
        raise UsageError(
            f"{old.id} is {kind}; only an observation or a note can be superseded.",
            code="not_replaceable",
            subject=old.id,
        )
    if is_over(old, start):
        by = f" by {successor}. Supersede that one." if successor else "."
        raise UsageError(
            f"{old.id} was already superseded{by}", code="already_superseded", subject=old.id
        )


def reconcile(
    document: Document, mates: Iterable[Document], now: int
) -> tuple[Document, list[tuple[Document, int]]]:
    """Merge an imported observation: of two on one topic, the later one stays current.

    Returns the observation, ended where a stored one is later, and the stored ones that it ends,
    each with the moment.
    """
    if document.topic is None or document.kind != "observation" or is_over(document, now):
        return document, []
    begun = _begun(document)
    ended: list[tuple[Document, int]] = []
    for mate in mates:
        if mate.trust != document.trust or not overlap(document, mate, now):
            continue
        theirs = _begun(mate)
        if theirs > begun:
            document = document._replace(valid_to=max(theirs, document.valid_from or theirs))
        else:
            ended.append((mate, end_of(mate, begun)))
    return document, ended


def is_taken(document: Document, mates: Iterable[Document], now: int) -> bool:
    """Tell whether another fact of the topic is valid, now or later, while this one would be."""
    if document.topic is None or is_over(document, now):
        return False
    return any(mate.trust == document.trust and overlap(document, mate, now) for mate in mates)


def overlap(document: Document, other: Document, now: int) -> bool:
    """Tell whether both are valid at one moment that is not past."""
    begun = max(document.valid_from or now, other.valid_from or now, now)
    ends = [end for end in (document.valid_to, other.valid_to) if end is not None]
    return begun < min(ends, default=begun + 1)


def contradiction(observations: Iterable[Document], now: int) -> str | None:
    """Return a topic with two facts of the same trust that are valid at one moment, if any."""
    answered: dict[tuple[object, ...], list[Document]] = {}
    for document in observations:
        if document.topic is None or is_over(document, now):
            continue
        key = (document.project, document.parent, document.topic, document.trust)
        mates = answered.setdefault(key, [])
        if any(overlap(document, mate, now) for mate in mates):
            return document.topic
        mates.append(document)
    return None


def _begun(document: Document) -> int:
    return document.created_at if document.valid_from is None else document.valid_from
