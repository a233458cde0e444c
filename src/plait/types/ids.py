"""Ids of documents and passages, and the names that plait reserves for itself."""

from os import urandom

_ALPHABET = "abcdefghijklmnopqrstuvwxyz234567"
ID_LENGTH = 13  # 65 random bits: a billion ids collide with a chance of 1 in 70
ID_PREFIX = 6  # characters of the shortest accepted id prefix
# Characters of an id that are shown: two more than the shortest prefix that is accepted.
SHORT_ID = 8

# Keys of entities name things, keys of notes name texts: they must not collide.
ENTITY_SOURCE = "entity"
# The source of a message with a key is its session: another one may have a message of that key.
SESSION_SOURCE = "session:"
# How the projects of `Memory.scope` begin. No setting can name one.
SCOPE_PREFIX = "scope:"


def share_files(project: str | None, other: str | None) -> bool:
    """Tell whether a file may be one document for two projects: a scope has its own.

    >>> share_files(None, "acme"), share_files("scope:ana", None), share_files("scope:a", "scope:a")
    (True, False, True)
    """
    scoped = any(name is not None and name.startswith(SCOPE_PREFIX) for name in (project, other))
    return project == other or not scoped


def new_id(length: int = ID_LENGTH) -> str:
    """Return random base32 characters: an id of a document or a passage."""
    number = int.from_bytes(urandom(length), "big")
    letters = []
    for _ in range(length):
        number, digit = divmod(number, 32)
        letters.append(_ALPHABET[digit])
    return "".join(letters)


def is_id(text: str) -> bool:
    """Tell whether a text has the form of an id."""
    return len(text) == ID_LENGTH and not set(text) - set(_ALPHABET)
