"""Calibrated uncertainty for a network that you have: the public interface of the suite.

    from pbnn_bench import Problem, choose_batch_size

    problem = Problem.from_features(features, targets, validation=(features_2, targets_2))
    choice = choose_batch_size(problem)
    print(choice.table())
    probabilities = choice.predict(new_features).mean

The same from a shell, with files instead of arrays: ``pbnn-bench calibrate --features my_features.npz``.
"""

import importlib
from typing import TYPE_CHECKING, Any

# First of all: it makes the suite's packages importable.
from pbnn_bench import packages  # noqa: F401

if TYPE_CHECKING:
    from implementations.card import Card, Exactness
    from implementations.infrastructure.errors import SettingError
    from implementations.sampling import Sampled, sample
    from implementations.tasks import prepare
    from implementations.tasks.networks import Network
    from implementations.tasks.references.closed_form import gaussian_posterior
    from implementations.tasks.task import Data, Points, Task, Training
    from pbnn_bench.choice import Choice, choose_batch_size
    from pbnn_bench.problem import Prediction, Problem
    from pbnn_bench.scoring import Score, score
    from workflows.study import load_study

#: Where each name is. It is imported when it is first asked for: all of them take seconds, which a command such as
#: ``pbnn-bench list`` does not need.
HOMES = {
    "implementations.card": ("Card", "Exactness"),
    "implementations.infrastructure.errors": ("SettingError",),
    "implementations.sampling": ("Sampled", "sample"),
    "implementations.tasks": ("prepare",),
    "implementations.tasks.references.closed_form": ("gaussian_posterior",),
    "implementations.tasks.networks": ("Network",),
    "implementations.tasks.task": ("Data", "Points", "Task", "Training"),
    "pbnn_bench.choice": ("Choice", "choose_batch_size"),
    "pbnn_bench.problem": ("Prediction", "Problem"),
    "pbnn_bench.scoring": ("Score", "score"),
    "workflows.study": ("load_study",),
}

__all__ = [
    "Card",
    "Choice",
    "Data",
    "Exactness",
    "Network",
    "Points",
    "Prediction",
    "Problem",
    "Sampled",
    "Score",
    "SettingError",
    "Task",
    "Training",
    "choose_batch_size",
    "gaussian_posterior",
    "load_study",
    "prepare",
    "sample",
    "score",
]


def __getattr__(name: str) -> Any:
    for module, names in HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
