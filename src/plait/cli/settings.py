"""config and completion."""

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from os.path import abspath
from typing import Any

from plait.cli.output import Output
from plait.cli.verbs import GLOBAL_VALUES, VERBS, parser_for
from plait.config import Config, Settings, user_config_path
from plait.errors import NotFound, UsageError
from plait.settings import ALSO_CALLED, SETTINGS, describe, did_you_mean, shown
from plait.settings_file import remove_value, write_value

SHELLS = ("bash", "zsh", "fish")
KEY_ACTS = ("set-key", "remove-key", "keys")


def config_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait config``."""
    parser.add_argument(
        "act",
        nargs="?",
        default="show",
        choices=("show", "get", "set", "unset", "path", *KEY_ACTS),
        help="show all settings; get, set or unset one; say where the user's file is; "
        "keep, remove or list keys of embedders",
    )
    parser.add_argument("name", nargs="?", help="the setting, or whose key: openai, custom, ollama")
    parser.add_argument("value", nargs="?", help="its new value; never a key, which is asked for")
    parser.add_argument(
        "--url", help="with set-key and remove-key: the address that the key is for"
    )
    parser.add_argument("--origin", action="store_true", help="where each value comes from")


def config_run(arguments: Namespace, out: Output) -> int:
    """Show or change settings."""
    if arguments.act in KEY_ACTS:
        from plait.cli import keys

        return keys.run(arguments, out)
    if arguments.url is not None:
        raise UsageError("--url belongs to set-key, as in: plait config set-key custom --url URL")
    arguments.name = ALSO_CALLED.get(arguments.name, arguments.name)
    place = user_config_path() if arguments.config is None else abspath(arguments.config)
    if arguments.act == "path":
        out.result({"path": place}, place)
        return 0
    if arguments.act == "set":
        return _set(place, arguments, out)
    if arguments.act == "unset":
        return _unset(place, arguments.name, out)
    if arguments.name is None and arguments.act == "get":
        raise UsageError("Say which setting, as in: plait config get db_path")
    if arguments.name is not None:
        _check_name(arguments.name)
    names = list(SETTINGS) if arguments.name is None else [arguments.name]
    if arguments.act == "get" and not arguments.origin:
        value = _visible(arguments.name, out)
        out.result({arguments.name: value}, shown(value))  # bare, for `$(plait config get …)`
    else:
        _show(names, arguments.origin, out)
    return 0


def _visible(name: str, out: Output) -> Any:
    """A setting's value; of a key only that it is set."""
    value = getattr(out.config.settings, name)
    return "set" if name == "api_key" and value is not None else value


def _check_name(name: str) -> None:
    if name not in SETTINGS:
        hint = did_you_mean(name, SETTINGS) or " See them all with: plait config show"
        raise UsageError(f"There is no setting '{name}'.{hint}")


def _set(place: str, arguments: Namespace, out: Output) -> int:
    name = arguments.name
    if name is None or arguments.value is None:
        raise UsageError("Give a name and a value, as in: plait config set limit 5")
    if name == "embedding_provider":
        _check_provider(arguments.value)
    value = write_value(place, name, arguments.value)
    out.result({"path": place, name: value}, f"{name} = {shown(value) or 'personal'} in {place}")
    return 0


def _check_provider(spec: str) -> None:
    """Refuse now what would make every later command fail."""
    from plait.memory import named_embedder

    # Not the settings at hand: they may be what is to be mended.
    named_embedder(spec.strip(), Config(Settings(db_path=""), {}, (), None, ()))


def _unset(place: str, name: str | None, out: Output) -> int:
    if name is None:
        raise UsageError("Say which setting, as in: plait config unset limit")
    # A name that nobody knows may still stand in the file, and be what is to be mended.
    if not remove_value(place, name):
        _check_name(name)
        raise NotFound(f"{name} is not set in {place}. See: plait config show --origin")
    out.result({"path": place, name: None}, f"{name} removed from {place}")
    return 0


def _show(names: list[str], with_origin: bool, out: Output) -> None:
    words = {name: text for name, _, text in describe()}
    width = max(map(len, names))
    lines, values = [], {}
    for name in names:
        value, origin = _visible(name, out), out.config.origins[name]
        values[name] = {"value": value, "origin": origin} if with_origin else value
        note = f"  # {origin}" if with_origin else f"  # {words[name]}"
        lines.append(f"{name:<{width}} = {shown(value)}{note}")
    out.result(values, "\n".join(lines))


def completion_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait completion``."""
    parser.add_argument("shell", choices=SHELLS, help="the shell you use")


def completion_run(arguments: Namespace, out: Output) -> int:
    """Print a completion script for a shell."""
    sys.stdout.write(_SCRIPTS[arguments.shell]())
    return 0


def _flags(verb: str) -> list[str]:
    listed = [action for action in parser_for(verb)._actions if action.help != SUPPRESS]
    known = {flag for action in listed for flag in action.option_strings}
    return sorted(flag for flag in known if flag.startswith("--"))


def _bash() -> str:
    cases = "\n".join(f'    {verb}) words="{" ".join(_flags(verb))}" ;;' for verb in VERBS)
    return f"""# plait completion for bash. Use it with: eval "$(plait completion bash)"
_plait() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="" words=""
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{COMP_WORDS[i]}}" in
      {"|".join(VERBS)}) verb="${{COMP_WORDS[i]}}"; break ;;
    esac
  done
  case "$verb" in
    "") words="{" ".join(VERBS)} {" ".join(flag for flag, *_ in GLOBAL_VALUES)} --json --quiet" ;;
{cases}
  esac
  if [[ "$verb" == "" || "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}}
complete -o filenames -F _plait plait
"""


def _zsh() -> str:
    verbs = "\n".join(f"    '{verb}:{row.summary}'" for verb, row in VERBS.items())
    cases = "\n".join(f"      {verb}) compadd -- {' '.join(_flags(verb))} ;;" for verb in VERBS)
    return f"""#compdef plait
# plait completion for zsh. Use it with: eval "$(plait completion zsh)"
_plait() {{
  local -a verbs
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' verbs
  elif [[ "${{words[CURRENT]}}" == -* ]]; then
    case "${{words[2]}}" in
{cases}
    esac
  else
    _files
  fi
}}
compdef _plait plait
"""


def _fish() -> str:
    lines = ["# plait completion for fish. Use it with: plait completion fish | source"]
    for verb, row in VERBS.items():
        lines.append(f"complete -c plait -n __fish_use_subcommand -a {verb} -d '{row.summary}'")
        for flag in _flags(verb):
            lines.append(f"complete -c plait -n '__fish_seen_subcommand_from {verb}' -l {flag[2:]}")
    return "\n".join(lines) + "\n"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
