"""Measure search quality on collections of questions with known answers.

Documents are stored through the public `Memory`, so long ones are cut into passages; hits count
once per document. Nothing here knows how search works.
"""

from plait.evaluate.collections import Collection, Question, load_collection
from plait.evaluate.metrics import Quality, Run, Silence
from plait.evaluate.report import Evaluation, evaluation_dict, markdown_table, mean_dicts, means
from plait.evaluate.running import evaluate, measure, measure_silence
from plait.evaluate.variants import (
    HALVES,
    PLANNERS,
    SWEEP_WEIGHTS,
    EvaluationOptions,
    SearchVariant,
    variants,
)

__all__ = [
    "HALVES",
    "PLANNERS",
    "SWEEP_WEIGHTS",
    "Collection",
    "Evaluation",
    "EvaluationOptions",
    "Quality",
    "Question",
    "Run",
    "SearchVariant",
    "Silence",
    "evaluate",
    "evaluation_dict",
    "load_collection",
    "markdown_table",
    "mean_dicts",
    "means",
    "measure",
    "measure_silence",
    "variants",
]
