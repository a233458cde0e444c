"""`Memory.team`: who the members of a memory in PostgreSQL are, and who sees which document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol, cast

from plait.errors import StoreError, UsageError, advise
from plait.types import check_choice
from plait.types.guarding import guarded, recorded
from plait.types.ids import is_address
from plait.types.visibility import MEMBER_ROLES, TEAM, VISIBILITIES, visible_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from plait.protocols import Store, Transaction
    from plait.types.visibility import MemberRole, TeamMember, Visibility


class _SharingTransaction(Protocol):
    def share(self, ids: Sequence[str], visibility: Visibility) -> list[str]:
        """Change who sees documents."""


class TeamStore(Protocol):
    """What only a store of a memory with members can do."""

    def team(self) -> list[TeamMember]:
        """Return the members of the memory."""

    def admit(self, name: str, role: MemberRole | None, projects: Sequence[str]) -> TeamMember:
        """Make a role of the server a member, or change what it is."""

    def change_role(self, name: str, role: MemberRole) -> TeamMember:
        """Give a member another role."""

    def dismiss(self, name: str) -> TeamMember:
        """End a membership."""

    def visibilities(self, ids: Sequence[str]) -> dict[str, Visibility]:
        """Return who sees documents, by their ids."""

    def private_of_others(self, ids: Sequence[str]) -> set[str]:
        """Return those of documents that are private of another member."""

    def transaction(self) -> AbstractContextManager[_SharingTransaction]:
        """Begin a write transaction."""


@guarded
class Team:
    """The members of a memory. They are roles of its database, and log in under their names."""

    def __init__(self, store: Store | None, path: str) -> None:
        self._whole = store
        self._path = path

    def members(self) -> list[TeamMember]:
        """Return the members, by name."""
        return self._store.team()

    @recorded("team")
    def add(
        self, name: str, *, role: str | None = None, projects: Iterable[str] | str = ()
    ) -> TeamMember:
        """Make a role of the database a member, or give a member another role or more projects.

        Args:
            name: The name of the role; it must exist on the server.
            role: reader, writer or owner; a writer by default, or what it is already.
            projects: Projects whose documents it may see, beside those of the whole team.

        Raises:
            NotFound: The server has no such role.
            StoreError: The caller is neither an owner nor the administrator.
            UsageError: The memory is in a file, or the member is the caller or the last owner.
        """
        chosen = None if role is None else check_choice("role", role, MEMBER_ROLES)
        given = [projects] if isinstance(projects, str) else list(projects)
        return self._store.admit(name, chosen, given)

    @recorded("team")
    def role(self, name: str, role: str) -> TeamMember:
        """Give a member another role.

        Raises:
            NotFound: It is no member.
            StoreError: The caller is neither an owner nor the administrator.
            UsageError: The memory is in a file, or the member is the caller or the last owner.
        """
        return self._store.change_role(name, check_choice("role", role, MEMBER_ROLES))

    @recorded("team")
    def remove(self, name: str) -> TeamMember:
        """End a membership; what only this member saw stays hidden, for when it is added again.

        Raises:
            NotFound: It is no member.
            StoreError: The caller is neither an owner nor the administrator.
            UsageError: The memory is in a file, or the member is the caller or the last owner.
        """
        return self._store.dismiss(name)

    def visibilities(self, ids: Sequence[str]) -> dict[str, Visibility]:
        """Return who sees documents, by their ids: private, project or team."""
        if self._whole is None or not is_address(self._path):
            return dict.fromkeys(ids, TEAM)
        return self._store.visibilities(ids)

    def private_of_others(self, ids: Sequence[str]) -> set[str]:
        """Return those of documents that are private of another member, for the administrator."""
        return self._store.private_of_others(ids) if ids and self.has_members else set()

    @property
    def has_members(self) -> bool:
        """Whether there are any, so that something in the memory can be private."""
        return self._whole is not None and is_address(self._path) and bool(self._store.team())

    @recorded("mark")
    def share(self, ids: Sequence[str], visibility: str) -> list[str]:
        """Change who sees documents, and the facts of those that are entities; return their ids.

        Raises:
            UsageError: It cannot be changed, or there are no members.
        """
        share = self.sharing(visibility)
        if share is None:
            return []
        with self._store.transaction() as transaction:
            return share(cast("Transaction", transaction), ids)

    def sharing(self, visibility: str) -> Callable[[Transaction, Sequence[str]], list[str]] | None:
        """Return what changes, in a transaction, who sees documents; ``None`` in a file.

        Raises:
            UsageError: There is no such visibility, or nobody but one person.
        """
        wanted = self._checked(visibility)
        if self._whole is None or not is_address(self._path):
            return None
        return lambda transaction, ids: cast("_SharingTransaction", transaction).share(ids, wanted)

    @contextmanager
    def writing(self, visibility: str | None) -> Iterator[None]:
        """Let what is written inside be seen by these; ``None`` leaves it as it is.

        Raises:
            UsageError: There is no such visibility, or nobody but one person.
        """
        with visible_to(None if visibility is None else self._checked(visibility)):
            yield

    def _checked(self, visibility: str) -> Visibility:
        wanted = check_choice("visibility", visibility, VISIBILITIES)
        if wanted != TEAM and not is_address(self._path):
            raise UsageError(
                f"{self._path} is a file of one person, so nothing in it can be {wanted}.",
                code="no_members",
                subject="visibility",
            )
        if wanted != TEAM and not self.has_members:
            raise UsageError(
                f"The memory {self._path} has no members, so nothing in it can be {wanted}.",
                code="no_members",
                subject="visibility",
                advice=advise("add_first_member"),
            )
        return wanted

    @property
    def _store(self) -> TeamStore:
        if self._whole is None and is_address(self._path):
            raise StoreError(
                f"There is no memory at {self._path} yet.",
                code="no_memory",
                subject=self._path,
                advice=advise("store_first"),
            )
        if self._whole is None or not is_address(self._path):
            raise UsageError(
                f"{self._path} is a file, which has no members. A memory in PostgreSQL has.",
                code="no_team",
                subject=self._path,
            )
        return cast("TeamStore", self._whole)
