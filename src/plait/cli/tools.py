"""tools: print the definitions of plait's tools for a provider of models."""

from argparse import ArgumentParser, Namespace

from plait.cli import Output, as_list
from plait.errors import UsageError
from plait.tools.formats import TOOL_FORMATS, definitions
from plait.tools.profiles import PROFILES


def tools_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait tools``."""
    parser.set_defaults(formats=(TOOL_FORMATS, "the API that takes them"))
    parser.add_argument(
        "--tools",
        action="extend",
        type=as_list,
        choices=PROFILES,
        default=[],
        metavar="X,Y",
        help="tool profiles: core (default), layers, graph, work, review",
    )


def tools_run(arguments: Namespace, out: Output) -> int:
    """Print the definitions, as JSON wherever they go."""
    if arguments.format is None:
        names = ", ".join(TOOL_FORMATS)
        raise UsageError(f"Which shape? Give --format with one of: {names}.")
    out.show(definitions(arguments.format, arguments.tools))
    return 0
