"""Calibrated uncertainty for a network that you have: the public interface of the suite.

    from pbnn_bench import Problem, choose_batch_size

    problem = Problem.from_features(features, targets, validation=(features_2, targets_2))
    choice = choose_batch_size(problem)
    print(choice.table())
    probabilities = choice.predict(new_features).mean

The same from a shell, with files instead of arrays: ``pbnn-bench calibrate --features my_features.npz``.
"""

# First of all: it makes the suite's packages importable.
from pbnn_bench import packages  # noqa: F401

# isort: split
from implementations.card import Card, Exactness
from implementations.infrastructure.errors import SettingError
from implementations.sampling import Sampled, sample
from implementations.tasks import prepare
from implementations.tasks.task import Data, Points, Task, Training
from pbnn_bench.choice import Choice, choose_batch_size
from pbnn_bench.problem import Prediction, Problem
from pbnn_bench.scoring import Score, score
from workflows.grid import load_study

__all__ = [
    "Card",
    "Choice",
    "Data",
    "Exactness",
    "Points",
    "Prediction",
    "Problem",
    "Sampled",
    "Score",
    "SettingError",
    "Task",
    "Training",
    "choose_batch_size",
    "load_study",
    "prepare",
    "sample",
    "score",
]
