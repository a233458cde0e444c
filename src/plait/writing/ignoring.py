"""Ignore rules in the format of .gitignore: parse them and match paths against them.

Opens no files and knows nothing of walks. Patterns that choose files are parsed the same way.
"""

import fnmatch
import re
from collections.abc import Iterable

from plait.errors import SourceError
from plait.types.records import NamedTuple

# Every name is compared with every rule that applies to it. Nobody writes as many by hand.
MAX_RULES = 1_000
# In all ignore files of a source: each rule is compiled once.
MAX_RULES_OF_A_SOURCE = 10_000


class IgnoreRule(NamedTuple):
    """One line of an ignore file.

    ``depth`` is the number of folders between the root and the ignore file. A segment matches one
    name of a path; ``None`` stands for ``**``.
    """

    depth: int
    segments: tuple[re.Pattern[str] | None, ...]
    negated: bool
    folders_only: bool

    def matches(self, parts: tuple[str, ...], folder: bool) -> bool:
        """Return whether the rule matches a path, given as its names below the root.

        No parent of the path may be ignored: a walk never enters such a folder.
        """
        if self.folders_only and not folder:
            return False
        first, last = self.segments[0], self.segments[-1]
        if len(self.segments) == 2 and first is None and last is not None:
            # Nearly every rule is a bare name: only the last name of the path matters.
            return last.match(parts[-1]) is not None
        # Track every position in the rule that the path can have reached, so that rules full of
        # stars take polynomial time.
        reached = self._skip_stars({0})
        end = len(self.segments)
        for part in parts[self.depth :]:
            advanced = set()
            for position in reached - {end}:
                segment = self.segments[position]
                if segment is None:
                    advanced.add(position)
                elif segment.match(part):
                    advanced.add(position + 1)
            reached = self._skip_stars(advanced)
        return end in reached

    def _skip_stars(self, reached: set[int]) -> set[int]:
        """Add the positions behind each reached ``**``, which also matches no name at all."""
        for position, segment in enumerate(self.segments):
            if segment is None and position in reached:
                reached.add(position + 1)
        return reached


def parse_ignore_file(text: str, depth: int, most: int = MAX_RULES) -> tuple[IgnoreRule, ...]:
    """Return the rules of an ignore file, without its comments and blank lines.

    Raises:
        SourceError: It has more rules than ``most``.
    """
    rules: list[IgnoreRule] = []
    for line in text.split("\n"):
        if line.startswith("#") or not (rule := parse_rule(line, depth)):
            continue
        if len(rules) == most:
            raise SourceError(
                f"it has too many rules (at most {MAX_RULES} apply to a folder, and "
                f"{MAX_RULES_OF_A_SOURCE} in all)",
                code="too_many_rules",
            )
        rules.append(rule)
    return tuple(rules)


def parse_rule(line: str, depth: int) -> IgnoreRule | None:
    """Parse one line as git does: https://git-scm.com/docs/gitignore#_pattern_format.

    Return ``None`` for a line without a pattern.
    """
    text = line.rstrip()
    if text.endswith("\\") and text != line:
        text += " "
    negated = text.startswith("!")
    text = text[negated:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    names = [name for name in text.split("/") if name]
    if not names:
        return None
    if "/" not in text:
        names.insert(0, "**")
    if names[-1] == "**":
        # A trailing ** matches everything inside a folder, but not the folder itself.
        names.append("*")
    segments = tuple(None if name == "**" else _segment(name) for name in names)
    return IgnoreRule(depth, segments, negated, folders_only)


def is_ignored(rules: Iterable[IgnoreRule], parts: tuple[str, ...], folder: bool) -> bool:
    """Return whether the rules leave out a path. The last rule that matches decides."""
    ignored = False
    for rule in rules:
        # A rule that would not change the result need not be tried.
        if rule.negated == ignored and rule.matches(parts, folder):
            ignored = not rule.negated
    return ignored


def _segment(name: str) -> re.Pattern[str]:
    # fnmatch has no backslash escapes and knows only [!a], where git also accepts [^a].
    plain = re.sub(r"\\(.)", lambda match: _literal(match[1]), name.replace("[^", "[!"))
    # For each bracket without an end, fnmatch would look through the whole rest again.
    head, bracket, tail = plain.rpartition("]")
    return re.compile(fnmatch.translate(head + bracket + tail.replace("[", _literal("["))))


def _literal(character: str) -> str:
    return f"[{character}]" if character in "*?[" else character
