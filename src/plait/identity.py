"""Under which rules a memory was cut, indexed and embedded, and whether they are today's."""

from plait.protocols import Embedder, Store
from plait.types import Cut


def cut_of(store: Store | None, wanted: Cut, *, chosen: bool) -> Cut:
    """As was chosen; where nobody chose, as the memory was cut before."""
    built = store.meta("chunker") if store is not None and not chosen else None
    if built is not None:
        rules, size, overlap = map(int, built.split(":"))
        if rules == Cut().rules:
            return Cut(size, overlap)
    return wanted


def note(store: Store, cut: Cut, embedder: Embedder) -> None:
    """Write down the rules of a memory's first write, which decide from there on."""
    for name, value in (
        ("chunker", cut.identity),
        ("analyzer", store.analyzer),
        # What has vectors says itself whose they are; having none can be a decision too.
        ("embedder", embedder.space.spec),
    ):
        if store.meta(name) is None:
            store.set_meta(name, value)


def warnings(store: Store, cut: Cut, embedder: Embedder) -> list[str]:
    """What was made under other rules than today's; a reindex mends it."""
    found = []
    chunker = store.meta("chunker")
    if chunker is not None and chunker != cut.identity:
        found.append(
            f"Passages were cut by {chunker}, the settings now say {cut.identity}. "
            "Run: plait reindex"
        )
    analyzer = store.meta("analyzer")
    if analyzer is not None and analyzer != store.analyzer:
        found.append(f"Words were indexed by {analyzer}, not {store.analyzer}. Run: plait reindex")
    space = store.space()
    if space is not None and embedder.dims != 0 and space != embedder.space:
        found.append(
            f"Vectors were made by {space.beside(embedder.space)}, the embedder is now "
            f"{embedder.space.beside(space)}. Run: plait reindex"
        )
    return found
