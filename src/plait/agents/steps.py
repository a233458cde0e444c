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

Mask = Callable[[str], str]


def mask_beside(words: str, text: str, kinds: Collection[str]) -> Mask:
    """Return what takes secrets out of the acts of a message.

    ``text`` are the words of the message without secrets, ``kinds`` are those of the secrets that
    it had. Without any, what it shows is safe. What is known as a secret by the words beside it is
    one in a command, too.
    """
    values = sorted(set(filter(str.strip, secret_values(words))), key=len) if kinds else ()

    def mask(value: str) -> str:
        value = without_own(without_private(value))
        if not kinds and value in text:
            return value
        for secret in reversed(values):
            value = value.replace(secret, MASK)
        return masked(value)[0]

    return mask


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
    path = None if act.path is None else _short_path(mask(clean(act.path)), folder, root)
    command = None if act.command is None else _short_command(mask(clean(act.command).strip()))
    error = None if act.error is None else mask(clean(act.error))
    return Step(
        mask(clean(act.tool)),
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
