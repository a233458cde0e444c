"""A conversation on a terminal: its prompt, its commands, and facts to accept one by one."""

import os
import stat
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from plait.chat.models import missing_package
from plait.chat.talk import Talk
from plait.cli import Output, write_error, write_out
from plait.cli.chat import Printer, ask, suggest_going_on
from plait.cli.search import warn_of
from plait.cli.shared import first_unnamed
from plait.errors import NotFound, PlaitError, flattened
from plait.facts.credentials import secret_kinds
from plait.memory import Memory
from plait.present.deleting import deleted_text
from plait.present.text import answer_text, stored_remarks, stored_text
from plait.settings.loading import default_db_path
from plait.settings.private import NO_WAIT, PRIVATE_MODE, replace_private
from plait.text import clean, visible
from plait.types.ids import SHORT_ID

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

HISTORY_NAME = "chat-history"
MOST_HISTORY_BYTES = 300_000
SEARCH_LIMIT = 5
PROMPT = "> "
HELP = """\
/search WORDS   search the memory yourself
/remember TEXT  store a text
/forget NAME    delete a document, by its id or key; it can be restored
/sources        what the model was shown for the last question
/help           this list
/quit           leave (or Ctrl-D); Ctrl-C stops an answer"""
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def converse(talk: Talk, out: Output) -> int:
    """Ask for questions and answer them until the person leaves."""
    prompt = _prompt(out)
    if not out.quiet:
        _tell(f"{talk.spec}. /help lists commands, Ctrl-D leaves.")
        _tell(_fate(talk))
    while True:
        try:
            # Bytes that are no text come as halves of characters.
            if not _reply(talk, clean(prompt.prompt(PROMPT)).strip(), out):
                break
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        except PlaitError as error:
            out.error(error.notice)
    if (notice := talk.save()) is not None:
        out.error(notice)
    if talk.session is not None and talk.has_history and talk.is_kept:
        suggest_going_on(talk.session, out)
    return 0


def _reply(talk: Talk, line: str, out: Output) -> bool:
    """Run a command or answer a question; return whether the conversation goes on."""
    name, _, rest = line.partition(" ")
    # "/etc/hosts" is no command.
    if line.startswith("/") and "/" not in name[1:]:
        if name in ("/quit", "/exit"):
            return False
        command = _COMMANDS.get(name)
        if command is None:
            _tell(f"There is no command {name}. /help lists them.")
        else:
            command(talk, rest.strip(), out)
    elif line:
        ask(talk, line, Printer(out))
    return True


def _fate(talk: Talk) -> str:
    if talk.memory.is_off or talk.memory.config.settings.read_only:
        return "This conversation is not saved: the memory is not written."
    if talk.session is None:
        return "This conversation is not saved (auto_save is off; --session NAME keeps it)."
    verb = "goes on" if talk.has_history else "is saved"
    return f"The conversation {verb} as {talk.session}."


def _tell(text: str) -> None:
    write_error(f"{visible(text, one_line=True)}\n")


def _show(text: str) -> None:
    write_out(f"{text}\n" if text else "")


# -- commands --------------------------------------------------------------------------------


def _search(talk: Talk, words: str, out: Output) -> None:
    if not words:
        _tell("For example: /search ssh keys")
        return
    answer = talk.memory.search(words, limit=SEARCH_LIMIT)
    _show(answer_text(answer, color=out.color, home=talk.memory.config.project))
    warn_of(answer.receipt, talk.memory, out)
    if not answer:
        _tell("Nothing found.")


def _remember(talk: Talk, text: str, out: Output) -> None:
    if not text:
        _tell("For example: /remember We deploy on Fridays.")
        return
    stored = talk.memory.store(text)
    if talk.memory.is_off:
        return
    _show(stored_text(stored, talk.memory.config.project))
    out.warn_all(stored_remarks(stored))


def _forget(talk: Talk, name: str, out: Output) -> None:
    if not name:
        _tell("For example: /forget 3f9c2a7b (an id that /search shows)")
        return
    try:
        unnamed = first_unnamed(talk.memory, talk.memory.delete(name, dry_run=True).ids)
        deleted = talk.memory.delete(name)
    except NotFound as error:
        text = f"{error.notice.text} Search for it: /search WORDS"
        raise NotFound(text, code=error.code, subject=error.subject) from error
    _show(f"Deleted {deleted_text(deleted, unnamed)}")
    out.suggest("plait delete --undo", "restore, within 30 days")


def _sources(talk: Talk, _: str, out: Output) -> None:
    for shown in talk.sources:
        _show(visible(f"{shown.id}  {shown.label}", one_line=True))
    if not talk.sources:
        _tell("The model was shown nothing of the memory.")


def _help(talk: Talk, _: str, out: Output) -> None:
    _show(HELP)


_COMMANDS: dict[str, Callable[[Talk, str, Output], None]] = {
    "/search": _search,
    "/remember": _remember,
    "/forget": _forget,
    "/sources": _sources,
    "/help": _help,
}


# -- the prompt ------------------------------------------------------------------------------


def _prompt(out: Output) -> "PromptSession[str]":
    try:
        from prompt_toolkit import PromptSession
    except ModuleNotFoundError as error:
        raise missing_package("prompt_toolkit") from error
    return PromptSession(history=_history(out))


def _history(out: Output) -> "History":
    """Return the history of what was typed: a private file of limited size, without secrets."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    path = os.path.join(os.path.dirname(default_db_path()), HISTORY_NAME)
    not_kept = f"what you type is not kept: {path} cannot be written"

    class PrivateHistory(FileHistory):
        is_kept = True

        def store_string(self, string: str) -> None:
            if not self.is_kept or secret_kinds(string):
                return
            try:
                # The file may have been deleted or replaced, or the disk be full by now.
                prepare_history(path)
                super().store_string(string)
            except (OSError, PlaitError):
                self.is_kept = False
                out.warn(not_kept)

    try:
        prepare_history(path)
    except (OSError, PlaitError):
        out.warn(not_kept)
        return InMemoryHistory()
    return PrivateHistory(path)


def prepare_history(path: str) -> None:
    """Make the file, readable by its owner only, and drop its older half if it is full.

    Raises:
        OSError: It cannot be written, or is no plain file.
    """
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | _NO_FOLLOW | NO_WAIT, PRIVATE_MODE)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a file")
        if status.st_mode & 0o077 and hasattr(os, "fchmod"):
            os.fchmod(handle, PRIVATE_MODE)
        if status.st_size <= MOST_HISTORY_BYTES:
            return
        os.lseek(handle, -MOST_HISTORY_BYTES // 2, os.SEEK_END)
        rest = os.read(handle, MOST_HISTORY_BYTES)
    finally:
        os.close(handle)
    # An entry begins with the line of its time.
    replace_private(path, rest[max(0, rest.find(b"\n# ")) :])


# -- digest ----------------------------------------------------------------------------------


def accept_facts(
    memory: Memory, facts: Sequence[str], session: str, model: str, out: Output
) -> list[str]:
    """Ask about each fact, store those that the person accepts, and return their ids."""
    try:
        from prompt_toolkit import PromptSession
    except ModuleNotFoundError as error:
        raise missing_package("prompt_toolkit") from error
    prompt: PromptSession[str] = PromptSession()
    ids: list[str] = []
    for number, fact in enumerate(facts, start=1):
        _show(visible(f"[{number}/{len(facts)}] {fact}", one_line=True))
        try:
            key = _answered(prompt)
            if key == "q":
                break
            if key == "e":
                fact = flattened(prompt.prompt("fact: ", default=fact))
            elif key != "y":
                continue
        except (KeyboardInterrupt, EOFError):
            break
        if not fact:
            continue
        stored = memory.store(fact, session=session, provenance={"model": model})
        _show(stored_text(stored, memory.config.project))
        out.warn_all(stored_remarks(stored))
        ids.append(stored.id[:SHORT_ID])
    return ids


def _answered(prompt: "PromptSession[str]") -> str:
    """Ask until one of the offered answers is given; only Enter is a no."""
    while True:
        word = prompt.prompt("store it? [y]es, [n]o, [e]dit, [q]uit: ").strip().lower()
        if word[:1] in ("y", "n", "e", "q", ""):
            return word[:1] or "n"
