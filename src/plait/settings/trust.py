"""Which project files the user trusts: their paths, each with the hash of what was accepted.

What a file may do without that is not decided here: see `plait.settings.project`.
"""

import os

from plait.errors import ConfigError, advise
from plait.settings.private import locked, read_private, replace_private

TRUST_FILE = "trusted.json"
TRUST_LOCK = "trusted.lock"
TRUST_FORMAT = 1


def fingerprint(data: bytes) -> str:
    """Return the hash by which the contents of a file are recognised."""
    from hashlib import sha256

    return sha256(data).hexdigest()


class TrustedFiles:
    """The trusted files of one user, in the user's settings folder; for several processes at once.

    Only the path and the exact contents together are trusted: a file that changed, moved or was
    copied must be accepted again.
    """

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, TRUST_FILE)
        self._folder = folder

    def hashes(self) -> dict[str, str]:
        """Return the accepted hash of each trusted file.

        Raises:
            ConfigError: The list is damaged, or others can read it.
        """
        import json

        data = read_private(self.path)
        if data is None:
            return {}
        try:
            parsed = json.loads(data)
            version = int(parsed["version"])
            rows = {str(path): str(known) for path, known in parsed["files"].items()}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ConfigError(
                f"{self.path} is damaged: no project file is trusted. Remove it.",
                code="damaged_trust",
                subject=self.path,
            ) from error
        if version > TRUST_FORMAT:
            raise ConfigError(
                f"{self.path} was written by a newer version of plait.",
                code="trust_too_new",
                subject=self.path,
                advice=advise("upgrade"),
            )
        return rows

    def add(self, path: str, known: str) -> None:
        """Trust a file with these contents, instead of those accepted before.

        Raises:
            ConfigError: The folder cannot be written, or the list is damaged.
        """
        with locked(self._folder, TRUST_LOCK):
            self._write({**self.hashes(), path: known})

    def remove(self, path: str) -> bool:
        """Stop trusting a file; return whether it was trusted, whatever its contents are now.

        Raises:
            ConfigError: The folder cannot be written, or the list is damaged.
        """
        if path not in self.hashes():
            return False
        with locked(self._folder, TRUST_LOCK):
            rows = self.hashes()
            was_there = rows.pop(path, None) is not None
            if was_there:
                self._write(rows)
        return was_there

    def _write(self, rows: dict[str, str]) -> None:
        import json

        whole = {"version": TRUST_FORMAT, "files": dict(sorted(rows.items()))}
        # ASCII, because a path need not be valid Unicode.
        replace_private(self.path, (json.dumps(whole, indent=1) + "\n").encode())
