"""Decide with whom a document is shared, and change it, inside a caller's transaction.

A fact has the label of its entity, because the entity's profile repeats it; what supersedes a
document has the label of that one. Otherwise the caller says who sees a document, or the team does.
"""

from collections.abc import Mapping, Sequence

from plait.errors import NotFound, UsageError, quoted
from plait.protocols import Trashed
from plait.stores.postgres.audit import Recorder
from plait.stores.postgres.connection import Channel
from plait.stores.postgres.documents import find_existing
from plait.stores.postgres.labels import TEAM_LABEL
from plait.types import Document
from plait.types.visibility import Visibility, wanted_visibility

# How far in the future a fact of few may begin or end: clocks differ. Others' writes keep the time
# at which the next profile is outdated, and do not see it.
_LATEST_BEGINNING_MS = 60_000
_LABELS = (
    "SELECT d.id, d.label, d.project FROM plait.documents AS d "
    "WHERE d.ns = %(ns)s AND d.id = ANY(%(ids)s)"
)
_HIDDEN = (
    "SELECT d.id, d.chunk_count FROM plait.documents AS d WHERE d.ns = %(ns)s "
    "AND d.label = ANY(%(labels)s) ORDER BY d.place DESC LIMIT %(limit)s"
)
_FAMILY = (
    "SELECT d.id, d.place, d.kind, d.parent, d.project, d.label FROM plait.documents AS d "
    "WHERE d.ns = %(ns)s AND (d.id = ANY(%(ids)s) OR d.parent = ANY(%(ids)s)) ORDER BY d.place"
)
_OTHER_ENDS = (
    "SELECT DISTINCT d.label FROM plait.relations AS r JOIN plait.documents AS d ON d.ns = %(ns)s "
    "AND d.place = CASE WHEN r.source = ANY(%(places)s) THEN r.target ELSE r.source END "
    "WHERE r.ns = %(ns)s AND (r.source = ANY(%(places)s) OR r.target = ANY(%(places)s)) "
    "AND NOT (r.source = ANY(%(places)s) AND r.target = ANY(%(places)s)) AND d.label <> 0"
)
_REFS = "SELECT p.ref FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.document = ANY(%(places)s)"
_OF_DOCUMENTS = (
    "UPDATE plait.documents SET label = %(label)s WHERE ns = %(ns)s AND place = ANY(%(places)s)",
    "UPDATE plait.passages SET label = %(label)s WHERE ns = %(ns)s AND document = ANY(%(places)s)",
    "UPDATE plait.tags SET label = %(label)s WHERE ns = %(ns)s AND document = ANY(%(places)s)",
    "UPDATE plait.steps SET label = %(label)s WHERE ns = %(ns)s AND document = ANY(%(places)s)",
)
_OF_PASSAGES = (
    "UPDATE plait.postings AS t SET label = %(label)s FROM (SELECT p.ref, unnest(p.terms) AS term "
    "FROM plait.passages AS p WHERE p.ns = %(ns)s AND p.ref = ANY(%(refs)s)) AS v "
    "WHERE t.ns = %(ns)s AND t.term = v.term AND t.ref = v.ref",
    "UPDATE plait.unembedded SET label = %(label)s WHERE ns = %(ns)s AND ref = ANY(%(refs)s)",
    "UPDATE plait.signals SET label = %(label)s WHERE ns = %(ns)s AND ref = ANY(%(refs)s)",
    # That two were read together is worth little, and may be seen by too many.
    "DELETE FROM plait.signal_pairs WHERE ns = %(ns)s AND one = ANY(%(refs)s)",
    "DELETE FROM plait.signal_pairs WHERE ns = %(ns)s AND other = ANY(%(refs)s)",
)
_OF_VECTORS = (
    "UPDATE plait.embeddings SET label = %(label)s WHERE ns = %(ns)s AND ref = ANY(%(refs)s)"
)
_OF_RELATIONS = (
    "UPDATE plait.relations AS r SET label = CASE WHEN a.label = 0 THEN b.label ELSE a.label END "
    "FROM plait.documents AS a JOIN plait.documents AS b ON b.ns = %(ns)s "
    "WHERE r.ns = %(ns)s AND a.ns = %(ns)s AND a.place = r.source AND b.place = r.target "
    "AND (r.source = ANY(%(places)s) OR r.target = ANY(%(places)s))"
)
# Earlier texts, and edges to what was deleted, never get more readers than they had.
_OF_THE_PAST = (
    "UPDATE plait.trash SET label = %(label)s WHERE ns = %(ns)s AND label = ANY(%(before)s) "
    "AND (version_of = ANY(%(ids)s) OR parent = ANY(%(ids)s))",
    "UPDATE plait.trashed_relations SET label = %(label)s WHERE ns = %(ns)s "
    "AND label = ANY(%(before)s) AND (source = ANY(%(ids)s) OR target = ANY(%(ids)s))",
)
_NAMESAKES = (
    "SELECT d.id, o.id, d.key FROM plait.documents AS d JOIN plait.documents AS o "
    "ON o.ns = %(ns)s AND o.project = d.project AND o.label = %(label)s "
    "AND ((o.source = d.source AND o.key = d.key) OR (o.session = d.session AND o.turn = d.turn)) "
    "WHERE d.ns = %(ns)s AND d.place = ANY(%(places)s) AND o.place <> ALL(%(places)s) "
    "ORDER BY d.place LIMIT 1"
)


class Sharing:
    """What one transaction knows about who sees which document."""

    def __init__(self, session: Channel, now: int) -> None:
        self._session = session
        self._now = now
        self._trashed: dict[str, int] = {}

    @property
    def _wanted(self) -> Visibility | None:
        return wanted_visibility()  # an import says it of each document

    def restores(self, row: Trashed, label: int) -> bool:
        """Note who sees a deleted document, or an earlier version, which comes back to the same.

        Return whether it may come back here: not if the caller wants others to see it.
        """
        id_ = row.version_of or row.document.id
        if self._wanted is not None:
            wanted = self._session.membership.near(self._wanted, row.document.project)
            # A text that is still there may be deleted, and leave its earlier one, all the same.
            if label not in wanted and self._labels_of([id_]).get(id_) != label:
                return False
        names = {id_, row.document.id}
        return all(self._trashed.setdefault(name, label) == label for name in names)

    def has_label(self, document: Document) -> bool:
        """Tell whether it is known who shall see a text, also if that replaces another one."""
        return self._wanted is not None or document.id in self._trashed

    @property
    def deleted_labels(self) -> Mapping[str, int]:
        """The labels of deleted documents that were read here."""
        return self._trashed

    def existing(self, document: Document) -> Document | None:
        """Return the stored document that this one replaces, seen by those who shall see it."""
        if self._wanted is None and document.id in self._trashed:
            labels = [self._trashed[document.id]]
        else:
            labels = self._session.membership.near(self._wanted, document.project)
        # What has only an id is no text, but may be a reference to one that others see.
        is_reference = document.key is None and document.path is None
        bound = self.has_label(document) and (self._wanted is None or not is_reference)
        replaced = find_existing(self._session, document, labels, bound=bound)
        return None if replaced is None else replaced[1]

    def label(self, document: Document) -> int:
        """Return the label of a new document; one that is replaced keeps its own.

        Raises:
            UsageError: It cannot be shared so, because of its entity or of what it supersedes.
        """
        if self._wanted is None and document.id in self._trashed:
            return self._restored_label(document)
        joined = [other for other in (document.parent, document.supersedes) if other is not None]
        # Without either it is the team's, or the writer finds out that it is replaced.
        any_reason = bool(joined) or self._wanted is not None
        known = self._labels_of([document.id, *joined]) if any_reason else {}
        # A profile is replaced at any write, whatever is wanted of that.
        if document.id in known and (self._wanted is None or document.kind == "entity"):
            return known[document.id]
        label = None
        if self._wanted is not None:
            label = self._session.membership.label(self._wanted, document.project)
        for other in joined:
            own = known.get(other)
            if own is None:
                continue
            if label is not None and label != own:
                raise _apart(document, other)
            label = own
        label = TEAM_LABEL if label is None else label
        self._refuse_later(document, label)
        self._refuse_second(document, label)
        return label

    def _restored_label(self, document: Document) -> int:
        label, parent = self._trashed[document.id], document.parent
        # Its entity may have got other readers since, to whom the profile would tell of it.
        if parent is not None and self._labels_of([parent]).get(parent, label) != label:
            raise _apart(document, parent)
        return label

    def _refuse_second(self, document: Document, label: int) -> None:
        """Refuse a second entity of a name that this member knows with other readers."""
        if self._wanted is None or document.kind != "entity":
            return
        others = self._session.membership.near(None, document.project)
        others = [other for other in others if other != label]
        known = find_existing(self._session, document._replace(id=""), others)
        if known is not None:
            raise _apart(document, known[1].key or known[1].id)

    def check_amended(self, id_: str, fields: Mapping[str, object]) -> None:
        """Refuse to join documents that different people see.

        Raises:
            UsageError: A fact would get another entity, or a successor that others do not see.
        """
        for name in ("parent", "supersedes"):
            other = fields.get(name)
            if isinstance(other, str) and len({*self._labels_of([id_, other]).values()}) > 1:
                raise _apart(Document(id=id_), other)

    def _labels_of(self, ids: Sequence[str]) -> dict[str, int]:
        return {id_: label for id_, label, _ in self._session.rows(_LABELS, ids=list(ids))}

    def _refuse_later(self, document: Document, label: int) -> None:
        moments = (document.valid_from, document.valid_to)
        latest = self._now + _LATEST_BEGINNING_MS
        if (
            label != TEAM_LABEL
            and document.parent is not None
            and any(moment is not None and moment > latest for moment in moments)
        ):
            raise UsageError(
                "A fact of an entity that begins or ends later must be visible to the whole team.",
                code="later_for_few",
                subject="visibility",
            )


def _apart(document: Document, other: str) -> UsageError:
    name = document.key or document.id or "this text"
    return UsageError(
        f"{quoted(other)} is not visible to the same people as {quoted(name)} would be. Give "
        "both the same visibility, or use another name.",
        code="other_visibility",
        subject=other,
    )


def follow_project(
    session: Channel, recorder: Recorder, id_: str, project: str | None, *, has_vectors: bool
) -> int:
    """Let what a project sees go to another project with its document; return the new label.

    Call it before the document itself changes. Its earlier texts stay with the old project.

    Raises:
        UsageError: The other project was not given to this member, or there is none.
    """
    rows = session.rows(_FAMILY, ids=[id_])
    _, _, _, parent, old, label = next(row for row in rows if row[0] == id_)
    if parent is not None and _is_there(session, parent):
        return int(label)  # that of its entity
    new = session.membership.carried(label, old, project)
    if new != label:
        recorder.label(id_, label)  # who could see it learns that it has changed
        _move(session, rows, new, has_vectors=has_vectors)
    return new


def visibilities(session: Channel, ids: Sequence[str]) -> dict[str, Visibility]:
    """Return who sees documents, by their ids."""
    membership = session.membership
    return {
        id_: membership.visibility_of(label, project or None)
        for id_, label, project in session.rows(_LABELS, ids=list(ids))
    }


def hidden(session: Channel, limit: int) -> list[tuple[str, int]]:
    """Return the latest documents that this member sees and not all do, with their lengths.

    The administrator sees those of all members, and means his own.
    """
    membership = session.membership
    labels = [membership.private, *(membership.labels or ())]
    labels = [label for label in labels if label != TEAM_LABEL]
    return [(id_, count) for id_, count in session.rows(_HIDDEN, labels=labels, limit=limit)]


def private_of_others(session: Channel, ids: Sequence[str]) -> set[str]:
    """Return those of documents that are private of another member: the administrator sees them."""
    membership = session.membership
    if not membership.is_administrator:
        return set()
    return {
        id_
        for id_, label, project in session.rows(_LABELS, ids=list(ids))
        if label != membership.private
        and membership.visibility_of(label, project or None) == "private"
    }


def share(
    session: Channel,
    recorder: Recorder,
    ids: Sequence[str],
    visibility: Visibility,
    *,
    has_vectors: bool,
) -> list[str]:
    """Change who sees documents, and the facts of those that are entities; return their ids.

    Raises:
        NotFound: A document does not exist any more.
        UsageError: A fact cannot have other readers than its entity, nor an entity others than
            those that it has relations to.
    """
    rows = session.rows(_FAMILY, ids=list(ids))
    if missing := {*ids} - {row[0] for row in rows}:
        raise NotFound(
            f"{min(missing)} was deleted meanwhile. Nothing was changed.",
            code="unknown_name",
            subject=min(missing),
        )
    changed: dict[str, None] = {}
    family = {row[0]: row for row in rows}
    # Entities first: their facts go with them.
    for id_ in sorted(ids, key=lambda id_: family[id_][3] in ids):
        _, _, _, parent, project, old = family[id_]
        if parent is not None and parent not in ids and _is_there(session, parent):
            raise UsageError(
                f"{id_} is a fact, which is visible to the same people as its entity. Change "
                f"that: {parent}.",
                code="fact_of_entity",
                subject=id_,
            )
        label = session.membership.label(visibility, project or None)
        own = [row for row in rows if id_ in (row[0], row[3]) and row[0] not in changed]
        if any(row[5] != label for row in own):
            _move(session, own, label, has_vectors=has_vectors)
            if old == TEAM_LABEL or visibility == "private":  # for fewer than before
                before = [TEAM_LABEL, old]
                for sql in _OF_THE_PAST:
                    session.execute(sql, ids=[row[0] for row in own], label=label, before=before)
            for row in own:
                # Before, the entry has the old label: who could see it learns that it has changed.
                recorder.share(row[0], visibility, old)
            changed |= dict.fromkeys(row[0] for row in own)
    return [*changed]


def _is_there(session: Channel, id_: str) -> bool:
    return bool(session.rows(_LABELS, ids=[id_]))


def _move(
    session: Channel, rows: Sequence[tuple[object, ...]], label: int, *, has_vectors: bool
) -> None:
    """Give documents, and all that belongs to them, another label."""
    places = [row[1] for row in rows]
    ends = {end for (end,) in session.rows(_OTHER_ENDS, places=places)}
    if label != TEAM_LABEL and ends - {label}:
        raise UsageError(
            f"{rows[0][0]} has a relation to something that others see. Remove that relation "
            "first, or choose the same visibility.",
            code="other_visibility",
            subject=str(rows[0][0]),
        )
    for id_, other, key in session.rows(_NAMESAKES, places=places, label=label):
        name = "a turn with the same number" if key is None else f"the name {quoted(key)}"
        raise UsageError(
            f"{other} has {name}, and is visible to those who would see {id_}. Delete or rename "
            "one of them first.",
            code="name_taken",
            subject=str(other),
        )
    refs = [ref for (ref,) in session.rows(_REFS, places=places)]
    for sql in _OF_DOCUMENTS:
        session.execute(sql, places=places, label=label)
    for sql in (*_OF_PASSAGES, *((_OF_VECTORS,) if has_vectors else ())):
        session.execute(sql, refs=refs, label=label)
    session.execute(_OF_RELATIONS, places=places)
