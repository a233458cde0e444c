"""What a model was sent, and which order-like texts in it stand outside of their fence."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tests.agents.clients.fake_models import Body
from tests.agents.clients.order_like import FORGED, OrderLike

FENCE = re.compile(r"<<plait-recall ([a-z2-7]{8})>>\n(.*?)\n<</plait-recall \1>>", re.S)
MARK = re.compile(r"zq\d\dv")
IDS = re.compile(r"^(?:\[\d+\] )?([a-z2-7]{8})(?= )", re.M)
# Characters. A shorter part of an order may be anybody's words.
PART = 20


def seen(body: Body) -> Iterator[str]:
    """Every text in a request, except what the model itself wrote."""
    for name in ("system", "instructions", "tools", "messages", "input"):
        rows = body.get(name) or []
        for row in rows if isinstance(rows, list) else [rows]:
            is_own = isinstance(row, dict) and (
                row.get("role") == "assistant" or row.get("type") == "function_call"
            )
            if not is_own:
                yield from leaves(row)


def leaves(value: Any) -> Iterator[str]:
    """The texts in a value; of a text that is JSON, those in it."""
    if isinstance(value, dict | list):
        parts = value if isinstance(value, list) else [*value, *value.values()]
        for part in parts:
            yield from leaves(part)
    elif isinstance(value, str):
        if value.startswith(("{", "[")):
            try:
                yield from leaves(json.loads(value))
            except ValueError:
                yield value
        else:
            yield value


def ids_in(body: Body) -> list[str]:
    """The ids in all that plait told, newest first."""
    fenced = (part for leaf in reversed(list(seen(body))) for part in FENCE.finditer(leaf))
    return list(dict.fromkeys(id_ for part in fenced for id_ in IDS.findall(part[2])))


class Found(NamedTuple):
    """What was found in all requests: marks by place, and what is wrong."""

    inside: Counter[str]
    outside: Counter[str]
    wrong: list[str]


def found_in(texts: Sequence[OrderLike], runs: Iterable[list[Body]], plain: str) -> Found:
    """Look for every text in every request; what a run repeats counts once."""
    forged = {
        *FORGED,
        *re.findall(r"plait-recall (\w{8})>>", "\n".join(text.text for text in texts)),
    }
    known = flat(plain)
    parts = {
        part: text.mark for text in texts for part in pieces(flat(text.text)) if part not in known
    }
    found = Found(Counter(), Counter(), [])
    bodies: dict[str, str] = {}
    for requests in runs:
        for leaf in dict.fromkeys(leaf for body in requests for leaf in seen(body)):
            rest, place = [], 0
            for fenced in FENCE.finditer(leaf):
                tag, body = fenced.groups()
                if tag in forged or fenced.start() < place:
                    continue
                rest.append(leaf[place : fenced.start()])
                place = fenced.end()
                found.inside.update(MARK.findall(body))
                if bodies.setdefault(tag, body) != body:
                    found.wrong.append(f"one tag for two answers: {tag}")
                if leaf.count(f"plait-recall {tag}>>") != 2:
                    found.wrong.append(f"a tag stands in its own answer: {tag}")
            outside = "".join([*rest, leaf[place:]])
            # What is cut off may lack its mark; several texts share some of their words.
            cut = [mark for part, mark in parts.items() if part in flat(outside)][:1]
            marks = MARK.findall(outside) or cut
            found.outside.update(marks)
            if marks:
                found.wrong.append(f"outside: {marks}: {outside[:1500]!r}")
    return found


def flat(text: str) -> str:
    return " ".join(text.split())


def pieces(text: str) -> Iterator[str]:
    for start in range(max(1, len(text) - PART + 1)):
        yield text[start : start + PART]
