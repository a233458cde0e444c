"""Anthropic's memory tool: six commands over a folder of files, whose text can be searched.

The answers are those of Anthropic's own implementation, so that a model meets what it was trained
with. What is different: no link is followed, names are plain, and every write is indexed at once.
https://docs.claude.com/en/docs/agents-and-tools/tool-use/memory-tool
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plait.errors import NotFound, PlaitError, UsageError
from plait.facts.credentials import refuse_secrets, secret_kinds
from plait.tools.arguments import check_arguments
from plait.tools.calling import ToolResult
from plait.tools.folders import MAX_FOLDER_ENTRIES, NOT_FOR_MODELS, ConfinedFolder
from plait.tools.paths import parts_of, shown_path
from plait.tools.schemas import Schema, array_of, integer, object_of, string
from plait.tools.wording import FOR_MODELS, worded
from plait.types import TRUSTS, Document, Filter
from plait.types.audit import acting
from plait.types.ids import SCOPE_PREFIX, is_address
from plait.types.reports import FileReport

if TYPE_CHECKING:
    from plait.memory import Memory

MAX_FILE_BYTES = 1_000_000
# What is shown of a file at once: about 25,000 tokens.
MAX_SHOWN_CHARS = 100_000
LISTED_DEPTH = 2
NUMBER_WIDTH = 6
SNIPPET_LINES = 2
# How much of a text that did not match, and how many of its places, a refusal repeats.
REPEATED_CHARS = 200
REPEATED_LINES = 50
# Another process may change a file between reading and writing; then the edit begins again.
EDITS_TRIED = 5

_WORDING = {
    **FOR_MODELS,
    "insist_on_secret": "Write it without the secret, and say where the secret is kept.",
}
_NOT_INDEXED = "It cannot be searched yet: somebody has changed the folder meanwhile."
_READ = ("added", "changed", "moved")
_COMMANDS: dict[str, Schema] = {
    "view": object_of("path", path=string(), view_range=array_of({"type": "integer"})),
    "create": object_of("path", "file_text", path=string(), file_text=string()),
    "str_replace": object_of("path", "old_str", path=string(), old_str=string(), new_str=string()),
    "insert": object_of(
        *("path", "insert_line", "insert_text"),
        path=string(),
        insert_line=integer(),
        insert_text=string(),
    ),
    "delete": object_of("path", path=string()),
    "rename": object_of("old_path", "new_path", old_path=string(), new_path=string()),
}


class MemoryTool:
    """The tool ``memory`` of Anthropic's API, over a folder of yours that `memory` searches.

    Give the model `definition` among its tools, and `run` what it calls. The methods are the
    commands; they raise what `run` turns into an answer.
    """

    definition: Mapping[str, str] = {"type": "memory_20250818", "name": "memory"}

    def __init__(
        self, memory: "Memory", folder: str | os.PathLike[str], *, allow_secret: bool = False
    ) -> None:
        """Take an open memory and a folder, which is made if it is missing.

        Args:
            memory: Where the files are indexed.
            folder: What the model sees as ``/memories``. Everything in it is the model's to
                read, change and delete.
            allow_secret: Let the model write private keys, tokens and passwords.

        Raises:
            UsageError: The memory's own file is in the folder, or the folder is a file.
        """
        self._memory = memory
        self._folder = ConfinedFolder(os.fspath(folder))
        self._allow_secret = allow_secret
        in_file = memory.path != ":memory:" and not is_address(memory.path)
        if in_file and Path(os.path.realpath(memory.path)).is_relative_to(self._folder.root):
            raise UsageError(
                f"The memory {memory.path} is inside of {self._folder.root}, where a model could "
                "delete it. Use another folder.",
                code="memory_in_folder",
                subject="folder",
            )

    def run(self, args: object) -> ToolResult:
        """Execute what a model called, and return the answer; nothing that it sends raises."""
        try:
            return ToolResult(self._run(args))
        except PlaitError as error:
            return ToolResult(worded(error, self._memory.config, _WORDING), is_error=True)
        except OSError as error:
            return ToolResult(f"The file system refused it: {error.strerror}.", is_error=True)

    def _run(self, args: object) -> str:
        fields = dict(args) if isinstance(args, Mapping) else {}
        name = fields.pop("command", None)
        if not isinstance(name, str) or name not in _COMMANDS:
            commands = ", ".join(_COMMANDS)
            raise UsageError(
                f"Unknown command: {shown_path(name)}. Use one of: {commands}.", code="bad_argument"
            )
        values = check_arguments(f"memory {name}", _COMMANDS[name], fields, strict=False)
        command: Callable[..., str] = getattr(self, name)
        return command(**values)

    # -- the commands ----------------------------------------------------------------------

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return what is in a folder, or a file with its lines numbered.

        Raises:
            NotFound: There is no such path.
            UsageError: The path is not allowed, or it is no text.
        """
        parts = parts_of(path)
        try:
            data = self._folder.read(parts, MAX_FILE_BYTES)
            if data is None:
                return self._listing(path.rstrip("/"), parts)
        except NotFound as error:
            raise _no_such(path, ". Please provide a valid path.") from error
        lines = _decoded(data, path).split("\n")
        first, last = 1, len(lines)
        if view_range:
            if len(view_range) != 2 or view_range[1] < -1:
                raise UsageError(
                    "view_range must be two line numbers, the second one -1 for the end.",
                    code="bad_argument",
                )
            first = max(1, view_range[0])
            last = last if view_range[1] == -1 else view_range[1]
        numbered = _numbered(lines[first - 1 : last], first)
        return f"Here's the content of {path} with line numbers:\n{numbered}"

    def _listing(self, path: str, parts: Sequence[str]) -> str:
        size, rows = self._folder.listing(parts, LISTED_DEPTH)
        lines = [
            f"Here're the files and directories up to {LISTED_DEPTH} levels deep in {path}, "
            "excluding hidden items:",
            f"{_shown_size(size)}\t{path}",
            *(f"{_shown_size(row.size)}\t{path}/{row.path}" for row in rows),
        ]
        if len(rows) >= MAX_FOLDER_ENTRIES:
            lines.append(f"Only the first {MAX_FOLDER_ENTRIES:,} are shown: view a folder of it.")
        return "\n".join(lines)

    def create(self, path: str, file_text: str) -> str:
        """Write a new file.

        Raises:
            UsageError: It exists, the path is not allowed, or the text is too long or a secret.
        """
        parts = _file_parts(path)
        self._folder.create(parts, self._encoded(file_text, file_text))
        return f"File created successfully at: {path}{self._indexed(parts)}"

    def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace a text that occurs once in a file.

        Raises:
            NotFound: There is no such file.
            UsageError: The text occurs never or several times, or the path is not allowed.
        """
        if not old_str:
            raise UsageError("old_str is empty. Give the text to replace.", code="bad_argument")

        def replaced(content: str) -> str:
            count = content.count(old_str)
            if count == 0:
                raise UsageError(
                    f"No replacement was performed, old_str `{_cut(old_str)}` did not appear "
                    f"verbatim in {path}.",
                    code="no_match",
                )
            if count > 1:
                lines = ", ".join(map(str, islice(_lines_of(content, old_str), REPEATED_LINES)))
                raise UsageError(
                    f"No replacement was performed. Multiple occurrences of old_str "
                    f"`{_cut(old_str)}` in lines: {lines}. Please ensure it is unique",
                    code="several_matches",
                )
            return content.replace(old_str, new_str)

        before, after, note = self._edit(path, replaced, new_str)
        changed = before[: before.index(old_str)].count("\n")
        first = max(0, changed - SNIPPET_LINES)
        snippet = after.split("\n")[first : changed + SNIPPET_LINES + 1]
        return (
            "The memory file has been edited. Here is the snippet showing the change (with line "
            f"numbers):\n{_numbered(snippet, first + 1)}{note}"
        )

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert a text below a line of a file; 0 is above the first one.

        Raises:
            NotFound: There is no such file.
            UsageError: There is no such line, or the path is not allowed.
        """

        def inserted(content: str) -> str:
            lines = content.split("\n")
            if lines[-1] == "":
                lines.pop()
            if not 0 <= insert_line <= len(lines):
                raise UsageError(
                    f"Invalid `insert_line` parameter: {insert_line}. It should be within the "
                    f"range [0, {len(lines)}].",
                    code="bad_argument",
                )
            lines.insert(insert_line, insert_text.rstrip("\n"))
            text = "\n".join(lines)
            return text if text.endswith("\n") else f"{text}\n"

        _, _, note = self._edit(path, inserted, insert_text)
        return f"The file {path} has been edited.{note}"

    def delete(self, path: str) -> str:
        """Delete a file, or a folder with all that is in it.

        Raises:
            NotFound: There is no such path.
            UsageError: It is the root, or not allowed.
        """
        self._check_writable()
        parts = parts_of(path)
        try:
            self._folder.delete(parts)
        except NotFound as error:
            raise _no_such(path) from error
        except OSError:
            self._indexed((), gone=parts)  # some files of a folder may be gone
            raise
        return f"Successfully deleted {path}{self._indexed((), gone=parts)}"

    def rename(self, old_path: str, new_path: str) -> str:
        """Rename or move a file or folder.

        Raises:
            NotFound: There is no such path.
            UsageError: The new one exists, or one of the two is not allowed.
        """
        self._check_writable()
        old, new = parts_of(old_path), parts_of(new_path)
        try:
            self._folder.rename(old, new)
        except NotFound as error:
            raise _no_such(old_path) from error
        except (UsageError, FileExistsError) as error:
            if isinstance(error, UsageError) and error.notice.code != "path_taken":
                raise
            raise UsageError(
                f"The destination {new_path} already exists", code="path_taken"
            ) from error
        return f"Successfully renamed {old_path} to {new_path}{self._indexed((), gone=old)}"

    # -- files -----------------------------------------------------------------------------

    def _edit(self, path: str, change: Callable[[str], str], added: str) -> tuple[str, str, str]:
        """Return the text of a file before and after a change, and what to tell about the index."""
        parts = _file_parts(path)
        for _ in range(EDITS_TRIED):
            try:
                data = self._folder.read(parts, MAX_FILE_BYTES)
            except NotFound as error:
                raise _no_such(path, ". Please provide a valid path.") from error
            if data is None:
                raise UsageError(f"The path {path} is not a file.", code="bad_path")
            before = _decoded(data, path)
            after = change(before)
            if self._folder.replace(parts, data, self._encoded(after, added, before)):
                return before, after, self._indexed(parts)
        raise UsageError(f"{path} is being changed by somebody else. Try again.", code="path_busy")

    def _encoded(self, text: str, added: str, before: str = "") -> bytes:
        """Return the new text of a file as bytes; ``added`` is the part that the model wrote.

        Raises:
            UsageError: It is too long or no text, or what was added makes a secret, an answer of
                plait or a copy of untrusted text, by itself or with what was there ``before``.
            StoreReadOnly: The memory is read-only.
        """
        self._check_writable()
        try:
            data = text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise UsageError("The text holds half a character.", code="bad_argument") from error
        if len(data) > MAX_FILE_BYTES:
            raise UsageError(
                f"The file would have {len(data):,} bytes; at most {MAX_FILE_BYTES:,} are allowed. "
                "Write several files.",
                code="too_large",
            )
        old, new = _touched(before, text)
        if not self._allow_secret:
            made = [*secret_kinds(added)]
            for earlier, later in ((old, new), (before, text)):
                made += set(secret_kinds(later)) - set(secret_kinds(earlier))
            refuse_secrets(tuple(dict.fromkeys(made)))
        # Whole lines: a single word is in many texts.
        refusal = self._copied(new)
        if refusal is not None and self._copied(old) is not None:
            refusal = self._copied(added)
        if refusal is not None:
            raise refusal
        return data

    def _copied(self, text: str) -> UsageError | None:
        """Return why not to write what would be trusted in a file, and is not where it is from."""
        from plait.writing.echoes import storable

        try:
            store = self._memory._required()
        except NotFound:  # nothing is stored yet, so that nothing can be a copy
            return None
        own = storable(store, Document(text=text, origin="agent"))
        if own.shortened:
            return UsageError(
                "Not written: a part of it is an answer out of memory. Write only what is new.",
                code="recalled_text",
            )
        if own.document.trust != "trusted":
            return UsageError(
                "Not written: it repeats untrusted text word for word. Say in your own words what "
                "matters, and where it is from.",
                code="untrusted_copy",
            )
        return None

    def _check_writable(self) -> None:
        settings = self._memory.config.settings
        if settings.read_only:
            from plait.stores import refuse_to_write

            refuse_to_write(self._folder.root)

    def _indexed(self, parts: Sequence[str], gone: Sequence[str] = ()) -> str:
        """Index a file, or all of them; return what to tell the model if that failed.

        ``gone``: the name of what was deleted or renamed.
        """
        # Alone, a new file would be named by its own folder, not by the one of the tool.
        if len(parts) > 1 and not self._is_named(parts):
            parts = ()
        path = str(Path(self._folder.root, *parts))
        whole: dict[str, Any] = {}
        if not parts:
            whole = {"patterns": ("*",), "incremental": True, "allow_removal": True}
        elif os.path.realpath(path) != path:  # somebody has put a link there since it was written
            return f" {_NOT_INDEXED}"
        try:
            with acting(door="tools"):
                report = self._memory.ingest(path, **whole)
                if gone:
                    self._forget(gone)
                read = [one for one in report.reports if one.outcome in _READ]
                return "" if all([self._is_own(one) for one in read]) else f" {_NOT_INDEXED}"
        except PlaitError as error:
            return f" It cannot be searched yet: {worded(error, self._memory.config, _WORDING)}"

    def _is_named(self, parts: Sequence[str]) -> bool:
        """Tell whether a file is indexed by its path below the folder."""
        try:
            store = self._memory._required()
        except NotFound:
            return False
        where = Filter(source=self._folder.root, keys=("/".join(parts),), trusts=TRUSTS)
        return bool(store.scan(where, limit=1, damaged=[]))

    def _forget(self, parts: Sequence[str]) -> None:
        """Delete what is left of files that are gone: somebody may have ingested a folder of it."""
        path = Path(self._folder.root, *parts)
        where = Filter(path_prefix=str(path), kinds=("file",), trusts=TRUSTS)
        for row in self._memory._required().scan(where, damaged=[]):
            place = Path(row.path or "")
            of_user = (row.project or "").startswith(SCOPE_PREFIX)
            if of_user and row.project != self._memory.config.project:
                continue  # theirs to forget
            if place.is_relative_to(path) and not os.path.lexists(place):
                self._memory.delete(row.id, all_projects=True)

    def _is_own(self, row: FileReport) -> bool:
        """Tell whether what was indexed is a file of the folder; forget what is not.

        `ingest` reads by paths, and while it did, a folder may have been swapped for a link.
        """
        from hashlib import sha256

        place = Path(row.path)
        inside = place.is_relative_to(self._folder.root)
        data = None
        try:
            if inside:
                names = place.relative_to(self._folder.root).parts
                data = self._folder.read(names, MAX_FILE_BYTES)
        except NotFound:
            pass
        except UsageError as error:
            if error.notice.code in NOT_FOR_MODELS:
                return True  # a file of the user's, in the folder
        where = Filter(path_prefix=row.path, kinds=("file",))
        known = [one for one in self._memory._required().scan(where) if one.path == row.path]
        own = data is not None and all(one.sha256 == sha256(data).hexdigest() for one in known)
        # What was known outside of the folder is not the model's to forget.
        if not own and (inside or row.outcome == "added"):
            for one in known:
                self._memory.delete(one.id, purge=True)
        return own


def _file_parts(path: str) -> tuple[str, ...]:
    parts = parts_of(path)
    if not parts or path.endswith("/"):
        raise UsageError(f"The path {shown_path(path)} is not a file.", code="bad_path")
    return parts


def _no_such(path: str, rest: str = "") -> NotFound:
    shown = shown_path(path)
    return NotFound(f"The path {shown} does not exist{rest}", code="no_such_path", subject=shown)


def _decoded(data: bytes, path: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"Unsupported file type for {path}", code="bad_path") from error


def _numbered(lines: Sequence[str], first: int) -> str:
    text = "\n".join(
        f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, start=first)
    )
    if len(text) <= MAX_SHOWN_CHARS:
        return text
    return (
        f"{text[:MAX_SHOWN_CHARS]}…\nCut after {MAX_SHOWN_CHARS:,} characters: give a view_range."
    )


def _touched(before: str, after: str) -> tuple[str, str]:
    r"""Return the lines that an edit has changed, as they were and as they are.

    >>> _touched("one\ntwo\nthree", "one\n2\n2.5\nthree")
    ('two', '2\n2.5')
    """
    old, new = before.split("\n"), after.split("\n")
    most = min(len(old), len(new))
    first = next((at for at in range(most) if old[at] != new[at]), most)
    last = next((at for at in range(most - first) if old[-1 - at] != new[-1 - at]), most - first)
    return "\n".join(old[first : len(old) - last]), "\n".join(new[first : len(new) - last])


def _lines_of(content: str, part: str) -> Iterator[int]:
    line, place = 1, 0
    while (start := content.find(part, place)) >= 0:
        line += content.count("\n", place, start)
        yield line
        # Occurrences may overlap; a line break at the start is counted before the next search.
        line += content.count("\n", start, start + 1)
        place = start + 1


def _cut(text: str) -> str:
    return text if len(text) <= REPEATED_CHARS else f"{text[: REPEATED_CHARS - 1]}…"


def _shown_size(count: int) -> str:
    """Return a size as the reference implementation shows it.

    >>> [_shown_size(count) for count in (0, 100, 1536, 4096, 5 * 1024**3)]
    ['0B', '100B', '1.5K', '4K', '5G']
    """
    units = "BKMG"
    power = min(max(0, count.bit_length() - 1) // 10, len(units) - 1)
    size = count / 1024**power
    return f"{int(size)}{units[power]}" if size == int(size) else f"{size:.1f}{units[power]}"
