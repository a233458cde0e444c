"""plait as the long-term store of LangGraph: `BaseStore`, for several processes at once.

An item is a note: its value is kept as JSON in the note's metadata, exact, and its text is what
can be searched.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

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
    )
    from langgraph.store.base.embed import get_text_at_path, tokenize_path
except ModuleNotFoundError as error:
    raise ImportError(
        "plait.tools.adapters.langgraph needs LangGraph. Run: pip install 'plait[langgraph]'"
    ) from error

from plait.memory import Memory
from plait.searching.search import MAX_LIMIT
from plait.tools.adapters import store_of
from plait.types import TRUSTS, Document, Filter, Trust
from plait.types.audit import acting
from plait.types.ids import ITEM_FIELD, ITEM_PREFIX

_NAMESPACE, _KEY, _VALUE = "langgraph_namespace", "langgraph_key", ITEM_FIELD
_Name = tuple[tuple[str, ...], str]


class PlaitStore(BaseStore):
    """A LangGraph store in a plait memory, with hybrid search and nothing to configure.

    Items are of the memory's project. What agents put in is not trusted unless you vouch for it
    by ``trust="trusted"``; that only matters to whoever else reads the memory.
    """

    def __init__(self, memory: Memory, *, trust: Trust = "untrusted") -> None:
        """Take an open memory, which the store does not close."""
        self._memory = memory
        self._trust = trust

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations; reads see what was there before, and the last put of a key counts."""
        puts: dict[_Name, PutOp] = {}
        results: list[Result] = []
        for op in ops:
            match op:
                case GetOp():
                    results.append(self._get(op))
                case SearchOp():
                    results.append(self._search(op))
                case ListNamespacesOp():
                    results.append(self._namespaces(op))
                case PutOp():
                    puts[op.namespace, op.key] = op
                    results.append(None)
                case _:
                    raise ValueError(f"Unknown operation type: {type(op)}")
        with acting(door="tools"):
            self._put(puts)
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
        return [row for row in rows if _VALUE in row.metadata]

    def _get(self, op: GetOp) -> Item | None:
        rows = self._rows(self._where(keys=(key_of(op.namespace, op.key),)))
        return Item(**_fields(rows[0])) if rows else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        where = self._where(key_prefix=_prefix(op.namespace_prefix))
        items: list[SearchItem]
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
            items = [
                SearchItem(**_fields(hit.document), score=hit.relevance)
                for hit in hits
                if _VALUE in hit.document.metadata
            ]
        else:
            rows = [row for row in self._rows(where) if _is_selected(row, op.filter or {})]
            rows.sort(key=lambda row: row.updated_at, reverse=True)
            items = [SearchItem(**_fields(row)) for row in rows]
        return items[op.offset : op.offset + op.limit]

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

    def _note(self, op: PutOp) -> Document:
        value: dict[str, Any] = dict(op.value or {})
        return Document(
            key=key_of(op.namespace, op.key),
            kind="note",
            title=op.key,
            text=_text(value, op) or op.key or "(empty)",
            metadata={
                _NAMESPACE: json.dumps(list(op.namespace)),
                _KEY: json.dumps(op.key),
                _VALUE: json.dumps(value),
            },
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


def matches(value: Any, wanted: Any) -> bool:
    """Tell whether a value is what a filter wants: equal, part by part, or by ``$`` operators.

    >>> matches({"age": 41, "pet": {"kind": "cat"}}, {"age": {"$gte": 40}, "pet": {"kind": "cat"}})
    True

    Raises:
        ValueError: There is no such operator.
    """
    match wanted:
        case Mapping() if any(str(name).startswith("$") for name in wanted):
            return all(_holds(value, name, limit) for name, limit in wanted.items())
        case Mapping():
            return isinstance(value, Mapping) and all(
                matches(value.get(name), inner) for name, inner in wanted.items()
            )
        case list() | tuple():
            return (
                isinstance(value, list | tuple)
                and len(value) == len(wanted)
                and all(matches(*pair) for pair in zip(value, wanted, strict=True))
            )
        case _:
            return bool(value == wanted)


def _holds(value: Any, operator: str, limit: Any) -> bool:
    if operator == "$eq":
        return bool(value == limit)
    if operator == "$ne":
        return bool(value != limit)
    if operator not in ("$gt", "$gte", "$lt", "$lte"):
        raise ValueError(f"Unsupported operator: {operator}")
    try:
        number, bound = float(value), float(limit)
    except (TypeError, ValueError):
        return False  # what is no number is neither more nor less
    return {
        "$gt": number > bound,
        "$gte": number >= bound,
        "$lt": number < bound,
        "$lte": number <= bound,
    }[operator]
