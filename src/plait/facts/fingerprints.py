"""When two observations are duplicates."""

from hashlib import blake2b

from plait.text.normal_form import composed


def fingerprint(text: str) -> bytes:
    """Return the same bytes for two observations that differ in spacing only.

    Case matters: a password or a branch name in another case is another fact.
    """
    words = composed(" ".join(text.split()))
    return blake2b(words.encode("utf-8"), digest_size=16).digest()
