"""Check what an error says to programs: its code, its subject and its advice."""

from collections.abc import Callable

from plait.errors import Advice, Notice, PlaitError


def has_code(
    code: str, subject: str | None = None, advice: Advice | None = None
) -> Callable[[PlaitError], bool]:
    """For ``pytest.raises(..., check=has_code("no_key"))``."""

    def check(error: PlaitError) -> bool:
        notice = error.notice
        return (
            notice.code == code
            and subject in (None, notice.subject)
            and advice in (None, notice.advice)
        )

    return check


def code_of(message: str | Notice) -> str:
    """The code of a message that may be plain text."""
    return message.code if isinstance(message, Notice) else ""
