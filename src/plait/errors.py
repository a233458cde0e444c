"""The errors that plait raises on purpose; all inherit `PlaitError`.

PlaitError                   what happened, with the value; a code; the next step as data
├── UsageError               the request is invalid                                 (exit code 2)
│   ├── ConfigError          a setting has an unknown name or a bad value
│   └── AmbiguousId          a prefix or key matches several documents; the message lists them
├── NotFound                 no such document, passage or file                        (exit code 3)
├── SourceError              a file or folder cannot be read
├── EmbedderError            the embedder is missing, down, or returned an invalid answer
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

from collections.abc import Mapping
from typing import NamedTuple, Self


class Advice(NamedTuple):
    """The next step: a name that every interface's table contains, and the values to fill in."""

    act: str
    values: tuple[tuple[str, str], ...] = ()


def advise(act: str, **values: str) -> Advice:
    """Build an `Advice`.

    >>> advise("reindex_with", embedder="ollama:e5")
    Advice(act='reindex_with', values=(('embedder', 'ollama:e5'),))
    """
    return Advice(act, tuple(values.items()))


class Notice(NamedTuple):
    """What happened, for a person to read; ``code`` and ``subject`` are for programs."""

    text: str
    code: str = ""
    subject: str = ""
    advice: Advice | None = None

    def worded(self, wording: Mapping[str, str]) -> str:
        """Return the text and then the advice, worded by one interface's table.

        >>> Notice("Nothing is named 'x'.", advice=advise("search")).worded({"search": "Search."})
        "Nothing is named 'x'. Search."
        """
        if self.advice is None or not wording[self.advice.act]:
            return self.text
        return f"{self.text} {wording[self.advice.act].format(**dict(self.advice.values))}"

    def __str__(self) -> str:
        """Return the message for Python programmers."""
        return self.worded(IN_PYTHON)


# The next steps in Python. The other interfaces have tables with the same keys.
IN_PYTHON: dict[str, str] = {
    "search": "Search for it: memory.search(...).",
    "give_query": "Give a query: memory.search('ssh keys').",
    "give_text": "For example: memory.store('a fact').",
    "give_key": "For example: memory.store(text, key='TOOLS').",
    "store_first": "Store something first: memory.store(text).",
    "ingest": "Call memory.ingest('{path}').",
    "reindex": "Call memory.reindex().",
    "reindex_embeddings": "Call memory.reindex(embeddings=True).",
    "reindex_with": "Open the memory with embedder='{embedder}' and call memory.reindex().",
    "doctor_fix": "Call memory.doctor(fix=True).",
    "create_entity": "Create it with memory.graph.create([NewEntity('{name}')]).",
    "list_entities": "memory.graph.read() lists the entities.",
    "derive_embedder": "Derive its class from plait.Embedder.",
    "set_embedder": "To use it, open the memory with embedder='{spec}'.",
    "choose": "Choose one of: {choices}.",
    "did_you_mean": "Did you mean '{name}'?",
    "install": "Install it: pip install 'plait[{extra}]'",
    "install_or_variable": "Install it (pip install 'plait[{extra}]') or set {variable}.",
    "reinstall": "Install plait again: pip install --force-reinstall plait",
    "upgrade": "Upgrade it: pip install --upgrade plait",
    "upgrade_package": "Upgrade it: pip install --upgrade {package}",
    "pull_model": "Download it: plait.embedders.fastembed.pull('{model}', folder).",
    "pull_ollama_model": "Download it in a shell: ollama pull {model}",
    "start_ollama": "Start it in a shell: ollama serve",
    "set_address": "Set the address that it redirects to.",
    "set_key": "Set the key in a shell: plait config set-key {provider}",
    "set_server_key": "Set the key in a shell: plait config set-key {provider} --url {url}",
    "set_keys": "Set keys in a shell: plait config set-key PROVIDER",
    "remove_and_set_keys": "Remove it and set your keys again: plait config set-key PROVIDER",
    "restore_or_set_keys": "Restore it, or set your keys again: plait config set-key PROVIDER",
    "make_private": "Make it readable only by you: chmod 600 {path}",
    "hide_key": "Make it readable only by you: chmod 600 {path}",
    "unset": "Remove {setting} from the settings file first.",
    "set_provider": "Set embedding_provider in that file.",
    "move_to_user_file": "To use it, set it in {path}.",
    "in_project": "Open the memory with project='{project}'.",
    "store_in_project": "Open the memory with project='{project}' and store it there.",
    "choose_file": "Open another file: Memory.open(path).",
    "protect_folder": "Remove that permission: chmod go-w {folder}",
    "export": "Save what is still readable: memory.export().",
    "give_source": "Name one: memory.ingest('~/notes').",
    "choose_documents": "Call memory.delete(id) or memory.delete(where={{'tags': 'old'}}).",
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


class ConfigError(UsageError):
    """A setting has an unknown name or a bad value."""

    code = "bad_setting"


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
