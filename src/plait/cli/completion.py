"""completion: print a script for tab completion."""

from argparse import SUPPRESS, ArgumentParser, Namespace

from plait.cli import GLOBAL_OPTIONS, Output, parser_for, write_out
from plait.cli.verbs import VERBS


def completion_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait completion``."""
    parser.add_argument("shell", choices=tuple(_SCRIPTS), help="the shell you use")


def completion_run(arguments: Namespace, out: Output) -> int:
    """Print the completion script of a shell."""
    write_out(_SCRIPTS[arguments.shell]())
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
    "") words="{" ".join(VERBS)} {" ".join(flag for flag, *_ in GLOBAL_OPTIONS)} --json --quiet" ;;
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
