"""The order of trust: trusted before untrusted before quarantined."""

from plait.types import TRUSTS, Trust


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
