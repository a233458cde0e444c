"""The built-in model: the same bits everywhere, and meaning without a download."""

import json
import sys
from array import array
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plait.embedders import open_embedder, pieces
from plait.embedders.builtin import Builtin
from plait.errors import EmbedderError, advise
from plait.protocols import Vector
from plait.stores.sqlite.vectors import quantise
from plait.testing import cosine
from plait.types import TextKind
from tests.codes import has_code

# One text per way of writing; the digest is over the bytes of all their vectors, in this order.
GOLDEN = (
    "how do we rotate the ssh keys",
    "The deployment failed because the certificate had expired.",
    "def add(a, b):\n    return a + b",
    "Wo ist der Bahnhof?",
    "¿Dónde está la biblioteca?",
    "Где находится библиотека?",
    "図書館はどこですか",
    "图书馆在哪里？",
    "도서관은 어디에 있습니까",
    "أين المكتبة؟",
)
GOLDEN_DIGEST = "6d50592adfff67170a9e35f6c16af998917a092625a2991b4828fbc5c8d79cc6"


@pytest.fixture(scope="module")
def model() -> Builtin:
    return Builtin()


def vector_of(model: Builtin, text: str, kind: TextKind = "passage") -> Vector | None:
    return model.embed([text], kind)[0]


def test_vectors_are_the_same_to_the_last_bit_on_every_machine(model: Builtin) -> None:
    digest = sha256()
    kinds: tuple[TextKind, ...] = ("query", "passage")
    for kind in kinds:
        for text in GOLDEN:
            vector = vector_of(model, text, kind)
            assert vector is not None
            if sys.byteorder == "big":
                vector.byteswap()
            digest.update(vector.tobytes())
    assert digest.hexdigest() == GOLDEN_DIGEST


def test_a_vector_has_256_dimensions_and_unit_length(model: Builtin) -> None:
    vector = vector_of(model, GOLDEN[0])
    assert vector is not None
    assert len(vector) == model.dims == model.space.dims == 256
    assert sum(value * value for value in vector) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("text", ["", " \n\t", "\u200b", "\U000f0000"])
def test_a_text_without_a_known_piece_has_no_vector(model: Builtin, text: str) -> None:
    assert vector_of(model, text) is None


@pytest.mark.parametrize(
    ("query", "near", "far"),
    [
        ("replace the server credentials", "Rotate the SSH keys every quarter", "Lunch is at noon"),
        ("car repair", "How to fix an automobile engine", "Book a meeting room"),
        ("Wie wechsle ich das Passwort?", "How to change your password", "The cat sat on a mat"),
        ("как изменить пароль", "How to change your password", "The cat sat on a mat"),
        ("如何更改密码", "How to change your password", "The cat sat on a mat"),
    ],
)
def test_meaning_is_nearer_than_chance(model: Builtin, query: str, near: str, far: str) -> None:
    asked = vector_of(model, query, "query")
    right, wrong = vector_of(model, near), vector_of(model, far)
    assert asked is not None
    assert right is not None
    assert wrong is not None
    assert cosine(asked, right) > cosine(asked, wrong) + 0.05


@given(st.text(max_size=60))
def test_the_table_in_the_file_and_the_dictionary_cut_words_alike(text: str) -> None:
    by_file, by_dictionary = _FRESH, _BULK
    assert by_file.words(text) == by_dictionary.words(text)
    for word in by_file.words(text):
        assert by_file.pieces(word) == by_dictionary.pieces(word)


@given(st.text(st.sampled_from("aZ9 \n\t\x0b\x1c\x07\x85\u00a0.,-_é’Σσ密\u200b") | st.characters()))
@example("a\x0bb c")  # this space is unseen: "ab"
@example("ΑΣ ΑΣΑ x")  # the small sigma depends on its place in the word
def test_a_bag_of_words_has_the_words_of_the_text(text: str) -> None:
    assert sorted(_BULK.bag_of_words(text)) == sorted(_BULK.words(text))


_FRESH, _BULK = Builtin()._file, Builtin()._file
_BULK.read_vocabulary()


@given(st.lists(st.sampled_from(GOLDEN), min_size=1, max_size=40))
def test_a_text_has_one_vector_alone_or_among_many(texts: list[str]) -> None:
    alone = [vector_of(_MODEL, text) for text in texts]
    assert list(_MODEL.embed(texts, "passage")) == alone


_MODEL = Builtin()


def test_queries_and_passages_weigh_words_differently(model: Builtin) -> None:
    assert vector_of(model, GOLDEN[0], "query") != vector_of(model, GOLDEN[0], "passage")


def test_a_text_of_any_length_fits_its_lanes(model: Builtin) -> None:
    vector = vector_of(model, "certificate renewal " * 50_000)
    assert vector is not None
    short = vector_of(model, "certificate renewal")
    assert short is not None
    assert cosine(vector, short) > 0.99


def test_only_the_beginning_of_a_text_that_overflows_its_lanes_counts(model: Builtin) -> None:
    beginning = "certificate renewal " * 50_000
    assert vector_of(model, beginning + "otters swim " * 50) == vector_of(model, beginning)
    assert vector_of(model, "otters swim " * 50 + beginning) != vector_of(model, beginning)


@given(st.permutations(GOLDEN))
def test_quantising_keeps_the_order_of_cosines_that_lie_apart(texts: list[str]) -> None:
    query = vector_of(_MODEL, texts[0], "query")
    others = [vector_of(_MODEL, text) for text in texts[1:]]
    assert query is not None
    exact = [cosine(query, other) for other in others if other is not None]
    rough = array("b", quantise(query, 256))
    kept = [
        cosine(array("f", rough), array("f", array("b", quantise(other, 256))))
        for other in others
        if other is not None
    ]
    for first, second, a, b in zip(exact, exact[1:], kept, kept[1:], strict=False):
        if abs(first - second) > 0.02:
            assert (first > second) == (a > b)


def test_the_settings_name_opens_it() -> None:
    embedder = open_embedder("builtin")
    assert embedder.space.provider == "builtin"
    assert embedder.space.revision


@pytest.mark.parametrize("content", [b"", b"not a model\n", b'{"format": "other"}\n'])
def test_a_file_that_is_no_model_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.bin"
    path.write_bytes(content)
    with pytest.raises(
        EmbedderError, check=has_code("model_unreadable", str(path), advise("reinstall"))
    ):
        Builtin(str(path))


def test_the_file_is_within_its_size() -> None:
    size = Path(pieces.FILE).stat().st_size
    with Path(pieces.FILE).open("rb") as file:
        header = json.loads(file.readline())
    assert size <= 14_000_000
    assert header["dims"] == 256
