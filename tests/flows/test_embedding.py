"""Somebody else's model: cached, checked, and never mixed with what it was before."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from plait.embedders import CANARY
from plait.embedders.cached import BACKLOG, QUERIES_KEPT, CachedEmbedder
from plait.errors import Advice, EmbedderError, Notice, advise
from plait.memory import Memory
from plait.protocols import Store, Vector
from plait.stores.sqlite.store import SQLiteStore
from plait.testing import HashingEmbedder, InMemoryStore
from plait.types import Document, Space, TextKind
from plait.types.reports import Finding
from plait.writing.backfill import ON_THE_SIDE
from tests.builders import EVERYTHING, begin, cosines, fill, vector
from tests.codes import has_code


class Rented(HashingEmbedder):
    """An external model that counts what it is asked; ``turned`` is another under its name."""

    def __init__(self, dims: int = 64, *, name: str = "tag", turned: bool = False) -> None:
        super().__init__(dims)
        self.space = Space("rented", name, dims)
        self.tuning = self.tuning._replace(external=True)
        self.turned = turned
        self.down = False
        self.asked: list[str] = []
        self.findings: list[Finding] = []

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if self.down:
            raise EmbedderError("nobody at home")
        self.asked += texts
        vectors = super().embed(texts, kind)
        if not self.turned:
            return vectors
        return [None if row is None else Vector("f", reversed(row)) for row in vectors]

    def check(self) -> list[Finding]:
        return self.findings


class Blind(Rented):
    """A model that does not know its own dimensions before its first answer."""

    def __init__(self) -> None:
        super().__init__()
        self._real = self.dims
        self.dims = None  # type: ignore[assignment]
        self.space = Space("rented", "blind", 0)

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        if not self.down:
            self.dims = self._real
            self.space = Space("rented", "blind", self._real)
        return super().embed(texts, kind)


def opened(path: Path, rented: Rented) -> Memory:
    return Memory.open(path, embedder=rented, project="")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


# -- the cache ---------------------------------------------------------------------------------


def test_a_text_that_comes_again_is_not_sent_again(place: Path) -> None:
    first, second = Rented(), Rented()
    with opened(place, first) as memory:
        memory.store("We deploy on Fridays")
        memory.store("Keys are rotated monthly", key="keys")
        memory.delete("keys")
    with opened(place, second) as memory:
        memory.store("Keys are rotated monthly", key="keys")
        assert [hit.doc_id for hit in memory.search("rotated", mode="vector", limit=1)] == ["keys"]
    assert CANARY in first.asked
    assert "Keys are rotated monthly" not in "".join(second.asked)


def test_a_query_that_comes_again_is_not_sent_again_even_by_another_process(place: Path) -> None:
    first, second = Rented(), Rented()
    with opened(place, first) as memory:
        memory.store("We deploy on Fridays")
        memory.search("when do we deploy")
        memory.search("when do we deploy")
    assert first.asked.count("when do we deploy") == 1
    with opened(place, second) as memory:
        answer = memory.search("when do we deploy")
        assert answer.receipt.mode_used == "hybrid"
    assert second.asked == []


def test_a_server_that_never_closes_its_memory_caches_queries_too(place: Path) -> None:
    second = Rented()
    with opened(place, Rented()) as memory:
        memory.store("We deploy on Fridays", key="deploys")
        memory.search("when do we deploy")
        memory.get("deploys")
        memory.write_down_use()
        with opened(place, second) as other:
            other.search("when do we deploy")
    assert second.asked == []


def test_queries_and_passages_and_spaces_do_not_share_vectors(store: SQLiteStore) -> None:
    own, other = Rented(), Rented(name="other")
    cached = CachedEmbedder(own, store, 10)
    cached.embed(["tea"], "passage")
    cached.flush()
    assert cached.cached_query("tea") is None
    stranger = CachedEmbedder(other, store, 10)
    stranger.embed(["tea"], "passage")
    assert "tea" in other.asked


def sqlite_at(clock: Callable[[], int]) -> Store:
    return SQLiteStore(":memory:", clock=clock)


def dictionaries_at(clock: Callable[[], int]) -> Store:
    return InMemoryStore(clock=clock)


@pytest.mark.parametrize("engine", [sqlite_at, dictionaries_at])
def test_the_least_used_vectors_go_first_and_in_batches(
    engine: Callable[[Callable[[], int]], Store],
) -> None:
    now = 0
    store = engine(lambda: now)

    def cache(vectors: dict[str, Vector], used: Sequence[str] = ()) -> None:
        with store.transaction() as transaction:
            transaction.cache(vectors, used, 5)

    names = [f"text {number}" for number in range(8)]
    for moment, name in enumerate(names):
        now = moment
        cache({name: vector(float(moment), 1.0)})
    assert set(store.cached(names)) == set(names[3:])
    now = 100
    cache({}, [names[3]])
    cache({"new": vector(1.0, 0.0)})
    assert set(store.cached([*names, "new"])) == {names[3], *names[5:], "new"}
    store.close()


def test_the_cache_can_be_switched_off(place: Path) -> None:
    rented = Rented()
    config = Memory.open(place, embedder="none").config
    off = config._replace(settings=config.settings._replace(cache_size=0))
    for _ in range(2):
        with Memory.open(embedder=rented, config=off) as memory:
            memory.store("tea at four", key="tea")
            memory.search("tea")
            memory.delete("tea")
    assert rented.asked.count("tea") == 2
    assert sum("tea at four" in text for text in rented.asked) == 2


def test_a_busy_memory_keeps_nothing_and_says_nothing(place: Path) -> None:
    with opened(place, Rented()) as memory, opened(place, Rented()) as other:
        memory.store("tea at four")
        memory.embedder.flush()
        with other.engine.transaction():
            memory.embedder.embed(["coffee at five"], "passage")
            memory.embedder.flush()
        memory.embedder.flush()
    with opened(place, rented := Rented()) as memory:
        memory.embedder.embed(["coffee at five"], "passage")
    assert "coffee at five" in rented.asked


def test_a_purge_empties_the_cache(place: Path) -> None:
    with opened(place, Rented()) as memory:
        memory.store("the password is swordfish", key="secret")
        memory.search("swordfish")
        memory.embedder.flush()
        store = memory.engine
        assert isinstance(store, SQLiteStore)
        count = "SELECT count(*) FROM embedding_cache"
        assert store._connections.get().execute(count).get
        memory.delete("secret", purge=True)
        assert not store._connections.get().execute(count).get


def test_only_so_many_queries_are_kept_in_the_process(place: Path) -> None:
    rented = Rented()
    with opened(place, rented) as memory:
        memory.store("We deploy on Fridays")
        cached = CachedEmbedder(rented, memory.engine, 0)
        for number in range(QUERIES_KEPT + 1):
            cached.cached_query(f"question {number}")
            cached.embed([f"question {number}"], "query")
        assert cached.cached_query("question 0") is None
        assert cached.cached_query(f"question {QUERIES_KEPT}") is not None


def test_a_text_twice_in_a_batch_is_sent_once(store: SQLiteStore) -> None:
    rented = Rented()
    first, second, third = CachedEmbedder(rented, store, 10).embed(["a b", "c d", "a b"], "passage")
    assert first == third != second
    assert rented.asked.count("a b") == 1


def test_a_long_ingest_writes_its_cache_on_the_way(place: Path) -> None:
    texts = [f"text {number}" for number in range(BACKLOG + 1)]
    with opened(place, Rented()) as memory:
        memory.store("We deploy on Fridays")
        CachedEmbedder(Rented(), memory.engine, 1_000).embed(texts, "passage")
        again = CachedEmbedder(quiet := Rented(), memory.engine, 1_000)
        again.embed(texts, "passage")
        assert quiet.asked == []


# -- the canary --------------------------------------------------------------------------------


def test_a_model_swapped_under_its_name_is_noticed_and_not_mixed(place: Path) -> None:
    with opened(place, Rented()) as memory:
        memory.store("We deploy on Fridays", key="deploy")
    with opened(place, Rented(turned=True)) as memory:
        stored = memory.store("Keys are rotated monthly", key="keys")
        assert stored.pending == 1
        assert stored.trouble is not None
        assert stored.trouble.code == "model_changed"
        assert [hit.doc_id for hit in memory.search("rotated", mode="keyword")] == ["keys"]
        assert memory.stats().embedded_count == 1
        [finding] = [row for row in memory.doctor() if row.check == "embedder"]
        assert finding.level == "error"
        assert finding.advice == advise("reindex_embeddings")


def test_a_reindex_of_all_vectors_takes_the_model_as_it_is_now(place: Path) -> None:
    with opened(place, Rented()) as memory:
        memory.store("We deploy on Fridays", key="deploy")
    with opened(place, Rented(turned=True)) as memory:
        assert memory.reindex().trouble is not None
        done = memory.reindex(embeddings=True)
        assert (done.trouble, done.embedded, done.swapped) == (None, 1, True)
        memory.store("Keys are rotated monthly", key="keys")
        assert memory.stats().pending_count == 0
    with opened(place, Rented(turned=True)) as memory:
        assert [finding.level for finding in memory.doctor() if finding.check == "embedder"] == [
            "ok"
        ]


def test_a_reindex_that_died_goes_on_only_with_the_model_that_began_it(place: Path) -> None:
    with opened(place, Rented()) as memory:
        for number in range(3):
            memory.store(f"fact number {number}", key=f"k{number}")
    turned = Rented(turned=True)
    with opened(place, turned) as memory:
        # As far as a kill after the first batch would have come.
        store, embedder = memory.engine, memory.embedder
        begin(store, turned.space, afresh=True, sample=embedder.learn(afresh=True).sample)
        row = store.pending(turned.space, 1, building=True)[0]
        vectors = embedder.embed([row.text], "passage")
        fill(store, [(row.ref, vectors[0])], turned.space, building=True)
        embedder.flush()
    with opened(place, Rented()) as memory:
        trouble = memory.reindex().trouble
        assert trouble is not None
        assert trouble.code == "model_changed"
        # The vectors that answer are still the old model's, and so is this one.
        assert memory.store("one more fact", key="more").pending == 0
    with opened(place, Rented(turned=True)) as memory:
        assert memory.store("yet another", key="another").pending == 1
        done = memory.reindex()
        assert (done.trouble, done.swapped) == (None, True)
        assert memory.stats().pending_count == 0


def test_the_first_search_of_a_process_asks_for_the_sample_and_the_next_do_not(
    place: Path,
) -> None:
    with opened(place, Rented()) as memory:
        memory.store("We deploy on Fridays")
    with opened(place, rented := Rented()) as memory:
        for query in ("deploy when", "deploy where"):
            assert memory.search(query).receipt.degraded == ()
    assert rented.asked == ["deploy when", CANARY, "deploy where"]


def test_an_embedder_that_gives_no_vector_for_a_sentence_is_no_embedder(place: Path) -> None:
    class Mute(Rented):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            return [None] * len(texts)

    with opened(place, Mute()) as memory:
        stored = memory.store("We deploy on Fridays")
        assert stored.pending == 1
        assert stored.trouble is not None
        assert stored.trouble.code == "no_vector"


def test_doctor_tells_what_the_embedder_says_of_itself(place: Path) -> None:
    rented = Rented()
    rented.findings = [Finding("ollama", "error", "not reachable")]
    with opened(place, rented) as memory:
        memory.store("We deploy on Fridays")
        rented.asked.clear()
        assert rented.findings[0] in memory.doctor()
    assert rented.asked == []  # what is not there is not asked for samples


# -- dimensions that only the first answer tells ------------------------------------------------


def test_a_model_of_unknown_size_works_from_the_first_text_on(place: Path) -> None:
    with opened(place, Blind()) as memory:
        assert memory.store("We deploy on Fridays").pending == 0
        assert memory.search("deploys", mode="vector").receipt.mode_used == "vector"
    with opened(place, Blind()) as memory:
        done = memory.reindex(embeddings=True)
        assert (done.trouble, done.embedded) == (None, 1)


def test_all_passages_wait_while_a_model_of_unknown_size_is_down(place: Path) -> None:
    blind = Blind()
    blind.down = True
    with opened(place, blind) as memory:
        assert memory.store("We deploy on Fridays").pending == 1
        assert memory.reindex().trouble == Notice("nobody at home", "embedder_failed")
        answer = memory.search("fridays")
        assert [hit.text for hit in answer] == ["We deploy on Fridays"]
        assert [notice.code for notice in answer.receipt.degraded] == ["no_vectors"]
        blind.down = False
        assert memory.reindex().embedded == 1
        assert memory.search("fridays").receipt.degraded == ()


def test_an_embedder_of_an_application_may_learn_its_size_too(store: SQLiteStore) -> None:
    blind = Blind()
    blind.learn()
    assert blind.dims == 64
    known = HashingEmbedder()
    known.learn()


# -- another embedder ---------------------------------------------------------------------------


@pytest.mark.parametrize(("switch", "model"), [(True, "other"), (False, "tag")])
def test_auto_reindex_follows_the_embedder_at_the_next_write(
    place: Path, switch: bool, model: str
) -> None:
    with opened(place, Rented()) as memory:
        memory.store("We deploy on Fridays")
        config = memory.config
    chosen = config._replace(settings=config.settings._replace(auto_reindex=switch))
    with Memory.open(embedder=Rented(name="other"), config=chosen) as memory:
        [notice] = memory.outdated_rules()
        assert (notice.code, notice.advice) == ("other_embedder", advise("reindex"))
        memory.store("Keys are rotated monthly")
        space = memory.engine.state().space
        assert space is not None
        assert space.model == model
        assert memory.stats().pending_count == (0 if switch else 1)
        assert bool(memory.outdated_rules()) is not switch


@pytest.mark.parametrize(
    ("provider", "code", "advice"),
    [
        ("openai", "server_not_chosen", advise("choose_embedder")),
        ("rented", "foreign_vectors", None),
    ],
)
def test_a_memory_from_elsewhere_does_not_make_us_send_text_away(
    place: Path, provider: str, code: str, advice: Advice | None
) -> None:
    rented = Rented()
    rented.space = rented.space._replace(provider=provider)
    with opened(place, rented) as memory:
        memory.store("We deploy on Fridays")
    with Memory.open(place, project="") as memory:
        answer = memory.search("deploy")
        assert [hit.text for hit in answer] == ["We deploy on Fridays"]
        reason = memory.embedder.reason
        assert reason is not None
        assert (reason.code, reason.subject, reason.advice) == (code, f"{provider}:tag", advice)
        [notice] = answer.receipt.degraded
        assert notice[1:] == reason[1:]
        assert reason.text in notice.text


def test_a_space_of_unknown_size_is_not_begun(store: SQLiteStore) -> None:
    with pytest.raises(EmbedderError, check=has_code("unknown_dims")):
        begin(store, Blind().space)
    state = store.state()
    assert (state.space, state.building) == (None, None)
    assert state.sample_of(Rented().space) is None


# -- what a swapped model could still spoil -----------------------------------------------------


def test_after_all_vectors_are_made_anew_nothing_of_the_old_model_is_taken_from_the_cache(
    place: Path,
) -> None:
    with opened(place, Rented()) as memory:
        for number in range(4):
            memory.store(f"fact number {number}", key=f"k{number}")
        memory.search("fact three")
        memory.delete("k3")
    turned = Rented(turned=True)
    with opened(place, turned) as memory:
        memory.reindex(embeddings=True)
        memory.search("fact three")
        assert "fact three" in turned.asked
    with opened(place, turned) as memory:
        memory.store("fact number 3", key="k3")
        assert turned.asked.count("k3\nfact number 3") == 1
        answer = memory.search("k3 fact number 3", mode="vector", limit=1)
        assert (answer[0].doc_id, round(answer[0].signals.cosine or 0, 1)) == ("k3", 1.0)


def test_what_one_model_began_anew_another_does_not_finish(place: Path) -> None:
    with opened(place, Rented()) as memory:
        for number in range(3):
            memory.store(f"fact number {number}", key=f"k{number}")
    turned = Rented(turned=True)
    with opened(place, turned) as memory:
        store, embedder = memory.engine, memory.embedder
        begin(store, turned.space, afresh=True, sample=embedder.learn(afresh=True).sample)
        row = store.pending(turned.space, 1, building=True)[0]
        vectors = embedder.embed([row.text], "passage")
        fill(store, [(row.ref, vectors[0])], turned.space, building=True)
    with opened(place, back := Rented()) as memory:
        done = memory.reindex(embeddings=True)
        assert (done.trouble, done.embedded, done.swapped) == (None, 3, True)
        for number in range(3):
            [asked] = back.embed([f"k{number}\nfact number {number}"], "query")
            assert asked is not None
            refs = [
                passage.ref for passage in memory.passages_of(memory.lookup(f"k{number}")[0].id)
            ]
            [near] = cosines(memory.engine, asked, refs, back.space).values()
            assert near > 0.99


def test_a_model_swapped_while_the_memory_is_open_is_noticed_by_the_next_act(place: Path) -> None:
    rented = Rented()
    with opened(place, rented) as memory:
        memory.store("We deploy on Fridays")
        rented.turned = True
        stored = memory.store("Keys are rotated monthly")
        assert stored.pending == 1
        for trouble in (stored.trouble, memory.reindex().trouble):
            assert trouble is not None
            assert trouble.code == "model_changed"
        [finding] = [row for row in memory.doctor() if row.check == "embedder"]
        assert (finding.level, finding.advice) == ("error", advise("reindex_embeddings"))


def test_the_sample_is_there_from_the_first_vector_on(place: Path) -> None:
    rented = Rented()
    memory = opened(place, rented)
    memory.store("We deploy on Fridays")
    # Not closed, as after a kill: another process sees what was committed.
    with opened(place, Rented()) as other:
        assert other.engine.state().sample_of(rented.space) is not None
    memory.close()


def test_text_is_found_while_the_model_still_thinks(place: Path) -> None:
    class Slow(Rented):
        def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
            if kind == "passage":
                with Memory.open(place, embedder="none", project="") as other:
                    self.seen = [hit.text for hit in other.search("fridays")]
            return super().embed(texts, kind)

    slow = Slow()
    with opened(place, slow) as memory:
        assert memory.store("We deploy on Fridays").pending == 0
    assert slow.seen == ["We deploy on Fridays"]


def test_a_process_that_was_first_learns_from_one_that_wrote(place: Path) -> None:
    with opened(place, Blind()) as early, opened(place, Blind()) as writer:
        assert list(early.search("fridays")) == []
        writer.store("We deploy on Fridays")
        assert early.search("fridays").receipt.degraded == ()


def test_an_embedder_that_is_given_is_not_replaced_by_the_settings(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLAIT_EMBEDDING_PROVIDER", "builtin")
    with opened(place, Blind()) as memory:
        memory.store("We deploy on Fridays")
        assert memory.embedder.space.provider == "rented"


def test_what_waits_is_told_until_it_is_done(tmp_path: Path, place: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.md").write_text("We deploy on Fridays", encoding="utf-8")
    blind = Blind()
    blind.down = True
    with opened(place, blind) as memory:
        assert [memory.ingest(notes).pending for _ in range(2)] == [1, 1]
        assert memory.engine.state().space is None
        blind.down = False
        assert memory.ingest(notes).pending == 0
        assert memory.stats().embedded_count == 1


def test_a_store_makes_up_for_some_of_what_waits_and_an_ingest_for_all(
    tmp_path: Path, place: Path
) -> None:
    waiting = 3 * ON_THE_SIDE
    with opened(place, Rented()) as memory:
        memory.store("the first")
    down = Rented()
    down.down = True
    with opened(place, down) as memory:
        memory.store_many(Document(key=f"k{n}", text=f"fact {n}") for n in range(waiting))
        assert memory.stats().pending_count == waiting
    with opened(place, Rented()) as memory:
        memory.store("one more", key="more")
        left = memory.stats().pending_count
        assert waiting - 2 * ON_THE_SIDE < left < waiting
        (tmp_path / "notes").mkdir()
        memory.ingest(tmp_path / "notes")
        assert memory.stats().pending_count == 0


def test_a_search_beside_a_reindex_does_not_relabel_what_is_cached(place: Path) -> None:
    with opened(place, Rented()) as memory:
        memory.store("fact number 1", key="k1")
    with opened(place, turned := Rented(turned=True)) as memory:
        cached = memory.embedder
        cached.learn(afresh=True)
        cached.cached_query("a question")
        cached.embed(["something else"], "passage")
        cached.flush()
    # The old model's memory must not be given what the new one made.
    with opened(place, old := Rented()) as memory:
        memory.embedder.embed(["something else"], "passage")
    assert "something else" in turned.asked
    assert "something else" in old.asked


# -- edited while it is embedded ------------------------------------------------------------


class Edited(Rented):
    """Answers after somebody has stored the note again."""

    def __init__(self, edit: Callable[[], object]) -> None:
        super().__init__()
        self._edit: Callable[[], object] | None = edit

    def embed(self, texts: Sequence[str], kind: TextKind) -> Sequence[Vector | None]:
        edit, self._edit = self._edit, None
        if edit is not None and CANARY not in texts:
            edit()
        else:
            self._edit = edit
        return super().embed(texts, kind)


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "Garden"},
        {"text": "Roses need much water"},
        {"title": "Garden", "tags": ["x"]},
        {"tags": ["x"]},
    ],
    ids=["title", "text", "title and tags", "tags"],
)
@pytest.mark.parametrize("act", ["store", "reindex"])
def test_a_note_edited_while_it_is_embedded_gets_the_vector_of_what_it_says(
    tmp_path: Path, act: str, fields: dict[str, Any]
) -> None:
    path = tmp_path / "m.db"
    note: dict[str, Any] = {"text": "Tomatoes need sun", "key": "k", "title": "Kitchen"}

    def edit() -> None:
        with Memory.open(path, embedder="none", project="") as other:
            other.store(**{**note, **fields})

    if act == "reindex":
        with Memory.open(path, embedder=Rented(), project="") as memory:
            memory.store(**note)
    model = Edited(edit)
    with Memory.open(path, embedder=model, project="") as memory:
        if act == "store":
            memory.store(**note)
        else:
            memory.reindex(embeddings=True)
        memory.store("Another text", key="later")  # what is still pending follows
        store = memory.engine
        assert store.state().pending == 0
        [(document, _)] = store.find("k", EVERYTHING)
        [passage] = store.passages(document.id)
        [says] = Rented().embed([f"{document.title}\n{passage.text}"], "passage")
        assert says is not None
        [cosine] = cosines(store, says, [passage.ref], model.space).values()
        assert cosine > 0.99
