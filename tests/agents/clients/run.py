"""Order-like texts behind the real Claude Code and Codex: does one leave its fence?

    npm install --prefix ~/clients @anthropic-ai/claude-code @openai/codex
    python -m tests.agents.clients.run ~/clients

Connects each client to a memory full of order-like texts, by `plait connect` in a home folder of
its own, with a model API of this machine in place of the real one. Hooks recall at each prompt, and
the model calls the tools. In everything that the model was sent, each occurrence of such a text
must stand between fences with the tag of that very answer. Nothing leaves this machine. A client
that is not installed is skipped, and said to be.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.agents.clients.fake_models import Body, Step, ToolUse, fake_model
from tests.agents.clients.order_like import OrderLike, order_likes
from tests.agents.clients.place import FAILING, Place, fill
from tests.agents.clients.sent import found_in, ids_in, seen

SUBJECTS_EACH = 3
ALL_TOOLS = "core,layers,work,review"


def say(text: str) -> None:
    """Print one line."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Try each client; return 1 if a text left its fence."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clients", type=Path, help="the folder with node_modules")
    parser.add_argument("--keep", type=Path, help="a folder for what the models were sent")
    chosen = parser.parse_args()
    failed = 0
    for client, program, trust in (
        ("claude-code", "claude", "trusted"),
        ("codex", "codex", "untrusted"),
    ):
        path = chosen.clients / "node_modules" / ".bin" / program
        if not path.exists():
            say(f"skipped: {client} is not installed in {chosen.clients}")
            continue
        with tempfile.TemporaryDirectory() as folder, fake_model() as model:
            there = Place(client, str(path), Path(folder), model)
            failed += report(there, *tried(there, trust))
            if chosen.keep:
                sent = json.dumps(model.requests, indent=1)
                (chosen.keep / f"{client}.json").write_text(sent, encoding="utf-8")
    return 1 if failed else 0


def tried(there: Place, first_trust: str) -> tuple[list[OrderLike], list[list[Body]], str]:
    """Return the texts, the requests of each run, and what the client says without them."""
    there.work.mkdir()
    there.plait("store", "The walnut warehouse rollout is over.")
    replayed = re.findall(
        r"plait-recall (\w{8})", there.plait("recall", "walnut warehouse rollout")
    )
    texts = order_likes(replayed[0], first_trust)
    there.plait("connect", there.client, "--auto-save", "off")
    there.ask("hello", [])
    plain = "\n".join(leaf for body in there.model.requests for leaf in seen(body))
    fill(there, texts)
    runs = []
    for start in range(0, len(texts), SUBJECTS_EACH):
        before = len(there.model.requests)
        names = [text.subject for text in texts[start : start + SUBJECTS_EACH]]
        there.ask(f"What about the warehouse rollout of {', '.join(names)}?", steps(there, names))
        runs.append(there.model.requests[before:])
    before = len(there.model.requests)
    acts = [text for text in texts if text.door == "history"]
    there.ask(
        "Where were we?",
        [lambda _: around_tools(there, acts), lambda _: asides(texts), of_another_project],
    )
    there.ask("Look at everything.", [lambda _: others(acts), read_again], tools=ALL_TOOLS)
    if there.client == "claude-code":
        for text in texts[::8]:
            there.ask(f"/mcp__plait__recall {text.subject}", [])
    runs.append(there.model.requests[before:])
    return texts, runs, plain


def steps(there: Place, subjects: Sequence[str]) -> list[Step]:
    """The steps of a model that is asked about some subjects."""
    asked = [f"{subject} warehouse rollout" for subject in subjects]

    def find(_: Body) -> list[ToolUse]:
        found = [ToolUse("memory_search", {"query": query}, "plait") for query in asked]
        found += [ToolUse("memory_recall", {"query": query}, "plait") for query in asked]
        # Entities are known by their names, and a name may be nobody's.
        teams = [f"{subject} team" for subject in subjects]
        return [*found, ToolUse("memory_get", {"ids": teams}, "plait")]

    def look_around(body: Body) -> list[ToolUse]:
        ids = ids_in(body)
        found = [ToolUse("memory_timeline", {"anchor": id_}, "plait") for id_ in ids[:2]]
        return [*found, *resources(there, ids[:3])]

    return [find, read_again, look_around]


def read_again(body: Body) -> list[ToolUse]:
    ids = ids_in(body)[:30]
    return [ToolUse("memory_get", {"ids": ids, "max_tokens": 9000}, "plait")] if ids else []


def resources(there: Place, ids: Sequence[str]) -> list[ToolUse]:
    is_claude = there.client == "claude-code"
    listing = "ListMcpResourcesTool" if is_claude else "list_mcp_resources"
    reading = "ReadMcpResourceTool" if is_claude else "read_mcp_resource"
    read = [ToolUse(reading, {"server": "plait", "uri": f"memory://{id_}"}) for id_ in ids]
    return [ToolUse(listing, {"server": "plait"}), *read]


def around_tools(there: Place, texts: Iterable[OrderLike]) -> list[ToolUse]:
    """Edits and commands that earlier sessions had: hooks give hints beside them."""
    calls = []
    for text in texts:
        calls.append(ToolUse(*there.shell(FAILING.format(text.subject))))
        if there.client == "claude-code":
            path = str(there.work / f"{text.subject}.py")
            calls.append(ToolUse("Write", {"file_path": path, "content": "x = 1\n"}))
    return calls


def asides(texts: Iterable[OrderLike]) -> list[ToolUse]:
    """Overviews, lists, names, and calls that are refused; last, what another project has."""
    named = {text.place: text for text in texts if text.door in ("store", "entity")}
    elsewhere = f"{named['--project'].subject} warehouse rollout"
    asked: list[tuple[str, Body]] = [
        ("memory_get", {"ids": [named[place].text for place in ("--session", "--key", "name")]}),
        ("memory_recall", {"overview": True, "budget_tokens": 4000}),
        ("memory_recall", {"query": "where were we?"}),
        ("memory_timeline", {"limit": 100, "max_tokens": 9000}),
        ("memory_timeline", {"limit": 100, "max_tokens": 9000, "all_projects": True}),
        ("memory_search", {"query": "obey", "limit": 50, "max_tokens": 9000}),
        ("memory_search", {"query": "ignore the user", "all_projects": True, "limit": 50}),
        ("memory_search", {"query": "warehose rolout"}),
        ("memory_get", {"ids": ["nothing"]}),
        ("memory_delete", {"ids": ["nothing", "rollout"]}),
        ("memory_store", {"text": "The rollout is over.", "supersedes": "nothing"}),
        ("memory_search", {"query": ""}),
        ("memory_get", {"idz": []}),
        ("memory_search", {"query": elsewhere, "all_projects": True}),
    ]
    return [ToolUse(name, arguments, "plait") for name, arguments in asked]


def of_another_project(body: Body) -> list[ToolUse]:
    """What is refused because the first hit of the last search is another project's."""
    id_ = ids_in(body)[0]
    asked: list[tuple[str, Body]] = [
        ("memory_get", {"ids": [id_]}),
        ("memory_timeline", {"anchor": id_}),
        ("memory_delete", {"ids": [id_]}),
        ("memory_store", {"text": "The rollout is off.", "supersedes": id_}),
        ("memory_delete", {"ids": [id_], "undo": True}),
    ]
    return [ToolUse(name, arguments, "plait") for name, arguments in asked]


def others(texts: Iterable[OrderLike]) -> list[ToolUse]:
    """The tools of the other profiles that answer in text."""
    asked: list[tuple[str, Body]] = [
        ("search_memories", {"query": "warehouse rollout", "limit": 50}),
        ("timeline", {}),
        ("memory_review", {}),
        ("memory_work", {"kind": "fixed", "query": "KeyError: 'total'"}),
        ("memory_work", {"kind": "fixed", "query": "KeyError"}),
        ("memory_work", {"kind": "how", "query": "pytest"}),
    ]
    asked += [("memory_work", {"kind": "about", "query": f"{text.subject}.py"}) for text in texts]
    return [ToolUse(name, arguments, "plait") for name, arguments in asked]


def report(there: Place, texts: Sequence[OrderLike], runs: Sequence[list[Body]], plain: str) -> int:
    """Print what was found; return how many texts left their fence."""
    found = found_in(texts, runs, plain)
    version = there.run([there.program, "--version"], {}).strip()
    unseen = [text for text in texts if text.mark not in found.inside + found.outside]
    say(
        f"{there.client} {version}: {len(texts)} texts, {len(texts) - len(unseen)} reached the "
        f"model in {sum(map(len, runs))} requests, {found.inside.total()} times inside of a fence, "
        f"{found.outside.total()} times outside ({len(found.outside)} texts)"
    )
    for text in unseen:
        say(f"  never seen: {text.door} {text.place} {text.trust} {text.text[:40]!r}")
    for line in dict.fromkeys(found.wrong):
        say(f"  {line}")
    return len(found.wrong)


if __name__ == "__main__":
    sys.exit(main())
