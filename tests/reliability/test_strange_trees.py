"""Trees as they come: whatever lies there is read or left out with a reason, and nothing hangs."""

import codecs
import json
import os
import signal
import socket
import tempfile
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import SourceError
from plait.writing import refusals
from plait.writing.sources import MAX_SOURCE_BYTES, Skipped, SourceFile, hash_file, read_file, walk
from tests.codes import has_code

pytestmark = pytest.mark.skipif(os.name != "posix", reason="pipes, sockets and owners are POSIX")

HANG_SECONDS = 60  # far above what any case needs: a hang becomes a failure, not a stuck run
MEGABYTE = 1024 * 1024
NOBODY = 65534


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    def give_up(*_: object) -> None:
        pytest.fail("hung")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(HANG_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def outcomes(root: Path) -> dict[str, str]:
    """What became of each entry: its text's length as "read 12", or the reason why not."""
    ends: dict[str, str] = {}
    for entry in walk(root):
        assert entry.key not in ends, "an entry ended twice"
        if isinstance(entry, Skipped):
            ends[entry.key] = entry.reason
            continue
        try:
            ends[entry.key] = f"read {len(read_file(entry).text)}"
        except SourceError as error:
            ends[entry.key] = str(error)
    json.dumps(ends, ensure_ascii=False).encode()  # every word of it can be shown
    return ends


def make_socket(path: Path) -> None:
    # A socket's address is limited to about 100 bytes, so it is bound from its own folder.
    back = Path.cwd()
    os.chdir(path.parent)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(back)


def make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1024 * MEGABYTE)


def link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def holding(data: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data)


CASES: dict[str, tuple[Callable[[Path], object], str]] = {
    "plain.md": (holding(b"hello\n"), "read 6"),
    "empty.md": (holding(b""), "read 0"),
    "blank.md": (holding(b" \n\t\n"), "read 4"),
    "bom.md": (holding(codecs.BOM_UTF8 + b"hi"), "read 2"),
    "bom-only.md": (holding(codecs.BOM_UTF8), "read 0"),
    "utf16-le.md": (holding(codecs.BOM_UTF16_LE + "hé".encode("utf-16-le")), "read 2"),
    "utf16-be.md": (holding(codecs.BOM_UTF16_BE + "hé".encode("utf-16-be")), "read 2"),
    "utf16-no-bom.md": (holding("hello".encode("utf-16-le")), refusals.BINARY),
    "latin1.md": (holding("café".encode("latin-1")), "read 4"),
    "cut-short.md": (
        holding("日本".encode()[:-1]),
        "not UTF-8 text: byte 0xE6 at offset 3 (line 1); convert it to UTF-8",
    ),
    "binary.md": (holding(bytes(range(256))), refusals.BINARY),
    "database.md": (holding(b"SQLite format 3\0" + bytes(4096)), refusals.BINARY),
    "old-mac.md": (holding(b"a\rb\rc"), "read 5"),
    "long-line.md": (holding(b"x" * MAX_SOURCE_BYTES), f"read {MAX_SOURCE_BYTES}"),
    "too-long-line.md": (
        holding(b"x" * (MAX_SOURCE_BYTES + 1)),
        "too large: 10.1 MB, limit 10 MB",
    ),
    "sparse.md": (make_sparse, "too large: 1 GB, limit 10 MB"),
    "pipe.md": (os.mkfifo, "a pipe, not a file"),
    "socket.md": (make_socket, "a socket, not a file"),
    "null.md": (link_to("/dev/null"), refusals.LINK_LEADS_OUT),
    "proc.md": (link_to("/proc/self/environ"), refusals.LINK_LEADS_OUT),
    "passwd.md": (link_to("/etc/passwd"), refusals.LINK_LEADS_OUT),
    "self.md": (link_to("self.md"), refusals.LINK_LOOP),
    "ping.md": (link_to("pong.md"), refusals.LINK_LOOP),
    "pong.md": (link_to("ping.md"), refusals.LINK_LOOP),
    "dangling.md": (link_to("nothing"), refusals.LINK_DANGLES),
    "through-file.md": (
        link_to("plain.md/inside"),
        refusals.LINK_DANGLES,
    ),
    "here": (link_to("."), refusals.LINK_TO_FOLDER),
    "up.md": (link_to(".."), refusals.LINK_TO_FOLDER),
    "to-pipe.md": (link_to("pipe.md"), "a pipe, not a file"),
    "again.md": (link_to("plain.md"), "a link to plain.md, which is read under its own name"),
    f"{'n' * 252}.md": (holding(b"long name"), "read 9"),
    f"{'日' * 84}.md": (holding(b"long name"), "read 9"),
    "new\nline.md": (holding(b"odd name"), "read 8"),
    "esc\x1b[31m.md": (holding(b"odd name"), "read 8"),
    "back\\slash.md": (holding(b"odd name"), "read 8"),
    " .md": (holding(b"odd name"), "read 8"),
    "-rf.md": (holding(b"odd name"), "read 8"),
    "folder.md": (Path.mkdir, ""),
}


@pytest.fixture(scope="module")
def strange() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        for name, (make, _) in CASES.items():
            make(root / name)
        yield root


@pytest.fixture(scope="module")
def ends(strange: Path) -> dict[str, str]:
    return outcomes(strange)


@pytest.mark.parametrize("name", CASES)
def test_a_strange_file_is_read_or_left_out_with_its_reason(
    ends: dict[str, str], name: str
) -> None:
    assert ends.get(name, "") == CASES[name][1]


def test_nothing_but_the_strange_files_is_reported(ends: dict[str, str]) -> None:
    assert set(ends) == CASES.keys() - {"folder.md"}


def test_a_whole_strange_tree_fits_in_little_memory(strange: Path) -> None:
    tracemalloc.start()
    try:
        outcomes(strange)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 6 * MAX_SOURCE_BYTES


@pytest.mark.parametrize("name", ["pipe.md", "socket.md", "sparse.md"])
def test_a_strange_file_that_is_named_ends_like_one_that_is_found(strange: Path, name: str) -> None:
    assert outcomes(strange / name) == {name: CASES[name][1]}


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
def test_a_device_is_never_opened(device: str) -> None:
    assert outcomes(Path(device)) == {Path(device).name: "a device, not a file"}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_a_file_that_lies_about_its_size_is_refused() -> None:
    assert outcomes(Path("/proc/self/status")) == {"status": refusals.WRONG_SIZE}


def test_names_that_are_not_utf8_are_reported_in_words_that_can_be_shown(tmp_path: Path) -> None:
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.md")).touch()
    except OSError:
        pytest.skip("this file system keeps names as UTF-8")
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/d\xff"))
    folder.mkdir()
    (folder / "inside.md").touch()
    (tmp_path / os.fsdecode(b"\xfe.bin")).touch()
    (tmp_path / os.fsdecode(b"\xfe.link.md")).symlink_to("ok.md")
    (tmp_path / "ok.md").touch()
    walked = walk(tmp_path)
    assert {entry.key: getattr(entry, "reason", "") for entry in walked} == {
        "caf\\xe9.md": refusals.NAME_NOT_UTF8,
        "d\\xff": refusals.NAME_NOT_UTF8,
        "\\xfe.link.md": "a link to ok.md, which is read under its own name",
        "ok.md": "",
    }
    assert walked.ignored == 1
    for entry in walked:
        entry.path.encode()
    with pytest.raises(SourceError, match=r"d\\xff: its name is not valid UTF-8"):
        walk(folder)


def test_a_name_of_300_letters_is_no_such_file_but_no_crash(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="File name too long"):
        walk(tmp_path / ("n" * 300))


def test_a_tree_deeper_than_any_path_is_walked_as_far_as_paths_reach(tmp_path: Path) -> None:
    back = Path.cwd()
    levels = 60
    os.chdir(tmp_path)
    try:
        for _ in range(levels):
            Path("d" * 100).mkdir()
            os.chdir("d" * 100)
            Path("a.md").touch()
        ends = outcomes(tmp_path)
        shown = Counter(ends.values())
        assert shown["read 0"] > 30
        assert shown["unreadable: File name too long"] == len(ends) - shown["read 0"] > 0
    finally:
        # Removed from within: from outside the path is too long for every tool.
        for _ in range(levels):
            Path("a.md").unlink(missing_ok=True)
            os.chdir("..")
            Path("d" * 100).rmdir()
        os.chdir(back)


def test_a_tree_deeper_than_pythons_recursion_is_walked_whole(tmp_path: Path) -> None:
    levels = 1_100
    path = tmp_path
    try:
        for _ in range(levels):
            path = path / "d"
            path.mkdir()
        (path / "a.md").touch()
        (file,) = walk(tmp_path)
        assert file.key == "d/" * levels + "a.md"
    finally:
        # Not left to pytest, whose clean-up is recursive.
        (path / "a.md").unlink(missing_ok=True)
        while path != tmp_path:
            path.rmdir()
            path = path.parent


# Owners and permissions


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        root.chmod(0o755)
        yield root
        for path in root.rglob("*"):
            path.chmod(0o755)


def as_nobody(work: Callable[[], object]) -> object:
    """What ``work`` gives in a child that is not root: root may read everything."""
    end, start = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            answer = work()
        except BaseException as error:  # noqa: BLE001 - the parent shows it
            answer = f"{type(error).__name__}: {error}"
        os.write(start, json.dumps(answer).encode())
        os._exit(0)
    os.close(start)
    with os.fdopen(end, "rb") as pipe:
        answered = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answered)


def refused(path: Path) -> list[str]:
    """Return code and subject of the error that walking this path raises."""
    with pytest.raises(SourceError) as caught:
        walk(path)
    return [caught.value.notice.code, caught.value.notice.subject]


def test_what_may_not_be_read_is_reported_and_the_walk_goes_on(open_folder: Path) -> None:
    for name in ("closed/in.md", "listed/in.md", "rules/in.md", "zz.md"):
        (open_folder / name).parent.mkdir(exist_ok=True)
        (open_folder / name).write_text("text", encoding="utf-8")
    (open_folder / "locked.md").touch(mode=0o000)
    (open_folder / "rules/.plaitignore").touch(mode=0o000)
    (open_folder / "behind.md").symlink_to("closed/in.md")
    (open_folder / "closed").chmod(0o000)
    (open_folder / "listed").chmod(0o444)  # names can be seen, files not
    denied = "unreadable: Permission denied"
    assert as_nobody(lambda: outcomes(open_folder)) == {
        "behind.md": denied,
        "closed": denied,
        "listed/in.md": denied,
        "locked.md": denied,
        "rules": f"its .plaitignore cannot be used: {denied}",
        "zz.md": "read 4",
    }


def test_a_named_folder_that_may_not_be_read_is_refused_at_once(open_folder: Path) -> None:
    closed = open_folder / "closed"
    closed.mkdir(mode=0o000)
    assert as_nobody(lambda: refused(closed)) == ["unreadable_source", str(closed)]


# Files that change between the listing and the reading, or during it


def listed(path: Path) -> SourceFile:
    path.write_text("first", encoding="utf-8")
    (file,) = walk(path)
    assert isinstance(file, SourceFile)
    return file


def becomes_sparse(path: Path) -> None:
    os.truncate(path, 1024 * MEGABYTE)


def becomes_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def becomes_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


def becomes_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def parent_becomes_file(path: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.touch()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (Path.unlink, "disappeared after the folder was listed"),
        (parent_becomes_file, "disappeared after the folder was listed"),
        (becomes_sparse, "too large: 1 GB, limit 10 MB"),
        (becomes_pipe, "a pipe, not a file"),
        (becomes_link, "replaced by a link after the folder was listed"),
        (becomes_folder, "unreadable: Is a directory"),
    ],
)
def test_a_file_that_changed_its_nature_after_the_listing_is_refused(
    tmp_path: Path, change: Callable[[Path], object], reason: str
) -> None:
    path = tmp_path / "sub/a.md"
    path.parent.mkdir()
    file = listed(path)
    change(path)
    open_before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc").exists() else 0
    with pytest.raises(SourceError) as caught:
        read_file(file)
    assert caught.value.notice.text == reason
    if open_before:
        assert len(list(Path("/proc/self/fd").iterdir())) == open_before


def swapped_for_a_link(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("aside"))
    folder.symlink_to(target, target_is_directory=True)


@pytest.mark.parametrize("step", ["a", "a/b"])
@pytest.mark.parametrize("by_link", [False, True])
def test_a_folder_that_became_a_link_after_the_listing_does_not_lead_out(
    tmp_path: Path, step: str, by_link: bool
) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for place, text in ((root, "ours"), (outside, "private")):
        (place / "a/b").mkdir(parents=True)
        (place / "b").mkdir()
        for path in ("a/b/c.md", "b/c.md"):
            (place / path).write_text(text, encoding="utf-8")
    if by_link:
        (root / "a/b/c.md").rename(root / "a/b/c.dat")
        (root / "0.md").symlink_to("a/b/c.dat")
        (outside / "a/b/c.dat").write_text("private", encoding="utf-8")
        (outside / "b/c.dat").write_text("private", encoding="utf-8")
    [file] = [
        file
        for file in walk(root)
        if isinstance(file, SourceFile) and file.key in ("a/b/c.md", "0.md")
    ]
    assert read_file(file).text == "ours"
    swapped_for_a_link(root / step, outside / "a" if step == "a" else outside / "b")
    for read in (read_file, hash_file):
        with pytest.raises(SourceError) as caught:
            read(file)
        assert caught.value.notice.text == "replaced by a link after the folder was listed"


def test_the_folder_that_is_read_may_be_named_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "real/sub").mkdir(parents=True)
    (tmp_path / "real/sub/a.md").write_text("ours", encoding="utf-8")
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    [file] = walk(tmp_path / "link")
    assert isinstance(file, SourceFile)
    assert read_file(file).text == "ours"
    assert read_file(file._replace(root=str(tmp_path / "link"))).text == "ours"


@pytest.mark.parametrize(
    ("edits", "expected"),
    [(0, "first"), (1, "first!"), (2, None)],
    ids=["at rest", "edited once", "never at rest"],
)
def test_a_file_edited_while_it_is_read_is_never_half_old_and_half_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, edits: int, expected: str | None
) -> None:
    path = tmp_path / "a.md"
    file = listed(path)
    plain_fstat, calls = os.fstat, 0

    def fstat_then_edit(handle: int) -> os.stat_result:
        # The edit itself is real; only its moment, between look and read, is chosen.
        nonlocal calls
        calls += 1
        status = plain_fstat(handle)
        if calls % 2 == 1 and calls // 2 < edits:
            with path.open("a", encoding="utf-8") as writing:
                writing.write("!")
        return status

    monkeypatch.setattr(os, "fstat", fstat_then_edit)
    if expected is not None:
        assert read_file(file).text == expected
    else:
        with pytest.raises(SourceError, check=has_code("changed_during_read")):
            read_file(file)
    assert calls == 2 * min(edits + 1, 2)


def test_an_edit_of_the_same_size_and_time_shows_in_the_hash_and_in_ctime(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    long_ago = 1_000_000_000  # seconds: 2001
    stamps, hashes = [], []
    for text in ("first", "FIRST"):
        path.write_text(text, encoding="utf-8")
        os.utime(path, (long_ago, long_ago))
        (file,) = walk(path)
        assert isinstance(file, SourceFile)
        stamps.append((file.size, file.mtime))
        hashes.append(read_file(file).sha256)
        assert file.ctime > file.mtime == long_ago * 1_000
    assert stamps[0] == stamps[1]
    assert hashes[0] != hashes[1]


# Any tree at all

ENTRIES = st.dictionaries(
    st.lists(st.sampled_from(["a", "b", ".c", "d.md"]), min_size=1, max_size=3).map(tuple),
    st.sampled_from(["file", "folder", "pipe", "link", "loop", "gone", "out"]),
    max_size=12,
)


def plant(root: Path, parts: tuple[str, ...], kind: str) -> None:
    path = root.joinpath(*parts[:-1], f"{parts[-1]}.md" if kind != "folder" else parts[-1])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        makers: dict[str, Callable[[Path], object]] = {
            "file": holding(b"text"), "folder": Path.mkdir, "pipe": os.mkfifo,
            "link": link_to("a.md"), "loop": link_to("../b.md"), "gone": link_to("gone"),
            "out": link_to(".."),
        }  # fmt: skip
        makers[kind](path)
    except OSError:
        pass  # the name is taken by another kind; the tree is strange enough without it


@settings(max_examples=80, deadline=None)
@given(entries=ENTRIES, hidden=st.booleans())
def test_every_entry_of_any_tree_ends_in_exactly_one_way(
    entries: dict[tuple[str, ...], str], hidden: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        (root / "x.py").touch()
        for parts, kind in entries.items():
            plant(root, parts, kind)
        walked = walk(root, hidden=hidden)
        keys = [entry.key for entry in walked]
        leaves = 0
        for path, folders, files in os.walk(root):
            if not hidden:
                folders[:] = [name for name in folders if not name.startswith(".")]
                files = [name for name in files if not name.startswith(".")]
            leaves += len(files) + sum(Path(path, name).is_symlink() for name in folders)
        assert len(set(keys)) == len(keys)
        assert len(keys) + walked.ignored == leaves
