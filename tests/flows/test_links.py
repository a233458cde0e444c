"""Links between notes: in step with the texts, whatever happens to these; aliases and tags."""

from pathlib import Path

import pytest

from plait.errors import AmbiguousId, NotFound
from plait.memory import Memory
from plait.searching import links as linking
from plait.text.links import Link, inline_tags, links_in
from plait.types import Document
from plait.types.reports import NewEntity

NOTES = {
    "keys.md": "---\naliases: [Key plan, 'Doe, John']\n---\n"
    "# Keys\n[[ssh#Rotate|how]] [[Nowhere]]\n",
    "ops/ssh.md": "# SSH\nSee [[Key plan]], [plan](../work%20plan.md) and ![[keys.md]].\n",
    "work plan.md": "# Plan\nBack to [ssh](ops/ssh.md#rotate). `[[keys]]`\n",
}


@pytest.fixture
def memory():
    with Memory.open(":memory:", embedder="none", project="") as opened:
        yield opened


@pytest.fixture
def vault(tmp_path: Path, memory: Memory) -> Path:
    folder = tmp_path / "vault"
    for name, text in NOTES.items():
        write(folder, name, text)
    memory.ingest(folder)
    return folder


def write(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def links(memory: Memory, name: str) -> tuple[list[str], list[str]]:
    """What a note links to (in brackets what is not there), and what links to it."""
    document, _ = memory.lookup(name)
    linked = memory.links(document)
    to = [row.target if row.target_id else f"({row.target})" for row in linked.links]
    return to, [row.source for row in linked.backlinks]


def test_links_lead_from_note_to_note_and_back(memory, vault):
    assert links(memory, "keys.md") == (["ops/ssh.md", "(Nowhere)"], ["ops/ssh.md"])
    assert links(memory, "ops/ssh.md") == (["keys.md", "work plan.md"], ["keys.md", "work plan.md"])
    assert links(memory, "work plan.md") == (["ops/ssh.md"], ["ops/ssh.md"])
    document, _ = memory.lookup("keys.md")
    [link, _] = memory.links(document).links
    assert (link.type, link.context) == ("links_to", "Rotate")


def test_links_follow_what_is_ingested_again_and_renamed(memory, vault):
    write(vault, "keys.md", "# Keys\nNo links, no alias.\n")
    memory.ingest(vault)
    assert links(memory, "keys.md") == ([], ["ops/ssh.md"])
    (vault / "keys.md").rename(vault / "nowhere.md")
    memory.ingest(vault)
    assert links(memory, "ops/ssh.md")[0] == ["(Key plan)", "work plan.md", "(keys.md)"]
    write(vault, "other.md", "[[nowhere]]")
    memory.ingest(vault)
    assert links(memory, "nowhere.md") == ([], ["other.md"])


def test_a_link_finds_its_target_when_that_appears(memory, vault):
    write(vault, "deep/Nowhere.md", "Here at last.")
    memory.ingest(vault)
    assert links(memory, "keys.md")[0] == ["ops/ssh.md", "deep/Nowhere.md"]
    assert links(memory, "deep/Nowhere.md")[1] == ["keys.md"]


def test_links_follow_delete_undo_and_purge(memory, vault):
    memory.delete("ops/ssh.md")
    assert links(memory, "keys.md") == (["(ssh)", "(Nowhere)"], [])
    memory.undo()
    assert links(memory, "keys.md") == (["ops/ssh.md", "(Nowhere)"], ["ops/ssh.md"])
    memory.delete("ops/ssh.md", purge=True)
    assert links(memory, "work plan.md") == (["(ops/ssh.md)"], [])


def test_a_purge_leaves_no_byte_of_a_link(tmp_path, vault):
    path = tmp_path / "own.db"
    write(vault, "secret.md", "[[Zanzibarquest]] #quokkatag\n")
    with Memory.open(str(path), embedder="none", project="") as memory:
        memory.ingest(vault)
        assert links(memory, "secret.md")[0] == ["(Zanzibarquest)"]
        memory.delete("secret.md", purge=True)
    for file in tmp_path.glob("own.db*"):
        data = file.read_bytes().lower()
        assert b"zanzibarquest" not in data
        assert b"quokkatag" not in data


def test_links_come_along_with_an_export(memory, vault, tmp_path):
    lines = list(memory.export())
    with Memory.open(":memory:", embedder="none", project="") as other:
        other.import_lines(lines)
        assert links(other, "keys.md") == links(memory, "keys.md")
        assert links(other, "ops/ssh.md") == links(memory, "ops/ssh.md")
        assert other.get("Key plan").text == memory.get("Key plan").text


def test_stored_notes_and_entities_are_linked_too(memory):
    memory.store("See [[Ada]] and [[beta]].", key="alpha")
    memory.graph.create([NewEntity("Ada")])
    memory.store("Back to [[alpha]] #ops/now", key="beta")
    assert links(memory, "alpha") == (["Ada", "beta"], ["beta"])
    assert links(memory, "Ada") == ([], ["alpha"])
    assert memory.get("beta").tags == ("ops/now",)


def test_other_projects_and_quarantined_texts_are_not_linked(tmp_path):
    path = str(tmp_path / "m.db")
    with Memory.open(path, embedder="none", project="one") as memory:
        memory.store("[[target]]", key="mine")
    with Memory.open(path, embedder="none", project="two") as memory:
        memory.store("text", key="target")
        memory.store("[[target]]", key="bad", trust="quarantined")
        memory.store("[[target]]", key="doubtful", trust="untrusted")
        assert links(memory, "target") == ([], ["doubtful"])
    with Memory.open(path, embedder="none", project="one") as memory:
        assert links(memory, "mine") == (["(target)"], [])


@pytest.mark.parametrize("key", ["Plan", "x/Plan", "a/x/plan.md"])
def test_an_untrusted_text_takes_no_alias_of_a_trusted_note(memory, tmp_path, key):
    folder = tmp_path / "vault"
    write(folder, "plans.md", "---\naliases: [Plan]\n---\nThe plan.")
    write(folder, "a/from.md", "[[Plan]]")
    memory.ingest(folder)
    memory.store("Another plan.", key=key, trust="untrusted", origin="web")
    memory.store("[[Plan]]", key="doubtful", trust="untrusted", origin="web")
    assert links(memory, "a/from.md")[0] == ["plans.md"]
    assert links(memory, "plans.md")[1] == ["a/from.md"]
    assert links(memory, "doubtful")[0] == [key]
    assert memory.get("plan").key == "plans.md"


def test_an_untrusted_text_takes_no_file_name_of_a_trusted_note_elsewhere(memory):
    memory.store("The plan.", key="ops/plan.md")
    memory.store("Another plan.", key="plan.txt", trust="untrusted", origin="web")
    memory.store("[[plan]]", key="from")
    assert links(memory, "from")[0] == ["ops/plan.md"]
    assert memory.get("Plan").key == "ops/plan.md"


def test_of_several_notes_of_one_name_the_nearest_is_linked(memory, tmp_path):
    folder = tmp_path / "vault"
    for name in ("a/note.md", "b/note.md", "note.md"):
        write(folder, name, f"I am {name}")
    write(folder, "b/from.md", "[[note]]")
    write(folder, "c/from.md", "[[note]] [[a/note]]")
    memory.ingest(folder)
    assert links(memory, "b/from.md")[0] == ["b/note.md"]
    assert links(memory, "c/from.md")[0] == ["note.md", "a/note.md"]
    assert links(memory, "b/note.md")[1] == ["b/from.md"]
    assert links(memory, "note.md")[1] == ["c/from.md"]


# -- names ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Key plan", "key PLAN", "Doe, John", "keys", "KEYS.md"])
def test_a_note_is_read_by_its_alias_and_its_bare_name(memory, vault, name):
    document, passage = memory.lookup(name)
    assert (document.key, passage) == ("keys.md", None)


def test_an_alias_only_reads(memory, vault):
    with pytest.raises(NotFound):
        memory.delete("Key plan")
    with pytest.raises(NotFound):
        memory.get("Key pla")
    memory.store("---\naliases: [Sea]\n---\nWe sail.", key="boat")
    with pytest.raises(NotFound):
        memory.store("We row.", supersedes="Sea")
    assert memory.get("Sea").valid_to is None


def test_an_alias_of_two_notes_is_told(memory, vault):
    write(vault, "second.md", "---\naliases: key plan\n---\ntext")
    memory.ingest(vault)
    with pytest.raises(AmbiguousId):
        memory.get("Key plan")


def test_a_link_to_an_alias_of_several_notes_takes_the_nearest_then_the_shortest_path(
    memory, tmp_path
):
    folder = tmp_path / "v"
    for name in ("x/y/a.md", "x/b.md", "z/a.md", "z/from.md", "from.md", "w/from.md"):
        head = "" if "from" in name else "---\naliases: [Plan]\n---\n"
        write(folder, name, f"{head}See [[plan]].")
    memory.ingest(folder)
    shown = {name: links(memory, name)[0] for name in ("z/from.md", "from.md", "w/from.md")}
    assert shown == {"z/from.md": ["z/a.md"], "from.md": ["x/b.md"], "w/from.md": ["x/b.md"]}
    with pytest.raises(AmbiguousId):
        memory.get("Plan")


def test_an_alias_is_searched(memory, vault):
    assert memory.search("doe john")[0].doc_id == "keys.md"


def test_a_tag_in_the_text_filters_with_those_below_it(memory, tmp_path):
    write(tmp_path / "v", "a.md", "---\ntags: [front]\n---\n# Head\n#ops/ssh and `#code` #12\n")
    write(tmp_path / "v", "b.txt", "#plain is no tag\n")
    memory.ingest(tmp_path / "v")
    assert memory.get("a.md").tags == ("front", "ops/ssh")
    assert memory.get("b.txt").tags == ()
    assert [hit.doc_id for hit in memory.search("ops", where={"tags": ["ops"]})] == ["a.md"]
    memory.ingest(tmp_path / "v")
    assert memory.get("a.md").tags == ("front", "ops/ssh")


# -- reading a text ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ("[[a]] [[a|b]] [[a#h]] ![[c]]", ["a", "a", "c"]),
        ("| [[a\\|b]] |", ["a"]),
        ("```\n[[no]]\n```\n~~~\n[[no]]\n~~~\n`[[no]]` ``[[no ` ]]`` [[yes]]", ["yes"]),
        ("[x](b.md) [y](<c d.md> \"t\") [z](e%20f.md#g) [w](./h.md?x=1)",
         ["b.md", "c d.md", "e f.md", "./h.md"]),
        ("[x](https://a.b/c.md) [y](mailto:a@b) [z](#top) [w](/root.md) [[#top]]", []),
        ("[[two\nlines]] [[ ]] [[]]", []),
        ("```\n[[in an unclosed fence]]", []),
    ],
)  # fmt: skip
def test_links_are_read_outside_code(text, targets):
    assert [link.target for link in links_in(text)] == targets


@pytest.mark.parametrize(
    ("text", "tags"),
    [
        ("#a #b-c #d_e #f/g #été #7up", ["a", "b-c", "d_e", "f/g", "été", "7up"]),
        ("# a\n## b\nx#c (#d) [e](#e) #1 #1/2 #00ff00 ##f", []),
        ("```\n#no\n```\n`#no` #yes", ["yes"]),
        ("#a/ #a- #a", ["a"]),
    ],
)
def test_tags_are_read_outside_code(text, tags):
    assert inline_tags(text) == tags


def test_a_text_of_many_links_and_tags_has_a_limit():
    assert len(links_in(" ".join(f"[[n{n}]]" for n in range(5_000)))) == 1_000
    assert len(inline_tags(" ".join(f"#t{n}" for n in range(5_000)))) == 100


def test_a_path_does_not_lead_out_of_the_folder():
    source = Document(key="a/b.md", kind="file")
    for target, name in (("../c.md", "c.md"), ("../../c.md", ""), ("./../a/./d.md", "a/d.md")):
        assert linking._name_in(source, Link(target, is_path=True)) == name


@pytest.mark.parametrize(
    "name",
    [
        "C++",
        'a "quoted" one',
        "50% off_",
        "日本語メモ",
        "語",
        "Übergrün",
        "AND",
        "#x",
        "it's",
        "…",
    ],
)
def test_notes_of_any_name_are_linked_both_ways(memory, name):
    memory.store("The target.", key=name)
    memory.store(f"See [[notes/{name}]], [[{name.upper()}]].", key="from")
    linked = links(memory, "from")[0]
    if "#" in name:  # what follows is a heading
        assert linked == ["(notes/)"]
    else:
        assert linked == [f"(notes/{name})", name]
        assert links(memory, name)[1] == ["from"]


def test_a_path_may_be_written_as_an_address(memory, tmp_path):
    write(tmp_path / "v", "über den plan.md", "text")
    write(tmp_path / "v", "sub/a.md", "[x](../%C3%BCber%20den%20plan.md)")
    write(tmp_path / "v", "b.md", "[x](<über den plan.md>)")
    memory.ingest(tmp_path / "v")
    assert links(memory, "über den plan.md")[1] == ["b.md", "sub/a.md"]


@pytest.mark.parametrize(
    ("text", "aliases"),
    [
        ("x", ", ".join(f"alias {number}" for number in range(400))),
        ("x", ", ".join(f"übung {number}" for number in range(400))),
        (" ".join(f"[[übung {number}]]" for number in range(300)), ""),
        (" ".join(f"[[folder {number}/note]]" for number in range(1_200)), ""),
    ],
    ids=["aliases", "accented aliases", "accented links", "links"],
)
def test_a_note_with_any_number_of_names_and_links_is_read(memory, text, aliases):
    memory.store(text, key="many", metadata={"aliases": aliases} if aliases else {})
    memory.store("See [[many]].", key="other")
    _, backlinks = links(memory, "many")
    assert backlinks == ["other"]


def test_a_link_by_an_alias_among_many_names_is_resolved(memory):
    names = [f"alias {number}" for number in range(linking.MOST_NAMES - 2)]
    memory.store("x", key="many", metadata={"aliases": ", ".join(names)})
    memory.store(f"See [[{names[-1]}]].", key="other")
    assert links(memory, "many") == ([], ["other"])
    assert links(memory, "other") == (["many"], [])


def test_the_work_grows_with_the_notes_of_a_name_and_not_with_their_square(memory, monkeypatch):
    folded = linking._folded
    work: list[str] = []

    def counted(name: str) -> str:
        work.append(name)
        return folded(name)

    monkeypatch.setattr(linking, "_folded", counted)

    def effort(count: int) -> int:
        rows = [Document(text="[[README]]", key=f"{count}/p{n}/README.md") for n in range(count)]
        memory.store_many([*rows, Document(text="top", key="README.md")])
        document, _ = memory.lookup(f"{count}/p0/README.md")
        work.clear()
        memory.links(document)
        return len(work)

    few = effort(40)
    assert effort(160) < 8 * few  # 200 notes then: five times as many
