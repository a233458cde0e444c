"""Who may see a row: each has the label of the whole team, of one member, or of one project.

Every table has a label beside the number of its memory. What a member's session sends asks for the
labels of this member wherever it names a memory: that is the first fence. The second one is the
server's own, see `plait.stores.postgres.fences`, and computes the same labels.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from plait.errors import StoreError, StoreReadOnly, UsageError, advise
from plait.stores.postgres.adapting import escaped
from plait.text.normal_form import composed
from plait.types.records import NamedTuple
from plait.types.visibility import MEMBER_ROLES, MemberRole, Visibility

TEAM_LABEL = 0
SEPARATOR = "\x1f"
# A memory's condition as every statement writes it, with the name of its table.
_OF_MEMORY = re.compile(r"\b((?:\w+\.)?)ns = %\(ns\)s")
# Who asks, whether the server hides rows from it, and what it is in the memory.
WHO = (
    "SELECT w.name, w.fenced, m.role, m.projects FROM (SELECT session_user::text AS name, "
    "row_security_active('plait.documents') AS fenced) AS w LEFT JOIN plait.members AS m "
    "ON m.ns = %(ns)s AND m.member = w.name"
)


@lru_cache(maxsize=1_024)
def fenced(sql: str) -> str:
    """Return a statement that sees only rows with one of the ``labels``.

    >>> fenced("SELECT 1 FROM plait.tags AS t WHERE t.ns = %(ns)s")
    'SELECT 1 FROM plait.tags AS t WHERE (t.ns = %(ns)s AND t.label = ANY(%(labels)s))'
    """
    return _OF_MEMORY.sub(r"(\1ns = %(ns)s AND \1label = ANY(%(labels)s))", sql)


def label_of(ns: int, kind: str, name: str) -> int:
    """Return the label of one member ("private") or one project of a memory."""
    text = SEPARATOR.join((str(ns), kind, escaped(name)))
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big", signed=True)


class Membership(NamedTuple):
    """What a role of the database is in one memory; without a ``role``, its administrator."""

    ns: int
    name: str = ""
    role: MemberRole | None = None
    projects: tuple[str, ...] = ()

    @property
    def is_administrator(self) -> bool:
        """Whether the server lets this role see all rows."""
        return self.role is None

    @property
    def private(self) -> int:
        """The label of what only this role sees."""
        return label_of(self.ns, "private", self.name)

    @property
    def labels(self) -> list[int] | None:
        """All labels that a member sees; ``None`` for the administrator."""
        if self.role is None:
            return None
        return [TEAM_LABEL, self.private, *map(self.of_project, self.projects)]

    @property
    def personal(self) -> int:
        """The label of what a role keeps for itself and never shares, such as its cache."""
        return TEAM_LABEL if self.role is None else self.private

    def of_project(self, project: str) -> int:
        """Return the label of a project."""
        return label_of(self.ns, "project", composed(project))

    def label(self, visibility: Visibility, project: str | None) -> int:
        """Return the label of a document that is to be seen by these.

        Raises:
            UsageError: It has no project, or the project was not given to this member.
        """
        if visibility == "team":
            return TEAM_LABEL
        if visibility == "private":
            return self.private
        if not project:
            raise UsageError(
                "A document that belongs to no project cannot be visible to a project.",
                code="no_project_to_share",
                subject="visibility",
            )
        label = self.of_project(project)
        if self.labels is not None and label not in self.labels:
            raise UsageError(
                f"The project {project} was not given to {self.name}, who cannot share anything "
                "with it.",
                code="not_in_project",
                subject=project,
                advice=advise("give_project", member=self.name, project=project),
            )
        return label

    def near(self, visibility: Visibility | None, project: str | None) -> list[int]:
        """Return where to look for a document by its name, the fewest people first.

        The administrator sees what is private of others, and does not mean it by a name.
        """
        wanted = (
            (self.private, "private"),
            (self.of_project(project or ""), "project"),
            (TEAM_LABEL, "team"),
        )
        return [label for label, name in wanted if visibility in (None, name)]

    def carried(self, label: int, old: str | None, new: str | None) -> int:
        """Return the label of a document that goes from one project to another.

        Raises:
            UsageError: It was visible to the old project, and cannot be to the new one.
        """
        if label != self.of_project(old or "") or (old or "") == (new or ""):
            return label
        return self.label("project", new)

    def visibility_of(self, label: int, project: str | None) -> Visibility:
        """Return who sees a document with this label."""
        if label == TEAM_LABEL:
            return "team"
        return "project" if project and label == self.of_project(project) else "private"


def recognised(rows: Sequence[tuple[Any, ...]], ns: int, path: str) -> Membership:
    """Return what a role is in a memory, of the answer to `WHO`.

    Raises:
        StoreError: It is nothing, and sees only what its members are to see.
    """
    [(name, is_fenced, role, projects)] = rows
    if not is_fenced:
        return Membership(ns, name)
    if role not in MEMBER_ROLES:
        raise not_a_member(name, path)
    return Membership(ns, name, role, tuple(projects))


def not_a_member(name: str, path: str) -> StoreError:
    """Return that a role is no member of a memory."""
    return StoreError(
        f"{name} is not a member of the memory {path}.",
        code="not_a_member",
        subject=name,
        advice=advise("add_member", member=name),
    )


def only_reads(name: str, path: str) -> StoreReadOnly:
    """Return that a member may only read; the code is "reader"."""
    return StoreReadOnly(
        f"{name} is a reader of the memory {path}, and may not change it.",
        code="reader",
        subject=name,
        advice=advise("change_role", member=name),
    )


def refuse_member(membership: Membership, act: str) -> None:
    """Refuse what needs all rows to somebody who sees only some.

    Raises:
        StoreError: It is a member; the code is "administrator_only".
    """
    if not membership.is_administrator:
        raise StoreError(
            f"Only the administrator of the database can {act}: {membership.name} does not see "
            "the rows of all members.",
            code="administrator_only",
            subject=membership.name,
        )
