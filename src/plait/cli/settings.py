"""config and completion."""

import sys
from argparse import ArgumentParser, Namespace
from os.path import abspath

from plait.cli.output import Output
from plait.cli.verbs import GLOBAL_VALUES, VERBS, parser_for
from plait.config import user_config_path, write_value
from plait.errors import UsageError
from plait.settings import SETTINGS, describe, did_you_mean, shown

SHELLS = ("bash", "zsh", "fish")


def config_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait config``."""
    parser.add_argument(
        "act",
        nargs="?",
        default="show",
        choices=("show", "get", "set", "path"),
        help="show all settings, get or set one, or say where the user's file is",
    )
    parser.add_argument("name", nargs="?", help="the setting")
    parser.add_argument("value", nargs="?", help="its new value")
    parser.add_argument("--origin", action="store_true", help="where each value comes from")


def config_run(arguments: Namespace, out: Output) -> int:
    """Show or change settings."""
    place = user_config_path() if arguments.config is None else abspath(arguments.config)
    if arguments.act == "path":
        out.result({"path": place}, place)
        return 0
    if arguments.act == "set":
        if arguments.name is None or arguments.value is None:
            raise UsageError("Give a name and a value, as in: plait config set limit 5")
        write_value(place, arguments.name, arguments.value)
        out.result(
            {"path": place, arguments.name: arguments.value},
            f"{arguments.name} = {arguments.value} in {place}",
        )
        return 0
    if arguments.name is None and arguments.act == "get":
        raise UsageError("Say which setting, as in: plait config get db_path")
    if arguments.name is not None and arguments.name not in SETTINGS:
        hint = did_you_mean(arguments.name, SETTINGS) or " See them all with: plait config show"
        raise UsageError(f"There is no setting '{arguments.name}'.{hint}")
    names = list(SETTINGS) if arguments.name is None else [arguments.name]
    if arguments.act == "get" and not arguments.origin:
        value = getattr(out.config.settings, arguments.name)
        out.result({arguments.name: value}, shown(value))  # bare, for `$(plait config get …)`
    else:
        _show(names, arguments.origin, out)
    return 0


def _show(names: list[str], with_origin: bool, out: Output) -> None:
    words = {name: text for name, _, text in describe()}
    width = max(map(len, names))
    lines, values = [], {}
    for name in names:
        value, origin = getattr(out.config.settings, name), out.config.origins[name]
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
    known = [flag for action in parser_for(verb)._actions for flag in action.option_strings]
    return sorted({flag for flag in known if flag.startswith("--") and flag != "--version"})


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
