"""Passages that may be near duplicates of a new text, at the same cost in a memory of any size.

A near duplicate has most words of the text, so it is among the passages with its rarest ones. By
vector only the latest passages are compared: what was stored before is found by its words.
"""

import json
import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate

import apsw

from plait.protocols import Nearest, Scored, Vector
from plait.stores.sqlite import filters, keyword, vectors
from plait.stores.sqlite.analysis import tokens
from plait.stores.sqlite.connection import rows
from plait.stores.sqlite.state import answering
from plait.types import Ref, Space
from plait.types.queries import Query

# A word in more passages than this is not rare.
RARE_IN_PASSAGES = 300
# Rare words that count: a lookup takes 0.04 ms in 100,000 passages, 0.12 in a million. Of 600 notes
# that were edited, shortened or extended, the originals of 590 and 552 are named there.
MOST_RARE_WORDS = 8
# The passages that share most are tested against the conditions: first a few, which nearly always
# do, then the others (0.3 ms), because copies elsewhere may come before the one that is meant; a
# rare word has no more.
TESTED_FIRST = 3  # times the wanted number
MOST_TESTED = RARE_IN_PASSAGES
# With a lower cosine, a passage is another text, and need not be tested. Not a half, which is the
# cosine of many short texts: engines compute it with other last digits.
UNLIKE_COSINE = 0.499_99
# All facts of an entity are compared, if there are no more: it has them in common with many others.
FACTS_COMPARED = 300
# With fewer rare words, common ones are looked up too, together with their neighbours by length; in
# several groups, because any word may differ.
FEW_RARE_WORDS = 3
JOINED_WORDS = 3
JOINED_GROUPS = 3
# The latest blocks, of 2,048 passages each, are compared by vector: some 0.15 ms a block.
LATEST_BLOCKS = 2

_BETWEEN = "\x00"  # no word has it

# The newest first; FTS5 reads them in that order, and stops.
_HOLDING = "SELECT rowid FROM passages_fts WHERE passages_fts MATCH ? ORDER BY rowid DESC LIMIT ?"
_TEXTS = (
    "SELECT p.rowid, p.text FROM json_each(?) AS listed "
    "CROSS JOIN passages AS p ON p.rowid = listed.value"
)
_LATEST = "SELECT block, rowid FROM vector_blocks WHERE generation = ? ORDER BY block DESC LIMIT ?"


def by_rare_words(
    connection: apsw.Connection, query: Query, limit: int, conditions: list[filters.Clause]
) -> list[Scored]:
    """Return the passages that share most of the rarest words, best first."""
    if any(sql == filters.OF_PARENTS for sql, _ in conditions):
        facts = filters.passing(connection, conditions, limit=FACTS_COMPARED + 1)
        if len(facts) <= FACTS_COMPARED:
            return _sharing(connection, facts, query.words, limit)
    ranked = sorted(_shared(connection, query).items(), key=lambda pair: (-pair[1], -pair[0]))
    return _first_passing(connection, ranked[:MOST_TESTED], limit, conditions)


def _sharing(
    connection: apsw.Connection, refs: Sequence[Ref], words: Sequence[str], limit: int
) -> list[Scored]:
    """Return those of these passages that share most words: the longer a word, the rarer.

    In scripts without spaces words are pieces, which overlap.
    """
    if not refs:
        return []
    read = rows(connection, _TEXTS, (json.dumps(refs),))
    listed = [(ref, text) for ref, text in read if isinstance(text, str)]  # `doctor` tells others
    # One text of all: to look for a word in it takes less than in hundreds, one by one.
    whole = _BETWEEN.join([text for _, text in listed])
    # As lower() of SQLite, which changes only the letters of ASCII.
    whole = whole.lower() if whole.isascii() else whole.encode().lower().decode()
    ends = [*accumulate([len(text) + len(_BETWEEN) for _, text in listed])]
    shared = [0] * len(listed)
    for word in words:
        at = whole.find(word)
        while at >= 0:
            place = bisect_right(ends, at)
            shared[place] += len(word)
            at = whole.find(word, ends[place])
    ranked = [(length, ref) for length, (ref, _) in zip(shared, listed, strict=True) if length]
    return [(ref, length) for length, ref in sorted(ranked, reverse=True)[:limit]]


def _shared(connection: apsw.Connection, query: Query) -> dict[Ref, float]:
    """Return passages with rare words, and how much the words weigh that each of them shares."""
    passages = keyword.passage_count(connection)
    scores: dict[Ref, float] = {}
    common: list[str] = []
    rare = 0
    # The longest first, because they are rare more often.
    words = sorted(dict.fromkeys(query.words), key=len, reverse=True)
    frequent = _frequent(connection, words)
    for word in words:
        if word in frequent:
            continue
        holding = rows(connection, _HOLDING, (keyword.quote(word), RARE_IN_PASSAGES + 1))
        if len(holding) > RARE_IN_PASSAGES:
            common.append(word)
        elif holding:
            rare += 1
            _count(scores, holding, math.log(1 + passages / len(holding)))
            if rare == MOST_RARE_WORDS:
                break
    if rare < FEW_RARE_WORDS:
        # The less common ones first: the shortest list decides what a look at several costs.
        common += sorted(frequent, key=frequent.__getitem__)
        weight = math.log(1 + passages / (10 * RARE_IN_PASSAGES))
        for place in range(min(JOINED_GROUPS, max(1, len(common) - 1))):
            group = common[place : place + JOINED_WORDS]
            together = " AND ".join(map(keyword.quote, group))
            holding = rows(connection, _HOLDING, (together, RARE_IN_PASSAGES)) if group else []
            _count(scores, holding, len(group) * weight)
    return scores


def _frequent(connection: apsw.Connection, words: Sequence[str]) -> dict[str, int]:
    """Return the words that many passages had when those were counted last, and how many."""
    terms = {word: [term for _, _, term in tokens(connection, word)] for word in words}
    listed = json.dumps([term for stems in terms.values() for term in stems])
    known: dict[str, int] = dict(rows(connection, keyword.FREQUENT, (listed,)))
    return {
        word: min(known[term] for term in stems)
        for word, stems in terms.items()
        if stems and known.keys() >= set(stems)
    }


def _count(scores: dict[Ref, float], holding: list[tuple[Ref]], weight: float) -> None:
    for (ref,) in holding:
        scores[ref] = scores.get(ref, 0.0) + weight


def _first_passing(
    connection: apsw.Connection, hits: list[Scored], limit: int, conditions: list[filters.Clause]
) -> list[Scored]:
    if not conditions:
        return hits[:limit]
    kept: list[Scored] = []
    tested = TESTED_FIRST * limit
    for part in (hits[:tested], hits[tested:]):
        if part and len(kept) < limit:
            passing = set(filters.passing(connection, conditions, among=[ref for ref, _ in part]))
            kept += [pair for pair in part if pair[0] in passing]
    return kept[:limit]


def latest(
    connection: apsw.Connection,
    vector: Vector,
    space: Space,
    limit: int,
    conditions: list[filters.Clause],
    kept: vectors.NearestVectors,
) -> Nearest:
    """Return the nearest of the latest passages, among those that meet the conditions."""
    generation = answering(connection, space)
    if generation is None:
        return Nearest([], {})
    dims = generation.dims
    query, distances = vectors.quantise(vector, dims), kept.kernel()
    scan: vectors.Scan = {}
    places = rows(connection, _LATEST, (generation.id, LATEST_BLOCKS))
    if places:
        buffer = bytearray(vectors.BLOCK_ROWS * dims)
        opened = connection.blob_open("main", "vector_blocks", "data", places[0][1], False)
        with closing(opened) as blob:
            for block, place in places:
                blob.reopen(place)
                vectors.check_block(block, blob.length(), dims)
                blob.read_into(buffer)
                scan[block] = distances(query, memoryview(buffer), dims)
    ranked = sorted(
        (distances_of[slot], block * vectors.BLOCK_ROWS + slot)
        for block, distances_of in scan.items()
        for slot in near_slots(distances_of, 1.0 - UNLIKE_COSINE)
    )
    near = [(ref, 1.0 - d) for d, ref in ranked[:MOST_TESTED] if 1.0 - d >= UNLIKE_COSINE]
    return Nearest(_first_passing(connection, near, limit, conditions), {})


def near_slots(distances: "memoryview[float]", farthest: float) -> Iterator[int]:
    """Yield the places of the distances that are not above this one, and of some just above it."""
    [last] = vectors.levels_of(memoryview(array("d", [farthest])), None)
    marks = vectors.levels_of(distances, None).translate(vectors.up_to(last))
    slot = marks.find(1)
    while slot >= 0:
        yield slot
        slot = marks.find(1, slot + 1)
