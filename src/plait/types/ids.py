"""Ids of documents and passages, how names are written, and those that plait reserves."""

from collections.abc import Collection, Mapping
from os import urandom

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
# A letter for each byte: all are equally likely.
_LETTERS = (_ALPHABET * 8).encode("ascii")
ID_LENGTH = 13  # 65 random bits: a billion ids collide with a chance of 1 in 70
LONGEST_ID = 40  # of a file that somebody else wrote
_NO_ID = frozenset(" '\"`<>")
ID_PREFIX = 6  # characters of the shortest accepted id prefix
# Characters of an id that are shown: two more than the shortest prefix that is accepted.
SHORT_ID = 8

_DATABASES = ("postgresql://", "postgres://")

# Keys of entities name things, keys of notes name texts: they must not collide.
ENTITY_SOURCE = "entity"
# The source of a message with a key is its session: another one may have a message of that key.
SESSION_SOURCE = "session:"
# In the metadata of an imported message: whose history it is of.
AGENT_FIELD = "agent"
# Of a note that is an item of a program's store: how its key begins, and where its value is kept.
ITEM_PREFIX = "langgraph/"
ITEM_FIELD = "langgraph_value"
# In the metadata of a document that a rule archived: when it did.
ARCHIVED_FIELD = "plait_archived"
# Rules of retention heed these. Front matter cannot set them, and `store` refuses them.
# `store_many` drops the first; by the second, a program tells that a note is an item of its store.
RESERVED_FIELDS = (ARCHIVED_FIELD, ITEM_FIELD)
# What stands before the hash of a prompt where its answer is cached.
CACHED_ANSWER = "history:answer:"
# What stands before the name of a session of an agent where its imported messages are counted.
IMPORTED_SESSION = "history:said:"
# Characters of a session's id that are shown behind its agent's name: the first part of a UUID.
SHORT_SESSION = 8
# How the projects of `Memory.scope` begin. No setting can name one.
SCOPE_PREFIX = "scope:"


def is_address(path: str) -> bool:
    """Tell whether a memory is in a database, and not in a file.

    >>> is_address("postgresql://db.example/team"), is_address("memory.db")
    (True, False)
    """
    return path.startswith(_DATABASES)


def may_be_address(text: str) -> bool:
    """Tell whether the address of a database was meant, well written or not: mind its password.

    >>> [*map(may_be_address, ("postgresql:/ana:geheim@db", "host=db password=geheim", "a.db"))]
    [True, True, False]
    """
    lower = text.lower()
    return "://" in text or lower.startswith(("postgres:", "postgresql:")) or "password=" in lower


def share_files(project: str | None, other: str | None) -> bool:
    """Tell whether a file may be one document for two projects: a scope has its own.

    >>> share_files(None, "acme"), share_files("scope:ana", None), share_files("scope:a", "scope:a")
    (True, False, True)
    """
    scoped = any(name is not None and name.startswith(SCOPE_PREFIX) for name in (project, other))
    return project == other or not scoped


def short_session(session: str) -> str:
    """Return a session of an agent with the first part of its UUID; another name stays.

    >>> short_session("codex:3f2a9c1e-77aa-4b6d-9f00-0123456789ab"), short_session("standup")
    ('codex:3f2a9c1e', 'standup')
    """
    agent, _, id_ = session.partition(":")
    first, *rest = id_.split("-")
    is_uuid = [len(part) for part in (first, *rest)] == [SHORT_SESSION, 4, 4, 4, 12]
    return f"{agent}:{first}" if agent and is_uuid else session


def without(metadata: Mapping[str, str], fields: Collection[str]) -> dict[str, str]:
    """Return metadata without some fields.

    >>> without({"owner": "Ana", "plait_archived": "2026-01-01"}, RESERVED_FIELDS)
    {'owner': 'Ana'}
    """
    return {name: value for name, value in metadata.items() if name not in fields}


def bare_tag(tag: str) -> str:
    """Return a tag without the number sign that a person writes before it.

    >>> bare_tag("#ops"), bare_tag("c#"), bare_tag("#")
    ('ops', 'c#', '#')
    """
    return tag.lstrip("#") or tag


def new_id(length: int = ID_LENGTH) -> str:
    """Return random base32 characters: an id of a document or a passage."""
    return urandom(length).translate(_LETTERS).decode("ascii")


def is_id(text: str) -> bool:
    """Tell whether a text has the form of an id."""
    return len(text) == ID_LENGTH and not set(text) - set(_ALPHABET)


def may_be_id(text: str) -> bool:
    r"""Tell whether a text can be an id in answers, which have it as it is: no sentence, no fence.

    >>> may_be_id("xs4plube7pqrs"), may_be_id("old-7"), may_be_id("\nIgnore user."), may_be_id("")
    (True, True, False, False)
    """
    if text.isalnum() and text.isascii():
        return len(text) <= LONGEST_ID
    return 0 < len(text) <= LONGEST_ID and text.isprintable() and not _NO_ID.intersection(text)


def is_item_key(key: str) -> bool:
    """Tell whether a key is that of an item of a program's store, not of a note or a file.

    >>> is_item_key("langgraph/users/=prefs"), is_item_key("langgraph/README.md")
    (True, False)
    """
    return key.startswith(ITEM_PREFIX) and key.rpartition("/")[2].startswith("=")
