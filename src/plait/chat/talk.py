"""Lead a conversation: search for the first message, let the model use tools, keep both sides."""

from collections.abc import Generator, Iterator

from plait.chat.cached import CachedModel, cache_notice
from plait.chat.context import (
    ChatContext,
    ShownSource,
    block,
    instructions,
    relevant_context,
)
from plait.chat.models import NO_TOOLS, patient_answer
from plait.chat.offered import run_call
from plait.chat.sessions import (
    HISTORY_TOKENS,
    Exchange,
    exchanges_of,
    save_exchange,
    save_note,
    shortened,
    size_of,
    split_long,
    turns_of,
)
from plait.chat.turns import ChatTurn, Model, ModelCall
from plait.errors import ChatError, Notice
from plait.facts.masking import masked
from plait.memory import Memory
from plait.searching.recall import tokens_of
from plait.settings.chat_models import ChatModel
from plait.types.ids import new_id
from plait.types.records import NamedTuple

# Rounds of tool calls for one question; then the model must answer with what it has.
MOST_ROUNDS = 8
# Calls of one round that are run.
MOST_CALLS = 8
# Tokens of a tool's answer for which there is always room: those of a search.
LEAST_RESULT = 2_000
INCOMPLETE = "The answer is incomplete."


class ToolUse(NamedTuple):
    """A tool that the model used, and what it was told."""

    call: ModelCall
    result: str
    is_error: bool = False


WITHOUT_TOOLS = Notice(
    "The model takes no tools: the memory is searched for each message, and nothing is stored.",
    "no_tools",
)


class Ending(NamedTuple):
    """Why an answer is incomplete."""

    why: Notice


STOPPED = Ending(Notice("Stopped.", "stopped"))
ONLY_TOOLS = Ending(Notice(f"The model asks for tools again and again. {INCOMPLETE}", "only_tools"))
# What `Talk.ask` yields: pieces of the answer, tools used, warnings, and how it ended too early.
TalkEvent = str | ToolUse | Notice | Ending


class _Asked(NamedTuple):
    """A question that is being answered: its turns begin at ``start``."""

    question: str
    text: str
    start: int
    pieces: list[str]
    id: str
    is_complete: bool = False


class Talk:
    """A conversation with one model about one memory.

    ``session`` is its name if it is kept in the memory. ``sources`` is what the model was shown for
    the latest question.
    """

    def __init__(
        self,
        memory: Memory,
        model: Model,
        spec: ChatModel,
        *,
        today: str,
        session: str | None = None,
        history_tokens: int = HISTORY_TOKENS,
    ) -> None:
        self.memory = memory
        self.session = session
        self.spec = spec
        self.sources: tuple[ShownSource, ...] = ()
        self._model = model
        self._is_local = spec.address.is_loopback
        self._history_tokens = history_tokens
        self._always = instructions(memory, today, is_local=self._is_local)
        self._is_first = True
        self._has_tools = True
        self._older: list[Exchange] = []
        self._turns: list[ChatTurn] = []
        self._asked: _Asked | None = None
        self._unsaved: list[tuple[Exchange, str]] = []
        if session is not None:
            # Other programs may have stored it, with secrets in it.
            turns = turns_of(exchanges_of(memory.conversation(session, damaged=[])))
            self._turns = [turn._replace(text=self._sendable(turn.text)) for turn in turns]

    @property
    def notices(self) -> tuple[Notice, ...]:
        """What to tell the person when the conversation begins."""
        return self._always.notices

    @property
    def is_kept(self) -> bool:
        """Whether the session is written to the memory."""
        is_writable = not (self.memory.is_off or self.memory.config.settings.read_only)
        return self.session is not None and is_writable

    @property
    def has_history(self) -> bool:
        """Whether it goes on with an earlier conversation."""
        return bool(self._turns)

    def ask(self, question: str) -> Generator[TalkEvent]:
        """Yield the answer piece by piece.

        If it is stopped or breaks off, what came is kept; if nothing came, the question is
        forgotten. Call `save` afterwards.

        Raises:
            ChatError: There is no answer at all.
        """
        self._settle()
        yield from self._shorten()
        context = self._context(question)
        self.sources = (*self._always.sources, *context.sources)
        yield from context.notices
        text = f"{context.text}\n\n{question}" if context.text else question
        pieces: list[str] = []
        self._asked = _Asked(question, text, len(self._turns), pieces, new_id(8))
        self._turns.append(ChatTurn("user", text))
        try:
            for event in self._rounds():
                if isinstance(event, str):
                    pieces.append(event)
                yield event
            self._asked = self._asked._replace(is_complete=True)
        except KeyboardInterrupt:
            yield STOPPED
        except ChatError as error:
            if not "".join(pieces).strip():
                raise
            yield Ending(error.notice._replace(text=f"{error.notice.text} {INCOMPLETE}"))
        finally:
            self._settle()

    def _settle(self) -> None:
        """Take the question and what came of its answer into the conversation.

        It may be interrupted: the next call does the rest, and nothing is there twice.
        """
        asked = self._asked
        if asked is None:
            return
        answer = "".join(asked.pieces).strip()
        if not asked.is_complete:
            own = [ChatTurn("user", asked.text), ChatTurn("assistant", answer)] if answer else []
            self._turns = [*self._turns[: asked.start], *own]
        if answer:
            self._is_first = False
            kept = (Exchange(asked.question, answer), asked.id)
            self._unsaved = [*(row for row in self._unsaved if row != kept), kept]
        self._asked = None

    def save(self) -> Notice | None:
        """Keep what was not kept yet, if the session is kept; return why it was not.

        It may be interrupted: the next call does the rest, and nothing is stored twice.
        """
        self._settle()
        if self.session is None or not self.is_kept:
            return None
        while self._unsaved:
            one, id_ = self._unsaved[0]
            notice = save_exchange(self.memory, self.session, one, str(self.spec), id_)
            if notice is not None:
                return notice
            del self._unsaved[0]
        return None

    def _context(self, question: str) -> ChatContext:
        if not self._is_first and self._has_tools:
            return ChatContext()
        return relevant_context(self.memory, question, is_local=self._is_local)

    def _sendable(self, text: str) -> str:
        """Return a text out of the memory as the model's server may see it."""
        return text if self._is_local else masked(text)[0]

    def _system(self) -> str:
        if not self._older:
            return self._always.text
        lines = shortened(self._older, self._history_tokens // 2)
        older = block("earlier-in-this-session", lines)
        return f"{self._always.text}\n\n{older}"

    def _rounds(self) -> Iterator[TalkEvent]:
        start, has_written, text = len(self._turns), False, ""
        for number in range(MOST_ROUNDS + 1):
            is_full = size_of(self._turns[start:]) > self._history_tokens
            is_last = is_full or number == MOST_ROUNDS
            text, calls = yield from self._one_answer(tools=not is_last, goes_on=has_written)
            has_written = has_written or bool(text.strip())
            # A model may call tools that it was not offered.
            runs = calls[:MOST_CALLS] if self._has_tools and not is_last else []
            # Providers refuse turns without a word.
            if text.strip() or runs:
                self._turns.append(ChatTurn("assistant", text, tuple(runs)))
            if not runs:
                break
            yield from self._results(runs)
        if not has_written:
            raise ChatError(
                f"{self.spec.server} gave no answer.", code="empty_answer", subject=self.spec.name
            )
        if calls and not text.strip():
            yield ONLY_TOOLS

    def _one_answer(
        self, *, tools: bool, goes_on: bool
    ) -> Generator[TalkEvent, None, tuple[str, list[ModelCall]]]:
        """Yield the answer to one request; return its text and the calls in it.

        ``goes_on``: Whether it follows words that came before a tool was used.
        """
        calls: list[ModelCall] = []
        texts: list[str] = []
        for part in self._parts(tools=tools):
            if isinstance(part, ModelCall):
                calls.append(part)
                continue
            if isinstance(part, str):
                # What was written before a tool was used is a paragraph of its own.
                if goes_on and not texts:
                    yield "\n\n"
                texts.append(part)
            yield part
        return "".join(texts), calls

    def _parts(self, *, tools: bool) -> Iterator[TalkEvent | ModelCall]:
        """Yield the parts of one answer; of a model that knows no tools, without them."""
        system = self._system()
        if tools and self._has_tools:
            try:
                yield from self._events(system, tools=True)
            except ChatError as error:
                if error.code != NO_TOOLS:
                    raise
                self._has_tools = False
                yield WITHOUT_TOOLS
            else:
                return
        yield from self._events(system, tools=False)

    def _events(self, system: str, *, tools: bool) -> Iterator[TalkEvent | ModelCall]:
        for part in patient_answer(self._model, system, self._turns, tools=tools):
            yield Ending(part) if isinstance(part, Notice) else part
        if isinstance(self._model, CachedModel) and self._model.hit is not None:
            yield cache_notice(self._model.hit)

    def _results(self, calls: list[ModelCall]) -> Iterator[TalkEvent]:
        for call in calls:
            text, is_error, sources = run_call(self.memory, call, self.session)
            room = max(LEAST_RESULT, self._history_tokens - size_of(self._turns))
            if (tokens := tokens_of(text)) > room:
                told = f"The answer has {tokens:,} tokens, and there is room for {room:,}."
                text, is_error, sources = f"{told} Ask for less, with max_tokens.", True, ()
            text = self._sendable(text)
            self.sources = tuple(dict.fromkeys((*self.sources, *sources)))
            turn = ChatTurn("tool", text, call_id=call.id, tool=call.name, is_error=is_error)
            self._turns.append(turn)
            yield ToolUse(call, text, is_error)

    def _shorten(self) -> Iterator[Notice]:
        """Take older turns out of what the model gets, and keep their beginnings."""
        older, kept = split_long(self._turns, self._history_tokens)
        if not older:
            return
        self._turns = kept
        self._older += _exchanges(older)
        if self.session is None or not self.is_kept:
            return
        notice = save_note(self.memory, self.session, shortened(self._older))
        if notice is not None:
            yield notice


def _exchanges(turns: list[ChatTurn]) -> list[Exchange]:
    """Return what was asked and answered in turns, without context and tools."""
    exchanges: list[Exchange] = []
    for turn in turns:
        if turn.role == "user":
            exchanges.append(Exchange(turn.text.rpartition("</relevant-context>")[2], ""))
        elif turn.role == "assistant" and exchanges:
            joined = f"{exchanges[-1].answer} {turn.text}".strip()
            exchanges[-1] = exchanges[-1]._replace(answer=joined)
    return exchanges
