"""What a command did not look at: other projects, earlier facts, facts beyond a profile."""

import pytest

from plait.memory import Memory


@pytest.mark.parametrize("verb", ["search", "recall"])
def test_an_empty_answer_counts_the_hits_of_other_projects(plait, verb):
    plait("store", "The API listens on port 9000", "--project", "acme")
    ran = plait(verb, "API port 9000")
    assert ran.code == 3
    expected = (
        "nothing found here, but 1 hit in other projects. Try other words, or --all-projects."
    )
    assert ran.err == f"plait: {expected}\n"
    assert len(plait(verb, "API port 9000", "--all-projects").json["results"]) == 1


def test_weak_hits_tell_of_better_ones_in_other_projects(plait):
    by_words = ("--embedder", "none")
    plait("store", "Port wine is sweet", "--project", "beta", *by_words)
    plait(
        "store",
        "The staging API listens on port 9000",
        "--key",
        "api",
        "--project",
        "acme",
        *by_words,
    )
    words = ("search", "staging API listens on which port 9000", *by_words, "--project", "beta")
    ran = plait(*words)
    assert [hit["weak"] for hit in ran.json["results"]] == [True]
    told = "only weak hits here, but 1 hit in other projects. Try --all-projects."
    assert ran.err == f"plait: {told}\n"
    assert "weak hits" not in plait(*words, "--all-projects").err
    assert "weak hits" not in plait(*words[:-1], "acme").err
    plait("delete", "api", "--project", "acme", *by_words)
    assert plait(*words).err == ""


def test_text_of_other_projects_names_them(plait):
    plait("store", "The API listens on port 9000", "--project", "acme")
    plait("store", "The API listens on port 7000", "--project", "beta")
    for words in (["search", "API port"], ["timeline"], ["recall", "API port"]):
        ran = plait(*words, "--all-projects", "--project", "beta", "--format", "text")
        assert ran.out.count("project acme") == 1, words
        assert "beta" not in ran.out


def test_an_empty_answer_counts_what_is_no_longer_valid(plait):
    by_words = ("--embedder", "none")
    plait("store", "The user lives in Munich", "--topic", "home", *by_words)
    plait("store", "The user lives in Berlin", "--topic", "home", *by_words)
    ran = plait("search", "Munich", *by_words)
    expected = "nothing found; 1 hit no longer valid. Try other words, or --all-versions."
    assert (ran.code, ran.err) == (3, f"plait: {expected}\n")
    assert len(plait("search", "Munich", "--all-versions").json["results"]) == 1


def test_get_of_an_entity_says_how_to_read_all_of_it(plait):
    plait("entity", "add", "Heron", *(f"Fact {n} " + "is long " * 20 for n in range(40)))
    ran = plait("get", "Heron")
    [row] = ran.json["results"]
    assert row["more_facts"] == 40 - row["text"].count("\n- Fact")
    assert f"{row['more_facts']} more facts are known about {row['id'][:8]}." in ran.err
    assert ran.err.rstrip().endswith("entity show Heron")
    assert len(plait("entity", "show", "Heron").json["entities"][0]["observations"]) == 40


def test_one_passage_of_several_is_not_deleted_with_the_others(plait, work):
    text = "\n\n".join(f"# Part {n}\n\n" + f"word{n} " * 200 for n in range(6))
    (work / "handbook.md").write_text(text, encoding="utf-8")
    plait("ingest", "handbook.md")
    [hit] = plait("search", "word3", "--limit", "1").json["results"]
    ran = plait("delete", hit["id"])
    assert ran.code == 2
    assert "passages of a file, and cannot be deleted alone. Nothing was deleted." in ran.err
    whole = plait("get", "handbook.md").json["results"][0]["id"]
    assert ran.err.rstrip().endswith(f"delete {whole}")
    assert plait("delete", hit["id"], "--dry-run").json["ids"] == [whole]
    assert plait("delete", whole).json["ids"] == [whole]


def test_showing_an_entity_counts_as_reading_it(plait):
    plait("entity", "add", "Ana", "Likes tea")
    for _ in range(3):
        plait("entity", "show", "Ana")
    with Memory.open() as memory:
        [row] = memory.graph.search_semantic("tea")
    assert row["scoring"]["importance"] > 0
