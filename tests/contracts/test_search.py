"""Keyword search: what matches, what ranks first, and what a candidate for ranking brings along."""

import time

import pytest

from plait.embedders.none import NoEmbedder
from plait.errors import DeadlineExceeded
from plait.protocols import Store
from plait.searching.scoring import Request
from plait.searching.search import search
from plait.text import REPEATED_NAME_CHARS, parse
from plait.types import Filter
from plait.types.queries import Group, Query, Term
from tests.builders import (
    EVERYTHING,
    by_keyword,
    by_vector,
    delete,
    entry,
    is_sound,
    passages_of,
    refs_of,
    vector,
    write,
)

X = vector(1, 0, 0, 0)


def test_keyword_hits_come_best_first_with_positive_scores(store: Store) -> None:
    write(
        store,
        entry("twice", "apple apple"),
        entry("once", "apple and a great many other words that dilute it"),
        entry("none", "banana"),
        *[entry(f"filler {n}", "nothing of the kind") for n in range(8)],
    )
    hits = store.keyword(parse("apple"), 10, EVERYTHING)
    assert by_keyword(store, "apple") == ["twice", "once"]
    assert hits[0][1] > hits[1][1] > 0.0


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        ("apple banana", ["a", "ab", "b"]),
        ("apple AND banana", ["ab"]),
        ("apple NOT banana", ["a"]),
        ('"banana apple"', ["ab"]),
        ('"apple banana"', []),
        ("appl*", ["a", "ab"]),
        ("NEAR(banana apple, 3)", ["ab"]),
        ("apples", ["a", "ab"]),
        ("cherry", []),
        ("???", []),
    ],
)
def test_words_are_joined_by_or_and_operators_are_followed(
    store: Store, words: str, keys: list[str]
) -> None:
    write(store, entry("a", "apple"), entry("b", "banana"), entry("ab", "banana apple"))
    assert sorted(by_keyword(store, words)) == keys


def test_a_title_counts_more_than_a_heading_or_the_text(store: Store) -> None:
    write(
        store,
        entry("text", "apple pie recipe", title="one two three"),
        entry("title", "one two three", title="apple pie recipe"),
        *[entry(f"{n}", "other words here", title="a b c") for n in range(6)],
    )
    assert by_keyword(store, "apple") == ["title", "text"]


def test_words_of_any_script_are_found(store: Store) -> None:
    write(store, entry("ja", "東京の水温は低い"), entry("de", "Über die Brücke"))
    assert by_keyword(store, "水温") == ["ja"]
    assert by_keyword(store, "水") == ["ja"], "one character is the beginning of a word"
    assert by_keyword(store, "uber brucke") == ["de"]


def test_an_empty_query_finds_nothing(store: Store) -> None:
    write(store, entry("a", "apple"))
    assert store.keyword(Query("", ()), 10, EVERYTHING) == []


def test_an_expression_may_come_without_words(store: Store) -> None:
    write(store, entry("a", "apple"), entry("b", "banana"))
    either = Group("or", (Term(("apple",)), Term(("pear",))))
    assert len(store.keyword(Query("", (), either), 10, EVERYTHING)) == 1


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_both_branches_keep_to_the_limit(store: Store, limit: int) -> None:
    write(store, *[entry(f"{n}", f"apple {n}", vectors=[X]) for n in range(3)])
    assert len(by_keyword(store, "apple", limit)) == min(3, limit)
    assert len(by_vector(store, 1, 0, 0, 0, limit=limit)) == min(3, limit)


def test_equal_hits_come_as_they_were_written(store: Store) -> None:
    keys = [f"{n}" for n in range(12)]
    for key in keys:
        write(store, entry(key, "apple", vectors=[X]))
    assert by_keyword(store, "apple", 20) == keys
    assert by_vector(store, 1, 0, 0, 0, limit=20) == keys


def test_a_query_that_runs_past_its_deadline_is_stopped(store: Store) -> None:
    write(store, *[entry(f"{n}", "apple " * 40) for n in range(300)])
    with pytest.raises(DeadlineExceeded):
        store.keyword(parse("apple pear"), 10, EVERYTHING, deadline=time.monotonic() - 1.0)
    assert len(store.keyword(parse("apple"), 10, EVERYTHING, deadline=time.monotonic() + 60)) == 10


def test_rebuilding_the_keyword_index_changes_no_answer(store: Store) -> None:
    write(store, *[entry(f"{n}", f"apple {n} 日本語", title=f"t{n}") for n in range(5)])
    delete(store, "2")
    before = store.keyword(parse("apple"), 10, EVERYTHING)
    store.tidy(keywords=True)
    assert store.keyword(parse("apple"), 10, EVERYTHING) == before
    assert len(by_keyword(store, "日本")) == 4
    assert is_sound(store)


# vocabulary


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Running DEPLOYS", ["run", "deploi"]),
        ("naïve Über", ["naiv", "uber"]),
        ("日本語 ok", ["日本", "本語", "ok"]),
        ("— fox! —", ["fox"]),
        ("", []),
    ],
)
def test_words_are_read_as_the_index_reads_them_with_their_places(
    store: Store, text: str, terms: list[str]
) -> None:
    tokens = store.vocabulary([text]).terms[text]
    assert [term for _, _, term in tokens] == terms
    assert all(0 <= start < end <= len(text) for start, end, _ in tokens)
    assert all(text[start:end].strip() == text[start:end] for start, end, _ in tokens)


def test_of_words_with_one_term_the_prefix_is_counted_on_every_engine(store: Store) -> None:
    write(store, entry("a", "the region"), entry("b", "a register"), entry("c", "книга"))
    words = ["книгами", "regi", "reginess"]
    known = store.vocabulary(words, prefixes=["regi"])
    assert [known.terms[word][0][2] for word in words] == ["книгами", "regi", "regi"]
    assert known.holding == {"книгами": 1, "regi": 2}


def test_a_vocabulary_counts_passages_not_occurrences(store: Store) -> None:
    write(store, entry("a", "apple apple ", "apple", "pear"), entry("b", "plum", title="pear"))
    words = store.vocabulary(["apple pear", "cherry"])
    counts = [words.holding[term] for _, _, term in words.terms["apple pear"]]
    assert (words.passages, counts) == (4, [2, 2])
    assert [words.holding[term] for _, _, term in words.terms["cherry"]] == [0]


# hydrate


def test_a_passage_brings_its_document_without_the_text(store: Store) -> None:
    write(store, entry("k", "one ", "two", title="T"))
    first, second = passages_of(store, "k")
    rows = store.hydrate([second.ref, first.ref, 424_242])
    assert {ref: (row.passage.text, row.document.title) for ref, row in rows.items()} == {
        first.ref: ("one ", "T"),
        second.ref: ("two", "T"),
    }
    assert rows[first.ref].passage == first
    assert {row.document.text for row in rows.values()} == {""}
    assert {row[2:] for row in rows.values()} == {((), frozenset(), None, None, None)}
    assert store.hydrate([]) == store.hydrate([], ranking=True) == {}


def test_ranking_gets_tokens_names_use_and_successor_in_one_call(store: Store) -> None:
    write(
        store,
        entry("old", "Running apples", title="Deploys", heading="Keys", tags=("red",), valid_to=5),
    )
    old_id = store.find("old", EVERYTHING)[0][0].id
    [new] = write(store, entry("new", "pears", supersedes=old_id, valid_from=5))
    old, other = refs_of(store, "old", "new")
    with store.transaction() as tx:
        tx.touch([[old, other], [old]])
    rows = store.hydrate([old, other], ranking=True)
    assert [term for _, _, term in rows[old].tokens] == ["run", "appl"]
    assert rows[old].tokens[1][:2] == (8, 14)
    assert rows[old].name_terms == {"deploi", "kei", "red"}
    assert rows[old].superseded_by == new.id
    assert rows[other].superseded_by is None
    use = rows[old].use
    assert use is not None
    assert (use.reads, use.days, list(use.together)) == (2, 1, [other])
    alone = store.hydrate([other], ranking=True)[other].use
    assert alone is not None
    assert (alone.reads, dict(alone.together)) == (1, {}), "only company among those asked for"


def test_a_filter_is_applied_before_the_limit(store: Store) -> None:
    loud = [entry(f"{n}", "apple apple", vectors=[X], project="loud") for n in range(30)]
    weak = entry("mine", "apple among words", vectors=[vector(1, 1, 1, 1)], project="quiet")
    write(store, *loud, weak)
    where = Filter(projects=("quiet",))
    assert by_keyword(store, "apple", 1, where) == ["mine"]
    assert by_vector(store, 1, 0, 0, 0, limit=1, where=where) == ["mine"]


def test_every_passage_repeats_the_beginning_of_long_names_and_the_first_all_of_it(
    store: Store,
) -> None:
    short = tuple(f"short{number}" for number in range(20))
    long = tuple(f"tag{number}" for number in range(REPEATED_NAME_CHARS))
    write(
        store,
        entry("short", "one ", "two ", "three", title="Harbour", tags=short),
        entry("long", "one ", "two ", "three", title="Harbour", tags=long),
        entry("title", "one ", "two ", "three", title=f"Lighthouse {' '.join(long)}"),
    )

    def passages(word: str, where: Filter = EVERYTHING) -> list[tuple[str | None, int]]:
        refs = [ref for ref, _ in store.keyword(parse(word), 20, where)]
        rows = store.hydrate(refs, ranking=True).values()
        return sorted((row.document.key, row.passage.ordinal) for row in rows)

    every = [0, 1, 2]
    assert passages("harbour") == [(key, place) for key in ("long", "short") for place in every]
    assert passages("short19") == [("short", place) for place in every]
    assert passages("lighthouse") == [("title", place) for place in every]
    last = long[-1]
    assert passages(last) == [("long", 0), ("title", 0)]
    assert passages("three", Filter(tags=(last,))) == [("long", 2)], "filters see every tag"
    refs = [passage.ref for passage in passages_of(store, "long")]
    known = store.hydrate(refs, ranking=True)
    first, second = known[refs[0]], known[refs[1]]
    assert (last in first.name_terms, last in second.name_terms) == (True, False)
    assert "tag0" in second.name_terms


def test_long_names_follow_their_passages(store: Store) -> None:
    long = tuple(f"tag{number}" for number in range(REPEATED_NAME_CHARS))
    write(store, entry("k", "one ", "two", tags=long))
    write(store, entry("k", "new ", "one ", "two", tags=long))
    refs = [ref for ref, _ in store.keyword(parse(long[-1]), 20, EVERYTHING)]
    assert [row.passage.text for row in store.hydrate(refs).values()] == ["new "]
    with store.transaction() as tx:
        tx.amend(store.find("k", EVERYTHING)[0][0].id, tags=("brief",))
    assert by_keyword(store, long[-1]) == []
    assert len(store.keyword(parse("brief"), 20, EVERYTHING)) == 3
    assert is_sound(store)


# words that no passage in sight contains


@pytest.mark.parametrize(
    ("where", "unseen"),
    [
        (EVERYTHING, {"fig"}),
        (Filter(projects=("ours",)), {"fig", "pear", "\u043a\u043d\u0438\u0433\u0430\u043c\u0438"}),
        (Filter(projects=("theirs",)), {"fig", "apple"}),
        (
            Filter(projects=("nobody",)),
            {"fig", "pear", "apple", "\u043a\u043d\u0438\u0433\u0430\u043c\u0438"},
        ),
    ],
)
def test_words_that_only_hidden_passages_contain_are_unseen(
    store: Store, where: Filter, unseen: set[str]
) -> None:
    write(
        store,
        entry("a", "apple", project="ours"),
        entry("b", "pear", project="theirs"),
        entry("c", "\u043a\u043d\u0438\u0433\u0430\u0445", project="theirs"),
    )
    words = ["apple", "pear", "fig", "\u043a\u043d\u0438\u0433\u0430\u043c\u0438"]
    known = store.vocabulary(words, seen_by=where)
    held_nowhere = {word for word in words if not known.holding[known.terms[word][0][2]]}
    assert known.unseen | held_nowhere == unseen
    # The counts weigh words, and do not depend on who may see them.
    assert known._replace(unseen=frozenset()) == store.vocabulary(words)


# words that are spelt alike


def test_similar_words_come_nearest_first_from_what_the_filter_selects(store: Store) -> None:
    write(
        store,
        entry("note", "Renew the certificate.", project="ours"),
        entry("other", "Certifcates of a certificate.", project="ours"),
        entry("theirs", "A certifiable certificat.", project="theirs"),
    )
    ours = store.alike(["certifcate", "ssh"], Filter(projects=("ours",)))
    assert ours["certifcate"][0].word in ("certificate", "certifcates")
    assert {row.word for row in ours["certifcate"]} <= {"certificate", "certifcates"}
    assert all(row.holding > 0 and row.cost > 0 for row in ours["certifcate"])
    costs = [row.cost for row in ours["certifcate"]]
    assert costs == sorted(costs)
    assert "ssh" not in ours
    assert store.alike(["certifcate"], Filter(projects=("nobody",))).get("certifcate", []) == []


@pytest.mark.parametrize("query", ["deploys", "payments", "identification bought"])
def test_other_forms_of_a_word_count_as_the_word(store: Store, query: str) -> None:
    write(
        store,
        entry("deploys", "a deployment runs"),
        entry("payments", "she pays in June", title="Invoice"),
        entry("identification bought", "we identified what to buy"),
        *[entry(f"filler {n}", "nothing of the kind") for n in range(8)],
    )
    answer = search(store, lambda _: NoEmbedder(), Request(query, mode="keyword"))
    [hit] = answer
    assert hit.document.doc_id == query
    assert hit.signals.coverage == 1.0
    assert len(hit.highlights) == len(hit.signals.matched) == len(query.split())


@pytest.mark.parametrize(
    ("project", "keys"), [("work", ["office"]), ("home", ["employers"]), ("away", [])]
)
def test_another_form_out_of_sight_is_not_known(
    store: Store, project: str, keys: list[str]
) -> None:
    write(
        store,
        entry("office", "The employment office.", project="work"),
        entry("employers", "Three employers.", project="home"),
        entry("plums", "Plums.", project="away"),
    )
    where = Filter(projects=(project,))
    answer = search(store, lambda _: NoEmbedder(), Request("employ", where=where))
    assert [hit.document.doc_id for hit in answer] == keys
