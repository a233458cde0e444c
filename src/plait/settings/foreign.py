"""Settings of other memories in a file that is read as plait's: accepted, and told once.

ZeroClaw has the same table ``[memory]``, and a person may keep one file for both. Names that mean
the same as one of plait's are refused instead, with the right name: to ignore them would use
another model or file than the person asked for.
"""

from collections.abc import Iterable
from typing import Any

from plait.errors import ConfigError, Notice
from plait.settings.schema import FOREIGN_NAMES, SETTINGS, closest

# Names that have no effect here, and what does the same; empty: nothing does.
_ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        (
            *("conversation_retention_days", "daily_retention_days", "core_retention_days"),
            *("audit_retention_days", "policy"),
        ),
        "keep_days",
    ),
    "archive_after_days": "archive_days",
    "purge_after_days": "delete_archived_days",
    **dict.fromkeys(("core_max_rows", "daily_max_rows", "evict_order"), "keep_most"),
    "core_max_bytes": "keep_mb",
    "response_cache_hot_entries": "response_cache_max_entries",
    "hygiene_enabled": "maintain_hours",
    **dict.fromkeys(("snapshot_enabled", "snapshot_on_hygiene"), "plait export --format markdown"),
    "auto_reindex_on_identity_change": "auto_reindex",
    "search_mode": "--mode",
    "candidate_multiplier": "expansion_factor",
    **dict.fromkeys(("importance_weight", "recency_weight"), "limbic_constants"),
    **dict.fromkeys(("rerank_enabled", "rerank_threshold", "rerank_strategy"), "--diverse"),
    "mmr_lambda": "--diverse",
    "chunk_max_tokens": "chunk_size",
    "default_namespace": "project",
    **dict.fromkeys(("pin_namespaces", "pin_min_importance"), "--pinned"),
    **dict.fromkeys(
        (
            *("retrieval_stages", "fts_early_return_score", "conflict_threshold"),
            *("conflict_supersede_enabled", "dedup_on_write", "dedup_jaccard_threshold"),
            *("dedup_action", "audit_enabled", "types", "consolidation_extract_facts"),
            "qdrant",
        ),
        "",
    ),
}


def without_foreign(table: dict[str, Any], path: str, warnings: list[Notice]) -> dict[str, Any]:
    """Return the settings of a file without those of other programs, and warn of these once."""
    foreign = [name for name in table if name in _ELSEWHERE]
    if not foreign:
        return table
    listed = []
    for wanted in dict.fromkeys(_ELSEWHERE[name] for name in foreign):
        names = ", ".join(name for name in foreign if _ELSEWHERE[name] == wanted)
        listed.append(f"{names} (plait has {wanted})" if wanted else f"{names} (plait has none)")
    text = f"Ignored in {path}, settings of another program: {'; '.join(listed)}."
    warnings.append(Notice(text, "foreign_settings", path))
    return {name: value for name, value in table.items() if name not in _ELSEWHERE}


def refuse_unknown(names: Iterable[str], path: str) -> None:
    """Refuse unknown settings of a file, all at once; a single one is refused where it is parsed.

    Raises:
        ConfigError: There are several.
    """
    unknown = [name for name in names if name not in SETTINGS]
    if len(unknown) > 1:
        listed = []
        for name in unknown:
            meant = FOREIGN_NAMES.get(name) or closest(name, SETTINGS)
            listed.append(f"'{name}'" + (f" (did you mean {meant}?)" if meant else ""))
        raise ConfigError(
            f"Unknown settings in {path}: {', '.join(listed)}.",
            code="unknown_setting",
            subject=unknown[0],
        )
