"""Choose keyword weights per kind of corpus, leaving one collection out at a time.

    python benchmarks/weights.py exact SOURCE TARGET   # a collection of exact questions
    python benchmarks/weights.py choose KINDS.json EVAL.json …

``exact`` makes questions out of a collection's own documents: a name that is in one document only
(a function's, a number, a rare word) and has to be found. ``choose`` reads what ``plait eval --json
--weights …`` printed, and a file that names the collections of each kind. For every collection it
takes the weight with the best mean nDCG@10 on the other collections of its kind, and compares that
weight with the default on the collection that was left out.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

DEFAULT_WEIGHT = 0.65
QUESTIONS = 300
# A name with a digit, an underscore or a capital inside: what people paste, not what they ask.
NAME = re.compile(r"\b(?=\w*[\d_]|\w+[A-Z])[A-Za-z0-9_]{4,}\b")


def make_exact(source: Path, target: Path) -> None:
    """Write a collection whose questions are names that exactly one document contains."""
    documents = [json.loads(line) for line in (source / "corpus.jsonl").open(encoding="utf-8")]
    names = [set(NAME.findall(f"{row.get('title', '')} {row['text']}")) for row in documents]
    holding = Counter(name.lower() for held in names for name in held)
    target.mkdir(parents=True, exist_ok=True)
    (target / "corpus.jsonl").write_bytes((source / "corpus.jsonl").read_bytes())
    questions, answers = [], ["query-id\tcorpus-id\tscore"]
    for document, held in zip(documents, names, strict=True):
        own = sorted(name for name in held if holding[name.lower()] == 1)
        if own and len(questions) < QUESTIONS:
            # The middle one of the alphabet: neither always a number nor always a capital.
            questions.append({"_id": f"exact-{len(questions)}", "text": own[len(own) // 2]})
            answers.append(f"{questions[-1]['_id']}\t{document['_id']}\t1")
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in questions)
    (target / "queries.jsonl").write_text(lines, encoding="utf-8")
    (target / "qrels.tsv").write_text("\n".join(answers) + "\n", encoding="utf-8")


def measured(paths: list[str]) -> dict[str, dict[float, float]]:
    """Return nDCG@10 by collection and keyword weight."""
    quality: dict[str, dict[float, float]] = {}
    for path in paths:
        for row in json.loads(Path(path).read_text(encoding="utf-8"))["collections"]:
            by_weight = quality.setdefault(row["collection"], {})
            for run in row["runs"]:
                weight = re.search(r"keyword ([\d.]+)", run["name"])
                if weight:
                    by_weight[float(weight[1])] = run["quality"]["ndcg_10"]
    return quality


def choose(kinds: dict[str, list[str]], quality: dict[str, dict[float, float]]) -> str:
    """Return a table: for each collection the weight that the others of its kind choose."""
    lines = ["| kind | left out | weight chosen on the others | nDCG@10 | default | gain |"]
    lines.append("|---|---|---|---|---|---|")
    for kind, names in kinds.items():
        for left_out in names:
            others = [quality[name] for name in names if name != left_out]
            weights = sorted(quality[left_out])
            means = {w: sum(row[w] for row in others) / len(others) for w in weights}
            # Of equal ones, that nearest to the default.
            best = max(weights, key=lambda w: (round(means[w], 4), -abs(w - DEFAULT_WEIGHT)))
            ours, default = quality[left_out][best], quality[left_out][DEFAULT_WEIGHT]
            lines.append(
                f"| {kind} | {left_out} | {best:g} | {ours:.4f} | {default:.4f} | "
                f"{ours - default:+.4f} |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["exact", source, target]:
            make_exact(Path(source), Path(target))
        case ["choose", kinds, *results]:
            print(choose(json.loads(Path(kinds).read_text(encoding="utf-8")), measured(results)))
        case _:
            sys.exit(__doc__)
