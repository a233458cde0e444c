"""Fill an empty memory from the snapshot that belongs to it."""

from plait.errors import Notice, PlaitError
from plait.exporting.folder import is_owned, snapshot_near
from plait.memory.maintenance import MaintainedMemory


def fill_from_snapshot(memory: MaintainedMemory) -> None:
    """Fill an empty memory from the snapshot that belongs to it, and say so.

    A snapshot in the folder that the user's own settings name is his. Another one lies there by
    itself, in a clone perhaps: it is not trusted, and reaches no scope.
    """
    settings = memory.config.settings
    if settings.read_only:
        return
    folder = snapshot_near(memory.path, settings.memory_dir)
    if folder is None:
        return
    is_named = folder == settings.memory_dir and memory.config.is_own("memory_dir")
    if not is_named and not is_owned(folder):
        text = f"The memory was not filled: {folder} belongs to another user of this machine."
        memory.opening_notices.append(Notice(text, "foreign_snapshot", folder))
        return
    try:
        trust = "trusted" if is_named else "untrusted"
        done = memory.import_from(folder, trust=trust, scopes=is_named)
    except PlaitError as error:
        memory.opening_notices.append(
            error.notice._replace(text=f"The memory was not filled: {error.notice.text}")
        )
        return
    count = f"{done.added:,} document{'s' * (done.added != 1)}"
    text = f"Filled the empty memory with {count} from {folder}."
    if not is_named:
        text += " They are untrusted: your settings do not name that folder as memory_dir."
    memory.opening_notices.append(Notice(text, "hydrated", folder))
