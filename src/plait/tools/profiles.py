"""The profiles: which tools a model is given together. Each is loaded when it is asked for."""

from collections.abc import Sequence
from importlib import import_module

from plait.errors import refused_choice
from plait.tools.tool import Tool

# Each is a module of this package, with the tools in NAME_TOOLS.
PROFILES = ("core", "layers", "graph", "work", "review")
DEFAULT_PROFILES = ("core",)
# Other systems' names for our tools.
ALIASES = {"recall": "memory_recall"}


def tools_of(profiles: Sequence[str]) -> tuple[Tool, ...]:
    """Return the tools of some profiles, always in the order of `PROFILES`.

    Raises:
        UsageError: There is no such profile; the code is "unknown_profile".
    """
    check_profiles(profiles)
    chosen = profiles or DEFAULT_PROFILES
    return tuple(tool for name in PROFILES if name in chosen for tool in _loaded(name))


def check_profiles(profiles: Sequence[str]) -> None:
    """Refuse names of which there is no profile.

    Raises:
        UsageError: There is no such profile; the code is "unknown_profile".
    """
    for name in profiles:
        if name not in PROFILES:
            raise refused_choice("profile", name, PROFILES, subject=name, code="unknown_profile")


def _loaded(profile: str) -> tuple[Tool, ...]:
    # Most models get ``core`` only, and the modules of the graph alone take 50 ms.
    module = import_module(f"plait.tools.{profile}")
    tools: tuple[Tool, ...] = getattr(module, f"{profile.upper()}_TOOLS")
    return tools
