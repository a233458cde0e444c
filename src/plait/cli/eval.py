"""eval: measure search on folders of questions with known answers, or on the memory's own."""

from argparse import ArgumentParser, Namespace

from plait.cli import NOTHING_FOUND, Output, as_integer, as_list, as_number, as_path
from plait.cli.search import as_mode
from plait.errors import UsageError
from plait.evaluate.variants import HALVES, PLANNERS
from plait.memory import Memory
from plait.types import FUSION_ALIASES, FUSIONS, MODES, check_choice

MOST_QUESTIONS = 10_000


def as_numbers(text: str) -> tuple[float, ...]:
    """Split numbers at commas."""
    return tuple(map(as_number, as_list(text)))


def as_fusions(text: str) -> tuple[str, ...]:
    """Split names of fusions at commas."""
    names = (FUSION_ALIASES.get(name, name) for name in as_list(text))
    return tuple(check_choice("--fusions", name, FUSIONS) for name in names)


def eval_options(parser: ArgumentParser) -> None:
    """Declare the options of ``plait eval``."""
    parser.add_argument(
        "folders",
        nargs="*",
        type=as_path,
        metavar="FOLDER",
        help="a folder with corpus.jsonl, queries.jsonl and qrels.tsv",
    )
    parser.add_argument(
        "--notes",
        type=as_path,
        metavar="FOLDER",
        help="the documents are these files, instead of corpus.jsonl; qrels.tsv has their paths",
    )
    parser.add_argument(
        "--make",
        type=as_integer,
        metavar="N",
        help="instead of folders: ask this memory N of its own titles and headings",
    )
    parser.add_argument(
        "--mode",
        dest="modes",
        action="append",
        type=as_mode,
        choices=MODES,
        default=[],
        metavar="NAME",
        help=f"only this mode: {', '.join(MODES)} (default: all that the embedder supports)",
    )
    parser.add_argument(
        "--fusions",
        type=as_fusions,
        default=(),
        metavar="NAME,…",
        help=f"compare these fusions: {','.join(FUSIONS)}",
    )
    parser.add_argument(
        "--weights",
        type=as_numbers,
        default=(),
        metavar="W,…",
        help="compare these keyword weights, for example 0.5,0.65",
    )
    parser.add_argument(
        "--sweep", action="store_true", help="compare keyword weights from 0.3 to 0.9"
    )
    parser.add_argument(
        "--half",
        choices=HALVES,
        metavar="NAME",
        help="use only half of the queries: odd or even, by a hash of the id; both: report each "
        "half and all queries",
    )
    parser.add_argument(
        "--max-queries",
        type=as_integer,
        metavar="N",
        help="use only the first N queries of a folder",
    )
    parser.add_argument(
        "--pad",
        type=as_integer,
        default=0,
        metavar="N",
        help="add unrelated passages until there are N",
    )
    parser.add_argument(
        "--pad-from",
        action="append",
        type=as_path,
        default=[],
        metavar="FOLDER",
        help="with --pad: take passages from this folder first",
    )
    parser.add_argument(
        "--planner",
        dest="planners",
        action="append",
        choices=PLANNERS,
        default=[],
        metavar="NAME",
        help="when to plan long keyword queries: auto, always or never",
    )
    parser.add_argument("--no-deep", action="store_true", help="skip recall@100; twice as fast")
    parser.add_argument("--no-grep", action="store_true", help="skip the grep baseline")


def _check(arguments: Namespace) -> None:
    if arguments.max_queries is not None and arguments.max_queries < 1:
        raise UsageError(f"--max-queries is {arguments.max_queries}; choose 1 or more.")
    if arguments.pad < 0:
        raise UsageError(f"--pad is {arguments.pad}; choose 0 or more.")
    if bool(arguments.folders) == (arguments.make is not None):
        raise UsageError("Give folders with questions, or --make N for this memory's own.")
    if arguments.make is not None:
        _refuse_options_of_folders(arguments)
    if arguments.make is not None and not 1 <= arguments.make <= MOST_QUESTIONS:
        raise UsageError(f"--make is {arguments.make}; choose 1 to {MOST_QUESTIONS:,}.")


# Options that mean something for folders only, and their values if they were not given.
_OF_FOLDERS = {
    "fusions": (),
    "weights": (),
    "sweep": False,
    "half": None,
    "max_queries": None,
    "pad": 0,
    "pad_from": [],
    "notes": None,
    "planners": [],
    "no_deep": False,
    "no_grep": False,
}


def _refuse_options_of_folders(arguments: Namespace) -> None:
    for name, unset in _OF_FOLDERS.items():
        if getattr(arguments, name) != unset:
            option = "planner" if name == "planners" else name.replace("_", "-")
            raise UsageError(f"--{option} is for folders of questions. Leave it out with --make.")


def _ask_own(arguments: Namespace, out: Output) -> int:
    """Measure how well this memory's notes are found by their titles and headings."""
    from plait.cli.search import open_to_read
    from plait.cli.shared import warn_if_empty
    from plait.evaluate.own import measure_own, own_dict, own_table

    with open_to_read(out) as memory:
        if warn_if_empty(memory, out):
            out.result(own_dict((), ()), "")
            return NOTHING_FOUND
        try:
            questions, runs = measure_own(
                memory, arguments.make, arguments.modes, progress=out.step
            )
        finally:
            out.end_progress()
    out.result(own_dict(questions, runs), own_table(questions, runs))
    return 0


def eval_run(arguments: Namespace, out: Output) -> int:
    """Measure search on each folder, in a temporary memory."""
    from plait import evaluate

    _check(arguments)
    if arguments.make is not None:
        return _ask_own(arguments, out)
    options = evaluate.EvaluationOptions(
        modes=tuple(arguments.modes),
        planners=tuple(arguments.planners) or ("auto",),
        fusions=arguments.fusions,
        weights=arguments.weights or (evaluate.SWEEP_WEIGHTS if arguments.sweep else ()),
        half=arguments.half,
        max_queries=arguments.max_queries,
        pad=arguments.pad,
        pad_from=tuple(arguments.pad_from),
        notes=arguments.notes,
        deep=not arguments.no_deep,
        grep=not arguments.no_grep,
    )

    def open_memory(path: str) -> Memory:
        return Memory.open(config=out.config_with(db_path=path, project="personal"))

    evaluations = []
    try:
        for folder in arguments.folders:
            evaluations.append(
                evaluate.evaluate(folder, options, open_memory=open_memory, progress=out.step)
            )
    finally:
        out.end_progress()
    value = {
        "collections": [evaluate.evaluation_dict(evaluation) for evaluation in evaluations],
        "mean": evaluate.mean_dicts(evaluations),
    }
    out.result(value, evaluate.markdown_table(evaluations).rstrip("\n"))
    return 0
