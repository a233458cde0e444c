"""Settings that cannot act together with others: each is told in one sentence, none is refused.

Loaded only if somebody changed a setting that may be affected.
"""

from collections.abc import Iterable

from plait.errors import Advice, Notice, advise
from plait.settings.loading import changed
from plait.settings.schema import OF_EMBEDDER, OF_OLLAMA, OF_SEARCH, Origins, Settings, of_ollama

# The origin of a value that a caller of `Memory.search` passed.
OF_CALL = "this call"


def without_effect_on_embedder(
    settings: Settings, origins: Origins, spec: str, *, external: bool
) -> list[Notice]:
    """Return which settings of embedders cannot act on the one in use, ``spec``."""
    provider = spec.partition(":")[0]
    idle = set(OF_EMBEDDER) if not external else set()
    if provider != "ollama":
        idle.add("ollama_url")
    if provider == "fastembed":
        idle |= {"ollama_url", "api_key"}
        idle -= {"model", "dims"}
    kind, _, rest = (settings.embedding_provider or "").partition(":")
    named = rest.partition("#")[2] if kind == "custom" else rest
    if named not in ("", settings.model):
        idle.add("model")
    idle -= set(OF_OLLAMA) - set(of_ollama(settings))
    idle &= set(changed(origins, OF_EMBEDDER))
    advice = None
    if settings.embedding_provider is None and idle & set(OF_OLLAMA):
        wanted = f"ollama:{settings.model}" if settings.model else "ollama"
        advice = advise("reindex_with", embedder=wanted)
    return _notices(sorted(idle), origins, f"the embedder is {spec}", advice)


def without_effect_on_search(
    settings: Settings,
    origins: Origins,
    *,
    fusion: str,
    mode: str,
    branch: str | None = None,
    weights: tuple[float | None, float | None],
    candidates: int,
    fewest: int,
) -> list[Notice]:
    """Return which settings and arguments cannot act on a search.

    Args:
        settings: All settings.
        origins: Where they come from; an argument of the call comes from `OF_CALL`.
        fusion: How the search merges its branches.
        mode: Its mode.
        branch: The only branch that ran, if not both did.
        weights: Of keyword and vector search, if given.
        candidates: How many candidates ``expansion_factor`` asks for.
        fewest: How many each branch fetches at least.
    """
    given = changed(origins, OF_SEARCH)
    # One that was only completed to 1 is not the user's.
    pair = [name for name in given if name.endswith("_weight") and origins[name][0] != "1"]
    # subtle: a weight of 0 switches its branch off in every fusion.
    both = all(weight is None or weight > 0.0 for weight in weights)
    notices: list[Notice] = []
    if mode != "hybrid":
        # One in a file acts on other searches; one that was typed for this search was meant to act.
        typed = [name for name in pair if _given_here(origins[name])]
        notices += _notices(typed, origins, f"the mode is {mode}")
    elif branch is not None and both:
        reason = f"only {branch} search ran"
        notices += _notices([name for name in pair if _given_here(origins[name])], origins, reason)
    elif fusion == "rrf" and both:
        notices += _notices(pair, origins, "fusion is rrf, which has no weights")
    if fusion != "rrf":
        idle = [name for name in given if name == "rrf_k"]
        idle += ["floor"] if "floor" in given and settings.floor == "rrf" else []
        notices += _notices(idle, origins, f"fusion is {fusion}")
    if fusion == "weighted" and "expansion_factor" in given and candidates <= fewest:
        reason = f"weighted fusion fetches at least {fewest} candidates, more than {candidates}"
        notices += _notices(["expansion_factor"], origins, reason)
    if "limbic_constants" in given and (not settings.limbic or fusion != "weighted"):
        reason = "limbic is off" if not settings.limbic else f"fusion is {fusion}"
        notices += _notices(["limbic_constants"], origins, reason)
    return notices


def _given_here(origin: str) -> bool:
    """Tell whether a value was given for this search."""
    return origin.startswith(("flag ", OF_CALL))


def _notices(
    names: Iterable[str], origins: Origins, reason: str, advice: Advice | None = None
) -> list[Notice]:
    return [
        Notice(f"{name} ({origins[name]}) has no effect: {reason}.", "no_effect", name, advice)
        for name in names
    ]
