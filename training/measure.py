"""Measure nDCG@10 of a trained table, alone and fused with keyword scores, and across languages.

A quick check during training, before rows are rounded; ``plait eval`` gives the real figures.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from train import Student

TARGETS = ("de", "es", "zh", "tr", "ru", "ar", "hi", "th")
KEYWORD_WEIGHT = 0.6


def lines(path: Path) -> list[dict[str, Any]]:
    """Read a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def judged(folder: Path) -> dict[str, dict[str, float]]:
    """Return the relevant documents of each query."""
    relevant: dict[str, dict[str, float]] = {}
    for line in (folder / "qrels.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        query, document, score = line.split("\t")
        if float(score) > 0:
            relevant.setdefault(query, {})[document] = float(score)
    return relevant


def vectors(
    student: Student, tokenizer: Tokenizer, texts: list[str], weight: torch.Tensor, device: str
) -> torch.Tensor:
    """Return the vectors of whole texts of any length."""
    batches = []
    for start in range(0, len(texts), 512):
        batch = [
            [number for number in encoding.ids if number > 1]
            for encoding in tokenizer.encode_batch(
                texts[start : start + 512], add_special_tokens=False
            )
        ]
        length = max(1, max(map(len, batch)))
        numbers = torch.zeros((len(batch), length), dtype=torch.int32)
        for row, ids in enumerate(batch):
            numbers[row, : len(ids)] = torch.tensor(ids, dtype=torch.int32)
        batches.append(student(numbers.to(device), weight))
    return torch.cat(batches)


def ndcg(ranked: list[str], relevant: dict[str, float]) -> float:
    """Return nDCG of the first ten."""
    gain = sum(
        relevant.get(name, 0.0) / math.log2(place + 2) for place, name in enumerate(ranked[:10])
    )
    ideal = sorted(relevant.values(), reverse=True)[:10]
    return gain / sum(score / math.log2(place + 2) for place, score in enumerate(ideal))


@torch.inference_mode()
def measure(student: Student, tokenizer: Tokenizer, root: Path, device: str) -> dict[str, Any]:
    """Measure each collection that has keyword scores, then each language."""
    report: dict[str, Any] = {}
    for path in sorted(root.glob("*/keyword.json")):
        report[path.parent.name] = _collection(student, tokenizer, path.parent, device)
    names = [name for name in report]
    for column in ("vector", "fused"):
        report[f"mean {column}"] = round(sum(report[n][column] for n in names) / len(names), 4)
    corpus = lines(root / "xquad_en" / "corpus.jsonl")
    ids = [row["_id"] for row in corpus]
    passages = vectors(
        student, tokenizer, [row["text"] for row in corpus], student.passage_weight, device
    )
    relevant = judged(root / "xquad_en")
    for language in TARGETS:
        asked = lines(root / f"xquad_{language}" / "queries.jsonl")
        questions = vectors(
            student, tokenizer, [row["text"] for row in asked], student.query_weight, device
        )
        best = (questions @ passages.T).topk(10, dim=1).indices.tolist()
        hits = [
            any(ids[place] in relevant[row["_id"]] for place in places)
            for row, places in zip(asked, best, strict=True)
        ]
        report[f"R@10 {language}"] = round(sum(hits) / len(hits), 4)
    return report


def _collection(
    student: Student, tokenizer: Tokenizer, folder: Path, device: str
) -> dict[str, float]:
    corpus = lines(folder / "corpus.jsonl")
    ids = [row["_id"] for row in corpus]
    place_of = {name: place for place, name in enumerate(ids)}
    texts = [f"{row.get('title') or ''}\n{row['text']}".strip() for row in corpus]
    passages = vectors(student, tokenizer, texts, student.passage_weight, device)
    keyword = json.loads((folder / "keyword.json").read_text(encoding="utf-8"))
    relevant = judged(folder)
    asked = [row for row in lines(folder / "queries.jsonl") if row["_id"] in keyword]
    questions = vectors(
        student, tokenizer, [row["text"] for row in asked], student.query_weight, device
    )
    similar = questions @ passages.T
    scores = {"vector": 0.0, "fused": 0.0}
    for number, row in enumerate(asked):
        cosines = similar[number]
        if row.get("conv"):
            inside = [
                place for name, place in place_of.items() if name.startswith(row["conv"] + "/")
            ]
            mask = torch.full_like(cosines, -2.0)
            mask[inside] = cosines[inside]
            cosines = mask
        best = cosines.topk(min(100, len(ids))).indices.tolist()
        values = cosines.tolist()
        by_vector = [ids[place] for place in best if values[place] > -2]
        bm25 = dict(keyword[row["_id"]])
        union = dict.fromkeys([*bm25, *by_vector])
        top = max(bm25.values(), default=1.0) or 1.0
        near = max((values[place_of[name]] for name in union), default=1.0) or 1.0
        fused = {
            name: KEYWORD_WEIGHT * bm25.get(name, 0.0) / top
            + (1 - KEYWORD_WEIGHT) * max(0.0, values[place_of[name]]) / near
            for name in union
        }
        ranked = sorted(fused, key=lambda name: -fused[name])
        scores["vector"] += ndcg(by_vector, relevant[row["_id"]])
        scores["fused"] += ndcg(ranked, relevant[row["_id"]])
    return {name: round(value / len(asked), 4) for name, value in scores.items()}
