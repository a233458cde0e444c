"""Whatever plait printed, pasted back by an agent, adds nothing and is trusted no more."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from plait.cli import main
from plait.memory import Memory
from plait.types import Document, Kind
from plait.types.reports import NewEntity
from tests.builders import EVERYTHING
from tests.mcp.talk import call, text_of

WEB: dict[str, Any] = {"trust": "untrusted", "origin": "web"}
QUERY = "deploy wiki password admin"
SECRET = "The admin of the wiki signs in as hunter2 and nobody may know."


LISTED = """# Wiki of {0}

- deploy the {0} wiki at noon

```sh
deploy {0} --wiki
  && echo done with {0}
```
"""


HANDBOOK = "# Handbook\n\n" + "\n\n".join(
    f"Chapter {n} explains how the {name} team asks for a password before the wiki may deploy."
    for n, name in enumerate(("harbour", "crane", "tide", "beacon"))
)


def fill(path: Path) -> list[str]:
    with Memory.open(path, embedder="none", project="") as memory:
        for name in ("alpha", "beta"):
            folder = path.parent / "two words" / name
            folder.mkdir(parents=True)
            (folder / "README.md").write_text(LISTED.format(name), encoding="utf-8")
            memory.ingest(folder)
        note = "# Deploys\n\nThe deploy key for staging is kept on the NAS in the cellar."
        tags = ["ops", "ssh"]
        memory.store(note, key="ops/deploys.md", tags=tags, type="decision", status="done")
        memory.store(note, key="ops/copy.md", tags=["ops", "ssh"], type="decision")
        # Too long for an answer: the name and the snippet are cut.
        memory.store(HANDBOOK, key=f"ops/{'very-' * 12}long-name.md")
        memory.store(SECRET, trust="untrusted", origin="web")
        memory.store("Ana approves every deploy of the wiki on Mondays.", entity="Ana")
        old = memory.store("The wiki runs on port 8080 of the old deploy host.", topic="port")
        memory.store("The wiki runs on port 8443 of the new deploy host.", topic="port")
        memory.store("Who may deploy the wiki at night?", role="user", session="s1")
        talk = [{"role": "assistant", "content": "Ben keeps the key of the wiki.", "id": "m2"}]
        memory.add_messages(talk, session="s1")
    with Memory.open(path, embedder="none", project="acme") as memory:
        memory.store("Acme deploys the wiki with helm charts.", event_at="1999-01-01")
    with Memory.open(path, embedder="none", project="") as memory:
        return [old.id, *(row.id for row in memory.timeline())]


def by_command(path: Path, ids: list[str]) -> dict[str, str]:
    answers = {}
    asked = {
        "search": ["search", QUERY],
        "explain": ["search", QUERY, "--explain", "--all-versions"],
        "diverse": ["search", QUERY, "--diverse"],
        "budget": ["search", QUERY, "--max-tokens", "1200"],
        "recall": ["recall", QUERY],
        "overview": ["overview"],
        "get": ["get", *ids],
        "timeline": ["timeline", "--all-versions"],
        "page": ["timeline", "--limit", "2"],
        "session": ["timeline", "--session", "s1", "--limit", "1"],
        "conversation": ["get", "s1"],
        "review": ["review"],
    }
    for name, words in asked.items():
        for form in ("text", "json", "array"):
            start = ["--db", str(path), "--project", "personal", "--embedder", "none"]
            with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as beside:
                main([words[0], *start, "--format", form, *words[1:]])
            # A model sees both streams of a command.
            told = out.getvalue() + beside.getvalue().partition("plait:")[0]
            answers[f"{name} {form}"] = told
    return answers


# Without ids: those of everything.
TOOLS: list[tuple[str, str, dict[str, Any]]] = [
    ("core", "memory_search", {"query": QUERY}),
    ("core", "memory_search", {"query": QUERY, "max_tokens": 200}),
    ("core", "memory_recall", {"query": QUERY}),
    ("core", "memory_recall", {"query": "where were we"}),
    ("core", "memory_recall", {"overview": True}),
    ("core", "memory_get", {"ids": []}),
    ("core", "memory_get", {"ids": [], "max_tokens": 120}),
    ("core", "memory_timeline", {"limit": 2}),
    ("core", "memory_timeline", {"limit": 1, "session": "s1"}),
    ("core", "memory_get", {"ids": ["s1"]}),
    ("core", "memory_get", {"ids": ["s1"], "max_tokens": 120}),
    ("core", "memory_search", {"query": "helm charts"}),
    ("core", "memory_search", {"query": "8080"}),
    ("core", "memory_search", {"query": "zebra"}),
    ("core", "memory_recall", {"query": "helm charts"}),
    ("core", "memory_timeline", {"until": "2000-01-01"}),
    ("review", "memory_review", {}),
    ("layers", "search_memories", {"query": "helm charts"}),
    ("layers", "timeline", {"end_date": "2000-01-01"}),
    ("layers", "search_memories", {"query": QUERY}),
    ("layers", "timeline", {}),
    ("layers", "get_observations", {"ids": []}),
]


def by_server(
    memory: Memory, asked: list[tuple[str, str, dict[str, Any]]], ids: list[str]
) -> Iterator[tuple[str, str]]:
    for number, (profile, tool, given) in enumerate(asked):
        arguments = {**given, "ids": ids} if given.get("ids") == [] else given
        result = call(memory, tool, arguments, profiles=(profile,))
        text = text_of(result)
        yield f"{tool} {number} text", text
        yield f"{tool} {number} bare", re.sub(r"<</?plait-recall \w+>>\n?", "", text)
        yield f"{tool} {number} data", json.dumps(result.structured_content)
        yield f"{tool} {number} indented", json.dumps(result.structured_content, indent=2)
        yield f"{tool} {number} whole", result.model_dump_json(by_alias=True)


class Asked(NamedTuple):
    """A memory, and every answer of every door about it, by name."""

    path: Path
    answers: dict[str, str]


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    path = tmp_path_factory.mktemp("asked") / "memory.db"
    ids = fill(path)
    given = by_command(path, ids)
    for project in ("", "acme"):
        with Memory.open(path, embedder="none", project=project) as memory:
            tools = TOOLS if not project else TOOLS[:3]
            given |= {f"{project} {name}": text for name, text in by_server(memory, tools, ids)}
    given |= {f"{name} in a block": f"```json\n{text}\n```" for name, text in given.items()}
    return Asked(path, {name: text for name, text in given.items() if text.strip()})


@pytest.fixture
def answers(asked: Asked, tmp_path: Path) -> dict[str, str]:
    """Every answer of every door; ``memory.db`` is a copy of the memory that was asked."""
    shutil.copyfile(asked.path, tmp_path / "memory.db")
    (tmp_path / "memory.db").chmod(0o600)
    return asked.answers


@pytest.mark.unmeasured
def test_a_pasted_answer_adds_nothing(answers: dict[str, str], tmp_path: Path) -> None:
    assert len(answers) > 100
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        before = memory.engine.scan(EVERYTHING, whole=True)
        for name, text in answers.items():
            for origin in ("agent", "tool"):
                assert memory.store(text, origin=origin).recalled, (name, text)
            assert memory.engine.scan(EVERYTHING, whole=True) == before, name


def test_no_door_stores_a_pasted_answer(answers: dict[str, str], tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        before = memory.engine.scan(EVERYTHING, whole=True)
        texts = list(answers.values())
        many = [Document(kind="observation", text=text, origin="agent") for text in texts]
        assert all(done.recalled for done in memory.store_many(many))
        assert memory.engine.scan(EVERYTHING, whole=True) == before
        memory.graph.create([NewEntity("New", "t", tuple(texts[::9]))], origin="agent")
        memory.graph.observe([("New", texts[1::9])], origin="agent")
        new = [row for row in memory.engine.scan(EVERYTHING, whole=True) if row not in before]
        assert [row.kind for row in new] == ["entity"]


@pytest.mark.parametrize("kind", ["note", "message"])
def test_many_pasted_answers_keep_no_line_of_plait_and_no_trust(
    answers: dict[str, str], tmp_path: Path, kind: Kind
) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        ids = {row.id[:8] for row in memory.timeline()}
        many = [
            Document(
                key=f"{place}",
                kind=kind,
                session="s" if kind == "message" else None,
                role="assistant" if kind == "message" else None,
                text=f"{text}\nNobody deploys.",
                origin="agent",
            )
            for place, text in enumerate(answers.values())
        ]
        memory.store_many(many, allow_secret=True)
        for place, name in enumerate(answers):
            row = memory.lookup(f"{place}")[0]
            assert "Nobody deploys." in row.text
            assert not any(id_ in row.text for id_ in ids), (name, row.text)
            assert "plait" not in row.text and "hits" not in row.text, (name, row.text)
            assert row.trust == "untrusted" or "hunter2" not in row.text, (name, row.text)


def test_many_texts_keep_their_order_and_lose_what_was_pasted(memory: Memory) -> None:
    memory.store("The deploy key is in the cellar.", key="keys", **WEB)
    pasted = text_of(call(memory, "memory_get", {"ids": ["keys"]}))
    texts = ["One is new.", pasted, f"Two is new.\n{pasted}", "The deploy key is in the cellar."]
    many = [Document(key=f"{n}", kind="note", text=t, origin="agent") for n, t in enumerate(texts)]
    done = memory.store_many(many)
    assert [row.doc_id for row in done] == ["0", "", "2", "3"]
    assert [row.recalled for row in done] == [False, True, False, False]
    assert [row.shortened for row in done] == [False, False, True, False]
    assert [row.lowered for row in done] == [None, None, None, "untrusted"]
    assert memory.lookup("2")[0].text == "Two is new."


def test_what_the_server_says_about_a_stored_text_is_not_stored(memory: Memory) -> None:
    memory.store("The deploy key is in the cellar.", **WEB)
    ours = memory.store("The wiki runs on port 8443.", topic="port")
    ways: tuple[dict[str, Any], ...] = (
        {"text": "We met. The deploy key is in the cellar."},
        {"text": "The wiki runs on port 9443 now.", "topic": "port"},
        {"text": "The wiki runs on port 9443 these days."},
        {"text": "The wiki runs on port 1.", "topic": "port", "untrusted": True},
        {"text": "SSH password: `otter-lagoon-42-Zq`", "allow_secret": True},
        {"text": "The wiki runs on port 9443 now.", "topic": "port"},
    )
    receipts = [text_of(call(memory, "memory_store", arguments)) for arguments in ways]
    receipts.append(text_of(call(memory, "memory_delete", {"ids": [ours.id]})))
    receipts.append(text_of(call(memory, "memory_delete", {"ids": [ours.id], "undo": True})))
    receipts.append(text_of(call(memory, "memory_store", {"text": "wide and broad " * 2_000})))
    assert "It is long" in receipts[-1]
    for given in ({"status": "done"}, {"feedback": "wrong"}):
        arguments = {"ids": [ours.id], **given}
        receipts.append(text_of(call(memory, "memory_mark", arguments, profiles=("review",))))
    memory.graph.create([NewEntity("Heron", "bird", ("It flies. " * 60,))])
    receipts.append(text_of(call(memory, "memory_get", {"ids": ["Heron"]})))
    assert "1 more fact is known about" in receipts[-1]
    assert any("secret" in text for text in receipts) and any("Similar" in x for x in receipts)
    for text in receipts:
        assert memory.store(text, origin="agent").recalled, text


@pytest.mark.unmeasured
def test_a_pasted_answer_in_a_note_keeps_no_line_of_plait_and_no_trust(
    answers: dict[str, str], tmp_path: Path
) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        ids = {row.id[:8] for row in memory.timeline()}
        for name, text in answers.items():
            stored = memory.store(
                f"{text}\nOn holidays nobody deploys.", key="n", origin="agent", allow_secret=True
            )
            note = memory.lookup(stored.id)[0]
            assert "On holidays nobody deploys." in note.text
            assert not any(id_ in note.text for id_ in ids), (name, note.text)
            assert "plait" not in note.text and "hits" not in note.text, (name, note.text)
            assert note.trust == "untrusted" or "hunter2" not in note.text, (name, note.text)
            memory.delete("n", purge=True)


def test_a_person_may_paste_what_they_like(answers: dict[str, str], tmp_path: Path) -> None:
    name, text = next(iter(answers.items()))
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        stored = memory.store(text, key="n")
        assert memory.lookup(stored.id)[0].text.strip() == text.strip(), name
