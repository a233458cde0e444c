"""Which documents the person's rules let go, and which they archive; `deleting` deletes them.

Trusted documents that are pinned or that every overview shows, entities and facts in force never
go, whatever the rules.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf
from types import MappingProxyType

from plait.facts import versions
from plait.facts.names import is_item
from plait.facts.profiles import USUAL_IMPORTANCE
from plait.protocols import Store
from plait.searching.overview import ALWAYS_LOADED
from plait.times import DAY_MS, parse_time, show_time
from plait.types import KINDS, ORIGINS, TRUSTS, Document, Filter, Kind
from plait.types.ids import ARCHIVED_FIELD
from plait.types.records import NamedTuple
from plait.types.reports import DocumentUsage
from plait.writing.deleting import SLICE_DOCUMENTS

MB = 1024 * 1024
# What a rule may select. Entities are what their facts are about.
PRUNABLE: tuple[Kind, ...] = ("file", "note", "observation", "message")
_NOTHING: Mapping[str, float] = MappingProxyType({})
_UNREAD = DocumentUsage()

# Returns which of some documents, given by their ids, are other people's.
Others = Callable[[Sequence[str]], Collection[str]]


class RetentionRules(NamedTuple):
    """What is kept, by kind or origin; each is described with the setting of its name."""

    keep_days: Mapping[str, float] = _NOTHING
    keep_most: Mapping[str, float] = _NOTHING
    keep_mb: Mapping[str, float] = _NOTHING
    archive_days: Mapping[str, float] = _NOTHING
    delete_archived_days: float | None = None


class Departing(NamedTuple):
    """What leaves by the rules: documents to delete, with the rule of each, and to archive."""

    doomed: dict[str, Document]
    rules: dict[str, str]
    archived: dict[str, Document]

    @property
    def counts(self) -> tuple[tuple[str, int], ...]:
        """How many documents each rule deletes."""
        return tuple(sorted(Counter(self.rules.values()).items()))


def departing(
    store: Store,
    where: Filter,
    rules: RetentionRules,
    now: int,
    others: Others = lambda _: (),
) -> Departing:
    """Return what the rules let go of the documents that pass a filter.

    What is too old goes first, then what was archived for too long, then what a budget has no room
    for, and the rest may be archived. The rules are about none of the ``others``.
    """
    choice = _Choice(store, where, now, others)
    choice.outlived(rules.keep_days)
    if rules.delete_archived_days is not None:
        choice.archived_for(rules.delete_archived_days)
    for name in dict.fromkeys((*rules.keep_most, *rules.keep_mb)):
        most, room = rules.keep_most.get(name, inf), rules.keep_mb.get(name, inf) * MB
        choice.over_budget(name, most, room)
    choice.unused(rules.archive_days)
    return Departing(choice.doomed, choice.rules, choice.archived)


class _Choice:
    """Collects what goes; each document once, by the first rule that it falls under."""

    def __init__(self, store: Store, where: Filter, now: int, others: Others) -> None:
        self._store, self._where, self._now, self._others = store, where, now, others
        self._present = versions.present(store.state(), now)
        self.doomed: dict[str, Document] = {}
        self.rules: dict[str, str] = {}
        self.archived: dict[str, Document] = {}

    def outlived(self, keep_days: Mapping[str, float]) -> None:
        """Delete documents whose kind is to be kept for fewer days than they are old."""
        for name, days in keep_days.items():
            limit = self._now - round(days * DAY_MS)
            for row in self._older(limit, _of_name(self._where, name)):
                self._doom(row, "keep_days")

    def archived_for(self, days: float) -> None:
        """Delete what these rules archived so many days ago and nobody has read for as many.

        What a person archived stays.
        """
        limit = self._now - round(days * DAY_MS)
        where = self._where._replace(kinds=PRUNABLE, statuses=("archived",))
        old = [row for row in self._rows(where) if (archived_since(row) or limit) < limit]
        for row in self._unread_since(limit, old, where):
            self._doom(row, "delete_archived_days")

    def over_budget(self, name: str, most: float, room: float) -> None:
        """Delete what exceeds a number of documents or of bytes, the least used first.

        Each project has a budget of its own: whether one or all are pruned, the same goes.
        """
        where = _of_name(self._where, name)
        projects: dict[str | None, list[Document]] = {}
        for row in self._scan(where):
            projects.setdefault(row.project, []).append(row)
        if max(map(len, projects.values()), default=0) <= most and room == inf:
            return
        usage = self._store.usage(where)
        for rows in projects.values():
            self._evict(rows, usage, most, room)

    def _evict(
        self,
        rows: Sequence[Document],
        usage: Mapping[str, DocumentUsage],
        most: float,
        room: float,
    ) -> None:
        """Delete documents until the others are few and small enough."""
        used = {row.id: usage.get(row.id, _UNREAD) for row in rows}
        count, size = len(rows), sum(use.size for use in used.values())
        for row in sorted(rows, key=lambda row: self._worth(row, used[row.id])):
            if count <= most and size <= room:
                return
            if self._may_go(row):
                self._doom(row, "keep_most" if count > most else "keep_mb")
                count, size = count - 1, size - used[row.id].size

    def unused(self, archive_days: Mapping[str, float]) -> None:
        """Archive what nobody has changed or read for some days."""
        for name, days in archive_days.items():
            limit = self._now - round(days * DAY_MS)
            where = _of_name(self._where, name)
            old = [row for row in self._older(limit, where) if row.status in (None, "active")]
            self.archived.update({row.id: row for row in self._unread_since(limit, old, where)})

    def _older(self, limit: int, where: Filter) -> list[Document]:
        """Return documents that nobody has changed since, nor ended another in favour of."""
        rows = self._rows(where._replace(until=limit))
        return [row for row in rows if _newest_moment(row, self._present) < limit]

    def _unread_since(
        self, limit: int, rows: Sequence[Document], where: Filter
    ) -> Iterator[Document]:
        usage = self._store.usage(where) if rows else {}
        return (row for row in rows if (usage.get(row.id, _UNREAD).last_read or 0) < limit)

    def _rows(self, where: Filter) -> list[Document]:
        """Return documents that no rule has taken yet, and that may go."""
        return [row for row in self._scan(where) if self._may_go(row)]

    def _scan(self, where: Filter) -> list[Document]:
        """Return documents that no rule has taken yet.

        What a program keeps in its store is for the program to tidy, and in nobody's budget.
        """
        listed = self._store.scan(where)
        rows = [row for row in listed if row.id not in self.doomed and not is_item(row)]
        others = self._others([row.id for row in rows])
        return [row for row in rows if row.id not in others] if others else rows

    def _may_go(self, row: Document) -> bool:
        return may_go(row, self._present)

    def _doom(self, row: Document, rule: str) -> None:
        self.doomed[row.id] = row
        self.rules[row.id] = rule

    def _worth(self, row: Document, usage: DocumentUsage) -> tuple[object, ...]:
        """Return the place of a document in a budget: what ended, is settled or unread is first.

        Before all of that goes what is not trusted, or a page could drive out the person's texts:
        it may be new, and call itself important.
        """
        is_trusted = row.trust == "trusted"
        return (
            -TRUSTS.index(row.trust),
            not versions.is_over(row, self._present),
            row.status in (None, "active"),
            usage.reads,
            row.importance if is_trusted and row.importance is not None else USUAL_IMPORTANCE,
            max(_newest_moment(row, self._present), usage.last_read or 0),
            row.id,
        )


def may_go(row: Document, moment: int) -> bool:
    """Tell whether a rule may delete or archive a document at all.

    A fact in force is one about an entity or on a topic that is trusted and has not ended. Only
    what is trusted is kept for being pinned, or for its name: an import may say that of all its
    texts.
    """
    is_shown = row.key in ALWAYS_LOADED and not versions.is_over(row, moment)
    is_kept = row.trust == "trusted" and (row.pinned or is_shown)
    if is_kept or row.kind not in PRUNABLE or is_item(row):
        return False
    is_fact = row.kind == "observation" and (row.parent is not None or row.topic is not None)
    return not is_fact or row.trust != "trusted" or versions.is_over(row, moment)


def archived_since(row: Document) -> int | None:
    """Return when a rule archived a document; ``None`` if a person did, or nobody."""
    if row.status != "archived" or ARCHIVED_FIELD not in row.metadata:
        return None
    return parse_time(row.metadata[ARCHIVED_FIELD])


def archive(
    store: Store, chosen: Mapping[str, Document], now: int, others: Others = lambda _: ()
) -> Iterator[list[str]]:
    """Archive documents, unless somebody changed them meanwhile; yield ids once done."""
    ids = list(chosen)
    for start in range(0, len(ids), SLICE_DOCUMENTS):
        done = []
        slice_ = ids[start : start + SLICE_DOCUMENTS]
        with store.transaction() as transaction:
            spared = others(slice_)
            for id_ in slice_:
                row = transaction.known(Document(id=id_))
                if row is None or id_ in spared or not is_as_listed(row, chosen):
                    continue
                metadata = {**row.metadata, ARCHIVED_FIELD: show_time(now)}
                transaction.amend(id_, status="archived", metadata=metadata)
                done.append(id_)
        yield done


def is_as_listed(row: Document, listed: Mapping[str, Document]) -> bool:
    """Tell whether nothing was changed about a document since the rules chose it."""
    before = listed.get(row.id)
    return before is not None and _compared(row) == _compared(before)


def _compared(row: Document) -> Document:
    """Return a document without its text, which no list has, and what a reindex changes."""
    return row._replace(text="", chunk_count=0, indexed_at=0)


def _of_name(where: Filter, name: str) -> Filter:
    """Return the filter of a kind or an origin; of a name that is both, the kind."""
    kinds: Sequence[Kind] = [kind for kind in KINDS if kind == name]
    if kinds:
        return where._replace(kinds=tuple(kinds))
    origins = tuple(origin for origin in ORIGINS if origin == name)
    return where._replace(kinds=PRUNABLE, origins=origins)


def _newest_moment(row: Document, moment: int) -> int:
    """Return the latest of what is known of a document: event, storing, change, begin and end.

    What a new text replaces ends when that begins; one that is preferred later is changed then.
    """
    end = row.valid_to or 0 if versions.is_over(row, moment) else 0
    return max(row.created_at, row.updated_at, row.event_at or 0, row.valid_from or 0, end)
