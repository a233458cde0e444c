"""Decide what connecting or disconnecting an agent changes, file by file; nothing is written here.

A record says what was made only for plait, because the text alone cannot: an object that the user
left empty stays when plait goes, one that plait made goes too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from plait.agents.connecting import jsonc, toml, yaml
from plait.agents.connecting.jsonc import NotEditable
from plait.agents.connecting.looking import (
    ReadFile,
    entry_in,
    handlers_of,
    is_own_file,
    is_own_hook,
    is_present,
    runs_plait,
    text_of,
    users_of,
    with_own_pieces,
    words_of,
)
from plait.agents.connecting.places import (
    Agent,
    AgentScope,
    FileForm,
    Hooks,
    Launch,
    Machine,
    OwnFile,
    Piece,
    ServerEntry,
)
from plait.errors import ConfigError
from plait.types.records import NamedTuple

EMPTY_OBJECT = "{\n}\n"
FORM_NAMES: dict[FileForm, str] = {
    "json": "JSON",
    "json5": "JSON5",
    "toml": "TOML",
    "yaml": "YAML",
}


class FileRecord(NamedTuple):
    """What was made only for plait in a file, and the folders that were made for it.

    ``blank`` is what the file held before if that was nothing to read: ``None`` for no file.
    """

    is_new: bool = False
    blank: str | None = None
    made: tuple[tuple[str, ...], ...] = ()
    folders: tuple[str, ...] = ()


Records = Mapping[str, FileRecord]


class FileChange(NamedTuple):
    """A file as it is and as it should be; ``None`` is no file."""

    path: str
    before: bytes | None
    after: bytes | None
    record: FileRecord


class WantedConnection(NamedTuple):
    """What a connection should have; hooks for the work are those before and after tools."""

    launch: Launch
    hooks: bool = True
    work: bool = True


# -- planning --------------------------------------------------------------------------------


def plan_connect(
    agent: Agent,
    machine: Machine,
    scope: AgentScope,
    wanted: WantedConnection,
    read: ReadFile,
    records: Records,
) -> list[FileChange]:
    """Return the changes that connect an agent.

    Raises:
        ConfigError: A file cannot be read as what it should be, or has a foreign entry of the name.
    """
    pieces = _pieces(agent, machine, scope)
    # What was made for plait counts only while plait is there: the user may have written it anew.
    in_use = {piece.path for piece in pieces if is_present(piece, agent.name, read)}
    drafts = _Drafts(read, {path: row for path, row in records.items() if path in in_use})
    for piece in pieces:
        if isinstance(piece, ServerEntry):
            edit = _set_entry(piece, wanted.launch, is_foreign=scope == "project")
            drafts.edit(piece.path, piece.form, edit)
        elif isinstance(piece, Hooks):
            groups = piece.groups(wanted.launch, wanted.work) if wanted.hooks else {}
            drafts.edit(piece.path, "json", _set_hooks(piece, agent.name, groups))
        elif piece.part == "skill" or wanted.hooks:
            drafts.write(piece, piece.content(wanted.launch, wanted.work))
        else:
            drafts.delete(piece)
    drafts.clean(leaves=not wanted.hooks)
    return drafts.changes()


def plan_disconnect(
    agent: Agent, machine: Machine, scope: AgentScope, read: ReadFile, records: Records
) -> list[FileChange]:
    """Return the changes that disconnect an agent; what other agents still use stays.

    Raises:
        ConfigError: A file cannot be read as what it should be.
    """
    drafts = _Drafts(read, records)
    used = _used_by_others(agent, machine, scope, read)
    for piece in _pieces(agent, machine, scope):
        if piece.path in used:
            continue
        if isinstance(piece, ServerEntry):
            drafts.edit(piece.path, piece.form, _remove_entry(piece))
        elif isinstance(piece, Hooks):
            drafts.edit(piece.path, "json", _set_hooks(piece, agent.name, {}))
        else:
            drafts.delete(piece)
    drafts.clean(leaves=True)
    return [change._replace(record=FileRecord()) for change in drafts.changes()]


def _pieces(agent: Agent, machine: Machine, scope: AgentScope) -> list[Piece]:
    pieces = agent.pieces(machine, scope)
    if scope not in machine.scopes:
        raise ConfigError(
            f"{machine.project} is your home folder and no project. Go to the folder of one.",
            code="no_project_here",
            subject=machine.project,
        )
    if not pieces:
        raise ConfigError(
            f"{agent.title} has no settings of a project. Leave out --scope project.",
            code="no_project_scope",
            subject=agent.name,
        )
    return pieces


def _used_by_others(agent: Agent, machine: Machine, scope: AgentScope, read: ReadFile) -> set[str]:
    """Return the files that other connected agents share with this one.

    Another agent counts as connected if something is there that is its alone.
    """
    connected = with_own_pieces(machine, scope, read) - {agent.name}
    return {path for path, names in users_of(machine, scope).items() if names & connected}


Edit = Callable[["_Draft"], None]


class _Draft:
    """A file's text while it is edited, and what was made only for plait."""

    def __init__(self, path: str, before: bytes | None, record: FileRecord) -> None:
        self.path = path
        self.before = before
        self.text = text_of(before)
        self.record = record

    def made(self, path: Sequence[str]) -> None:
        self.record = self.record._replace(made=(*self.record.made, tuple(path)))


class _Drafts:
    """The files of one connection: each is read once, whatever pieces are in it."""

    def __init__(self, read: ReadFile, records: Records) -> None:
        self._read = read
        self._records = records
        self._drafts: dict[str, _Draft] = {}
        self._forms: dict[str, FileForm] = {}
        self._whole: list[FileChange] = []

    def edit(self, path: str, form: FileForm, edit: Edit) -> None:
        """Edit a file that plait shares with its agent."""
        draft = self._drafts.get(path)
        try:
            if draft is None:
                before = self._read(path)
                draft = _Draft(path, before, self._records.get(path, FileRecord()))
                self._drafts[path] = draft
                self._forms[path] = form
            edit(draft)
        except NotEditable as error:
            raise ConfigError(
                f"Cannot edit {path} as {FORM_NAMES[form]} ({error}). Nothing was changed.",
                code="cannot_edit",
                subject=path,
            ) from error

    def write(self, piece: OwnFile, content: str) -> None:
        """Write a file that is plait's alone."""
        before = self._read(piece.path)
        if before is not None and not is_own_file(before):
            raise ConfigError(
                f"{piece.path} is there already, and plait did not write it. Nothing was changed.",
                code="foreign_file",
                subject=piece.path,
            )
        self._whole.append(FileChange(piece.path, before, content.encode(), FileRecord()))

    def delete(self, piece: OwnFile) -> None:
        """Delete a file if plait wrote it."""
        before = self._read(piece.path)
        if before is None:
            return
        if is_own_file(before):
            self._whole.append(FileChange(piece.path, before, None, FileRecord()))
        elif b" hook copilot " in before:  # left there, they would run on
            raise ConfigError(
                f"{piece.path} has hooks of plait and others. Take out plait's by hand. Nothing "
                "was changed.",
                code="foreign_file",
                subject=piece.path,
            )

    def clean(self, *, leaves: bool) -> None:
        """Remove what was made only for plait and is empty now; with ``leaves``, single values."""
        for path, draft in self._drafts.items():
            if self._forms[path] in ("json", "json5") and draft.text.strip():
                _remove_made(draft, json5=self._forms[path] == "json5", leaves=leaves)
            if draft.record.is_new and _is_empty(draft.text):
                draft.text = draft.record.blank or ""
                if draft.record.blank is not None:
                    draft.record = FileRecord()

    def changes(self) -> list[FileChange]:
        """Return what differs from what is there."""
        rows = list(self._whole)
        for path, draft in self._drafts.items():
            is_gone = draft.record.is_new and draft.record.blank is None and not draft.text
            if draft.before is None and not draft.text:
                continue
            after = None if is_gone else draft.text.encode()
            rows.append(FileChange(path, draft.before, after, draft.record))
        return [row for row in rows if row.before != row.after]


def _is_empty(text: str) -> bool:
    return "".join(text.split()) in ("", "{}")


def _begin(draft: _Draft) -> None:
    """Make an object of a file that is missing or blank."""
    if not draft.text.strip():
        blank = None if draft.before is None else draft.text
        draft.record = FileRecord(is_new=True, blank=blank)
        draft.text = EMPTY_OBJECT


def _remove_made(draft: _Draft, *, json5: bool, leaves: bool) -> None:
    kept: list[tuple[str, ...]] = []
    for path in reversed(draft.record.made):
        node = jsonc.find(jsonc.parse(draft.text, json5=json5), path)
        if node is None:
            continue
        if not isinstance(node.value, dict | list):
            is_done = leaves and not kept  # it goes with the last of what was made
        else:
            is_done = not node.value and _is_blank_inside(draft.text, node)
        if is_done:
            draft.text = jsonc.remove(draft.text, path, json5=json5)
        else:
            kept.append(path)
    draft.record = draft.record._replace(made=tuple(reversed(kept)))


def _is_blank_inside(text: str, node: jsonc.Located) -> bool:
    """Tell whether nothing is left in a container; a comment that the user wrote is something."""
    return not text[node.start + 1 : node.end - 1].strip()


# -- entries ---------------------------------------------------------------------------------


def _set_entry(piece: ServerEntry, launch: Launch, *, is_foreign: bool) -> Edit:
    """Add plait's entry, or renew it.

    With ``is_foreign`` an entry that is there may have come with a clone: its options and variables
    could lead to another memory, so nothing of it stays.
    """
    value = piece.value(launch)

    def edit(draft: _Draft) -> None:
        old = entry_in(piece, draft.text.encode())
        if old is None:
            _add_entry(piece, value, draft)
            return
        if not runs_plait(words_of(old)):
            raise ConfigError(
                f"{draft.path} has an entry '{piece.keys[-1]}' that plait did not write. Remove or "
                "rename it first; nothing was changed.",
                code="foreign_entry",
                subject=draft.path,
            )
        if is_foreign:
            if old != value:
                _replace_entry(piece, value, draft)
            return
        news = _renewed(old, value)
        changed = {key: item for key, item in news.items() if old.get(key) != item}
        if changed:
            _update_entry(piece, changed, old, draft)

    return edit


def _renewed(old: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    """Return the keys that plait writes; options that the user added behind ``mcp`` stay."""
    words = words_of(old)
    extra = words[words.index("mcp") + 1 :] if "mcp" in words else []
    renewed = {key: item for key, item in value.items() if key != "env" or "env" not in old}
    key = "command" if isinstance(value["command"], list) else "args"
    return {**renewed, key: [*value[key], *extra]}


def _add_entry(piece: ServerEntry, value: dict[str, Any], draft: _Draft) -> None:
    if piece.form == "toml":
        draft.record = _new_file(draft)
        draft.text = toml.add_table(draft.text, piece.keys, value)
    elif piece.form == "yaml":
        draft.record = _new_file(draft)
        draft.text, is_made = yaml.set_entry(draft.text, piece.keys, value)
        if is_made:
            draft.made(piece.keys[:1])
    else:
        _begin(draft)
        json5 = piece.form == "json5"
        draft.text, made = jsonc.add(draft.text, piece.keys, value, json5=json5)
        _note_made(draft, piece.keys[:-1], made)


def _new_file(draft: _Draft) -> FileRecord:
    return FileRecord(is_new=True) if draft.before is None else draft.record


def _note_made(draft: _Draft, containers: Sequence[str], first: list[str] | None) -> None:
    """FileRecord the containers that were made: the first one and those inside it."""
    if first is not None:
        for depth in range(len(first), len(containers) + 1):
            draft.made(containers[:depth])


def _update_entry(
    piece: ServerEntry, changed: Mapping[str, Any], old: Mapping[str, Any], draft: _Draft
) -> None:
    if piece.form == "toml":
        draft.text = toml.set_in_table(draft.text, piece.keys, changed)
    elif piece.form == "yaml":
        draft.text, _ = yaml.set_entry(draft.text, piece.keys, {**old, **changed})
    else:
        json5 = piece.form == "json5"
        for key, item in changed.items():
            path = (*piece.keys, key)
            if key in old:
                draft.text = jsonc.replace(draft.text, path, item, json5=json5)
            else:
                draft.text, _ = jsonc.add(draft.text, path, item, json5=json5)


def _replace_entry(piece: ServerEntry, value: dict[str, Any], draft: _Draft) -> None:
    if piece.form == "toml":
        draft.text = toml.remove_table(draft.text, piece.keys)
        draft.text = toml.add_table(draft.text, piece.keys, value)
    elif piece.form == "yaml":
        draft.text, _ = yaml.set_entry(draft.text, piece.keys, value)
    else:
        draft.text = jsonc.replace(draft.text, piece.keys, value, json5=piece.form == "json5")


def _remove_entry(piece: ServerEntry) -> Edit:
    def edit(draft: _Draft) -> None:
        if not runs_plait(words_of(entry_in(piece, draft.text.encode()))):
            return
        if piece.form == "toml":
            draft.text = toml.remove_table(draft.text, piece.keys)
        elif piece.form == "yaml":
            with_top = piece.keys[:1] in draft.record.made
            draft.text = yaml.remove_entry(draft.text, piece.keys, with_top=with_top)
        else:
            draft.text = jsonc.remove(draft.text, piece.keys, json5=piece.form == "json5")

    return edit


# -- hooks -----------------------------------------------------------------------------------


def _set_hooks(piece: Hooks, agent: str, groups: Mapping[str, dict[str, Any]]) -> Edit:
    """Make plait's hooks in a file exactly these; others stay where they are."""

    def edit(draft: _Draft) -> None:
        left = dict(groups)
        if not draft.text.strip() and not groups:
            return
        _begin(draft)
        while (step := _next_stale(draft.text, agent, left)) is not None:
            path, value = step
            if value is None:
                draft.text = jsonc.remove(draft.text, path)
            else:
                draft.text = jsonc.replace(draft.text, path, value)
        for event in reversed(left):  # each becomes the first
            _add_hook(draft, event, left[event])
        if groups and piece.version is not None and not _has(draft.text, "version"):
            draft.text, _ = jsonc.add(draft.text, ["version"], piece.version)
            # First, because it goes last: other hooks need it.
            made = (("version",), *draft.record.made)
            draft.record = draft.record._replace(made=made)

    return edit


StaleHook = tuple[list[str | int], dict[str, Any] | None]


def _next_stale(text: str, agent: str, left: dict[str, dict[str, Any]]) -> StaleHook | None:
    """Return the path of the next hook of ours to change, and its new value; ``None`` if none.

    Hooks that are as they should be are taken out of ``left``.
    """
    hooks = jsonc.find(jsonc.parse(text), ["hooks"])
    if hooks is None:
        return None
    if not isinstance(hooks.value, dict):
        raise NotEditable("'hooks' is no object")
    seen: set[str] = set()
    for event, groups in hooks.value.items():
        for at, group in enumerate(groups if isinstance(groups, list) else []):
            own = [row for row in handlers_of(group) if is_own_hook(row.get("command"), agent)]
            if not own:
                continue
            stale = _stale_in(group, own, left.get(event) if event not in seen else None)
            seen.add(event)
            if stale is not None:
                path, value = stale
                return ["hooks", event, at, *path], value
    for event in seen:
        left.pop(event, None)
    return None


def _stale_in(
    group: dict[str, Any], own: Sequence[dict[str, Any]], wanted: dict[str, Any] | None
) -> StaleHook | None:
    """Return what to change in a group with handlers of ours, as `_next_stale` does."""
    if own == group.get("hooks", [group]):  # nothing of others is in it
        return None if group == wanted else ([], wanted)
    [handler] = [None] if wanted is None else handlers_of(wanted)
    if own == [handler]:
        return None
    # The one that is right stays, and every other one of ours goes.
    others = [row for row in own if row != handler] or own[1:]
    return ["hooks", group["hooks"].index(others[0])], None if handler in own else handler


def _add_hook(draft: _Draft, event: str, group: dict[str, Any]) -> None:
    path = ["hooks", event]
    node = jsonc.find(jsonc.parse(draft.text), path)
    if node is None:
        draft.text, made = jsonc.add(draft.text, path, [group])
        _note_made(draft, path, made or path)
    else:
        draft.text = jsonc.add_element(draft.text, path, group)


def _has(text: str, name: str) -> bool:
    return jsonc.find(jsonc.parse(text), [name]) is not None
