"""Settings: flag > environment ``PLAIT_*`` > the project's ``plait.toml`` > the user's > default.

The only reader of the environment and of TOML; everything below gets plain arguments. A project's
file comes with a cloned repository, so it may tune a search but not send text or files elsewhere.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from plait.errors import ConfigError
from plait.settings import (
    ENVIRONMENT,
    FLAGS,
    SETTINGS,
    Place,
    Settings,
    describe,
    did_you_mean,
    parse_setting,
    refuse_postgres,
    settle,
    shown,
)

if TYPE_CHECKING:
    from plait.keys import Keys

__all__ = [
    "Config",
    "Settings",
    "config_folder",
    "default_db_path",
    "describe",
    "find_project",
    "load",
    "remove_value",
    "shown",
    "user_config_path",
    "write_value",
]

PROJECT_FILE = "plait.toml"
IN_MEMORY = ":memory:"
# Settings are a few hundred bytes; a repository must not make every search parse megabytes.
MAX_FILE_BYTES = 1_000_000
# Likeness (0 to 1) that names outside [memory] need before they count as slips of the pen: another
# program's names may be a little like ours, and every PLAIT_ variable is.
ALMOST_THE_SAME = 0.8
# Embedders that keep text on this machine, or on the server that the user chose himself.
LOCAL_PROVIDERS = ("none", "builtin", "hashing", "fastembed", "ollama")
# An allow-list, because parsers disagree on where the host of a crafted address is.
LOOPBACK = r"https?://(localhost|127\.0\.0\.\d{1,3}|\[::1\])(:\d{1,5})?(/[\w.~/-]*)?"

# Values by setting name, each with its origin.
_Given = dict[str, tuple[Any, str]]


class Config(NamedTuple):
    """The settings, where each came from, and what was noticed on the way.

    ``project`` is the one to work in: the setting, else the git root; ``None`` means personal.
    """

    settings: Settings
    origins: dict[str, str]
    warnings: tuple[str, ...]
    project: str | None
    files: tuple[str, ...]
    color: bool = True
    models_folder: str = ""
    # A function, not the keys: a settings value is printed in many places, and a closure is not.
    keys: "Callable[[], Keys] | None" = None

    def key_for(self, provider: str, origin: str) -> str | None:
        """The key that was given for a provider at a scheme, host and port, or ``None``.

        Raises:
            ConfigError: There is one, but it cannot be read.
        """
        found = None if self.keys is None else self.keys().find(provider, origin)
        return None if found is None else found.reveal()


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    config: str | None = None,
) -> Config:
    """Read every setting from the first place that has it.

    Args:
        flags: Values by setting name; ``None`` means that the flag was not given.
        environ: The environment; the process's own when omitted.
        cwd: Where the project is looked for and relative paths start.
        config: A TOML or JSON file to read instead of the project's and the user's.

    Raises:
        ConfigError: A name is unknown, a value is bad, or a file cannot be read.
    """
    environ = os.environ if environ is None else environ
    here = os.path.realpath(_working_folder() if cwd is None else cwd)
    root = find_project(here)
    warnings: list[str] = []
    files = _files(config, here, root, environ, warnings)
    places = [
        Place(_from_file(path, fence, environ, warnings), is_file=True, fenced=fence is not None)
        for path, fence in files
    ]
    places.append(Place(_from_environment(environ, here, warnings)))
    places.append(Place(_from_flags(flags or {}, here, environ)))
    given: _Given = {}
    for place in places:
        given |= place.given

    def keys() -> "Keys":
        from plait.keys import Keys

        return Keys(places, environ, config_folder(environ))

    values = {name: value for name, (value, _) in given.items()}
    values.setdefault("db_path", default_db_path(environ))
    origins = {name: given[name][1] if name in given else "default" for name in SETTINGS}
    settings = settle(values, origins)
    project = root if settings.project is None else settings.project or None
    return Config(
        settings,
        origins,
        tuple(warnings),
        project,
        tuple(path for path, _ in files),
        # https://no-color.org: any value but an empty one.
        color=not environ.get("NO_COLOR"),
        models_folder=os.path.join(os.path.dirname(default_db_path(environ)), "models"),
        keys=keys,
    )


def find_project(start: str) -> str | None:
    """The git root at or above a folder, or ``None``."""
    folder = os.path.realpath(start)
    # A worktree or submodule has a file named .git, so any kind of entry counts.
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def user_config_path(environ: Mapping[str, str] | None = None) -> str:
    """The user's own file: ``PLAIT_CONFIG``, else ``plait/config.toml`` in the config folder."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get("PLAIT_CONFIG"):
        return _absolute(chosen, _working_folder(), environ)
    return os.path.join(config_folder(environ), "config.toml")


def config_folder(environ: Mapping[str, str] | None = None) -> str:
    """The user's own folder for plait, where keys lie whatever ``PLAIT_CONFIG`` says."""
    environ = os.environ if environ is None else environ
    folder = _platform_folder(environ, "XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")
    return os.path.join(folder, "plait")


def default_db_path(environ: Mapping[str, str]) -> str:
    """Where the memory is unless told otherwise: ``plait/memory.db`` in the data folder."""
    folder = _platform_folder(environ, "XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local")
    return os.path.join(folder, "plait", "memory.db")


def _platform_folder(
    environ: Mapping[str, str], xdg: str, unix: str, windows: str, appdata: str
) -> str:
    home = _home(environ)
    if sys.platform == "win32":
        return environ.get(windows) or os.path.join(home, "AppData", appdata)
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support")
    chosen = environ.get(xdg, "")
    # The XDG rules: a relative path is invalid and must be ignored.
    return chosen if os.path.isabs(chosen) else os.path.join(home, unix)


def _home(environ: Mapping[str, str]) -> str:
    return environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~")


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # Somebody deleted it under us; an absolute --db still works.
        return os.path.abspath(os.sep)


def _absolute(path: str, base: str, environ: Mapping[str, str]) -> str:
    if path == IN_MEMORY:
        return path
    if path == "~" or path.startswith(("~/", "~" + os.sep)):
        path = _home(environ) + path[1:]
    return os.path.abspath(os.path.join(base, os.path.expanduser(path)))


def _files(
    config: str | None,
    here: str,
    root: str | None,
    environ: Mapping[str, str],
    warnings: list[str],
) -> list[tuple[str, str | None]]:
    """The files to read, weakest first, each with the folder that fences it in, if any."""
    if config is not None:
        path = _absolute(config, here, environ)
        if not os.path.isfile(path):
            raise ConfigError(f"There is no file {path} (flag --config).")
        return [(path, None)]
    found: list[tuple[str, str | None]] = []
    user = user_config_path(environ)
    if os.path.isfile(user):
        found.append((user, None))
    elif environ.get("PLAIT_CONFIG"):
        warnings.append(f"There is no file {user} (environment PLAIT_CONFIG).")
    folder = here
    while not os.path.isfile(path := os.path.join(folder, PROJECT_FILE)):
        if root is None or folder == root:
            return found
        folder = os.path.dirname(folder)
    # A project's file that the user named himself is his own: it is read once, unfenced.
    if os.path.realpath(path) != os.path.realpath(user):
        found.append((path, root or folder))
    return found


def _from_file(
    path: str, fence: str | None, environ: Mapping[str, str], warnings: list[str]
) -> _Given:
    data = _parsed(path, _file_text(path))
    is_json = path.lower().endswith(".json")
    table = data if is_json else _memory_table(data, path, warnings)
    given: _Given = {}
    for name, raw in table.items():
        value = _accept(name, raw, path, os.path.dirname(path), environ)
        if fence is not None and (reason := _beyond_fence(name, value, fence)):
            told = name if name == "api_key" else f"{name} to {value!r}"
            raise ConfigError(
                f"{path} sets {told}, {reason}; a project's file may not do that. "
                f"If you want it, put it in {user_config_path(environ)}."
            )
        given[name] = value, path
    if "api_key" in given:
        from plait.keys import doubts

        warnings += doubts(path, given)
    return given


def _from_flags(flags: Mapping[str, object], here: str, environ: Mapping[str, str]) -> _Given:
    given: _Given = {}
    for name, value in flags.items():
        if value is not None:
            origin = f"flag {FLAGS.get(name, '--' + name.replace('_', '-'))}"
            given[name] = _accept(name, value, origin, here, environ), origin
    return given


def _from_environment(environ: Mapping[str, str], here: str, warnings: list[str]) -> _Given:
    given: _Given = {}
    for variable, name in ENVIRONMENT.items():
        raw = environ.get(variable)
        # Empty means unset, as everywhere in a shell; for the project it means personal.
        if raw or (raw is not None and name == "project"):
            origin = f"environment {variable}"
            given[name] = _accept(name, raw, origin, here, environ), origin
    for variable in environ:
        if variable.startswith("PLAIT_") and variable not in (*ENVIRONMENT, "PLAIT_CONFIG"):
            hint = did_you_mean(variable, ENVIRONMENT, ALMOST_THE_SAME)
            warnings.append(f"Ignored {variable}: there is no such setting.{hint}")
    return given


def _accept(name: str, raw: object, origin: str, base: str, environ: Mapping[str, str]) -> Any:
    """The parsed value, with paths made absolute from ``base``."""
    value = parse_setting(name, raw, origin)
    if name in ("db_path", "memory_dir"):
        return _absolute(value, base, environ)
    if name == "project" and (os.path.isabs(value) or value.split("/")[0] in (".", "..", "~")):
        folder = _absolute(value, base, environ)
        return find_project(folder) or folder
    return value


def _beyond_fence(name: str, value: Any, root: str) -> str | None:
    """Why a project's file may not hold this value, or ``None`` where it may."""
    is_folder = name in ("db_path", "memory_dir") or (name == "project" and os.path.isabs(value))
    if is_folder and not _inside(value, root):
        return "outside the project"
    if name == "ollama_url" and not _is_loopback(value):
        return "which is not this machine"
    if name == "api_key":
        return "which everybody with a clone can read"
    if name == "embedding_provider":
        kind, _, rest = value.partition(":")
        is_here = kind == "custom" and _is_loopback(rest.partition("#")[0])
        if kind not in LOCAL_PROVIDERS and not is_here:
            return "which may send text to another machine"
    return None


def _inside(path: str, root: str) -> bool:
    # A repository can hold links, so only where the path really leads counts.
    real, top = os.path.realpath(path), os.path.realpath(root)
    return path != IN_MEMORY and (real == top or real.startswith(top.rstrip(os.sep) + os.sep))


def _is_loopback(url: str) -> bool:
    import re

    return re.fullmatch(LOOPBACK, url, re.ASCII) is not None


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
    parsed = parse_setting(name, value, path)
    if name in ("db_path", "memory_dir") and parsed != IN_MEMORY and parsed[0] != "~":
        # A person means the folder he is in; in the file it would mean the file's folder.
        parsed = os.path.abspath(parsed)
    plain = list(parsed) if isinstance(parsed, tuple) else parsed
    text = _file_text(path) if os.path.exists(path) else ""
    wanted = _parsed(path, text)
    table = _memory_table(wanted, path, [])
    wanted["memory"] = {**table, name: plain}
    _keep_key_in_place(path, table, wanted["memory"])
    edited = _edited(text, name, f"{name} = {_toml(plain)}")
    # The editor works on lines and TOML does not: what it wrote counts only if it reads back.
    if edited is None or not _is_toml(edited) or _parsed(path, edited) != wanted:
        raise ConfigError(f"Cannot edit {path} safely; set {name} in its [memory] by hand.")
    values = {key: parse_setting(key, raw, path) for key, raw in wanted["memory"].items()}
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
    if not isinstance(table, dict) or name not in table:
        return False
    wanted["memory"] = {key: value for key, value in table.items() if key != name}
    _keep_key_in_place(path, table, wanted["memory"])
    edited = _edited(text, name, None)
    if edited is None or not _is_toml(edited) or _parsed(path, edited) != wanted:
        raise ConfigError(f"Cannot edit {path} safely; take {name} out of its [memory] by hand.")
    _replace_file(os.path.realpath(path), edited)
    return True


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
