"""What a review proposes and who changed what, as text and as data."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from plait.errors import flattened, shell_word
from plait.present.text import on_a_line
from plait.times import show_time
from plait.types.audit import AuditEntry
from plait.types.ids import SHORT_ID
from plait.types.review import Review, ReviewItem

# Hexadecimal digits of a hash that are shown to people.
SHORT_HASH = 8


def commands_of(item: ReviewItem) -> tuple[str, ...]:
    """Return the commands that settle a finding as proposed."""
    first = item.ids[0]
    match item.action:
        case "supersede":
            return (f"plait mark {first} --superseded-by {item.ids[1]}",)
        case "archive":
            return (f"plait mark {first} --status archived",)
        case "purge":
            return (f"plait delete {first} --purge",)
        case "split":
            return tuple(
                f"plait mark {' '.join(ids)} --entity {shell_word(name, 'NAME')}"
                for name, ids in item.groups
            )
        case _:
            return (f"plait delete {first}",)


def calls_of(item: ReviewItem) -> tuple[str, ...]:
    """Return the calls of tools that settle a finding as proposed; a purge is for people."""
    first = item.ids[0]
    match item.action:
        case "supersede":
            return (f'memory_mark(ids=["{first}"], superseded_by="{item.ids[1]}")',)
        case "archive":
            return (f'memory_mark(ids=["{first}"], status="archived")',)
        case "split":
            return tuple(
                f"memory_mark(ids={_listed(ids)}, entity={_quoted(name)})"
                for name, ids in item.groups
            )
        case "purge":
            return ("ask the user to purge it",)
        case _:
            return (f'memory_delete(ids=["{first}"])',)


def _listed(ids: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, ids))}]"


def _quoted(name: str) -> str:
    return json.dumps(flattened(name), ensure_ascii=False)


def review_dict(
    review: Review, commands: Callable[[ReviewItem], tuple[str, ...]] = commands_of
) -> dict[str, Any]:
    """Return the findings and how many there are of each kind."""
    return {
        "results": [item_dict(item, commands) for item in review.items],
        "count": review.total,
        "counts": dict(review.counts),
    }


def item_dict(
    item: ReviewItem, commands: Callable[[ReviewItem], tuple[str, ...]] = commands_of
) -> dict[str, Any]:
    """Return one finding with the commands that settle it."""
    return {
        "kind": item.kind,
        "ids": list(item.ids),
        "why": item.why,
        "project": item.project,
        "action": item.action,
        "commands": list(commands(item)),
        "excerpts": list(item.excerpts),
        "groups": [{"entity": name, "ids": list(ids)} for name, ids in item.groups],
    }


def item_lines(item: ReviewItem, commands: tuple[str, ...]) -> list[str]:
    """Return one finding for people: why, the texts, and what would settle it."""
    lines = [f"{item.kind}  {flattened(item.why)}"]
    shown = item.excerpts or ("",) * len(item.ids)
    lines += [
        f"  {id_[:SHORT_ID]}  {on_a_line(text)}".rstrip()
        for id_, text in zip(item.ids, shown, strict=True)
    ]
    return [*lines, *(f"  → {command}" for command in commands)]


def entry_dict(entry: AuditEntry) -> dict[str, Any]:
    """Return one entry of the audit log."""
    return {
        "at": show_time(entry.at),
        "door": entry.door,
        "who": entry.origin,
        "verb": entry.verb,
        "session": entry.session,
        "project": entry.project,
        "id": entry.document or None,
        "before": None if entry.before is None else entry.before.hex(),
        "after": None if entry.after is None else entry.after.hex(),
        **({} if entry.member is None else {"member": entry.member}),
    }


def entry_line(entry: AuditEntry) -> str:
    """Return one entry of the audit log on one line."""
    marks = [
        "none" if mark is None else mark.hex()[:SHORT_HASH] for mark in (entry.before, entry.after)
    ]
    session = f"  session {on_a_line(flattened(entry.session))}" if entry.session else ""
    id_ = flattened(entry.document[:SHORT_ID])
    about = f"  {id_}  {marks[0]} → {marks[1]}" if entry.document else ""
    member = f" ({entry.member})" if entry.member is not None else ""
    act = flattened(f"{entry.door} {entry.verb} by {entry.origin}{member}")
    return f"{show_time(entry.at)}  {act}{about}{session}"
