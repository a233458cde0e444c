"""The output of ``plait`` alone, of ``plait --help`` and for an unknown verb."""

from argparse import Action, ArgumentParser
from collections.abc import Sequence

from plait.cli import (
    FORMS,
    GLOBAL_OPTIONS,
    JSON_HELP,
    QUIET_HELP,
    READ_ONLY_HELP,
    Output,
    add_global_options,
    parser_for,
    to_run,
)
from plait.cli.verbs import OTHER_VERBS, VERBS
from plait.errors import UsageError, refused_choice

# How similar (0 to 1) an unknown option must be to a known one to count as a typing error.
SIMILAR_OPTION = 0.75
# How similar an unknown verb must be: of five letters, one may be wrong, or two swapped. What is
# less alike is another word, and the wrong command is a worse answer than none.
SIMILAR_VERB = 0.8
# What other verbs and programs call the same thing. They are not aliases, because one thing has one
# name. The first that the verb has is meant.
OTHER_OPTIONS = {
    "--all": ("--all-projects", "--all-versions"),
    "--budget": ("--max-tokens",),
    "--count": ("--limit",),
    "--force": ("--yes",),
    "--global": ("--all-projects",),
    "--max": ("--limit",),
    "--max-tokens": ("--budget",),
    "--top": ("--limit",),
    "--top-k": ("--limit",),
    "-k": ("--limit",),
    "-n": ("--limit",),
    "-y": ("--yes",),
}
OTHER_CHOICES = {
    "create": ("add", "set"),
    "delete": ("unset", "drop", "remove"),
    "edit": ("observe", "set"),
    "get": ("show",),
    "list": ("show", "keys"),
    "ls": ("list", "show"),
    "new": ("add", "set"),
    "remove": ("delete", "unset", "drop"),
    "reset": ("unset",),
    "rm": ("delete", "unset", "drop", "remove"),
    "update": ("observe", "set"),
}
# Argparse's messages, and ours.
_REWORDED = (
    ("unrecognized arguments:", "unknown arguments:"),
    ("the following arguments are required:", "missing argument:"),
    (": expected one argument", " needs a value"),
    (": expected at least one argument", " needs a value"),
)


def overview() -> str:
    """Return the text of ``plait --help``."""
    width = max(map(len, VERBS))
    lines = [
        "plait: memory your agent can search, by keyword and by meaning, in one file.",
        "",
        "usage: plait COMMAND … [options]",
        "",
    ]
    lines += [f"  {name:<{width}}  {verb.summary}" for name, verb in VERBS.items()]
    lines += ["", "Options of every command, before or after its name:", ""]
    options = [(f"{flag} {value}", words) for flag, _, _, value, words in GLOBAL_OPTIONS]
    options += [
        ("--json", JSON_HELP),
        (f"--format {'|'.join(FORMS)}", "output format"),
        ("--quiet", QUIET_HELP),
        ("--read-only", READ_ONLY_HELP),
    ]
    width = max(len(option) for option, _ in options)
    lines += [f"  {option:<{width}}  {words}" for option, words in options]
    lines += ["", "plait COMMAND --help lists the options of one command. Try:", ""]
    lines += [f"  {VERBS[name].example}" for name in ("ingest", "search", "store")]
    return "\n".join(lines) + "\n"


def unknown_verb(verb: str) -> str:
    """Say that a verb does not exist, and suggest the closest one.

    >>> unknown_verb("forgett")
    "There is no command 'forgett'. Did you mean: plait delete"
    """
    from difflib import get_close_matches

    names = [*VERBS, *OTHER_VERBS]
    close = get_close_matches(verb.lower(), names, n=1, cutoff=SIMILAR_VERB)
    named = OTHER_VERBS.get(close[0], close[0]) if close else ""
    hint = f"Did you mean: plait {named}" if named else "See: plait --help"
    return f"There is no command '{verb}'. {hint}"


def reworded(message: str, program: str) -> str:
    """Return a message of argparse in our words."""
    message = message.removeprefix("argument ")
    for theirs, ours in _REWORDED:
        message = message.replace(theirs, ours)
    return f"{message[:1].upper()}{message[1:]}. See: {program} --help"


def refused(action: Action, value: str) -> UsageError:
    """Return the error for a value that is not one of those to choose from."""
    choices = [str(choice) for choice in action.choices or ()]
    return refused_choice(_name_of(action), value, choices, others=OTHER_CHOICES)


def refused_blank(action: Action) -> UsageError:
    """Return the error for an empty value."""
    name = _name_of(action)
    may_be_left_out = bool(action.option_strings) or action.nargs in ("?", "*")
    step = "Give it a value, or leave it out." if may_be_left_out else "Give it a value."
    return UsageError(f"{name} is empty. {step}", code="bad_value", subject=name)


def _name_of(action: Action) -> str:
    """Return how help names an option or a word."""
    return "/".join(action.option_strings) or str(action.metavar or action.dest)


def misplaced_option(word: str) -> str:
    """Say that an option before the verb belongs behind it, or that there is no such option."""
    name = word.partition("=")[0]
    if any(name in parser_for(verb)._option_string_actions for verb in VERBS):
        return (
            f"{name} is not an option of every command. "
            f"Put it after the command: plait COMMAND … {word} (or see: plait --help)"
        )
    from plait.settings.schema import did_you_mean

    parser = ArgumentParser()
    add_global_options(parser)
    hint = did_you_mean(name, parser._option_string_actions, SIMILAR_OPTION)
    return f"There is no option {name}.{hint} See: plait --help"


def refuse_unknown_option(parser: ArgumentParser, left_over: Sequence[str]) -> None:
    """Refuse the first word that looks like an option and is none, and suggest the closest one.

    Raises:
        UsageError: There is such a word.
    """
    for word in left_over:
        if word == "--":
            return
        name = word.partition("=")[0]
        if word.startswith("-") and word != "-" and name not in parser._option_string_actions:
            from plait.settings.schema import did_you_mean

            known = parser._option_string_actions
            if name in OTHER_OPTIONS:  # another word, not a typing error
                others = (other for other in OTHER_OPTIONS[name] if other in known)
                hint = next((f" Did you mean {other!r}?" for other in others), "")
            else:
                hint = did_you_mean(name, known, SIMILAR_OPTION)
            hint = hint or f" See: {parser.prog} --help"
            raise UsageError(
                f"There is no option {name}.{hint} (To use it as text: {parser.prog} -- {name})"
            )


def welcome(out: Output) -> int:
    """Print what is in the memory, and three commands to try."""
    from plait.cli.search import open_to_read
    from plait.present.json import stats_dict
    from plait.present.text import stats_text

    with open_to_read(out) as memory:
        stats = memory.stats()
    if memory.is_off:
        out.result(
            stats_dict(stats), to_run("What turned it off: plait config get backend --origin")
        )
        return 0
    if stats.doc_count:
        lines = [stats_text(stats, undo=to_run("plait delete --undo")), "", "Try:"]
        commands = [
            (to_run("plait search WORDS"), "find passages"),
            (to_run("plait timeline --since 7d"), "see what is new"),
            (to_run('plait store "a fact"'), "store something"),
        ]
    else:
        lines = [f"Your memory at {stats.path} is empty.", "", "Try:"]
        commands = [
            (to_run("plait ingest ~/notes"), "index a folder of Markdown files"),
            (to_run('plait store "We deploy on Fridays"'), "store something"),
            (to_run("plait search when do we deploy"), "find it again"),
        ]
    width = max(len(command) for command, _ in commands)
    lines += [f"  {command:<{width}}  # {why}" for command, why in commands]
    lines.append("\nAll commands: plait --help")
    out.result(stats_dict(stats), "\n".join(lines))
    return 0
