"""plait as the long-term store of LangGraph: `BaseStore`, for several processes at once.

An item is a note: its value is kept as JSON in the note's metadata, exact, and its text is what
can be searched. One with a time to live ends then, as a fact does that no longer holds.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from urllib.parse import quote

from plait.errors import PIP

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )
    from langgraph.store.base.embed import get_text_at_path, tokenize_path
except ModuleNotFoundError as error:
    raise ImportError(
        "plait.tools.adapters.langgraph needs LangGraph. "
        f"Run in a clone of plait: {PIP} install '.[langgraph]'"
    ) from error

from plait.errors import StoreReadOnly
from plait.facts.versions import is_over
from plait.memory import Memory
from plait.searching.search import MAX_LIMIT
from plait.times import LAST_MOMENT
from plait.tools.adapters import store_of
from plait.tools.adapters.matching import matches
from plait.types import TRUSTS, Document, Filter, Trust
from plait.types.audit import acting
from plait.types.ids import ITEM_FIELD, ITEM_PREFIX
from plait.writing import deleting
from plait.writing.documents import now_ms

_NAMESPACE, _KEY, _VALUE = "langgraph_namespace", "langgraph_key", ITEM_FIELD
_TTL = "langgraph_ttl"  # in minutes
_Name = tuple[tuple[str, ...], str]
_MINUTE_MS = 60_000
# A read prolongs an item by this share of its time to live more than it needs, so that the next
# reads need not write.
_RESERVE = 0.1


class PlaitStore(BaseStore):
    """A LangGraph store in a plait memory, with hybrid search and nothing to configure.

    Items are of the memory's project. What agents put in is not trusted unless you vouch for it
    by ``trust="trusted"``; that only matters to whoever else reads the memory.

    ``ttl`` is that of LangGraph's own stores: ``default_ttl`` and ``refresh_on_read``. What has
    expired is never returned; ``sweep_ttl`` deletes it, and with ``sweep_interval_minutes`` the
    store does so itself, when it is used.
    """

    supports_ttl = True

    def __init__(
        self, memory: Memory, *, trust: Trust = "untrusted", ttl: TTLConfig | None = None
    ) -> None:
        """Take an open memory, which the store does not close."""
        self._memory = memory
        self._trust = trust
        self.ttl_config = ttl
        self._swept_at = now_ms()

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; reads see what was there before, and the last put of a key counts."""
        puts: dict[_Name, PutOp] = {}
        results: list[Result] = []
        read: list[Document] = []
        for op in ops:
            match op:
                case GetOp():
                    results.append(self._get(op, read))
                case SearchOp():
                    results.append(self._search(op, read))
                case ListNamespacesOp():
                    results.append(self._namespaces(op))
                case PutOp():
                    puts[op.namespace, op.key] = op
                    results.append(None)
                case _:
                    raise ValueError(f"Unknown operation type: {type(op)}")
        with acting("refresh", door="tools"):
            self._prolong(read)
        with acting(door="tools"):
            self._put(puts)
        self._sweep_if_due()
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations in a thread; a memory may be used by several."""
        return await asyncio.to_thread(self.batch, list(ops))

    # -- reading ---------------------------------------------------------------------------

    def _where(self, **fields: Any) -> Filter:
        return Filter(projects=(self._memory.config.project,), trusts=TRUSTS, **fields)

    def _rows(self, where: Filter) -> list[Document]:
        store = store_of(self._memory)
        rows = [] if store is None else store.scan(where)
        return [row for row in rows if _is_item(row)]

    def _get(self, op: GetOp, read: list[Document]) -> Item | None:
        rows = self._rows(self._where(keys=(key_of(op.namespace, op.key),)))
        read += rows[:1] if op.refresh_ttl else ()
        return Item(**_fields(rows[0])) if rows else None

    def _search(self, op: SearchOp, read: list[Document]) -> list[SearchItem]:
        where = self._where(key_prefix=_prefix(op.namespace_prefix))
        items: list[tuple[Document, float | None]]
        if op.query and op.query.strip():
            if op.filter:
                # Before the search, because a search ends after so many hits.
                rows = [row for row in self._rows(where) if _is_selected(row, op.filter)]
                where = self._where(keys=tuple(row.key or "" for row in rows))
                if not rows:
                    return []
            # All hits, so that the pages of one query belong together.
            hits = self._memory.search(
                op.query, limit=MAX_LIMIT, best_per_document=True, where=where
            )
            items = [(hit.document, hit.relevance) for hit in hits if _is_item(hit.document)]
        else:
            rows = [row for row in self._rows(where) if _is_selected(row, op.filter or {})]
            rows.sort(key=lambda row: row.updated_at, reverse=True)
            items = [(row, None) for row in rows]
        items = items[op.offset : op.offset + op.limit]
        read += [row for row, _ in items] if op.refresh_ttl else ()
        return [SearchItem(**_fields(row), score=score) for row, score in items]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        rows = self._rows(self._where(key_prefix=ITEM_PREFIX))
        names = {tuple(json.loads(row.metadata[_NAMESPACE])) for row in rows}
        kept = {
            name[: op.max_depth]
            for name in names
            if all(_is_at(condition, name) for condition in op.match_conditions or ())
        }
        return sorted(kept)[op.offset : op.offset + op.limit]

    # -- writing ---------------------------------------------------------------------------

    def _put(self, puts: Mapping[_Name, PutOp]) -> None:
        # What may be refused comes first: then nothing is deleted either.
        notes = [self._note(op) for op in puts.values() if op.value is not None]
        if notes:
            self._memory.store_many(notes, allow_secret=True)
        gone = [key_of(*name) for name, op in puts.items() if op.value is None]
        if gone and self._rows(self._where(keys=tuple(gone))):
            self._memory.delete(where=self._where(keys=tuple(gone)))

    def _prolong(self, read: Sequence[Document]) -> None:
        """Let items that were read live as long again as they were given."""
        now = now_ms()
        due = [row for row in read if _TTL in row.metadata and _left(row, now) < _lifetime(row)]
        store = store_of(self._memory)
        if not due or store is None or self._memory.config.settings.read_only:
            return
        with suppress(StoreReadOnly), store.transaction() as transaction:  # of a team's reader
            for row in due:
                stored = transaction.known(row)
                if stored is not None and stored.valid_to == row.valid_to:
                    end = min(now + round(_lifetime(row) * (1 + _RESERVE)), LAST_MOMENT)
                    transaction.amend(row.id, valid_to=end)

    def sweep_ttl(self) -> int:
        """Delete items that have expired; return how many. They stay in the trash for 30 days."""
        store, now = store_of(self._memory), now_ms()
        self._swept_at = now
        if store is None:
            return 0
        rows = self._rows(self._where(key_prefix=ITEM_PREFIX, all_versions=True))
        gone = [row.id for row in rows if is_over(row, now)]
        if not gone:
            return 0
        with acting("delete", door="tools"):
            # Somebody may put one again meanwhile.
            done = deleting.delete(
                store,
                gone,
                home=self._memory.config.project or "",
                still=lambda row: is_over(row, now),
            )
        return len(done.ids)

    def _sweep_if_due(self) -> None:
        minutes = (self.ttl_config or {}).get("sweep_interval_minutes")
        if minutes is not None and now_ms() >= self._swept_at + minutes * _MINUTE_MS:
            with suppress(StoreReadOnly):
                self.sweep_ttl()

    def _note(self, op: PutOp) -> Document:
        value: dict[str, Any] = dict(op.value or {})
        end = None if op.ttl is None else _end(op.ttl, now_ms())
        lasting = {} if end is None else {_TTL: str(float(max(op.ttl or 0, 0)))}
        return Document(
            key=key_of(op.namespace, op.key),
            kind="note",
            title=op.key,
            text=_text(value, op) or op.key or "(empty)",
            metadata={
                _NAMESPACE: json.dumps(list(op.namespace)),
                _KEY: json.dumps(op.key),
                _VALUE: json.dumps(value),
                **lasting,
            },
            valid_to=end,
            # Of an agent's or a tool's text, answers of plait would be left out.
            origin="user" if self._trust == "trusted" else "import",
            trust=self._trust,
        )


# -- names ---------------------------------------------------------------------------------


def key_of(namespace: Sequence[str], key: str) -> str:
    """Return the key of the note that is an item; no two items have the same.

    >>> key_of(("users", "a/b"), "prefs")
    'langgraph/users/a%2Fb/=prefs'
    """
    return f"{_prefix(namespace)}={quote(key, safe='', errors='surrogatepass')}"


def _prefix(namespace: Sequence[str]) -> str:
    labels = (quote(label, safe="", errors="surrogatepass") for label in namespace)
    return ITEM_PREFIX + "".join(f"{label}/" for label in labels)


def _fields(row: Document) -> dict[str, Any]:
    return {
        "namespace": tuple(json.loads(row.metadata[_NAMESPACE])),
        "key": json.loads(row.metadata[_KEY]),
        "value": json.loads(row.metadata[_VALUE]),
        "created_at": datetime.fromtimestamp(row.created_at / 1_000, UTC),
        "updated_at": datetime.fromtimestamp(row.updated_at / 1_000, UTC),
    }


def _is_item(row: Document) -> bool:
    """Tell whether a note is an item: others may have its metadata, and not what is in them."""
    try:
        fields = _fields(row)
        return (
            isinstance(fields["key"], str)
            and isinstance(fields["value"], dict)
            and isinstance(json.loads(row.metadata[_NAMESPACE]), list)
            and all(isinstance(label, str) for label in fields["namespace"])
            and (_TTL not in row.metadata or isfinite(_lifetime(row) * (1 + _RESERVE)))
        )
    except (KeyError, ValueError, TypeError, OverflowError, RecursionError):
        return False


def _end(minutes: float, now: int) -> int | None:
    """Return when an item expires that lives for so long; ``None`` for longer than time goes on.

    Raises:
        ValueError: It is no number.
    """
    if minutes != minutes:
        raise ValueError(f"ttl is {minutes}; it must be a number of minutes, or None.")
    end = now + max(minutes, 0) * _MINUTE_MS
    return None if end > LAST_MOMENT else round(end)


def _lifetime(row: Document) -> float:
    """Return how long an item lives after its last use, in milliseconds."""
    return float(row.metadata[_TTL]) * _MINUTE_MS


def _left(row: Document, now: int) -> float:
    return (row.valid_to or now) - now


def _is_at(condition: MatchCondition, name: tuple[str, ...]) -> bool:
    path = condition.path
    if len(name) < len(path):
        return False
    part = name[: len(path)] if condition.match_type == "prefix" else name[len(name) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


# -- values --------------------------------------------------------------------------------


def _text(value: Mapping[str, Any], op: PutOp) -> str:
    """Return what of a value can be searched: all of it, the fields that were named, or nothing."""
    if op.index is False:
        return ""
    if op.index is None:
        return "\n".join(_lines(value)).replace("\0", " ").strip()
    parts = [part for path in op.index for part in get_text_at_path(value, tokenize_path(path))]
    return "\n".join(parts).replace("\0", " ").strip()


def _lines(value: Any, name: str = "") -> list[str]:
    """Return a value as lines with the names of its fields.

    >>> _lines({"likes": ["tea", "cake"], "home": {"city": "Graz"}})
    ['likes: tea', 'likes: cake', 'home city: Graz']
    """
    match value:
        case Mapping():
            rows = ((f"{name} {field}".strip(), inner) for field, inner in value.items())
            return [line for field, inner in rows for line in _lines(inner, field)]
        case list() | tuple():
            return [line for inner in value for line in _lines(inner, name)]
        case None:
            return []
        case _:
            return [f"{name}: {value}"]


def _is_selected(row: Document, wanted: Mapping[str, Any]) -> bool:
    value = json.loads(row.metadata[_VALUE])
    # Here, unlike inside, "$" in a name is no operator.
    return all(matches(value.get(name), inner) for name, inner in wanted.items())
