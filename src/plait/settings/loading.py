"""Settings: flag > environment ``PLAIT_*`` > the project's ``plait.toml`` > the user's > default.

The only reader of the environment: all other modules get plain arguments. A project's file comes
with a cloned repository: what counts of it is decided in `plait.settings.project`.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from plait.errors import ConfigError, Notice
from plait.settings.schema import (
    ENVIRONMENT,
    FLAGS,
    IN_MEMORY,
    INTERDEPENDENT,
    SETTINGS,
    TYPO_LIKENESS,
    Given,
    Source,
    complete_settings,
    suggestion,
)
from plait.settings.schema import Settings as Settings  # callers need it beside `Config`
from plait.types.ids import is_address
from plait.types.records import NamedTuple

if TYPE_CHECKING:
    from plait.settings.keys import Keys
    from plait.settings.project import ProjectFile

PROJECT_FILE = "plait.toml"
# How the origin of a value begins that the user typed or exported; it comes before any file.
TYPED = ("flag ", "environment ")


class Config(NamedTuple):
    """The settings, the origin of each, and warnings about them.

    ``project``: the one to work in, by the setting or else the git repository; ``None``: personal.
    """

    settings: Settings
    origins: dict[str, str]
    warnings: tuple[Notice, ...]
    project: str | None
    files: tuple[str, ...]
    color: bool = True
    editor: str = ""
    models_folder: str = ""
    # A function, not the keys: a config may be printed, and a function does not show them.
    keys: "Callable[[], Keys] | None" = None
    project_file: "ProjectFile | None" = None
    brief: bool = False  # the process answers once and ends

    def is_own(self, name: str) -> bool:
        """Tell whether the user gave this setting: in his own files, the environment or a flag."""
        project = "" if self.project_file is None else self.project_file.path
        return self.origins.get(name, "default") not in ("default", project)

    def key_for(self, provider: str, origin: str) -> str | None:
        """Return the key for a provider at a scheme, host and port, or ``None``.

        Raises:
            ConfigError: There is one, but it cannot be read.
        """
        key = None if self.keys is None else self.keys().find(provider, origin)
        return None if key is None else key.reveal()


def changed(origins: Mapping[str, str], names: Iterable[str]) -> list[str]:
    """Return which of these settings somebody set."""
    return [name for name in names if origins.get(name, "default") != "default"]


def load(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    cwd: str | None = None,
    config: str | None = None,
) -> Config:
    """Read each setting from the first source that has it.

    Args:
        flags: Values by the name of the setting; ``None`` means that the flag was not given.
        environ: The environment; the process's own when omitted.
        cwd: Where the search for the project and relative paths start.
        config: A TOML or JSON file to read instead of the project's and the user's.

    Raises:
        ConfigError: A name is unknown, a value is bad, or a file cannot be read.
    """
    environ = os.environ if environ is None else environ
    here = os.path.realpath(working_folder() if cwd is None else cwd)
    root = find_project(here)
    warnings: list[Notice] = []
    files = _user_files(config, here, environ, warnings)
    sources: list[Source] = []
    if files:
        from plait.settings.file import read_source

        sources += [read_source(path, environ, warnings) for path in files]
    project_file = None
    if config is None and (path := _project_path(here, root, environ)) is not None:
        from plait.settings.project import read_project

        project_file = read_project(path, root or here, environ)
        files.append(path)
        sources.append(project_file.source)
    sources.append(Source(_from_environment(environ, here, warnings)))
    sources.append(Source(_from_flags(flags or {}, here, environ)))
    try:
        settings, origins = _merged(sources, environ)
    except ConfigError as error:
        if project_file is None or project_file.trust == "trusted":
            raise
        # Two weights may be wrong only together, and a clone must not make the user's unusable.
        project_file = project_file.without_given(error.notice)
        sources = [source for source in sources if not source.foreign]
        settings, origins = _merged(sources, environ)

    def keys() -> "Keys":
        from plait.settings.keys import Keys

        return Keys(sources, environ, config_folder(environ))

    warnings += [] if project_file is None else project_file.notices
    named = settings.project or None
    project = project_name(repository_of(root) if settings.project is None else named)
    return Config(
        settings,
        origins,
        tuple(warnings),
        project,
        tuple(files),
        # https://no-color.org: any value but an empty one.
        color=not environ.get("NO_COLOR"),
        editor=environ.get("VISUAL") or environ.get("EDITOR") or "",
        models_folder=os.path.join(os.path.dirname(default_db_path(environ)), "models"),
        keys=keys,
        project_file=project_file,
    )


def project_name(project: str | None) -> str | None:
    """Return the name of a project as it is stored: printable, with its accents composed.

    It may be the name of a folder, which whoever made a repository has chosen.
    """
    if project is None or (project.isascii() and project.isprintable()):
        return project
    from plait.text.normal_form import composed, without_controls

    return composed(without_controls(project))


def _merged(sources: list[Source], environ: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """Return the settings and the origin of each."""
    given: Given = {}
    for source in sources:
        given |= source.given
    values = {name: value for name, (value, _) in given.items()}
    values.setdefault("db_path", default_db_path(environ))
    origins = {name: given[name][1] if name in given else "default" for name in SETTINGS}
    is_complete = not (values.keys() & INTERDEPENDENT or is_address(values["db_path"]))
    settings = Settings(**values) if is_complete else complete_settings(values, origins)
    return settings, origins


# -- folders ---------------------------------------------------------------------------------


def find_project(start: str) -> str | None:
    """Return the git root at or above a folder, or ``None``."""
    folder = os.path.realpath(start)
    # In a worktree or submodule .git is a file, so any kind of entry counts.
    while not os.path.lexists(os.path.join(folder, ".git")):
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent
    return folder


def repository_of(root: str | None) -> str | None:
    """Return the folder that names the project of a git root: worktrees share their repository."""
    if root is None or not os.path.isfile(os.path.join(root, ".git")):
        return root
    from plait.settings.worktrees import main_worktree

    return main_worktree(root)


def user_config_path(environ: Mapping[str, str] | None = None) -> str:
    """Return the user's file: ``PLAIT_CONFIG``, or ``plait/config.toml`` in the config folder."""
    environ = os.environ if environ is None else environ
    if chosen := environ.get("PLAIT_CONFIG"):
        return _absolute(chosen, working_folder(), environ)
    return os.path.join(config_folder(environ), "config.toml")


def config_folder(environ: Mapping[str, str] | None = None) -> str:
    """Return the user's folder for plait; keys are kept there whatever ``PLAIT_CONFIG`` is."""
    folder = _platform_folder(environ, "XDG_CONFIG_HOME", ".config", "APPDATA", "Roaming")
    return os.path.join(folder, "plait")


def default_db_path(environ: Mapping[str, str] | None = None) -> str:
    """Return the default path of the memory: ``plait/memory.db`` in the data folder."""
    folder = _platform_folder(environ, "XDG_DATA_HOME", ".local/share", "LOCALAPPDATA", "Local")
    return os.path.join(folder, "plait", "memory.db")


def _platform_folder(
    environ: Mapping[str, str] | None, xdg: str, unix: str, windows: str, appdata: str
) -> str:
    environ = os.environ if environ is None else environ
    home = home_folder(environ)
    if sys.platform == "win32":
        return environ.get(windows) or os.path.join(home, "AppData", appdata)
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support")
    chosen = environ.get(xdg, "")
    # The XDG rules: a relative path is invalid and must be ignored.
    return chosen if os.path.isabs(chosen) else os.path.join(home, unix)


def environment() -> Mapping[str, str]:
    """Return the variables of this process."""
    return os.environ


def home_folder(environ: Mapping[str, str]) -> str:
    """Return the user's home folder."""
    return environ.get("HOME") or environ.get("USERPROFILE") or os.path.expanduser("~")


def working_folder() -> str:
    """Return the working folder; the root if it was deleted."""
    try:
        return os.getcwd()
    except FileNotFoundError:  # absolute paths still work
        return os.path.abspath(os.sep)


def _absolute(path: str, base: str, environ: Mapping[str, str]) -> str:
    if path == IN_MEMORY:
        return path
    if path == "~" or path.startswith(("~/", "~" + os.sep)):
        path = home_folder(environ) + path[1:]
    return os.path.abspath(os.path.join(base, os.path.expanduser(path)))


# -- sources ---------------------------------------------------------------------------------


def _user_files(
    config: str | None, here: str, environ: Mapping[str, str], warnings: list[Notice]
) -> list[str]:
    """Return the file that the user wrote or named, if there is one."""
    if config is not None:
        path = _absolute(config, here, environ)
        if not os.path.isfile(path):
            raise ConfigError(
                f"There is no file {path}. Check the path, or name no file.",
                code="no_such_file",
                subject=path,
            )
        return [path]
    user = user_config_path(environ)
    if os.path.isfile(user):
        return [user]
    if environ.get("PLAIT_CONFIG"):
        text = f"There is no file {user} (environment PLAIT_CONFIG)."
        warnings.append(Notice(text, "no_such_file", user))
    return []


def _project_path(here: str, root: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the nearest project's file, unless the user named it by ``PLAIT_CONFIG``."""
    folder = here
    while not os.path.isfile(path := os.path.join(folder, PROJECT_FILE)):
        if root is None or folder == root:
            return None
        folder = os.path.dirname(folder)
    is_users = os.path.realpath(path) == os.path.realpath(user_config_path(environ))
    return None if is_users else path


def _from_flags(flags: Mapping[str, object], here: str, environ: Mapping[str, str]) -> Given:
    given: Given = {}
    for name, value in flags.items():
        if value is not None:
            origin = f"flag {FLAGS.get(name, '--' + name.replace('_', '-'))}"
            given[name] = accept(name, value, origin, here, environ), origin
    return given


def _from_environment(environ: Mapping[str, str], here: str, warnings: list[Notice]) -> Given:
    given: Given = {}
    for variable, name in ENVIRONMENT.items():
        raw = environ.get(variable)
        # An empty variable counts as unset, as in a shell; for the project it means personal.
        if raw or (raw is not None and name == "project"):
            origin = f"environment {variable}"
            given[name] = accept(name, raw, origin, here, environ), origin
    for variable in environ:
        if variable.startswith("PLAIT_") and variable not in (*ENVIRONMENT, "PLAIT_CONFIG"):
            text = f"Ignored {variable}: there is no such setting."
            advice = suggestion(variable, ENVIRONMENT, TYPO_LIKENESS)
            warnings.append(Notice(text, "ignored_variable", variable, advice))
    return given


def accept(
    name: str, raw: object, origin: str, base: str, environ: Mapping[str, str] | None = None
) -> Any:
    """Parse the value of a setting, and make a path absolute; ``base`` is where it starts.

    Raises:
        ConfigError: The name is unknown or the value is bad.
    """
    from plait.settings.values import parse_setting  # without flags and files, nothing is read

    environ = os.environ if environ is None else environ
    value = parse_setting(name, raw, origin)
    if name in ("db_path", "memory_dir"):
        return value if is_address(value) else _absolute(value, base, environ)
    if name == "project" and (os.path.isabs(value) or value.split("/")[0] in (".", "..", "~")):
        folder = _absolute(value, base, environ)
        return repository_of(find_project(folder)) or folder
    return value
