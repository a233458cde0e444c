"""A real client in a home of its own, and its memory full of order-like texts."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.agents.clients.fake_models import Body, FakeModel, Step, ToolUse
from tests.agents.clients.order_like import OrderLike

PLAIT = (sys.executable, "-m", "plait")
PATIENCE_S = 180
# How often a model waits for a client that starts plait beside it.
MOST_WAITS = 50
# A command that failed in an earlier session about a subject.
FAILING = "pytest -q tests/{}.py"


class Place(NamedTuple):
    """A client with a home of its own."""

    client: str
    program: str
    home: Path
    model: FakeModel

    @property
    def work(self) -> Path:
        return self.home / "shop"

    def plait(self, *words: str, sent: str = "", may_fail: bool = False) -> str:
        """Run a command of plait on the memory of this home."""
        database = str(self.home / "memory.db")
        return self.run([*PLAIT, "--db", database, *words], {}, sent, may_fail=may_fail)

    def run(
        self,
        command: Sequence[str],
        more: dict[str, str],
        sent: str = "",
        *,
        may_fail: bool = False,
    ) -> str:
        variables = {"PATH": os.environ["PATH"], "HOME": str(self.home), **more}
        done = subprocess.run(
            command,
            input=sent,
            env=variables,
            cwd=self.work,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE_S,
            check=False,
        )
        if done.returncode and not may_fail:
            raise SystemExit(
                f"{' '.join(command)[:200]}: {done.stderr[-2000:]}{done.stdout[-500:]}"
            )
        return done.stdout

    def shell(self, command: str) -> tuple[str, Body]:
        """The client's own tool that runs a command, and what it is given."""
        if self.client == "claude-code":
            return "Bash", {"command": command, "description": "Run it"}
        return "exec_command", {"cmd": command}

    def ask(self, prompt: str, steps: Iterable[Step], *, tools: str = "") -> None:
        """Let the client work on a prompt while its model takes these steps."""
        self.model.steps[:] = steps
        self.model.server, self.model.waits = "plait", MOST_WAITS
        self.model.meanwhile = ToolUse(*self.shell("sleep 0.3"))
        server = [*PLAIT, "--db", str(self.home / "memory.db"), "mcp", "--tools", tools]
        if self.client == "claude-code":
            given = {"mcpServers": {"plait": {"command": server[0], "args": server[1:]}}}
            options = ["--mcp-config", json.dumps(given), "--strict-mcp-config"] if tools else []
            self.run(
                [self.program, "-p", prompt, *options, "--dangerously-skip-permissions"],
                {
                    "ANTHROPIC_BASE_URL": self.model.url,
                    "ANTHROPIC_API_KEY": "none",
                    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                    "IS_SANDBOX": "1",
                },
            )
        else:
            api = (
                f'name="fake", base_url="{self.model.url}/v1", env_key="KEY", wire_api="responses"'
            )
            chosen = [f"model_providers.fake={{{api}}}", 'model_provider="fake"']
            if tools:
                chosen.append(f"mcp_servers.plait.command={json.dumps(server[0])}")
                chosen.append(f"mcp_servers.plait.args={json.dumps(server[1:])}")
            options = [word for option in chosen for word in ("-c", option)]
            flags = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
            flags += ["--dangerously-bypass-hook-trust", "-m", "fake"]
            self.run([self.program, "exec", *flags, *options, prompt], {"KEY": "none"})
        if self.model.steps:
            raise SystemExit(f"{self.client} ended before its model did")


def fill(there: Place, texts: Sequence[OrderLike]) -> None:
    """Put each text into the memory by its door."""
    doors = {"store": stored, "entity": as_entity, "ingest": in_file}
    for text in texts:
        if text.door in doors:
            doors[text.door](there, text)
    there.plait("ingest", str(there.home / "notes"), "--include", "code,*.csv,*.json")
    imported(there, [text for text in texts if text.door == "import"])
    histories(there, [text for text in texts if text.door == "history"])


def stored(there: Place, text: OrderLike) -> None:
    trust = ("--trust", text.trust)
    if text.place == "text":
        there.plait("store", "-", *trust, sent=f"{text.fact}\n{text.text}")
        return
    value = text.text
    if text.place in ("--metadata", "--provenance"):
        value = f"tool={value}"
    more = ("--role", "user") if text.place == "--session" else ()
    there.plait("store", "-", *trust, text.place, value, *more, sent=text.fact)


def as_entity(there: Place, text: OrderLike) -> None:
    name, trust = f"{text.subject} team", ("--trust", text.trust)
    value = text.text
    if text.place == "name":
        there.plait("entity", "add", value, text.fact, "--type", "team", *trust)
    elif text.place == "type":
        there.plait("entity", "add", name, text.fact, "--type", value, *trust)
    elif text.place == "observation":
        there.plait("entity", "add", name, f"{text.fact} {value}", "--type", "team", *trust)
    else:
        other = f"{text.subject} crew"
        for one in (name, other):
            there.plait("entity", "add", one, f"{text.fact} Says {one}.", "--type", "team", *trust)
        relation = value if text.place == "relation" else "knows"
        there.plait("entity", "relate", name, relation, other, "--context", value)


def in_file(there: Place, text: OrderLike) -> None:
    value = text.text
    kinds = {
        "file": (f"{value}.md", f"{text.fact}\n"),
        "folder": (f"{value}/{text.subject}.md", f"{text.fact}\n"),
        "heading": (f"{text.subject}.md", f"# {value}\n\n{text.fact}\n"),
        "front title": (f"{text.subject}.md", f"---\ntitle: {value}\n---\n{text.fact}\n"),
        "front tags": (f"{text.subject}.md", f"---\ntags: [{value}]\n---\n{text.fact}\n"),
        "code": (
            f"{text.subject}.py",
            f"def {text.subject}():\n    # {value}\n    '{text.fact}'\n",
        ),
        "html": (f"{text.subject}.html", f"<title>{value}</title><p>{text.fact}<!-- {value} -->"),
        "json": (f"{text.subject}.json", json.dumps({value: text.fact})),
        "csv": (f"{text.subject}.csv", f"plan,{value}\n{text.fact},{value}\n"),
    }
    name, body = kinds[text.place]
    path = there.home / "notes" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(body, encoding="utf-8")


def imported(there: Place, texts: Iterable[OrderLike]) -> None:
    rows: list[Body] = [{"format": "plait", "version": 1}]
    for text in texts:
        row = {"id": f"{text.subject}{'a' * 13}"[:13], "kind": "note", "text": text.fact}
        row["trust"] = text.trust
        row[text.place] = f"{text.fact} {text.text}" if text.place == "text" else text.text
        rows.append(row)
    there.plait("import", "-", sent="".join(f"{json.dumps(row)}\n" for row in rows))


def histories(there: Place, texts: Iterable[OrderLike]) -> None:
    """Write a session of an agent for each text, and import them all."""
    for number, text in enumerate(texts):
        if text.place.startswith("codex"):
            codex_session(there, text, number)
        elif text.place.startswith(("chatgpt", "claude")):
            export_of_chats(there, text)
        else:
            claude_session(there, text, number)
    there.plait("import", "claude-code")
    there.plait("import", "codex")


def claude_session(there: Place, text: OrderLike, number: int) -> None:
    value, file = text.text, f"{there.work}/{text.subject}.py"
    asked = f"{text.fact} {value}" if text.place in ("user", "request") else text.fact
    told = f"{text.fact} {value}" if text.place == "assistant" else "It is."
    edited = f"{there.work}/{value}.py" if text.place == "path" else file
    worked = f"pytest -q tests/all.py -k '{value}'" if text.place == "command" else "pytest -q x.py"
    error = f"KeyError: '{value}'" if text.place == "error" else "KeyError: 'total'"
    about = {"sessionId": f"old{number}", "cwd": str(there.work), "version": "2.1.0"}
    about["gitBranch"] = value if text.place == "branch" else "main"
    calls = [
        ("Bash", {"command": FAILING.format(text.subject)}, f"Exit code 1\n{error}"),
        ("Edit", {"file_path": edited, "old_string": "a", "new_string": "b"}, ""),
        ("Bash", {"command": worked}, ""),
    ]
    rows: list[tuple[str, Any]] = [("user", asked), ("assistant", [{"type": "text", "text": told}])]
    for place, (tool, given, failure) in enumerate(calls):
        id_ = f"call{number}-{place}"
        rows.append(("assistant", [{"type": "tool_use", "id": id_, "name": tool, "input": given}]))
        result = {"type": "tool_result", "tool_use_id": id_, "content": failure or "fine"}
        rows.append(("user", [{**result, "is_error": bool(failure)}]))
    lines = [
        {
            **about,
            "type": kind,
            "uuid": f"old{number}-{place}",
            "timestamp": f"2026-11-02T08:{number:02d}:{place:02d}.000Z",
            "message": {"role": kind, "id": f"msg{number}-{place}", "content": content},
        }
        for place, (kind, content) in enumerate(rows)
    ]
    written(there.home / ".claude" / "projects" / "-shop" / f"old{number}.jsonl", lines)


def codex_session(there: Place, text: OrderLike, number: int) -> None:
    id_ = f"11111111-1111-4111-8111-1111111111{number:02d}"
    asked, told = text.fact, "It is."
    if text.place == "codex user":
        asked += f" {text.text}"
    else:
        told = f"{text.fact} {text.text}"
    git = {"branch": "main", "commit_hash": "ab12"}
    start = {"id": id_, "cwd": str(there.work), "git": git, "cli_version": "0.160.0"}
    said = {"type": "output_text", "text": told}
    payloads: list[tuple[str, Body]] = [
        ("session_meta", {**start, "timestamp": "2026-11-02T08:00:00.000Z", "source": "cli"}),
        ("event_msg", {"type": "user_message", "message": asked}),
        ("response_item", {"type": "message", "role": "assistant", "content": [said]}),
    ]
    lines = [
        {"timestamp": f"2026-11-02T08:00:{place:02d}.000Z", "type": kind, "payload": payload}
        for place, (kind, payload) in enumerate(payloads)
    ]
    folder = there.home / ".codex" / "sessions" / "2026" / "11" / "02"
    written(folder / f"rollout-2026-11-02T08-00-00-{id_}.jsonl", lines)


def export_of_chats(there: Place, text: OrderLike) -> None:
    agent, _, place = text.place.partition(" ")
    title = text.text if place == "title" else "Plans"
    asked = f"{text.fact} {text.text}" if place == "text" else text.fact
    at = "2026-11-02T08:00:01.000000Z"
    human = {"uuid": f"{text.subject}-1", "sender": "human", "text": asked, "content": []}
    chat: Body = {"uuid": text.subject, "name": title, "created_at": at}
    chat["chat_messages"] = [{**human, "created_at": at}]
    if agent == "chatgpt":
        content = {"content_type": "text", "parts": [asked]}
        message = {"id": f"m-{text.subject}", "author": {"role": "user"}, "create_time": 1793606400}
        node: Body = {
            "id": "u",
            "parent": None,
            "children": [],
            "message": {**message, "content": content},
        }
        chat = {"conversation_id": text.subject, "title": title, "current_node": "u"}
        chat["mapping"] = {"u": node}
    path = there.home / f"{agent}-{text.subject}.json"
    path.write_text(json.dumps([chat]), encoding="utf-8")
    there.plait("import", agent, str(path))


def written(path: Path, lines: Iterable[Body]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
