"""Settings: flag > environment ``PLAIT_*`` > the project's ``plait.toml`` > the user's > default.

The only reader of the environment; everything below gets plain arguments. A project's file comes
with a cloned repository, so it may tune a search but not send text or files elsewhere.
"""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from plait.errors import ConfigError
from plait.settings import (
    ALMOST_THE_SAME,
    ENVIRONMENT,
    FLAGS,
    IN_MEMORY,
    SETTINGS,
    Place,
    Settings,
    describe,
    did_you_mean,
    parse_setting,
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
    "shown",
    "user_config_path",
]

PROJECT_FILE = "plait.toml"
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
    # A search without any such file does without the module too.
    from plait import settings_file

    given: _Given = {}
    for name, raw in settings_file.read(path, warnings).items():
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
