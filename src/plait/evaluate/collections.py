"""Read a collection: documents, questions, and which documents answer them.

Its folder has ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``,
``text``, optionally ``conv`` and ``category``) and ``qrels.tsv`` (query, document, grade).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plait.errors import UsageError, lacks_descriptors, too_many_files
from plait.types import Document


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
    """Documents, and the questions that they answer."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


def load_collection(folder: str) -> Collection:
    """Read a collection.

    Raises:
        UsageError: A file is absent or malformed. The code is "bad_collection", the subject the
            file, with the number of the line.
    """
    place = Path(folder)
    documents = tuple(load_documents(folder))
    grades = _grades(place / "qrels.tsv", {document.key for document in documents})
    questions = tuple(_questions(place / "queries.jsonl", grades))
    if not questions:
        raise _bad(folder, f"No query of {folder} has an answer in its qrels.tsv.")
    convs = {question.conv for question in questions if question.conv}
    return Collection(
        place.resolve().name,
        tuple(row._replace(session=_conv(row.key, convs) or row.session) for row in documents),
        questions,
    )


def _conv(key: str | None, convs: set[str]) -> str | None:
    """Return the conversation of a document: the longest matching prefix of its key."""
    rest = key or ""
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
    seen: set[str] = set()
    for number, row in _rows(path):
        key = _name(path, number, row, seen)
        title = _field(path, number, row, "title", "")
        body = _field(path, number, row, "text", "")
        # Not a note: its title would come from its key, which is the answer in some collections.
        text = body if body.strip() else title
        # A conversation of its own, unless the questions name one: it has no neighbours.
        yield Document(key=key, kind="message", session=key, title=title, text=text)


def _questions(path: Path, grades: Mapping[str, dict[str, float]]) -> Iterator[Question]:
    seen: set[str] = set()
    for number, row in _rows(path):
        key = _name(path, number, row, seen)
        text = _field(path, number, row, "text")
        if grades.get(key):
            conv = _field(path, number, row, "conv", "")
            category = _field(path, number, row, "category", "")
            yield Question(key, text, conv or None, category or None, grades[key])
    for key in grades:
        if key not in seen:
            raise _bad(str(path), f"{path} has no query '{key}', but qrels.tsv names it.")


def _grades(path: Path, known: set[str | None]) -> dict[str, dict[str, float]]:
    """Return the grades of the answers by question; a document of grade 0 is not an answer."""
    grades: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        columns = line.split("\t")
        if number == 1 and columns[-1] == "score":
            continue
        try:
            query, document, grade = columns[0], columns[1], float(columns[2])
        except (IndexError, ValueError) as error:
            raise _bad_line(
                path, number, "expected query-id, corpus-id and a number, separated by tabs."
            ) from error
        if document not in known:
            raise _bad_line(path, number, f"corpus.jsonl has no document '{document}'.")
        answers = grades.setdefault(query, {})
        if grade > 0:
            answers[document] = grade
    return grades


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _bad_line(path, number, f"not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise _bad_line(path, number, "expected an object in braces.")
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
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


def _name(path: Path, number: int, row: Mapping[str, Any], seen: set[str]) -> str:
    key = _field(path, number, row, "_id")
    if key in seen:
        raise _bad_line(path, number, f"the _id '{key}' occurs twice.")
    seen.add(key)
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
        raise _bad_line(path, number, f"'{name}' must be a text, not {json.dumps(value)}.")
    if default is None and not str(value).strip():
        raise _bad_line(path, number, f"'{name}' is empty.")
    return str(value)


def _bad(subject: str, message: str) -> UsageError:
    return UsageError(message, code="bad_collection", subject=subject)


def _bad_line(path: Path, number: int, message: str) -> UsageError:
    place = f"{path}:{number}"
    return _bad(place, f"{place}: {message}")
