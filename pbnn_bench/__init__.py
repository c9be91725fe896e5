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
    from implementations.card import Card as Card
    from implementations.card import Exactness as Exactness
    from implementations.infrastructure.errors import SettingError as SettingError
    from implementations.sampling import Sampled as Sampled
    from implementations.sampling import sample as sample
    from implementations.tasks import prepare as prepare
    from implementations.tasks.networks import Network as Network
    from implementations.tasks.references.closed_form import gaussian_posterior as gaussian_posterior
    from implementations.tasks.task import Data as Data
    from implementations.tasks.task import Points as Points
    from implementations.tasks.task import Task as Task
    from implementations.tasks.task import Training as Training
    from pbnn_bench.choice import Choice as Choice
    from pbnn_bench.choice import choose_batch_size as choose_batch_size
    from pbnn_bench.problem import Prediction as Prediction
    from pbnn_bench.problem import Problem as Problem
    from pbnn_bench.scoring import Score as Score
    from pbnn_bench.scoring import score as score
    from workflows.study import load_study as load_study

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
__all__ = sorted(name for names in HOMES.values() for name in names)


def __getattr__(name: str) -> Any:
    for module, names in HOMES.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
