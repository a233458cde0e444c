"""Train plait's built-in model: one vector and two weights per word piece, taught by MiniLM.

    python train.py --data DIR --dictionary FILE --teacher DIR --tokenizer FILE --out DIR

A text's vector is the sum of its pieces' vectors, each times a learned weight (one for queries, one
for passages), scaled to unit length. A batch has pairs of one source only. If a pair has an
English side, the teacher's similarities inside the batch are soft labels; the rest is contrastive.
English queries are also asked in other languages: words are replaced from the dictionaries, so that
a question in German finds the English passage. All random numbers are seeded.
"""

import argparse
import json
import lzma
import random
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer
from torch.nn import functional

STARTED = time.time()
SEED = 20261115
DIMS = 256
QUERY_PIECES, PASSAGE_PIECES = 40, 128
TEACHER_PIECES = 96
TEMPERATURE = 0.05
TEACHER_SHARE = 0.9
WEIGHT_PRIOR = 1e-3  # piece weights start at log(a / (a + p)), p the piece's frequency

QUESTIONS = (
    "what is {}?", "what are {}?", "how does {} work?", "when was {}?", "who is {}?", "why {}?",
    "where is {}?", "which {}?", "tell me about {}", "what do we know about {}?", "how to {}",
    "what did we say about {}?", "did {}?", "how many {}?", "explain {}", "what was {}?",
)  # fmt: skip

# Name, share of the steps, and how a batch is judged: "teacher" (both sides English), "parallel"
# (left side English: the teacher compares the left sides), "plain" (contrastive only).
SOURCES: tuple[tuple[str, float, str], ...] = (
    ("wikipedia_en_heading_passage", 14.0, "teacher"),
    ("wikipedia_en_sentence_passage", 17.0, "teacher"),
    ("arxiv_title_abstract", 5.0, "teacher"),
    ("commit_subject_body", 5.0, "teacher"),
    ("docs_agent_memory_repos", 4.0, "teacher"),
    ("docs_github", 2.0, "teacher"),
    ("docs_mdn_en", 3.0, "teacher"),
    ("docs_postgres_git", 1.5, "teacher"),
    ("medquad_qa", 3.0, "teacher"),
    ("python_docstring_code", 3.0, "teacher"),
    ("wordnet_word_definition", 3.0, "teacher"),
    ("paraphrase_small", 1.0, "teacher"),
    ("switched", 9.0, "teacher"),
    ("tatoeba_parallel", 9.0, "parallel"),
    ("dictionary", 4.0, "parallel"),
    ("git_po_parallel", 1.5, "parallel"),
    ("docs_crosslingual_sections", 4.0, "plain"),
    ("docs_kubernetes_multi", 1.5, "plain"),
    ("docs_mdn_translated", 1.5, "plain"),
    ("jaquad_question_passage", 1.5, "plain"),
    ("wikipedia_zh_title_passage", 1.5, "plain"),
)
# How often rows of the supported languages are repeated, by the dictionaries' codes.
PROMISED = {
    "deu": 2.0,
    "spa": 2.0,
    "zho": 2.5,
    "tur": 2.5,
    "rus": 2.5,
    "ara": 1.5,
    "hin": 1.5,
    "fra": 1.0,
}
TATOEBA_NAMES = {"cmn_Hans": "zho", "cmn_Hant": "zho"}
SWITCHED_PER_LANGUAGE = 60_000


class Source(NamedTuple):
    """Pairs of one source, as padded piece numbers, and the teacher's vectors of English sides."""

    name: str
    share: float
    judge: str
    left: torch.Tensor
    right: torch.Tensor
    left_teacher: torch.Tensor | None
    right_teacher: torch.Tensor | None


def read(path: Path) -> list[tuple[str, str, str]]:
    """Read the rows of one file."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines]
    return [(row[0], row[1], row[2]) for row in rows if len(row) >= 3 and row[0] and row[1]]


def questioned(
    rows: list[tuple[str, str, str]], chance: random.Random
) -> list[tuple[str, str, str]]:
    """Turn half of the headings into questions, which are rare in the data."""
    asked = []
    for query, passage, language in rows:
        if chance.random() < 0.5:
            words = query.replace(" - ", " ").replace(" > ", " ")
            query = chance.choice(QUESTIONS).format(words.lower())
        asked.append((query, passage, language))
    return asked


def balanced(rows: list[tuple[str, str, str]], chance: random.Random) -> list[tuple[str, str, str]]:
    """Repeat the parallel rows of the supported languages."""
    kept = []
    for row in rows:
        language = TATOEBA_NAMES.get(row[2], row[2])
        times = PROMISED.get(language, 0.5)
        kept += [row] * (int(times) + (chance.random() < times % 1))
    return kept


def switched(
    english: list[tuple[str, str, str]],
    dictionary: list[tuple[str, str, str]],
    chance: random.Random,
) -> tuple[list[tuple[str, str, str]], list[str]]:
    """Return English queries with words of another language, and the original queries."""
    tables: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for left, right, language in dictionary:
        if language in PROMISED and " " not in left.strip():
            tables[language][left.strip().lower()].append(right)
    rows, originals = [], []
    for language, table in tables.items():
        made = 0
        for query, passage, _ in chance.sample(english, len(english)):
            words = query.lower().replace("?", " ").replace(",", " ").split()
            known = [place for place, word in enumerate(words) if word in table]
            if len(known) < 2 or len(known) < 0.4 * len(words):
                continue
            for place in known:
                if chance.random() < 0.85:
                    words[place] = chance.choice(table[words[place]])
            rows.append((" ".join(words), passage, language))
            originals.append(query)
            made += 1
            if made >= SWITCHED_PER_LANGUAGE:
                break
        print("switched", language, made, flush=True)
    return rows, originals


def pieces(tokenizer: Tokenizer, texts: list[str], length: int, device: str) -> torch.Tensor:
    """Return piece numbers, cut and padded with 0."""
    numbers = np.zeros((len(texts), length), dtype=np.int32)
    for start in range(0, len(texts), 50_000):
        batch = tokenizer.encode_batch_fast(texts[start : start + 50_000], add_special_tokens=False)
        for row, encoding in enumerate(batch, start=start):
            ids = encoding.ids[:length]
            numbers[row, : len(ids)] = ids
    numbers[numbers == 1] = 0  # an unknown piece has no vector
    return torch.from_numpy(numbers).to(device)


class Teacher:
    """all-MiniLM-L6-v2: mean of its last layer, unit length; it reads a text only once."""

    def __init__(self, folder: Path, device: str) -> None:
        from transformers import AutoModel

        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(TEACHER_PIECES)
        self._model = AutoModel.from_pretrained(folder, dtype=torch.float16).to(device).eval()
        self._device = device
        self._place: dict[str, int] = {}
        self._table = torch.empty((0, 384), dtype=torch.float16, device=device)

    def vectors(self, texts: list[str]) -> torch.Tensor:
        """Return one row per text."""
        fresh = [text for text in dict.fromkeys(texts) if text not in self._place]
        if fresh:
            fresh.sort(key=len)
            self._place.update((text, len(self._place)) for text in fresh)
            parts = [self._table]
            for start in range(0, len(fresh), 65_536):
                chunk = self._tokenizer.encode_batch_fast(fresh[start : start + 65_536])
                ids = [encoding.ids for encoding in chunk]
                parts += [self._forward(ids[at : at + 4_096]) for at in range(0, len(ids), 4_096)]
            self._table = torch.cat(parts)
        places = torch.tensor([self._place[text] for text in texts], device=self._device)
        return self._table[places]

    @torch.inference_mode()
    def _forward(self, ids: list[list[int]]) -> torch.Tensor:
        length = max(map(len, ids))
        numbers = np.zeros((len(ids), length), dtype=np.int64)
        mask = np.zeros((len(ids), length), dtype=np.int64)
        for row, one in enumerate(ids):
            numbers[row, : len(one)] = one
            mask[row, : len(one)] = 1
        seen = torch.from_numpy(mask).to(self._device)
        hidden = self._model(
            input_ids=torch.from_numpy(numbers).to(self._device), attention_mask=seen
        ).last_hidden_state
        mean = (hidden * seen.unsqueeze(-1)).sum(1).float() / seen.sum(1, keepdim=True)
        return functional.normalize(mean, dim=1).half()


def load(arguments: argparse.Namespace, device: str) -> tuple[list[Source], Tokenizer]:
    """Read all sources, tokenised, with the teacher's vectors."""
    chance = random.Random(SEED)
    tokenizer = Tokenizer.from_file(str(arguments.tokenizer))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    teacher = Teacher(arguments.teacher, device)
    dictionary = read(arguments.dictionary) if arguments.dictionary else []
    english: list[tuple[str, str, str]] = []
    loaded = []
    for name, share, judge in SOURCES:
        began = time.time()
        originals = None
        if name == "switched":
            rows, originals = switched(english, dictionary, chance)
        elif name == "dictionary":
            rows = balanced([row for row in dictionary if row[2] in PROMISED], chance)
        else:
            rows = read(arguments.data / f"{name}.tsv.xz")
        if name == "wikipedia_en_heading_passage":
            rows = questioned(rows, chance)
        if name == "tatoeba_parallel":
            rows = balanced(rows, chance)
        if name in (
            "wikipedia_en_heading_passage",
            "wikipedia_en_sentence_passage",
            "medquad_qa",
            "docs_agent_memory_repos",
            "arxiv_title_abstract",
        ):
            english += rows
        lefts, rights = [row[0] for row in rows], [row[1] for row in rows]
        left_teacher = right_teacher = None
        if judge != "plain":
            left_teacher = teacher.vectors(originals or lefts)
        if judge == "teacher":
            right_teacher = teacher.vectors(rights)
        right_length = QUERY_PIECES if judge == "parallel" else PASSAGE_PIECES
        loaded.append(
            Source(
                name, share, judge,
                pieces(tokenizer, lefts, QUERY_PIECES, device),
                pieces(tokenizer, rights, right_length, device),
                left_teacher, right_teacher,
            )
        )  # fmt: skip
        print(f"{name}: {len(rows)} pairs, {time.time() - began:.0f} s", flush=True)
    return loaded, tokenizer


class Student(torch.nn.Module):
    """The table that is shipped."""

    def __init__(self, frequency: torch.Tensor) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(len(frequency), DIMS) * 0.1)
        prior = torch.log(WEIGHT_PRIOR / (WEIGHT_PRIOR + frequency))
        self.query_weight = torch.nn.Parameter(prior.clone())
        self.passage_weight = torch.nn.Parameter(prior.clone())

    def forward(self, numbers: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Return the unit vectors of a batch of texts."""
        scale = torch.exp(weight[numbers]) * (numbers > 0)
        total = functional.embedding_bag(numbers, self.table, per_sample_weights=scale, mode="sum")
        return functional.normalize(total, dim=1)


def dropped(numbers: torch.Tensor, share: float) -> torch.Tensor:
    """Leave out some pieces of each query: people ask with fewer words than our pairs have."""
    return numbers * (torch.rand(numbers.shape, device=numbers.device) >= share)


def divergence(student: torch.Tensor, teacher: torch.Tensor | None) -> torch.Tensor:
    """Return the cross entropy of similarities with the right answers and the teacher's."""
    size = len(student)
    log_share = functional.log_softmax(student / TEMPERATURE, dim=1)
    right = -log_share.diagonal().mean()
    if teacher is None:
        return right
    soft = torch.softmax(teacher / TEMPERATURE, dim=1)
    taught = -(soft * log_share).sum() / size
    return (1 - TEACHER_SHARE) * right + TEACHER_SHARE * taught


def train(
    sources: list[Source], arguments: argparse.Namespace, pieces_: int, device: str
) -> Student:
    """Train with Adam, warm-up and linear decay, one source per batch."""
    steps, batch, rate = arguments.steps, arguments.batch, arguments.rate
    torch.manual_seed(SEED)
    counts = torch.ones(pieces_, device=device)
    for source in sources:
        for side in (source.left, source.right):
            sample = side[torch.randint(len(side), (20_000,), device=device)].flatten().long()
            counts += torch.bincount(sample, minlength=pieces_) * source.share
    counts[0] = 1
    student = Student(counts / counts.sum()).to(device)
    optimiser = torch.optim.Adam(student.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min(1.0, (step + 1) / 300) * max(0.02, 1 - step / steps)
    )
    shares = np.array([source.share for source in sources])
    choice = np.random.default_rng(SEED).choice(len(sources), steps, p=shares / shares.sum())
    began, total = time.time(), 0.0
    for step, number in enumerate(choice):
        if time.time() - STARTED > arguments.seconds:
            print("out of time at step", step, flush=True)
            break
        source = sources[number]
        size = min(batch, len(source.left))
        rows = torch.randint(len(source.left), (size,), device=device)
        left = dropped(source.left[rows], 0.1)
        right = source.right[rows]
        if source.judge == "parallel" and step % 2:
            weights = student.query_weight, student.passage_weight
        elif source.judge == "parallel":
            weights = student.passage_weight, student.query_weight
        else:
            weights = student.query_weight, student.passage_weight
        lefts, rights = student(left, weights[0]), student(right, weights[1])
        with torch.autocast(device, dtype=torch.bfloat16):
            similar = lefts @ rights.T
        view = None
        if source.left_teacher is not None:
            mine = source.left_teacher[rows]
            other = mine if source.right_teacher is None else source.right_teacher[rows]
            view = (mine @ other.T).float()
        similar = similar.float()
        loss = divergence(similar, view) + divergence(similar.T, None if view is None else view.T)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
        total += float(loss.detach()) if step % 50 == 0 else 0.0
        if step % 1000 == 999:
            print(f"step {step + 1}: {total / 20:.3f}, {time.time() - began:.0f} s", flush=True)
            total = 0.0
    return student


@torch.inference_mode()
def export(student: Student, path: Path) -> None:
    """Write int8 rows with one scale per row, and the logarithms of the weights."""
    table = student.table.float().cpu().numpy()
    scale = np.abs(table).max(axis=1) / 127
    rows = np.clip(np.round(table / scale[:, None]), -127, 127).astype(np.int8)
    np.savez_compressed(
        path,
        e=rows,
        s=scale.astype(np.float32),
        wq=student.query_weight.float().cpu().numpy().astype(np.float32),
        wd=student.passage_weight.float().cpu().numpy().astype(np.float32),
    )


def main() -> None:
    """Train and write ``model.npz``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--dictionary", type=Path)
    parser.add_argument("--teacher", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--evaluate", type=Path, help="folder of collections to measure on")
    parser.add_argument("--cache", type=Path, help="keep tokens and teacher's vectors here")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--batch", type=int, default=8_192)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop training after this long")
    parser.add_argument("--rate", type=float, default=2e-2)
    arguments = parser.parse_args()
    device = arguments.device
    if arguments.cache and arguments.cache.exists():
        sources = [Source(*row) for row in torch.load(arguments.cache, map_location=device)]
        shares = {name: share for name, share, _ in SOURCES}
        sources = [source._replace(share=shares[source.name]) for source in sources]
        tokenizer = Tokenizer.from_file(str(arguments.tokenizer))
    else:
        sources, tokenizer = load(arguments, device)
        if arguments.cache:
            torch.save([tuple(source) for source in sources], arguments.cache)
    student = train(sources, arguments, tokenizer.get_vocab_size(), device)
    arguments.out.mkdir(parents=True, exist_ok=True)
    export(student, arguments.out / "model.npz")
    if arguments.evaluate:
        from measure import measure

        report = measure(student, tokenizer, arguments.evaluate, device)
        print(json.dumps(report, indent=1), flush=True)


if __name__ == "__main__":
    main()
