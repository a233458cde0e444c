"""Which documents the person's rules let go, and which they archive; `deleting` deletes them.

Pinned documents, entities and facts in force never go, whatever the rules.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from math import inf
from types import MappingProxyType

from plait.facts import versions
from plait.facts.profiles import USUAL_IMPORTANCE
from plait.protocols import Store
from plait.times import DAY_MS, parse_time, show_time
from plait.types import KINDS, ORIGINS, Document, Filter, Kind
from plait.types.ids import ARCHIVED_FIELD, ITEM_FIELD, SCOPE_PREFIX
from plait.types.records import NamedTuple
from plait.types.reports import DocumentUsage
from plait.writing.deleting import SLICE_DOCUMENTS

MB = 1024 * 1024
# What a rule may select. Entities are what their facts are about.
PRUNABLE: tuple[Kind, ...] = ("file", "note", "observation", "message")
# Names under which the memory remembers files that a rule has removed. A folder's next run leaves
# them out for as long as they are not written again.
RETIRED = "history:retired:"
_NOTHING: Mapping[str, float] = MappingProxyType({})
_UNREAD = DocumentUsage()


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


def departing(store: Store, where: Filter, rules: RetentionRules, now: int) -> Departing:
    """Return what the rules let go of the documents that pass a filter.

    What is too old goes first, then what was archived for too long, then what a budget has no room
    for, and the rest may be archived.
    """
    choice = _Choice(store, where, now)
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

    def __init__(self, store: Store, where: Filter, now: int) -> None:
        self._store, self._where, self._now = store, where, now
        self._present = versions.present(store.state(), now)
        self.doomed: dict[str, Document] = {}
        self.rules: dict[str, str] = {}
        self.archived: dict[str, Document] = {}

    def outlived(self, keep_days: Mapping[str, float]) -> None:
        """Delete documents whose kind is to be kept for fewer days than they are old."""
        for name, days in keep_days.items():
            limit = self._now - round(days * DAY_MS)
            for row in self._rows(_of_name(self._where, name)._replace(until=limit)):
                if _newest_moment(row, self._present) < limit:
                    self._doom(row, "keep_days")

    def archived_for(self, days: float) -> None:
        """Delete documents that these rules archived long ago; what a person archived stays."""
        limit = self._now - round(days * DAY_MS)
        where = self._where._replace(kinds=PRUNABLE, statuses=("archived",))
        for row in self._rows(where):
            since = archived_since(row)
            if since is not None and since < limit:
                self._doom(row, "delete_archived_days")

    def over_budget(self, name: str, most: float, room: float) -> None:
        """Delete what exceeds a number of documents or of bytes, the least used first.

        Each project has a budget of its own: whether one or all are pruned, the same goes.
        """
        where = _of_name(self._where, name)
        projects: dict[str | None, list[Document]] = {}
        for row in self._store.scan(where):
            if row.id not in self.doomed:
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
            where = _of_name(self._where, name)._replace(until=limit)
            old = [
                row
                for row in self._rows(where)
                if row.status in (None, "active") and _newest_moment(row, self._present) < limit
            ]
            usage = self._store.usage(where) if old else {}
            for row in old:
                if (usage.get(row.id, _UNREAD).last_read or 0) < limit:
                    self.archived[row.id] = row

    def _rows(self, where: Filter) -> list[Document]:
        """Return documents that no rule has taken yet, and that may go."""
        rows = self._store.scan(where)
        return [row for row in rows if row.id not in self.doomed and self._may_go(row)]

    def _may_go(self, row: Document) -> bool:
        return may_go(row, self._present)

    def _doom(self, row: Document, rule: str) -> None:
        self.doomed[row.id] = row
        self.rules[row.id] = rule

    def _worth(self, row: Document, usage: DocumentUsage) -> tuple[object, ...]:
        """Return the place of a document in a budget: what ended, is settled or unread is first."""
        return (
            not versions.is_over(row, self._present),
            row.status in (None, "active"),
            usage.reads,
            USUAL_IMPORTANCE if row.importance is None else row.importance,
            max(_newest_moment(row, self._present), usage.last_read or 0),
            row.id,
        )


def may_go(row: Document, moment: int) -> bool:
    """Tell whether a rule may delete or archive a document at all.

    A fact in force is one about an entity or on a topic that is trusted and has not ended. What a
    program keeps in its store is for the program to tidy.
    """
    if row.pinned or row.kind not in PRUNABLE or ITEM_FIELD in row.metadata:
        return False
    is_fact = row.kind == "observation" and (row.parent is not None or row.topic is not None)
    return not is_fact or row.trust != "trusted" or versions.is_over(row, moment)


def archived_since(row: Document) -> int | None:
    """Return when a rule archived a document; ``None`` if a person did, or nobody."""
    if row.status != "archived" or ARCHIVED_FIELD not in row.metadata:
        return None
    return parse_time(row.metadata[ARCHIVED_FIELD])


def unarchived(metadata: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata of a document whose status a person sets."""
    return {name: value for name, value in metadata.items() if name != ARCHIVED_FIELD}


def archive(store: Store, chosen: Mapping[str, Document], now: int) -> tuple[str, ...]:
    """Archive documents, unless somebody changed or pinned them meanwhile; return their ids."""
    ids, done = list(chosen), list[str]()
    for start in range(0, len(ids), SLICE_DOCUMENTS):
        with store.transaction() as transaction:
            for id_ in ids[start : start + SLICE_DOCUMENTS]:
                row = transaction.known(Document(id=id_))
                if row is None or not is_as_listed(row, chosen):
                    continue
                metadata = {**row.metadata, ARCHIVED_FIELD: show_time(now)}
                transaction.amend(id_, status="archived", metadata=metadata)
                done.append(id_)
    return tuple(done)


def is_as_listed(row: Document, listed: Mapping[str, Document]) -> bool:
    """Tell whether nothing happened to a document since the rules chose it."""
    before = listed.get(row.id)
    return before is not None and (row.updated_at, row.pinned, row.status, row.valid_to) == (
        before.updated_at,
        before.pinned,
        before.status,
        before.valid_to,
    )


def retire(store: Store, doomed: Iterable[Document]) -> None:
    """Remember the files among documents that go, so that their folder's next run leaves them out.

    A user's scope remembers nothing: there, files that still exist come back.
    """
    marks = {
        retired_name(row.path): _stamp(row.size, row.mtime)
        for row in doomed
        if row.kind == "file" and row.path and not (row.project or "").startswith(SCOPE_PREFIX)
    }
    if marks:
        with store.transaction() as transaction:
            transaction.remember(**marks)


def retired_name(path: str) -> str:
    """Return the name under which a file is remembered: a hash, since a path may be a secret."""
    return RETIRED + sha256(path.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def is_retired(marks: Mapping[str, str], path: str, size: int, mtime: int) -> bool:
    """Tell whether a rule has removed a file, and nobody has written it since."""
    return bool(marks) and marks.get(retired_name(path)) == _stamp(size, mtime)


def _stamp(size: int | None, mtime: int | None) -> str:
    return f"{size} {mtime}"


def _of_name(where: Filter, name: str) -> Filter:
    """Return the filter of a kind or an origin; of a name that is both, the kind."""
    kinds: Sequence[Kind] = [kind for kind in KINDS if kind == name]
    if kinds:
        return where._replace(kinds=tuple(kinds))
    origins = tuple(origin for origin in ORIGINS if origin == name)
    return where._replace(kinds=PRUNABLE, origins=origins)


def _newest_moment(row: Document, moment: int) -> int:
    """Return the latest of what is known of a document: its event, storing, change and end."""
    end = row.valid_to or 0 if versions.is_over(row, moment) else 0
    return max(row.created_at, row.updated_at, row.event_at or 0, end)
