"""A misspelt word is searched as one that the memory holds, and only as one that may be seen."""

import json
from typing import cast

import pytest

from plait.cli import main
from plait.errors import StoreDamaged
from plait.memory import Memory
from plait.searching import dividing, spelling
from plait.stores.sqlite.keyword import KeywordSearch
from plait.stores.sqlite.store import SQLiteStore
from plait.text import MAX_QUERY_BYTES, words_in
from plait.types import Document, Filter
from tests.mcp.talk import call, text_of
from tests.mcp.test_outside_the_fence import outside

CERTIFICATE = "Renew the certificate of the mail server in spring."
OTHERS = (
    "The harbour opens at seven.",
    "Deploy the website on Fridays.",
    "Invoices are sent by the office.",
    "Backups of the database run at night.",
)


@pytest.fixture
def memory(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as opened:
        for text in (CERTIFICATE, *OTHERS):
            opened.store(text)
        yield opened


def corrections(answer):
    return answer.receipt.corrections


@pytest.mark.parametrize(
    ("query", "typed", "meant", "begins"),
    [
        ("certifcate", "certifcate", "certificate", "Renew"),
        ("xertificate of mail", "xertificate", "certificate", "Renew"),
        ("ecrtificate mail", "ecrtificate", "certificate", "Renew"),
        ("certificaet mail", "certificaet", "certificate", "Renew"),
        ("Certifficate renewal", "certifficate", "certificate", "Renew"),
        ("harbuor", "harbuor", "harbour", "The harbour"),
        ("databse night", "databse", "database", "Backups"),
        ("websitee", "websitee", "website", "Deploy"),
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_a_slip_anywhere_in_a_word_is_corrected(memory, query, typed, meant, begins, mode):
    answer = memory.search(query, mode=mode)
    assert corrections(answer) == ((typed, meant),)
    assert answer[0].text.startswith(begins)
    assert answer.receipt.query == query
    assert answer.receipt.degraded == ()


@pytest.mark.parametrize(
    ("text", "query", "meant"),
    [
        ("Testing of the parser.", "parser tesitng", "testing"),  # the stem has four letters
        ("Pruning of a session.", "session prnuing", "pruning"),  # the stem has an "e"
        ("Logging to the console.", "console lgoging", "logging"),  # and one "g"
        ("Log of the console.", "console lgoging", "log"),  # another form has the stem
        ("Agents of the broker.", "broker agnts", "agents"),
        ("PostgreSQL needs an index.", "PostgerSQL index", "postgresql"),
        ("Guidelines for releases.", "releases guideliness", "guidelines"),  # no plural
    ],
)
def test_inflected_words_and_names_are_corrected_too(memory, text, query, meant):
    memory.store(text)
    answer = memory.search(query, mode="keyword")
    assert [searched for _, searched in corrections(answer)] == [meant]
    assert answer[0].text == text


@pytest.mark.parametrize("beside", ["", " steps", " plan for the team"])
def test_a_word_that_often_stands_beside_a_misspelt_one_is_company_although_it_is_common(
    memory, beside
):
    """Other words of the question, which no passage has beside it, do not switch that off."""
    subjects = (
        *(f"Kubernetes upgrade, part {number}: drain node {number} first." for number in range(25)),
        *(f"Steps {number}: plan the week of team {number}." for number in range(75)),
        *(f"Lunch {number} is at noon in room {number}." for number in range(75)),
    )
    memory.store_many(Document(key=f"{n}", text=text) for n, text in enumerate(subjects))
    answer = memory.search(f"kubernetes upgade{beside}")
    assert corrections(answer) == (("upgade", "upgrade"),)
    assert answer[0].text.startswith("Kubernetes upgrade")


def test_a_common_word_that_stands_beside_it_by_chance_is_no_company(memory):
    subjects = ["upgrade" if number % 5 == 0 else "garden" for number in range(60)]
    texts = [f"Notes {n} of the office about the {word}." for n, word in enumerate(subjects)]
    texts += [f"The office has a plan {number} for lunch." for number in range(60)]
    memory.store_many(Document(key=f"{n}", text=text) for n, text in enumerate(texts))
    assert corrections(memory.search("office opgrate plan")) == ()


def test_a_rare_neighbour_does_not_hide_a_likelier_one_with_other_first_letters(memory):
    memory.store("A recap of the year.")
    memory.store("React renders the form.")
    assert corrections(memory.search("form recat")) == (("recat", "react"),)


def test_the_word_that_stands_beside_the_others_is_preferred_to_a_nearer_one(memory):
    for number in range(9):
        memory.store(f"Chats of day {number}.")
    memory.store("Charts in the quarterly report.")
    memory.store("The quarterly report is late.")
    assert corrections(memory.search("quarterly chatts")) == (("chatts", "charts"),)


def test_two_misspelt_words_are_corrected_each(memory):
    answer = memory.search("certifcate of the mial sevrer")
    assert dict(corrections(answer))["certifcate"] == "certificate"
    assert dict(corrections(answer))["sevrer"] == "server"
    assert answer[0].text == CERTIFICATE


def test_a_corrected_word_is_weaker_evidence_than_the_word(memory):
    right = memory.search("certificate", mode="keyword")[0]
    wrong = memory.search("certifcate", mode="keyword")[0]
    assert wrong.signals.coverage == pytest.approx(
        spelling.CERTAINTY * right.signals.coverage, abs=0.1
    )
    assert wrong.relevance < right.relevance
    assert wrong.signals.matched == ("certificate",)


@pytest.mark.parametrize(
    "query",
    [
        "pregnancy",  # English, but of another subject
        "serv3r",
        "CERTIF database",
        "serverMail",
        "mal",
        "\u8bc1\u4e66",
        '"certifcate"',
        "certifcate*",
    ],
)
def test_other_words_abbreviations_and_operators_are_left_alone(memory, query):
    assert corrections(memory.search(query)) == ()


def test_known_words_cost_no_query(memory, monkeypatch):
    def refuse(*_):
        raise AssertionError("looked for other spellings")

    monkeypatch.setattr(spelling, "corrected", refuse)
    assert memory.search("renew the certificate")
    with pytest.raises(AssertionError, match="looked for"):
        memory.search("certifcate")


@pytest.mark.parametrize(
    ("text", "query", "meant"),
    [
        ("Обнови сертификат почты.", "сертфикат", "сертификат"),
        ("Der Schlüsselbund liegt im Tresor.", "Schlüselbund", "schlüsselbund"),
        ("Der Schlüsselbund liegt im Tresor.", "Schluesselbund", "schlüsselbund"),
        ("Yazıcı kağıdı bitti.", "kağdıdı", "kağıdı"),
    ],
)
def test_other_alphabets_and_missing_marks_work_alike(memory, text, query, meant):
    memory.store(text)
    answer = memory.search(query, mode="keyword")
    assert [searched for _, searched in corrections(answer)] == [meant]
    assert answer[0].text == text


# -- questions in another language ---------------------------------------------------------

ENGLISH = (
    "The parliament of Scotland meets in one hall, and the coal trade began there.",
    "Silt and sand settle where the grand canal meets the sea.",
    "The state and the president began to run the national railway.",
)


@pytest.mark.parametrize(
    ("query", "misspelt"),
    [
        ("Wie viele Kinder gilt ohne Grund", ()),
        ("Welche Stadt begann ohne Namen mit dem Parlament", (("parlament", "parliament"),)),
        ("Cu\u00e1l es el nombre de la ciudad en el mundo", ()),
        ("Cu\u00e1l", ()),  # one word, with a mark that no hand adds
        ("seg\u00fan la ciudad del trade", ()),
        ("Wie viele Kinder gilt es in der Stadt ohne Grund", ()),  # "in" is English, too
    ],
)
def test_right_words_of_another_language_are_no_misspelt_english(tmp_path, query, misspelt):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for text in ENGLISH:
            memory.store(text)
        assert corrections(memory.search(query, mode="keyword")) == misspelt


def test_of_a_pasted_text_only_what_is_searched_is_looked_through(tmp_path, monkeypatch):
    lengths = []

    def counted(text):
        lengths.append(len(text))
        return words_in(text)

    for module in (spelling, dividing):
        monkeypatch.setattr(module, "words_in", counted)
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store("The president signs with a pen.")
        pasted = memory.search("pressident " + "and so on " * 10_000)
    assert corrections(pasted) == (("pressident", "president"),)
    assert 0 < max(lengths) <= MAX_QUERY_BYTES


@pytest.mark.parametrize("query", ["president gegen wind", "gegen", "Wann gegen president"])
def test_a_little_word_of_another_language_is_right_wherever_it_stands(tmp_path, query):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for text in (*ENGLISH, "The president says gehen for to go, with the wind."):
            memory.store(text)
        assert corrections(memory.search(query)) == ()


@pytest.mark.parametrize(
    "query",
    [
        "presidnet of the state",
        "hospital pregnancy and the presidnet of the state",  # English, right, and not here
        "presidnet staet railwya naitonal",  # each word misspelt
        "hospital presidnet railwya",
    ],
)
def test_english_with_many_unknown_words_is_still_corrected(tmp_path, query):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for text in ENGLISH:
            memory.store(text)
        assert ("presidnet", "president") in corrections(memory.search(query))


@pytest.mark.parametrize(
    "query",
    [
        "railwya national redis nginx",  # one keyword is in the notes
        "kubernetes railwya docker",  # none is
        "railwya ssh login",
        "railwya redis nginx dashboard",
        "der mit redis nginx railwya",  # a format of keys, and a licence
    ],
)
def test_keywords_that_the_notes_lack_are_no_other_language(tmp_path, query):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for text in ENGLISH:
            memory.store(text)
        assert corrections(memory.search(query)) == (("railwya", "railway"),)


GERMAN = (
    "Der Schrank mit den Gl\u00e4sern steht in der K\u00fcche.",
    "Die Lampe im Flur ist kaputt und wird ersetzt.",
    "Das Paket liegt bei dem Nachbarn.",
)


@pytest.mark.parametrize(
    "query", ["Wie viele Kinder und der Schrnak", "viele Kinder bei der Stadt und Schrnak"]
)
def test_a_question_in_the_language_of_the_notes_is_not_foreign(tmp_path, query):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for text in GERMAN:
            memory.store(text)
        assert corrections(memory.search(query)) == (("schrnak", "schrank"),)
    with Memory.open(tmp_path / "english.db", project="") as memory:
        for text in (*ENGLISH, "The Schrank family left the state."):
            memory.store(text)
        assert corrections(memory.search(query)) == ()


# -- words in quotes -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        'when is the "certifcate" of the mail server renewed',
        'mail server "certifcate renewal"',
        "the mail server's \u201ccertifcate\u201d",
        "mail \u00bbcertifcate of\u00ab server",
        "mail server\u201ecertifcate\u201c renewed",
        'is the mail server "certifcate", or not?',
    ],
)
def test_a_word_in_quotes_among_words_is_meant_as_written(memory, query):
    assert corrections(memory.search(query)) == ()


@pytest.mark.parametrize(
    "query",
    [
        'the "mail server" certifcate',
        'disks of 12" for the certifcate of the 14" mail server',
        'the certifcate of the "mail server',
        "the **certifcate** of the mail server",
    ],
)
def test_a_word_outside_of_quotes_is_corrected(memory, query):
    assert corrections(memory.search(query)) == (("certifcate", "certificate"),)


# -- words after operators -----------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "certifcate AND mail",
        "certifcate AND harbour AND mail",
        '+"mail harbour" certifcate',
        "NEAR(certifcate mail)",
        "(certifcate OR zebra) AND (harbour OR mail)",
        "certifcate NOT harbour",
    ],
)
@pytest.mark.parametrize("mode", ["hybrid", "keyword"])
def test_words_that_follow_operators_are_corrected(memory, query, mode):
    answer = memory.search(query, mode=mode)
    assert corrections(answer) == (("certifcate", "certificate"),)
    assert CERTIFICATE in [hit.text for hit in answer]
    assert answer.receipt.query == query


def test_what_not_excludes_stays_out_when_words_are_corrected(memory):
    memory.store("The certificate of the harbour.")
    answer = memory.search("certifcate NOT harbour")
    assert corrections(answer) == (("certifcate", "certificate"),)
    assert all("harbour" not in hit.text for hit in answer)


@pytest.mark.parametrize(
    "query",
    [
        '"certifcate" AND mail',
        '+"certifcate mail" harbour',
        "\u201ccertifcate mail\u201d AND harbour",
        '+"certifcate of mail" AND harbour',
        "certifcate* AND harbour",
        "(mail AND certifcate*)",
        "mail NOT certifcate",
        "CERTIF AND harbour",
    ],
)
def test_phrases_beginnings_and_exclusions_are_never_corrected(memory, query):
    assert corrections(memory.search(query)) == ()


@pytest.mark.parametrize(
    "query", ["certifcate", "certifcate AND mail", "certifcate mail", '"mail server" certifcate']
)
def test_a_strict_search_looks_for_what_is_written(memory, query):
    assert corrections(memory.search(query, strict=True)) == ()
    assert corrections(memory.search(query)) == (("certifcate", "certificate"),)


def test_an_expression_that_matches_enough_is_not_corrected(memory):
    for number in range(3):
        memory.store(f"The harbour master {number} has a mail box.")
    answer = memory.search("(harbour AND mail) OR certifcate")
    assert len(answer) >= 3
    assert corrections(answer) == ()


# -- what may be seen ----------------------------------------------------------------------


def suggested(memory, **options):
    """The words that are searched for instead of a misspelt one, alone and beside others."""
    queries = ("certifcate", "certifcate mail", "certifcate of the mail server")
    return {pair for text in queries for pair in corrections(memory.search(text, **options))}


def test_another_user_s_word_is_never_suggested(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        ana, ben = memory.scope("user:ana"), memory.scope("user:ben")
        ana.store(CERTIFICATE)
        ben.store("The mail server is in the cellar.")
        assert corrections(ana.search("certifcate mail")) == (("certifcate", "certificate"),)
        assert suggested(ben) == set()
        assert ben.recall("certifcate").receipt.corrections == ()


def test_what_a_user_gets_does_not_depend_on_the_words_of_others(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        ana, ben = memory.scope("user:ana"), memory.scope("user:ben")
        ben.store("The marble fountain stands in the court.")
        queries = ("fountian", "fountian court")
        alone = [ben.search(query) for query in queries]
        assert [corrections(answer) for answer in alone] == [(("fountian", "fountain"),)] * 2
        # Many words that are nearer, and more common: all of them hidden.
        near = ["fountiam", "fountiaan", "founttian", "fontian", "fountiaz", "founmtian"]
        for number in range(3):
            ana.store(f"{' '.join(near)} court {number}")
        crowded = [ben.search(query) for query in queries]
        assert list(map(corrections, crowded)) == list(map(corrections, alone))
        relevances = [[hit.relevance for hit in answer] for answer in (*alone, *crowded)]
        assert relevances[:2] == relevances[2:]


def store_elsewhere(memory, text):
    with Memory.open(memory._required().path, project="theirs") as theirs:
        theirs.store(text)


def hidden(memory, where):
    """Store a misspelt word out of sight, and return who searches and how."""
    text = "The certifcate of the mail server lies in a drawer."
    if where == "another project":
        store_elsewhere(memory, text)
        return memory, {}
    if where == "another user":
        memory.scope("user:ana").store(text)
        ben = memory.scope("user:ben")
        ben.store(CERTIFICATE)
        return ben, {}
    if where == "a user, from outside":
        memory.scope("user:ana").store(text)
        return memory, {"all_projects": True}
    if where == "quarantine":
        memory.store(text, trust="quarantined")
        return memory, {}
    if where == "quarantine of the same user":
        ben = memory.scope("user:ben")
        ben.store(CERTIFICATE)
        ben.store(text, trust="quarantined")
        return ben, {}
    if where == "untrusted text":
        memory.store(text, trust="untrusted")
        return memory, {"where": Filter(trusts=("trusted",))}
    old = memory.store(text)
    memory.store("The mail server is in the cellar.", supersedes=old.id)
    return memory, {}


HIDDEN = (
    "another project",
    "another user",
    "a user, from outside",
    "quarantine",
    "quarantine of the same user",
    "untrusted text",
    "a replaced fact",
)


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("where", HIDDEN)
def test_a_misspelt_word_out_of_sight_switches_no_correction_off(tmp_path, where, listed):
    with Memory.open(tmp_path / "memory.db", project="ours") as memory:
        memory.store(CERTIFICATE)
        searched, options = hidden(memory, where)
        if not listed:  # as in a memory with more passages in sight than are listed
            selections = cast(SQLiteStore, memory._required()).selections
            selections.listed = selections.short = selections.share = 0
        for query in ("certifcate", "certifcate of the mail server", "certifcate AND mail"):
            answer = searched.search(query, **options)
            assert corrections(answer) == (("certifcate", "certificate"),)
            assert answer[0].text == CERTIFICATE


def test_a_misspelt_word_in_sight_is_a_word(memory):
    memory.store("The certifcate of the mail server lies in a drawer.")
    store_elsewhere(memory, "Of no matter here.")
    answer = memory.search("certifcate of the mail server")
    assert corrections(answer) == ()
    assert answer[0].text.startswith("The certifcate")


@pytest.mark.parametrize(
    "filters",
    [
        {"tags": ("work",)},
        {"kinds": ("observation",)},
        {"session": "s1"},
        {"since": 1_700_000_000_000},
        {"until": 1_900_000_000_000, "since": 1_700_000_000_000},
        {"keys": ("budget",)},
        {"key_prefix": "bud"},
        {"metadata": (("room", "2"),)},
        {"pinned": True},
        {"named": ("budget",)},
        {"mentions": ("budget",)},
    ],
)
def test_a_stored_name_is_a_word_whatever_the_search_is_narrowed_to(tmp_path, filters):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        home = Document(
            text="Meeting with Lorena about the lease.",
            kind="note",
            event_at=1_600_000_000_000,
            tags=("home",),
        )
        work = Document(
            text="Call Lorens about the new budget.",
            kind="observation",
            key="budget",
            tags=("work",),
            session="s1",
            event_at=1_800_000_000_000,
            metadata={"room": "2"},
            pinned=True,
        )
        list(memory.store_many([home, work]))
        assert len(memory.search("*", where=Filter(**filters))) == 1
        for query in ("Lorena", "Lorena AND lease", "Lorena about the budget"):
            assert corrections(memory.search(query, where=Filter(**filters))) == ()
        # Whoever narrows a search to one note still mistypes its words.
        answer = memory.search("Lorenz budget", where=Filter(**filters))
        assert corrections(answer) == (("lorenz", "lorens"),)


def test_how_many_passages_out_of_sight_are_looked_up_changes_no_relevance(tmp_path, monkeypatch):
    with Memory.open(tmp_path / "memory.db", project="ours") as memory:
        memory.store("The gateway listens on 8443.")
        for number in range(8):
            memory.store(f"Something else, number {number}.")
            store_elsewhere(memory, f"The zanzibar cluster {number}.")
        [looked_up, *_] = memory.search("zanzibar gateway")
        monkeypatch.setattr("plait.types.queries.FEW_PASSAGES", 1)
        [counted, *_] = memory.search("zanzibar gateway")
        assert looked_up.relevance == counted.relevance
        assert looked_up.signals == counted.signals


def test_an_inflected_word_in_sight_is_no_misspelt_one(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="ours") as memory:
        store_elsewhere(memory, "Читай книгами по вечерам.")
        memory.store("Купи новые книги для школы.")
        assert corrections(memory.search("новыми книгами")) == ()


def test_words_of_many_passages_cost_no_query(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("looked for passages in sight")

    monkeypatch.setattr(KeywordSearch, "unseen", refuse)
    with Memory.open(tmp_path / "memory.db", project="ours") as memory:
        memory.store(CERTIFICATE)
        store_elsewhere(memory, CERTIFICATE)
        with pytest.raises(AssertionError, match="in sight"):
            memory.search("renew the certificate")
        monkeypatch.setattr("plait.types.queries.FEW_PASSAGES", 1)
        assert memory.search("renew the certificate")


def test_a_word_of_another_project_is_not_suggested(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="theirs") as memory:
        memory.store(CERTIFICATE)
    with Memory.open(tmp_path / "memory.db", project="ours") as memory:
        memory.store("The mail server is in the cellar.")
        assert suggested(memory) == set()
        everywhere = memory.search("certifcate mail", all_projects=True)
        assert corrections(everywhere) == (("certifcate", "certificate"),)


@pytest.mark.parametrize("filters", [{"tags": ("hers",)}, {"kinds": ("file",)}])
def test_a_filter_limits_what_is_suggested(tmp_path, filters):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store(CERTIFICATE, tags=("his",))
        memory.store("The mail server is in the cellar.", tags=("hers",))
        assert suggested(memory, where=Filter(**filters)) == set()


def test_a_quarantined_word_is_not_suggested(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store(CERTIFICATE, trust="quarantined")
        memory.store("The mail server is in the cellar.")
        assert suggested(memory) == set()


@pytest.mark.parametrize("purge", [False, True])
def test_a_deleted_word_is_not_suggested(memory, purge):
    [hit] = [hit for hit in memory.search("certificate") if hit.text == CERTIFICATE]
    memory.delete(hit.document.id, purge=purge)
    assert suggested(memory) == set()


def test_a_replaced_fact_s_word_is_not_suggested(tmp_path):
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        old = memory.store(CERTIFICATE)
        memory.store("The mail server is in the cellar.", supersedes=old.id)
        assert suggested(memory) == set()


def test_a_search_in_a_damaged_index_still_answers(memory, monkeypatch):
    def fail(*_):
        raise StoreDamaged("The index is damaged.")

    monkeypatch.setattr(type(memory._required()), "alike", fail)
    assert corrections(memory.search("certifcate of the mail server")) == ()


# -- how it is shown -----------------------------------------------------------------------


def test_the_command_line_tells_in_one_line_and_in_json(memory, tmp_path, capsys):
    database = str(tmp_path / "memory.db")
    assert main(["--db", database, "--project", "personal", "search", "certifcate"]) == 0
    shown = capsys.readouterr()
    assert "Searched for 'certificate' instead of 'certifcate'." in shown.err
    assert main(["--db", database, "--project", "personal", "search", "certifcate", "--json"]) == 0
    receipt = json.loads(capsys.readouterr().out)["receipt"]
    assert receipt["corrections"] == [{"typed": "certifcate", "searched": "certificate"}]
    assert main(["--db", database, "--project", "personal", "recall", "certifcate"]) == 0
    assert "'certificate'" in capsys.readouterr().err


@pytest.mark.parametrize("tool", ["memory_search", "memory_recall"])
def test_models_are_told_in_text_and_in_data(memory, tool):
    result = call(memory, tool, {"query": "certifcate"})
    assert "Searched for 'certificate' instead of 'certifcate'." in text_of(result)
    # The word is out of a stored text: outside of the fences nothing stored is told.
    assert "certificate" not in outside(text_of(result))
    told = result.structured_content["corrections"]
    assert told == [{"typed": "certifcate", "searched": "certificate"}]
    assert "corrections" not in call(memory, tool, {"query": "certificate"}).structured_content


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("passwort", "password"),  # and no passport
        ("Wo ist mein Passwort?", "password"),
        ("pasport", "passport"),
    ],
)
def test_of_words_that_are_as_near_the_one_with_the_same_beginning_is_meant(
    asked: str, meant: str
) -> None:
    with Memory.open(":memory:", project="") as memory:
        memory.store("The restic password is in the sealed envelope.")
        memory.store("Renew the passport before March.")
        for number in range(12):
            memory.store(f"Train number {number} leaves from platform {number * 7}.")
        answer = memory.search(asked)
        assert [to for _, to in answer.receipt.corrections] == [meant]
        assert meant in answer[0].text
