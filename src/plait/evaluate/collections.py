"""Read a collection: documents, questions, and which documents answer them.

Its folder has ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``,
``text``, optionally ``conv`` and ``category``) and ``qrels.tsv`` (query, document, grade). A
query with ``"answerable": false`` has no answer: the memory should say nothing. Instead of
``corpus.jsonl``, the documents can be the files of a folder of notes, named by their paths. Names
are read in the form in which a memory stores them, with an accented letter as one character.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from plait.errors import SourceError, UsageError, lacks_descriptors, too_many_files
from plait.text import clean
from plait.text.normal_form import composed
from plait.types import Document
from plait.types.records import NamedTuple
from plait.writing.sources import Skipped, read_file, walk

MOST_GRADE = 1_000_000
MOST_SHOWN = 80  # characters of a wrong value


class Question(NamedTuple):
    """A question, with the grades of the documents that answer it.

    ``conv`` limits the search to one conversation: documents whose key starts with it.
    """

    id: str
    text: str
    conv: str | None
    category: str | None
    grades: dict[str, float]


class Collection(NamedTuple):
    """Documents, the questions that they answer, and questions that they do not answer."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]
    unanswerable: tuple[Question, ...] = ()


def load_collection(folder: str, notes: str | None = None) -> Collection:
    """Read a collection.

    Args:
        folder: The collection.
        notes: A folder of files that are the documents, instead of ``corpus.jsonl``.

    Raises:
        SourceError: There is no folder ``notes``.
        UsageError: A file is absent or malformed. The code is "bad_collection", the subject the
            file, with the number of the line.
    """
    place = Path(folder)
    documents = tuple(load_documents(folder) if notes is None else load_notes(notes))
    source = notes or "corpus.jsonl"
    grades = _grades(place / "qrels.tsv", [document.key or "" for document in documents], source)
    asked = list(_questions(place / "queries.jsonl", grades))
    questions = tuple(question for question in asked if question.grades)
    if not questions:
        raise _bad(folder, f"No query of {folder} has an answer in its qrels.tsv.")
    convs = {question.conv for question in asked if question.conv}
    return Collection(
        place.resolve().name,
        tuple(row._replace(session=_conv(row.key, convs) or row.session) for row in documents),
        questions,
        tuple(question for question in asked if not question.grades),
    )


def _conv(key: str | None, convs: set[str]) -> str | None:
    """Return the conversation of a document: the longest matching prefix of its key."""
    rest = composed(key or "")
    while "/" in rest:
        rest = rest.rpartition("/")[0]
        if rest in convs:
            return rest
    return None


def load_documents(folder: str) -> Iterator[Document]:
    """Yield the documents of a collection; a document without text gets its title as text.

    Raises:
        UsageError: ``corpus.jsonl`` is absent or malformed.
    """
    path = Path(folder) / "corpus.jsonl"
    seen: dict[str, str] = {}
    for number, row in _rows(path):
        key = _name(path, number, row, seen)
        title = _field(path, number, row, "title", "")
        body = _field(path, number, row, "text", "")
        # Not a note: its title would come from its key, which is the answer in some collections.
        text = body if body.strip() else title
        # A conversation of its own, unless the questions name one: it has no neighbours.
        yield Document(key=key, kind="message", session=key, title=title, text=text)


def load_notes(folder: str) -> Iterator[Document]:
    """Yield the files that ``ingest`` would read, with their paths below the folder as keys.

    Raises:
        SourceError: There is no such folder.
    """
    for file in walk(folder):
        if isinstance(file, Skipped):
            continue
        try:
            text = read_file(file).text
        except SourceError:
            continue  # as ``ingest`` does
        yield Document(key=file.key, kind="file", text=text)


def _questions(path: Path, grades: Mapping[str, dict[str, float]]) -> Iterator[Question]:
    seen: dict[str, str] = {}
    for number, row in _rows(path):
        key = _name(path, number, row, seen)
        text = _field(path, number, row, "text")
        answerable = row.get("answerable", True)
        if not isinstance(answerable, bool):
            raise _bad_line(path, number, "'answerable' must be true or false.")
        if grades.get(key) and not answerable:
            message = f"qrels.tsv names an answer to '{key}', which is not answerable."
            raise _bad_line(path, number, message)
        if grades.get(key) or not answerable:
            conv = composed(_field(path, number, row, "conv", ""))
            category = _field(path, number, row, "category", "")
            yield Question(key, text, conv or None, category or None, grades.get(key, {}))
    for key in grades:
        if key not in seen:
            raise _bad(str(path), f"{path} has no query '{key}', but qrels.tsv names it.")


def _grades(path: Path, keys: Sequence[str], source: str) -> dict[str, dict[str, float]]:
    """Return the grades of the answers by question; a document of grade 0 is not an answer."""
    # Keys of files stay as the file system spells them.
    known = {composed(key): key for key in keys} | {key: key for key in keys}
    grades: dict[str, dict[str, float]] = {}
    judged: dict[tuple[str, str], float] = {}
    for number, line in _lines(path):
        columns = line.split("\t")
        if number == 1 and columns[-1] == "score":
            continue
        try:
            query, document, grade = composed(columns[0]), columns[1], float(columns[2])
        except (IndexError, ValueError) as error:
            raise _bad_line(
                path, number, "expected query-id, corpus-id and a number, separated by tabs."
            ) from error
        key = known.get(document) or known.get(composed(document))
        if key is None:
            raise _bad_line(path, number, f"{source} has no document '{document}'.")
        # Sums of larger ones have no quotient, and neither infinite nor undefined ones have a sum.
        if not abs(grade) <= MOST_GRADE:
            message = f"the grade is {columns[2].strip()}; choose a number up to {MOST_GRADE:,}."
            raise _bad_line(path, number, message)
        if judged.setdefault((query, key), grade) != grade:
            message = f"'{document}' has another grade for '{query}' in an earlier line."
            raise _bad_line(path, number, message)
        answers = grades.setdefault(query, {})
        if grade > 0:
            answers[key] = grade
    return grades


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _bad_line(path, number, f"not JSON ({error}).") from error
        except RecursionError as error:
            raise _bad_line(path, number, "its brackets are nested too deeply.") from error
        if not isinstance(row, dict):
            raise _bad_line(path, number, "expected an object in braces.")
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
        # A pipe or device in place of a file would never end.
        if path.exists() and not path.is_file():
            raise _bad(str(path), f"{path} is not a file.")
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except OSError as error:
        if lacks_descriptors(error):
            raise too_many_files(str(path)) from error
        raise _bad(
            str(path),
            f"Cannot read {path} ({error.strerror}). A collection is a folder with corpus.jsonl, "
            "queries.jsonl and qrels.tsv.",
        ) from error
    except UnicodeDecodeError as error:
        raise _bad(str(path), f"{path} is not UTF-8 text ({error.reason}).") from error


def _name(path: Path, number: int, row: Mapping[str, Any], seen: dict[str, str]) -> str:
    """Return the id of a row as it is stored; ``seen`` maps the earlier ones to their spelling."""
    given = _field(path, number, row, "_id")
    key = composed(given)
    if key in seen:
        ways = "" if seen[key] == given else ", with its accents written in two ways"
        raise _bad_line(path, number, f"the _id '{key}' occurs twice{ways}.")
    seen[key] = given
    return key


def _field(
    path: Path, number: int, row: Mapping[str, Any], name: str, default: str | None = None
) -> str:
    """Return a field's text; without a default it must be present and not empty."""
    value = row.get(name)
    if value is None and default is not None:
        return default
    # Ids and categories are often written as numbers.
    if not isinstance(value, str | int) or isinstance(value, bool):
        shown = json.dumps(value)
        shown = shown if len(shown) <= MOST_SHOWN else f"{shown[:MOST_SHOWN]}…"
        raise _bad_line(path, number, f"'{name}' must be a text, not {shown}.")
    text = str(value)
    if default is None and not text.strip():
        raise _bad_line(path, number, f"'{name}' is empty.")
    if name == "_id" and clean(text) != text:
        # It would be stored under another name, and no answer would be right.
        raise _bad_line(path, number, "'_id' has a character that cannot be stored.")
    return text


def _bad(subject: str, message: str) -> UsageError:
    return UsageError(message, code="bad_collection", subject=subject)


def _bad_line(path: Path, number: int, message: str) -> UsageError:
    place = f"{path}:{number}"
    return _bad(place, f"{place}: {message}")
