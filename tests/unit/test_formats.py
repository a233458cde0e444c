"""Formats: what is read of each, at which lines, and what hostile files cost."""

import io
import json
import re
import zipfile
from importlib.util import find_spec
from typing import Any

import pytest

from plait.errors import SourceError, UsageError
from plait.writing.definitions import outline_code
from plait.writing.file_types import LANGUAGES, PATTERN_GROUPS, expanded
from plait.writing.formats import NotText, converted, pdf
from plait.writing.outlines import outline_markdown
from tests.codes import has_code

MOST = 10 * 1024 * 1024


def read(name: str, data: bytes | str, most: int = MOST) -> str:
    raw = data.encode() if isinstance(data, str) else data
    return converted(raw, name, most).text


def lines_of(name: str, data: str) -> dict[str, int]:
    """The line in the file of each line of the text."""
    result = converted(data.encode(), name, MOST)
    rows = result.text.split("\n")
    assert len(result.lines) == len(rows) - 1
    return dict(zip(rows, result.lines, strict=False))


# -- encodings -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["Café crème à la carte", "“Grüße aus Köln” – 5 €", "naïve\r\nrôle"]
)
def test_a_western_text_that_is_not_utf8_is_read_and_told(text):
    result = converted(text.encode("cp1252"), "a.txt", MOST)
    assert result.text == text.replace("\r\n", "\n")
    assert "Windows-1252" in result.remark


@pytest.mark.parametrize(
    "data",
    [
        "привет, как дела".encode("koi8-r"),
        ("def f(): pass  # plain code\n" * 9 + "# привет").encode("cp1251"),
        "日本語のメモ".encode("shift-jis"),
        "Grüße an alle, ä ö ü".encode() + b" and one bad \xff byte",
        b"text \x81 undefined",
        b"text \x01\x02 caf\xe9",
        b"GIF89a\0\0\xe9",
    ],
    ids=[
        "Russian",
        "Russian in code",
        "Japanese",
        "broken UTF-8",
        "unused byte",
        "control characters",
        "binary",
    ],
)
def test_another_encoding_is_not_taken_for_a_western_one(data):
    with pytest.raises(NotText, check=has_code("not_text")):
        converted(data, "a.txt", MOST)


# -- web pages -----------------------------------------------------------------------------

PAGE = """<!DOCTYPE html>
<html><head><title>Keys &amp; locks</title>
<style>p { color: red }</style><script>var a = "<p>no</p>";</script></head>
<body>
<nav><a href="/">Home</a></nav>
<h1>Rotating <em>keys</em></h1>
<p>First line
second &lt;line&gt;, 1 < 2, see <a href="ssh.html">ssh</a>
or <a href="https://example.org/">the web</a>.</p>
<ul><li><p>one</p></li><li>two
more</ul>
<table><tr><td>a</td><td>b</td></tr></table>
<pre>
def x():
    return 1
</pre>
<p hidden>unseen</p><div style="display: none">unseen <div>too</div></div>
<!-- unseen --><p>The end</p>
</body></html>
"""


def test_a_page_is_its_text_with_headings_and_without_scripts_and_navigation():
    result = converted(PAGE.encode(), "keys.html", MOST)
    assert result.title == "Keys & locks"
    assert result.text.split("\n\n") == [
        "# Rotating keys",
        "First line\nsecond <line>, 1 < 2, see [ssh](ssh.html)\nor the web.",
        "- one",
        "- two more",
        "a | b",
        "```\ndef x():\n    return 1\n```",
        "The end\n",
    ]


def test_the_lines_of_a_page_are_those_of_its_source():
    lines = lines_of("a.html", PAGE)
    source = PAGE.split("\n")
    for row, words in [
        ("# Rotating keys", "<h1>"),
        ("First line", "<p>First"),
        ("or the web.", "or <a"),
        ("- two more", "two"),
        ("    return 1", "    return 1"),
        ("The end", "The end"),
    ]:
        assert words in source[lines[row] - 1], row


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a <b unclosed", "a <b unclosed\n"),
        ("I </3 it < 5 &lt; 6", "I </3 it < 5 < 6\n"),
        ("a<!-- never closed", "a<!-- never closed\n"),
        ("a<script>var x", "a\n"),
        ("<li hidden>a<li>b", "- a\n- b\n"),
        ("<nav>all of it", "all of it\n"),
        ("&#99999999999999; &#x110000; &#65;", None),
        ("", ""),
        ("<p></p>", ""),
    ],
)
def test_a_broken_page_keeps_its_text(page, text):
    result = read("a.html", page)
    assert text is None or " ".join(result.split()) == " ".join(text.split())
    result.encode()


def test_a_page_that_names_its_encoding_is_read_in_it():
    page = '<meta charset="koi8-r"><p>привет</p>'.encode("koi8-r")
    assert read("a.html", page) == "привет\n"


def test_a_page_of_one_long_line_is_read():
    page = "<p>" + "word " * 1_000_000 + "</p>"
    assert len(read("a.html", page)) == 5_000_000


# -- notebooks -----------------------------------------------------------------------------


def notebook(*cells: dict[str, Any], **fields: object) -> str:
    language = {"language_info": {"name": "python"}}
    value = {"cells": cells, "metadata": language, "nbformat": 4, **fields}
    return json.dumps(value, indent=1, ensure_ascii=False)


CELLS: tuple[dict[str, Any], ...] = (
    {"cell_type": "markdown", "source": ["# Churn\n", "\n", "Why customers leave. é"]},
    {
        "cell_type": "code",
        "source": ["import pandas\n", 'frame = pandas.read_csv("a.csv")'],
        "outputs": [
            {"output_type": "stream", "text": ["rows: 7\n"]},
            {
                "output_type": "execute_result",
                "data": {"text/plain": "x" * 2_000, "image/png": "AA"},
            },
            {"output_type": "error", "ename": "KeyError", "evalue": "'id'"},
        ],
    },
    {"cell_type": "code", "source": [], "outputs": []},
)


def test_a_notebook_is_its_cells_with_short_outputs():
    text = read("a.ipynb", notebook(*CELLS))
    assert text.startswith("# Churn\n\nWhy customers leave. é\n\n###### Cell 2\n```python\n")
    assert "rows: 7" in text
    assert "AA" not in text
    assert len(text) < 1_000
    error = notebook({"cell_type": "code", "source": "f()", "outputs": [CELLS[1]["outputs"][2]]})
    assert "KeyError: 'id'" in read("a.ipynb", error)


def test_the_lines_of_a_cell_are_those_of_the_file():
    source = notebook(*CELLS)
    lines = lines_of("a.ipynb", source)
    rows = source.split("\n")
    assert "Why customers" in rows[lines["Why customers leave. é"] - 1]
    assert "read_csv" in rows[lines['frame = pandas.read_csv("a.csv")'] - 1]


@pytest.mark.parametrize(
    "data",
    ["{", "[]", "{}", '{"cells": 3}', "[" * 200_000, '{"cells": ' + "1" * 10_000 + "}"],
    ids=["cut", "list", "no cells", "bad cells", "deep", "huge number"],
)
def test_what_is_no_notebook_is_refused_in_a_sentence(data):
    with pytest.raises(NotText, check=has_code("not_text")):
        read("a.ipynb", data)


def test_a_notebook_of_odd_values_is_read_as_far_as_it_can_be():
    odd = [3, None, {"cell_type": "code", "source": [1, "a"], "outputs": [2, {"data": []}]}]
    assert "a" in read("a.ipynb", json.dumps({"cells": odd, "metadata": []}))
    old = {"worksheets": [{"cells": [{"cell_type": "heading", "level": 2, "source": "Old"}]}, 1]}
    assert read("a.ipynb", json.dumps(old)) == "## Old\n\n"


# -- subtitles and chats -------------------------------------------------------------------


def test_subtitles_keep_their_lines_and_times():
    srt = "1\n00:01:02,500 --> 00:01:04,000\n<i>Run!</i>\n\n2\n00:02:00,000 --> 00:02:01,000\n7\n"
    assert read("a.srt", srt) == "\n[00:01:02]\nRun!\n\n\n[00:02:00]\n7\n"
    vtt = (
        "WEBVTT\n\nNOTE hidden\n\nSTYLE\n::cue {}\n\nintro\n01:02.500 --> 01:04.000\n<v Ana>Run!\n"
    )
    assert read("a.vtt", vtt) == "\n\n\n\n\n\n\n\n[01:02]\nAna: Run!\n"


SLACK = [{"type": "message", "user": "U1", "text": "deploy at noon", "ts": "1767258000.000200"}]
TELEGRAM = {
    "name": "Ops",
    "messages": [
        {
            "type": "message",
            "date": "2026-01-01T09:00:00",
            "from": "Ana",
            "text": ["deploy ", {"type": "bold", "text": "at noon"}],
        }
    ],
}
DISCORD = {
    "channel": {"name": "ops"},
    "messages": [
        {
            "timestamp": "2026-01-01T09:00:00+00:00",
            "author": {"name": "Ana"},
            "content": "deploy at noon\nnot before",
        }
    ],
}


@pytest.mark.parametrize(
    ("chat", "name", "title"),
    [(SLACK, "U1", ""), (TELEGRAM, "Ana", "Ops"), (DISCORD, "Ana", "ops")],
)
def test_a_chat_is_a_section_for_each_day(chat, name, title):
    result = converted(json.dumps(chat, indent=2).encode(), "chat.json", MOST)
    assert result.text.startswith(f"## 2026-01-01\n\n[09:00] {name}: deploy at noon\n")
    assert result.title == title


def test_another_json_file_stays_as_it_is():
    for text in ('{"messages": [1, {}]}', '[{"type": "message", "ts": "1e999", "text": "x"}]', "{"):
        assert read("a.json", text) == text


def chat(*texts: str) -> list[dict[str, str]]:
    return [
        {"type": "message", "user": "U1", "text": text, "ts": f"1767258000.{number:06}"}
        for number, text in enumerate(texts)
    ]


def php(value: object) -> str:
    """JSON as Slack writes it."""
    return json.dumps(value, indent=2).replace("/", "\\/")


TELEGRAM_TWICE = {
    "name": "Ops",
    "messages": [
        {"type": "message", "date": "2026-01-01T09:00:00", "from": "Ana", "text": text,
         "text_entities": [{"type": "plain", "text": text}]}
        for text in ("yes", "yes", "yes")
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("source", "number_of_text"),
    [
        (json.dumps(chat("yes", "yes", "yes"), indent=2), 1),
        (json.dumps(chat("caf\u00e9", "caf\u00e9", "\U0001f9ca"), indent=2), 1),
        (json.dumps(chat("caf\u00e9", "caf\u00e9"), indent=2, ensure_ascii=False), 1),
        (php(chat("<https://a.org/x>", "caf\u00e9 a/b", "<https://a.org/x>")), 1),
        (json.dumps(TELEGRAM_TWICE, indent=2), 2),
    ],
    ids=["equal", "escaped", "as it is", "slashes", "written twice"],
)
def test_each_message_has_its_own_line(source, number_of_text):
    result = converted(source.encode(), "a.json", MOST)
    rows = source.split("\n")
    wanted = [n for n, row in enumerate(rows, start=1) if '"text": ' in row][::number_of_text]
    shown = zip(result.text.split("\n"), result.lines, strict=False)
    assert [line for row, line in shown if row.startswith("[")] == wanted


@pytest.mark.parametrize("row", ["# x", "## 1999-01-01", "===", "---", "```", "~~~", "- ```"])
def test_no_line_of_a_message_is_a_part_of_the_outline(row):
    text = read("a.json", json.dumps(chat(f"first\n{row}\nlast", "second")))
    headings, fences = outline_markdown(text, 1200)
    assert [heading.title for heading in headings] == ["2026-01-01"]
    assert fences == {}
    assert row in text


@pytest.mark.parametrize("name", ["a.json", "a.ipynb", "a.html", "a.srt", "a.txt"])
def test_a_western_encoding_is_told_in_every_format(name):
    cell = {"cell_type": "markdown", "source": ["caf\u00e9"]}
    content = {
        "a.json": json.dumps(chat("caf\u00e9"), ensure_ascii=False),
        "a.ipynb": notebook(cell),
        "a.srt": "1\n00:00:01,000 --> 00:00:02,000\ncaf\u00e9\n",
    }
    result = converted(content.get(name, "a caf\u00e9").encode("cp1252"), name, MOST)
    assert "caf\u00e9" in result.text
    assert "Windows-1252" in result.remark


# -- Word ----------------------------------------------------------------------------------

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'


def paragraph(text: str, style: str = "") -> str:
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def word(body: str, *, head: str = "", title: str = "Plan") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "word/document.xml",
            f'<?xml version="1.0"?>{head}<w:document {W}><w:body>{body}</w:body></w:document>',
        )
        archive.writestr(
            "docProps/core.xml",
            f'<c xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title></c>',
        )
    return buffer.getvalue()


def test_a_word_document_is_its_paragraphs_headings_and_tables():
    cell = f"<w:tc>{paragraph('a')}</w:tc>"
    item = "<w:p><w:pPr><w:numPr/></w:pPr><w:r><w:t>item</w:t></w:r></w:p>"
    body = paragraph("Rotating keys", "Heading1") + paragraph("Do it &amp; tell.") + item
    result = converted(word(f"{body}<w:tbl><w:tr>{cell}{cell}</w:tr></w:tbl>"), "a.docx", MOST)
    assert result.text == "# Rotating keys\n\nDo it & tell.\n\n- item\na  | a  | \n"
    assert result.title == "Plan"


LAUGHS = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;">]>'


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PK\x03\x04 broken", "not a Word document"),
        (b"plain text", "not a Word document"),
        (word("<w:p>"), "not a Word document"),
        (word("&c;", head=LAUGHS), "declares a document type"),
        (word("<w:p>" * 2_000 + "</w:p>" * 2_000), "nested too deeply"),
        (word(paragraph(" " * 20_000_000)), "unpacks to more than 16 MB"),
    ],
    ids=["broken", "text", "cut", "billion laughs", "deep", "bomb"],
)
def test_a_hostile_word_document_is_refused_in_a_sentence(data, reason):
    with pytest.raises(NotText) as caught:
        converted(data, "a.docx", 1024 * 1024)
    assert reason in str(caught.value)
    assert len(data) < 100_000


def test_a_part_that_unpacks_without_a_limit_is_not_unpacked(monkeypatch):
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        data = packed(kind)
        monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked"))
        with pytest.raises(NotText, match="packed in a way"):
            converted(data, "a.docx", MOST)
        monkeypatch.undo()


def packed(kind: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        archive.writestr("word/document.xml", f"<w:document {W}>{paragraph('text')}</w:document>")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_no_damage_to_an_archive_is_more_than_a_sentence(kind):
    data = packed(kind)
    for place in range(len(data)):
        for value in (0, 1, 9, 14, 99, 255):
            damaged = data[:place] + bytes([value]) + data[place + 1 :]
            try:
                assert read("a.docx", damaged) is not None
            except NotText as error:
                assert "Word document" in str(error)
        with pytest.raises(NotText):
            read("a.docx", data[:place])


ODD: tuple[Any, ...] = (1.0, -1, 10**30, True, None, "x", [], {}, [[]], {"a": {}}, ["x", 1, None])


def test_any_type_of_a_notebooks_values_is_read_or_refused():
    cells = [{**CELLS[0], "cell_type": "heading", "level": 1}, *CELLS]
    whole = json.loads(notebook(*cells, worksheets=[{"cells": cells}]))
    for place in places(whole):
        for odd in ODD:
            changed = json.loads(json.dumps(whole))
            inner = changed
            for step in place[:-1]:
                inner = inner[step]
            inner[place[-1]] = odd
            try:
                converted(json.dumps(changed).encode(), "a.ipynb", MOST)
            except NotText as error:
                assert "not a Jupyter notebook" in str(error)


def places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The steps to every value inside of a JSON value."""
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    inner = [
        (step, places(part, (*above, step)) if isinstance(part, dict | list) else [])
        for step, part in steps
    ]
    return [place for step, below in inner for place in ((*above, step), *below)]


@pytest.mark.parametrize(
    "encoding", ["punycode", "idna", "utf-7", "rot13", "zlib", "unicode_escape"]
)
def test_a_page_in_no_encoding_of_the_web_is_read_as_any_text(encoding):
    assert read("a.html", f"<meta charset={encoding}><p>Grüße +AGE- \\x41") == "Grüße +AGE- \\x41\n"


@pytest.mark.parametrize(
    ("encoding", "text"),
    [("windows-1251", "привет"), ("Shift_JIS", "日本語"), ("big5", "中文"), ("euc-kr", "한국")],
)
def test_a_page_in_an_encoding_of_the_web_is_read_in_it(encoding, text):
    page = f"<meta charset={encoding}><p>{text}".encode(encoding)
    assert read("a.html", page) == f"{text}\n"


DEFECTS = (
    *(TypeError, ValueError, KeyError, IndexError, RecursionError, OverflowError, MemoryError),
    *(UnicodeError, AttributeError, AssertionError, ZeroDivisionError, EOFError),
)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_of_a_reader_is_one_sentence_about_one_file(defect, monkeypatch):
    def fail(*_: object) -> None:
        raise defect

    monkeypatch.setattr("plait.writing.formats._converter", lambda _: fail)
    with pytest.raises(SourceError, check=has_code("unreadable_format")):
        converted(b"x", "a.ipynb", MOST)


def test_an_archive_without_a_text_is_no_word_document():
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(NotText, check=has_code("not_text")):
        converted(buffer.getvalue(), "a.docx", MOST)


def test_a_text_that_grows_beyond_the_limit_is_refused():
    with pytest.raises(NotText, check=has_code("too_large")):
        converted(word(paragraph("word " * 20_000)), "a.docx", 90_000)


# -- PDF -----------------------------------------------------------------------------------


def small_pdf(text: str) -> bytes:
    """A PDF of one page, written by hand."""
    stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        b"/Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    start = len(out)
    head = b"xref\n0 6\n0000000000 65535 f \n"
    return (
        out + head + table + b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % start
    )


needs_pypdf = pytest.mark.skipif(find_spec("pypdf") is None, reason="needs the extra pdf (pypdf)")


@needs_pypdf
def test_a_pdf_is_a_section_for_each_page():
    assert read("a.pdf", small_pdf("Rotate the keys")) == "## Page 1\n\nRotate the keys\n\n"


@needs_pypdf
@pytest.mark.parametrize("data", [b"%PDF-1.4\nbroken", small_pdf("")], ids=["broken", "pictures"])
def test_a_pdf_without_text_is_refused_in_a_sentence(data):
    with pytest.raises(NotText, check=has_code("not_text")):
        read("a.pdf", data)


@needs_pypdf
def test_a_pdf_that_takes_too_long_is_given_up(monkeypatch):
    monkeypatch.setattr(pdf, "_CHILD", "while True: pass")
    monkeypatch.setattr(pdf, "SECONDS", 0.2)
    with pytest.raises(NotText, match="took more than"):
        read("a.pdf", small_pdf("x"))


def test_a_missing_package_is_named_with_the_command(monkeypatch):
    monkeypatch.setattr(pdf, "find_spec", lambda _: None)
    with pytest.raises(NotText, check=has_code("needs_pypdf")):
        read("a.pdf", small_pdf("x"))
    with pytest.raises(NotText, check=has_code("not_text")):
        read("a.pdf", "not a PDF at all")


# -- code ----------------------------------------------------------------------------------

CODE = {
    "python": (
        '@deco\ndef a(x):\n    """\n    def no(): ...\n    """\n\n'
        "class B:\n    async def c(self): ...\n",
        [(1, "a", 1), (1, "B", 7), (2, "c", 8)],
    ),
    "javascript": (
        "export default async function go(a) {\n}\nclass K {\n  constructor(a) {\n    if (a) {\n"
        "    }\n  }\n}\nconst f = async (x) => x;\nlet s = `\nfunction no() {\n`;\n"
        "type T = string;\n",
        [(1, "go", 1), (1, "K", 3), (2, "constructor", 4), (1, "f", 9), (1, "T", 13)],
    ),
    "go": ("// Doc.\nfunc (s *Srv) Run() error {\n}\ntype Srv struct {\n}\n",
           [(1, "Run", 1), (1, "Srv", 4)]),
    "rust": ("#[derive(Debug)]\npub struct A<T>;\nimpl<T> A<T> {\n    pub async fn new() {}\n}\n",
             [(1, "A", 1), (1, "impl<T> A<T>", 3), (2, "new", 4)]),
    "java": ("public class A {\n    int x = 1;\n    public static void main(String[] a) {\n"
             "        return foo(x);\n    }\n}\n", [(1, "A", 1), (2, "main", 3)]),
    "c": ("static int foo(int a, char *b)\n{\n  if (a) {\n  }\n  bar(a);\n}\nstruct s {\n};\n",
          [(1, "foo", 1), (1, "s", 7)]),
    "ruby": ("module A\n  def x?(a)\n  end\nend\n", [(1, "A", 1), (2, "x?", 2)]),
    "php": ("<?php\nclass A {\n  public function b() {}\n}\n", [(1, "A", 2), (2, "b", 3)]),
    "shell": ("foo() {\n}\nfunction bar {\n}\n", [(1, "foo", 1), (1, "bar", 3)]),
    "sql": ("-- create table no\n\ncreate table if not exists a.b (\n);\n", [(1, "a.b", 3)]),
}  # fmt: skip


@pytest.mark.parametrize("language", CODE)
def test_definitions_are_the_headings_of_code(language):
    code, expected = CODE[language]
    headings, _ = outline_code(language, code, 1200)
    shown = [(row.level, row.title, code.count("\n", 0, row.start) + 1) for row in headings]
    assert shown == expected


HIDING = {
    "shell": [
        "# don't\n", "x=1 # it's\n",
        "cat <<END\nI don't\nEND\n", "echo \\'\n", "echo ${#a} don't\n",
        "cut -d' ' -f1\n", "awk -F':' 'BEGIN {\nno() {\n}'\n", "echo '\n",
    ],
    "javascript": [
        "const a = /`/;\n", "x.replace(/[`/]/g, '')\n", "return /`'\"/.test(x)\n", "f(a, /\\/`/)\n",
        "let a = b / c / d;\n", "let t = `never closed\n", "y = a ? /`/ : `\nfunction no() {\n`\n",
        "xs.map(x => /`/.test(x))\n", "  /`/.test(x)\n", "return <b>a</b>;\n", "a = '\\'';\n",
    ],
    "go": ["x := '`'\n", "// don't `\n", "y := '\\''\n", "z := `never closed\n"],
    "sql": ["-- don't\n", "select 'never closed\n", "select 'it''s\ncreate table no (';\n"],
}  # fmt: skip
AFTER = {
    "shell": "after() {\n}\n",
    "javascript": "function after() {\n}\n",
    "go": "func after() {\n}\n",
    "sql": "create table after (\n);\n",
}


@pytest.mark.parametrize(
    ("language", "before"), [(name, code) for name, codes in HIDING.items() for code in codes]
)
def test_a_lone_quote_hides_no_definition(language, before):
    code = before + AFTER[language] + "\n" * 20_000 + AFTER[language].replace("after", "last")
    headings, _ = outline_code(language, code, 1200)
    assert [row.title for row in headings] == ["after", "last"]


def test_every_language_is_tried_and_has_an_ending():
    assert set(LANGUAGES.values()) == CODE.keys()


@pytest.mark.parametrize("pattern", ["cod", "Chats", "pdfs", "[a", "*.md["])
def test_a_pattern_with_a_typing_error_is_refused_before_anything_is_read(
    memory, tmp_path, pattern
):
    (tmp_path / "a.md").write_text("A note.", encoding="utf-8")
    for given in ({"patterns": [pattern]}, {"include": ["pdf", pattern]}):
        with pytest.raises(UsageError, match=re.escape(repr(pattern))):
            memory.ingest(tmp_path, **given)
    assert memory.stats().doc_count == 0


@pytest.mark.parametrize("pattern", ["Makefile", "README", "[ab].md", "todo", "code", "*.cod"])
def test_a_word_may_be_the_name_of_a_file(memory, tmp_path, pattern):
    memory.ingest(tmp_path, patterns=[pattern])


def test_words_stand_for_patterns_and_code_is_not_among_the_usual_ones():
    assert "*.py" in expanded(["code"])
    assert expanded(["*.md", "pdf"]) == ("*.md", "*.pdf")
    usual = set(PATTERN_GROUPS["notes"])
    assert {"*.md", "*.html", "*.ipynb", "*.docx", "*.srt"} <= usual
    assert not usual & {*PATTERN_GROUPS["code"], "*.pdf", "*.json"}
