"""The verbs of `Memory` that settle what is known about documents: mark, unmark and feedback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plait.errors import UsageError
from plait.memory.storing import StoringMemory
from plait.text import clean
from plait.types import Document, DocumentStatus, Filter, check_choice
from plait.types.guarding import guarded, recorded

if TYPE_CHECKING:
    from plait.facts.names import Reach
    from plait.types.review import MarkedDocuments

VERDICTS = ("good", "wrong")


@guarded
class SettlingMemory(StoringMemory):
    """The part of `Memory` that changes what is known about documents, not their text."""

    @recorded("mark")
    def mark(
        self,
        *names: str,
        status: DocumentStatus | None = None,
        superseded_by: str | None = None,
        not_superseded: bool = False,
        entity: str | None = None,
        visibility: str | None = None,
        to_project: str | None = None,
        all_projects: bool = False,
    ) -> MarkedDocuments:
        """Change what is known about documents, not their text; `unmark` takes the result back.

        Args:
            names: Ids, keys or unique id prefixes, of this project or personal.
            status: active, done or archived.
            superseded_by: The document that they end in favour of: they are kept as its history.
            not_superseded: They hold again: takes an end in favour of another one back.
            entity: The entity that the facts are to belong to; created if needed.
            visibility: Who sees them, and the facts of entities; `unmark` does not change it back.
            to_project: The project that notes and facts are to belong to, with their histories;
                without names, all of this project, as after its repository was renamed.
            all_projects: The names may be those of another project.

        Raises:
            NotFound: One of the names is unknown.
            UsageError: There is nothing to change, or it cannot be; nothing is changed.
        """
        from plait.text.normal_form import composed
        from plait.types.review import MarkedDocuments
        from plait.writing import marking

        other = any((status, superseded_by, not_superseded, entity, visibility))
        is_move = bool(to_project) and not other and self.config.project is not None
        if not (names or is_move) or not (other or to_project):
            raise UsageError("Name the documents, and what to change.", code="nothing_to_mark")
        if self.is_off:
            return MarkedDocuments()
        reach: Reach = "everything" if all_projects else "change"
        rows = [self._named(name, reach)[0] for name in names] if names else self._of_project()
        self._check_changeable(rows)
        self._check_writable()
        by = None if superseded_by is None else self._named(superseded_by, reach)[0].id
        done = marking.mark(
            self._required(),
            [row.id for row in rows],
            status=status,
            superseded_by=by,
            not_superseded=not_superseded,
            entity=entity,
            share=None if visibility is None else self.team.sharing(visibility),
            to_project=None if to_project is None else composed(clean(to_project)).strip(),
        )
        self._embed_changed()
        return done

    def _of_project(self) -> list[Document]:
        """Return the notes and facts of this project, and only of it."""
        here = Filter(projects=(self.config.project,), kinds=("note", "observation"))
        return self._required().scan(here._replace(all_versions=True))

    @recorded("mark")
    def unmark(self, marked: MarkedDocuments) -> None:
        """Restore what a `mark` changed; what others changed since then stays."""
        from plait.writing import marking

        if not self.is_off and marked.before:
            self._check_writable()
            marking.unmark(self._required(), marked)
            self._embed_changed()

    @recorded("feedback")
    def feedback(self, name: str, verdict: str | None) -> Document:
        """Say that a hit was good or wrong; ``None`` takes all feedback on it back.

        It changes the score of the passage, or of all passages of a document, by up to a fifth.

        Raises:
            NotFound: Nothing has that name.
            UsageError: The verdict is neither good nor wrong.
        """
        if verdict is not None:
            check_choice("verdict", verdict, VERDICTS)
        document, passage = self._named(name, "change")
        self._check_changeable([document])
        self._check_writable()
        store = self._required()
        parts = store.passages(document.id) if passage is None else [passage]
        with store.transaction() as transaction:
            refs = [part.ref for part in parts]
            transaction.judge(refs, good=int(verdict == "good"), wrong=int(verdict == "wrong"))
        return document
