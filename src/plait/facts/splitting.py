"""Which facts of an entity that has too many belong together, and what they would be called."""

from collections import Counter
from collections.abc import Mapping

from plait.facts.statements import statement

# Facts from which an entity is too large: the thresholds of mcp-memory, by type.
MOST_FACTS = 20
MOST_FACTS_OF = {"sesion": 15, "session": 15, "proyecto": 25, "project": 25}
# Fewer facts are no group, and more than this share of them are the entity itself.
LEAST_GROUP = 3
LARGEST_SHARE = 0.6
MOST_GROUPS = 5
# Characters of a fact that are read: what it is about stands at its beginning.
SUBJECT_CHARS = 400


def most_facts(type_: str | None) -> int:
    """Return how many facts an entity of a type may have before it is too large."""
    return MOST_FACTS_OF.get((type_ or "").lower(), MOST_FACTS)


def split_facts(name: str, facts: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Return groups of facts, by id, that share a word, each under the name of a new entity.

    >>> facts = {str(n): f"The {'cat' if n % 2 else 'dog'} number{n} sleeps" for n in range(8)}
    >>> [(group, len(ids)) for group, ids in split_facts("Pets", facts)]
    [('Pets: cat', 4), ('Pets: dog', 4)]
    """
    own = statement(name).words
    texts = {id_: text[:SUBJECT_CHARS] for id_, text in facts.items()}
    words = {id_: statement(text).words - own for id_, text in texts.items()}
    left, groups = dict(words), list[tuple[str, list[str]]]()
    largest = LARGEST_SHARE * len(facts)
    while len(groups) < MOST_GROUPS:
        counts = Counter(word for listed in left.values() for word in listed)
        fitting = [word for word, count in counts.items() if LEAST_GROUP <= count <= largest]
        if not fitting:
            break
        best = min(fitting, key=lambda word: (-counts[word], word))
        members = [id_ for id_, listed in left.items() if best in listed]
        first = next(id_ for id_, listed in words.items() if best in listed)
        groups.append((f"{name}: {_spelt(best, texts[first])}", members))
        left = {id_: listed for id_, listed in left.items() if best not in listed}
    return groups


def _spelt(stem: str, text: str) -> str:
    """Return a word as a text has it."""
    plain = (word.strip(".,;:!?()\"'").lower() for word in text.split())
    return next((word for word in plain if stem in statement(word).words), stem)
