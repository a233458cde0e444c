"""The profile ``core``: search, recall, get, timeline, store and delete, for any agent."""

from plait.errors import UsageError, quotable
from plait.facts.names import PERSONAL
from plait.present.json import deleted_dict, stored_dict
from plait.present.text import NAMES_SHOWN, counted
from plait.searching.recall import DEFAULT_BUDGET, DEFAULT_RECALLED, MAX_RECALLED
from plait.text import clean
from plait.text.normal_form import composed
from plait.tools.arguments import as_written, separated
from plait.tools.reading import memory_get, memory_search, memory_timeline
from plait.tools.recalling import memory_recall
from plait.tools.replies import Reply, named, with_cost
from plait.tools.schemas import Schema, boolean, decimal, integer, object_of, string, strings
from plait.tools.tool import Call, Tool
from plait.types import Trust
from plait.types.ids import is_item_key
from plait.types.reports import Stored

SEARCH_TOKENS = 2_000
TIMELINE_TOKENS = 2_000
GET_TOKENS = 8_000  # a third of what common clients accept from one tool
TIMELINE_ROWS = 10
NEIGHBOURS = 5
# About six pages: more than one thing to remember.
LONG_PASSAGES = 10


# -- store and delete ----------------------------------------------------------------------


def memory_store(call: Call) -> Reply:
    """Store a text as the agent's."""
    fields = dict(call.arguments)
    trust: Trust = "untrusted" if fields.pop("untrusted") else "trusted"
    body = fields.pop("text")
    session = fields.pop("session", None) or call.session
    personal = fields.pop("project", None) == PERSONAL
    if "tags" in fields:
        fields["tags"] = separated(fields["tags"])
    if "supersedes" in fields:
        fields["supersedes"] = as_written(fields["supersedes"])
    if is_item_key(composed(clean(fields.get("key") or "")).strip()):
        raise UsageError(
            "This key belongs to a program that keeps its items here. Use another key.",
            code="program_item",
            subject="key",
        )
    # Whatever the role: it is the agent that says who said it.
    stored = call.memory.store(
        body, origin="agent", trust=trust, session=session, personal=personal, **fields
    )
    project = None if personal else call.memory.config.project
    # It is outside of the fence, and a clone may have chosen it.
    data = stored_dict(stored, project and quotable(project))
    return with_cost(call.sentence(_stored_text(stored), data), with_data=call.with_data)


def _stored_text(stored: Stored) -> str:
    if stored.duplicate and stored.id:
        return f"Already stored as {stored.id}; nothing was added."
    if stored.recalled:
        return "Not stored: all of this text came from memory. Store only what is new."
    text = f"{'Replaced' if stored.replaced else 'Stored'} {stored.id}."
    if stored.chunks > LONG_PASSAGES:
        text += f" It is long: {stored.chunks:,} passages."
    if stored.shortened:
        text += " The part that came from memory was left out."
    text += _otherwise_text(stored)
    if stored.secret:
        text += f" It holds a secret ({', '.join(stored.secret)}): tell the user."
    if stored.superseded:
        text += f" It supersedes {', '.join(stored.superseded)}."
    if stored.beside:
        text += f" It does not replace {', '.join(stored.beside)}, which is more trusted."
    if stored.near:
        similar = ", ".join(f"{near.id} ({near.similarity:.2f})" for near in stored.near)
        text += f" Similar: {similar}. If it corrects one of them, store it with supersedes."
    return text


def _otherwise_text(stored: Stored) -> str:
    """Return what a text became because of those that it repeats."""
    text = ""
    if stored.lowered:
        text += (
            f" It is {stored.lowered}: it repeats or replaces such a text, or is too long to tell."
        )
    if stored.confined:
        seen = f"is as visible: {stored.confined}"
        text += f" It repeats a text that not all members see, and {seen}."
    return text


def memory_delete(call: Call) -> Reply:
    """Delete documents, or restore them."""
    names = list(map(as_written, call.arguments["ids"]))
    if call.arguments["undo"]:
        ids = [document.id for document in call.memory.undo(*names)]
        restored = call.sentence(f"Restored {named(ids)}.", {"restored": ids})
        return with_cost(restored, with_data=call.with_data)
    first = call.memory.delete(*names, dry_run=True).ids[:NAMES_SHOWN]
    doomed = call.memory._required().load(first)
    earlier = sum(row.supersedes is not None and row.valid_to is None for row in doomed)
    deleted = call.memory.delete(*names)
    documents = counted(len(deleted.ids), "document")
    passages = counted(deleted.chunks_deleted, "passage")
    shown = ", ".join(deleted.ids[:NAMES_SHOWN])
    more = ", …" if len(deleted.ids) > NAMES_SHOWN else ""
    text = (
        f"Deleted {documents}, {passages}: {shown}{more}. "
        "To undo within 30 days: undo=true, same ids."
    )
    if earlier:
        text += f" What {'it' if earlier == 1 else 'they'} had replaced stays outdated."
    return with_cost(call.sentence(text, deleted_dict(deleted)), with_data=call.with_data)


# -- the tools -----------------------------------------------------------------------------

# Only programs get these, and clients with typed results drop what a schema does not name.
_RESULTS: Schema = object_of(results={"type": "array"}, tokens={"type": "integer"})
_RECALLED: Schema = object_of(
    text={"type": "string"}, results={"type": "array"}, tokens={"type": "integer"}
)
_ANY_OBJECT: Schema = {"type": "object"}


# Short on purpose: the list of tools is in the context of every conversation.
def _filters(type: str = "", tags: str = "", since: str = "") -> dict[str, Schema]:
    return {
        "type": strings(type),
        "tags": strings(tags),
        "since": string(since),
        "until": string(),
    }


# Described once, in the tool that comes first.
_DESCRIBED = _filters("decision, fact, …", "all must match", "2026-03-01 or 7d")
_FILTERS = _filters()

CORE_TOOLS = (
    Tool(
        "memory_search",
        "Search long-term memory by keyword and meaning. Do this before answering anything that "
        "may depend on earlier work, decisions, people or preferences. Each hit shows how well it "
        "matches and a snippet, only a lead: read what matters with memory_get.",
        object_of(
            "query",
            query=string('words or a question; +"phrase", AND, OR, NOT'),
            limit=integer(default=DEFAULT_RECALLED, minimum=1, maximum=MAX_RECALLED),
            **_DESCRIBED,
            entity=string("only facts about this entity"),
            as_of=string("what was true then"),
            all_projects=boolean("beyond this project"),
            max_tokens=integer(default=SEARCH_TOKENS),
        ),
        memory_search,
        output=_RESULTS,
    ),
    Tool(
        "memory_recall",
        "Get ready-to-use context on a topic: the best passages whole, packed into a token "
        "budget. Use it at the start of a task.",
        object_of(
            query=string("the task or question"),
            overview=boolean("what to know first, without query"),
            limit=integer(default=DEFAULT_RECALLED),
            budget_tokens=integer(default=DEFAULT_BUDGET),
            **_FILTERS,
            all_projects=boolean(),
        ),
        memory_recall,
        output=_RECALLED,
    ),
    Tool(
        "memory_get",
        "Read whole memories by the ids that other tools returned; several at once.",
        object_of(
            "ids",
            ids=strings("ids, keys, or a session", minItems=1),
            document=boolean("the whole document of a passage"),
            max_tokens=integer(default=GET_TOKENS),
        ),
        memory_get,
        output=_RESULTS,
    ),
    Tool(
        "memory_timeline",
        "List what happened, newest first: 'what did we do last week'. With anchor: what came "
        "before and after that memory.",
        object_of(
            anchor=string("its id"),
            older=integer(default=NEIGHBOURS),
            newer=integer(default=NEIGHBOURS),
            limit=integer(default=TIMELINE_ROWS),
            cursor=string("from the last answer"),
            session=string(),
            **_FILTERS,
            all_projects=boolean(),
            max_tokens=integer(default=TIMELINE_TOKENS),
        ),
        memory_timeline,
        output=_RESULTS,
    ),
    Tool(
        "memory_store",
        "Store one thing for later sessions: a decision with its reason, a fact, a preference, "
        "a fix that worked. One fact per call, clear on its own. No secrets, nothing that came "
        "from memory.",
        object_of(
            "text",
            text=string("the fact, in full sentences"),
            type=string("decision, fact, preference, error, …"),
            tags=strings(),
            entity=string("what it is about; created if new"),
            topic=string("the newest fact of a topic replaces the last"),
            supersedes=string("id of what it corrects"),
            key=string("a note's name; the next of that name replaces it"),
            title=string(),
            summary=string(),
            project=string("for every project", enum=[PERSONAL]),
            importance=decimal(minimum=0, maximum=1),
            pinned=boolean(),
            event_at=string("when, if not now"),
            session=string(),
            role=string("of a message: user, assistant"),
            untrusted=boolean("from a web page, mail or tool"),
            allow_secret=boolean(),
        ),
        memory_store,
        output=_ANY_OBJECT,
        writes=True,
    ),
    Tool(
        "memory_delete",
        "Delete wrong or unwanted memories by id. If a fact changed, use memory_store with "
        "supersedes instead. undo restores what was deleted within 30 days.",
        object_of(
            "ids",
            ids=strings(minItems=1),
            undo=boolean(),
        ),
        memory_delete,
        output=_ANY_OBJECT,
        writes=True,
        destroys=True,
    ),
)
