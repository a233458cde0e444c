"""Write the tables of docs/cli.md and docs/configuration.md from the code that they describe.

Run it after a change of verbs, options, settings or layers: python docs/generate.py
It leaves everything outside the marked parts of a page as it is.
"""

import re
import runpy
import sys
from argparse import Action
from pathlib import Path

from plait.cli import Parser, add_global_options, parser_for
from plait.cli.search import add_filters
from plait.cli.verbs import VERBS
from plait.settings.schema import ENVIRONMENT, FLAGS, SETTINGS, FromProject
from plait.settings.showing import describe

DOCS = Path(__file__).resolve().parent
FROM_PROJECT: dict[FromProject, str] = {
    "search": "yes",
    "files": "for its files",
    "trusted": "if trusted",
    "never": "never",
}
Row = tuple[str, str]


def page(name: str, parts: dict[str, str]) -> str:
    """Return a page with its marked parts replaced."""
    text = (DOCS / name).read_text(encoding="utf-8")
    for mark, body in parts.items():
        begin, end = f"<!-- begin {mark} -->", f"<!-- end {mark} -->"
        pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.S)
        new = f"{begin}\n\n{body}\n\n{end}"
        text, count = pattern.subn(lambda _, new=new: new, text)
        if count != 1:
            raise ValueError(f"{name} needs the marks of '{mark}' exactly once")
    return text


def pages() -> dict[str, str]:
    """Return every generated page as it should be."""
    return {
        "cli.md": page(
            "cli.md",
            {
                "verbs": verbs(),
                "filters": table(rows(filter_actions())),
                "globals": table(rows(global_actions())),
            },
        ),
        "configuration.md": page("configuration.md", {"settings": settings()}),
    }


def verbs() -> str:
    """Return a section for every verb."""
    shared = {flag for action in global_actions() for flag in action.option_strings}
    filters = {flag for action in filter_actions() for flag in action.option_strings}
    sections = []
    for name, verb in VERBS.items():
        parser = parser_for(name)
        actions, defaults = parser._actions, parser._defaults
        flags = {flag for action in actions for flag in action.option_strings}
        takes_filters = filters <= flags
        own = [
            action
            for action in actions
            if not (
                set(action.option_strings)
                & (shared | {"--help", "--version"}) - {*defaults.get("own_flags", ())}
            )
            and not (takes_filters and set(action.option_strings) & filters)
        ]
        usage = " ".join(filter(None, ["plait", name, verb.arguments, "[options]"]))
        summary = f"{verb.summary[0].upper()}{verb.summary[1:]}."
        parts = [f"### {name}", summary, f"```text\n{usage}\n```"]
        if own:
            parts.append(table(rows(own)))
        if takes_filters:
            parts.append("Takes the [filters](#filters) too.")
        parts.append(f"Example: `{verb.example}`")
        sections.append("\n\n".join(parts))
    return "\n\n".join(sections)


def rows(actions: list[Action]) -> list[Row]:
    """Return the name and meaning of each option."""
    return [(_name(action), action.help or "") for action in actions]


def _name(action: Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else None
    if action.choices is not None and (value is None or not action.option_strings):
        value = " | ".join(map(str, action.choices))
    if not action.option_strings:
        return f"`{value or action.dest.upper()}`"
    takes_value = action.nargs != 0
    shown = ", ".join(action.option_strings)
    return f"`{shown} {value or 'X'}`" if takes_value else f"`{shown}`"


def global_actions() -> list[Action]:
    """Return the options of every verb."""
    parser = Parser(prog="plait", add_help=False)
    add_global_options(parser)
    return [action for action in parser._actions if "--version" not in action.option_strings]


def filter_actions() -> list[Action]:
    """Return the filter options."""
    parser = Parser(prog="plait", add_help=False)
    add_filters(parser)
    return parser._actions


def settings() -> str:
    """Return a table of every setting: its default, accepted values and variable."""
    variables = {name: variable for variable, name in ENVIRONMENT.items()}
    flags = {flag for verb in VERBS for flag in parser_for(verb)._option_string_actions}
    lines = [
        "| setting | default | accepts | meaning | set also by | from a project's file |",
        "|---|---|---|---|---|---|",
    ]
    for name, default, words in describe():
        flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
        flag = {"embedding_provider": "--embedder"}.get(name, flag)
        ways = [f"`{variables[name]}`"] + ([f"`{flag}`"] if flag in flags else [])
        row = SETTINGS[name]
        counts = FROM_PROJECT[row.from_project]
        cells = [f"`{name}`", default, row.expected, words, ", ".join(ways), counts]
        lines.append("| " + " | ".join(_cell(cell) for cell in cells) + " |")
    return "\n".join(lines)


def table(body: list[Row]) -> str:
    """Return a Markdown table of two columns."""
    lines = ["| option | meaning |", "|---|---|"]
    return "\n".join([*lines, *(f"| {_cell(a)} | {_cell(b)} |" for a, b in body)])


def _cell(text: str) -> str:
    return (
        text.replace("|", "\\|").replace("*.", "\\*.")
        if "`" not in text
        else text.replace("|", "\\|")
    )


def main() -> int:
    """Write the pages that are out of date."""
    for name, text in pages().items():
        if (DOCS / name).read_text(encoding="utf-8") != text:
            (DOCS / name).write_text(text, encoding="utf-8")
            sys.stdout.write(f"wrote docs/{name}\n")
    layers: int = runpy.run_path(str(DOCS / "layers.py"))["main"]()
    return layers


if __name__ == "__main__":
    sys.exit(main())
