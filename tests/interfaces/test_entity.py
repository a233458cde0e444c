"""Facts and entities on the command line: their forms, answers and exit codes."""

import json

import pytest


@pytest.fixture
def filled(plait):
    plait("entity", "add", "Ana", "Likes tea", "Has a cat", "--type", "person")
    plait("entity", "add", "Deploy", "--type", "process")
    plait("entity", "relate", "Ana", "approves", "Deploy", "--context", "since the outage")
    return plait


# store


def test_a_fact_says_what_it_takes_the_place_of(plait):
    first = plait(
        *("store", "We deploy on Fridays", "--type", "decision", "--tags", "ops"),
        *("--entity", "Deploy", "--topic", "day"),
    ).json
    second = plait("store", "We deploy on Mondays", "--entity", "Deploy", "--topic", "day").json
    assert second["superseded"] == [first["id"]]
    assert first["entity"] == second["entity"]
    ran = plait("store", "We deploy on Sundays", "--supersedes", second["id"], "--format", "text")
    assert f"replacing {second['id'][:8]}" in ran.out
    hits = plait("search", "deploy", "--kind", "observation").json["results"]
    assert [hit["text"] for hit in hits] == ["We deploy on Sundays"]
    assert (
        len(plait("search", "deploy", "--all-versions", "--kind", "observation").json["results"])
        == 3
    )
    past = plait("search", "deploy", "--as-of", "2020-01-01").json["results"]
    assert [hit["text"] for hit in past] == ["We deploy on Fridays"]


def test_what_no_longer_holds_says_so_in_text_and_json(plait):
    old = plait("store", "The port is 80", "--topic", "port").json["id"]
    new = plait("store", "The port is 81", "--topic", "port").json["id"]
    mark = f"; replaced by {new[:8]}"
    for words in [
        ("search", "port", "--as-of", "2020-01-01"),
        ("get", old),
        ("timeline", "--anchor", old, "--newer", "0"),
        ("recall", "port", "--as-of", "2020-01-01"),
    ]:
        [row] = plait(*words).json["results"]
        assert (row["superseded_by"], row["valid_from"]) == (new, None)
        assert row["valid_to"] is not None
        assert mark in plait(*words, "--format", "text").out
    passage = plait("search", "port", "--as-of", "2020-01-01").json["results"][0]["id"]
    assert plait("get", passage).json["results"][0]["superseded_by"] == new
    assert mark in plait("get", passage, "--format", "text").out
    versions = plait("search", "port", "--all-versions").json["results"]
    assert {row["superseded_by"] for row in versions} == {new, None}
    assert plait("get", new).json["results"][0]["superseded_by"] is None
    assert "until" not in plait("search", "port", "--format", "text").out


def test_one_that_replaces_two_is_named_by_both(plait):
    first = plait("store", "The port is 80").json["id"]
    second = plait("store", "The port is 82", "--topic", "port").json["id"]
    third = plait("store", "The port is 81", "--topic", "port", "--supersedes", first).json["id"]
    rows = plait("get", first, second).json["results"]
    assert [row["superseded_by"] for row in rows] == [third, third]


def test_what_cannot_be_superseded_is_an_error_with_its_code(plait):
    old = plait("store", "one").json
    plait("store", "two", "--supersedes", old["id"])
    ran = plait("store", "three", "--supersedes", old["id"])
    assert ran.code == 2
    ran = plait("store", "three", "--supersedes", "zzzzzzzz")
    assert (ran.code, "zzzzzzzz" in ran.err) == (3, True)


def test_near_duplicates_and_the_untrusted_are_remarked_upon(plait):
    first = plait("store", "The billing API listens on port 8080", "--topic", "port").json
    ran = plait(
        *("store", "The billing API listens on port 9090", "--topic", "port"),
        *("--trust", "untrusted", "--format", "text"),
    )
    assert f"not trusted enough to supersede {first['id'][:8]}" in ran.err
    assert f"almost the same as {first['id'][:8]}" in ran.err
    assert "numbers differ: 9090 and 8080" in ran.err


@pytest.mark.parametrize("action", ["add", "observe"])
def test_a_fact_that_repeats_an_untrusted_text_is_remarked_upon(plait, action):
    text = "The harbour office closes the eastern gate at nine on every winter evening."
    plait("store", text, "--key", "page", "--trust", "untrusted")
    plait("entity", "add", "Gate", "It is green")
    name = "Gate" if action == "observe" else "East gate"
    ran = plait("entity", action, name, text, "--origin", "agent")
    assert (ran.code, "stored as untrusted: " in ran.err) == (0, True)
    own = plait("entity", action, name, "Our own remark about it", "--origin", "agent")
    assert (own.code, own.err) == (0, "")


def test_a_recalled_text_is_not_stored_again_by_an_agent(plait):
    first = plait("store", "The cluster is rebuilt every Sunday night").json
    recalled = plait("recall", "cluster rebuilt", "--format", "text").out
    ran = plait("store", recalled, "--origin", "agent")
    assert (ran.json["recalled"], ran.json["matched"]) == (True, first["id"])
    fenced = "<<plait-recall abcdefgh>> nobody said this <</plait-recall abcdefgh>>"
    ran = plait("store", fenced, "--origin", "agent", "--format", "text")
    assert "Not stored" in ran.out


# entity


def test_an_entity_is_shown_with_its_facts_and_relations(filled):
    value = filled("entity", "show", "Ana").json
    [ana] = value["entities"]
    assert (ana["entityType"], ana["observations"]) == ("person", ["Likes tea", "Has a cat"])
    assert [fact["trust"] for fact in ana["facts"]] == ["trusted", "trusted"]
    assert value["relations"][0]["context"] == "since the outage"
    text = filled("entity", "show", "Ana", "Deploy", "--format", "text").out
    assert "Ana  (person)" in text
    assert "Ana -approves-> Deploy (since the outage)" in text


def test_neighbours_are_shown_on_request(filled):
    value = filled("entity", "show", "Ana", "--depth", "1", "--direction", "out").json
    assert [entity["name"] for entity in value["entities"]] == ["Ana", "Deploy"]


def test_the_neighbours_of_several_are_shown_together(filled):
    filled("entity", "add", "Bo", "--type", "person")
    ran = filled("entity", "show", "Ana", "Bo", "--depth", "1")
    assert (ran.code, ran.err) == (0, "")
    assert [entity["name"] for entity in ran.json["entities"]] == ["Ana", "Deploy", "Bo"]
    assert len(ran.json["relations"]) == 1
    ran = filled("entity", "show", "Ana", "Zed", "Deploy", "--depth", "1")
    assert (ran.code, len(ran.json["entities"]), len(ran.json["relations"])) == (3, 2, 1)
    assert "'Zed'" in ran.err
    assert filled("entity", "show", "Zed", "--depth", "1").json["entities"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("delete", "Ana", "--until", "3d"),
        ("delete", "Ana", "--context", "x"),
        ("show", "Ana", "--purge"),
        ("show", "Ana", "--direction", "out"),
        ("list", "--type", "person"),
        ("add", "Bo", "--since", "7d"),
        ("relate", "Ana", "knows", "Deploy", "--trust", "trusted"),
        ("unrelate", "Ana", "approves", "Deploy", "--context", "x"),
        ("observe", "Ana", "--limit", "3"),
        ("add", "Ana", "--delete-observation", "Likes tea"),
        ("show", "Ana", "--cursor", "x"),
        ("list", "--depth", "0"),
    ],
)
def test_an_option_of_another_act_is_refused_and_nothing_is_done(filled, words):
    before = filled("entity", "list").json
    ran = filled("entity", *words)
    assert ran.code == 2
    assert next(word for word in words if word.startswith("--")) in ran.err
    assert filled("entity", "list").json == before


def test_entities_are_listed_and_paged(filled):
    assert "Ana  (person, 2 observations)" in filled("entity", "list", "--format", "text").out
    page = filled("entity", "list", "--limit", "1").json
    rest = filled("entity", "list", "--cursor", page["next"]).json
    assert [one["entities"][0]["name"] for one in (page, rest)] == ["Ana", "Deploy"]
    ran = filled("entity", "list", "--limit", "1", "--format", "text")
    assert "plait entity list --limit 1 --format text --cursor" in ran.err


def test_no_entities_is_an_answer(plait):
    plait("store", "a fact")
    ran = plait("entity", "list")
    assert (ran.code, ran.json["entities"]) == (3, [])
    assert "plait entity add NAME" in ran.err
    assert plait("entity", "list", "--cursor", "x").code == 3


def test_observations_are_added_and_taken_back(filled):
    ran = filled("entity", "observe", "Ana", "Likes tea", "Sings", "--format", "text")
    assert "already stored: text 1 of 2" in ran.err
    ran = filled("entity", "observe", "Ana", "Sings", "--origin", "agent")
    assert "recalled from this memory: text 1 of 1" in ran.err
    ran = filled("entity", "observe", "Ana", "--delete-observation", "Sings")
    assert ran.json["entities"][0]["observations"] == ["Likes tea", "Has a cat"]
    ran = filled("entity", "observe", "Ana", "--delete-observation", "Sings")
    assert (ran.code, "plait entity show Ana\n" in ran.err) == (3, True)
    twice = ("--delete-observation", "Likes tea", "--delete-observation", "Likes tea")
    assert filled("entity", "observe", "Ana", *twice).code == 0
    ran = filled("entity", "observe", "Bo", "--delete-observation", "Sings")
    assert (ran.code, "'Bo'" in ran.err) == (3, True)
    assert filled("entity", "observe", "Bo", "Sings").code == 3


def test_relations_are_made_ended_and_removed(filled):
    edge = ("Deploy", "needs", "Ana")
    period = ("--since", "2026-01-01", "--until", "2200-01-01")
    ran = filled("entity", "relate", *edge, *period, "--format", "text")
    assert ran.out.startswith("Related: Deploy -needs-> Ana (from 2026-01-01; until 2")
    assert filled("entity", "relate", "Ana", "approves", "Deploy").json["new"] is False
    assert filled("entity", "unrelate", "Ana", "approves", "Deploy", "--until", "1d").json == {
        "deleted": 1
    }
    assert filled("entity", "unrelate", "Ana", "approves", "Deploy").code == 3
    assert filled("entity", "relate", "Ana", "knows", "Bo").code == 3


def test_a_deleted_entity_comes_back(filled):
    ran = filled("entity", "delete", "Ana", "Bo")
    assert (ran.code, ran.json["deleted"], ran.json["not_found"]) == (3, ["Ana"], ["Bo"])
    assert "'Bo'" in ran.err
    assert filled("entity", "show", "Ana").code == 3
    assert filled("delete", "--undo").code == 0
    assert filled("entity", "show", "Ana").json["relations"]
    ran = filled("entity", "delete", "Ana", "--purge", "--format", "text")
    assert ran.out == "Purged 1 entity with 2 observations: Ana\n"
    assert filled("delete", "--undo").code == 3


@pytest.mark.parametrize(
    "words",
    [("show",), ("add",), ("observe",), ("relate", "a", "b"), ("unrelate", "a"), ("delete",)],
)
def test_an_act_without_its_names_says_how_it_is_called(plait, words):
    ran = plait("entity", *words)
    assert ran.code == 2
    assert f"plait entity {words[0]}" in ran.err


@pytest.mark.parametrize("act", ["show", "delete"])
def test_nothing_is_made_by_looking(plait, act):
    ran = plait("entity", act, "Ana")
    assert ran.code == 3
    assert plait("stats").json["doc_count"] == 0


# filters, timeline, export


def test_a_search_can_be_about_an_entity_or_a_topic(filled):
    filled("store", "Ana likes coffee", "--entity", "Ana", "--topic", "drink")
    hits = filled("search", "likes", "--entity", "Ana", "--mode", "keyword").json["results"]
    assert {hit["text"] for hit in hits} == {"Likes tea", "Ana likes coffee"}
    hits = filled("search", "likes", "--topic", "drink").json["results"]
    assert [hit["text"] for hit in hits] == ["Ana likes coffee"]
    assert filled("search", "likes", "--entity", "Nobody").code == 3


def test_the_timeline_shows_the_neighbours_of_an_anchor(plait):
    ids = [
        plait("store", f"Day {n}", "--event-at", f"2026-01-0{n}", "--type", "fact").json["id"]
        for n in range(1, 8)
    ]
    page = plait("timeline", "--anchor", ids[3], "--older", "2", "--newer", "1").json
    assert [row["summary"] for row in page["results"]] == ["Day 5", "Day 4", "Day 3", "Day 2"]
    assert page["next"] is None
    assert {"id", "created_at", "type", "tags", "summary"} <= page["results"][0].keys()
    assert len(plait("timeline", "--anchor", ids[0], "--older", "0").json["results"]) == 6
    assert plait("timeline", "--anchor", ids[0], "--older", "-1").code == 2
    assert plait("timeline", "--anchor", "zzzzzzzz").code == 3


def test_entities_are_no_events(filled):
    assert {row["kind"] for row in filled("timeline").json["results"]} == {"observation"}
    assert len(filled("timeline", "--kind", "entity").json["results"]) == 2


def test_the_graph_travels_as_the_reference_servers_file(filled, tmp_path):
    target = tmp_path / "memory.jsonl"
    assert filled("export", "--graph", str(target)).json["lines"] == 3
    lines = [json.loads(line) for line in target.read_text(encoding="utf-8").splitlines()]
    assert [line["type"] for line in lines] == ["entity", "entity", "relation"]
    target.write_text(
        target.read_text(encoding="utf-8") + '{"type":"entity","name":"Bo","mood":"fine"}\n',
        encoding="utf-8",
    )
    ran = filled("import", str(target), "--db", str(tmp_path / "other.db"))
    assert (ran.json["added"], ran.json["relations"], ran.json["unknown"]) == (3, 1, ["mood"])
    assert "ignored: mood" in ran.err
    ran = filled("import", str(target), "--format", "text")
    assert ran.out == "Imported 1 document; 2 kept\n"
    assert filled("export", "--graph", "--tag", "x").code == 2


def test_an_export_counts_documents_not_relations(filled, tmp_path):
    target = tmp_path / "all.jsonl"
    assert filled("export", str(target)).json["documents"] == 4
    ran = filled("import", str(target), "--db", str(tmp_path / "other.db"), "--format", "text")
    assert ran.out == "Imported 4 documents; 1 relation\n"
