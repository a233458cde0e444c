"""What the driver says about a login that failed, which has no code."""

import psycopg
import pytest

from plait.errors import PlaitError, advise
from plait.stores.postgres import failures

AT = 'connection failed: connection to server at "10.0.0.7", port 5432 failed: '


@pytest.mark.parametrize(
    ("text", "code", "comes_back"),
    [
        (f"{AT}FATAL:  the database system is starting up", "no_connection", True),
        (f"{AT}FATAL:  the database system is shutting down", "no_connection", True),
        (f"{AT}FATAL:  the database system is in recovery mode", "no_connection", True),
        (
            f"{AT}FATAL:  the database system is not yet accepting connections",
            "no_connection",
            True,
        ),
        (f"{AT}FATAL:  terminating connection because of crash", "no_connection", True),
        (f"{AT}FATAL:  sorry, too many clients already", "too_many_connections", True),
        (f"{AT}FATAL:  remaining connection slots are reserved", "too_many_connections", True),
        (f'{AT}FATAL:  too many connections for role "ana"', "too_many_connections", True),
        (f'{AT}FATAL:  database "team" does not exist', "no_database", False),
        (f'{AT}FATAL:  password authentication failed for user "ana"', "login_refused", False),
        (f"{AT}fe_sendauth: no password supplied", "login_refused", False),
        (f'{AT}FATAL:  role "ana" does not exist', "login_refused", False),
        (f'{AT}FATAL:  no pg_hba.conf entry for host "10.0.0.1"', "login_refused", False),
        (f"{AT}FATAL:  Passwort-Authentifizierung fehlgeschlagen", "login_refused", False),
        (f"{AT}Connection refused\n\tIs the server running?", "no_connection", None),
        (f"{AT}timeout expired", "no_connection", None),
        ("connection timeout expired", "no_connection", None),
        ("failed to resolve host 'db': [Errno -2] unknown", "no_connection", None),
        (f"{AT}server does not support SSL, but SSL was required", "no_connection", False),
        (f"{AT}SSL error: certificate verify failed", "no_connection", False),
        (f'{AT}root certificate file "/x.crt" does not exist', "no_connection", False),
        (f"{AT}channel binding required, but server did not offer it", "no_connection", False),
        ('definition of service "team" not found', "no_connection", False),
        (f"{AT}SSL connection has been closed unexpectedly", "no_connection", None),
    ],
)
def test_a_failed_login_has_a_sentence_and_a_code(
    text: str, code: str, comes_back: bool | None
) -> None:
    error = psycopg.OperationalError(text)
    told: PlaitError = failures.unconnected(error, "postgresql://db/team")
    assert told.code == code
    assert "\n" not in told.notice.text
    assert "10.0.0.7" not in told.notice.text
    assert ("as its address wants it" in told.notice.text) == (
        told.notice.advice == advise("check_options")
    )
    expected = (False, True) if comes_back is None else (comes_back, comes_back)
    waits = [failures.is_passing(error, was_reached=known) for known in (False, True)]
    assert tuple(waits) == expected
