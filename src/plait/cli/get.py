"""get: print whole documents or passages."""

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

from plait.cli import NOTHING_FOUND, Output, to_run
from plait.cli.search import add_max_tokens, open_to_read
from plait.cli.shared import Rendered, fitted
from plait.cli.suggestions import with_suggestion
from plait.errors import NotFound, PlaitError, UsageError
from plait.facts.names import Named
from plait.memory import Memory
from plait.memory.work import changed_since
from plait.present.json import changed_dict, document_dict, links_dict, passage_dict
from plait.present.text import document_text, in_project, links_text, on_a_line, passage_text
from plait.present.work import changed_text
from plait.searching.conversations import by_importance
from plait.types import Document, Passage
from plait.types.ids import is_address

TURNS_AROUND = 5
HIT_MARK = "> "


def get_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait get``."""
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help="an id or its first six or more characters, a key, a chunk_id, an alias or a session; "
        "of an imported one, AGENT: and eight or more characters will do",
    )
    parser.add_argument(
        "--document", action="store_true", help="print the whole document of a passage"
    )
    parser.add_argument(
        "--around",
        metavar="HIT",
        help=f"of a session, only this message, marked {HIT_MARK.strip()}, and {TURNS_AROUND} "
        "turns before and after it",
    )
    add_max_tokens(parser)


def get_run(arguments: Namespace, out: Output) -> int:
    """Print documents or passages, and report the names that are unknown."""
    with open_to_read(out) as memory:
        documents, refused = memory.lookup_many(arguments.names, conversations=True)
        hit = None
        if arguments.around is not None:
            hit, _ = memory.lookup(arguments.around)
            documents = _around(documents, hit, arguments.around)
        successors = memory.successors(document for document, _ in documents)
        secrets = memory.secrets(document for document, _ in documents)
        earlier = memory.earlier(document for document, _ in documents)
        unshown = memory.unshown_facts(document for document, _ in documents)
        changed = changed_since(memory, (document for document, _ in documents))
        hidden = _hidden(memory, [document.id for document, _ in documents])
        links = {
            document.id: memory.links(document)
            for document, passage in documents
            if passage is None or arguments.document
        }

        def as_dict(document: Document, passage: Passage | None) -> dict[str, Any]:
            successor, secret = successors.get(document.id), secrets.get(document.id, ())
            since = changed_dict(changed.get(document.id, ())) | hidden.get(document.id, {})
            if passage is None or arguments.document:
                fields = document_dict(document, successor, secret)
                notice = unshown.get(document.id)
                facts = {} if notice is None else {"more_facts": int(notice.subject)}
                return {**fields, **links_dict(links[document.id]), **facts, **since}
            return {**passage_dict(passage, document, successor, secret), **since}

        def as_text(document: Document, passage: Passage | None) -> str:
            told = (successors.get(document.id), (), earlier.get(document.id, 0))
            parts = [passage_text(passage, document, *told)] if passage is not None else []
            if passage is None or arguments.document:
                parts = [document_text(document, *told), links_text(links[document.id])]
            parts.append(changed_text(changed.get(document.id, ())))
            parts += [f"visibility: {value}" for value in hidden.get(document.id, {}).values()]
            text = "\n\n".join(filter(None, parts))
            return f"{HIT_MARK}{text}" if hit is not None and document.id == hit.id else text

        def render(kept: Sequence[tuple[int, Named]], left_out: int) -> Rendered:
            rows = [row for _, row in sorted(kept, key=itemgetter(0))]
            if out.form == "text":
                return "\n\n".join(as_text(*row) for row in rows)
            return {"results": [as_dict(*row) for row in rows], "left_out": left_out}

        left_out = 0
        ranked = by_importance(documents, hit)
        if documents or all(isinstance(error, NotFound) for error in refused.values()):
            rendered, left_out = fitted(ranked, render, arguments.max_tokens, out)
            out.show(rendered)
        out.warn_all(unshown.values())
        shown = sorted(ranked[: len(ranked) - left_out], key=itemgetter(0))
        _warn_of_secrets([row for _, row in shown], secrets, out)
        _tell_refused(memory, list(refused.values()), out)
        out.flush()
    for error in refused.values():
        return error.exit_code
    return NOTHING_FOUND if left_out == len(documents) else 0


def _hidden(memory: Memory, ids: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return who sees documents that not all members see, by their ids."""
    if not ids or not is_address(memory.path):
        return {}
    seen_by = memory.team.visibilities(ids)
    return {id_: {"visibility": value} for id_, value in seen_by.items() if value != "team"}


def _around(rows: Sequence[Named], hit: Document, name: str) -> list[Named]:
    """Return the messages of a session that are near to one of them.

    Raises:
        UsageError: The name is not that of a message, or of one of another session.
    """
    if hit.turn is None:
        raise UsageError(f"--around needs a message, and '{on_a_line(name)}' is a {hit.kind}.")
    home = (hit.project, hit.session)
    if rows and home not in {(document.project, document.session) for document, _ in rows}:
        session, shown = on_a_line(hit.session or ""), on_a_line(name)
        raise UsageError(
            f"'{shown}' is a message of the session {session}{in_project(hit.project)}. "
            + to_run(f"Run: plait get {session} --around {shown}"),
            code="bad_value",
            subject="--around",
        )
    return [
        (document, passage)
        for document, passage in rows
        if (document.project, document.session) == home
        and document.turn is not None
        and abs(document.turn - hit.turn) <= TURNS_AROUND
    ]


def _tell_refused(memory: Memory, errors: Sequence[PlaitError], out: Output) -> None:
    """Name what was not found, each with a similar name."""
    for error in errors if out.quiet or not memory.is_off else ():
        out.error(with_suggestion(memory, error))


def _warn_of_secrets(
    rows: Sequence[Named],
    secrets: Mapping[str, Sequence[str]],
    out: Output,
) -> None:
    """Name the documents that hold secrets; JSON output has a field for it."""
    for document, _ in rows if out.form == "text" else ():
        if document.id in secrets:
            held = ", ".join(secrets[document.id])
            out.warn(f"{on_a_line(document.doc_id)} holds a secret ({held})")
