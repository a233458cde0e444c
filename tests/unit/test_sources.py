"""Walking, ignoring and reading files, each rule with a small real tree."""

import codecs
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plait.errors import SourceError, advise
from plait.writing import ignoring, sources
from plait.writing.formats import NotText
from plait.writing.sources import (
    MAX_SOURCE_BYTES,
    Skipped,
    SourceFile,
    named_file,
    read_file,
    source_root,
    walk,
)


def grow(root: Path, *files: str, ignore: Mapping[str, str] | None = None) -> Path:
    for file in files:
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {file}\n", encoding="utf-8")
    for folder, rules in (ignore or {}).items():
        (root / folder / ".plaitignore").write_text(rules, encoding="utf-8")
    return root


def keys(root: Path, **options: object) -> list[str]:
    entries = walk(root, **options)  # type: ignore[arg-type]
    return [entry.key for entry in entries if isinstance(entry, SourceFile)]


def skips(root: Path, **options: object) -> dict[str, str]:
    entries = walk(root, **options)  # type: ignore[arg-type]
    return {entry.key: entry.reason for entry in entries if isinstance(entry, Skipped)}


def source_file(path: Path) -> SourceFile:
    (only,) = walk(path)
    assert isinstance(only, SourceFile)
    return only


# Which files count


def test_a_walk_finds_notes_by_type_and_counts_the_rest(tmp_path: Path) -> None:
    grow(tmp_path, "b.md", "a.txt", "sub/c.rst", "sub/d.org", "e.markdown", "f.py", "sub/g.png")
    files = walk(tmp_path)
    assert [entry.key for entry in files] == [
        "a.txt",
        "b.md",
        "e.markdown",
        "sub/c.rst",
        "sub/d.org",
    ]
    assert files.ignored == 2


def test_a_second_pass_gives_the_same_entries_and_counts(tmp_path: Path) -> None:
    grow(tmp_path, "z.md", "a/y.md", "a.md", "a.py", ".x.md")
    (tmp_path / "link.md").symlink_to("z.md")
    (tmp_path / "code.md").symlink_to("a.py")
    files = walk(tmp_path)
    first = (list(files), files.ignored)
    assert (list(files), files.ignored) == first
    assert first[1] == 1


def test_order_is_by_name_within_each_folder_depth_first(tmp_path: Path) -> None:
    grow(tmp_path, "b.md", "a/z.md", "a/b/c.md", "B.md", "a.md", "c/a.md")
    assert keys(tmp_path) == ["B.md", "a/b/c.md", "a/z.md", "a.md", "b.md", "c/a.md"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        (["*.md"], ["README.MD", "diary/a.md", "diary/old/b.md", "n.md"]),
        ("*.md", ["README.MD", "diary/a.md", "diary/old/b.md", "n.md"]),
        (["N.MD"], ["n.md"]),
        (["diary/*.md"], ["diary/a.md"]),
        (["diary/**/*.md"], ["diary/a.md", "diary/old/b.md"]),
        (["**/*.md"], ["README.MD", "diary/a.md", "diary/old/b.md", "n.md"]),
        (["*.py", "n.*"], ["n.md", "x.py"]),
        (["?.md"], ["diary/a.md", "diary/old/b.md", "n.md"]),
        ([], []),
    ],
)
def test_patterns_choose_by_name_or_path_in_any_case(
    tmp_path: Path, patterns: list[str], expected: list[str]
) -> None:
    grow(tmp_path, "n.md", "README.MD", "x.py", "diary/a.md", "diary/old/b.md")
    assert keys(tmp_path, patterns=patterns) == expected


@pytest.mark.parametrize(
    ("file", "hidden", "counts"),
    [
        (".secret.md", False, False),
        (".secret.md", True, True),
        (".obsidian/a.md", False, False),
        (".obsidian/a.md", True, True),
        (".git/a.md", True, False),
        ("node_modules/pkg/a.md", True, False),
        ("sub/__pycache__/a.md", True, False),
        ("env/a.md", False, True),
        ("a.b/c.md", False, True),
    ],
)
def test_hidden_and_machine_made_names_are_left_out(
    tmp_path: Path, file: str, hidden: bool, counts: bool
) -> None:
    grow(tmp_path, file)
    files = walk(tmp_path, hidden=hidden)
    assert [entry.key for entry in files] == ([file] if counts else [])
    assert files.ignored == 0


@pytest.mark.parametrize("mark", ["pyvenv.cfg", "conda-meta/history"])
def test_a_virtual_environment_is_known_by_what_it_holds(tmp_path: Path, mark: str) -> None:
    grow(tmp_path, "tools/LICENSE.txt", f"tools/{mark}", "a.md")
    assert keys(tmp_path) == ["a.md"]


@pytest.mark.parametrize("name", [".notes", "node_modules", "venv"])
def test_a_folder_that_is_named_is_walked_whatever_its_name(tmp_path: Path, name: str) -> None:
    grow(tmp_path / name, "a.md", "pyvenv.cfg")
    assert keys(tmp_path / name) == ["a.md"]


@pytest.mark.parametrize("name", [".env", "LICENSE", "data.csv"])
def test_a_file_that_is_named_counts_whatever_its_name(tmp_path: Path, name: str) -> None:
    grow(tmp_path, name, ignore={"": "*"})
    file = source_file(tmp_path / name)
    assert (file.key, file.root) == (name, str(tmp_path))
    assert read_file(file).text == f"text of {name}\n"


# The ignore file


@pytest.mark.parametrize(
    ("rules", "left"),
    [
        ("", ["a.md", "drafts/a.md", "drafts/b.md", "sub/drafts/c.md", "tmp.md"]),
        (
            "# a.md\n\n   \n/\n!\n",
            ["a.md", "drafts/a.md", "drafts/b.md", "sub/drafts/c.md", "tmp.md"],
        ),
        ("a.md", ["drafts/b.md", "sub/drafts/c.md", "tmp.md"]),
        ("/a.md", ["drafts/a.md", "drafts/b.md", "sub/drafts/c.md", "tmp.md"]),
        ("drafts/", ["a.md", "tmp.md"]),
        ("/drafts/", ["a.md", "sub/drafts/c.md", "tmp.md"]),
        ("a.md/", ["a.md", "drafts/a.md", "drafts/b.md", "sub/drafts/c.md", "tmp.md"]),
        ("t*.md\r\n", ["a.md", "drafts/a.md", "drafts/b.md", "sub/drafts/c.md"]),
        ("drafts/*.md", ["a.md", "sub/drafts/c.md", "tmp.md"]),
        ("**/drafts/*.md", ["a.md", "tmp.md"]),
        ("drafts/**", ["a.md", "sub/drafts/c.md", "tmp.md"]),
        ("sub/**/c.md", ["a.md", "drafts/a.md", "drafts/b.md", "tmp.md"]),
        ("[!t]*.md", ["tmp.md"]),
        ("[^t]*.md", ["tmp.md"]),
        ("*.md\n!a.md", ["a.md", "drafts/a.md"]),
        ("drafts/\n!drafts/a.md", ["a.md", "tmp.md"]),
        ("a.md   ", ["drafts/b.md", "sub/drafts/c.md", "tmp.md"]),
        ("\ufeffa.md", ["drafts/b.md", "sub/drafts/c.md", "tmp.md"]),
    ],
)
def test_ignore_rules_leave_out_what_they_say(tmp_path: Path, rules: str, left: list[str]) -> None:
    grow(tmp_path, "a.md", "tmp.md", "drafts/a.md", "drafts/b.md", "sub/drafts/c.md")
    grow(tmp_path, ignore={"": rules})
    assert sorted(keys(tmp_path)) == left


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("\\#a.md", "#a.md"),
        ("\\!a.md", "!a.md"),
        ("\\*.md", "*.md"),
        ("a\\ ", "a "),
        ("x\\[1].md", "x[1].md"),
    ],
)
def test_a_backslash_makes_a_sign_plain(tmp_path: Path, rule: str, name: str) -> None:
    grow(tmp_path, name, "other.md", ignore={"": rule})
    assert keys(tmp_path, patterns=["*"]) == ["other.md"]


def test_rules_hold_below_their_folder_and_nearer_ones_win(tmp_path: Path) -> None:
    grow(tmp_path, "x.md", "one/x.md", "one/two/x.md", "one/two/y.md", "three/y.md")
    grow(tmp_path, ignore={"": "x.md", "one": "!x.md\n/two/y.md", "one/two": "x.md"})
    assert keys(tmp_path) == ["one/x.md", "three/y.md"]


def test_git_ignore_files_do_not_count(tmp_path: Path) -> None:
    grow(tmp_path, "diary.md")
    (tmp_path / ".gitignore").write_text("diary.md", encoding="utf-8")
    assert keys(tmp_path) == ["diary.md"]


def test_another_ignore_file_or_none_can_be_chosen(tmp_path: Path) -> None:
    grow(tmp_path, "a.md", "b.md", ignore={"": "a.md"})
    (tmp_path / ".other").write_text("b.md", encoding="utf-8")
    assert keys(tmp_path, ignore_file=".other") == ["a.md"]
    assert keys(tmp_path, ignore_file=None) == ["a.md", "b.md"]


@pytest.mark.parametrize("rules", [b"\xff private/", b"private/\0", b"#" * 70_000])
def test_a_folder_whose_rules_cannot_be_read_stays_closed(tmp_path: Path, rules: bytes) -> None:
    grow(tmp_path, "a.md", "diary/private/b.md")
    (tmp_path / "diary/.plaitignore").write_bytes(rules)
    (tmp_path / "link.md").symlink_to("diary/private/b.md")
    assert keys(tmp_path) == ["a.md"]
    assert skips(tmp_path)["diary"].startswith("its .plaitignore cannot be used: ")


TOO_MANY = "its .plaitignore cannot be used: it has too many rules"


def many_rules(count: int, name: str = "x") -> str:
    return "# many\n\n" + "\n".join(f"{name}{number}*" for number in range(count))


def test_a_folder_with_too_many_rules_stays_closed_and_none_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed, tried = [], []
    parse, match = ignoring.parse_rule, ignoring.IgnoreRule.matches

    def counted_parse(line: str, depth: int) -> ignoring.IgnoreRule | None:
        parsed.append(line)
        return parse(line, depth)

    def counted_match(rule: ignoring.IgnoreRule, parts: tuple[str, ...], folder: bool) -> bool:
        tried.append(parts)
        return match(rule, parts, folder)

    monkeypatch.setattr(ignoring, "parse_rule", counted_parse)
    monkeypatch.setattr(ignoring.IgnoreRule, "matches", counted_match)
    most = ignoring.MAX_RULES
    grow(tmp_path, *(f"clone/{number}.md" for number in range(50)), "a.md")
    (tmp_path / "clone/.plaitignore").write_text(many_rules(16 * most)[:60_000], encoding="utf-8")
    assert keys(tmp_path) == ["a.md"]
    assert skips(tmp_path)["clone"].startswith(TOO_MANY)
    assert len(parsed) <= 2 * (most + 10)
    assert len(tried) < most


def test_the_rules_of_the_folders_above_count(tmp_path: Path) -> None:
    most = ignoring.MAX_RULES
    grow(tmp_path, "a.md", "in/b.md", "in/in/c.md", ignore={"": many_rules(most - 1)})
    (tmp_path / "in/.plaitignore").write_text("y", encoding="utf-8")
    assert keys(tmp_path) == ["a.md", "in/b.md", "in/in/c.md"]
    (tmp_path / "in/in/.plaitignore").write_text("z", encoding="utf-8")
    assert keys(tmp_path) == ["a.md", "in/b.md"]
    assert skips(tmp_path)["in/in"].startswith(TOO_MANY)


def test_the_rules_of_a_whole_source_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_RULES_OF_A_SOURCE", 5)
    folders = [f"f{number}" for number in range(4)]
    grow(tmp_path, *(f"{folder}/a.md" for folder in folders))
    for folder in folders:
        (tmp_path / folder / ".plaitignore").write_text("x\ny\n", encoding="utf-8")
    assert keys(tmp_path) == ["f0/a.md", "f1/a.md"]
    assert list(skips(tmp_path)) == ["f2", "f3"]


NAMES = ("a", "b", "ab", "a.md", "b.md")
PIECES = st.sampled_from(
    ["a", "b", "ab", "*", "?", "**", "*.md", "[ab]", "[!a]", "a*", "*a**", "\\a"]
)
LINES = st.builds(
    lambda bang, lead, pieces, trail: bang + lead + "/".join(pieces) + trail,
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "", "/"]),
    st.lists(PIECES, min_size=1, max_size=3),
    st.sampled_from(["", "", "/", " "]),
)


@pytest.fixture(scope="module")
def wood() -> "list[str]":
    """Every path of up to three names, the last one a file."""
    folders = ["", "a/", "b/", "a/a/", "a/b/", "b/a/", "b/b/"]
    return [f"{folder}{name}" for folder in folders for name in NAMES if f"{folder}{name}" not in {
        "a", "b", "a/a", "a/b", "b/a", "b/b"}]  # fmt: skip


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")
@settings(max_examples=40, deadline=None)
@given(top=st.lists(LINES, max_size=4), inner=st.lists(LINES, max_size=2))
def test_git_leaves_out_the_same_files(wood: list[str], top: list[str], inner: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = grow(Path(folder).resolve(), *wood)
        for place, lines in ((root, top), (root / "a", inner)):
            (place / ".plaitignore").write_text("\n".join(lines), encoding="utf-8")
        subprocess.run(["git", "init", "-q", root], check=True)
        listed = subprocess.run(
            ["git", "ls-files", "--others", "--exclude-per-directory=.plaitignore", "-z"],
            cwd=root, check=True, capture_output=True,
        )  # fmt: skip
        by_git = {name for name in listed.stdout.decode().split("\0") if name}
        by_us = keys(root, patterns=["*"])
        assert set(by_us) == by_git - {".plaitignore", "a/.plaitignore"}


@settings(max_examples=100, deadline=None)
@given(rules=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))))
def test_any_rules_leave_a_file_either_in_or_out(rules: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = grow(Path(folder), "sub/a.md", ignore={"": "\n".join(rules)})
        assert skips(root) == {}
        assert keys(root) in ([], ["sub/a.md"])


def test_a_rule_full_of_stars_is_decided_at_once(tmp_path: Path) -> None:
    long = "a" * 200
    grow(tmp_path, f"{long}.md", f"{'/'.join('a' * 40)}/x.md")
    grow(tmp_path, ignore={"": f"{'*a' * 60}b\n{'**/a/' * 40}b"})
    assert len(keys(tmp_path)) == 2


# Links


def test_links_stay_inside_the_folder_and_never_repeat_a_file(tmp_path: Path) -> None:
    root = tmp_path / "notes"
    grow(tmp_path, "outside.md", "notes2/near.md")
    grow(root, "real.md", "data.bin", "sub/deep.md", ".hidden.md", "private/p.md", "own/q.md")
    grow(root, ignore={"": "private/"})
    links = {
        "a-first.md": "real.md",
        "b-data.md": "data.bin",
        "c-data-again.md": "data.bin",
        "d-out.md": "../outside.md",
        "e-near.md": "../notes2/near.md",
        "f-hidden.md": ".hidden.md",
        "g-private.md": "private/p.md",
        "h-gone.md": "gone.md",
        "i-chain.md": "h-gone.md",
        "j-loop.md": "j-loop.md",
        "k-sub": "sub",
        "l-up": "..",
        "m-real.py": "real.md",
        "n-gone.py": "gone.md",
        "o-abs.md": str(root / "real.md"),
    }
    for name, target in links.items():
        (root / name).symlink_to(target)
    assert keys(root) == ["own/q.md", "real.md", "sub/deep.md", "b-data.md"]
    assert skips(root) == {
        "a-first.md": "a link to real.md, which is read under its own name",
        "c-data-again.md": "a link to b-data.md, which is read under its own name",
        "d-out.md": "a link to a place outside the folder",
        "e-near.md": "a link to a place outside the folder",
        "f-hidden.md": "a link to a hidden or ignored file",
        "g-private.md": "a link to a hidden or ignored file",
        "h-gone.md": "a dangling link: its target does not exist",
        "i-chain.md": "a dangling link: its target does not exist",
        "j-loop.md": "symbolic link loop",
        "k-sub": "a link to a folder; links to folders are not followed",
        "l-up": "a link to a folder; links to folders are not followed",
        "o-abs.md": "a link to real.md, which is read under its own name",
    }


def test_a_followed_link_keeps_its_own_name_and_reads_its_target(tmp_path: Path) -> None:
    grow(tmp_path, "data.bin")
    (tmp_path / "b.md").symlink_to("data.bin")
    (file,) = walk(tmp_path)
    assert isinstance(file, SourceFile)
    assert (file.path, file.target) == (str(tmp_path / "b.md"), str(tmp_path / "data.bin"))
    assert read_file(file).text == "text of data.bin\n"


def test_hard_links_are_files_of_their_own(tmp_path: Path) -> None:
    grow(tmp_path, "a.md")
    (tmp_path / "b.md").hardlink_to(tmp_path / "a.md")
    assert keys(tmp_path) == ["a.md", "b.md"]


def test_one_folder_by_two_names_is_one_source(tmp_path: Path) -> None:
    grow(tmp_path, "notes/sub/a.md")
    (tmp_path / "alias").symlink_to("notes")
    assert list(walk(tmp_path / "alias")) == list(walk(tmp_path / "notes"))
    assert keys(tmp_path / "alias") == ["sub/a.md"]


def test_a_link_that_is_named_is_followed_anywhere(tmp_path: Path) -> None:
    grow(tmp_path, "elsewhere/a.md", "here/b.md")
    (tmp_path / "here/link").symlink_to("../elsewhere/a.md")
    file = source_file(tmp_path / "here/link")
    assert (file.key, file.root) == ("link", str(tmp_path / "here"))
    assert read_file(file).text == "text of elsewhere/a.md\n"


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("notes", "notes"),
        ("notes/", "notes"),
        ("notes/sub/..", "notes"),
        ("notes/sub/a.md", "notes/sub"),
        ("alias", "notes"),
        ("alias/sub/a.md", "notes/sub"),
        ("notes/link.md", "notes"),
        ("gone", "gone"),
    ],
)
def test_the_root_of_a_source_is_absolute_and_unique(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, expected: str
) -> None:
    grow(tmp_path, "notes/sub/a.md")
    (tmp_path / "alias").symlink_to("notes")
    (tmp_path / "notes/link.md").symlink_to("sub/a.md")
    monkeypatch.chdir(tmp_path)
    assert source_root(path) == source_root(tmp_path / path) == str(tmp_path / expected)


# What cannot be walked


@pytest.mark.parametrize(
    "path", ["gone", "gone/deeper", "a.md/inside", "", "nul\0", "\ud800", "dangling"]
)
def test_a_path_that_is_not_there_is_named_in_the_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    grow(tmp_path, "a.md")
    (tmp_path / "dangling").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SourceError, match=r"^No such file or folder: ") as caught:
        walk(path)
    assert caught.value.notice.code == "no_such_source"
    assert caught.value.notice.subject in str(caught.value)
    str(caught.value).encode()


def test_a_root_that_is_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(SourceError) as caught:
        walk(tmp_path / "loop")
    assert caught.value.notice.code == "unreadable_source"
    with pytest.raises(SourceError) as caught:
        source_root("nul\0")
    assert caught.value.notice.code == "bad_path"


def test_a_named_file_is_not_a_folder_and_can_be_read(tmp_path: Path) -> None:
    grow(tmp_path, "a.md")
    assert named_file(tmp_path / "a.md") == source_file(tmp_path / "a.md")
    with pytest.raises(SourceError) as caught:
        named_file(tmp_path)
    assert caught.value.notice.code == "is_folder"
    assert caught.value.notice.subject == str(tmp_path)
    assert caught.value.advice == advise("ingest", path=str(tmp_path))
    assert str(caught.value) == f"{tmp_path} is a folder. Call memory.ingest('{tmp_path}')."
    with pytest.raises(SourceError, match="too large") as caught:
        named_file(tmp_path / "a.md", max_bytes=1)
    assert caught.value.notice.code == "too_large"


@pytest.mark.parametrize(
    ("size", "limit", "reason"),
    [
        (100, 100, None),
        (101, 100, "too large: 101 bytes, limit 100 bytes"),
        (1025, 1024, "too large: 1.1 KB, limit 1 KB"),
        (MAX_SOURCE_BYTES, MAX_SOURCE_BYTES, None),
        (MAX_SOURCE_BYTES + 1, MAX_SOURCE_BYTES, "too large: 10.1 MB, limit 10 MB"),
        (50 * 1024**3, MAX_SOURCE_BYTES, "too large: 50 GB, limit 10 MB"),
    ],
)
def test_the_size_limit_is_exact_and_named(
    tmp_path: Path, size: int, limit: int, reason: str | None
) -> None:
    path = grow(tmp_path, "a.md") / "a.md"
    os.truncate(path, size)
    for source in (tmp_path, path):
        assert skips(source, max_bytes=limit) == ({"a.md": reason} if reason else {})


@pytest.mark.parametrize("limit", [3, MAX_SOURCE_BYTES + 1])
def test_a_file_is_read_under_the_limit_it_was_found_under(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(b"x" * limit)
    (file,) = walk(path, max_bytes=limit)
    assert isinstance(file, SourceFile)
    assert read_file(file).size == limit
    path.write_bytes(b"x" * (limit + 1))
    with pytest.raises(SourceError, match="too large") as caught:
        read_file(file)
    assert (caught.value.notice.code, caught.value.notice.subject) == ("too_large", str(path))


# Reading


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b" \n", " \n"),
        ("naïve 日本 🙂\n".encode(), "naïve 日本 🙂\n"),
        (codecs.BOM_UTF8 + b"# Title", "# Title"),
        (codecs.BOM_UTF16_LE + "日本\n".encode("utf-16-le"), "日本\n"),
        (codecs.BOM_UTF16_BE + "日本\n".encode("utf-16-be"), "日本\n"),
        (codecs.BOM_UTF32_LE + "日本\n".encode("utf-32-le"), "日本\n"),
        (codecs.BOM_UTF32_BE + "日本\n".encode("utf-32-be"), "日本\n"),
        (b"a\r\nb\rc\nd\r\r\n", "a\nb\nc\nd\n\n"),
        (b"x" * 9000 + b"\0y", "x" * 9000 + "\ufffdy"),
    ],
)
def test_text_is_decoded_and_its_newlines_are_made_plain(
    tmp_path: Path, data: bytes, text: str
) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(data)
    content = read_file(source_file(path))
    assert content.text == text
    assert content.sha256 == sha256(data).hexdigest()
    assert content.size == len(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x7fELF\0\0", "binary, not text"),
        (b"x" * 8191 + b"\0", "binary, not text"),
        (codecs.BOM_UTF8 + b"a\0", "binary, not text"),
        (
            b"one\ncaf\xe9\x01",
            "not UTF-8 text: byte 0xE9 at offset 7 (line 2); convert it to UTF-8",
        ),
        (codecs.BOM_UTF8 + b"\xe9", "not UTF-8 text: byte 0xE9 at offset 3 (line 1); convert it"),
        (b"\xed\xa0\x80", "not UTF-8 text: byte 0xED at offset 0"),
        (codecs.BOM_UTF16_LE + b"a\0b", "not UTF-16 text: byte 0x62 at offset 4"),
        (codecs.BOM_UTF16_LE + b"\x00\xd8", "not UTF-16 text: byte 0x00 at offset 2"),
    ],
)
def test_what_is_not_text_is_refused_with_the_place(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "a.md"
    path.write_bytes(data)
    with pytest.raises(NotText) as caught:
        read_file(source_file(path))
    assert str(caught.value).startswith(reason)
    assert (caught.value.notice.code, caught.value.notice.subject) == ("not_text", str(path))


@settings(max_examples=200, deadline=None)
@given(data=st.binary(max_size=200), mark=st.sampled_from([b"", b"\xff\xfe", b"\xfe\xff\0\0"]))
def test_any_bytes_are_read_as_clean_text_or_refused(data: bytes, mark: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.md")
        path.write_bytes(mark + data)
        try:
            text = read_file(source_file(path)).text
        except NotText:
            return
        text.encode()
        assert not {"\0", "\r"} & set(text)


@given(text=st.text())
def test_utf8_text_comes_back_as_it_was_but_for_newlines_and_nul(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.md")
        data = ("#" + text.replace("\0", "0")).encode()
        path.write_bytes(data)
        assert read_file(source_file(path)).text == "\n".join(
            data.decode().replace("\r\n", "\n").split("\r")
        )


# Stamps


def test_the_stamp_is_in_milliseconds(tmp_path: Path) -> None:
    path = grow(tmp_path, "a.md") / "a.md"
    os.utime(path, ns=(0, 1_700_000_000_123_999_999))
    file = source_file(path)
    assert file.mtime == read_file(file).mtime == 1_700_000_000_123
    assert file.size == path.stat().st_size
    assert file.ctime == path.stat().st_ctime_ns // 1_000_000
