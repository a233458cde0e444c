"""Count in which share of the passages of English a word stands, for `plait.searching.uncommon`.

    PYTHONPATH=src python training/word_shares.py --train ../shared/train

One line for each half e-fold, the commonest words first: minus the logarithm of their share, then
their stems, as in the keyword index. Rarer words are left out: whatever is not in the file is rare.
"""

import argparse
import lzma
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from plait import Memory

TARGET = Path(__file__).parent.parent / "src" / "plait" / "searching" / "word_shares.txt"
EACH = 12_000  # passages of each file
PASSAGE = 1_200  # characters, as in a memory
RAREST = 9.5  # e-folds: what is rarer still, these passages are too few to tell
STEPS = 2  # of an e-fold
# Kinds of text, and of each file the column that is read: only what is ASCII, so mostly English.
# The second largest share of a word counts, because each kind has words and names of its own.
KINDS = {
    "encyclopedia": {"wikipedia_en_heading_passage": 1, "wikipedia_en_sentence_passage": 1},
    "everyday life": {"tatoeba_parallel": 0},
    "science": {"arxiv_title_abstract": 1, "medquad_qa": 1},
    "documentation": {"docs_github": 1, "docs_mdn_en": 1, "docs_kubernetes_multi": 1},
    "work on code": {"commit_subject_body": 1, "docs_agent_memory_repos": 1},
}
# Of sentences by themselves, so many are a passage.
SENTENCES = {"tatoeba_parallel": 15}


def passages(path: Path, column: int) -> Iterator[str]:
    """Yield the passages of a file that are ASCII."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = line.rstrip("\n").split("\t")
            if len(row) > 1 and row[column].isascii():
                yield row[column][:PASSAGE].lower()


def joined(texts: Iterator[str], count: int) -> Iterator[str]:
    """Yield so many texts as one."""
    while together := " ".join(islice(texts, count)):
        yield together


def stems_of(memory: Memory, words: Iterable[str]) -> dict[str, str]:
    """Return the stem of each word, as in the keyword index."""
    terms = memory.engine.vocabulary(words).terms
    return {word: listed[0][2] for word, listed in terms.items() if listed}


def shares_of(folder: Path, files: dict[str, int], memory: Memory) -> dict[str, float]:
    """Return in which share of the passages of some files each stem stands."""
    holding, total, stems = Counter[str](), 0, dict[str, str]()
    for name, column in files.items():
        texts = passages(folder / f"{name}.tsv.xz", column)
        for text in islice(joined(texts, SENTENCES.get(name, 1)), EACH):
            words = set(re.findall("[a-z0-9]+", text))
            stems |= stems_of(memory, words - stems.keys())
            holding.update({stems[word] for word in words if word in stems})
            total += 1
    return {stem: count / total for stem, count in holding.items()}


def main() -> None:
    """Count, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True)
    folder = parser.parse_args().train
    listed = defaultdict[str, list[float]](list)
    with Memory.open(":memory:", embedder="none") as memory:
        for files in KINDS.values():
            for stem, share in shares_of(folder, files, memory).items():
                listed[stem].append(share)
    lines = defaultdict[int, list[str]](list)
    for stem, shares in listed.items():
        if len(shares) > 1 and (rarity := -math.log(sorted(shares)[-2])) <= RAREST:
            lines[round(STEPS * rarity)].append(stem)
    text = "".join(f"{step / STEPS} {' '.join(sorted(lines[step]))} \n" for step in sorted(lines))
    TARGET.write_text(text, encoding="ascii")
    print(f"{sum(map(len, lines.values())):,} stems, {len(text):,} bytes")


if __name__ == "__main__":
    main()
