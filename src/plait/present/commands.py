"""The commands that plait tells somebody to run, with the options that choose the same memory."""

from collections.abc import Mapping
from typing import Any

from plait.errors import Notice, shell_word
from plait.settings.loading import Config
from plait.settings.schema import FLAGS

# The options that a command keeps, each with the word for a value that nobody can type. Those of
# the second row matter only to verbs that make or compare vectors, and only if the command does not
# name an embedder itself.
_OF_MEMORY = {"db_path": "FILE", "config": "FILE", "project": "NAME"}
_OF_EMBEDDER = {"embedding_provider": "NAME", "ollama_url": "URL", "model": "NAME"}
_WITHOUT_VECTORS = ("connect", "delete", "get", "restore", "stats", "timeline")
# These verbs are not about a memory, or name theirs themselves.
_OF_SETTINGS = ("config", "migrate", "models")

# Somebody else runs these, under a login of his own: the address of whoever was refused would be
# refused again.
_OF_OTHERS = ("add_member", "change_role", "give_project", "ask_administrator")


def with_command(message: Notice, table: Mapping[str, str], given: Mapping[str, Any]) -> str:
    """Return a message and its advice by a ``table``; a command in it keeps the ``given`` options.

    >>> from plait.errors import advise
    >>> damaged = Notice("It is damaged.", advice=advise("doctor_fix"))
    >>> with_command(damaged, {"doctor_fix": "Run: plait doctor --fix"}, {"db_path": "my notes.db"})
    "It is damaged. Run: plait --db 'my notes.db' doctor --fix"
    """
    advice = message.advice
    if advice is None:
        return message.text
    head, command, rest = table[advice.act].partition("plait ")
    if not command or advice.act in _OF_OTHERS:
        return message.worded(table)
    values = (*advice.values, ("options", _typed(rest, given)))
    message = message._replace(advice=advice._replace(values=values))
    return message.worded({advice.act: f"{head}plait{{options}} {rest}"})


def with_options(text: str, given: Mapping[str, Any]) -> str:
    """Return a text of plait's own, whose command keeps the ``given`` options.

    >>> with_options("See: plait stats", {"db_path": "my notes.db", "embedding_provider": "none"})
    "See: plait --db 'my notes.db' stats"
    """
    head, command, rest = text.partition("plait ")
    return f"{head}plait{_typed(rest, given)} {rest}" if command else text


def chosen_options(config: Config) -> dict[str, str]:
    """Return the options that make a command elsewhere use the memory of these settings.

    Another shell has other variables and another working folder, so whatever is not a default
    counts as chosen.
    """
    settings = config.settings
    return {
        name: str(getattr(settings, name) or "personal")
        for name in ("db_path", "project", *_OF_EMBEDDER)
        if config.origins.get(name, "default") != "default"
    }


def _typed(command: str, given: Mapping[str, Any]) -> str:
    verb = command.partition(" ")[0]
    if verb in _OF_SETTINGS:
        kept = {"config": _OF_MEMORY["config"]}
    else:
        is_named = "--embedder" in command or verb in _WITHOUT_VECTORS
        kept = _OF_MEMORY if is_named else _OF_MEMORY | _OF_EMBEDDER
    flags = {name: FLAGS.get(name) or f"--{name.replace('_', '-')}" for name in kept}
    return "".join(
        f" {flags[name]} {shell_word(given[name], otherwise)}"
        for name, otherwise in kept.items()
        if given.get(name) is not None and f"{flags[name]} " not in command
    )
