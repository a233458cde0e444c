"""Read a settings file, or set or remove one value in it and keep all other lines."""

import os
from collections.abc import Mapping
from typing import Any

from plait.errors import ConfigError, Notice, advise
from plait.settings.databases import database_of, wants_database
from plait.settings.foreign import refuse_unknown, without_foreign
from plait.settings.loading import accept
from plait.settings.private import replace_private
from plait.settings.schema import (
    ALSO_CALLED,
    IN_MEMORY,
    SETTINGS,
    TYPO_LIKENESS,
    Given,
    Source,
    complete_settings,
    suggestion,
)
from plait.settings.values import parse_setting
from plait.types.ids import is_address

# Settings are a few hundred bytes.
MAX_SETTINGS_BYTES = 1_000_000


# -- reading ---------------------------------------------------------------------------------


def read_source(path: str, environ: Mapping[str, str], warnings: list[Notice]) -> Source:
    """Read the settings of a file that the user wrote or named.

    Raises:
        ConfigError: The file cannot be read, or a setting in it is wrong.
    """
    given: Given = {}
    for name, raw in settings_in(path, _file_text(path), warnings).items():
        given[name] = accept(name, raw, path, os.path.dirname(path), environ), path
    if "api_key" in given:
        from plait.settings.keys import key_warnings

        warnings += key_warnings(path, given)
    return Source(given, is_file=True)


def settings_in(path: str, text: str, warnings: list[Notice]) -> dict[str, Any]:
    """Return the settings of a TOML or JSON file by name, with their values as written there.

    Raises:
        ConfigError: The text cannot be parsed, or has a setting in the wrong place.
    """
    data = _parsed(path, text)
    table = data if path.lower().endswith(".json") else _memory_table(data, path, warnings)
    table = by_one_name(without_foreign(table, path, warnings), path)
    refuse_unknown(table, path)
    address = database_of(data, path)
    if address is not None and "db_path" in table:
        raise _set_twice(path, "db_path", "storage.provider.config.db_url")
    return table if address is None else {**table, "db_path": address}


def _set_twice(origin: str, name: str, other: str) -> ConfigError:
    text = f"{origin} sets both {name} and {other}, which are the same setting. Keep one."
    return ConfigError(text, code="set_twice", subject=name)


def _unreadable(path: str, reason: str) -> ConfigError:
    return ConfigError(f"Cannot read {path}{reason}.", code="unreadable_settings", subject=path)


def _file_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_SETTINGS_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise _unreadable(path, f": {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _unreadable(path, ": it is not UTF-8 text") from error
    if len(data) > MAX_SETTINGS_BYTES:
        raise _unreadable(path, ": it is larger than 1 MB")
    return text


def _parsed(path: str, text: str) -> dict[str, Any]:
    is_json = path.lower().endswith(".json")
    try:
        if is_json:
            import json

            data = json.loads(text)
        else:
            import tomllib

            data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "JSON" if is_json else "TOML"
        raise _unreadable(path, f" as {kind}: {error}") from error
    if not isinstance(data, dict):
        raise _unreadable(path, ": it must be one JSON object with the settings")
    return data


def _memory_table(data: dict[str, Any], path: str, warnings: list[Notice]) -> dict[str, Any]:
    """Return the table ``[memory]``; refuse names outside it that look like our settings."""
    for name in data:
        if name in ("memory", "storage"):
            continue
        if name in SETTINGS:
            raise ConfigError(
                f"{name!r} in {path} is outside the table [memory]. Move it there.",
                code="outside_memory_table",
                subject=name,
            )
        if advice := suggestion(name, ["memory", *SETTINGS], TYPO_LIKENESS):
            raise ConfigError(
                f"Unknown name {name!r} in {path}.",
                code="unknown_setting",
                subject=name,
                advice=advice,
            )
        text = f"Ignored {name!r} in {path}: settings belong in the table [memory]."
        warnings.append(Notice(text, "ignored_name", name))
    table = data.get("memory", {})
    if not isinstance(table, dict):
        raise ConfigError(
            f"'memory' in {path} must be a table: a line [memory] with the settings below it.",
            code="memory_is_no_table",
            subject=path,
        )
    return table


# -- writing ---------------------------------------------------------------------------------


def write_value(path: str, name: str, value: object) -> Any:
    """Set one value in a TOML file and keep all its other lines; the file becomes 0600.

    Returns the value as it will be read.

    Raises:
        ConfigError: The value is bad by itself or with the others, or the file cannot be edited.
    """
    _require_toml(path)
    if name == "api_key":
        raise ConfigError(
            "A key is never an argument of a command: others could see it.",
            code="key_as_argument",
            subject=name,
            advice=advise("set_keys"),
        )
    name = ALSO_CALLED.get(name, name)
    parsed = parse_setting(name, value, "")  # only typed: no file is to blame
    is_path = name in ("db_path", "memory_dir") and not is_address(parsed)
    if is_path and parsed != IN_MEMORY and parsed[0] != "~":
        # The user means a path relative to the working folder, not to the file's folder.
        parsed = os.path.abspath(parsed)
    plain = _plain(parsed)
    text = _file_text(path) if os.path.exists(path) else ""
    wanted = _parsed(path, text)
    table = _memory_table(wanted, path, [])
    _refuse_other_name(path, table, name)
    if name == "db_path" and wants_database(wanted):
        raise _other_name(path, name)
    wanted["memory"] = {**table, name: plain}
    _keep_key_in_place(path, table, wanted["memory"])
    edited = _edited(text, name, f"{name} = {_toml(plain)}")
    # The editor works on lines, but TOML does not: check that the result reads as wanted.
    if edited is None or not _is_toml(edited) or _parsed(path, edited) != wanted:
        raise _not_editable(path, f"Cannot edit {path} safely. Set {name} in its [memory] by hand.")
    values = {
        key: parse_setting(key, raw, path)
        for key, raw in by_one_name(without_foreign(wanted["memory"], path, []), path).items()
    }
    origins = {key: path if key in values else "default" for key in SETTINGS}
    complete_settings({"db_path": "", **values}, origins)
    _replace_file(os.path.realpath(path), edited)
    return parsed


def remove_value(path: str, name: str) -> bool:
    """Remove one value from a TOML file and keep all other lines; return whether it was there.

    Raises:
        ConfigError: The file cannot be edited.
    """
    _require_toml(path)
    text = _file_text(path) if os.path.exists(path) else ""
    wanted = _parsed(path, text)
    table = wanted.get("memory")
    name = ALSO_CALLED.get(name, name)
    if isinstance(table, dict):
        _refuse_other_name(path, table, name)
    if not isinstance(table, dict) or name not in table:
        return False
    wanted["memory"] = {key: value for key, value in table.items() if key != name}
    _keep_key_in_place(path, table, wanted["memory"])
    edited = _edited(text, name, None)
    if edited is None or not _is_toml(edited) or _parsed(path, edited) != wanted:
        text = f"Cannot edit {path} safely. Remove {name} from its [memory] by hand."
        raise _not_editable(path, text)
    _replace_file(os.path.realpath(path), edited)
    return True


def _require_toml(path: str) -> None:
    if path.lower().endswith(".json"):
        raise _not_editable(path, f"Cannot edit {path}: only TOML files can be edited.")


def _not_editable(path: str, text: str) -> ConfigError:
    return ConfigError(text, code="not_editable", subject=path)


def by_one_name(given: dict[str, Any], origin: str) -> dict[str, Any]:
    """Return the settings of a file, each under its first name.

    Raises:
        ConfigError: A setting was given under both of its names.
    """
    settings = dict(given)
    for other, name in ALSO_CALLED.items():
        table, _, key = other.partition(".")
        inner = settings.get(table)
        if other in settings:
            value = settings.pop(other)
        elif isinstance(inner, dict) and key in inner:
            value = inner[key]
            settings[table] = {rest: inner[rest] for rest in inner if rest != key}
            if not settings[table]:
                del settings[table]
        else:
            continue
        if name in settings:
            raise _set_twice(origin, name, other)
        settings[name] = value
    return settings


def _refuse_other_name(path: str, table: dict[str, Any], name: str) -> None:
    """Refuse to edit a setting that the file has as a dotted key or in its own table."""
    if name not in table and name in by_one_name(table, path):
        raise _other_name(path, name)


def _other_name(path: str, name: str) -> ConfigError:
    return _not_editable(path, f"{path} has {name} under its other name. Change it there by hand.")


def _keep_key_in_place(path: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    if "api_key" in after:
        from plait.settings.keys import refuse_to_move_key

        refuse_to_move_key(path, before, after)


def _plain(value: object) -> object:
    """Return a value of a setting as TOML has it: a list, with ``name=number`` for a pair."""
    value = getattr(value, "whole", value)
    if not isinstance(value, tuple):
        return value
    return [part if isinstance(part, str) else f"{part[0]}={part[1]!r}" for part in value]


def _toml(value: object) -> str:
    import json

    # JSON and TOML write the values of settings alike, except for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _edited(text: str, name: str, entry: str | None) -> str | None:
    """Return the text with ``entry`` instead of the setting's lines, or added to ``[memory]``.

    Without an entry the lines are removed; ``None`` means that there were none.
    """
    import re

    ending = "\r" if "\r\n" in text else ""
    lines = text.removesuffix("\n").split("\n") if text else []
    header = re.compile(r"\s*\[\s*memory\s*\]\s*(#.*)?")
    start = next((at for at, line in enumerate(lines) if header.fullmatch(line)), None)
    if start is None:
        if entry is None:
            return None
        lines += [ending] * bool(lines) + ["[memory]" + ending, entry + ending]
        return "\n".join(lines) + "\n"
    last = start
    for at in range(start + 1, len(lines)):
        line = lines[at].strip()
        if line.startswith("["):
            break
        if re.match(rf"[\"']?{re.escape(name)}[\"']?\s*=", line):
            return _with_statement_replaced(lines, at, entry, ending)
        if line and not line.startswith("#"):
            last = at
    if entry is None:
        return None
    lines.insert(last + 1, entry + ending)
    return "\n".join(lines) + "\n"


def _with_statement_replaced(
    lines: list[str], at: int, entry: str | None, ending: str
) -> str | None:
    # A value may have several lines, and only the TOML parser knows where it ends.
    stop = at + 1
    while not _is_toml("\n".join(lines[at:stop])):
        stop += 1
        if stop > len(lines):
            return None
    if entry is None:
        return "\n".join([*lines[:at], *lines[stop:]]) + "\n"
    line = lines[stop - 1].rstrip("\r")
    for mark in (i for i, character in enumerate(line) if character == "#"):
        if _is_toml("\n".join([*lines[at : stop - 1], line[:mark]])):
            entry += "  " + line[mark:]
            break
    return "\n".join([*lines[:at], entry + ending, *lines[stop:]]) + "\n"


def _is_toml(text: str) -> bool:
    import tomllib

    try:
        # subtle: lines cut from a Windows file end in a lone CR, which TOML forbids.
        tomllib.loads(text.replace("\r", ""))
    except tomllib.TOMLDecodeError:
        return False
    return True


def _replace_file(path: str, text: str) -> None:
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"Cannot write {path}: the value is not valid Unicode.",
            code="cannot_write",
            subject=path,
        ) from error
    replace_private(path, data)
