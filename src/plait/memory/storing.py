"""The verbs of `Memory` that change what is stored: put in, take out, take back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from plait.errors import StoreBusy, StoreFull, UsageError, advise
from plait.memory.maintenance import MaintainedMemory
from plait.searching.where import Where, check_no_empty_list, narrows, widened
from plait.text import clean
from plait.times import Moment, as_moment
from plait.types import Document, DocumentStatus, Filter, MemoryType, Origin, Trust
from plait.types.guarding import guarded, recorded

if TYPE_CHECKING:
    from plait.facts.names import Reach
    from plait.settings.project import OwnFiles
    from plait.types.reports import Deleted, IngestReport, OnFile, Stored
    from plait.writing.backfill import Progress


@guarded
class StoringMemory(MaintainedMemory):
    """The part of `Memory` that stores, ingests, deletes and undoes."""

    # -- putting in ------------------------------------------------------------------------

    @recorded("store")
    def store(
        self,
        text: str,
        *,
        key: str | None = None,
        title: str = "",
        type: str | None = None,
        memory_type: MemoryType | None = None,
        tags: Iterable[str] | str = (),
        metadata: Mapping[str, str] | None = None,
        provenance: Mapping[str, str] | None = None,
        summary: str | None = None,
        session: str | None = None,
        role: str | None = None,
        origin: Origin | None = None,
        trust: Trust = "trusted",
        importance: float | None = None,
        pinned: bool = False,
        status: DocumentStatus | None = None,
        event_at: Moment | None = None,
        path: str | None = None,
        lines: Sequence[int] = (),
        entity: str | None = None,
        topic: str | None = None,
        supersedes: str | None = None,
        valid_from: Moment | None = None,
        allow_secret: bool = False,
        personal: bool = False,
        visibility: str | None = None,
    ) -> Stored:
        """Store a text. With ``key`` it is a note; the next text with that key replaces it.

        Without a key it is an observation, and the same text is stored once. It may belong to an
        ``entity``, which is created if needed; it replaces the current observation of its
        ``topic`` there, and the one that it ``supersedes``. With a ``role`` it is a message, the
        next turn of its ``session``: it is kept even if it was said before, and one with the same
        ``key`` there takes its place. Text that an agent or a tool stores is left out if it was
        recalled from this memory, and refused if it holds a private key, token or password, unless
        ``allow_secret``. The ``origin`` is "user" unless the role is another's. ``personal``: it
        belongs to no project and is seen in every one. ``provenance`` says which ``model`` or
        ``tool`` wrote it, on which ``branch`` and ``commit``; it is kept in the metadata. A
        ``status`` of done or archived ranks it lower; what replaces it keeps it. In a memory with
        members, ``visibility`` says who sees it: private, project or team, which is the default.

        Times (``event_at``, ``valid_from``) are a datetime, a date, a text such as ``2026-03-01``
        or ``7d``, or seconds or milliseconds since 1970. ``path`` is the file that the text was
        read from; ``lines`` has, for each line of the text, its line there, if they differ.

        Raises:
            NotFound: The document to supersede does not exist.
            UsageError: There is no text, a field has a bad value, or an agent stores a secret.
        """
        from plait.searching.conversations import joined_session
        from plait.text.normal_form import composed
        from plait.types.reports import Stored
        from plait.writing.documents import new_document
        from plait.writing.given import refuse_id_as_key, with_provenance
        from plait.writing.observations import store_note, store_observation

        document = new_document(
            text,
            key=key,
            title=title,
            path=path,
            project=None if personal else self.config.project,
            memory_type=memory_type,
            type=type,
            tags=tags,
            metadata=with_provenance(metadata, provenance),
            summary=summary,
            origin=origin,
            trust=trust,
            session=joined_session(session, self._filter),
            role=role,
            importance=importance,
            pinned=pinned,
            status=status,
            event_at=as_moment(event_at, "event_at"),
            entity=entity,
            topic=topic,
            supersedes=None if supersedes is None else self._superseded(supersedes).id,
            valid_from=as_moment(valid_from, "valid_from"),
        )
        refuse_id_as_key(self._required, document)
        if self.is_off:
            return Stored("", document.key or "", 0)
        with self._visible(visibility):
            writer = self._begin(allow_secret=allow_secret, personal=personal)
            if document.kind == "observation":
                stored = store_observation(writer, document, entity and composed(clean(entity)))
            elif document.kind == "message":
                from plait.writing.conversations import store_message

                stored = store_message(writer, document)
            else:
                stored = store_note(writer, document, lines)
            self._after_writing(writer, much=False)
        return stored

    @recorded("store_many")
    def store_many(
        self,
        documents: Iterable[Document],
        *,
        allow_secret: bool = False,
        visibility: str | None = None,
    ) -> list[Stored]:
        """Store many documents, each replacing the one with its key; one transaction per batch.

        Documents without a project get this memory's. Pasted answers are left out, and secrets
        refused, as by `store`; ``visibility`` is that of `store`, too. Messages need a session, in
        which they are the next turns.

        Raises:
            UsageError: A document is refused; those of earlier batches are stored.
        """
        from plait.writing.observations import store_many

        if self.is_off:
            return []
        writer = self._begin(allow_secret=allow_secret)
        with self._visible(visibility):
            stored = store_many(writer, map(self._taken, documents))
        self._after_writing(writer)
        self._required().tidy()
        return stored

    @recorded("store")
    def add_messages(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        session: str,
        origin: Origin | None = None,
        trust: Trust = "trusted",
        allow_secret: bool = False,
        visibility: str | None = None,
    ) -> list[Stored]:
        """Append the messages of a chat API to a session, all or none; results keep their order.

        A message has a ``role``, a ``content`` (a text or a list of parts), and may have a ``time``
        (also ``created_at``, ``timestamp``), an ``id`` under which it is stored once, and a
        ``name``. Calls of tools become text. One without words is left out: its result has no id.
        ``visibility`` says who sees them in a memory with members, as for `store`.

        Raises:
            UsageError: A message is refused; ``subject`` names it, as in ``messages[2]``.
        """
        if self.is_off:
            return []
        from plait.searching.conversations import joined_session
        from plait.writing.conversations import add_messages
        from plait.writing.writer import BATCH_DOCUMENTS

        joined = joined_session(session, self._filter) or session
        writer = self._begin(allow_secret=allow_secret)
        with self._visible(visibility):
            stored = add_messages(writer, messages, joined, origin=origin, trust=trust)
        self._after_writing(writer)
        if len(stored) > BATCH_DOCUMENTS:
            self._required().tidy()
        return stored

    def _superseded(self, name: str) -> Document:
        """Return what a fact replaces: an alias or a part of a key only reads, it changes nothing.

        A document of another project is found, so that the error can say where it is.
        """
        return self._named(name, "read", exactly=True)[0]

    def _taken(self, document: Document) -> Document:
        from plait.writing.given import refuse_id_as_key, with_moments, without_marks

        refuse_id_as_key(self._required, document)
        return without_marks(with_moments(document))

    @recorded("ingest")
    def ingest(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        patterns: Sequence[str] = (),
        include: Sequence[str] = (),
        incremental: bool = False,
        allow_removal: bool = False,
        progress: Progress | None = None,
        on_file: OnFile | None = None,
        visibility: str | None = None,
    ) -> IngestReport:
        """Index a file or a folder; the files themselves are never changed.

        Args:
            path: What to read; the setting ``memory_dir`` by default.
            patterns: Which files of a folder count, as in ``*.md``.
            include: Files that count too: ``code``, ``pdf``, ``chats`` or a pattern.
            incremental: Skip indexed files whose size and modification time are unchanged.
            allow_removal: Forget missing files even if nearly all of the folder, or it, is gone.
            progress: Called with the number of files done, the total, and the last file's path.
            on_file: Called with the report of each file when done, before ``progress``.
            visibility: Who sees new files, in a memory with members: private, project or team.

        Raises:
            SourceError: There is no such file or folder.
            KeyboardInterrupt: Ctrl-C was pressed. Its ``report`` tells what was indexed and stays.
        """
        from plait.types.reports import IngestReport
        from plait.writing import covered, folder

        if self.is_off:
            return IngestReport()
        settings = self.config.settings
        place = path if path is not None else settings.memory_dir
        if place is None:
            raise UsageError("No folder is named.", code="no_source", advice=advise("give_source"))
        own = self._own_files(place)
        writer = self._begin(own and own.cut)
        walk = covered.walk_known(
            writer.store,
            place,
            project=writer.project,
            patterns=(*(patterns or (own and own.patterns) or settings.patterns), *include),
            max_bytes=self._max_bytes,
            allow_removal=allow_removal,
            refresh=not patterns,
        )
        with self._visible(visibility):
            report = folder.ingest(
                writer,
                walk,
                incremental=incremental,
                keep_project=not self._project_is_chosen,
                allow_removal=allow_removal,
                progress=progress,
                on_file=on_file,
                embedder_for=lambda state: self._embedder_for(writer.store, state),
            )
        if report.trouble is None:
            self._after_writing(writer)
        self._flush()
        return folder.unless_interrupted(report)

    def _own_files(self, place: str | os.PathLike[str]) -> OwnFiles | None:
        """Return how to read files at a place, if they are the project's own and it has a file."""
        if self.config.project_file is None:
            return None
        from plait.settings.project import own_files

        own = own_files(self.config)
        return own if own is not None and own.cover(place) else None

    # -- taking out ------------------------------------------------------------------------

    @recorded("delete")
    def delete(
        self,
        *names: str,
        where: Filter | Where | None = None,
        purge: bool = False,
        dry_run: bool = False,
        all_projects: bool = False,
        progress: Progress | None = None,
    ) -> Deleted:
        """Delete documents by id, key or filter; undo within 30 days unless ``purge``.

        A filter selects documents of this project only, and personal ones only outside of any
        project, unless it names ``projects``. With ``all_projects`` names and filters reach the
        documents of every project. A passage cannot be deleted without its document: the name of
        one of several is refused, and with ``dry_run`` it shows what would go. ``progress`` is
        called as by `ingest`, after each of the slices in which many documents are deleted.

        Raises:
            NotFound: One of the names is unknown; nothing is deleted.
            UsageError: No name and no filter, an empty filter, or one passage of several.
        """
        from plait.types.reports import Deleted
        from plait.writing import deleting

        if bool(names) == narrows(where):
            raise UsageError(
                "Name the documents to delete, or give a filter, but not both.",
                code="nothing_to_delete",
                advice=advise("choose_documents"),
            )
        check_no_empty_list(where)
        if self.is_off:
            return Deleted()
        store = self._required()
        if names:
            reach: Reach = "everything" if all_projects else "change"
            doomed = deleting.resolve_doomed(
                store, names, self.config.project, purge=purge, reach=reach, parts=dry_run
            )
        else:
            # Searching sees personal documents too; what is not asked for is not deleted.
            here = {} if all_projects else {"projects": (self.config.project,)}
            wanted = self._filter({**here, **widened(where)}, all_projects=all_projects)
            doomed = {row.id: row for row in store.scan(wanted)}
        self._check_changeable(doomed.values())
        if dry_run:
            return deleting.forecast(store, doomed)
        return self._deleted(doomed, purge=purge, progress=progress)

    @recorded("prune")
    def prune(
        self,
        *,
        keep_days: Mapping[str, float] | None = None,
        keep_most: Mapping[str, float] | None = None,
        keep_mb: Mapping[str, float] | None = None,
        archive_days: Mapping[str, float] | None = None,
        delete_archived_days: float | None = None,
        dry_run: bool = True,
        all_projects: bool = False,
    ) -> Deleted:
        """Delete what the rules do not keep, undo within 30 days, and archive what is unused.

        Each rule is the setting of its name unless it is given, as in ``{"message": 90}``. They
        concern this project, and personal documents only outside of any project, unless
        ``all_projects``. Trusted documents that are pinned, ``MEMORY.md``, entities and facts in
        force always stay. By default it only returns what it would do.

        Raises:
            UsageError: There is no rule.
            ConfigError: A rule has an unknown name, or a number that is out of range.
        """
        from plait.memory.retention import prune, rules_of
        from plait.types.reports import Deleted

        given = (keep_days, keep_most, keep_mb, archive_days, delete_archived_days)
        rules = rules_of(self.config.settings, given)
        if self.is_off:
            return Deleted()
        here = self._changed_in(all_projects=all_projects)
        where = self._filter({**here, **widened(None)}, all_projects=all_projects)
        if not dry_run:
            self._check_writable()
        home = self.config.project or ""
        others = self._members.private_of_others
        done = prune(self._required(), where, rules, home=home, dry_run=dry_run, others=others)
        if not dry_run and done.ids:
            self._embed_changed()
        return done

    def _changed_in(self, *, all_projects: bool) -> Where:
        """Return the filter of what is deleted by its age alone."""
        return {} if all_projects else {"projects": (self.config.project,)}

    def _embed_changed(self) -> None:
        """Make the vectors that a change left to be made, such as those of entities' profiles.

        The change is done: if the memory is busy or full by now, the next write makes them.
        """
        with suppress(StoreBusy, StoreFull):
            self._begin().backfill.catch_up()

    def _deleted(
        self, doomed: Mapping[str, Document], *, purge: bool = False, **how: Any
    ) -> Deleted:
        from plait.writing import deleting

        self._check_writable()
        home = self.config.project or ""
        deleted = deleting.delete(self._required(), list(doomed), purge=purge, home=home, **how)
        if any(row.parent is not None for row in doomed.values()):
            self._embed_changed()
        if purge:
            self._after_writing(self._begin())
        return deleted

    @recorded("undo")
    def undo(
        self,
        *names: str,
        dry_run: bool = False,
        all_projects: bool = False,
        progress: Progress | None = None,
    ) -> list[Document]:
        """Restore what the latest delete or ingest in this project removed, or the named documents.

        A document whose name a newer one has taken stays in the trash; the earlier version of a
        note that was replaced changes places with the present one. With ``dry_run``, only return
        what would be restored. ``all_projects``: names and the latest delete of any project.
        ``progress`` is called as by `delete`.

        Raises:
            NotFound: No such document was deleted here in the last 30 days.
        """
        from plait.writing.undoing import undo_named

        if self.is_off:
            return []
        home = None if all_projects else self.config.project or ""
        back = undo_named(self._required(), names, home, dry_run=dry_run, progress=progress)
        if not dry_run:
            self._embed_changed()
        return back
