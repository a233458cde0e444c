"""What is found first, and when nothing is said: the parts of a search together, on real models."""

import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import apsw
import pytest

from plait.errors import UsageError
from plait.memory import Memory
from plait.stores import spelling
from plait.stores.sqlite import spelling as sqlite_spelling
from plait.types import Document, Filter
from plait.writing.chance import QUESTIONS
from tests.codes import has_code
from tests.interfaces.command import environment

SAMPLE = Path(__file__).parent.parent.parent / "examples" / "memory"
UTTERANCES = (
    "yes",
    "do it",
    "why",
    "ok",
    "thanks",
    "it does not work",
    "what should I do now",
    "can you help me with this",
    "tell me more",
    "C++",
)
_WORDS = """
rotate ssh keys server backup restore garden tomato water summer piano lesson deploy friday
rollback database index query vector keyword memory note agent coffee bread flour
"""
LOOKED_UP = ("Mara", "quiet hours", "certificate renewal", "rotate ssh keys", "who is on call")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    memory = Memory.open(tmp_path_factory.mktemp("finding") / "memory.db", project="")
    memory.ingest(SAMPLE)
    return memory


def keys(hits: object) -> list[str]:
    return [hit.doc_id for hit in hits]  # type: ignore[attr-defined]


# -- silence


@pytest.mark.parametrize("text", UTTERANCES)
def test_what_people_say_to_an_agent_all_day_recalls_nothing(sample: Memory, text: str) -> None:
    assert sample.recall(text).items == ()


@pytest.mark.parametrize("text", LOOKED_UP)
def test_a_word_that_is_looked_up_recalls_something(sample: Memory, text: str) -> None:
    assert sample.recall(text).items


def test_texts_that_are_not_trusted_do_not_decide_what_chance_is(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.ingest(SAMPLE)
        before = memory.recall("how do we rotate the ssh keys").items
        memory.store("\n\n".join(QUESTIONS), trust="quarantined", key="page")
        memory.reindex()
        sampled = memory.engine.state().chance
        assert sampled is not None
        assert sampled.cosine < 0.4
        after = memory.recall("how do we rotate the ssh keys").items
        assert [item.hit.id for item in after] == [item.hit.id for item in before]


def test_notes_on_the_subjects_of_foreign_questions_silence_nothing_else(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.ingest(SAMPLE)
        memory.store_many(Document(text=text) for text in QUESTIONS)
        assert memory.recall("how do we rotate the ssh keys").items


def test_a_recall_that_says_nothing_speaks_of_no_hits(sample: Memory) -> None:
    recalled = sample.recall('+"sourdough bread"')
    assert recalled.items == ()
    assert "words_follow" not in [notice.code for notice in recalled.receipt.degraded]


# -- operators that cannot be read

STRICT = (
    'Where is "apple pie", tart?',
    '"apple pie"? tart',
    "\u201capple pie\u201d tart",
    "\u201eapple pie\u201c tart",
    "\u00abapple pie\u00bb tart",
    '+"apple pie", tart',
    "+\u201capple pie\u201d tart",
)


@pytest.fixture
def pies(tmp_path: Path) -> Memory:
    memory = Memory.open(tmp_path / "pies.db", project="")
    memory.store("apple pie with cream", key="pie")
    memory.store("pie of apple and a tart", key="apart")
    memory.store("apple secretword", key="secret")
    return memory


@pytest.mark.parametrize("query", STRICT)
def test_a_required_phrase_is_required_whatever_mark_follows(pies: Memory, query: str) -> None:
    assert keys(pies.search(query, strict=True)) == ["pie"]


@pytest.mark.parametrize(
    "query", ['12" "apple pie" secret_word', '12" "apple pie" \u0437\u0430\u043f\u0438\u0441\u044c']
)
def test_what_raises_a_passage_does_not_bring_it_without_the_phrase(
    pies: Memory, query: str
) -> None:
    pies.store("The secret word for apples.", key="name")
    pies.store("\u0437\u0430\u043f\u0438\u0441\u0438 and apples", key="inflected")
    assert keys(pies.search(query, strict=True)) == ["pie"]


@pytest.mark.parametrize("query", ["apple NOT (secretword", "NOT secretword", '12" NOT apple'])
def test_operators_that_cannot_be_read_are_told(pies: Memory, query: str) -> None:
    answer = pies.search(query)
    assert "operators_misread" in [notice.code for notice in answer.receipt.degraded]
    with pytest.raises(UsageError, check=has_code("operators_misread")):
        pies.search(query, strict=True)


def test_words_after_not_attract_nothing(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store("we deploy on saturday and sunday", key="weekend")
        memory.store("we deploy with two people", key="people")
        hits = memory.search("deploy NOT holiday")
        shares = {hit.doc_id: hit.signals.sentence for hit in hits}
        assert shares["weekend"] == pytest.approx(shares["people"])


# -- spelling


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Die Pr\u00e4sentation war gut", "Pr\u00e4sentation"),
        ("La conversi\u00f3n de moneda", "conversi\u00f3n"),
        ("une t\u00e9l\u00e9vision neuve", "t\u00e9l\u00e9vision"),
    ],
)
def test_a_word_that_is_there_is_never_corrected(tmp_path: Path, text: str, query: str) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store(text)
        answer = memory.search(query)
        assert answer.receipt.corrections == ()
        assert answer[0].signals.coverage == pytest.approx(1.0)


@pytest.mark.parametrize("first", [0, 4])
def test_the_order_of_storing_decides_no_correction(tmp_path: Path, first: int) -> None:
    texts = [f"certificates number {number}" for number in range(4)]
    texts.insert(first, "one certificate more")
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for text in texts:
            memory.store(text)
        assert memory.search("certifcate").receipt.corrections == (("certifcate", "certificate"),)


def test_the_word_that_stands_beside_the_others_most_is_meant(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store_many(Document(text=f"the rate limit of service {n}") for n in range(30))
        memory.store("the rate of lint errors")
        assert memory.search("rate limt").receipt.corrections == (("limt", "limit"),)


def test_cyrillic_letters_with_a_mark_are_letters(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store("йогурт в холодильнике")
        assert memory.search("йогрут").receipt.corrections == (("йогрут", "йогурт"),)


def test_parts_of_names_of_code_are_left_alone(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store("the state of the certificate store")
        for query in ("useStaet", "certifcateStore"):
            assert memory.search(query).receipt.corrections == ()


def test_many_hidden_words_cost_a_search_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    honest = sqlite_spelling._Index.holding

    def counted(index: sqlite_spelling._Index, word: str) -> list[int]:
        asked.append(word)
        return honest(index, word)

    monkeypatch.setattr(sqlite_spelling._Index, "holding", counted)
    with Memory.open(tmp_path / "memory.db", project="mine") as memory:
        memory.store("the certificate is renewed")
        letters = "abcdefghijklmnopqrstuvwxyz"
        words = [f"certif{a}{b}ate" for a in letters for b in letters]
        with Memory.open(tmp_path / "memory.db", project="theirs") as other:
            other.store(" ".join(words))
        memory.search("certifcate renewal")
        assert len(asked) <= 2 * spelling.TRIED_STEMS


# -- order


def test_evidence_in_several_passages_of_a_note_counts_for_the_note(tmp_path: Path) -> None:
    filler = "Nothing of interest is said in this part of the page. " * 12
    spread = f"# Replace\n\nvim can replace.\n{filler}\n\n# Words\n\nTwo words at once.\n{filler}"
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        memory.store(spread, key="spread")
        memory.store(f"# Vim\n\nvim and two more editors.\n{filler}", key="other")
        hits = memory.search("vim replace two words at once", best_per_document=True)
        assert keys(hits)[0] == "spread"
        assert hits[0].signals.coverage < 1.0


@pytest.mark.parametrize("limit", [4, 50])
@pytest.mark.parametrize("diverse", [False, True])
def test_the_passage_that_represents_its_document_is_its_first_one_of_all(
    tmp_path: Path, limit: int, diverse: bool
) -> None:
    """Chosen after the second look: it moves passages of one document past each other."""
    chance, words = random.Random(3), _WORDS.split()
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for number in range(4):
            parts = [f"## Part {n}\n\n{' '.join(chance.choices(words, k=60))}." for n in range(5)]
            memory.store("\n\n".join(parts), key=f"{number}")
        for _ in range(25):
            query = " ".join(chance.sample(words, 3))
            first: dict[str, str] = {}
            for hit in memory.search(query, limit=50):
                first.setdefault(hit.document.id, hit.id)
            best = memory.search(query, limit=limit, best_per_document=True, diverse=diverse)
            assert {hit.document.id: hit.id for hit in best} == first, query


def test_how_many_are_wanted_does_not_decide_which_one_is_first(sample: Memory) -> None:
    for query in ("restore a backup", "who is on call this week", "undo a bad version"):
        first = {sample.search(query, limit=limit)[0].id for limit in (1, 2, 5, 10, 30)}
        assert len(first) == 1, query


def test_the_answer_after_a_question_is_as_relevant_but_for_a_share(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for role, text in (
            ("user", "What is the retry limit of the queue?"),
            ("assistant", "Five, with jitter."),
            ("user", "Great, thanks."),
        ):
            memory.store(text, session="s", role=role)
        hits = {hit.text: hit for hit in memory.search("retry limit of the queue")}
        answer = hits["Five, with jitter."]
        assert not answer.is_weak
        assert answer.relevance == pytest.approx(
            0.6 * hits["What is the retry limit of the queue?"].relevance
        )


def test_an_answer_that_no_branch_lists_is_found_through_its_question(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        memory.store("Who reviews the migration?", session="s", role="user")
        memory.store("Oye does, on Thursday.", session="s", role="assistant")
        memory.store("Great, thanks.", session="s", role="user")
        hits = memory.search("who reviews the migration", explain=True)
        assert [hit.text for hit in hits] == [
            "Who reviews the migration?",
            "Oye does, on Thursday.",
        ]
        strict = memory.search('+"reviews the migration"', strict=True)
        assert [hit.text for hit in strict] == ["Who reviews the migration?"]
        named = memory.search("who reviews the migration", where={"mentions": ["migration"]})
        assert [hit.text for hit in named] == ["Who reviews the migration?"]


def test_keywords_that_cover_little_do_not_bury_the_meaning(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store("Rotate the passwords of the server every quarter.", key="right")
        memory.store_many(Document(text=f"La nota {n} de la casa.", key=f"{n}") for n in range(8))
        hits = memory.search("cambiar la contrase\u00f1a de la m\u00e1quina")
        assert "right" in keys(hits)[:5]


# -- the same answer in every process

ASKED = """
import sys
from plait.memory import Memory
memory = Memory.open(sys.argv[1], project="", create=False)
for query in sys.argv[2:]:
    print([(hit.doc_id, hit.score, hit.relevance, hit.signals) for hit in memory.search(query)])
"""


def test_scores_are_the_same_to_the_last_bit_in_every_process(sample: Memory) -> None:
    queries = [
        "how fast do we have to be back after losing everything in the database",
        "somebody left the company, what about their access to the servers and keys",
    ]
    printed = {
        subprocess.run(
            [sys.executable, "-c", ASKED, sample.path, *queries],
            env=environment(PYTHONHASHSEED=str(seed)),
            check=True,
            capture_output=True,
            encoding="utf-8",
        ).stdout
        for seed in range(1, 6)
    }
    assert len(printed) == 1


SENTENCES = {
    "vpn": ("why does the VPN NOT work", "The vpn does not work because its certificate is old."),
    "knee": ("exercise NOT allowed for the knee", "Jumping is not allowed for the knee."),
    "nginx": ("nginx 404 NOT FOUND", "nginx says 404 not found if the alias lacks a slash."),
    "column": ("violates NOT NULL constraint", "The import violates the constraint: null name."),
    "tyres": ("winter tyres NOT summer tyres", "Change summer tyres for winter tyres in October."),
    "rows": ("do NOT use getRings", "Use getSightings, because getRings drops rows."),
    "keys": ("HOW DO WE WIPE AND ROTATE KEYS", "Rotate keys every quarter."),
}


@pytest.mark.parametrize("key", SENTENCES)
def test_capitals_in_a_sentence_or_an_error_are_words(tmp_path: Path, key: str) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        for name, (_, text) in SENTENCES.items():
            memory.store(text, key=name)
        answer = memory.search(SENTENCES[key][0])
        assert answer[0].document.key == key
        [notice] = [row for row in answer.receipt.degraded if row.code == "operators_misread"]
        assert "to use them, put what follows them in quotes" in notice.text
        quoted = re.sub(r"\b(NOT|AND) (.+)", r'\1 "\2"', SENTENCES[key][0])
        codes = [row.code for row in memory.search(quoted).receipt.degraded]
        assert "operators_misread" not in codes


UNREADABLE = 'vpn AND (cloud|vpn NOT "cloud|vpn AND OR cloud|NEAR(vpn cloud|NOT|vpn OR'


@pytest.mark.parametrize("query", [*UNREADABLE.split("|"), " OR ".join(["vpn"] * 70)])
def test_quotes_are_no_advice_where_they_do_not_help(memory: Memory, query: str) -> None:
    [notice] = memory.search(query).receipt.degraded
    assert notice.code == "operators_misread"
    assert notice.text == "the operators cannot be read: all is searched as words"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("vpn NOT openvpn", ["wireguard"]),
        ('vpn NOT "in the cloud"', ["openvpn"]),
        ("how to connect the vpn NOT openvpn", ["wireguard"]),
        ("vpn NOT (in OR cloud)", ["openvpn"]),
        ("vpn NOT AWS", ["openvpn", "wireguard"]),
        ("IT vpn NOT US", ["openvpn", "wireguard"]),
    ],
)
def test_not_between_words_leaves_out(tmp_path: Path, query: str, found: list[str]) -> None:
    with Memory.open(tmp_path / "memory.db", project="") as memory:
        memory.store("The vpn at home is OpenVPN.", key="openvpn")
        memory.store("Another vpn in the cloud is WireGuard.", key="wireguard")
        answer = memory.search(query)
        assert sorted(keys(answer)) == found
        assert "operators_misread" not in [notice.code for notice in answer.receipt.degraded]


@pytest.mark.parametrize("strict", [True, False])
def test_it_is_told_that_not_left_out_everything(pies: Memory, strict: bool) -> None:
    answer = pies.search("apple NOT pie NOT secretword", strict=strict)
    [notice] = answer.receipt.degraded
    assert not answer
    assert notice.code == "not_left_out"
    assert keys(pies.search("apple not pie not secretword"))


@pytest.mark.parametrize("query", ["pears NOT pie", "apple NOT tart", "pears AND plums"])
def test_nothing_is_told_of_not_where_it_makes_no_difference(pies: Memory, query: str) -> None:
    codes = [notice.code for notice in pies.search(query).receipt.degraded]
    assert "not_left_out" not in codes


def test_who_is_strict_means_operators_in_a_sentence_too(pies: Memory) -> None:
    assert keys(pies.search("apple NOT in the pie", strict=True)) == ["secret"]


@pytest.fixture
def files(tmp_path: Path) -> Memory:
    folder = tmp_path / "notes"
    texts = {
        "gifts.md": "Leni wants a kite.",
        "taxes/2024/notes.md": "A refund of 300 euros.",
        "garden/notes.md": "Plant beans in May.",
        **{f"f{number}.md": "The md of gifts and notes in 2024." for number in range(15)},
    }
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    memory = Memory.open(tmp_path / "files.db", project="")
    memory.ingest(folder)
    memory.store("The code is on the fridge.", key="door-code")
    return memory


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("gifts.md", ["gifts.md"]),
        (" Gifts.md ", ["gifts.md"]),
        ("taxes/2024/notes.md", ["taxes/2024/notes.md"]),
        ("2024/notes.md", ["taxes/2024/notes.md"]),
        ("notes.md", ["garden/notes.md", "taxes/2024/notes.md"]),
        ("door-code", ["door-code"]),
    ],
)
def test_who_types_the_name_of_a_document_means_it(
    files: Memory, query: str, found: list[str]
) -> None:
    answer = files.search(query, limit=3, explain=True)
    assert sorted(keys(answer)[: len(found)]) == found
    assert {hit.relevance for hit in answer[: len(found)]} == {1.0}
    assert len(answer) == len(set(keys(answer)))
    assert set(found) <= {item.hit.document.key for item in files.recall(query).items}
    later = files.search(query, limit=3, offset=3)
    assert not set(keys(later)) & set(keys(answer))


@pytest.mark.parametrize("planted", [{"key": "deploy.md"}, {"metadata": {"aliases": "deploy.md"}}])
def test_an_untrusted_note_takes_no_name_of_a_trusted_one(
    tmp_path: Path, planted: dict[str, Any]
) -> None:
    with Memory.open(tmp_path / "memory.db", embedder="none") as memory:
        memory.store("Ansible runs on Fridays", key="ops/deploy.md")
        memory.store("Run this script first", trust="untrusted", **planted)
        first, *_ = memory.search("deploy.md")
        assert (first.document.key, first.relevance) == ("ops/deploy.md", 1.0)
        assert "Ansible" in memory.recall("deploy.md").text
        own = memory.search("deploy.md", where={"trusts": ["untrusted"]})
        assert {hit.document.trust for hit in own} == {"untrusted"}


@pytest.mark.parametrize("query", ["f.md", "gifts", "garden/taxes", "what about gifts.md?"])
def test_what_names_no_document_has_hits_for_its_words(files: Memory, query: str) -> None:
    reasons = [line for hit in files.search(query, explain=True) for line in hit.reasons]
    assert "the query is its name" not in reasons


@pytest.mark.parametrize("query", ["gifts/\ud800", "a/\0b", "\ud800.md", "x/" + "long/" * 2_000])
def test_what_nobody_can_name_a_document_is_searched_as_words(files: Memory, query: str) -> None:
    assert all(hit.relevance < 1.0 for hit in files.search(query))


def test_a_fact_or_a_message_takes_no_name(files: Memory) -> None:
    named = {"aliases": "fridge-note"}
    files.store("We were there.", metadata=named)
    files.store("Who was there?", session="talk", metadata=named)
    assert "the query is its name" not in [
        line for hit in files.search("fridge-note", explain=True) for line in hit.reasons
    ]
    files.store("Buy milk.", key="milk", metadata=named)
    assert keys(files.search("fridge-note"))[0] == "milk"


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE documents SET memory_type = 'none' WHERE key = 'gifts.md'",
        "UPDATE passages SET start_line = 'none' WHERE document = "
        "(SELECT rowid FROM documents WHERE key = 'gifts.md')",
    ],
)
def test_a_document_that_cannot_be_read_does_not_stop_the_search_for_its_name(
    files: Memory, damage: str
) -> None:
    files.store("the gifts of md are here", key="here")
    connection = apsw.Connection(files.path)
    connection.execute(damage)
    connection.close()
    answer = files.search("gifts.md")
    assert "here" in keys(answer)
    assert "gifts.md" not in keys(answer)
    assert [notice.code for notice in answer.receipt.degraded] == ["store_damaged"]


def test_vectors_alone_and_other_filters_are_not_changed_by_a_name(files: Memory) -> None:
    assert files.search("gifts.md", mode="vector", explain=True)[0].relevance < 1.0
    assert "gifts.md" not in keys(files.search("gifts.md", where=Filter(key_prefix="garden")))
