"""What a file's name tells: its title, its day and its memory type."""

import pytest

from plait.types import MemoryType
from plait.writing.filenames import day_in_name, memory_type_for, title_from_name


@pytest.mark.parametrize(
    ("key", "title"),
    [
        ("rotate-ssh_keys.md", "rotate ssh keys"),
        ("ops/deep/TOOLS.md", "TOOLS"),
        ("2026-03-01.md", "2026-03-01"),
        ("2026-03-01-the_outage.md", "2026-03-01 the outage"),
        ("rfc-2119.txt", "rfc 2119"),
        ("v1.2", "v1.2"),
        ("notes.v2.md", "notes.v2"),
        ("__a  b--.org", "a b"),
        ("---.md", "---.md"),
        (".env", ".env"),
        ("日本.md", "日本"),
        ("README", "README"),
    ],
)
def test_a_title_is_made_of_the_name(key: str, title: str) -> None:
    assert title_from_name(key) == title


@pytest.mark.parametrize(
    ("key", "day"),
    [
        ("2026-03-01.md", "2026-03-01"),
        ("diary/2026-12-31-outage.md", "2026-12-31"),
        ("2026-03-01/notes.md", None),
        ("outage-2026-03-01.md", None),
        ("2026-13-01.md", None),
        ("2026-03-00.md", None),
        ("2026-03-011.md", None),
        ("", None),
    ],
)
def test_the_day_is_what_the_name_starts_with(key: str, day: str | None) -> None:
    assert day_in_name(key) == day


@pytest.mark.parametrize(
    ("key", "values", "expected"),
    [
        ("diary/2026-03-01.md", {"memory_type": " Semantic "}, "semantic"),
        ("diary/a.md", {"memory_type": "nonsense"}, "episodic"),
        ("diary/a.md", {"memory_type": ""}, "episodic"),
        ("2026-03-01.md", {}, "episodic"),
        ("memory/2026-03-01-standup.md", {}, "episodic"),
        ("2026-13-01.md", {}, None),
        ("2026-03-011.md", {}, None),
        ("Journal/a.md", {}, "episodic"),
        ("sessions/x/a.md", {}, "episodic"),
        ("log/a.md", {}, "episodic"),
        ("logs/a.md", {}, "episodic"),
        ("runbook/a.md", {}, "procedural"),
        ("Runbooks/a.md", {}, "procedural"),
        ("how_to/a.md", {}, "procedural"),
        ("docs/howto/a.md", {}, "procedural"),
        ("procedures/a.md", {}, "procedural"),
        ("how-to-rotate-keys.md", {}, "procedural"),
        ("Deploy Runbook.md", {}, "procedural"),
        ("playbook.md", {}, "procedural"),
        ("TOOLS.md", {}, "procedural"),
        ("x/AGENTS.md", {}, "procedural"),
        ("Procedural.md", {}, "procedural"),
        ("diary/AGENTS.md", {}, "procedural"),
        ("MEMORY.md", {}, "semantic"),
        ("memory/a.md", {}, None),
        ("decisions/2026-03-01-sqlite.md", {}, "semantic"),
        ("decisions.md", {}, "semantic"),
        ("facts/a.md", {}, "semantic"),
        ("people/ana.md", {}, "semantic"),
        ("2026-03-01-people-sync.md", {}, "episodic"),
        ("people/diary/a.md", {}, "episodic"),
        ("factory.md", {}, None),
        ("changelog.md", {}, None),
        ("a.md", {}, None),
        ("", {}, None),
    ],
)
def test_the_memory_type_comes_from_front_matter_folder_or_name(
    key: str, values: dict[str, str], expected: MemoryType | None
) -> None:
    assert memory_type_for(key, values) == expected
