"""chat and digest: talk to a model about the memory, and let it propose facts."""

import sys
from argparse import ArgumentParser, Namespace
from contextlib import closing
from typing import Any

from plait.chat.cached import FROM_CACHE, CachedModel
from plait.chat.digest import MOST_PROPOSED, propose
from plait.chat.models import QUIET_S, open_model
from plait.chat.offered import offered_tools
from plait.chat.sessions import HISTORY_TOKENS, new_session
from plait.chat.talk import STOPPED, Ending, Talk, TalkEvent, ToolUse
from plait.chat.turns import Model
from plait.cli import (
    INTERRUPTED,
    NOTHING_FOUND,
    Output,
    as_integer,
    as_number,
    in_shell,
    to_run,
    write_error,
    write_out,
)
from plait.cli.shared import (
    open_existing,
    open_to_write,
    or_empty,
    refuse_closed_input,
    standard_input,
)
from plait.errors import ConfigError, Notice, UsageError, advise, flattened, shell_word
from plait.memory import Memory
from plait.memory.responses import ResponseCache, response_cache
from plait.present.text import counted
from plait.settings.chat_models import ChatModel, parse_chat_model
from plait.text import visible
from plait.times import show_day
from plait.types import check_range
from plait.writing.documents import now_ms

MOST_QUIET_S = 3_600
MOST_OF_A_DIGEST = 50  # facts
LEAST_CONTEXT, MOST_CONTEXT = 500, 1_000_000
# Characters of what a model asked a tool for.
ASKED_CHARS = 100
ASKED_CHARS_READ = 10 * ASKED_CHARS  # before spaces are taken out


def chat_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait chat``."""
    parser.add_argument(
        "words",
        nargs="*",
        metavar="QUESTION",
        help="one question; - reads it from standard input; without one, a conversation begins",
    )
    add_model_options(parser)
    parser.add_argument(
        "--session",
        metavar="NAME",
        help="go on with this session, or begin it; it is kept whatever auto_save is",
    )
    parser.add_argument(
        "--context",
        type=as_integer,
        default=HISTORY_TOKENS,
        metavar="N",
        help="tokens of the conversation that the model gets; beyond them, older turns are "
        f"shortened ({HISTORY_TOKENS})",
    )

    cached = parser.add_mutually_exclusive_group()
    cached.add_argument(
        "--no-cache",
        action="store_true",
        help="ask the model even if the response cache has an answer",
    )
    cached.add_argument(
        "--clear-cache", action="store_true", help="drop all cached answers, and ask nothing"
    )


def add_model_options(parser: ArgumentParser) -> None:
    """Declare which chat model to use, and how long to wait for it."""
    # It takes the place of the embedder's --model.
    parser.set_defaults(own_flags=("--model",))
    parser.add_argument(
        "--model",
        dest="chat_model",
        metavar="NAME",
        help="chat model: ollama:NAME, anthropic:NAME, openai:NAME, custom:URL#NAME (a server with "
        "OpenAI's protocol) or anthropic:URL#NAME; default: the setting chat_model",
    )
    parser.add_argument(
        "--timeout",
        type=as_number,
        default=QUIET_S,
        metavar="S",
        help=f"give up after S seconds without a word from the model ({QUIET_S:g})",
    )


def chat_run(arguments: Namespace, out: Output) -> int:
    """Answer one question, or lead a conversation."""
    if arguments.clear_cache:
        return _clear_cache(arguments, out)
    check_range("--timeout", arguments.timeout, 0.1, MOST_QUIET_S)
    check_range("--context", arguments.context, LEAST_CONTEXT, MOST_CONTEXT)
    question = _question(arguments, out)
    if question is None:
        _refuse_without_terminal(out)
    spec = chosen_model(out)
    settings = out.config.settings
    is_kept = settings.auto_save and not settings.read_only
    session = arguments.session or (new_session() if is_kept else None)
    with open_to_write(out) as memory:
        tools = offered_tools(memory, spec)
        with closing(open_model(spec, out.config, tools, quiet_s=arguments.timeout)) as model:
            talk = Talk(
                memory,
                _with_cache(memory, model, spec, refresh=arguments.no_cache),
                spec,
                today=show_day(now_ms()),
                session=session,
                history_tokens=arguments.context,
            )
            out.warn_all(talk.notices)
            if question is None:
                from plait.cli.conversation import converse

                return converse(talk, out)
            return _answer_once(talk, question, out)


def _with_cache(memory: Memory, model: Model, spec: ChatModel, *, refresh: bool) -> Model:
    """Return the model, behind the response cache if the person wants one."""
    cache = response_cache(memory)
    if cache is None:
        return model
    return CachedModel(model, cache, f"{spec} {spec.address.url}", refresh=refresh)


def _clear_cache(arguments: Namespace, out: Output) -> int:
    if arguments.words:
        raise UsageError(
            "--clear-cache asks nothing. Give the question without it.", code="bad_value"
        )
    with open_existing(out) as memory, or_empty(out, {"cleared": 0, "hits": 0}):
        count, hits = (0, 0) if memory.is_off else ResponseCache(memory).clear()
    text = f"Dropped {counted(count, 'answer')}, used {counted(hits, 'time')} in all."
    out.result({"cleared": count, "hits": hits}, text)
    return 0


def chosen_model(out: Output) -> ChatModel:
    """Return the chat model of ``--model`` or the settings.

    Raises:
        ConfigError: There is none, or its name is bad.
    """
    settings = out.config.settings
    if settings.chat_model is None:
        raise ConfigError(
            "No chat model is set.", code="no_chat_model", advice=advise("choose_chat_model")
        )
    return parse_chat_model(settings.chat_model, settings.ollama_url)


def _question(arguments: Namespace, out: Output) -> str | None:
    """Return the question that was given as words or on standard input; ``None``: none was."""
    if not arguments.words:
        return None
    question = " ".join(arguments.words)
    if question == "-":
        question = standard_input(round(out.config.settings.max_file_mb * 1024 * 1024))
    if not question.strip():
        example = to_run('For example: plait chat "when do we deploy?"')
        raise UsageError(f"The question is empty. {example}", code="empty_question")
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise UsageError("The question is not UTF-8 text.", code="not_utf8") from error
    return question.strip()


def _refuse_without_terminal(out: Output) -> None:
    refuse_closed_input()
    if not (sys.stdin.isatty() and out.on_terminal):
        one = to_run(f'plait chat "QUESTION"{_typed_model(out)}')
        raise UsageError(
            f"A conversation needs a terminal. For one answer: {one} (- reads it from standard "
            "input)",
            code="no_terminal",
        )
    if out.form != "text":
        raise UsageError("A conversation is no JSON. Give a question.", code="no_terminal")


# -- one answer ------------------------------------------------------------------------------


class Printer:
    """Shows an answer while it comes: its text on stdout, all else on stderr.

    On a terminal, what could be obeyed by it is shown as an escape.
    """

    def __init__(self, out: Output, *, streaming: bool = True) -> None:
        self._out = out
        self._streaming = streaming
        self._at_start = True
        self.pieces: list[str] = []
        self.uses: list[ToolUse] = []
        self.notices: list[Notice] = []
        self.ending: Ending | None = None

    def show(self, event: TalkEvent) -> None:
        """Show one event."""
        if isinstance(event, str):
            self.pieces.append(event)
            if self._streaming:
                # subtle: a NUL would be taken for the mark of a color.
                write_out(visible(event) if self._out.on_terminal else event)
                sys.stdout.flush()
                self._at_start = event.endswith("\n")
            return
        if self._out.on_terminal:
            self.end_line()
        if isinstance(event, ToolUse):
            self.uses.append(event)
            if self._streaming and not self._out.quiet:
                write_error(f"{visible(used(event), one_line=True)}\n")
            return
        notice = event.why if isinstance(event, Ending) else event
        self.notices.append(notice)
        if isinstance(event, Ending):
            self.ending = event
            self._out.error(notice)
        else:
            self._out.warn(notice)

    def end_line(self) -> None:
        """End the line that the answer is on."""
        if not self._at_start:
            write_out("\n")
            sys.stdout.flush()
            self._at_start = True


def used(event: ToolUse) -> str:
    """Return in one line which tool a model used, and for what.

    >>> from plait.chat.turns import ModelCall
    >>> used(ToolUse(ModelCall("1", "memory_search", {"query": "ssh keys"}), "…"))
    '(memory_search: ssh keys)'
    """
    arguments = event.call.arguments
    values = [arguments] if isinstance(arguments, str) else [*arguments.values()]
    asked = flattened(" ".join(str(value)[:ASKED_CHARS_READ] for value in values[:1]))
    shown = asked if len(asked) <= ASKED_CHARS else f"{asked[: ASKED_CHARS - 1]}…"
    failed = " failed" if event.is_error else ""
    return f"({flattened(event.call.name)[:ASKED_CHARS]}{failed}: {shown})"


def ask(talk: Talk, question: str, printer: Printer) -> None:
    """Show the answer to a question, and keep both; Ctrl-C stops the answer."""
    events = talk.ask(question)
    try:
        for event in events:
            printer.show(event)
    except KeyboardInterrupt:  # while something was printed
        printer.show(STOPPED)
    finally:
        events.close()
        printer.end_line()
    if (notice := talk.save()) is not None:
        printer.show(notice)


def _answer_once(talk: Talk, question: str, out: Output) -> int:
    printer = Printer(out, streaming=out.form == "text")
    if talk.session is not None and not talk.is_kept:
        out.warn("this conversation is not saved: the memory is not written")
    ask(talk, question, printer)
    if out.form != "text":
        out.show(_answer_dict(talk, printer))
    if any(notice.code == FROM_CACHE for notice in printer.notices):
        words = shell_word(question, "QUESTION")
        out.suggest(f"plait chat {words} --no-cache{_typed_model(out)}", "ask the model again")
    if talk.session is not None and talk.is_kept:
        suggest_going_on(talk.session, out)
    if printer.ending == STOPPED:
        return INTERRUPTED
    return 0 if printer.ending is None else 1


def suggest_going_on(session: str, out: Output) -> None:
    """Suggest the command that goes on with a session, by the same model."""
    named = shell_word(session, "NAME")
    out.suggest(f"plait chat --session {named}{_typed_model(out)}", "go on with this conversation")


def _typed_model(out: Output) -> str:
    typed = out.arguments.chat_model
    return "" if typed is None else f" --model {shell_word(typed, 'NAME')}"


def _answer_dict(talk: Talk, printer: Printer) -> dict[str, Any]:
    return {
        "answer": "".join(printer.pieces).strip(),
        "complete": printer.ending is None,
        "model": str(talk.spec),
        "session": talk.session,
        "sources": [shown._asdict() for shown in talk.sources],
        "tool_calls": [
            {"name": use.call.name, "arguments": use.call.arguments, "error": use.is_error}
            for use in printer.uses
        ],
        "cached": any(notice.code == FROM_CACHE for notice in printer.notices),
        "warnings": [in_shell(notice) for notice in printer.notices],
    }


# -- digest ----------------------------------------------------------------------------------


def digest_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait digest``."""
    parser.add_argument("session", metavar="SESSION", help="the conversation to read")
    add_model_options(parser)
    parser.add_argument(
        "--limit",
        type=as_integer,
        default=MOST_PROPOSED,
        metavar="N",
        help=f"maximum number of facts ({MOST_PROPOSED})",
    )


def digest_run(arguments: Namespace, out: Output) -> int:
    """Propose facts from a conversation; a person accepts each one, or nothing is stored."""
    check_range("--timeout", arguments.timeout, 0.1, MOST_QUIET_S)
    check_range("--limit", arguments.limit, 1, MOST_OF_A_DIGEST)
    spec = chosen_model(out)
    answer = {"session": arguments.session, "model": str(spec), "proposals": [], "stored": []}
    with open_existing(out) as memory, or_empty(out, answer):
        with closing(open_model(spec, out.config, [], quiet_s=arguments.timeout)) as model:
            proposals = propose(memory, model, arguments.session, most=arguments.limit)
        if proposals.left_out:
            count = counted(proposals.left_out, "message")
            out.warn(f"the conversation is long: {count} at its beginning were not read")
        stored: list[str] = []
        is_asked = out.form == "text" and sys.stdin is not None and sys.stdin.isatty()
        if is_asked and proposals.facts:
            from plait.cli.conversation import accept_facts

            stored = accept_facts(memory, proposals.facts, arguments.session, str(spec), out)
    facts = "\n".join(proposals.facts)
    answer |= {"proposals": list(proposals.facts), "stored": stored}
    out.result(answer, "" if is_asked else facts)
    if not proposals.facts:
        out.warn("the model proposes nothing to remember")
    return 0 if proposals.facts else NOTHING_FOUND
