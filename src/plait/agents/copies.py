"""Which messages of a batch were brought already: by another session, or another source of it."""

from collections.abc import Sequence

from plait.agents.ledger import Ledger


class Copies:
    """Compares the messages of a batch with those before, and with all that the ledger knows.

    ``aliases`` gets the ids of copies: a copy of a copy names one of them.
    """

    def __init__(self, ledger: Ledger, aliases: dict[str, list[str]]) -> None:
        self._ledger = ledger
        self._aliases = aliases
        self._owners: dict[str, str] = {}
        self._twins: dict[str, dict[str, str]] = {}

    def note(self, token: str, twins: Sequence[str], session: str) -> None:
        """Note a message that is none."""
        self._owners[token] = session
        self._twins.setdefault(session, {}).update(dict.fromkeys(twins, token))

    def is_copy(self, tokens: list[str], session: str) -> bool:
        """Tell whether a message is another session's; note the ids by which it may be named."""
        if len(tokens) == 1:  # nearly always; it has no other name
            owner = self._owner(tokens[0])
            return owner is not None and owner != session
        known = {token: self._owner(token) for token in tokens}
        is_copy = not {None, session}.issuperset(known.values())
        for token in tokens if is_copy else tokens[1:]:
            if known[token] is None:
                self._owners[token] = session
                self._aliases.setdefault(session, []).append(token)
        return is_copy

    def is_twin(self, token: str, twins: Sequence[str], session: str) -> bool:
        """Tell whether another source of the session brought all of a message.

        What was undone since, it brought no more.
        """
        if not twins or self._owner(token) is not None:
            return False
        sources = (self._twins.get(session, {}), self._ledger.twins(session))
        return all(
            any(self._owner(known[twin]) is not None for known in sources if twin in known)
            for twin in twins
        )

    def _owner(self, token: str) -> str | None:
        return self._owners.get(token) or self._ledger.owner(token)
