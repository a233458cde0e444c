"""Write something into every table of a memory."""

from plait.protocols import Store, Trashed
from plait.types import Passage
from plait.types.relations import Relation
from plait.types.steps import Step
from plait.types.visibility import Visibility, visible_to
from tests.builders import EVERYTHING, NOW, SPACE, document, entry, vector


def fill(store: Store, word: str, visibility: Visibility | None = None) -> None:
    """Have rows with this word in every table, all seen by the same people."""
    with visible_to(visibility), store.transaction() as t:
        talk = entry(f"{word}-talk", f"{word} speaks", id=f"{word}-talk", kind="message")
        message = talk.document._replace(session=word, turn=1)
        t.write(talk._replace(document=message, steps=[Step("Bash", command=word)]))
        for name in ("one", "two", "gone"):
            t.write(
                entry(
                    f"{word}-{name}",
                    f"{word} {name}",
                    vectors=[vector(1, 0, 0, 1)],
                    id=f"{word}-{name}",
                    kind="entity",
                    source="entity",
                    tags=(word,),
                )
            )
        t.write(entry(f"{word}-bare", f"{word} without a vector", id=f"{word}-bare"))
        t.put_edge(edge(word, "one", "two"))
        t.put_edge(edge(word, "one", "gone"))
    refs = [
        passage.ref
        for row in store.scan(EVERYTHING)
        for passage in store.passages(row.id)
        if word in passage.text
    ]
    with visible_to(visibility), store.transaction() as t:
        t.touch([refs])
        t.judge(refs[:1], good=1)
        t.trash(
            [
                Trashed(
                    "batch",
                    NOW,
                    document(f"{word}-gone", f"{word} gone", id=f"{word}-gone", metadata={}),
                    [Passage(f"{word} gone", id=f"p-{word}")],
                )
            ]
        )
        t.delete([f"{word}-gone"])
        t.remember(**{f"history:{word}": word, "changed_at": str(NOW)})
        t.cache({word: vector(1, 0)}, (), 10)
        t.begin(SPACE)


def edge(word: str, source: str, target: str) -> Relation:
    ends = (f"{word}-{source}", f"{word}-{target}")
    return Relation(*ends, "knows", word, NOW, None, None, *ends)
