"""What every embedder promises (`plait.embedders.Embedder`)."""

from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import plait
from plait.embedders import Embedder, Learnt, open_embedder
from plait.embedders.none import NoEmbedder
from plait.errors import ConfigError, UsageError
from plait.memory import Memory, named_embedder
from plait.protocols import Vector
from plait.stores.sqlite.vectors import quantise
from plait.testing import HashingEmbedder, cosine
from plait.types import TextKind, Tuning
from tests.builders import vector
from tests.codes import has_code

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
    for made in embedder.embed(TEXTS, kind):
        if made is not None:
            assert len(made) == embedder.dims
            assert all(map(isfinite, made))
            assert quantise(made, embedder.dims)


@every_embedder
def test_the_space_names_the_vectors_and_does_not_change(make: Callable[[], Embedder]) -> None:
    first, second = make(), make()
    assert first.space == second.space
    assert first.space.dims == first.dims
    first.embed(["text"], "passage")
    assert first.space == second.space


@every_embedder
def test_the_same_text_has_the_same_vector_in_every_process(make: Callable[[], Embedder]) -> None:
    assert list(make().embed(TEXTS, "passage")) == list(make().embed(TEXTS, "passage"))


@every_embedder
def test_its_tuning_is_one_that_a_search_can_use(make: Callable[[], Embedder]) -> None:
    tuning = make().tuning
    assert 0.0 <= tuning.keyword_weight <= 1.0
    assert 0.0 <= tuning.vector_weight <= 1.0
    assert tuning.keyword_weight + tuning.vector_weight == pytest.approx(1.0)
    assert 0.0 <= tuning.unrelated < 1.0 and tuning.spread > 0.0
    assert tuning.max_chars > 0


def test_an_embedder_without_tuning_gets_cautious_defaults() -> None:
    class Bare(Embedder):
        dims = 0
        space = NoEmbedder.space
        embed = NoEmbedder.embed

    bare = Bare()
    assert (bare.tuning, bare.reason) == (Tuning(), None)


def test_every_optional_method_of_the_base_class_does_nothing() -> None:
    class Counted(HashingEmbedder):
        calls = 0

        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            self.calls += 1
            return super().embed(texts, kind)

    embedder = Counted()
    assert embedder.cached_query("tea") is None
    assert embedder.learn(afresh=True) == Learnt(None, resume=True)
    assert embedder.check() == []
    embedder.recheck()
    embedder.forget_dims()
    embedder.flush()
    assert (embedder.calls, embedder.dims) == (0, 256)


@pytest.mark.parametrize("stranger", [object(), 7, HashingEmbedder, NoEmbedder().embed])
def test_an_object_that_is_no_embedder_is_refused(stranger: Any, tmp_path: Path) -> None:
    place = tmp_path / "memory.db"
    with pytest.raises(UsageError) as caught:
        Memory.open(place, embedder=stranger)
    assert caught.value.notice.code == "not_an_embedder"
    assert caught.value.notice.subject == type(stranger).__name__
    assert not place.exists()


def test_the_base_class_is_public() -> None:
    assert plait.Embedder is Embedder


def test_the_hashing_embedder_is_golden() -> None:
    # The first vector ever written with it must be comparable with those of today.
    [made] = HashingEmbedder(8).embed(["plait"], "passage")
    assert made is not None
    assert [round(value, 3) for value in made] == [0.0, 0.0, 0.0, 0.0, 0.577, 0.577, 0.0, -0.577]


@pytest.mark.parametrize(
    ("near", "far"),
    [("kubernetes", "garden"), ("rotate the keys", "an apple tree"), ("Müller", "Maier")],
)
def test_the_hashing_embedder_sees_through_a_slip_of_the_pen(near: str, far: str) -> None:
    slip = near[:3] + near[4:]
    right, typo, stranger = HashingEmbedder().embed([near, slip, far], "passage")
    assert right is not None
    assert typo is not None
    assert stranger is not None
    assert cosine(right, typo) > 0.4 > cosine(right, stranger)


@given(st.text())
def test_the_hashing_embedder_declines_exactly_what_has_no_letter_or_digit(text: str) -> None:
    [made] = HashingEmbedder().embed([text], "query")
    if not any(character.isalnum() for character in text.lower()):
        assert made is None
    elif made is not None:  # opposite signs may meet in one bucket, which is allowed to cancel
        assert cosine(made, made) == pytest.approx(1.0)


@given(st.lists(st.floats(-1e3, 1e3, width=32), min_size=2, max_size=2))
def test_cosine_of_known_vectors(numbers: list[float]) -> None:
    assert cosine(vector(1, 0), vector(0, 1)) == 0.0
    assert cosine(vector(3, 0), vector(5, 0)) == 1.0
    assert cosine(vector(0, 0), vector(*numbers)) == 0.0
    assert -1.0001 <= cosine(vector(1, 2), vector(*numbers)) <= 1.0001


def test_an_unknown_provider_is_refused_with_the_choices() -> None:
    with pytest.raises(
        ConfigError, match="none", check=has_code("unknown_embedder", "nonsense:model")
    ):
        open_embedder("nonsense:model")


@pytest.mark.parametrize(("spec", "dims"), [("none", 0), ("hashing", 256), ("hashing:any", 256)])
def test_an_embedder_is_opened_by_its_name(spec: str, dims: int) -> None:
    assert named_embedder(spec).dims == dims
