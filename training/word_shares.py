"""Count in how many passages of English each word stands, for `plait.searching.uncommon`.

    python training/word_shares.py --train ../shared/train

One line for each half e-fold, the commonest words first: minus the logarithm of their share of the
passages, then the words. Rarer words are left out: whatever is not in the file is rare.
"""

import argparse
import lzma
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

TARGET = Path(__file__).parent.parent / "src" / "plait" / "searching" / "word_shares.txt"
# So many passages of each: an encyclopedia, everyday sentences, documentation, science, commits.
EACH = 12_000
PASSAGE = 1_200  # characters, as in a memory
LEAST = 12  # passages with a word; fewer say little about its share
STEPS = 2  # of an e-fold
# The column that is read; of the rest, only what is ASCII and so mostly English.
FILES = {
    "wikipedia_en_heading_passage": 1,
    "wikipedia_en_sentence_passage": 1,
    "arxiv_title_abstract": 1,
    "docs_github": 1,
    "commit_subject_body": 1,
    "medquad_qa": 1,
    "docs_mdn_en": 1,
    "docs_kubernetes_multi": 1,
    "docs_agent_memory_repos": 1,
    "tatoeba_parallel": 0,
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


def main() -> None:
    """Count, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--train", type=Path, required=True)
    folder = parser.parse_args().train
    holding, total = Counter[str](), 0
    for name, column in FILES.items():
        texts = passages(folder / f"{name}.tsv.xz", column)
        for text in islice(joined(texts, SENTENCES.get(name, 1)), EACH):
            holding.update(set(re.findall("[a-z0-9]+", text)))
            total += 1
    lines = defaultdict[int, list[str]](list)
    for word, count in holding.items():
        if count >= LEAST:
            lines[round(STEPS * math.log(total / count))].append(word)
    text = "".join(f"{step / STEPS} {' '.join(sorted(lines[step]))} \n" for step in sorted(lines))
    TARGET.write_text(text, encoding="ascii")
    print(f"{total:,} passages, {sum(map(len, lines.values())):,} words, {len(text):,} bytes")


if __name__ == "__main__":
    main()
