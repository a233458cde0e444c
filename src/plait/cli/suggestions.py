"""Suggest the closest known name when a name is unknown.

Names are stored content. Only the command line suggests them, because only the owner reads it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from plait.cli import to_run
from plait.errors import Notice, PlaitError, StoreDamaged, advise, shell_word
from plait.facts.names import TOO_SHORT, unknown_entity
from plait.memory import Memory
from plait.present.text import on_a_line
from plait.searching import where
from plait.searching.links import aliases_of
from plait.searching.where import Where
from plait.settings.schema import closest, did_you_mean
from plait.types import Document, Kind
from plait.types.ids import ID_PREFIX

UNKNOWN_ENTITY = "unknown_entity"
UNKNOWN_NAME = "unknown_name"
# Only the newest names are compared: an answer to a typing error must not take seconds.
NAMES_COMPARED = 20_000
NAMES_OFFERED = 3
NEARLY_EQUAL = 0.8  # share of letters in common
# Values are short: of four letters, two may be swapped.
SIMILAR_VALUE = 0.7


def with_suggestion(memory: Memory, error: PlaitError) -> Notice:
    """Return the error's notice; if it refuses an unknown name, suggest a similar one."""
    notice = error.notice
    if memory.is_off:
        return notice
    if notice.code == UNKNOWN_ENTITY:
        return _with_entity(memory, notice)
    if notice.code == UNKNOWN_NAME:
        return _with_document(memory, notice)
    return notice


# Options whose values are stored content, and where a document has them.
_STORED: dict[str, tuple[str, Callable[[Document], Iterable[str | None]]]] = {
    "tags": ("--tag", lambda row: row.tags),
    "types": ("--type", lambda row: (row.type,)),
    "topics": ("--topic", lambda row: (row.topic,)),
    "entity": ("--entity", lambda row: (row.key,) if row.kind == "entity" else ()),
}


def similar_values(
    memory: Memory, wanted: Mapping[str, Sequence[str]], *, all_projects: bool
) -> str:
    """Return a question for filters with a value that no document has, or nothing."""
    asked = {field: values for field in _STORED if (values := wanted.get(field))}
    if not asked:
        return ""
    # A search may want what was valid once: replaced facts have types and topics, too.
    rows = _newest(memory, {"all_versions": True}, all_projects=all_projects)
    meant = []
    for field, values in asked.items():
        option, values_of = _STORED[field]
        known = {value for row in rows for value in values_of(row) if value}
        for value in values:
            if value in known:
                continue
            same = _ignoring_case(value, sorted(known))
            similar = same[0] if same else closest(value, sorted(known), SIMILAR_VALUE)
            if similar is not None:
                meant.append(f"{option} {shell_word(similar, 'NAME')}")
    return f" Did you mean {' '.join(meant)}?" if meant else ""


def missing_entity(memory: Memory, name: str) -> Notice:
    """Say that no entity has this name, and suggest a similar one."""
    return with_suggestion(memory, unknown_entity(name, advise("list_entities")))


def same_but_for_case(memory: Memory, name: str) -> str | None:
    """Return an existing entity whose name differs from a new one only in upper and lower case."""
    if memory.is_off:
        return None
    if _newest(memory, {"kinds": ("entity",), "keys": (name,)}):
        return None
    return next(iter(_ignoring_case(name, _keys(memory, ("entity",)))), None)


def similar_entity(name: str, other: str) -> str:
    """Say that an entity was created although one of almost the same name exists."""
    return f"created a new entity '{on_a_line(name)}'; there is also '{on_a_line(other)}'"


def _with_entity(memory: Memory, notice: Notice) -> Notice:
    names = _keys(memory, ("entity",))
    same = _ignoring_case(notice.subject, names)
    close = (same or _with_words(notice.subject, names))[:NAMES_OFFERED]
    hint = (
        f" Did you mean {' or '.join(map(repr, close))}?"
        if close
        else did_you_mean(notice.subject, names)
    )
    return notice._replace(text=f"{notice.text}{hint}")


def _with_words(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that have all words of another one.

    >>> _with_words("marek", ["Marek Novák", "Marekville"])
    ['Marek Novák']
    """
    words = set(name.casefold().split())
    return [other for other in names if words and words <= set(other.casefold().split())]


def _with_document(memory: Memory, notice: Notice) -> Notice:
    name = notice.subject
    keys = _keys(memory, ("file", "note"))
    in_folder = f"/{name.casefold()}"
    close = _ignoring_case(name, keys) or [
        key for key in keys if key.casefold().endswith(in_folder)
    ]
    if close:
        offered = sorted(close, key=len)[:NAMES_OFFERED]
        hint = f" Did you mean {' or '.join(map(on_a_line, offered))}?"
    elif memory.conversation(name, last=1):
        word = shell_word(name, "NAME")
        read, delete = (to_run(f"plait {verb} {word}") for verb in ("get", "delete --session"))
        hint = f" A session is. To read it: {read} (to delete it: {delete})"
    elif notice.advice is not None and notice.advice.act == "did_you_mean":
        return notice  # an alias or the name of a file, which reads it and does nothing else
    else:
        aliases = _aliases(memory)
        same = [key for alias, key in aliases if alias.casefold() == name.casefold()]
        hint = f" Did you mean {' or '.join(map(repr, same[:NAMES_OFFERED]))}?" if same else ""
        hint = hint or did_you_mean(name, [*keys, *(alias for alias, _ in aliases)], NEARLY_EQUAL)
        hint = hint or _similar_file(name, keys)
    if not hint:
        return _with_deleted(memory, notice)
    return notice._replace(text=f"Nothing is named '{name}'.{hint}", advice=None)


def _similar_file(name: str, keys: Sequence[str]) -> str:
    """Return a question for the files whose name without folders is similar, or nothing.

    >>> _similar_file("boilr.md", ["house/boiler.md"]), _similar_file("boilr", ["house/boiler.md"])
    (' Did you mean house/boiler.md?', ' Did you mean house/boiler.md?')
    """
    files: dict[str, list[str]] = {}
    for key in keys:
        file = key.rpartition("/")[2]
        for short in {file, file.rpartition(".")[0] or file}:
            files.setdefault(short, []).append(key)
    similar = closest(name, sorted(files), NEARLY_EQUAL)
    offered = files.get(similar or "", [])[:NAMES_OFFERED]
    return f" Did you mean {' or '.join(map(on_a_line, offered))}?" if offered else ""


def _with_deleted(memory: Memory, notice: Notice) -> Notice:
    """Return the notice; if the name was that of a deleted document, say how to restore it."""
    name = notice.subject
    if len(name) < ID_PREFIX and _begins_an_id(memory, name):
        return notice._replace(text=f"Nothing is named '{name}'{TOO_SHORT}.")
    if not memory.stats().trash_count:
        return notice
    try:
        trash = memory.engine.trashed(texts=False)
    except StoreDamaged:
        return notice  # `doctor` tells it
    here = (memory.config.project, None)
    rows = [row.document for row in trash if not row.version_of and row.document.project in here]
    if not any(name == row.key or _is_id(name, row) for row in rows):
        return notice
    undo = to_run(f"plait delete --undo {shell_word(name, 'NAME')}")
    text = f"'{name}' was deleted. To restore it: {undo}"
    return notice._replace(text=text, advice=None)


def _begins_an_id(memory: Memory, name: str) -> bool:
    return bool(name) and any(row.id.startswith(name.lower()) for row in _newest(memory, {}))


def _is_id(name: str, document: Document) -> bool:
    return len(name) >= ID_PREFIX and document.id.startswith(name.lower())


def _ignoring_case(name: str, names: Sequence[str]) -> list[str]:
    return [other for other in names if other.casefold() == name.casefold()]


def _aliases(memory: Memory) -> list[tuple[str, str]]:
    """Return the aliases of notes, each with the name of its note."""
    rows = _newest(memory, {"kinds": ("file", "note")})
    return [(name.strip(), row.doc_id) for row in rows for name in aliases_of(row)]


def _keys(memory: Memory, kinds: tuple[Kind, ...]) -> list[str]:
    return [row.key for row in _newest(memory, {"kinds": kinds}) if row.key]


def _newest(memory: Memory, wanted: Where, *, all_projects: bool = False) -> list[Document]:
    """Return documents to compare with; one that cannot be read must not stop the answer."""
    here = where.to_filter(wanted, memory.config.project, all_projects=all_projects)
    return memory.engine.scan(here, limit=NAMES_COMPARED, damaged=[])
