"""config: show and change settings; `plait.cli.keys` does the same for API keys."""

from argparse import ArgumentParser, Namespace
from os.path import abspath
from typing import Any

from plait.cli import Output, to_run
from plait.errors import NotFound, UsageError
from plait.settings.file import remove_value, write_value
from plait.settings.keys import PROVIDERS_WITH_KEYS
from plait.settings.loading import TYPED, Config, Settings, user_config_path
from plait.settings.schema import ALSO_CALLED, SETTINGS, did_you_mean
from plait.settings.showing import describe, shown
from plait.text import visible

KEY_ACTIONS = ("set-key", "remove-key", "keys")
TRUST_ACTIONS = ("trust", "untrust")


def config_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait config``."""
    parser.add_argument(
        "action",
        nargs="?",
        default="show",
        choices=("show", "get", "set", "unset", "path", *TRUST_ACTIONS, *KEY_ACTIONS),
        metavar="ACTION",
        help="show: print all settings; get, set, unset: one setting; path: print the path of "
        "your settings file; trust, untrust: the plait.toml of this project; set-key, "
        "remove-key, keys: API keys of embedders and chat models",
    )
    parser.add_argument(
        "name",
        nargs="?",
        metavar="NAME",
        help=f"a setting; for keys, a provider: {', '.join(PROVIDERS_WITH_KEYS)}",
    )
    parser.add_argument(
        "value",
        nargs="?",
        metavar="VALUE",
        help="set: the new value (set-key asks for the key instead)",
    )
    parser.add_argument(
        "--url", metavar="URL", help="set-key, remove-key: URL of the server that the key is for"
    )
    parser.add_argument(
        "--origin", action="store_true", help="show, get: print where each value comes from"
    )
    parser.add_argument("--yes", action="store_true", help="trust: do not ask")


def config_run(arguments: Namespace, out: Output) -> int:
    """Show or change settings."""
    _check_writable(arguments)
    if arguments.action in KEY_ACTIONS:
        from plait.cli.keys import keys_run

        return keys_run(arguments, out)
    if arguments.action in TRUST_ACTIONS:
        from plait.cli.trust import trust_run

        return trust_run(arguments, out)
    if arguments.url is not None:
        example = to_run("Example: plait config set-key custom --url URL")
        raise UsageError(f"--url needs set-key. {example}")
    arguments.name = ALSO_CALLED.get(arguments.name, arguments.name)
    path = user_config_path() if arguments.config is None else abspath(arguments.config)
    if arguments.action == "path":
        out.result({"path": path}, path)
        return 0
    if arguments.action == "set":
        return _set(path, arguments, out)
    if arguments.action == "unset":
        return _unset(path, arguments.name, out)
    if arguments.name is None and arguments.action == "get":
        raise UsageError(to_run("Name a setting. Example: plait config get db_path"))
    if arguments.name is not None:
        _check_name(arguments.name)
    names = list(SETTINGS) if arguments.name is None else [arguments.name]
    if arguments.action == "get" and not arguments.origin:
        value = _visible(arguments.name, out)
        out.result({arguments.name: value}, shown(value))  # bare, for `$(plait config get …)`
    else:
        _show(names, arguments.origin, out)
    return 0


def _check_writable(arguments: Namespace) -> None:
    # Only the flag: the setting must be possible to turn off.
    if arguments.read_only and arguments.action not in ("show", "get", "path", "keys"):
        raise UsageError(
            f"config {arguments.action} writes, and --read-only writes nothing. Leave it out.",
            code="read_only",
        )


def _visible(name: str, out: Output) -> Any:
    """Return the value of a setting; for a key, only that it is set."""
    value = getattr(out.config.settings, name)
    return "set" if name == "api_key" and value is not None else value


def _check_name(name: str) -> None:
    if name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS) or to_run(" See: plait config show")
        raise UsageError(f"There is no setting '{name}'.{hint}")


def _set(path: str, arguments: Namespace, out: Output) -> int:
    name = arguments.name
    if name is None or arguments.value is None:
        raise UsageError(to_run("Give a name and a value. Example: plait config set limit 5"))
    if name == "embedding_provider":
        _check_provider(arguments.value)
    if name == "patterns":
        from plait.writing.file_types import check_patterns

        check_patterns(tuple(part.strip() for part in arguments.value.split(",")))
    value = write_value(path, name, arguments.value)
    out.result({"path": path, name: value}, f"{name} = {shown(value) or 'personal'} in {path}")
    return 0


def _check_provider(spec: str) -> None:
    """Refuse an embedder that would make every later command fail."""
    from plait.memory import named_embedder

    # Checked with default settings: the current ones may be broken, and this may repair them.
    named_embedder(spec.strip(), Config(Settings(db_path=""), {}, (), None, ()))


def _unset(path: str, name: str | None, out: Output) -> int:
    if name is None:
        raise UsageError(to_run("Name a setting. Example: plait config unset limit"))
    # The file may contain an unknown name, and this command may be meant to remove it.
    if not remove_value(path, name):
        _check_name(name)
        see = to_run("See: plait config show --origin")
        raise NotFound(f"{name} is not set in {path}. {see}")
    out.result({"path": path, name: None}, f"{name} removed from {path}")
    return 0


def _show(names: list[str], with_origin: bool, out: Output) -> None:
    descriptions = {name: text for name, _, text in describe()}
    width = max(map(len, names))
    lines, values = [], {}
    for name in names:
        value, origin = _visible(name, out), out.config.origins[name]
        note = descriptions[name]
        values[name] = value
        if with_origin:
            fields, more = _from_project(name, out.config)
            values[name] = {"value": value, "origin": origin, **fields}
            note = "; ".join([origin, *more])
        lines.append(visible(f"{name:<{width}} = {shown(value)}  # {note}", one_line=True))
    out.result(values, "\n".join(lines))


def _from_project(name: str, config: Config) -> tuple[dict[str, Any], list[str]]:
    """Return what the project's file has to do with a setting, as fields and as words."""
    project = config.project_file
    if project is None:
        return {}, []
    if name in project.ignored:
        return {"ignored": project.path}, [f"ignored: the one in {project.path}"]
    if name in project.for_files and not config.origins[name].startswith(TYPED):
        value, folder = project.for_files[name], project.folder
        fields = {"for_files": {"value": value, "folder": folder}}
        return fields, [f"{shown(value)} for files in {folder}"]
    if config.origins[name] == project.path and project.trust == "trusted":
        return {"trusted": True}, ["trusted"]
    return {}, []
