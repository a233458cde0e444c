"""A settings file, read whole, or with one value of it set or removed and every other line kept."""

import os
from typing import Any

from plait.errors import ConfigError
from plait.settings import (
    ALMOST_THE_SAME,
    ALSO_CALLED,
    IN_MEMORY,
    SETTINGS,
    did_you_mean,
    parse_setting,
    refuse_postgres,
    settle,
)

# Settings are a few hundred bytes; a repository must not make every search parse megabytes.
MAX_FILE_BYTES = 1_000_000


def read(path: str, warnings: list[str]) -> dict[str, Any]:
    """The settings of a TOML file, or of a JSON file, by name and as they are written there.

    Raises:
        ConfigError: The file cannot be read, or holds what looks meant for us elsewhere.
    """
    data = _parsed(path, _file_text(path))
    table = data if path.lower().endswith(".json") else _memory_table(data, path, warnings)
    return by_one_name(table, path)


def _file_text(path: str) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"Cannot read {path}: it is not UTF-8 text.") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"Cannot read {path}: more than 1 MB cannot be settings.")
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
        raise ConfigError(f"Cannot read {path} as {kind}: {error}.") from error
    if not isinstance(data, dict):
        raise ConfigError(f"Cannot read {path}: it must hold one JSON object with the settings.")
    return data


def _memory_table(data: dict[str, Any], path: str, warnings: list[str]) -> dict[str, Any]:
    """The table ``[memory]``; what stands beside it is refused if it looks meant for us."""
    engine: Any = data
    for key in ("storage", "provider", "config", "provider"):
        engine = engine.get(key) if isinstance(engine, dict) else None
    refuse_postgres(engine, path)
    for name in data:
        if name in ("memory", "storage"):
            continue
        if name in SETTINGS:
            raise ConfigError(f"{name!r} in {path} stands outside [memory]; move it below it.")
        if hint := did_you_mean(name, ["memory", *SETTINGS], ALMOST_THE_SAME):
            raise ConfigError(f"Unknown name {name!r} in {path}.{hint}")
        warnings.append(f"Ignored {name!r} in {path}: settings belong in the table [memory].")
    table = data.get("memory", {})
    if not isinstance(table, dict):
        raise ConfigError(f"'memory' in {path} must be a table: a line [memory], settings below.")
    return table


def write_value(path: str, name: str, value: object) -> Any:
    """Set one value in a TOML file, keeping every other line of it; the file becomes 0600.

    The answer is the value as it will be read.

    Raises:
        ConfigError: The value is bad, also beside the others, or the file cannot be edited.
    """
    if path.lower().endswith(".json"):
        raise ConfigError(f"Cannot edit {path}: only TOML files are edited.")
    if name == "api_key":
        raise ConfigError(
            "A key is not taken from the command line, where others can see it. "
            "Run: plait config set-key PROVIDER"
        )
    name = ALSO_CALLED.get(name, name)
    parsed = parse_setting(name, value, path)
    if name in ("db_path", "memory_dir") and parsed != IN_MEMORY and parsed[0] != "~":
        # A person means the folder he is in; in the file it would mean the file's folder.
        parsed = os.path.abspath(parsed)
    plain = list(parsed) if isinstance(parsed, tuple) else parsed
    text = _file_text(path) if os.path.exists(path) else ""
    wanted = _parsed(path, text)
    table = _memory_table(wanted, path, [])
    _refuse_other_name(path, table, name)
    wanted["memory"] = {**table, name: plain}
    _keep_key_in_place(path, table, wanted["memory"])
    edited = _edited(text, name, f"{name} = {_toml(plain)}")
    # The editor works on lines and TOML does not: what it wrote counts only if it reads back.
    if edited is None or not _is_toml(edited) or _parsed(path, edited) != wanted:
        raise ConfigError(f"Cannot edit {path} safely; set {name} in its [memory] by hand.")
    values = {
        key: parse_setting(key, raw, path)
        for key, raw in by_one_name(wanted["memory"], path).items()
    }
    origins = {key: path if key in values else "default" for key in SETTINGS}
    settle({"db_path": "", **values}, origins)
    _replace_file(os.path.realpath(path), edited)
    return parsed


def remove_value(path: str, name: str) -> bool:
    """Take one value out of a TOML file, keeping every other line; whether it was there.

    Raises:
        ConfigError: The file cannot be edited.
    """
    if path.lower().endswith(".json"):
        raise ConfigError(f"Cannot edit {path}: only TOML files are edited.")
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
        raise ConfigError(f"Cannot edit {path} safely; take {name} out of its [memory] by hand.")
    _replace_file(os.path.realpath(path), edited)
    return True


def by_one_name(given: dict[str, Any], origin: str) -> dict[str, Any]:
    """Settings as a file has them, each under its first name.

    Raises:
        ConfigError: One of them was given under both of its names.
    """
    found = dict(given)
    for other, name in ALSO_CALLED.items():
        table, _, key = other.partition(".")
        inner = found.get(table)
        if other in found:
            value = found.pop(other)
        elif isinstance(inner, dict) and key in inner:
            value = inner[key]
            found[table] = {rest: inner[rest] for rest in inner if rest != key}
            if not found[table]:
                del found[table]
        else:
            continue
        if name in found:
            raise ConfigError(f"{origin} sets both {name} and {other}, which are one; keep one.")
        found[name] = value
    return found


def _refuse_other_name(path: str, table: dict[str, Any], name: str) -> None:
    """Where a person wrote it as a dotted key or a table, no line of ours can stand for it."""
    if name not in table and name in by_one_name(table, path):
        raise ConfigError(f"{path} has {name} under its other name; change it there by hand.")


def _keep_key_in_place(path: str, before: dict[str, Any], after: dict[str, Any]) -> None:
    if "api_key" in after:
        from plait.keys import refuse_to_move_a_key

        refuse_to_move_a_key(path, before, after)


def _toml(value: object) -> str:
    import json

    # JSON's notation is TOML's for all that a setting can be, except for the character DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _edited(text: str, name: str, entry: str | None) -> str | None:
    """The text with ``entry`` in place of the setting's old lines, or added to ``[memory]``.

    Without an entry the old lines go; ``None`` means that they were not found.
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
    # A value may run over several lines, and only TOML's own parser knows where it ends.
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
    import tempfile

    folder = os.path.dirname(path)
    try:
        data = text.encode()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # mkstemp makes the file 0600, so that nobody else reads a setting even for a moment.
        handle, aside = tempfile.mkstemp(prefix=".config-", suffix=".toml", dir=folder)
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(aside, path)
        except OSError:
            os.unlink(aside)
            raise
    except OSError as error:
        raise ConfigError(f"Cannot write {path}: {error.strerror}.") from error
    except UnicodeEncodeError as error:
        raise ConfigError(f"Cannot write {path}: the value is not valid Unicode.") from error
