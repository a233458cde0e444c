"""Values of settings: what text, TOML, JSON and Python give, checked and in one form."""

import os
from collections.abc import Callable
from typing import Any

from plait.errors import ConfigError, advise, refused_choice
from plait.settings.schema import (
    FOREIGN_NAMES,
    SETTINGS,
    Setting,
    ValueType,
    suggestion,
)
from plait.types.ids import SCOPE_PREFIX, may_be_address

TRUE_WORDS = ("on", "true", "1", "yes")
FALSE_WORDS = ("off", "false", "0", "no")
# Characters of a refused value that a message repeats.
MAX_SHOWN = 80


def parse_setting(name: str, raw: object, origin: str) -> Any:
    """Return the value of a setting, read from text, TOML, JSON or Python.

    Raises:
        ConfigError: The name is unknown or the value is bad; the message names ``origin``, unless
            it was typed as this.
    """
    if name not in SETTINGS:
        meant = FOREIGN_NAMES.get(name)
        is_typed = not origin or origin.startswith("flag ")
        raise ConfigError(
            f"Unknown setting '{name}'{'' if is_typed else f' in {origin}'}.",
            code="unknown_setting",
            subject=name,
            advice=advise("did_you_mean", name=meant)
            if meant
            else suggestion(name, SETTINGS) or advise("list_settings"),
        )
    if name == "db_path" and isinstance(raw, str) and may_be_address(raw):
        from plait.settings.databases import parse_address

        return parse_address(raw, origin)
    try:
        return _PARSERS[(setting := SETTINGS[name]).type](raw, setting)
    except (ValueError, OverflowError) as error:
        where = f" ({origin})" if origin else ""
        if setting.type == "choice":
            raise refused_choice(
                name + where, raw, setting.options, subject=name, kind=ConfigError
            ) from error
        got = "a value that is not shown" if name == "api_key" else repr(raw)
        got = got if len(got) <= MAX_SHOWN else got[: MAX_SHOWN - 1] + "…"
        text = f"{name} must be {setting.expected}, got {got}{where}."
        if name == "keep_days":
            from plait.settings.pairs import about_files

            text += about_files(raw, origin)
        raise ConfigError(text, code="bad_value", subject=name) from error


def _word(value: object) -> str:
    return str(value).strip().lower()


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError
    return value.strip()


def _parts(value: object) -> list[object] | tuple[object, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not parts:
        raise ValueError
    return parts


def _parse_path(value: object, _: Setting) -> str:
    os.fsencode(text := _text(value))
    return text


def _parse_whole(value: object, setting: Setting) -> int:
    number = int(value) if isinstance(value, str) else value
    # subtle: True is an int in Python, but the user did not mean a number.
    if type(number) is not int or not setting.low <= number <= setting.high:
        raise ValueError
    return number


def _parse_number(value: object, setting: Setting) -> float:
    number = float(value) if isinstance(value, str | int) else value
    # subtle: NaN fails both comparisons, so it is refused here too.
    if isinstance(value, bool) or not (
        isinstance(number, float) and setting.low <= number <= setting.high
    ):
        raise ValueError
    return number


def _parse_choice(value: object, setting: Setting) -> str:
    word = _word(value)
    return setting.options[setting.options.index(setting.aliases.get(word, word))]


def _parse_switch(value: object, _: Setting) -> bool:
    word = _word(value)
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise ValueError
    return word in TRUE_WORDS


def _parse_project(value: object, _: Setting) -> str:
    # A user's scope is reached by `Memory.scope` only: a project may be named after anything.
    if not isinstance(value, str) or "\0" in value or value.strip().startswith(SCOPE_PREFIX):
        raise ValueError
    return "" if _word(value) == "personal" else value.strip()


def _parse_patterns(value: object, _: Setting) -> tuple[str, ...]:
    return tuple(_text(part) for part in _parts(value))


def _parse_provider(value: object, setting: Setting) -> str:
    kind, _, rest = (text := _text(value)).partition(":")
    if kind != "custom":
        return text
    url, _, model = rest.partition("#")
    return f"custom:{_url(url)}" + (f"#{model.strip()}" if model.strip() else "")


def _url(text: str) -> str:
    scheme, _, rest = _text(text).partition("://")
    url = f"{scheme.lower()}://{rest}"
    if scheme.lower() not in ("http", "https") or not rest.strip("/") or len(url.split()) > 1:
        raise ValueError
    return url.rstrip("/")


def _parse_ollama_url(value: object, _: Setting) -> str:
    from plait.embedders.ollama import ollama_address

    try:
        return ollama_address(_text(value)).url
    except ConfigError as error:
        raise ValueError from error


def _parse_key(value: object, _: Setting) -> object:
    from plait.settings.secrets import as_secret

    return as_secret(value)


def _parse_pairs(value: object, setting: Setting) -> tuple[tuple[str, float], ...]:
    from plait.settings.pairs import parse_pairs

    return parse_pairs(value, setting)


_PARSERS: dict[ValueType, Callable[[object, Setting], Any]] = {
    "amounts": _parse_pairs,
    "api_key": _parse_key,
    "choice": _parse_choice,
    "counts": _parse_pairs,
    "limbic_constants": _parse_pairs,
    "number": _parse_number,
    "ollama_url": _parse_ollama_url,
    "path": _parse_path,
    "patterns": _parse_patterns,
    "project": _parse_project,
    "provider": _parse_provider,
    "switch": _parse_switch,
    "text": lambda value, _: _text(value),
    "whole": _parse_whole,
}
