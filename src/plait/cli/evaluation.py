"""eval: how well search finds, on folders of questions with known answers."""

from argparse import ArgumentParser, Namespace

from plait.cli.output import Output
from plait.cli.verbs import number, place, whole_number
from plait.errors import UsageError
from plait.memory import MODE_ALIASES, Memory
from plait.types import MODES


def names(words: str) -> tuple[str, ...]:
    """Names with commas between."""
    return tuple(filter(None, (word.strip() for word in words.split(","))))


def weights(words: str) -> tuple[float, ...]:
    """Numbers with commas between."""
    return tuple(map(number, names(words)))


def eval_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait eval``."""
    parser.add_argument(
        "folders",
        nargs="+",
        type=place,
        metavar="FOLDER",
        help="each with corpus.jsonl, queries.jsonl and qrels.tsv",
    )
    parser.add_argument(
        "--mode",
        dest="modes",
        action="append",
        default=[],
        metavar="NAME",
        help=f"only this one: {', '.join(MODES)}; else all that the embedder can do",
    )
    parser.add_argument(
        "--fusions",
        type=names,
        default=(),
        metavar="NAME,…",
        help="several merges beside each other: weighted,rrf,seed001",
    )
    parser.add_argument(
        "--weights",
        type=weights,
        default=(),
        metavar="W,…",
        help="several weights of keyword search beside each other, as in 0.5,0.65",
    )
    parser.add_argument(
        "--sweep", action="store_true", help="weights of keyword search from 0.3 to 0.9"
    )
    parser.add_argument(
        "--half",
        metavar="NAME",
        help="only queries whose id hashes to odd or to even; or both, beside the whole",
    )
    parser.add_argument(
        "--max-queries", type=whole_number, metavar="N", help="only the first queries of a folder"
    )
    parser.add_argument(
        "--pad", type=whole_number, default=0, metavar="N", help="fill up with noise to N passages"
    )
    parser.add_argument(
        "--pad-from",
        action="append",
        type=place,
        default=[],
        metavar="FOLDER",
        help="noise from here first",
    )
    parser.add_argument(
        "--planner",
        dest="planners",
        action="append",
        default=[],
        metavar="NAME",
        help="plan of long keyword queries: auto, always or never",
    )
    parser.add_argument(
        "--no-deep", action="store_true", help="leave recall@100 out; twice as fast"
    )
    parser.add_argument("--no-grep", action="store_true", help="leave the grep baseline out")


def _check(arguments: Namespace) -> None:
    if arguments.max_queries is not None and arguments.max_queries < 1:
        raise UsageError(f"--max-queries is {arguments.max_queries}; choose 1 or more.")
    if arguments.pad < 0:
        raise UsageError(f"--pad is {arguments.pad}; choose how many passages there shall be.")


def eval_run(arguments: Namespace, out: Output) -> int:
    """Measure search on collections, each in a memory of its own that is deleted afterwards."""
    from plait import evaluate

    _check(arguments)
    options = evaluate.Options(
        modes=tuple(MODE_ALIASES.get(mode, mode) for mode in arguments.modes),
        planners=tuple(arguments.planners) or ("auto",),
        fusions=arguments.fusions,
        weights=arguments.weights or (evaluate.SWEEP if arguments.sweep else ()),
        half=arguments.half,
        max_queries=arguments.max_queries,
        pad=arguments.pad,
        pad_from=tuple(arguments.pad_from),
        deep=not arguments.no_deep,
        grep=not arguments.no_grep,
    )

    def open_memory(path: str) -> Memory:
        return Memory.open(config=out.config_for(db_path=path, project="personal"))

    found = []
    try:
        for folder in arguments.folders:
            found.append(
                evaluate.evaluate(folder, options, open_memory=open_memory, progress=out.step)
            )
    finally:
        out.end_progress()
    value = {
        "collections": [evaluate.as_dict(evaluation) for evaluation in found],
        "mean": evaluate.mean_dicts(found),
    }
    out.result(value, evaluate.table(found).rstrip("\n"))
    return 0
