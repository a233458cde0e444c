"""Prune a memory by the person's rules: what they are, and how they are carried out."""

from collections.abc import Sequence
from typing import Any

from plait.errors import PlaitError, UsageError, advise
from plait.protocols import Store
from plait.settings.schema import Settings
from plait.settings.values import parse_setting
from plait.types import Document, Filter
from plait.types.reports import Deleted
from plait.writing import deleting, retention
from plait.writing.documents import now_ms
from plait.writing.retention import RetentionRules


def set_rules(settings: Settings) -> RetentionRules | None:
    """Return the rules that the person has set; ``None`` if there is none."""
    values = {name: getattr(settings, name) for name in RetentionRules._fields}
    return _rules(values) if any(value is not None for value in values.values()) else None


def rules_of(settings: Settings, given: Sequence[object]) -> RetentionRules:
    """Return the rules that were given, in the order of their fields; else those that are set.

    Raises:
        UsageError: There is no rule at all.
        ConfigError: One that was given makes no sense.
    """
    values = {
        name: getattr(settings, name) if value is None else parse_setting(name, value, "this call")
        for name, value in zip(RetentionRules._fields, given, strict=True)
    }
    if all(value is None for value in values.values()):
        raise UsageError(
            "No rule is set, such as keep_days, so everything is kept.",
            code="no_keep_days",
            subject="keep_days",
            advice=advise("set_keep_days"),
        )
    return _rules(values)


def _rules(values: dict[str, Any]) -> RetentionRules:
    """Return the values of the settings as rules: pairs by their names."""
    given = {name: value for name, value in values.items() if value is not None}
    pairs = {name: dict(value) for name, value in given.items() if isinstance(value, tuple)}
    return RetentionRules(**{**given, **pairs})


def prune(
    store: Store,
    where: Filter,
    rules: RetentionRules,
    *,
    home: str,
    dry_run: bool,
    others: retention.Others,
) -> Deleted:
    """Delete and archive what the rules say, in the project ``home``, or only list it.

    ``others`` returns which documents are other people's, and stay; it is asked again when they
    would go.
    """
    now = now_ms()
    going = retention.departing(store, where, rules, now, others)
    if dry_run:
        listed = deleting.forecast(store, going.doomed)
        return listed._replace(archived=tuple(going.archived), rules=going.counts)

    def still(row: Document) -> bool:
        return retention.is_as_listed(row, going.doomed)

    done = deleting.delete(
        store, list(going.doomed), home=home, still=still, others=others, by_rule=True
    )
    went = going._replace(rules={id_: going.rules[id_] for id_ in done.ids})
    archived: list[str] = []
    try:
        for slice_ in retention.archive(store, going.archived, now, others):
            archived += slice_
    except PlaitError as error:
        if not done.ids and not archived:
            raise
        raise deleting.partly(error, deleted=len(done.ids), archived=len(archived)) from error
    return done._replace(archived=tuple(archived), rules=went.counts)
