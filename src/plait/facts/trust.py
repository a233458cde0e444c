"""The order of trust, and the rule that nothing becomes more trusted by being stored again.

A text never replaces a more trusted one. Only a person raises the trust of what is there: a note
that an agent, a tool, a page or a file replaces keeps the lower trust of both.
"""

from collections.abc import Iterable

from plait.types import TRUSTS, Document, Origin, Trust

# Text from anywhere else may be copied from something that is not trusted.
RAISING: Origin = "user"
# What may repeat, word for word, what its writer was shown. A file is its owner's.
COPYING: tuple[Origin, ...] = ("agent", "tool", "web", "import")
# Whose trusted text shows that a sentence is not only an untrusted one's.
VOUCHING: tuple[Origin, ...] = ("user", "file")
# The trust of a text that copies a less trusted one. Not less: quarantine is a person's decision.
COPIED: Trust = "untrusted"


def outranks(trust: Trust, other: Trust) -> bool:
    """Tell whether one trust is higher than another.

    >>> outranks("trusted", "untrusted"), outranks("untrusted", "untrusted")
    (True, False)
    """
    return TRUSTS.index(trust) < TRUSTS.index(other)


def at_least(trust: Trust) -> tuple[Trust, ...]:
    """Return this trust and every higher one.

    >>> at_least("untrusted")
    ('trusted', 'untrusted')
    """
    return TRUSTS[: TRUSTS.index(trust) + 1]


def below(trust: Trust) -> tuple[Trust, ...]:
    """Return every lower trust.

    >>> below("trusted")
    ('untrusted', 'quarantined')
    """
    return TRUSTS[TRUSTS.index(trust) + 1 :]


def lowered_to(asked: Trust, given: Iterable[Trust]) -> Trust | None:
    """Return the lowest trust that texts got instead of the one asked for; ``None`` if none did.

    >>> lowered_to("trusted", ["trusted", "untrusted"]), lowered_to("untrusted", ["untrusted"])
    ('untrusted', None)
    """
    lower = below(asked)
    return max((trust for trust in given if trust in lower), key=TRUSTS.index, default=None)


def may_replace(old: Document, new: Document) -> bool:
    """Tell whether a text may take the place of another: never that of a more trusted one."""
    return not outranks(old.trust, new.trust)


def when_joined(old: Document, new: Document, *, imported: bool = False) -> Trust:
    """Return the trust of a document after another text was stored under its name.

    The lines of an import may say anything: what is here keeps its own trust.

    >>> note = Document(trust="untrusted")
    >>> when_joined(note, Document(origin="agent")), when_joined(note, Document(origin="user"))
    ('untrusted', 'trusted')
    """
    raises = new.origin == RAISING and not imported and outranks(new.trust, old.trust)
    return new.trust if raises else old.trust


def keeps_earlier(old: Document, new: Document, *, imported: bool = False) -> bool:
    """Tell whether the text that another replaces is kept in the trash.

    A person who replaces a note means it, and a file's text is in the file. What is not trusted is
    kept even then, to recognise it when it comes back.
    """
    if old.kind in ("file", "entity") and not imported:
        return False
    meant = new.origin == RAISING and new.trust == "trusted" and not imported
    return old.sha256 != new.sha256 and not (meant and old.trust == "trusted")
