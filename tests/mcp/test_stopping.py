"""A signal ends the server over HTTP whatever request is running; what it acknowledged is kept."""

import json
import signal
from http.client import HTTPException
from threading import Thread

import apsw
import pytest

from plait.memory import Memory
from tests.interfaces.command import PATIENCE_S
from tests.mcp import test_http

LOCK_S = "3600"  # the request in flight waits for the lock far longer than the test


def store(url: str, session: str, text: str) -> str:
    call = {"name": "memory_store", "arguments": {"text": text}}
    body = {"jsonrpc": "2.0", "id": text, "method": "tools/call", "params": call}
    return str(test_http.ask(url, body=json.dumps(body), Mcp_Session_Id=session)[2])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_while_a_store_waits(tmp_path, monkeypatch, number):
    monkeypatch.setenv("PLAIT_SQLITE_OPEN_TIMEOUT_SECS", LOCK_S)
    database = str(tmp_path / "memory.db")
    token = tmp_path / "token"
    token.write_text(f"{test_http.TOKEN}\n", encoding="utf-8")
    token.chmod(0o600)
    with test_http.started(database, token) as (process, first, _):
        url = test_http.url_in(first)
        session = test_http.ask(url)[1]["mcp-session-id"]
        assert "Stored " in store(url, session, "It was acknowledged.")
        lock = apsw.Connection(database)
        lock.execute("BEGIN IMMEDIATE")
        answers: list[str] = []

        def ask_in_vain() -> None:
            try:
                answers.append(store(url, session, "It was given up."))
            except (OSError, HTTPException):
                return  # the connection was closed

        waiting = Thread(target=ask_in_vain, daemon=True)
        waiting.start()
        test_http.ask(url)  # the server is up, and has taken the request before this one
        process.send_signal(number)
        code = process.wait(PATIENCE_S)
        # The lock is still held: the store cannot have been finished.
        lock.execute("ROLLBACK")
        lock.close()
        waiting.join(PATIENCE_S)
        assert code == (0 if number == signal.SIGTERM else 130)
        assert answers == []
    with Memory.open(database, embedder="none", project="") as memory:
        assert [row.summary for row in memory.timeline()] == ["It was acknowledged."]
        assert {finding.level for finding in memory.doctor()} == {"ok"}
