"""completion: print a script for tab completion."""

from argparse import SUPPRESS, ArgumentParser, Namespace

from plait.cli import GLOBAL_OPTIONS, Output, parser_for, write_out
from plait.cli.verbs import VERBS
from plait.embedders import PROVIDERS
from plait.settings.schema import SETTINGS
from plait.types import FUSIONS
from plait.writing.file_types import PATTERN_GROUPS

# Values of options that take others too, or aliases, and so have no choices of their own.
_VALUES = {
    "--fusion": FUSIONS,
    "--fusions": FUSIONS,
    "--embedder": tuple(PROVIDERS),
    "--include": tuple(PATTERN_GROUPS),
}

_SWITCHES = "--format --json --quiet --read-only"


def completion_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait completion``."""
    parser.add_argument("shell", metavar="SHELL", choices=tuple(_SCRIPTS), help="the shell you use")


def completion_run(arguments: Namespace, out: Output) -> int:
    """Print the completion script of a shell."""
    write_out(_SCRIPTS[arguments.shell]())
    return 0


def _flags(verb: str) -> list[str]:
    listed = [action for action in parser_for(verb)._actions if action.help != SUPPRESS]
    known = {flag for action in listed for flag in action.option_strings}
    return sorted(flag for flag in known if flag.startswith("--"))


def _values(verb: str) -> dict[str, list[str]]:
    """Return the words that may follow each option of a verb."""
    values = {}
    for action in parser_for(verb)._actions:
        for flag in action.option_strings:
            words = action.choices or _VALUES.get(flag)
            if words and flag.startswith("--"):
                values[flag] = [str(word) for word in words]
    return values


def _arguments(verb: str) -> dict[str, list[str]]:
    """Return the words that may follow a verb, and those that may follow such a word."""
    first = [
        str(choice)
        for action in parser_for(verb)._actions
        if not action.option_strings
        for choice in action.choices or ()
    ]
    following = {verb: first} if first else {}
    if verb == "config":
        following |= dict.fromkeys(("get", "set", "unset"), sorted(SETTINGS))
    return following


def _following(verb: str) -> list[tuple[str, str]]:
    """Return pairs: the word before, and the words that complete it."""
    return [(word, " ".join(words)) for word, words in (_values(verb) | _arguments(verb)).items()]


def _bash() -> str:
    cases = "\n".join(f'    {verb}) words="{" ".join(_flags(verb))}" ;;' for verb in VERBS)
    values = "\n".join(
        f'    "{verb} {word}") values="{words}" ;;'
        for verb in VERBS
        for word, words in _following(verb)
    )
    return f"""# plait completion for bash. Use it with: eval "$(plait completion bash)"
_plait() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" verb="" words="" values=""
  local i
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "${{COMP_WORDS[i]}}" in
      {"|".join(VERBS)}) verb="${{COMP_WORDS[i]}}"; break ;;
    esac
  done
  case "$verb" in
    "") words="{" ".join(VERBS)} {" ".join(flag for flag, *_ in GLOBAL_OPTIONS)} {_SWITCHES}" ;;
{cases}
  esac
  case "$verb ${{COMP_WORDS[COMP_CWORD - 1]}}" in
{values}
  esac
  if [[ "$values" != "" && "$word" != -* ]]; then
    COMPREPLY=($(compgen -W "$values" -- "$word"))
  elif [[ "$verb" == "" || "$word" == -* ]]; then
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
    values = "\n".join(
        f"      '{verb} {word}') compadd -- {words} ;;"
        for verb in VERBS
        for word, words in _following(verb)
    )
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
    case "${{words[2]}} ${{words[CURRENT - 1]}}" in
{values}
      *) _files ;;
    esac
  fi
}}
compdef _plait plait
"""


def _fish() -> str:
    lines = ["# plait completion for fish. Use it with: plait completion fish | source"]
    for verb, row in VERBS.items():
        lines.append(f"complete -c plait -n __fish_use_subcommand -a {verb} -d '{row.summary}'")
        here = f"complete -c plait -n '__fish_seen_subcommand_from {verb}'"
        values = _values(verb)
        for flag in _flags(verb):
            words = f" -x -a '{' '.join(values[flag])}'" if flag in values else ""
            lines.append(f"{here} -l {flag[2:]}{words}")
        for word, rest in _arguments(verb).items():
            after = f"complete -c plait -n '__fish_prev_arg_in {word}' -f -a"
            lines.append(f"{after} '{' '.join(rest)}'")
    return "\n".join(lines) + "\n"


_SCRIPTS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
