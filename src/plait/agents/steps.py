"""Tool calls as steps: what of an act is kept as data beside its message."""

from collections.abc import Callable, Collection, Iterable

from plait.agents.histories import Act
from plait.agents.histories.acts import relative_path
from plait.agents.histories.stripping import without_own
from plait.agents.private import without_private
from plait.facts.credentials import secret_values
from plait.facts.masking import MASK, masked
from plait.text import clean
from plait.text.commands import program_of
from plait.text.failures import failure_of
from plait.types.steps import Step

# Characters of a command. A longer one is a script; it is cut, and never offered as a command.
_LONGEST_COMMAND = 400
_LONGEST_PATH = 300
_CUT = "…"

# Takes secrets out of a value of an act whose line is the second argument.
Mask = Callable[[str, str], str]
# Characters by which a secret is looked up.
_START = 8


def mask_beside(words: str, text: str, kinds: Collection[str]) -> Mask:
    """Return what takes secrets out of the acts of a message.

    ``text`` are the words of the message without secrets, ``kinds`` are those of the secrets that
    it had. Without any, what it shows is safe. What is known as a secret by the words beside it is
    one in a command, too. An answer may have thousands of acts: no act looks at all the others.
    """
    known = _Secrets(filter(str.strip, secret_values(words)) if kinds else ())
    shown = frozenset() if kinds else frozenset(text.split("\n"))

    def mask(value: str, line: str) -> str:
        value = without_own(without_private(value))
        if line in shown and value in line:
            return value
        return masked(known.out_of(value))[0]

    return mask


class _Secrets:
    """Values that are secret, found in a text however many they are."""

    def __init__(self, values: Iterable[str]) -> None:
        secrets = set(values)
        self._size = min(_START, *map(len, secrets)) if secrets else 0
        # By their first characters; those with the same ones by their length, the longest first.
        self._lengths: dict[str, dict[int, set[str]]] = {}
        for secret in sorted(secrets, key=len, reverse=True):
            lengths = self._lengths.setdefault(secret[: self._size], {})
            lengths.setdefault(len(secret), set()).add(secret)

    def out_of(self, text: str) -> str:
        """Return a text with a mask in the place of each; those that overlap have one mask."""
        if not self._lengths:
            return text
        parts: list[str] = []
        copied = end = 0  # so far is the text in the parts, and so far reaches a secret
        for place in range(len(text) - self._size + 1):
            length = self._length_at(text, place)
            if not length:
                continue
            if place >= end:
                parts += (text[copied:place], MASK)
            copied = end = max(end, place + length)
        return "".join((*parts, text[copied:]))

    def _length_at(self, text: str, place: int) -> int:
        """Return how long the secret is that begins here; 0 if none does."""
        lengths = self._lengths.get(text[place : place + self._size], {})
        here = (size for size, secrets in lengths.items() if text[place : place + size] in secrets)
        return next(here, 0)


def steps_of(acts: Iterable[Act], folder: str | None, root: str | None, mask: Mask) -> list[Step]:
    """Return the acts of a message as steps; those that name no file and no command are none.

    ``folder`` is where the agent worked, ``root`` that of its project. ``mask`` takes secrets out.
    """
    steps = []
    for act in acts:
        steps.append(_step(act, folder, root, mask))
        steps += [_step(act._replace(path=path), folder, root, mask) for path in act.also]
    return [step for step in steps if step.path or step.command or step.error]


def endings(steps: Iterable[Step]) -> int:
    """Return of how many steps it is known how they ended."""
    return sum(step.exit is not None or step.error is not None for step in steps)


def _step(act: Act, folder: str | None, root: str | None, mask: Mask) -> Step:
    def kept(value: str) -> str:
        return mask(value, act.line)

    path = None if act.path is None else _short_path(kept(clean(act.path)), folder, root)
    command = None if act.command is None else _short_command(kept(clean(act.command).strip()))
    error = None if act.error is None else kept(clean(act.error))
    return Step(
        kept(clean(act.tool)),
        path,
        command or None,
        program_of(command) if command else None,
        act.exit if act.exit is not None and abs(act.exit) < 2**31 else None,
        error,
        None if error is None else failure_of(error),
    )


def _short_command(command: str) -> str:
    """Return a command; of a long one its first words, without one that may be half a secret."""
    if len(command) <= _LONGEST_COMMAND:
        return command
    return command[:_LONGEST_COMMAND].rpartition(" ")[0] + _CUT


def _short_path(path: str, folder: str | None, root: str | None) -> str | None:
    """Return a path relative to the project if it lies there."""
    path = path.rstrip("/\\")
    if not path or len(path) > _LONGEST_PATH or "\n" in path:
        return None
    return relative_path(path, folder, root)
