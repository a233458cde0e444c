"""A project's ``plait.toml``. It comes with a clone, so it may not steer.

Settings that tune a search there, or the reading of the files below it, count
(`Setting.from_project` marks them). The rest is ignored, in one sentence, until the user trusts
exactly this file (`plait.settings.trust`). Until then nothing in it can make a command fail, and no
message repeats its words: an agent may read them.
"""

import os
import stat
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from plait.errors import ConfigError, Notice, advise
from plait.settings.databases import wants_database
from plait.settings.file import by_one_name, settings_in
from plait.settings.loading import TYPED, Config, accept, config_folder
from plait.settings.private import NO_WAIT
from plait.settings.schema import (
    SETTINGS,
    WEIGHTS,
    Given,
    Settings,
    Source,
    fitting_overlap,
    suggestion,
)
from plait.settings.trust import TrustedFiles, fingerprint
from plait.types import Cut
from plait.types.records import NamedTuple

FileTrust = Literal["trusted", "changed", "untrusted"]

# All settings with a comment each need less. A key of 60,000 dotted parts keeps Python's parser
# busy for a minute, and its parts are on one line.
MAX_PROJECT_BYTES = 16_384
MAX_PROJECT_LINE = 1_000
# A longer list of faults is cut.
MAX_FAULTS = 3
MAX_SHOWN_NAME = 32
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class ProjectFile(NamedTuple):
    """A project's file as it was read.

    ``given`` counts like any settings, ``for_files`` only for files below the file's folder.
    ``ignored`` has only the names: their values are neither checked nor kept.
    """

    path: str
    trust: FileTrust = "untrusted"
    given: Mapping[str, tuple[Any, str]] = _NOTHING
    for_files: Mapping[str, Any] = _NOTHING
    ignored: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()

    @property
    def source(self) -> Source:
        """Its settings among those of other sources. Trusted or not, the user did not write it."""
        return Source(dict(self.given), is_file=True, foreign=True)

    @property
    def folder(self) -> str:
        """The folder whose files are its own."""
        return os.path.dirname(self.path)

    def without_given(self, conflict: Notice) -> "ProjectFile":
        """Return it without settings that do not go together with the user's."""
        text = f"Ignored {', '.join(self.given)} in {self.path}: {conflict.text}"
        return self._replace(given=_NOTHING, notices=(*self.notices, _fault(self.path, text)))


class OwnFiles(NamedTuple):
    """How the files below a project's file are read; ``None`` leaves it to the settings."""

    folder: str
    patterns: tuple[str, ...] | None
    cut: Cut | None

    def cover(self, path: str | os.PathLike[str]) -> bool:
        """Return whether a path is at or below the folder; a link counts as what it leads to."""
        return leads_into(os.fspath(path), self.folder)


def leads_into(path: str, folder: str) -> bool:
    """Return whether a path leads to a folder or into it."""
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


def read_project(path: str, root: str, environ: Mapping[str, str]) -> ProjectFile:
    """Read a project's file; ``root`` is the folder that it must not lead out of.

    Raises:
        ConfigError: The user trusts the file, and a setting in it is wrong.
    """
    try:
        data = read_bounded(path)
    except ConfigError as error:
        return ProjectFile(path, notices=(_fault(path, error.notice.text),))
    notices: list[Notice] = []
    try:
        accepted = TrustedFiles(config_folder(environ)).hashes().get(path)
    except ConfigError as error:
        notices, accepted = [error.notice], None
    if accepted is not None and accepted == fingerprint(data):
        return _trusted(path, data, environ)
    trust: FileTrust = "untrusted" if accepted is None else "changed"
    if leads_into(path, root):
        project = _untrusted(path, data, environ)._replace(trust=trust)
    else:
        text = f"Ignored {path}: it is a link out of the project."
        project = ProjectFile(path, trust, notices=(_fault(path, text),))
    told = _told(project)
    return project._replace(notices=(*notices, *told, *project.notices))


def read_bounded(path: str) -> bytes:
    """Read a small regular file, whatever is at the path by now.

    Raises:
        ConfigError: It cannot be read, is no file or is too large.
    """
    try:
        # Between finding the file and opening it, a pipe may take its place.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | NO_WAIT)
    except OSError as error:
        raise _unfit(path, f"{error.strerror}.") from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise _unfit(path, "it is not a file.")
        data = os.read(handle, MAX_PROJECT_BYTES + 1)
    except OSError as error:
        raise _unfit(path, f"{error.strerror}.") from error
    finally:
        os.close(handle)
    if len(data) > MAX_PROJECT_BYTES:
        raise _unfit(path, f"it is larger than {MAX_PROJECT_BYTES:,} bytes.")
    if max(map(len, data.split(b"\n"))) > MAX_PROJECT_LINE:
        raise _unfit(path, f"it has a line of more than {MAX_PROJECT_LINE:,} bytes.")
    return data


def _unfit(path: str, reason: str) -> ConfigError:
    return ConfigError(f"Cannot read {path}: {reason}", code="unreadable_settings", subject=path)


def _fault(path: str, text: str) -> Notice:
    return Notice(text, "faulty_project_file", path)


def _told(project: ProjectFile) -> list[Notice]:
    """Return the sentence about what is ignored for want of trust, if anything is."""
    names = ", ".join(project.ignored)
    if project.trust == "changed":
        text = f"{project.path} changed since you trusted it"
        text += f"; ignored until you trust it again: {names}." if names else "."
        code = "changed_project_file"
    elif names:
        text = f"Ignored in {project.path}, which you have not trusted: {names}."
        code = "untrusted_project_file"
    else:
        return []
    return [Notice(text, code, project.path, advise("trust_project"))]


def _trusted(path: str, data: bytes, environ: Mapping[str, str]) -> ProjectFile:
    notices: list[Notice] = []
    given: Given = {}
    for_files: dict[str, Any] = {}
    ignored: list[str] = []
    for name, raw in strict_settings(path, data, notices).items():
        if name in SETTINGS and SETTINGS[name].from_project == "never":
            ignored.append(name)
            notices.append(_never(name, path))
            continue
        value = accept(name, raw, path, os.path.dirname(path), environ)
        if SETTINGS[name].from_project == "files":
            for_files[name] = value
        else:
            given[name] = value, path
    return ProjectFile(path, "trusted", given, for_files, tuple(ignored), tuple(notices))


def _never(name: str, path: str) -> Notice:
    """Return why a setting does not count even in a trusted file."""
    if name == "api_key":
        text = f"Ignored {name} in {path}: everyone with a clone can read it."
        return Notice(text, "key_in_project_file", path, advise("set_keys"))
    what = "whom you talk to" if name == "chat_model" else "what is deleted, and when,"
    text = f"Ignored {name} in {path}: {what} is set in your own settings."
    return Notice(text, "own_setting", path)


def strict_settings(path: str, data: bytes, warnings: list[Notice]) -> dict[str, Any]:
    """Return the settings in the contents of a file, with their values as written there.

    Raises:
        ConfigError: It is not TOML, or has a setting in the wrong place.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _unfit(path, "it is not UTF-8 text.") from error
    return settings_in(path, text, warnings)


def needing_trust(project: ProjectFile, data: bytes) -> dict[str, Any]:
    """Return the values of a file's contents that count only when the user trusts them.

    Raises:
        ConfigError: A setting is wrong; only here does a message repeat the file's words.
    """
    values = {
        name: accept(name, raw, project.path, project.folder)
        for name, raw in strict_settings(project.path, data, []).items()
    }
    return {
        name: value
        for name, value in values.items()
        if SETTINGS[name].from_project == "trusted"
        or (name in project.ignored and SETTINGS[name].from_project != "never")
    }


def own_settings(config: Config) -> Settings:
    """Return the settings without a server that a repository names: no key is meant for it."""
    theirs = _NOTHING if config.project_file is None else config.project_file.given
    defaults = Settings._field_defaults
    servers = ("embedding_provider", "ollama_url")
    return config.settings._replace(**{name: defaults[name] for name in servers if name in theirs})


def _untrusted(path: str, data: bytes, environ: Mapping[str, str]) -> ProjectFile:
    """Sort the settings of a file that nobody vouches for; a bad one never stops a command."""
    import tomllib

    try:
        parsed = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        # The parser's own message may repeat words of the file.
        return ProjectFile(path, notices=(_fault(path, f"Ignored {path}: it is not valid TOML."),))
    faults = [f"{name} is outside the table [memory]" for name in SETTINGS if name in parsed]
    table = parsed.get("memory", {})
    if not isinstance(table, dict):
        table = {}
        faults.append("'memory' is not a table")
    try:
        table = by_one_name(table, path)
    except ConfigError as error:
        table = {}
        faults.append(error.notice.text.removesuffix("."))
    given: Given = {}
    for_files: dict[str, Any] = {}
    ignored = ["db_path"] if wants_database(parsed) and "db_path" not in table else []
    for name, raw in table.items():
        setting = SETTINGS.get(name)
        if setting is None:
            faults.append(_unknown(name))
            continue
        if setting.from_project not in ("search", "files"):
            ignored.append(name)
            continue
        try:
            value = accept(name, raw, path, os.path.dirname(path), environ)
        except (ConfigError, RecursionError):
            faults.append(f"{name} must be {setting.expected}")
            continue
        if setting.from_project == "files":
            for_files[name] = value
        elif name in WEIGHTS and value in (0.0, 1.0):
            # It switches one kind of search off, in a memory without vectors all of it.
            ignored.append(name)
        else:
            given[name] = value, path
    notices = (_fault(path, _sentence(path, faults)),) if faults else ()
    return ProjectFile(path, "untrusted", given, for_files, tuple(ignored), notices)


def _sentence(path: str, faults: list[str]) -> str:
    more = len(faults) - MAX_FAULTS
    listed = [*faults[:MAX_FAULTS], *([f"{more} more"] if more > 0 else [])]
    return f"Ignored in {path}: {'; '.join(listed)}."


def _unknown(name: str) -> str:
    # Only what looks like a name is repeated: a sentence could be meant for an agent.
    if not (name.isascii() and name.isidentifier() and len(name) <= MAX_SHOWN_NAME):
        return "an unknown setting"
    advice = suggestion(name, SETTINGS)
    hint = f" (did you mean {dict(advice.values)['name']}?)" if advice is not None else ""
    return f"the unknown setting {name}{hint}"


def own_files(config: Config) -> OwnFiles | None:
    """Return how to read the files below the project's file, if there is one.

    Flags and variables come before the file, as everywhere.
    """
    project, settings = config.project_file, config.settings
    if project is None:
        return None
    chosen = {
        name: value
        for name, value in project.for_files.items()
        if not config.origins[name].startswith(TYPED)
    }
    cut = None
    if "chunk_size" in chosen or "chunk_overlap" in chosen:
        size = chosen.get("chunk_size", settings.chunk_size)
        overlap = chosen.get("chunk_overlap", settings.chunk_overlap)
        cut = Cut(size, fitting_overlap(size, overlap), chosen=True)
    return OwnFiles(project.folder, chosen.get("patterns"), cut)
