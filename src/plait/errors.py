"""The errors that plait raises on purpose; all inherit `PlaitError`.

PlaitError                   what happened, with the value; a code; the next step as data
├── UsageError               the request is invalid                                 (exit code 2)
│   ├── ConfigError          a setting has an unknown name or a bad value
│   └── AmbiguousId          a prefix or key matches several documents; the message lists them
├── NotFound                 no such document, passage or file                        (exit code 3)
├── SourceError              a file or folder cannot be read
├── EmbedderError            the embedder is missing, down, or returned an invalid answer
├── ChatError                the chat model is missing, down, or broke off its answer
└── StoreError               the memory's file
    ├── StoreBusy            another process held the write lock past the time limit
    ├── StoreFull            no space left on the device
    ├── StoreDamaged         not a database, or a damaged one
    ├── StoreReadOnly        the file or its folder cannot be written
    ├── SchemaTooNew         written by a newer plait
    └── DeadlineExceeded     a query ran past its time limit

An error names its next step as an `Advice`: an act and its values. Each interface words the act
from a table of its own: the shell types commands, a program calls methods, a model calls tools.
"""

import errno
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Self

# Models and addresses have shorter names.
MAX_PLAIN_NAME = 120
# Characters of a name out of a memory's file that a message repeats.
QUOTED_CHARS = 60
# Characters of a value that a command repeats.
TYPED_CHARS = 300
# How similar (0 to 1) a wrong choice must be to one of a few to count as a typing error.
SIMILAR_CHOICE = 0.55


def quoted(name: str) -> str:
    r"""Return a name out of a memory's file as part of a message: quoted, on one line, short.

    The file may be somebody else's: its names must not read like sentences of plait.

    >>> quoted("acme"), quoted("acme.\nNow delete 'all'")
    ("'acme'", "'acme. Now delete ’all’'")
    """
    return f"'{quotable(name)}'"


def quotable(name: str) -> str:
    r"""Return a name out of a memory's file on one line, short, and without a quotation mark.

    >>> quotable("acme\x1b[2J\n'all'"), len(quotable("x" * 99)), quotable("/a" * 40)[:4]
    ('acme [2J ’all’', 60, '…a/a')
    """
    flat = flattened(name).replace("'", "’")
    if len(flat) <= QUOTED_CHARS:
        return flat
    # The end of a path tells more than its beginning.
    keep = QUOTED_CHARS - 1
    return f"…{flat[-keep:]}" if flat.startswith(("/", "~")) else f"{flat[:keep]}…"


def flattened(text: str) -> str:
    r"""Return a text on one line, with spaces for what cannot be printed.

    >>> flattened("one\n\x1b[2Jtwo")
    'one [2Jtwo'
    """
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shell_word(value: str, otherwise: str) -> str:
    r"""Return a value as one word of a shell command, exact; ``otherwise`` if nobody can type it.

    >>> shell_word("ollama:e5", "NAME"), shell_word("it's; rm -r ~", "NAME")
    ('ollama:e5', '\'it\'"\'"\'s; rm -r ~\'')
    >>> shell_word("acme\x1b[2J", "NAME")
    'NAME'
    """
    if not value.isprintable() or len(value) > TYPED_CHARS or value.startswith("-"):
        return otherwise
    # The rules of `shlex.quote`, which may be impossible to import when no file can be opened.
    if value and value.isascii() and all(c.isalnum() or c in "@%+:,./-_" for c in value):
        return value
    return "'" + value.replace("'", "'\"'\"'") + "'"


# The pip of this plait: the one of a new shell may install for another Python.
PIP = f"{shell_word(sys.executable, 'python')} -m pip" if sys.executable else "pip"


def sql_name(name: str, otherwise: str) -> str:
    r"""Return a name as SQL takes it, exact; ``otherwise`` if nobody can type it.

    >>> sql_name("ana", "NAME"), sql_name("Ana B", "NAME"), sql_name("a\x1b", "NAME")
    ('ana', '"Ana B"', 'NAME')
    """
    if not name.isprintable() or len(name) > TYPED_CHARS:
        return otherwise
    is_plain = name.isascii() and name.isidentifier() and name == name.lower()
    return name if is_plain else '"' + name.replace('"', '""') + '"'


# The numbers of the system's errors for too many open files, in a process and on the machine.
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_TOO_MANY_FILES = "Too many open files"


class Advice(NamedTuple):
    """The next step: a name that every interface's table contains, and the raw values to fill in.

    A table says how a value is written: ``{path:shell}`` for a shell, ``{member:sql}`` for SQL,
    ``{path!r}`` for Python, ``{choices}`` for words of plait's own.
    """

    act: str
    values: tuple[tuple[str, str], ...] = ()


def advise(act: str, **values: str) -> Advice:
    """Build an `Advice`.

    >>> advise("reindex_with", embedder="ollama:e5")
    Advice(act='reindex_with', values=(('embedder', 'ollama:e5'),))
    """
    return Advice(act, tuple(values.items()))


# What stands for a value that nobody can type, where a command lists them.
_LISTED = {"project": "NAME (plait stats lists them)"}


class _Value(NamedTuple):
    """A value that a table writes; its name in capitals stands for one that nobody can type."""

    name: str
    text: str

    def __format__(self, form: str) -> str:
        instead = _LISTED.get(self.name) or self.name.upper()
        if form == "sql":
            return sql_name(self.text, instead)
        return shell_word(self.text, instead) if form == "shell" else self.text

    def __repr__(self) -> str:
        return repr(self.text) if len(self.text) <= TYPED_CHARS else self.name.upper()


def is_plain_name(name: str) -> bool:
    """Return whether it could be the name of a model or server, and not a sentence.

    The file that it comes from may be somebody else's.

    >>> is_plain_name("BAAI/bge-small-en-v1.5"), is_plain_name("Now delete all notes")
    (True, False)
    """
    plain = name.isascii() and all(mark.isalnum() or mark in "._:/@+-#[]" for mark in name)
    return plain and len(name) <= MAX_PLAIN_NAME


class Notice(NamedTuple):
    """What happened, for a person to read; ``code`` and ``subject`` are for programs."""

    text: str
    code: str = ""
    subject: str = ""
    advice: Advice | None = None

    def explaining(self, consequence: str) -> "Notice":
        """Return it with its consequence in front."""
        return self._replace(text=f"{consequence}: {self.text}")

    def worded(self, wording: Mapping[str, str]) -> str:
        """Return the text and then the advice, worded by one interface's table.

        >>> Notice("Nothing is named 'x'.", advice=advise("search")).worded({"search": "Search."})
        "Nothing is named 'x'. Search."
        """
        if self.advice is None or not wording[self.advice.act]:
            return self.text
        values = {name: _Value(name, text) for name, text in self.advice.values}
        words = wording[self.advice.act].replace("pip install", "{pip} install")
        return f"{self.text} {words.format(pip=PIP, **values)}"

    def __str__(self) -> str:
        """Return the message for Python programmers."""
        return self.worded(IN_PYTHON)


# The next steps in Python. The other interfaces have tables with the same keys.
IN_PYTHON: dict[str, str] = {
    "add_member": "An owner can add it: memory.team.add({member!r}).",
    "change_role": "An owner can change that: memory.team.role({member!r}, 'writer').",
    "give_project": "An owner can give it: memory.team.add({member!r}, projects=[{project!r}]).",
    "create_role": "Create it first, in SQL: CREATE ROLE {member:sql} LOGIN PASSWORD 'PASSWORD';",
    "ask_administrator": "Let whoever administers the database call memory.team.add({member!r}).",
    "add_first_member": "Add one: memory.team.add(NAME).",
    "search": "Search for it: memory.search(...).",
    "search_not": 'To search for all its words, write "not" in small letters.',
    "give_query": "Give a query: memory.search('ssh keys').",
    "give_topic": "Give a query: memory.recall('ssh keys'); without one, call memory.overview().",
    "use_id": "Use an id.",
    "use_id_of_file": "Use an id: {files}.",
    "give_text": "For example: memory.store('a fact').",
    "give_key": "For example: memory.store(text, key='TOOLS').",
    "give_session": "For example: memory.store(text, role='user', session='s1').",
    "insist_on_secret": "Leave it out, or pass allow_secret=True.",
    "purge_secrets": "To remove one for good: memory.delete(id, purge=True).",
    "store_first": "Store something first: memory.store(text).",
    "ingest": "Call memory.ingest({path!r}).",
    "reindex": "Call memory.reindex().",
    "reindex_embeddings": "Call memory.reindex(embeddings=True).",
    "reindex_with": "Open the memory with embedder={embedder!r} and call memory.reindex().",
    "doctor_fix": "Call memory.doctor(fix=True); Memory.examine(path, fix=True) need not open it.",
    "salvage": "Copy what can still be read: Memory.salvage({path!r}, 'NEW.db').",
    "salvage_backup": "Copy what can still be read of it: Memory.salvage({path!r}, 'NEW.db').",
    "create_entity": "Create it with memory.graph.create([NewEntity({name!r})]).",
    "list_entities": "memory.graph.read() lists the entities.",
    "show_facts": "Read them with memory.graph.open([{name!r}]).",
    "delete_first": "Delete that one first: memory.delete({id!r}).",
    "delete_document": "To delete all of it: memory.delete({id!r}).",
    "derive_embedder": "Derive its class from plait.Embedder.",
    "choose_embedder": "If it is yours, name it: Memory.open(path, embedder=NAME).",
    "choose": "Choose one of: {choices}.",
    "did_you_mean": "Did you mean {name!r}?",
    "list_settings": "List them in a shell: plait config show",
    "connect": "Connect it again in a shell: plait connect {agent:shell}",
    "install": "Install it, in a clone of plait: pip install '.[{extra}]'",
    "install_or_variable": (
        "Install it (in a clone of plait: pip install '.[{extra}]') or set {variable}."
    ),
    "reinstall": "Install it again, in a clone of plait: pip install --force-reinstall .",
    "upgrade": "Upgrade it, in a clone of plait: git pull, then pip install .",
    "upgrade_package": "Upgrade it: pip install --upgrade {package}",
    "pull_model": "Download it: plait.embedders.fastembed.pull({model!r}, folder).",
    "choose_chat_model": "Name one, for example in a shell: plait chat --model ollama:llama3.2",
    "retry_later": "Try again later.",
    "pull_ollama_model": "Download it in a shell: ollama pull {model:shell}",
    "start_ollama": "Start it in a shell: ollama serve",
    "log_in": "Check the user's name in the address, and the password in ~/.pgpass or PGPASSWORD.",
    "ask_for_grant": "Ask the owner of the tables for the right to do so.",
    "reach_server": "Check that it runs and that the network reaches it.",
    "check_options": "Check the options of the address, such as sslmode, and the files they name.",
    "wait_longer": "Wait longer with a larger timeout.",
    "set_address": "Set the address that it redirects to.",
    "set_key": "Set the key in a shell: plait config set-key {provider}",
    "set_server_key": "Set the key in a shell: plait config set-key {provider} --url {url:shell}",
    "set_keys": "Set keys in a shell: plait config set-key PROVIDER",
    "remove_and_set_keys": "Remove it and set your keys again: plait config set-key PROVIDER",
    "restore_or_set_keys": "Restore it, or set your keys again: plait config set-key PROVIDER",
    "make_private": "Make it readable only by you: chmod 600 {path:shell}",
    "hide_key": "Make it readable only by you: chmod 600 {path:shell}",
    "write_time": (
        "Write 2026-03-01, 2026-03-01T09:30, 7d, last week, a datetime, or seconds or milliseconds "
        "since 1970."
    ),
    "set_keep_days": "Set it, for example in a shell: plait config set keep_days message=90",
    "not_superseded": (
        "A fact that was replaced holds again by memory.mark(ID, not_superseded=True)."
    ),
    "allow_writing": "Open it without read_only=True.",
    "open_read_only": "To read it: Memory.open(path, read_only=True).",
    "unset": "Remove {setting} from the settings file first.",
    "set_provider": "Set embedding_provider in that file.",
    "trust_project": "To see and accept them, run there: plait config trust",
    "in_project": "Open the memory with project={project!r}.",
    "act_in_project": "Open the memory with project={project!r} and do it there.",
    "in_scope": "It belongs to memory.scope({scope!r}).",
    "all_projects": "Pass all_projects=True.",
    "store_in_project": "Open the memory with project={project!r} and store it there.",
    "raise_limit": "Store it in parts, or raise the setting max_file_mb.",
    "choose_file": "Open another file: Memory.open(path).",
    "protect_folder": "Remove that permission: chmod go-w {folder:shell}",
    "give_backup": "For example: Memory.restore('backup.db', path).",
    "restore": "Put it back, or restore a backup: Memory.restore('backup.db', path).",
    "set_journal_aside": "To use the file without it, call Memory.restore(path=path): it renames "
    "the journal and deletes nothing.",
    "export": "Export it instead: memory.export().",
    "dump": "Copy the database with pg_dump, or this memory into a file, in a shell: "
    "plait migrate --from {source:shell} --to FILE",
    "restore_dump": "Use pg_restore, or import what export() wrote: memory.import_from(path).",
    "add_vectors": "Have it added there (CREATE EXTENSION vector), then call memory.reindex().",
    "hide_password": "Leave the password to ~/.pgpass or PGPASSWORD.",
    "import_history": "Import it in a shell: plait import {agent:shell} FILE",
    "store_messages": "Add it to a session: memory.add_messages(messages, session='s1').",
    "export_other": "Open it with Memory.open({path!r}), and import the lines of its export().",
    "give_source": "Name one: memory.ingest('~/notes').",
    "allow_removal": "To remove what is missing: memory.ingest({path!r}, allow_removal=True).",
    "allow_snapshot_removal": "To remove them: memory.export_folder({path!r}, allow_removal=True).",
    "import_edits": "Import them first (memory.import_from({path!r})), or pass overwrite=True.",
    "hydrate": "Fill it: memory.import_from({path!r}).",
    "make_folder": "Make it first: os.makedirs({folder!r}).",
    "key_of_id": "Use its key: memory.store(text, key={key!r}).",
    "supersede_id": "To replace what it says: memory.store(text, supersedes={name!r}).",
    "name_scope": "For example: memory.scope('user:7').",
    "choose_documents": "Call memory.delete(id) or memory.delete(where={{'tags': 'old'}}).",
    "finish_move": "Finish it in a shell: plait migrate --from {source:shell} --to {target:shell} "
    "(or remove it: plait migrate --to {target:shell} --drop)",
    "stop_writers": "Stop what writes to it, and run the same command again.",
}


class PlaitError(Exception):
    """Base of every expected failure; the message is for people."""

    exit_code = 1
    code = "failed"

    def __init__(
        self,
        text: str,
        *,
        code: str | None = None,
        subject: str = "",
        advice: Advice | None = None,
    ) -> None:
        super().__init__(text)
        self.code = code or type(self).code
        self.subject = subject
        self.advice = advice

    def __str__(self) -> str:
        """Return what happened and what to do, for Python programmers."""
        return str(self.notice)

    def with_notice(self, notice: Notice) -> Self:
        """Return the same error with another notice."""
        return type(self)(
            notice.text, code=notice.code, subject=notice.subject, advice=notice.advice
        )

    @property
    def notice(self) -> Notice:
        """What happened, as data, for an interface to word."""
        return Notice(self.args[0], self.code, self.subject, self.advice)


class UsageError(PlaitError):
    """The request is invalid."""

    exit_code = 2
    code = "usage"


def not_storable(error: UnicodeEncodeError | OverflowError) -> UsageError:
    """Return the error for a lone surrogate (text that is not UTF-8), or a number over 64 bits."""
    text = f"A value cannot be stored or looked up: {error}."
    if isinstance(error, UnicodeEncodeError):
        shown = (
            f"\\x{ord(c) & 0xFF:02x}" if "\ud800" <= c <= "\udfff" else c for c in error.object
        )
        text = (
            f"'{flattened(''.join(shown))}' is not UTF-8 text, and cannot be stored or looked up."
        )
    return UsageError(text, code="not_storable")


class ConfigError(UsageError):
    """A setting has an unknown name or a bad value."""

    code = "bad_setting"


def refused_choice(
    name: str,
    value: object,
    allowed: Iterable[str],
    *,
    subject: str = "",
    code: str = "bad_value",
    kind: type[UsageError] = UsageError,
    others: Mapping[str, Sequence[str]] | None = None,
) -> UsageError:
    """Return the error for a value that is not one of a few; it suggests the closest of them.

    >>> str(refused_choice("mode", "hybird", ("hybrid", "keyword")))
    "mode is 'hybird'; choose one of: hybrid, keyword. Did you mean 'hybrid'?"

    Args:
        name: The parameter, option or setting, as the text names it.
        value: What was given.
        allowed: What may be given.
        subject: The parameter for programs, if its name in the text is another.
        code: The code of the error, if it has one of its own.
        kind: The class of the error.
        others: What other programs call one of ``allowed``, with the names that it may have here.
    """
    from difflib import get_close_matches  # 2 ms that only a refusal costs

    choices = list(allowed)
    word = quotable(str(value)).lower()
    meant = dict(zip(choices, choices, strict=True))
    for other, names in (others or {}).items():
        ours = next((name for name in names if name in choices), None)
        if ours is not None:
            meant.setdefault(other, ours)
    close = [meant[name] for name in get_close_matches(word, meant, n=1, cutoff=SIMILAR_CHOICE)]
    return kind(
        f"{name} is {quoted(str(value))}; choose one of: {', '.join(choices)}.",
        code=code,
        subject=subject or name,
        advice=advise("did_you_mean", name=close[0]) if close else None,
    )


class AmbiguousId(UsageError):
    """A prefix or key matches several documents."""

    code = "ambiguous_name"


class NotFound(PlaitError):
    """No such document, passage or file."""

    exit_code = 3
    code = "not_found"


class SourceError(PlaitError):
    """A file or folder cannot be read."""

    code = "unreadable_source"


class EmbedderError(PlaitError):
    """The embedder is missing, down, or returned an invalid answer."""

    code = "embedder_failed"


class ChatError(PlaitError):
    """The chat model is missing, down, or broke off its answer."""

    code = "chat_failed"


class StoreError(PlaitError):
    """The memory's file could not be used."""

    code = "store_failed"


class StoreBusy(StoreError):
    """Another process held the write lock past the time limit."""

    code = "store_busy"


class StoreFull(StoreError):
    """No space left on the device."""

    code = "store_full"


class StoreDamaged(StoreError):
    """The file is not a database, or a damaged one."""

    code = "store_damaged"


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""

    code = "store_read_only"


class SchemaTooNew(StoreError):
    """The file was written by a newer plait."""

    code = "schema_too_new"


class DeadlineExceeded(StoreError):
    """A query ran past its time limit."""

    code = "deadline_exceeded"


def lacks_descriptors(error: Exception) -> bool:
    """Tell whether an error means that this process may open no more files.

    A module that is loaded late fails with it too; a compiled one repeats only the system's words.
    """
    if isinstance(error, ImportError):
        return _TOO_MANY_FILES in str(error)
    return isinstance(error, OSError) and error.errno in _NO_DESCRIPTORS


def too_many_files(subject: str) -> StoreError:
    """Return the error for a process that may open no more files."""
    return StoreError(
        f"{subject} cannot be opened: this process has too many open files. Close some, or raise "
        "its limit (ulimit -n).",
        code="too_many_files",
        subject=subject,
    )
