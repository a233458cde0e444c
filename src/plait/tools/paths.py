"""Which paths a model may name in its folder: plain names below ``/memories``, and nothing else.

What is refused here never reaches the disk. A name must mean the same file on every system, so
that a folder can be copied: Windows has device names, ignores dots and spaces at the end and reads
a colon as a stream; macOS and Windows take two cases for one name.
"""

from plait.errors import UsageError, flattened

ROOT = "/memories"
MAX_NAME_BYTES = 200  # most systems allow 255; a suffix must fit behind it
MAX_FOLDERS = 12
MAX_PATH_CHARS = 1_000
PATH_CHARS_SHOWN = 100
# What shells, Windows or URLs read as something else than a letter.
_SIGNS = frozenset('\\:*?"<>|')
_ENCODED = ("%2e", "%2f", "%5c", "%00", "%25")
_DEVICES = frozenset(
    [
        *("con", "prn", "aux", "nul", "conin$", "conout$", "clock$"),
        *(f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"),
    ]
)


def parts_of(path: object) -> tuple[str, ...]:
    """Return the names of a path below the root; none for the root itself.

    >>> parts_of("/memories/ops/keys.md"), parts_of("/memories/")
    (('ops', 'keys.md'), ())

    Raises:
        UsageError: The path is not allowed; the code is "bad_path".
    """
    if not isinstance(path, str) or not (path == ROOT or path.startswith(f"{ROOT}/")):
        raise UsageError(
            f"Path must start with {ROOT}, got: {shown_path(path)}", code="bad_path", subject="path"
        )
    if len(path) > MAX_PATH_CHARS:
        raise _refused(path, f"it has more than {MAX_PATH_CHARS:,} characters")
    names = path[len(ROOT) :].removesuffix("/").split("/")[1:]
    if len(names) > MAX_FOLDERS:
        raise _refused(path, f"it is more than {MAX_FOLDERS} folders deep")
    for name in names:
        if why := _problem(name):
            raise _refused(path, why)
    return tuple(names)


def is_plain(name: str) -> bool:
    """Tell whether a model may name a file so."""
    return not _problem(name)


def shown_path(path: object) -> str:
    """Return a path as part of a message: on one line, and short."""
    text = flattened(str(path))
    return text if len(text) <= PATH_CHARS_SHOWN else f"{text[: PATH_CHARS_SHOWN - 1]}…"


def folded(name: str) -> str:
    """Return what all names have in common that some system takes for the same file."""
    from unicodedata import normalize

    return normalize("NFKC", name).casefold()


def _refused(path: str, why: str) -> UsageError:
    return UsageError(
        f"Path {shown_path(path)} is not allowed: {why}. Use plain names below {ROOT}, like "
        f"{ROOT}/notes.md.",
        code="bad_path",
        subject="path",
    )


def _problem(name: str) -> str:
    """Return why a name is not allowed; nothing if it is."""
    if not name:
        return "a name in it is empty"
    if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
        return f"a name in it has more than {MAX_NAME_BYTES} bytes"
    if not name.isprintable():
        return "it has characters that cannot be seen"
    plain = folded(name)
    if set(plain) <= {"."} or "/" in plain or any(code in plain for code in _ENCODED):
        return f"it would escape {ROOT}"
    if plain.startswith((".", "~", "-", " ")):
        return "hidden names, and names that begin with ~, - or a space, are not used here"
    if plain.endswith((".", " ")):
        return "a name in it ends with a dot or a space"
    if _SIGNS & set(plain):
        return f"names have none of {' '.join(sorted(_SIGNS))}"
    if plain.partition(".")[0].rstrip() in _DEVICES:
        return "it names a device"
    return ""
