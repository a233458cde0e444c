"""Who may see a document of a memory that several people share, and who its members are."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal

from plait.types.records import NamedTuple

# "private": only whoever wrote it; "project": members to whom its project was given; "team": all.
Visibility = Literal["private", "project", "team"]
VISIBILITIES: tuple[Visibility, ...] = ("private", "project", "team")
TEAM: Visibility = "team"
MemberRole = Literal["reader", "writer", "owner"]
MEMBER_ROLES: tuple[MemberRole, ...] = ("reader", "writer", "owner")


class TeamMember(NamedTuple):
    """A member of a memory: a role of the database, and what it may see and do there."""

    name: str
    role: MemberRole
    projects: tuple[str, ...] = ()
    added_at: int = 0


_wanted: ContextVar[Visibility | None] = ContextVar("wanted_visibility", default=None)


def wanted_visibility() -> Visibility | None:
    """Return who shall see what the present call writes; ``None``: nobody has said it."""
    return _wanted.get()


@contextmanager
def visible_to(visibility: Visibility | None) -> Iterator[None]:
    """Let what is written inside be seen by these; ``None`` leaves it as it is."""
    if visibility is None:
        yield
        return
    token = _wanted.set(visibility)
    try:
        yield
    finally:
        _wanted.reset(token)
