"""What can go wrong, drawn once. Everything plait raises on purpose inherits ``PlaitError``.

PlaitError                   one sentence for a person, with the value and the next step
├── UsageError               the caller asked for something that makes no sense       (exit code 2)
│   ├── ConfigError          a setting has an unknown name or a bad value
│   └── AmbiguousId          a prefix or key fits several documents; the candidates are listed
├── NotFound                 no such document, passage or file                        (exit code 3)
├── SourceError              a file or folder cannot be read
├── EmbedderError            the embedder is absent, down, or answered nonsense
└── StoreError               the memory's file
    ├── StoreBusy            another process held the write lock past the time limit
    ├── StoreFull            no space left on the device
    ├── StoreDamaged         not a database, or a damaged one
    ├── StoreReadOnly        the file or its folder cannot be written
    ├── SchemaTooNew         written by a newer plait
    └── DeadlineExceeded     a query ran past its time limit
"""


class PlaitError(Exception):
    """Base of every anticipated failure; the message is meant to be read by a person."""

    exit_code = 1


class UsageError(PlaitError):
    """The request itself makes no sense."""

    exit_code = 2


class ConfigError(UsageError):
    """A setting has an unknown name or a bad value."""


class AmbiguousId(UsageError):
    """A prefix or key fits several documents."""


class NotFound(PlaitError):
    """No such document, passage or file."""

    exit_code = 3


class SourceError(PlaitError):
    """A file or folder cannot be read."""


class EmbedderError(PlaitError):
    """The embedder is absent, down, or answered nonsense."""


class StoreError(PlaitError):
    """The memory's file could not be used."""


class StoreBusy(StoreError):
    """Another process held the write lock past the time limit."""


class StoreFull(StoreError):
    """No space left on the device."""


class StoreDamaged(StoreError):
    """The file is not a database, or a damaged one."""


class StoreReadOnly(StoreError):
    """The file or its folder cannot be written."""


class SchemaTooNew(StoreError):
    """The file was written by a newer plait."""


class DeadlineExceeded(StoreError):
    """A query ran past its time limit."""
