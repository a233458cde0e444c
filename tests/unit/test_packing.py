"""Hits into a budget: never over it, best first, nothing said twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.errors import UsageError
from plait.facts import echo
from plait.memory import Memory
from plait.searching import recall
from plait.types import Document, Hit, Passage
from tests.builders import document


def passage(
    ordinal: int, text: str, heading: str = "", *, start: int = 0, book: int = 0
) -> Passage:
    id_ = f"p{book}x{ordinal}zzzzzzzz"
    return Passage(
        text, heading, ordinal + 1, ordinal + 1, start, ordinal, id_, book * 100 + ordinal
    )


def laid_out(*texts: str, headings: tuple[str, ...] = (), book: int = 0) -> list[Passage]:
    """Passages of one document, one after the other."""
    found, start = [], 0
    for ordinal, text in enumerate(texts):
        heading = headings[ordinal] if headings else ""
        found.append(passage(ordinal, text, heading, start=start, book=book))
        start += len(text)
    return found


def hit(own: Passage, snippet: str | None = None, of: Document | None = None) -> Hit:
    said = own.text[:20] if snippet is None else snippet
    return Hit(own, of or document("note.md"), 0.9, 0.8, "keyword", said)


ROOM = 10_000


def read_whole(packed):
    """The passages that count as read."""
    return recall.Recalled(packed.text, packed.tokens, ROOM, packed.items).refs


def test_a_hit_that_has_room_stands_whole_with_its_section_and_surroundings():
    pages = laid_out("Intro.\n", "Steps one.\n", "Steps two.\n", headings=("", "Steps", "Steps"))
    packed = recall.pack([hit(pages[1])], [pages], ROOM)
    assert packed.text.endswith("Intro.\nSteps one.\nSteps two.")
    assert packed.items[0].refs == (0, 1, 2)
    assert read_whole(packed) == (0, 1, 2)
    assert (packed.items[0].start_line, packed.items[0].end_line) == (1, 3)


def test_a_section_grows_before_its_surroundings():
    texts = ("Intro " * 50, "Steps one. " * 3, "Steps two. " * 3)
    pages = laid_out(*texts, headings=("", "Steps", "Steps"))
    without = recall.pack([hit(pages[1])], [pages[1:]], ROOM)
    packed = recall.pack([hit(pages[1])], [pages], without.tokens + 10)
    assert packed.items[0].refs == (1, 2)


def test_every_hit_is_listed_before_the_best_one_grows():
    long = "word " * 60
    hits = [hit(passage(0, long, book=book)) for book in range(3)]
    around = [[one.passage] for one in hits]
    compact = recall.pack(hits, around, 100)
    assert [item.whole for item in compact.items] == [False, False, False]
    grown = recall.pack(hits, around, 150)
    assert [item.whole for item in grown.items] == [True, False, False]
    assert read_whole(grown) == (hits[0].passage.ref,)


def test_a_hit_that_stands_inside_a_better_one_is_not_said_twice():
    pages = laid_out("First part. ", "Second part. ", "Third part.")
    packed = recall.pack([hit(pages[0]), hit(pages[2])], [pages, pages], ROOM)
    assert len(packed.items) == 1
    assert packed.text.count("Second part.") == 1


def test_growing_never_repeats_half_of_another_hit():
    pages = laid_out(*(f"Part {n}. " for n in range(7)))
    packed = recall.pack([hit(pages[1]), hit(pages[5])], [pages[:4], pages[2:]], ROOM)
    assert packed.text.count("Part 2.") == packed.text.count("Part 3.") == 1


def test_an_overlap_of_two_passages_is_laid_over_itself():
    pages = [passage(0, "one two three ", start=0), passage(1, "three four", start=8)]
    packed = recall.pack([hit(pages[0], "one")], [pages], ROOM)
    assert packed.text.endswith("one two three four")


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"key": None, "kind": "observation"}, "p0x0zzzz Head (2023-11-1"),
        (
            {"key": "ops/ssh.md", "type": "runbook"},
            "p0x0zzzz ops/ssh.md:1 Head (runbook, 2023-11-1",
        ),
        ({"trust": "untrusted"}, ", untrusted)"),
        ({"key": "two\nlines"}, "p0x0zzzz two lines:1 Head"),
    ],
)
def test_the_line_above_a_text_says_what_it_is(fields, shown):
    own = passage(0, "text", "Head")
    packed = recall.pack([hit(own, of=document(**fields))], [[own]], ROOM)
    assert shown in packed.text.splitlines()[2]
    assert packed.text.startswith(echo.PREFACE)


def test_where_not_even_the_first_hit_fits_it_is_cut():
    own = passage(0, "word " * 400)
    packed = recall.pack([hit(own, "word " * 40), hit(own)], [[own], [own]], 40)
    assert packed.tokens <= 40
    assert packed.text.endswith("…")
    assert (packed.left_out, read_whole(packed)) == (1, ())


@pytest.mark.parametrize("budget", [1, 5, 20])
def test_where_not_even_its_head_fits_nothing_is_said_but_how_many_there_are(budget):
    own = passage(0, "word " * 40)
    assert recall.pack([hit(own)], [[own]], budget) == recall.Packed(left_out=1)


def test_no_hits_are_no_text():
    assert recall.pack([], [], ROOM) == recall.Packed()


TEXTS = st.text(st.sampled_from("ab é我\n🙂"), min_size=1, max_size=200).filter(str.strip)
BOOKS = st.lists(st.lists(TEXTS, min_size=1, max_size=6), min_size=0, max_size=5)


@given(books=BOOKS, budget=st.integers(1, 400), data=st.data())
def test_no_text_ever_passes_its_budget_and_the_same_hits_give_the_same_text(books, budget, data):
    hits, around = [], []
    for number, texts in enumerate(books):
        pages = laid_out(*texts, headings=("H",) * len(texts), book=number)
        for own in data.draw(st.lists(st.sampled_from(pages), max_size=2, unique=True)):
            hits.append(hit(own, own.text[:30]))
            around.append(pages)
    packed = recall.pack(hits, around, budget)
    assert packed.tokens == recall.tokens_of(packed.text) <= budget
    assert packed == recall.pack(hits, around, budget)
    assert len(set(read_whole(packed))) == len(read_whole(packed))
    assert packed.left_out + len(packed.items) <= len(hits)


@given(st.text())
def test_a_token_is_four_bytes_whatever_the_script(text):
    size = len(text.encode("utf-8", "surrogatepass"))
    assert recall.tokens_of(text) * 4 - size in range(4)


@pytest.mark.parametrize("limit", [0, 51])
def test_a_limit_out_of_its_range_is_refused(limit):
    with pytest.raises(UsageError, match="limit is"):
        recall.check_budget(limit, None)


@pytest.mark.parametrize("budget", [0, -1, 100_001])
def test_a_budget_out_of_its_range_is_refused(budget):
    with pytest.raises(UsageError, match="budget_tokens is"):
        recall.check_budget(5, budget)


def test_the_budget_is_five_passages_unless_told_otherwise():
    assert recall.check_budget(5, None) == 1_500
    assert recall.check_budget(50, 7) == 7


# -- Memory.recall ---------------------------------------------------------------------------


def test_recall_is_fenced_and_within_its_budget(memory):
    for number in range(8):
        memory.store(
            f"Deploy {number} went out on a Friday. " + "It was calm. " * 60, key=f"d{number}"
        )
    recalled = memory.recall("deploy friday", limit=5, budget_tokens=300)
    assert recalled.tokens == recall.tokens_of(recalled.text) <= 300
    assert recalled.text.startswith("<<plait-recall ")
    assert recalled.receipt.query == "deploy friday"
    assert len(recalled.items) + recalled.left_out == 5


def test_recall_is_silent_about_what_is_not_relevant(memory):
    memory.store("We deploy on Fridays")
    recalled = memory.recall("zebra crossing")
    assert (recalled.text, recalled.tokens, recalled.items) == ("", 0, ())


def test_recall_keeps_to_a_floor_that_can_be_moved(memory):
    memory.store("The harbour crane was painted yellow by the apprentices")
    query = "harbour weather forecast sailing tomorrow evening"
    assert memory.recall(query, min_score=1.0).items == ()
    assert len(memory.recall(query, min_score=0.0).items) == 1


def test_recall_of_an_absent_memory_is_empty_and_makes_no_file(tmp_path):
    with Memory.open(tmp_path / "none.db", create=False, project="") as absent:
        assert absent.recall("anything").text == ""
    assert not (tmp_path / "none.db").exists()


class Noting(Memory):
    """Remembers what was read."""

    def used(self, refs):
        self.read = tuple(refs)
        super().used(refs)


def test_what_recall_gave_whole_counts_as_read(tmp_path):
    with Noting.open(tmp_path / "memory.db", embedder="none", project="") as memory:
        stored = memory.store("We deploy on Fridays")
        recalled = memory.recall("deploy")
        assert [item.hit.document.id for item in recalled.items] == [stored.id]
        assert memory.read == (recalled.items[0].hit.passage.ref,)
