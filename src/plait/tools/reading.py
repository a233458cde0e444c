"""The reading tools of the profile ``core``: search, get and timeline, within a budget."""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from operator import itemgetter
from typing import Any

from plait.errors import Notice, PlaitError, UsageError, quotable
from plait.memory.beyond import Beyond, beyond, documents_elsewhere, is_foreign
from plait.memory.work import changed_since
from plait.present.json import changed_dict, document_dict, links_dict, passage_dict
from plait.present.text import (
    LINKS_SHOWN,
    NAMES_SHOWN,
    caveats,
    corrections_text,
    counted,
    document_text,
    links_text,
    passage_text,
)
from plait.present.work import changed_text
from plait.searching.conversations import by_importance
from plait.searching.links import Links
from plait.searching.recall import most_that_fit, tokens_of
from plait.searching.where import Where, page_end, page_start
from plait.times import show_time
from plait.tools.arguments import as_written, separated
from plait.tools.lines import day_lines, hit_lines
from plait.tools.replies import MAX_TOKENS, Reply, fit_to_budget, with_cost
from plait.tools.rows import hit_row, readable_row
from plait.tools.tool import Call
from plait.tools.wording import damaged_remark
from plait.types import WEAK_RELEVANCE, Document, Hit, Passage
from plait.types.ids import ID_LENGTH, is_id
from plait.types.shapes import corrections_of

# A text cut to fewer characters than this is not useful.
MIN_CUT_CHARS = 40
# A document to show whole, or one passage of it.
Readable = tuple[Document, Passage | None]


# -- search --------------------------------------------------------------------------------


def memory_search(call: Call) -> Reply:
    """Return hits as ids, scores and snippets."""
    arguments = call.arguments
    where = where_of(arguments)
    answer = call.memory.search(
        arguments["query"],
        limit=arguments["limit"],
        where=where,
        all_projects=arguments["all_projects"],
    )
    degraded = [call.worded(reason) for reason in answer.receipt.degraded]
    earlier = call.memory.earlier(hit.document for hit in answer)
    rest = Beyond()
    if all(hit.is_weak for hit in answer):
        rest = look_beyond(call, arguments["query"], where)

    def render(hits: Sequence[Hit], left_out: int, whole: int = 0) -> Reply:
        data: dict[str, Any] = {
            "results": [_hit_data(call, hit, whole=rank < whole) for rank, hit in enumerate(hits)]
        }
        if degraded:
            data["degraded"] = degraded
        if answer.receipt.corrections:
            data["corrections"] = corrections_of(answer.receipt)
        if left_out:
            data["left_out"] = left_out
        data.update({name: count for name, count in rest._asdict().items() if count})
        notes = [_count_note(len(hits), left_out, "hit"), *beyond_notes(rest)]
        if not answer and rest == Beyond():
            notes.append("Try other words.")
        told = " ".join(filter(None, notes))
        spelling = corrections_text(answer.receipt)
        lines = [spelling, *hit_lines(call, hits, earlier, spelling, told)]
        return call.reply("\n".join(filter(None, lines)), data, *degraded, told)

    def fitted(whole: int) -> Reply:
        return fit_to_budget(
            answer.hits,
            lambda hits, left_out: render(hits, left_out, whole),
            arguments["max_tokens"],
            with_data=call.with_data,
        )

    if not call.as_rows:
        return fitted(0)
    # The best hits have their whole passages, as many as leave room for the others' snippets.
    return fitted(
        most_that_fit(len(answer.hits), lambda whole: "left_out" not in fitted(whole).data)
    )


def _hit_data(call: Call, hit: Hit, *, whole: bool) -> dict[str, Any]:
    if call.as_rows:
        return {**hit_row(hit, whole=whole), **project_mark(call, hit.document)}
    return {**hit.to_dict(), "project": foreign_project(call, hit.document)}


def look_beyond(call: Call, query: str, where: Where | None = None) -> Beyond:
    """Return what the rest of the memory has on a query that found nothing convincing."""
    return beyond(
        call.memory,
        query,
        where,
        all_projects=call.arguments["all_projects"],
        min_score=WEAK_RELEVANCE,
    )


def beyond_notes(rest: Beyond, tool: str = "") -> list[str]:
    """Return how to see what the rest of the memory has; ``tool`` names one that takes times."""
    notes = []
    if rest.elsewhere:
        notes.append(f"{counted(rest.elsewhere, 'hit')} in other projects: all_projects=true.")
    if rest.earlier:
        notes.append(f"{counted(rest.earlier, 'earlier hit')}, no longer valid: {tool}as_of=DATE.")
    return notes


def _turn_data(document: Document) -> dict[str, Any]:
    if document.kind != "message":
        return {}  # the session of a fact only tells when it was stored
    return {"session": document.session, "role": document.role, "turn": document.turn}


def foreign_project(call: Call, document: Document) -> str | None:
    """Return the project of a document of another project, short enough to stand anywhere."""
    if not is_foreign(document, call.memory.config.project):
        return None
    return quotable(document.project or "")


def project_mark(call: Call, document: Document) -> dict[str, str]:
    """Return the project of a document of another project, as a field."""
    project = foreign_project(call, document)
    return {} if project is None else {"project": project}


def _time(moment: int | None) -> str | None:
    return None if moment is None else show_time(moment)


def where_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the filter that the arguments ask for; a text with commas is several values."""
    names = ("type", "tags", "since", "until", "entity", "as_of", "session")
    where = {name: arguments[name] for name in names if arguments.get(name)}
    return {
        name: separated(value) if name in ("type", "tags") else value
        for name, value in where.items()
    }


def _count_note(shown: int, left_out: int, noun: str) -> str:
    """Return what is not obvious from the rows: that there is none, or that some did not fit."""
    if left_out:
        return f"{counted(left_out, f'more {noun}')} did not fit: raise max_tokens."
    return "" if shown else f"{counted(0, noun)}."


# -- get -----------------------------------------------------------------------------------


def memory_get(call: Call) -> Reply:
    """Return documents or passages whole, and name the ids that are unknown.

    Raises:
        NotFound: None of the ids is known.
        AmbiguousId: None of the ids is known, and the first one matches several documents.
        UsageError: The budget is too small for the beginning of the first document.
    """
    written = list(map(as_written, call.arguments["ids"]))
    known, troubles = call.memory.lookup_many(written, conversations=True)
    if not known:
        raise next(iter(troubles.values()))
    whole_documents = call.arguments["document"]
    readables: list[Readable] = [
        (document, None if whole_documents else passage) for document, passage in known
    ]
    successors = call.memory.successors(document for document, _ in readables)
    secrets = call.memory.secrets(document for document, _ in readables)
    earlier = call.memory.earlier(document for document, _ in readables)
    unshown = call.memory.unshown_facts(document for document, _ in readables)
    changed = changed_since(call.memory, (document for document, _ in readables))
    links = {
        document.id: call.memory.links(document) for document, passage in readables if not passage
    }
    budget = min(call.arguments["max_tokens"], MAX_TOKENS)
    ranked = by_importance(readables)

    def about(readable: Readable) -> tuple[str | None, Sequence[str], Links | None]:
        id_ = readable[0].id
        return successors.get(id_), secrets.get(id_, ()), links.get(id_)

    def text_of(readable: Readable) -> str:
        text = _readable_text(readable, *about(readable), earlier.get(readable[0].id, 0))
        since = changed_text(changed.get(readable[0].id, ()))
        return f"{text}\n\n{since}" if since else text

    def data_of(readable: Readable) -> dict[str, Any]:
        id_ = readable[0].id
        more = {**_more_facts(unshown.get(id_)), **changed_dict(changed.get(id_, ()))}
        return {**_readable_data(call, readable, *about(readable)), **more}

    def render(kept: Sequence[tuple[int, Readable]], left_out: int) -> Reply:
        shown = [row for _, row in sorted(kept, key=itemgetter(0))]
        data: dict[str, Any] = {"results": [data_of(row) for row in shown]}
        if left_out:
            data["left_out"] = left_out
        if troubles:
            data["not_found"] = _failed_names(call, troubles)
        body = "\n\n".join(map(text_of, shown))
        more = counted(left_out, "more document")
        note = f"{more} did not fit: ask for fewer ids or raise max_tokens." if left_out else ""
        if left_out and any(document.kind == "message" for document, _ in shown):
            note = f"{more} did not fit: earlier ones; raise max_tokens."
        facts = [call.worded(unshown[row.id]) for row, _ in shown if row.id in unshown]
        return call.reply(body, data, note, *facts, *_failures(call, list(troubles.values())))

    reply = fit_to_budget(ranked, render, budget, with_data=call.with_data)
    if reply.data["results"]:
        return reply
    return _cut_to_budget(ranked, render, budget, with_data=call.with_data)


def _failures(call: Call, troubles: Sequence[PlaitError]) -> list[str]:
    """Return why names failed: of many, the first ones, because documents share the budget."""
    told = [call.worded(trouble) for trouble in troubles[:NAMES_SHOWN]]
    others = len(troubles) - len(told)
    return [*told, f"{counted(others, 'more id')} failed too."] if others else told


def _failed_names(call: Call, troubles: Iterable[str]) -> list[str]:
    """Return the names that failed; to a model, which wrote them, the first ones in short."""
    if not call.as_rows:
        return list(troubles)
    return [quotable(name) for name in islice(troubles, NAMES_SHOWN)]


def _cut_to_budget(
    ranked: Sequence[tuple[int, Readable]],
    render: Callable[[Sequence[tuple[int, Readable]], int], Reply],
    budget: int,
    *,
    with_data: bool,
) -> Reply:
    """Return the first document alone, cut to the budget."""
    place, (document, passage) = ranked[0]
    body = document.text if passage is None else passage.text

    def cut(count: int) -> Reply:
        shown = body if count == len(body) else f"{body[:count]}…"
        readable = (
            (document._replace(text=shown), None)
            if passage is None
            else (document, passage._replace(text=shown))
        )
        reply = render([(place, readable)], len(ranked) - 1)
        if count == len(body):
            return with_cost(reply, with_data=with_data)
        total = tokens_of(body)
        remedy = "Raise max_tokens, or search" if budget < MAX_TOKENS else "Search"
        note = f"Cut: the whole is about {total:,} tokens. {remedy} for a part."
        told = {"note": f"{reply.data['note']} {note}"} if "note" in reply.data else {}
        shortened = Reply(f"{reply.text}\n{note}", {**reply.data, "cut": True, **told})
        return with_cost(shortened, with_data=with_data)

    count = most_that_fit(len(body), lambda count: cut(count).data["tokens"] <= budget)
    if count < min(MIN_CUT_CHARS, len(body)):
        whole_cost = cut(len(body)).data["tokens"]
        raise UsageError(
            f"max_tokens is {budget}, too few for the first document: whole, it costs "
            f"{whole_cost:,} tokens.",
            code="budget_too_small",
            subject=str(whole_cost),
        )
    return cut(count)


def _readable_data(
    call: Call,
    readable: Readable,
    superseded_by: str | None,
    secret: Sequence[str],
    links: Links | None,
) -> dict[str, Any]:
    document, passage = readable
    if call.as_rows:
        return readable_row(document, passage, superseded_by, secret)
    if passage is not None:
        fields = passage_dict(passage, document, superseded_by, secret)
    else:
        fields = document_dict(document, superseded_by, secret)
        for name in ("size", "sha256", "file_mtime", "indexed_at", "path", "source"):
            fields.pop(name, None)
        if links is not None:
            shown = Links(links.links[:LINKS_SHOWN], links.backlinks[:LINKS_SHOWN])
            fields.update(links_dict(shown))
        fields["status"] = document.status  # that one is active costs no tokens
    return {name: value for name, value in fields.items() if value not in (None, "", [], {}, False)}


def _more_facts(notice: Notice | None) -> dict[str, int]:
    return {} if notice is None else {"more_facts": int(notice.subject)}


def _below_a_head(text: str) -> str:
    """Return a document in which only the first line can be taken for a head of plait's."""
    first, *others = text.splitlines(keepends=True)
    return "".join([first, *(f" {line}" if is_id(line[:ID_LENGTH]) else line for line in others)])


def _readable_text(
    readable: Readable,
    superseded_by: str | None,
    secret: Sequence[str],
    links: Links | None,
    earlier: int,
) -> str:
    document, passage = readable
    if passage is not None:
        return _below_a_head(passage_text(passage, document, superseded_by, secret, earlier))
    text = _below_a_head(document_text(document, superseded_by, secret, earlier))
    named = "" if links is None else links_text(links)
    return f"{text}\n\n{named}" if named else text


# -- timeline ------------------------------------------------------------------------------


def memory_timeline(call: Call) -> Reply:
    """Return documents, newest first, or those around one document."""
    arguments = call.arguments
    around: dict[str, Any] = {}
    if arguments.get("anchor"):
        around = {name: arguments[name] for name in ("anchor", "older", "newer")}
    damaged: list[str] = []
    where = where_of(arguments)
    if around:
        around["anchor"] = as_written(around["anchor"])
    documents = call.memory.timeline(
        limit=arguments["limit"],
        before=page_start(arguments.get("cursor")),
        where=where,
        all_projects=arguments["all_projects"],
        damaged=damaged,
        **around,
    )
    is_full = len(documents) + len(damaged) >= arguments["limit"] and not around
    remark = damaged_remark(damaged, call.memory.config)
    successors = call.memory.successors(documents)
    secrets = call.memory.secrets(documents)
    earlier = call.memory.earlier(documents)
    remarks = {
        row.id: caveats(
            row, successors.get(row.id), secrets.get(row.id, ()), earlier.get(row.id, 0)
        )
        for row in documents
    }
    elsewhere = 0
    if not (documents or around or arguments["all_projects"] or arguments.get("cursor")):
        elsewhere = documents_elsewhere(call.memory, where)

    def render(shown: Sequence[Document], left_out: int) -> Reply:
        data: dict[str, Any] = {
            "results": [
                _timeline_data(
                    call, document, successors.get(document.id), secrets.get(document.id, ())
                )
                for document in shown
            ]
        }
        notes = [_count_note(len(shown), left_out, "document")]
        if elsewhere:
            data["elsewhere"] = elsewhere
            notes.append(elsewhere_note(elsewhere))
        if left_out:
            data["left_out"] = left_out
        if damaged:
            data["damaged"] = [quotable(id_) for id_ in damaged]
        if shown and not around and (left_out or is_full):
            in_session = bool(arguments.get("session"))
            data["next"] = page_end(shown[-1], in_session=in_session)
            notes.append(f"{'Later' if in_session else 'Older'} ones: cursor={data['next']}.")
        lines = day_lines(call, shown, remarks)
        told = " ".join(filter(None, notes))
        return call.reply("\n".join(lines), data, remark, told)

    return fit_to_budget(documents, render, arguments["max_tokens"], with_data=call.with_data)


def elsewhere_note(count: int) -> str:
    """Return how to see what a timeline of other projects has."""
    return f"{counted(count, 'document')} in other projects: all_projects=true."


def _timeline_data(
    call: Call, document: Document, superseded_by: str | None, secret: Sequence[str]
) -> dict[str, Any]:
    fields = {
        "id": document.id,
        "created_at": show_time(document.created_at),
        "event_at": show_time(document.event_at or document.created_at),
        "type": document.type or document.kind,
        "tags": list(document.tags),
        "title": document.title,
        "summary": document.summary or "",
        **project_mark(call, document),
        "trust": document.trust if document.trust != "trusted" else "",
        "valid_to": _time(document.valid_to),
        "superseded_by": superseded_by,
        "secret": list(secret),
        **_turn_data(document),
    }
    return {name: value for name, value in fields.items() if value not in (None, "", [])}
