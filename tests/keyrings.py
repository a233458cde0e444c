"""Keyrings for tests: none of them reaches the one of whoever runs them."""

from keyring.backend import KeyringBackend
from keyring.errors import PasswordDeleteError


class MemoryKeyring(KeyringBackend):
    """A keyring that works, and forgets everything with the process."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self.kept.pop((service, username), None) is None:
            raise PasswordDeleteError("no such password")


class BrokenKeyring(MemoryKeyring):
    """A keyring whose daemon answers nonsense."""

    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError(f"lost the bus while asked for {username}")


class Stubborn(MemoryKeyring):
    """A keyring that gives and takes, but does not let go."""

    def delete_password(self, service: str, username: str) -> None:
        raise PasswordDeleteError("locked")
