"""Keep a chat as a conversation of the memory, go on with one, and shorten a long one.

Shortening asks no model: of each older exchange the note has the beginning of the question and of
the answer, so that nothing in it is invented.
"""

from collections.abc import Iterable, Sequence

from plait.chat.context import block
from plait.chat.turns import ChatTurn
from plait.errors import Notice, PlaitError, flattened
from plait.facts.masking import masked
from plait.facts.messages import speaks_as_another
from plait.memory import Memory
from plait.searching.recall import most_that_fit, tokens_of
from plait.types import Document
from plait.types.ids import new_id
from plait.types.records import NamedTuple

# Tokens of the turns that a model gets; beyond them, the older half becomes the note.
HISTORY_TOKENS = 16_000
# Characters of an older question and of its answer.
QUESTION_CHARS = 160
ANSWER_CHARS = 240
# Lines of the note; before them, only their number is told.
MOST_EXCHANGES = 60
NOTE_TITLE = "Chat {session}, shortened"


class Exchange(NamedTuple):
    """A question and its answer, as they were said."""

    question: str
    answer: str


def new_session() -> str:
    """Return a name for a new session."""
    return f"chat-{new_id(8)}"


def exchanges_of(messages: Iterable[Document]) -> list[Exchange]:
    """Return the exchanges of a stored session: a person's messages, and what was answered.

    Several messages of one side become one. What tools said is left out, and what programs said as
    if they were the person; an answer that is not trusted is fenced.
    """
    exchanges: list[Exchange] = []
    last = ""
    for message in messages:
        role = {"human": "user"}.get(message.role or "", message.role)
        if speaks_as_another(message):
            continue
        text = message.text if message.trust == "trusted" else block("conversation", message.text)
        if role == "user":
            if last == "user":
                one = exchanges[-1]
                exchanges[-1] = one._replace(question=f"{one.question}\n\n{text}")
            else:
                exchanges.append(Exchange(text, ""))
        elif role == "assistant" and exchanges:
            one = exchanges[-1]
            joined = f"{one.answer}\n\n{text}" if one.answer else text
            exchanges[-1] = one._replace(answer=joined)
        else:
            continue
        last = role or ""
    return [one for one in exchanges if one.answer]


def turns_of(exchanges: Iterable[Exchange]) -> list[ChatTurn]:
    """Return exchanges as turns for a model."""
    return [
        turn
        for one in exchanges
        for turn in (ChatTurn("user", one.question), ChatTurn("assistant", one.answer))
    ]


def size_of(turns: Iterable[ChatTurn]) -> int:
    """Return the tokens of turns."""
    return sum(tokens_of(turn.text) for turn in turns)


def split_long(turns: Sequence[ChatTurn], most: int) -> tuple[list[ChatTurn], list[ChatTurn]]:
    """Return the older turns to shorten, and those to keep: whole exchanges, half of ``most``.

    The last exchange is kept whatever its size.
    """
    if size_of(turns) <= most:
        return [], list(turns)
    starts = [place for place, turn in enumerate(turns) if turn.role == "user"]
    for start in starts[1:]:
        if size_of(turns[start:]) <= most // 2:
            return list(turns[:start]), list(turns[start:])
    last = starts[-1] if starts else 0
    return list(turns[:last]), list(turns[last:])


def shortened(exchanges: Sequence[Exchange], most: int | None = None) -> str:
    """Return older exchanges, one line for each side; the last ones, in ``most`` tokens.

    >>> print(shortened([Exchange("When do we deploy?", "On Fridays. Ask Ana.")]))
    - asked: When do we deploy?
      answered: On Fridays. Ask Ana.
    """
    rows = [
        f"- asked: {_beginning(one.question, QUESTION_CHARS)}\n"
        f"  answered: {_beginning(one.answer, ANSWER_CHARS)}"
        for one in exchanges[-MOST_EXCHANGES:]
    ]
    count = len(rows)
    if most is not None:
        count = most_that_fit(count, lambda last: tokens_of("\n".join(rows[-last:])) <= most)
    before = len(exchanges) - count
    told = [f"- {before:,} earlier exchanges"] if before else []
    return "\n".join([*told, *rows[len(rows) - count :]])


def _beginning(text: str, most: int) -> str:
    flat = flattened(text)
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def save_exchange(
    memory: Memory, session: str, one: Exchange, model: str, id_: str
) -> Notice | None:
    """Append an exchange to a session, without secrets; return why it could not be kept.

    With the same ``id_``, it is stored once.
    """
    answer = {"id": f"{id_}-answer", "role": "assistant", "name": model}
    messages = [
        {"id": f"{id_}-question", "role": "user", "content": masked(one.question)[0]},
        {**answer, "content": masked(one.answer)[0]},
    ]
    try:
        memory.add_messages(messages, session=session)
    except PlaitError as error:
        return error.notice._replace(text=f"This turn was not saved: {error.notice.text}")
    return None


def save_note(memory: Memory, session: str, text: str) -> Notice | None:
    """Store what a session was shortened to, as an episodic note; return why it was not."""
    try:
        memory.store(
            masked(text)[0],
            key=f"chats/{session}",
            title=NOTE_TITLE.format(session=session),
            memory_type="episodic",
            tags=["chat"],
            session=session,
            origin="agent",
        )
    except PlaitError as error:
        return error.notice._replace(text=f"The note was not saved: {error.notice.text}")
    return None
