"""Check a whole memory: the store's own checks, then the consistency of its facts."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from plait.errors import StoreDamaged, advise
from plait.facts import profiles, versions
from plait.protocols import Standing, Store
from plait.times import LAST_MOMENT
from plait.types import EVERYTHING, Document
from plait.types.ids import SHORT_ID
from plait.types.reports import Finding
from plait.writing.changes import Changes
from plait.writing.deleting import check_purges
from plait.writing.documents import now_ms
from plait.writing.held_secrets import held_secrets

FACTS = EVERYTHING._replace(kinds=("observation", "entity"))
IDS_SHOWN = 5


def examine(store: Store, *, fix: bool, clock: Callable[[], int] = now_ms) -> list[Finding]:
    """Run every check; with ``fix``, repair what can be repaired. ``clock`` is the store's."""
    findings = store.check(fix=fix)
    if any(finding.code == StoreDamaged.code for finding in findings):
        return findings  # data read from a damaged store proves nothing
    return [
        *findings,
        _check_clock(store, clock, fix=fix),
        _check_facts(store, clock, fix=fix),
        *check_purges(store, fix=fix),
    ]


def _check_clock(store: Store, clock: Callable[[], int], *, fix: bool) -> Finding:
    """Check that a fact really changed at the recorded time of the last change."""
    now, noted = clock(), store.state().changed_at
    if noted is None or noted <= now + versions.CLOCKS_DIFFER_MS:
        return Finding("clock", "ok", "the recorded time of the last change is right")
    # Facts that a fast clock dated into the future are still true: the repair must not hide them.
    real = _last_change(store, min(noted, LAST_MOMENT))
    if noted == real:
        return Finding("clock", "ok", "the recorded time of the last change is right")
    if fix:
        with store.transaction() as transaction:
            transaction.remember(changed_at=None if real is None else str(real))
        text = "the recorded time of the last change was corrected"
        return Finding("clock", "ok", text, fixed=True)
    return Finding(
        "clock",
        "warning",
        f"The recorded time of the last change, {noted} ms, is in the future, but no fact has it.",
        advice=advise("doctor_fix"),
    )


def _last_change(store: Store, until: int) -> int | None:
    moments = [
        moment
        for document in store.scan(EVERYTHING)
        for moment in (document.valid_from, document.valid_to)
        if moment is not None and moment <= until
    ]
    return max(moments, default=None)


def _check_facts(store: Store, clock: Callable[[], int], *, fix: bool) -> Finding:
    """Check that every profile is up to date, and no topic has two answers."""
    rival, stale = _read_facts(store, clock())
    if rival is not None or stale:
        # Others may have been writing, which is not damage: check again.
        rival, stale_again = _read_facts(store, clock())
        stale = [id_ for id_ in stale if id_ in stale_again]
    if rival is not None:
        return Finding(
            "facts",
            "warning",
            f"The topic '{rival}' has several current facts. Store the right one under it again.",
        )
    if not stale:
        return Finding("facts", "ok", "every profile is up to date")
    if fix:
        with store.transaction() as transaction:
            changes = Changes(transaction)
            changes.refresh(stale)
            changes.finish()
        return Finding("facts", "ok", f"{len(stale)} profiles rebuilt", fixed=True)
    return Finding(
        "facts",
        "warning",
        f"{len(stale)} profiles are out of date.",
        advice=advise("doctor_fix"),
    )


def _read_facts(store: Store, now: int) -> tuple[str | None, list[str]]:
    """Return a topic with two answers, and the ids of entities with an outdated profile."""
    present = versions.present(store.state(), now)
    # Only these: a memory may hold far more text in files than fits into this process.
    documents = store.scan(FACTS, by_writing=True, whole=True)
    observations = [document for document in documents if document.kind == "observation"]
    facts_of: dict[str, list[Document]] = {}
    for document in observations:
        if document.parent is not None:
            text = document.text
            if document.chunk_count > 1:  # a profile shows the first passage of a long one
                text = "".join(passage.text for passage in store.passages(document.id, 0, 0))
            facts_of.setdefault(document.parent, []).append(document._replace(text=text))
    stale = [
        entity.id
        for entity in documents
        if entity.kind == "entity" and entity.text != _profile(entity, facts_of, present)
    ]
    return versions.contradiction(observations, present), stale


def _profile(entity: Document, facts_of: Mapping[str, Sequence[Document]], moment: int) -> str:
    """Return what the profile of an entity should say."""
    current = {
        fact.id: fact
        for fact in facts_of.get(entity.id, ())
        if fact.trust == profiles.SHOWN_TRUST and versions.holds(fact, moment)
    }
    standings = [
        Standing(fact.id, fact.pinned, fact.importance, fact.event_at) for fact in current.values()
    ]
    texts = [current[id_].text for id_ in profiles.prominent(standings)]
    return profiles.compose(entity.title, entity.type, texts)


def check_secrets(store: Store) -> Finding:
    """Report for ``doctor`` how many documents hold secrets, of which kinds, and a few of them."""
    # The profile of an entity repeats its observations, which are counted themselves.
    documents = [row for row in store.scan(EVERYTHING) if row.kind != "entity"]
    held = held_secrets(store, documents)
    if not held:
        return Finding("secrets", "ok", "no document holds a known kind of secret")
    counts = Counter(kind for kinds in held.values() for kind in kinds)
    listed = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(counts.items()))
    ids = ", ".join(id_[:SHORT_ID] for id_ in list(held)[:IDS_SHOWN])
    more = ", …" if len(held) > IDS_SHOWN else ""
    verb = "document holds" if len(held) == 1 else "documents hold"
    return Finding(
        "secrets",
        "warning",
        f"{len(held):,} {verb} secrets: {listed}. See {ids}{more}.",
        advice=advise("purge_secrets"),
        code="holds_secret",
    )
