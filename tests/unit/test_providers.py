"""Embedders behind a server: Ollama, OpenAI and whoever speaks as they do."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.embedders import EmbedderOptions, open_embedder
from plait.embedders.ollama import Ollama, ollama_address
from plait.embedders.openai import Custom, OpenAI
from plait.embedders.prefixes import Prefixes, prefixes_of
from plait.embedders.served import SHORTEST, SLOW_BATCH, Served
from plait.embedders.transport import Limits
from plait.embedders.unit import unit_vectors
from plait.errors import ConfigError, EmbedderError, advise
from plait.protocols import Vector
from plait.testing import cosine
from plait.types import Space, TextKind
from tests.builders import vector
from tests.codes import has_code
from tests.embedding_server import DIMS, HARMLESS, LASTING, PASSING, EmbeddingServer

KEY = "sk-canary-0123456789"
TEXTS = [f"passage number {number}" for number in range(5)]
QUERY = "search_query: "
PASSAGE = "search_document: "
# Nothing waits between two tries; only what never ends runs into its time limit.
LIMITS = Limits(sleep=lambda _: None)
SHORT = LIMITS._replace(silence=0.2, whole=0.2)
ENDLESS = ("hang", "drip", "drip-head")

Make = Callable[..., Served]


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as opened:
        yield opened


def ollama(server: EmbeddingServer, model: str | None = None, **fields: Any) -> Ollama:
    return Ollama(model, url=server.url, **{"limits": LIMITS, **fields})


def openai(server: EmbeddingServer, model: str | None = None, **fields: Any) -> OpenAI:
    return OpenAI(model, url=server.openai_url, **{"limits": LIMITS, **fields})


def custom(
    server: EmbeddingServer, model: str | None = "nomic-embed-text", **fields: Any
) -> Custom:
    return Custom(f"{server.openai_url}#{model or ''}", **{"limits": LIMITS, **fields})


every_provider = pytest.mark.parametrize("make", [ollama, openai, custom])


def same(unit: Vector | None, sent: list[float]) -> bool:
    """Whether a vector has the direction that the server sent, and unit length."""
    assert unit is not None
    assert math.isclose(math.hypot(*unit), 1.0, rel_tol=1e-5)
    return cosine(unit, vector(*sent)) > 0.999_99


# -- the good days -------------------------------------------------------------------------


@every_provider
@pytest.mark.parametrize("kind", ["query", "passage"])
def test_every_text_gets_its_own_unit_vector(
    server: EmbeddingServer, make: Make, kind: TextKind
) -> None:
    embedder = make(server)
    vectors = embedder.embed(TEXTS, kind)
    sent = server.requests[0].texts
    assert len(vectors) == len(TEXTS) == len(sent)
    assert all(same(unit, server.vector(text)) for unit, text in zip(vectors, sent, strict=True))
    assert embedder.dims == embedder.space.dims == DIMS


@every_provider
def test_texts_without_a_visible_character_are_not_sent(
    server: EmbeddingServer, make: Make
) -> None:
    vectors = make(server).embed(["", "one", " \n", "two", "\t"], "passage")
    assert [unit is None for unit in vectors] == [True, False, True, False, True]
    assert len(server.requests[0].texts) == 2
    server.requests.clear()
    assert make(server).embed(["", " "], "query") == [None, None]
    assert make(server).embed([], "passage") == []
    assert server.requests == []


@every_provider
def test_half_characters_and_nul_do_not_reach_the_server(
    server: EmbeddingServer, make: Make
) -> None:
    vectors = make(server).embed(["x\0y", "\ud800 z"], "passage")
    assert None not in vectors
    assert [text.rpartition(": ")[2] for text in server.requests[0].texts] == ["x y", "? z"]


def test_ollama_is_asked_in_its_own_protocol(server: EmbeddingServer) -> None:
    ollama(server).embed(["why"], "query")
    ollama(server, dims=DIMS).embed(["why"], "passage")
    assert [(request.method, request.path) for request in server.requests] == [
        ("POST", "/api/embed"),
        ("POST", "/api/embed"),
    ]
    asked = {"model": "nomic-embed-text", "input": [f"{QUERY}why"], "truncate": True}
    assert server.requests[0].body == asked
    assert server.requests[1].body == asked | {"input": [f"{PASSAGE}why"], "dimensions": DIMS}


def test_openai_is_asked_in_its_own_protocol(server: EmbeddingServer) -> None:
    openai(server, key=lambda _: KEY).embed(["why"], "query")
    openai(server, dims=DIMS).embed(["why"], "passage")
    first, second = server.requests
    assert first.path == "/v1/embeddings"
    assert first.body == {"model": "text-embedding-3-small", "input": ["why"]}
    assert second.body == first.body | {"dimensions": DIMS}
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert "authorization" not in second.headers


@every_provider
def test_dimensions_are_asked_for_only_by_whoever_configured_them(
    server: EmbeddingServer, make: Make
) -> None:
    embedder = make(server)
    embedder.embed(["one"], "passage")
    assert embedder.dims == DIMS
    embedder.embed(["two"], "passage")
    assert all("dimensions" not in request.body for request in server.requests)


@pytest.mark.parametrize(
    ("place", "model", "expected"),
    [
        ("#nomic-embed-text", "other", "nomic-embed-text"),
        ("/#nomic-embed-text", None, "nomic-embed-text"),
        ("/embeddings", "other", "other"),
        ("/embeddings/", None, "default"),
    ],
)
def test_a_custom_server_is_named_by_url_and_model(
    server: EmbeddingServer, place: str, model: str | None, expected: str
) -> None:
    server.models = (expected,)
    embedder = Custom(server.openai_url + place, model=model)
    embedder.embed(["why"], "query")
    assert server.requests[0].path == "/v1/embeddings"
    assert server.requests[0].body["model"] == embedder.space.model == expected


# -- identity ------------------------------------------------------------------------------


def test_a_space_says_who_made_the_vectors(server: EmbeddingServer) -> None:
    embedder = ollama(server)
    expected = Space(
        "ollama",
        "nomic-embed-text",
        0,
        host=f"http://localhost:{server.port}",
        prefix="search_query: | search_document: ",
    )
    assert embedder.space == expected
    assert embedder.dims is None
    embedder.embed(["text"], "passage")
    assert embedder.space == expected._replace(dims=DIMS)
    assert server.url not in custom(server).space.host
    assert custom(server).space.provider == "custom"


@pytest.mark.parametrize(
    ("change", "dims"),
    [
        ({}, 77),
        ({"model": "other"}, None),
        ({"host": "http://elsewhere:11434"}, None),
        ({"prefix": ""}, None),
        ({"provider": "custom"}, None),
        ({"revision": "2"}, None),
        ({"dims": 0}, None),
    ],
)
def test_the_dimensions_of_the_memory_count_only_where_the_space_is_ours(
    server: EmbeddingServer, change: dict[str, Any], dims: int | None
) -> None:
    known = ollama(server).space._replace(**{"dims": 77, **change})
    assert ollama(server, known=known).dims == dims
    assert ollama(server, known=known, dims=5).dims == 5


@pytest.mark.parametrize(
    ("model", "dims"),
    [
        (None, 1536),
        ("text-embedding-3-large", 3072),
        ("text-embedding-ada-002", 1536),
        ("new", None),
    ],
)
def test_the_sizes_of_openais_own_models_are_known(model: str | None, dims: int | None) -> None:
    assert OpenAI(model).dims == dims
    assert OpenAI(model, dims=256).dims == 256
    assert OpenAI(model, url="https://proxy.example/v1").dims is None


def test_a_model_that_answers_with_other_dimensions_than_known_is_not_believed(
    server: EmbeddingServer,
) -> None:
    known = ollama(server).space._replace(dims=DIMS + 1)
    with pytest.raises(EmbedderError, check=has_code("wrong_dims")):
        ollama(server, known=known).embed(["text"], "query")


@every_provider
def test_dimensions_that_change_between_two_batches_are_an_error(
    server: EmbeddingServer, make: Make
) -> None:
    embedder = make(server)
    embedder.embed(["text"], "passage")
    server.fault = "wrong-dims"
    again = has_code("wrong_dims", advice=advise("reindex_embeddings"))
    with pytest.raises(EmbedderError, check=again):
        embedder.embed(["text"], "passage")
    server.fault = None
    assert None not in embedder.embed(["text"], "passage")


def test_a_swapped_model_is_not_noticed_here(server: EmbeddingServer) -> None:
    # Its vectors are as sound as any; a memory compares a sample of its own instead.
    embedder = ollama(server)
    [before] = embedder.embed(["text"], "passage")
    server.fault = "swapped"
    [after] = embedder.embed(["text"], "passage")
    assert before is not None
    assert after is not None
    assert cosine(before, after) < 0.9


# -- faults --------------------------------------------------------------------------------


@every_provider
@pytest.mark.parametrize("kind", ["query", "passage"])
@pytest.mark.parametrize("fault", LASTING)
def test_no_fault_becomes_a_vector_and_every_one_passes(
    server: EmbeddingServer, make: Make, kind: TextKind, fault: str
) -> None:
    limits = SHORT if fault in ENDLESS else LIMITS._replace(body=1_000_000)
    embedder = make(server, limits=limits, key=lambda _: KEY)
    server.fault = fault
    with pytest.raises(EmbedderError) as caught:
        embedder.embed(TEXTS[:2], kind)
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    server.fault = None
    # The time limits are for what never ends; a busy machine may need longer for what does.
    embedder.client._limits = LIMITS
    assert None not in embedder.embed(TEXTS, kind)
    assert embedder.dims == DIMS


@every_provider
@pytest.mark.parametrize("fault", [*PASSING, *HARMLESS])
def test_for_passages_what_passes_is_sat_out(
    server: EmbeddingServer, make: Make, fault: str
) -> None:
    server.fault = fault
    server.most_texts = 2
    vectors = make(server).embed(TEXTS, "passage")
    prefix = PASSAGE if make is not openai else ""
    assert all(
        same(unit, server.vector(prefix + text)) for unit, text in zip(vectors, TEXTS, strict=True)
    )


@every_provider
@pytest.mark.parametrize("fault", PASSING)
def test_a_query_is_asked_once(server: EmbeddingServer, make: Make, fault: str) -> None:
    server.fault = fault
    with pytest.raises(EmbedderError):
        make(server).embed(["why"], "query")
    assert len(server.requests) == 1


def test_a_model_that_ollama_does_not_have_can_be_pulled(
    server: EmbeddingServer,
) -> None:
    pull = advise("pull_ollama_model", model="bge-m3")
    with pytest.raises(EmbedderError, check=has_code("unknown_model", "bge-m3", pull)):
        ollama(server, "bge-m3").embed(["text"], "passage")
    assert len(server.requests) == 1


def test_an_ollama_that_sleeps_can_be_woken(server: EmbeddingServer) -> None:
    server.fault = "refuse"
    with pytest.raises(EmbedderError, check=has_code("not_running", "", advise("start_ollama"))):
        ollama(server).embed(["text"], "query")


@pytest.mark.parametrize(
    ("make", "provider", "path"),
    [(openai, "openai", None), (custom, "custom", "/v1"), (ollama, "ollama", "")],
)
def test_after_a_refused_key_the_advice_is_to_set_it(
    server: EmbeddingServer, make: Make, provider: str, path: str | None
) -> None:
    server.fault = "401"
    advice = advise("set_key", provider=provider)
    if path is not None:
        url = f"http://127.0.0.1:{server.port}{path}"
        advice = advise("set_server_key", provider=provider, url=url)
    with pytest.raises(EmbedderError, check=has_code("bad_key", advice=advice)):
        make(server, key=lambda _: KEY).embed(["text"], "passage")


def test_a_key_is_asked_for_by_origin(server: EmbeddingServer) -> None:
    origins: list[str] = []
    custom(server, key=origins.append).embed(["text"], "query")
    assert origins == [f"http://127.0.0.1:{server.port}"]
    OpenAI(key=lambda origin: origins.append(origin)).client.key  # noqa: B018
    assert origins[1:] == ["https://api.openai.com:443"]


# -- batches -------------------------------------------------------------------------------


def test_a_batch_has_a_limit_of_texts(server: EmbeddingServer) -> None:
    texts = [f"text {number}" for number in range(70)]
    assert len(ollama(server).embed(texts, "passage")) == 70
    assert [len(request.texts) for request in server.requests] == [32, 32, 6]


def test_a_batch_has_a_limit_of_bytes(server: EmbeddingServer) -> None:
    texts = ["é" * 60_000, "é" * 60_000, "é" * 60_000, "é" * 200_000, "short"]
    openai(server).embed(texts, "passage")
    assert [[len(text) for text in request.texts] for request in server.requests] == [
        [60_000, 60_000],
        [60_000],
        [200_000],
        [5],
    ]


@pytest.mark.parametrize("fault", ["batch-limit", "batch-limit-422"])
def test_a_batch_that_is_too_large_is_halved_until_it_fits(
    server: EmbeddingServer, fault: str
) -> None:
    server.fault = fault
    server.most_texts = 3
    texts = [f"text {number}" for number in range(20)]
    vectors = ollama(server).embed(texts, "passage")
    assert all(
        same(unit, server.vector(PASSAGE + text)) for unit, text in zip(vectors, texts, strict=True)
    )
    assert max(len(request.texts) for request in server.requests if len(request.texts) <= 3) > 1


@pytest.mark.parametrize("kind", ["query", "passage"])
def test_a_text_that_is_too_long_is_cut_and_the_others_are_whole(
    server: EmbeddingServer, kind: TextKind
) -> None:
    server.fault = "text-limit"
    texts = [*TEXTS, "long " * 1_000, *TEXTS]
    vectors = ollama(server).embed(texts, kind)
    assert None not in vectors
    assert len(vectors) == len(texts)
    prefix = QUERY if kind == "query" else PASSAGE
    assert all(same(vectors[n], server.vector(prefix + texts[n])) for n in (0, 4, 6, 10))
    # The long text was sent alone in the end, the texts behind it were not.
    assert len(server.requests[-1].texts) > 1
    accepted = [text for request in server.requests for text in request.texts if "long" in text][-1]
    assert accepted.startswith(f"{prefix}long long")
    assert 250 <= len(accepted) <= server.most_chars


def test_a_server_that_finds_everything_too_large_is_given_up(server: EmbeddingServer) -> None:
    server.fault = "text-limit"
    server.most_chars = 1
    with pytest.raises(EmbedderError, match="too large to process"):
        ollama(server).embed(["word " * 1_000, "word"], "passage")
    shortest = min(len(text) for request in server.requests for text in request.texts)
    assert shortest >= min(SHORTEST, len(f"{PASSAGE}word"))
    assert len(server.requests) < 15


def test_a_slow_server_is_given_fewer_texts_once(server: EmbeddingServer) -> None:
    server.fault = "hang"
    embedder = ollama(server, limits=SHORT)
    texts = [f"text {number}" for number in range(10)]
    with pytest.raises(EmbedderError, check=has_code("too_slow")):
        embedder.embed(texts, "passage")
    server.fault = None
    embedder.client._limits = LIMITS
    before = len(server.requests)
    assert None not in embedder.embed(texts, "passage")
    sizes = [len(request.texts) for request in server.requests[before:]]
    assert sizes[-3:] == [SLOW_BATCH, SLOW_BATCH, 2]


@given(
    st.lists(st.text(st.characters(codec="utf-8"), max_size=40), max_size=12),
    st.integers(1, 12),
    st.integers(1, 120),
)
def test_batches_hold_every_text_once_and_in_order(
    texts: list[str], limit: int, most_bytes: int
) -> None:
    embedder = Ollama()
    embedder.most_bytes = most_bytes
    sent: list[str] = []
    while len(sent) < len(texts):
        batch = embedder._batch(texts, len(sent), limit)
        assert 1 <= len(batch) <= limit
        assert len(batch) == 1 or sum(len(text.encode()) for text in batch) <= most_bytes
        sent += batch
    assert sent == texts


# -- vectors -------------------------------------------------------------------------------


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1))
def test_any_direction_becomes_a_unit_vector_or_an_error(numbers: list[float]) -> None:
    try:
        [unit] = unit_vectors([numbers], None, "Test")
    except EmbedderError:
        assert not any(numbers)
        return
    assert math.isclose(math.hypot(*unit), 1.0, rel_tol=1e-4)
    assert all((a > 0) >= (b > 0) for a, b in zip(numbers, unit, strict=True))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        "text",
        {},
        [],
        [[1.0]],
        ["1.0"],
        [None],
        [True, False],
        [0.0, 0],
        [1e-60],
        [float("nan"), 1.0],
        [float("-inf"), 1.0],
        [1e39],
        [10**400],
    ],
)
def test_what_is_no_direction_is_an_error(answer: object) -> None:
    with pytest.raises(EmbedderError, match="Test returned") as caught:
        unit_vectors([[1.0], answer], None, "Test")
    assert caught.value.notice.code == "bad_vector"


# -- addresses of Ollama -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "http://localhost:11434"),
        ("localhost", "http://localhost:11434"),
        ("gpu", "http://gpu:11434"),
        ("gpu:8080", "http://gpu:8080"),
        (":8080", "http://localhost:8080"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("[::]:8080", "http://[::1]:8080"),
        ("::1", "http://[::1]:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("192.168.1.9/ollama/", "http://192.168.1.9:11434/ollama"),
        (' "gpu" ', "http://gpu:11434"),
        ("http://gpu", "http://gpu"),
        ("http://gpu:11434/", "http://gpu:11434"),
        ("https://ollama.example.com", "https://ollama.example.com"),
    ],
)
def test_ollamas_address_may_be_written_as_ollama_itself_reads_it(text: str, url: str) -> None:
    assert ollama_address(text).url == url


@pytest.mark.parametrize("text", ["gpu:port", "ftp://gpu", "me:pw@gpu", "8.8.8.8", "a b"])
def test_what_is_no_address_of_ollama_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        ollama_address(text)


# -- prefixes ------------------------------------------------------------------------------

SENTENCE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("nomic-embed-text", QUERY, PASSAGE),
        ("nomic-embed-text:latest", QUERY, PASSAGE),
        ("nomic-ai/nomic-embed-text-v1.5-Q", QUERY, PASSAGE),
        ("text-embedding-nomic-embed-text-v1.5@q8_0", QUERY, PASSAGE),
        ("intfloat/multilingual-e5-small", "query: ", "passage: "),
        ("e5-base-v2", "query: ", "passage: "),
        ("multilingual_e5_large.gguf", "query: ", "passage: "),
        ("bge-small-en-v1.5", SENTENCE, ""),
        ("BAAI/bge-large-en-v1.5", SENTENCE, ""),
        ("bge-large:335m", SENTENCE, ""),
        ("bge-m3", "", ""),
        ("BAAI/bge-small-zh-v1.5", "", ""),
        ("snowflake-arctic-embed:33m", SENTENCE, ""),
        ("Snowflake/snowflake-arctic-embed-m-v1.5", SENTENCE, ""),
        ("snowflake-arctic-embed2", "query: ", ""),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "query: ", ""),
        ("mxbai-embed-large:latest", SENTENCE, ""),
        ("embeddinggemma:300m", "task: search result | query: ", "title: none | text: "),
        ("all-minilm", "", ""),
        ("text-embedding-3-small", "", ""),
        ("code5-model", "", ""),
    ],
)
def test_a_model_gets_the_prefixes_it_was_trained_with(
    model: str, query: str, passage: str
) -> None:
    assert prefixes_of(model) == Prefixes(query, passage)


@pytest.mark.parametrize("model", ["qwen3-embedding:0.6b", "Qwen/Qwen3-Embedding-0.6B"])
def test_models_that_take_instructions_get_one_for_queries_alone(model: str) -> None:
    prefixes = prefixes_of(model)
    assert prefixes.query.startswith("Instruct: ")
    assert prefixes.query.endswith("\nQuery:")
    assert prefixes.passage == ""
    assert prefixes_of("multilingual-e5-large-instruct").query.endswith("\nQuery: ")


def test_prefixes_that_differ_have_different_identities() -> None:
    assert prefixes_of("all-minilm").identity == ""
    known = {prefixes_of(name).identity for name in ("e5", "arctic-embed2", "mxbai-embed", "x")}
    assert len(known) == 4


# -- doctor --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "model", "level", "code"),
    [
        (ollama, None, "ok", ""),
        (ollama, "nomic-embed-text:latest", "ok", ""),
        (ollama, "bge-m3", "error", "unknown_model"),
        (openai, None, "ok", ""),
        (openai, "gone", "warning", "unknown_model"),
        (custom, None, "ok", ""),
        (custom, "gone", "warning", "unknown_model"),
    ],
)
def test_doctor_is_told_whether_server_and_model_are_there(
    server: EmbeddingServer, make: Make, model: str | None, level: str, code: str
) -> None:
    [finding] = make(server, model).check()
    assert (finding.check, finding.level) == ("embedder", level)
    assert finding.code == code
    assert [request.method for request in server.requests] == ["GET"]


@every_provider
@pytest.mark.parametrize("fault", ["refuse", "401", "html", "500"])
def test_doctor_is_told_what_is_wrong_with_a_server(
    server: EmbeddingServer, make: Make, fault: str
) -> None:
    server.fault = fault
    [finding] = make(server, key=lambda _: KEY).check()
    assert finding.level == "error"
    assert str(server.port) in str(finding.message)
    assert KEY not in str(finding.message)


def test_doctor_lives_with_a_server_that_does_not_list_its_models(server: EmbeddingServer) -> None:
    [finding] = Custom(f"{server.url}/other").check()
    assert finding.level == "ok"
    [finding] = Ollama(url=f"{server.url}/other").check()
    assert finding.level == "error"


def test_doctor_does_not_ask_openai_without_a_key() -> None:
    [finding] = OpenAI().check()
    assert (finding.level, finding.code) == ("error", "no_key")
    assert finding.advice == advise("set_key", provider="openai")


# -- by name -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "options", "space"),
    [
        (
            "ollama",
            EmbedderOptions(ollama_url="gpu"),
            ("ollama", "nomic-embed-text", "http://gpu:11434"),
        ),
        ("ollama", EmbedderOptions(model="bge-m3"), ("ollama", "bge-m3", "http://localhost:11434")),
        ("ollama:a:7b", EmbedderOptions(model="b"), ("ollama", "a:7b", "http://localhost:11434")),
        (
            "openai",
            EmbedderOptions(),
            ("openai", "text-embedding-3-small", "https://api.openai.com/v1"),
        ),
        (
            "openai:text-embedding-ada-002",
            EmbedderOptions(),
            ("openai", "text-embedding-ada-002", "https://api.openai.com/v1"),
        ),
        (
            "custom:http://localhost:1234/v1#m",
            EmbedderOptions(model="b"),
            ("custom", "m", "http://localhost:1234/v1"),
        ),
        (
            "custom:https://e.example/v1/embeddings",
            EmbedderOptions(model="b"),
            ("custom", "b", "https://e.example/v1"),
        ),
    ],
)
def test_a_provider_is_opened_by_its_name_without_asking_anybody(
    spec: str, options: EmbedderOptions, space: tuple[str, str, str]
) -> None:
    opened = open_embedder(spec, options).space
    assert (opened.provider, opened.model, opened.host) == space


@pytest.mark.parametrize(
    "spec", ["custom", "custom:", "custom:#m", "custom:nonsense", "custom:http://a:b@c/v1"]
)
def test_a_custom_server_needs_an_address(spec: str) -> None:
    with pytest.raises(ConfigError):
        open_embedder(spec)


def test_the_options_reach_the_provider(server: EmbeddingServer) -> None:
    options = EmbedderOptions(ollama_url=server.url, key=lambda _: KEY, dims=DIMS)
    embedder = open_embedder("ollama", options)
    assert embedder.dims == DIMS
    embedder.embed(["text"], "query")
    assert server.requests[0].body["dimensions"] == DIMS
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


@every_provider
def test_a_text_that_the_server_refuses_does_not_keep_the_others_waiting(
    make: Make, server: EmbeddingServer
) -> None:
    server.fault = "poison"
    texts = [f"text {number}" for number in range(20)]
    texts[7] = "a drop of poison"
    vectors = make(server).embed(texts, "passage")
    assert [vector is None for vector in vectors] == [number == 7 for number in range(20)]
    with pytest.raises(EmbedderError, match=r"NaN|bad input"):
        make(server).embed(["poison"], "passage")
    with pytest.raises(EmbedderError):
        make(server).embed(["poison"], "query")


@every_provider
def test_a_server_that_refuses_every_text_is_not_asked_about_each(
    make: Make, server: EmbeddingServer
) -> None:
    server.fault = "400"
    with pytest.raises(EmbedderError):
        make(server).embed([f"text {number}" for number in range(64)], "passage")
    assert len(server.requests) < 32


def test_a_key_that_cannot_be_read_is_a_finding_and_not_the_end_of_doctor(
    server: EmbeddingServer,
) -> None:
    def broken(_: str) -> str:
        raise ConfigError("keys.json is damaged.", code="damaged_keys")

    [finding] = openai(server, key=broken).check()
    assert (finding.level, finding.code) == ("error", "damaged_keys")


def test_openai_reads_no_text_before_there_is_a_key() -> None:
    keyless = OpenAI(limits=LIMITS)
    with pytest.raises(EmbedderError, check=has_code("no_key", "openai")):
        keyless.embed(["secret plans"], "passage")


@every_provider
def test_a_text_that_crashes_the_model_does_not_keep_the_others_waiting(
    make: Make, server: EmbeddingServer
) -> None:
    server.fault = "crash"
    texts = [f"text {number}" for number in range(20)]
    texts[0] = texts[9] = texts[19] = "a drop of poison"
    vectors = make(server).embed(texts, "passage")
    lost = [number for number, unit in enumerate(vectors) if unit is None]
    assert lost == [0, 9, 19]
