"""plait as the session of the OpenAI Agents SDK: the history of a conversation, to be searched.

Every item of the SDK is a message of the session: the item itself is kept as JSON in the message's
metadata, exact, and its text is what can be searched and read.
"""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from plait.errors import PIP

try:
    from agents import TResponseInputItem
    from agents.memory import Session, SessionSettings
except ModuleNotFoundError as error:
    raise ImportError(
        "plait.tools.adapters.openai_agents needs the OpenAI Agents SDK. "
        f"Run in a clone of plait: {PIP} install '.[openai-agents]'"
    ) from error

from plait.errors import NotFound
from plait.facts.echo import PREFACE
from plait.facts.messages import speaks_as_another
from plait.memory import Memory
from plait.searching.conversations import conversation
from plait.searching.recall import fence_recalled
from plait.text import clean
from plait.tools.adapters import store_of
from plait.types import TRUSTS, Document, Filter, Origin, Trust
from plait.types.audit import acting

_ITEM = "openai_agents_item"
# Who speaks in items that name no role.
_ROLES = {"function_call_output": "tool", "message": "assistant"}
_SPEAKERS = ("user", "assistant", "system", "developer")
_FENCE = "plait-recall"
_Written = TypeVar("_Written")


class PlaitSession(Session):
    """The items of one conversation, in the order in which they came, for several processes.

    A person's words are trusted, an agent's and a tool's are not; that only matters to whoever
    else reads the memory.
    """

    def __init__(
        self, session_id: str, memory: Memory, session_settings: SessionSettings | None = None
    ) -> None:
        """Take the name of the conversation, and an open memory, which is not closed.

        ``session_settings`` may limit how many of the last items are given to the model.
        """
        self.session_id = session_id
        self.session_settings = session_settings
        self._memory = memory

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit, so many of the last ones."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        return await asyncio.to_thread(lambda: [_item(row) for row in self._rows(limit)])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items."""
        if items:
            messages = [self._message(dict(item)) for item in items]
            await self._in_thread(lambda: self._memory.store_many(messages, allow_secret=True))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the last item away and return it; ``None`` if there is none."""
        return await self._in_thread(self._pop)

    async def clear_session(self) -> None:
        """Delete all items of the session."""
        await self._in_thread(self._clear)

    async def _in_thread(self, write: Callable[[], _Written]) -> _Written:
        def acted() -> _Written:
            with acting(door="tools", session=self.session_id):
                return write()

        return await asyncio.to_thread(acted)

    def _where(self) -> Filter:
        project = self._memory.config.project
        return Filter(
            projects=(project,), kinds=("message",), session=clean(self.session_id), trusts=TRUSTS
        )

    def _rows(self, last: int | None = None) -> list[Document]:
        store = store_of(self._memory)
        if store is None or last == 0:
            return []
        return conversation(store, self._where(), last, None)

    def _pop(self) -> TResponseInputItem | None:
        while rows := self._rows(1):
            try:
                self._memory.delete(rows[0].id)
            except NotFound:
                continue  # somebody else has taken it
            return _item(rows[0])
        return None

    def _clear(self) -> None:
        if self._rows(1):
            self._memory.delete(where=self._where())

    def _message(self, item: Mapping[str, Any]) -> Document:
        kind = str(item.get("type") or "message")
        role = str(item.get("role") or _ROLES.get(kind, "assistant"))
        text = "\n".join(_texts(item)).replace("\0", " ").strip()
        # What is only an answer of plait would be left out, and the item with it.
        if not text or _FENCE in text:
            text = f"({kind})\n{text}".strip()
        is_person = role == "user"
        origin: Origin = "user" if is_person else "import"
        trust: Trust = "trusted" if is_person else "untrusted"
        return Document(
            kind="message",
            role=role,
            session=self.session_id,
            text=text,
            metadata={_ITEM: json.dumps(item)},
            origin=origin,
            trust=trust,
        )


def _item(row: Document) -> TResponseInputItem:
    kept = row.metadata.get(_ITEM)
    if kept is None:  # a message that came another way, such as by `Memory.add_messages`
        is_theirs = row.role in _SPEAKERS and not speaks_as_another(row)
        role: Any = row.role if is_theirs else "assistant"
        text = row.text if row.trust == "trusted" else fence_recalled(f"{PREFACE}\n{row.text}")
        return {"role": role, "content": text}
    item: TResponseInputItem = json.loads(kept)
    return item


def _texts(item: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was said in an item: its text, the call of a tool, or what came of it."""
    if item.get("type") == "function_call":
        yield f"{item.get('name')}({item.get('arguments')})"
    for field in ("content", "output", "summary"):
        value = item.get(field)
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            text = part.get("text") if isinstance(part, Mapping) else part
            if isinstance(text, str):
                yield text
