"""The baseline: an agent that greps for each word of the question."""

from collections.abc import Sequence

from plait.evaluate.collections import Question
from plait.evaluate.metrics import DEEP, Answered
from plait.text import parse
from plait.text.normal_form import composed
from plait.types import Document


def rank_by_grep(documents: Sequence[Document], questions: Sequence[Question]) -> list[Answered]:
    """Rank documents by how many of the question's words they contain, then by how often.

    Stop words are left out; a word also counts inside another word.
    """
    texts = [f"{document.title}\n{document.text}".lower() for document in documents]
    keys = [document.key or "" for document in documents]
    names = list(map(composed, keys))
    counts: dict[str, dict[int, int]] = {}
    answered = []
    for question in questions:
        wanted = {word.lower() for word in parse(question.text).words}
        scores: dict[int, tuple[int, int]] = {}
        for word in wanted:
            if word not in counts:
                counts[word] = {
                    place: body.count(word) for place, body in enumerate(texts) if word in body
                }
            for place, times in counts[word].items():
                if question.conv is None or names[place].startswith(f"{question.conv}/"):
                    distinct, total = scores.get(place, (0, 0))
                    scores[place] = distinct + 1, total + times
        order = sorted(scores, key=lambda place: (*(-n for n in scores[place]), keys[place]))
        ranking = [keys[place] for place in order[:DEEP]]
        answered.append(Answered(question, ranking, ranking))
    return answered
