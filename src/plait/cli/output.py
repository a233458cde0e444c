"""Where words go: results to stdout, everything else to stderr, JSON when nobody is watching."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterable
from typing import Any, Literal

from plait.config import Config, load
from plait.settings import SETTINGS

Form = Literal["text", "json", "array"]
BAR_MARKS = 20


class Output:
    """What one command says, and in which form."""

    def __init__(self, arguments: Namespace) -> None:
        self.arguments = arguments
        self.on_terminal = sys.stdout.isatty()
        quietly: Form = "json" if arguments.json or not self.on_terminal else "text"
        self.form: Form = getattr(arguments, "format", None) or quietly
        self._config: Config | None = None

    @property
    def config(self) -> Config:
        """The settings, read when first needed: ``config set`` must be able to mend a bad file."""
        if self._config is None:
            self._config = _load(self.arguments)
            self.warn_all(self._config.warnings)
        return self._config

    def config_for(self, **flags: str) -> Config:
        """The same settings with other values for some of them."""
        return _load(Namespace(**{**vars(self.arguments), **flags}))

    @property
    def quiet(self) -> bool:
        """Whether only results and errors are wanted."""
        return bool(self.arguments.quiet) or self.config.settings.quiet

    @property
    def color(self) -> bool:
        """Whether the reader's terminal is to see colours."""
        return self.on_terminal and self.form == "text" and self.config.color

    def result(self, value: Any, text: str) -> None:
        """The answer itself: JSON or text, whichever was asked for."""
        if self.form == "text":
            if text:
                sys.stdout.write(text + "\n")
        else:
            indent = 2 if self.on_terminal else None
            sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=indent) + "\n")

    def line(self, text: str) -> None:
        """One line of a long answer, as it is."""
        sys.stdout.write(text + "\n")

    def warn(self, text: str) -> None:
        """Something the user should know; silent under ``--quiet``."""
        if not self.quiet:
            sys.stderr.write(f"plait: {text}\n")

    def error(self, text: str) -> None:
        """Something that failed beside what succeeded; said under ``--quiet`` too."""
        self.flush()
        sys.stderr.write(f"plait: {text}\n")

    def warn_all(self, texts: Iterable[str]) -> None:
        """Several warnings."""
        for text in texts:
            self.warn(text)

    def suggest(self, command: str, why: str) -> None:
        """The next command to try, for people only."""
        if self.form == "text" and not self.quiet:
            sys.stderr.write(f"\n{command}  # {why}\n")

    def progress(self, done: int, total: int, name: str) -> None:
        """How far a long command has come; only where somebody can see it."""
        if sys.stderr.isatty() and not self.quiet:
            sys.stderr.write(f"\r\x1b[2K{_bar(done, total)} {name[-50:]}")
            sys.stderr.flush()

    def step(self, text: str) -> None:
        """What a long command is doing now; only where somebody can see it."""
        if sys.stderr.isatty() and not self.quiet:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    def end_progress(self) -> None:
        """Clear the progress line."""
        if sys.stderr.isatty() and not self.quiet:
            sys.stderr.write("\r\x1b[2K")

    def flush(self) -> None:
        """Make sure everything was said before the exit code is."""
        sys.stdout.flush()
        sys.stderr.flush()


def _bar(done: int, total: int) -> str:
    """A bar of twenty marks, or a plain count while the end is unknown.

    >>> _bar(500, 1000), _bar(7, 0)
    ('[##########----------] 500/1,000', '7')
    """
    if total <= 0:
        return f"{done:,}"
    marks = BAR_MARKS * min(done, total) // total
    return f"[{'#' * marks:-<{BAR_MARKS}}] {done:,}/{total:,}"


def _load(arguments: Namespace) -> Config:
    given = vars(arguments)
    flags = {name: given[name] for name in SETTINGS if given.get(name) is not None}
    return load(flags, config=given.get("config"))
