"""Answer one hook: read what the agent sent, do what the event is for, and record it."""

import os
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

from plait.agents.hooks import record
from plait.agents.hooks.forms import (
    WRITTEN_BY_PROGRAMS,
    Event,
    Payload,
    agent_named,
    answer_for,
    event_named,
    read_payload,
)
from plait.agents.hooks.prompts import query_of
from plait.agents.hooks.record import HookRun
from plait.errors import PlaitError
from plait.settings.loading import Config, load
from plait.types.ids import is_address
from plait.types.records import NamedTuple

# Seconds to wait while others write: a hook has less than one.
WRITERS_PATIENCE_S = 0.5
# Moments at which a hook may say one line. If it does not, it leaves no entry: agents use so many
# tools that the record would hold nothing else.
TOOL_MOMENTS = ("before", "failure")
# Transcripts whose rest is saved when a session begins.
MOST_RESUMED = 3


class Asked(NamedTuple):
    """A hook as it was called: the words of the command, and the options that choose a memory."""

    agent: str
    event: str
    flags: Mapping[str, object] = MappingProxyType({})
    config: str | None = None

    def entry(self) -> HookRun:
        """Return what is known before anything is read."""
        return HookRun(at=round(time.time() * 1000), agent=self.agent, event=self.event)


def respond(asked: Asked, data: bytes, send: Callable[[str], None]) -> None:
    """Answer a hook and record what was done. Errors are recorded, never raised.

    Args:
        asked: What was called.
        data: What the agent sent.
        send: Gets two messages: what is known before the work, as a line of the record, for a hook
            that is stopped; then the answer, unless there is none.
    """
    start = time.monotonic()

    def done(entry: HookRun) -> None:
        record.try_to_write(entry._replace(ms=round((time.monotonic() - start) * 1000)))

    entry = asked.entry()
    try:
        agent = agent_named(asked.agent)
        event = None if agent is None else event_named(agent, asked.event)
        payload = read_payload(data)
        if agent is None or event is None or payload is None:
            known = "agent" if agent is None else "event" if event is None else ""
            done(entry._replace(did="failed", why=f"unknown_{known}" if known else "bad_payload"))
            return
        source = payload.source if event.moment == "start" else ""
        entry = entry._replace(
            agent=agent, event=event.word, session=payload.session, source=source
        )
        if event.moment in TOOL_MOMENTS and not _is_for_hints(event, payload):
            return
        config = settings_for(asked, payload.cwd)
        entry = entry._replace(memory=config.settings.db_path)
        if event.moment == "save":
            entry = entry._replace(transcript=payload.transcript)
            send(record.as_line(entry))
            done(_saved(config, entry))
            return
        send(record.as_line(entry))
        if event.moment in TOOL_MOMENTS:
            text, entry = _hinted(config, event, payload, entry)
            send(text)
            if text:
                done(entry)
            return
        recorded = record.recent(record.data_folder())
        text, entry = _shown(config, event, payload, entry, recorded)
        send(text)
        done(entry)
        if event.moment == "start":
            _save_the_rest(config, recorded)
    except PlaitError as error:
        done(entry._replace(did="failed", why=error.notice.code or type(error).__name__))
    except Exception as error:  # noqa: BLE001 - an agent must go on, whatever happens here
        # subtle: not the message, which may repeat what was typed or stored.
        done(entry._replace(did="failed", why=type(error).__name__))


def _saved(config: Config, entry: HookRun) -> HookRun:
    from plait.agents.hooks.saving import save_transcript

    code = save_transcript(config, entry.agent, entry.transcript)
    return entry._replace(did="saved" if code == "taken_in" else "silent", why=code)


def _may_exist(path: str) -> bool:
    """Tell whether there may be a memory, without loading what opens one."""
    return is_address(path) or os.path.exists(path)


def _shown(
    config: Config, event: Event, payload: Payload, entry: HookRun, recorded: list[HookRun]
) -> tuple[str, HookRun]:
    """Return the answer and what to record."""
    if event.form is None:
        return "", entry._replace(did="silent", why="agent_takes_no_text")
    if event.moment == "prompt" and payload.source in WRITTEN_BY_PROGRAMS:
        return "", entry._replace(did="silent", why="not_typed")
    if event.moment == "prompt" and not query_of(payload.prompt):
        return "", entry._replace(did="silent", why="needs_no_memory")
    if not _may_exist(config.settings.db_path):
        return "", entry._replace(did="silent", why="no_memory")
    from plait.agents.hooks.injecting import InContext, for_prompt, for_start
    from plait.memory import Memory

    is_empty = entry.source in record.EMPTIED
    since = entry.at if is_empty else record.emptied_at(payload.session, recorded)
    context = InContext(_name_of(payload, entry), since)
    muted = frozenset(record.muted_ids(record.data_folder()))
    # Nothing is written, so nothing waits for a writer.
    with Memory.open(config=config._replace(brief=True), create=False, read_only=True) as memory:
        if event.moment == "start":
            shown = for_start(memory, muted, context)
        else:
            context = context._replace(shown=record.shown_to(payload.session, recorded))
            shown = for_prompt(memory, payload.prompt, muted, context)
    text = answer_for(event, shown.text)
    why = record.STARTED if event.moment == "start" else shown.why
    did = "shown" if text else "silent"
    return text, entry._replace(
        did=did, why=why, tokens=shown.tokens, ids=shown.ids, whole=shown.whole
    )


def _name_of(payload: Payload, entry: HookRun) -> str | None:
    """Return the name that the session has in the memory, if the agent told its id."""
    from plait.agents.sessions import session_name

    return session_name(entry.agent, payload.session) if payload.session else None


def _is_for_hints(event: Event, payload: Payload) -> bool:
    """Tell whether there may be something to say about a tool, before anything is opened."""
    call = payload.call
    if call is None or event.form is None:
        return False
    if event.moment == "failure":
        return call.has_failed and call.command is not None
    return call.command is not None or call.is_edit


def _hinted(config: Config, event: Event, payload: Payload, entry: HookRun) -> tuple[str, HookRun]:
    """Return the answer to a hook around a tool, and what to record."""
    call = payload.call
    if call is None or not _may_exist(config.settings.db_path):
        return "", entry
    from plait.agents.hooks.hints import hint_after_failure, hint_before
    from plait.agents.hooks.injecting import for_tool
    from plait.memory import Memory

    session = _name_of(payload, entry)
    with Memory.open(config=config._replace(brief=True), create=False, read_only=True) as memory:
        if event.moment == "failure":
            hint = hint_after_failure(memory, call, session=session)
        else:
            hint = hint_before(memory, call, folder=payload.cwd or None, session=session)
        if not hint.text:
            return "", entry
        folder = record.data_folder()
        if hint.number in record.hinted_to(payload.session, record.recent(folder)):
            return "", entry
        shown = for_tool(memory, hint, frozenset(record.muted_ids(folder)))
    text = answer_for(event, shown.text)
    entry = entry._replace(tokens=shown.tokens, ids=shown.ids, hint=hint.number)
    return text, entry._replace(did="shown" if text else "silent", why=shown.why)


def _save_the_rest(config: Config, recorded: list[HookRun]) -> None:
    """Save what a deadline or a busy memory kept the last sessions from saving."""
    if not config.settings.auto_save:
        return
    for late in record.unfinished(recorded)[:MOST_RESUMED]:
        if late.memory == config.settings.db_path:
            try:
                entry = _saved(config, late)
            except PlaitError as error:  # the others may have better luck
                entry = late._replace(did="failed", why=error.notice.code or type(error).__name__)
            record.try_to_write(entry)


def settings_for(asked: Asked, cwd: str) -> Config:
    """Return the settings in the folder in which the agent works."""
    here = cwd if os.path.isabs(cwd) and os.path.isdir(cwd) else None
    config = load(asked.flags, cwd=here, config=asked.config)
    patience = min(config.settings.sqlite_open_timeout_secs, WRITERS_PATIENCE_S)
    settings = config.settings._replace(
        sqlite_open_timeout_secs=patience, auto_hydrate=False, auto_reindex=False
    )
    return config._replace(settings=settings)
