"""Read PDF files with pypdf (extra ``pdf``), each page as a section.

pypdf runs in a process of its own, with a time limit and a memory limit: a PDF is a program for its
reader, and one that is made for it can keep any reader busy.
"""

import json
import subprocess
import sys
from importlib.util import find_spec

from plait.errors import PIP
from plait.writing.formats.encodings import Converted, NotText

NEEDS_PYPDF = f"a PDF needs the package pypdf. Run in a clone of plait: {PIP} install '.[pdf]'"
SECONDS = 60
_MOST_MEMORY = 2 * 1024**3


def convert_pdf(data: bytes, name: str, max_bytes: int) -> Converted:
    """Return the text of a PDF, a heading for each page. Its pages have no lines.

    Raises:
        NotText: pypdf is not installed, or the file is damaged, encrypted, without text, or takes
            too long.
    """
    if not data[:1024].lstrip().startswith(b"%PDF"):
        raise NotText("not a PDF, although it is named so", subject=name)
    if find_spec("pypdf") is None:
        raise NotText(NEEDS_PYPDF, code="needs_pypdf", subject=name)
    command = [sys.executable, "-I", "-c", _CHILD, str(max_bytes)]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise NotText(
            f"its pages took more than {SECONDS} seconds to read", subject=name
        ) from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = {}
    if done.returncode or "pages" not in answer:
        raise NotText("a damaged or encrypted PDF", subject=name)
    pages = [page.strip() for page in answer["pages"]]
    if not any(pages):
        raise NotText("a PDF without text: its pages are pictures", subject=name)
    sections = [
        f"## Page {number}\n\n{page}\n\n" for number, page in enumerate(pages, start=1) if page
    ]
    return Converted("".join(sections), title=" ".join(answer["title"].split())[:200])


_CHILD = f"""
import io, json, sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({_MOST_MEMORY}, {_MOST_MEMORY}))
except (ImportError, ValueError, OSError):
    pass
import pypdf
reader = pypdf.PdfReader(io.BytesIO(sys.stdin.buffer.read()))
left = int(sys.argv[1])
pages = []
for page in reader.pages:
    text = page.extract_text().replace("\\0", "").encode("utf-8", "replace").decode()
    pages.append(text[:left + 1])
    left -= len(text)
    if left < 0:
        break
title = (reader.metadata or {{}}).get("/Title")
title = title.encode("utf-8", "replace").decode() if isinstance(title, str) else ""
sys.stdout.write(json.dumps({{"pages": pages, "title": title}}))
"""
