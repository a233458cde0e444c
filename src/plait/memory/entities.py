"""The entities of a memory, as its settings say: `plait.graph` knows neither."""

from collections.abc import Sequence

from plait.graph import Graph
from plait.graph.semantic import EntityRanking
from plait.memory.opening import OpenMemory
from plait.ranking.use import constants_from


def graph_of(memory: OpenMemory, places: Sequence[str | None]) -> Graph:
    """Return the entities in these places, and the relations between them.

    Raises:
        NotFound: There is no memory yet.
    """
    if memory.is_off:
        from plait.graph.silent import silent_graph

        return silent_graph(memory.config.project)
    store, settings = memory._required(), memory.config.settings
    return Graph(
        store,
        memory._embedder,
        project=memory.config.project,
        places=places,
        cut=memory._cut,
        max_bytes=memory._max_bytes,
        reads=memory._reads,
        for_queries=lambda: memory._embedder_for(store, store.state()),
        ranking=EntityRanking(
            settings.expansion_factor,
            settings.rrf_k,
            constants_from(settings.limbic_constants or ()),
        ),
    )
