"""Reading a collection: documents, questions, and which documents answer them.

A folder holds ``corpus.jsonl`` (``_id``, ``title``, ``text``), ``queries.jsonl`` (``_id``,
``text``, perhaps ``conv`` and ``category``) and ``qrels.tsv`` (query, document, grade).
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plait.errors import UsageError
from plait.types import Document


class Question(NamedTuple):
    """What is asked, and which documents answer it how well. ``conv`` narrows where to look."""

    id: str
    text: str
    conv: str | None
    category: str | None
    grades: dict[str, float]


class Collection(NamedTuple):
    """Documents, and the questions about them that have an answer."""

    name: str
    documents: tuple[Document, ...]
    questions: tuple[Question, ...]


def load(folder: str) -> Collection:
    """Read a collection.

    Raises:
        UsageError: A file is absent or malformed; the message names it and the line.
    """
    place = Path(folder)
    documents = tuple(load_documents(folder))
    grades = _grades(place / "qrels.tsv", {document.key for document in documents})
    questions = tuple(_questions(place / "queries.jsonl", grades))
    if not questions:
        raise UsageError(f"No query of {folder} has an answer in its qrels.tsv.")
    convs = {question.conv for question in questions if question.conv}
    return Collection(
        place.resolve().name,
        tuple(document._replace(session=_conv(document.key, convs)) for document in documents),
        questions,
    )


def _conv(key: str | None, convs: set[str]) -> str | None:
    """The conversation that a document is a part of: questions narrow by the start of its name."""
    rest = key or ""
    while "/" in rest:
        rest = rest.rpartition("/")[0]
        if rest in convs:
            return rest
    return None


def load_documents(folder: str) -> Iterator[Document]:
    """The documents of a collection; the text of one that has only a title is its title.

    Raises:
        UsageError: ``corpus.jsonl`` is absent or malformed.
    """
    path = Path(folder) / "corpus.jsonl"
    seen: set[str] = set()
    for number, row in _rows(path):
        key = _name(path, number, row, seen)
        title = _field(path, number, row, "title", "")
        body = _field(path, number, row, "text", "")
        # A note would get its title from its key, and in some collections that is the answer.
        yield Document(key=key, kind="message", title=title, text=body if body.strip() else title)


def _questions(path: Path, grades: Mapping[str, dict[str, float]]) -> Iterator[Question]:
    seen: set[str] = set()
    for number, row in _rows(path):
        key = _name(path, number, row, seen)
        asked = _field(path, number, row, "text")
        if grades.get(key):
            conv = _field(path, number, row, "conv", "")
            category = _field(path, number, row, "category", "")
            yield Question(key, asked, conv or None, category or None, grades[key])
    for key in grades:
        if key not in seen:
            raise UsageError(f"{path} has no query '{key}', but qrels.tsv beside it names one.")


def _grades(path: Path, known: set[str | None]) -> dict[str, dict[str, float]]:
    """What answers what; a grade of 0 says that a document was looked at and does not."""
    found: dict[str, dict[str, float]] = {}
    for number, line in _lines(path):
        columns = line.split("\t")
        if number == 1 and columns[-1] == "score":
            continue
        try:
            query, document, grade = columns[0], columns[1], float(columns[2])
        except (IndexError, ValueError) as error:
            raise UsageError(
                f"{path}:{number}: expected query-id, corpus-id and a number, with tabs between."
            ) from error
        if document not in known:
            raise UsageError(f"{path}:{number}: corpus.jsonl has no document '{document}'.")
        answers = found.setdefault(query, {})
        if grade > 0:
            answers[document] = grade
    return found


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}:{number}: not JSON ({error}).") from error
        if not isinstance(row, dict):
            raise UsageError(f"{path}:{number}: expected an object in braces.")
        yield number, row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except OSError as error:
        raise UsageError(
            f"Cannot read {path} ({error.strerror}). A collection is a folder with corpus.jsonl, "
            "queries.jsonl and qrels.tsv."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text ({error.reason}).") from error


def _name(path: Path, number: int, row: Mapping[str, Any], seen: set[str]) -> str:
    key = _field(path, number, row, "_id")
    if key in seen:
        raise UsageError(f"{path}:{number}: the _id '{key}' occurs twice.")
    seen.add(key)
    return key


def _field(
    path: Path, number: int, row: Mapping[str, Any], name: str, default: str | None = None
) -> str:
    """A field's text; without a default it must be there and say something."""
    value = row.get(name)
    if value is None and default is not None:
        return default
    # Ids and categories are often written as numbers.
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise UsageError(f"{path}:{number}: '{name}' must be a text, not {json.dumps(value)}.")
    if default is None and not str(value).strip():
        raise UsageError(f"{path}:{number}: '{name}' is empty.")
    return str(value)
