"""Made-up Claude Code histories with known truth: sessions that are resumed, forked, compacted,
cut off and written anew."""

import json
import random
from pathlib import Path
from typing import Any

Record = dict[str, Any]
FOLDER = "/nowhere/shop"


class Histories:
    """Files of one project folder, and every message that was ever said in them, by text."""

    def __init__(self, home: Path, seed: int) -> None:
        self.folder = home / ".claude" / "projects" / "-nowhere-shop"
        self.folder.mkdir(parents=True)
        self._chance = random.Random(seed)
        self._numbers = 0
        self._sessions: dict[str, list[Record]] = {}
        self.said: dict[str, str] = {}

    def step(self) -> None:
        """Let something happen to one of the sessions."""
        steps = [self.say] * 6 + [self.resume, self.fork, self.compact, self.truncate, self.rewrite]
        self._chance.choice(steps)()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _session(self) -> str:
        if not self._sessions or self._chance.random() < 0.15:
            name = f"s{self._number()}"
            self._sessions[name] = []
        return self._chance.choice(sorted(self._sessions))

    def _record(self, kind: str, session: str, content: Any, **more: Any) -> Record:
        number = self._number()
        minutes, seconds = divmod(number, 60)
        clock = f"{8 + minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}"
        return {
            "type": kind,
            "uuid": f"id{number}",
            "sessionId": session,
            "cwd": FOLDER,
            "timestamp": f"2026-11-02T{clock}.000Z",
            "message": {"role": kind, "id": f"msg{number}", "content": content},
            **more,
        }

    def say(self) -> None:
        """Add a turn: a question, a call or two, perhaps an answer."""
        session = self._session()
        rows = self._sessions[session]
        question = f"question number{self._number()}"
        if self._chance.random() < 0.2:
            question = "yes"  # people say the same again
        row = self._record("user", session, question)
        rows.append(row)
        self.said[row["uuid"]] = question
        owner = None
        for _ in range(self._chance.randrange(4)):
            if self._chance.random() < 0.5:
                name = f"file{self._number()}.py"
                use = {"type": "tool_use", "id": name, "name": "Edit", "input": {"path": name}}
                row = self._record("assistant", session, [use])
                line = f"Edit: {name}"
                owner = owner or row["uuid"]
                before = self.said.get(owner)
                self.said[owner] = line if before is None else f"{before}\n{line}"
            else:
                words = f"answer number{self._number()}"
                row = self._record("assistant", session, [{"type": "text", "text": words}])
                owner = row["uuid"]
                self.said[owner] = words
            rows.append(row)
        self._write(session)

    def resume(self) -> None:
        """Repeat all lines in a new file, with the same uuids."""
        rows = self._sessions[self._session()]
        name = f"s{self._number()}"
        self._sessions[name] = [{**row, "sessionId": name} for row in rows]
        self._write(name)

    def fork(self) -> None:
        """Repeat all lines in a new file, with new uuids that name the old ones."""
        session = self._session()
        name = f"s{self._number()}"
        self._sessions[name] = [
            {
                **row,
                "uuid": f"id{self._number()}",
                "forkedFrom": row.get(
                    "forkedFrom", {"sessionId": session, "messageUuid": row["uuid"]}
                ),
            }
            for row in self._sessions[session]
        ]
        self._write(name)

    def compact(self) -> None:
        """Add a summary, and perhaps the last lines once more under one time."""
        session = self._session()
        rows = self._sessions[session]
        boundary = self._record("system", session, "", subtype="compact_boundary")
        at = {"timestamp": boundary["timestamp"]}
        summary = "This session is being continued from a previous conversation"
        again = [row for row in rows[-3:] if row["type"] == "user"]
        copies = [{**row, **at, "uuid": f"id{self._number()}"} for row in again]
        compacted = self._record("user", session, summary, isCompactSummary=True)
        rows += [boundary, {**compacted, **at}, *copies]
        self._write(session)

    def truncate(self) -> None:
        """Cut a file off in the middle of a line; what was read of it stays."""
        path = self._path(self._session())
        if path.exists():
            data = path.read_bytes()
            path.write_bytes(data[: self._chance.randrange(len(data) + 1)])

    def rewrite(self) -> None:
        """Write a file anew, whole, with other bytes."""
        session = self._session()
        for row in self._sessions[session]:
            row["version"] = str(self._numbers)
        self._write(session)

    def heal(self) -> None:
        """Write all files whole, as their agent has them."""
        for session in self._sessions:
            self._write(session)

    def _path(self, session: str) -> Path:
        return self.folder / f"{session}.jsonl"

    def _write(self, session: str) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in self._sessions[session])
        self._path(session).write_text(lines, "utf-8")
