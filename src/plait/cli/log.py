"""log, mute, unmute: who changed what, what hooks did, and what they must not show."""

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from plait.agents.hooks import record
from plait.cli import NOTHING_FOUND, Output, as_integer
from plait.cli.search import ALL_PROJECTS, open_to_read
from plait.cli.shared import open_existing, or_empty, warn_if_empty
from plait.cli.suggestions import UNKNOWN_NAME
from plait.errors import NotFound, PlaitError, UsageError, shell_word
from plait.facts.trash import named
from plait.memory import Memory
from plait.memory.maintenance import MOST_LOGGED
from plait.present.review import entry_dict, entry_line
from plait.present.text import counted, on_a_line
from plait.searching.timeline import summary_of
from plait.text import clean, single_spaced
from plait.times import as_moment, show_time
from plait.types import ORIGINS
from plait.types.audit import DOORS, LOGGED_VERBS, AuditEntry, AuditQuery
from plait.types.ids import ID_PREFIX, SHORT_ID, is_id

GONE = "(not in this memory)"


def log_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait log``."""
    parser.add_argument(
        "--injected",
        action="store_true",
        help="only what agents were shown by hooks, with its ids and its cost in tokens",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="only what concerns these documents"
    )
    parser.add_argument(
        "--door",
        action="append",
        choices=DOORS,
        default=[],
        metavar="X",
        help=f"only what came in by this door: {', '.join(DOORS)}",
    )
    parser.add_argument(
        "--verb",
        action="append",
        choices=(*LOGGED_VERBS, *record.DEEDS),
        default=[],
        metavar="X",
        help=f"only this verb: {', '.join(LOGGED_VERBS)}; of hooks: {', '.join(record.DEEDS)}",
    )
    parser.add_argument(
        "--origin",
        action="append",
        choices=ORIGINS,
        default=[],
        metavar="X",
        help=f"only what this one did: {', '.join(ORIGINS)}",
    )
    parser.add_argument("--session", metavar="NAME", help="only what this session did")
    parser.add_argument(
        "--since", metavar="TIME", help="only what was done from this time on: 2026-03-01, 7d"
    )
    parser.add_argument("--all-projects", action="store_true", help=ALL_PROJECTS)
    parser.add_argument(
        "--limit", type=as_integer, default=20, metavar="N", help="maximum number of entries (20)"
    )


def log_run(arguments: Namespace, out: Output) -> int:
    """List who changed what and what hooks did with this memory, the newest first."""
    if arguments.limit < 1:
        raise UsageError(
            f"--limit is {arguments.limit}; choose 1 or more.", code="out_of_range", subject="limit"
        )
    summaries: dict[str, str] = {}
    newest: str | None = None
    with open_to_read(out) as memory, or_empty(out, {"results": [], "count": 0, "tokens": 0}):
        names = [id_ for name in arguments.names for id_ in _ids_of(memory, name)]
        since = as_moment(arguments.since, "--since")
        runs = _runs(arguments, names, since, out.config.settings.db_path)
        entries = [] if arguments.injected else _entries(memory, arguments, names, since)
        dated: list[tuple[int, record.HookRun | AuditEntry]] = [
            *((row.at, row) for row in runs),
            *((row.at, row) for row in reversed(entries)),
        ]
        # subtle: the sort is stable, and what was written last of one moment comes first.
        latest = [row for _, row in sorted(dated, key=itemgetter(0))][::-1][: arguments.limit]
        if arguments.injected:
            summaries = _summaries(memory, [id_ for row in runs for id_ in row.ids])
            newest = _newest_to_mute(memory, runs, summaries)
    tokens = sum(row.tokens for row in runs)
    results = [
        entry_dict(row) if isinstance(row, AuditEntry) else _as_dict(row, summaries)
        for row in latest
    ]
    lines = [
        line
        for row in latest
        for line in (
            [entry_line(row)]
            if isinstance(row, AuditEntry)
            else _lines(row, summaries, arguments.injected)
        )
    ]
    out.result({"results": results, "count": len(dated), "tokens": tokens}, "\n".join(lines))
    if not latest:
        if memory.is_there or not warn_if_empty(memory, out):
            out.warn("nothing is recorded that matches, or its entries are gone")
        return NOTHING_FOUND
    if arguments.injected:
        total = f"{counted(len(runs), 'entry')}, {counted(tokens, 'token')} shown"
        if newest is None:
            out.warn(f"{total}; what was shown is gone or muted")
        else:
            out.suggest(f"plait mute {newest[:SHORT_ID]}", f"never show it again ({total})")
    return 0


def _runs(
    arguments: Namespace, names: Sequence[str], since: int | None, path: str
) -> list[record.HookRun]:
    """Return what hooks did with this memory, the oldest first."""
    if (arguments.door and "hook" not in arguments.door) or arguments.origin:
        return []
    return [
        row
        for row in record.entries(record.data_folder())
        if row.memory in ("", path)
        and (row.ids or not arguments.injected)
        and (not names or {*row.ids} & {*names})
        and (not arguments.verb or row.did in arguments.verb)
        and arguments.session in (None, row.session)
        and (since is None or row.at >= since)
    ]


def _entries(
    memory: Memory, arguments: Namespace, names: Sequence[str], since: int | None
) -> list[AuditEntry]:
    """Return entries of the audit log, the newest first."""
    here = None if arguments.all_projects or names else (memory.config.project, None)
    wanted = AuditQuery(
        documents=tuple(names),
        projects=here,
        verbs=tuple(arguments.verb),
        doors=tuple(arguments.door),
        origins=tuple(arguments.origin),
        session=arguments.session,
        since=since,
    )
    return memory.log(wanted, limit=MOST_LOGGED)


def _ids_of(memory: Memory, name: str) -> list[str]:
    """Return the id of a document, and of its passage if that is named, as hooks show them.

    What is damaged is named by its whole id; what was deleted, as before, or as the log shows it.
    """
    try:
        document, passage = memory.lookup(name)
    except PlaitError as error:
        if is_id(name):
            return [name]
        gone = _deleted_ids(memory, name) if error.code == UNKNOWN_NAME else []
        if gone:
            return gone
        raise
    return [document.id] if passage is None else [document.id, passage.id]


def _deleted_ids(memory: Memory, name: str) -> list[str]:
    """Return the ids of deleted documents that a name refers to, in the trash or the log."""
    if not memory.is_there:
        return []
    trash = named(memory.engine.trashed(texts=False), clean(name), memory.config.project)
    ids = [row.version_of or row.document.id for row in trash]
    if not ids and len(name) >= ID_PREFIX:
        logged = memory.log(limit=MOST_LOGGED)
        ids = [row.document for row in logged if row.document.startswith(name.lower())]
    return list(dict.fromkeys(ids))


def _summaries(memory: Memory, ids: Sequence[str]) -> dict[str, str]:
    """Return the first words of what still exists, by id."""
    summaries = {}
    for id_ in dict.fromkeys(ids):
        try:
            document, passage = memory.lookup(id_)
        except NotFound:
            continue
        shown = document if passage is None else document._replace(text=passage.text, summary=None)
        # A summary that somebody stored may have several lines.
        summaries[id_] = single_spaced(summary_of(shown))
    return summaries


def _newest_to_mute(
    memory: Memory, runs: Sequence[record.HookRun], summaries: dict[str, str]
) -> str | None:
    """Return the id of what was shown last, of what is still there and not muted."""
    muted = set(record.muted_ids(record.data_folder()))
    for id_ in (id_ for row in reversed(runs) for id_ in row.ids if id_ in summaries):
        if muted.isdisjoint(_ids_of(memory, id_)):
            return id_
    return None


def _as_dict(row: record.HookRun, summaries: dict[str, str]) -> dict[str, Any]:
    items = [{"id": id_, "summary": summaries.get(id_)} for id_ in row.ids]
    kept = {name: getattr(row, name) for name in ("agent", "event", "did", "why", "session")}
    told = {"at": show_time(row.at), "door": "hook", "who": row.agent, "verb": row.did}
    return {**told, **kept, "tokens": row.tokens, "ms": row.ms, "items": items}


def _lines(row: record.HookRun, summaries: dict[str, str], injected: bool) -> list[str]:
    why = f" ({row.why})" if row.why else ""
    cost = f"  {counted(row.tokens, 'token')}" if row.tokens else ""
    # The words of a command line that called a hook may have line breaks.
    act = single_spaced(f"{row.agent} {row.event}: {row.did}{why}")
    lines = [f"{show_time(row.at)}  {act}{cost}  {row.ms} ms"]
    if injected:
        # The record has no texts: of a hint, it knows the messages that it was made from.
        source = "hint from " if row.why == record.HINTED else ""
        lines += [f"  {source}{id_[:SHORT_ID]}  {summaries.get(id_, GONE)}" for id_ in row.ids]
    return lines


def mute_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait mute``."""
    parser.add_argument("names", nargs="*", metavar="ID", help="ids, as the log shows them")


def mute_run(arguments: Namespace, out: Output) -> int:
    """Mute documents or passages, or list what is muted."""
    folder = record.data_folder()
    if not arguments.names:
        muted = record.muted_ids(folder)
        with open_to_read(out) as memory:
            summaries = _summaries(memory, muted)
        rows = [{"id": id_, "summary": summaries.get(id_)} for id_ in muted]
        lines = [f"{id_[:SHORT_ID]}  {summaries.get(id_, GONE)}" for id_ in muted]
        out.result({"muted": rows}, "\n".join(lines))
        if not muted:
            out.warn("nothing is muted")
        return 0 if muted else NOTHING_FOUND
    with or_empty(out, {"muted": []}), open_existing(out) as memory:
        ids = [_id_of(memory, name) for name in arguments.names]
    record.change_muted(folder, add=list(dict.fromkeys(ids)))
    text = f"Muted {_listed(arguments.names)}: searchable, but no hook shows it."
    out.result({"muted": [{"id": id_} for id_ in ids]}, text)
    out.suggest(f"plait unmute {shell_word(arguments.names[0], 'ID')}", "let hooks show it again")
    return 0


def _listed(names: Sequence[str]) -> str:
    """Return names as they were typed: who typed them knows no other ids of the same thing."""
    return ", ".join(map(on_a_line, dict.fromkeys(names)))


def _id_of(memory: Memory, name: str) -> str:
    """Return the id to mute: of a passage, or of its document if that has no other."""
    document, passage = memory.lookup(name)
    return document.id if passage is None or document.chunk_count <= 1 else passage.id


def unmute_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait unmute``."""
    parser.add_argument("names", nargs="+", metavar="ID", help="ids of muted items")


def unmute_run(arguments: Namespace, out: Output) -> int:
    """Unmute documents or passages, also those that were deleted meanwhile."""
    folder = record.data_folder()
    muted = record.muted_ids(folder)
    ids: list[str] = []
    names: list[str] = []
    for name in arguments.names:
        meant = [id_ for id_ in muted if len(name) >= 6 and id_.startswith(name)]
        if not meant:
            with or_empty(out, {"unmuted": []}), open_existing(out) as memory:
                document, passage = memory.lookup(name)
            meant = [id_ for id_ in (document.id, passage and passage.id) if id_ in muted]
        ids += meant
        names += [name] if meant else []
    record.change_muted(folder, remove=ids)
    out.result({"unmuted": ids}, f"Unmuted {_listed(names)}." if ids else "")
    if not ids:
        out.warn("it was not muted")
    return 0 if ids else NOTHING_FOUND
