"""What every embedder promises (`plait.protocols.Embedder`)."""

from collections.abc import Callable
from math import isfinite

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.embedders import open_embedder
from plait.embedders.none import NoEmbedder
from plait.errors import ConfigError
from plait.memory import named_embedder
from plait.protocols import Embedder
from plait.recall import tuning_of
from plait.stores.sqlite.vectors import quantise
from plait.testing import HashingEmbedder, cosine
from plait.types import TextKind, Tuning
from tests.builders import vector

EMBEDDERS: dict[str, Callable[[], Embedder]] = {
    "none": NoEmbedder,
    "hashing": HashingEmbedder,
    "hashing, few dims": lambda: HashingEmbedder(16),
}
TEXTS = ["rotate the ssh keys", "", "   ", "?!", "日本語", "a" * 20_000, "\ud800", "x\0y"]

every_embedder = pytest.mark.parametrize("make", EMBEDDERS.values(), ids=EMBEDDERS)
KINDS: tuple[TextKind, ...] = ("query", "passage")
every_kind = pytest.mark.parametrize("kind", KINDS)


@every_embedder
@every_kind
def test_there_is_one_answer_per_text_in_order(
    make: Callable[[], Embedder], kind: TextKind
) -> None:
    embedder = make()
    together = embedder.embed(TEXTS, kind)
    assert len(together) == len(TEXTS)
    assert list(together) == [embedder.embed([text], kind)[0] for text in TEXTS]
    assert list(embedder.embed([], kind)) == []


@every_embedder
@every_kind
def test_every_vector_has_the_promised_length_and_a_direction(
    make: Callable[[], Embedder], kind: TextKind
) -> None:
    embedder = make()
    for found in embedder.embed(TEXTS, kind):
        if found is not None:
            assert len(found) == embedder.dims
            assert all(map(isfinite, found))
            assert quantise(found, embedder.dims)


@every_embedder
def test_the_space_names_the_vectors_and_does_not_change(make: Callable[[], Embedder]) -> None:
    one, other = make(), make()
    assert one.space == other.space
    assert one.space.dims == one.dims
    one.embed(["text"], "passage")
    assert one.space == other.space


@every_embedder
def test_the_same_text_has_the_same_vector_in_every_process(make: Callable[[], Embedder]) -> None:
    assert list(make().embed(TEXTS, "passage")) == list(make().embed(TEXTS, "passage"))


@every_embedder
def test_its_tuning_is_one_that_a_search_can_use(make: Callable[[], Embedder]) -> None:
    tuning = tuning_of(make())
    assert 0.0 <= tuning.keyword_weight <= 1.0
    assert 0.0 <= tuning.vector_weight <= 1.0
    assert tuning.keyword_weight + tuning.vector_weight == pytest.approx(1.0)
    assert tuning.floor < tuning.ceiling <= 1.0
    assert tuning.max_chars > 0


def test_an_embedder_without_tuning_gets_cautious_defaults() -> None:
    class Bare:
        dims = 0
        space = NoEmbedder.space
        embed = NoEmbedder.embed

    assert tuning_of(Bare()) == Tuning()


def test_the_hashing_embedder_is_golden() -> None:
    # The first vector ever written with it must be comparable with those of today.
    [found] = HashingEmbedder(8).embed(["plait"], "passage")
    assert found is not None
    assert [round(value, 3) for value in found] == [0.0, 0.0, 0.0, 0.0, 0.577, 0.577, 0.0, -0.577]


@pytest.mark.parametrize(
    ("near", "far"),
    [("kubernetes", "garden"), ("rotate the keys", "an apple tree"), ("Müller", "Maier")],
)
def test_the_hashing_embedder_sees_through_a_slip_of_the_pen(near: str, far: str) -> None:
    slip = near[:3] + near[4:]
    one, other, stranger = HashingEmbedder().embed([near, slip, far], "passage")
    assert one is not None
    assert other is not None
    assert stranger is not None
    assert cosine(one, other) > 0.4 > cosine(one, stranger)


@given(st.text())
def test_the_hashing_embedder_declines_exactly_what_has_no_letter_or_digit(text: str) -> None:
    [found] = HashingEmbedder().embed([text], "query")
    if not any(character.isalnum() for character in text.lower()):
        assert found is None
    elif found is not None:  # opposite signs may meet in one bucket, which is allowed to cancel
        assert cosine(found, found) == pytest.approx(1.0)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=2))
def test_cosine_of_known_vectors(numbers: list[float]) -> None:
    assert cosine(vector(1, 0), vector(0, 1)) == 0.0
    assert cosine(vector(3, 0), vector(5, 0)) == 1.0
    assert cosine(vector(0, 0), vector(*numbers)) == 0.0
    assert -1.0001 <= cosine(vector(1, 2), vector(*numbers)) <= 1.0001


def test_an_unknown_provider_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match="none"):
        open_embedder("nonsense:model")


@pytest.mark.parametrize(("spec", "dims"), [("none", 0), ("hashing", 256), ("hashing:any", 256)])
def test_an_embedder_is_opened_by_its_name(spec: str, dims: int) -> None:
    assert named_embedder(spec).dims == dims
