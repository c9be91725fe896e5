"""A problem out of anybody's features: one stochastic layer on what a frozen network makes of its inputs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from implementations.infrastructure.errors import SettingError
from implementations.settings import MAX_FULL_CURVATURE
from implementations.tasks import at_mode, problem
from implementations.tasks.data.features import to_numpy
from implementations.tasks.likelihoods import Likelihood, find_likelihood
from implementations.tasks.task import PRIOR_SCALE
from metrics.predictive import predictive

#: Real numbers that are all whole, and no more than so many different ones, are taken for classes.
MOST_REAL_CLASSES = 20

#: The least sd of a column whose square is a number with all its digits.
SMALLEST = 1e-150

#: Features and targets of a part of the data.
Part = tuple[Any, Any]


class Prediction(NamedTuple):
    """The predictive distribution at some points.

    Classes: ``mean`` (n, K) are their probabilities, in the order of ``Problem.classes``, and ``sd`` is how much they
    differ between draws. Regression: ``mean`` and ``sd`` (n,) are those of a new observation, its noise included.
    """

    mean: np.ndarray
    sd: np.ndarray


def _nothing() -> np.ndarray:
    return np.zeros(0)


@dataclass(frozen=True, eq=False)
class Problem(problem.Problem):
    """A problem, and how features and targets as their owner has them get into it."""

    #: How many columns the given features have, which of them are used, and their mean and sd over the training points.
    num_columns: int = 0
    columns: np.ndarray = field(default_factory=_nothing)
    centre: np.ndarray = field(default_factory=_nothing)
    scale: np.ndarray = field(default_factory=_nothing)
    #: The classes as their owner calls them, in the order of the outputs; none in a regression.
    classes: np.ndarray = field(default_factory=_nothing)
    #: Mean and sd of the training targets of a regression.
    target_centre: float = 0.0
    target_scale: float = 1.0

    @classmethod
    def from_features(
        cls,
        features: Any,
        targets: Any,
        *,
        validation: Part | None = None,
        test: Part | None = None,
        likelihood: str | None = None,
        noise_sd: float | None = None,
        prior_scale: float = 1.0,
        name: str = "own",
        tell: Callable[[str], object] = lambda notice: None,
    ) -> Self:
        """One stochastic layer on features (N, d), with its mode found; arrays of any library.

        Features are standardised by the training points, so that a prior of sd ``prior_scale`` on every weight means
        the same for all of them; so are the targets of a regression, whose noise is that of a least-squares fit unless
        ``noise_sd`` tells it. ``likelihood`` is guessed from the targets: real numbers are a regression, anything else
        names classes; counts are ``poisson`` where it says so. Columns that are constant over the training points say
        nothing; they are left out, and ``tell`` is called. Raises SettingError with what is wrong with the data.
        """
        PRIOR_SCALE.parse(prior_scale)
        parts = {"training": (features, targets)}
        parts |= {} if validation is None else {"validation": validation}
        parts |= {} if test is None else {"test": test}
        checked = {part: _checked(part, *pair) for part, pair in parts.items()}
        inputs, values = checked["training"]
        columns = _varying(inputs, tell)
        centre, scale = _mean_and_sd(inputs[:, columns], "feature columns")
        likelihood = likelihood or _likelihood_of(values)
        record = find_likelihood(likelihood)
        if record.is_normalised:
            raise SettingError(
                "a density has no targets, and a support instead: write it as a task (docs/extend/task.md)"
            )
        given: dict[str, Any] = {"num_columns": inputs.shape[1], "columns": columns, "centre": centre, "scale": scale}
        given["task"] = name
        if record.has_classes:
            given["classes"] = _classes(checked, record)
        elif record.is_quadratic:
            given |= _target_scaling(values)
        else:
            checked = {part: (raw, _counts(part, found, record)) for part, (raw, found) in checked.items()}
        num_outputs = record.num_outputs or len(given["classes"])
        _check_size(len(columns), num_outputs)
        ready = {
            part: (
                problem.with_bias((raw[:, columns] - centre) / scale).astype(np.float32),
                _encoded(found, given),
            )
            for part, (raw, found) in checked.items()
        }
        if record.is_quadratic:
            # Their unit is now the sd of the targets.
            known = None if noise_sd is None else noise_sd / given["target_scale"]
            given["noise_sd"] = _residual_sd(*ready["training"]) if known is None else known
            if not (given["noise_sd"] > 0 and np.isfinite(given["noise_sd"])):
                raise SettingError(f"noise_sd = {noise_sd} must be positive and finite")
        given |= {"validation": ready.get("validation"), "test": ready.get("test"), "prior_scale": float(prior_scale)}
        # The classes of a part need not be all of them.
        given["layers"] = ((len(columns) + 1, num_outputs),)
        given["map"] = np.zeros((len(columns) + 1) * num_outputs, np.float32)
        return at_mode(cls.of(*ready["training"], likelihood=likelihood, **given))

    def features_of(self, features: Any) -> np.ndarray:
        """Features as their owner has them (n, d) in the form of this problem's."""
        inputs = _matrix("new", features)
        if not len(self.columns):
            return inputs.astype(np.float32)
        if inputs.shape[1] != self.num_columns:
            raise SettingError(
                f"the new features have {inputs.shape[1]} columns, the training features {self.num_columns}"
            )
        scaled = (inputs[:, self.columns] - self.centre) / self.scale
        return problem.with_bias(scaled).astype(np.float32)

    def predict(self, draws: np.ndarray, features: Any) -> Prediction:
        """The mixture over ``draws`` (chains, draws, P) at new ``features`` (n, d)."""
        inputs, likelihood = self.features_of(features), find_likelihood(self.likelihood)
        found = predictive(
            lambda parameters: self.outputs(parameters, inputs),
            draws,
            np.zeros(len(inputs), likelihood.target_type),
            self.likelihood,
            self.noise_sd,
        )
        if likelihood.has_classes:
            return Prediction(found.mean, found.sd)
        sd = np.sqrt(found.sd**2 + likelihood.variance(found.mean, self.noise_sd))
        return Prediction(self.target_centre + self.target_scale * found.mean, self.target_scale * sd)


def _matrix(part: str, features: Any) -> np.ndarray:
    """Features as a matrix of finite numbers, in double precision."""
    try:
        inputs = to_numpy(features).astype(np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SettingError(f"the {part} features are not numbers: {error}") from None
    if inputs.ndim != 2 or 0 in inputs.shape:
        raise SettingError(f"the {part} features have shape {inputs.shape}; expected (points, columns), none of them 0")
    is_bad = ~np.isfinite(inputs)
    if is_bad.any():
        row, column = np.argwhere(is_bad)[0]
        raise SettingError(
            f"the {part} features have NaN or infinity in {is_bad.any(axis=1).sum()} of {len(inputs)} rows, the first "
            f"in row {row}, column {column}; drop these rows or fill them"
        )
    return inputs


def _checked(part: str, features: Any, targets: Any) -> tuple[np.ndarray, np.ndarray]:
    inputs, values = _matrix(part, features), to_numpy(targets)
    # A column vector is what many libraries make of targets.
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.dtype.kind == "O" and all(isinstance(value, str) for value in values.ravel()):
        # Names of classes out of a table.
        values = values.astype(np.str_)
    if values.shape != inputs.shape[:1]:
        raise SettingError(
            f"the {part} features have shape {inputs.shape} and the targets {values.shape}; "
            f"expected one target per row, ({len(inputs)},)"
        )
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise SettingError(
            f"the {part} targets have NaN or infinity in {np.sum(~np.isfinite(values))} of {len(values)} rows, the "
            f"first in row {row}; drop these rows"
        )
    if values.dtype.kind not in "biufUS":
        raise SettingError(f"the {part} targets are of type {values.dtype}; expected numbers, or names of classes")
    return inputs, values


def _varying(inputs: np.ndarray, tell: Callable[[str], object]) -> np.ndarray:
    """The columns that are not constant."""
    is_constant = np.ptp(inputs, axis=0) == 0
    columns = np.flatnonzero(~is_constant)
    if not len(columns):
        raise SettingError(f"all {inputs.shape[1]} feature columns are constant over the training points")
    if is_constant.any():
        constant = np.flatnonzero(is_constant)
        listed = ", ".join(map(str, constant[:10])) + (", …" if len(constant) > 10 else "")
        tell(f"feature columns that are constant over the training points are left out: {listed}")
    return columns


def _mean_and_sd(values: np.ndarray, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Over the rows. SettingError where squares of the values are no numbers."""
    with np.errstate(all="ignore"):
        mean, sd = values.mean(axis=0), values.std(axis=0)
    is_bad = ~((sd > SMALLEST) & (sd < 1 / SMALLEST))
    if is_bad.any():
        raise SettingError(
            f"the training {what} have an sd of {np.ravel(sd[is_bad])[0]:.2g}, too small or too large to compute with; "
            "give them in another unit"
        )
    return mean, sd


def _likelihood_of(targets: np.ndarray) -> str:
    values = np.unique(targets)
    # Classes are often kept as 0.0 and 1.0.
    is_real = targets.dtype.kind == "f" and (len(values) > MOST_REAL_CLASSES or (values != np.round(values)).any())
    if is_real:
        return "gaussian"
    return "bernoulli" if len(values) == 2 else "categorical"


def _classes(checked: dict[str, tuple[np.ndarray, np.ndarray]], likelihood: Likelihood) -> np.ndarray:
    """The classes of the training points, which have to be those of all."""
    classes: np.ndarray = np.unique(checked["training"][1])
    if len(classes) < 2:
        raise SettingError(f"all training targets are {classes[0].item()!r}: there is nothing to predict")
    if likelihood.num_outputs == 1 and len(classes) != 2:
        raise SettingError(
            f"a {likelihood.name} likelihood has two classes, and the training targets have {len(classes)}"
        )
    if likelihood.num_outputs is None and len(classes) > len(checked["training"][1]) // 2:
        raise SettingError(
            f"the training targets have {len(classes)} classes in {len(checked['training'][1])} points"
            f"{_if_no_classes(classes)}"
        )
    for part, (_, values) in checked.items():
        strange = values[~np.isin(values, classes)]
        if len(strange):
            raise SettingError(
                f"the class {strange[0].item()!r} is in the {part} points ({np.sum(values == strange[0])} of them) "
                f"and not in the training points; move some there, or drop it{_if_no_classes(classes)}"
            )
    return classes


def _if_no_classes(classes: np.ndarray) -> str:
    """The way out for numbers that were taken for classes."""
    if classes.dtype.kind not in "iuf":
        return ""
    return "; if the targets are numbers and not classes, give the likelihood: gaussian, or poisson for counts"


def _counts(part: str, targets: np.ndarray, likelihood: Likelihood) -> np.ndarray:
    """Whole numbers, which may have come as 0.0, 1.0, 2.0."""
    if targets.dtype.kind not in "biuf" or (targets != np.round(targets)).any():
        raise SettingError(f"the {part} targets are not whole numbers, which a {likelihood.name} likelihood has")
    whole = targets.astype(likelihood.target_type)
    likelihood.check_targets(whole, 1)
    return whole


def _target_scaling(targets: np.ndarray) -> dict[str, float]:
    if targets.dtype.kind not in "biuf":
        raise SettingError(
            f"targets of type {targets.dtype} are not numbers; for classes the likelihood is categorical"
        )
    if (targets == targets[0]).all():
        raise SettingError(f"all training targets are {targets[0].item()!r}: there is nothing to predict")
    centre, scale = _mean_and_sd(targets.astype(np.float64), "targets")
    return {"target_centre": float(centre), "target_scale": float(scale)}


def _encoded(targets: np.ndarray, given: dict[str, Any]) -> np.ndarray:
    """Numbers of classes, standardised numbers, or counts as they are."""
    if "classes" in given:
        return np.searchsorted(given["classes"], targets).astype(np.int32)
    if "target_scale" not in given:
        return targets
    return ((targets - given["target_centre"]) / given["target_scale"]).astype(np.float32)


def _check_size(num_columns: int, num_outputs: int) -> None:
    num_parameters = (num_columns + 1) * num_outputs
    if num_parameters > MAX_FULL_CURVATURE:
        most = MAX_FULL_CURVATURE // num_outputs - 1
        raise SettingError(
            f"{num_columns} feature columns and {num_outputs} outputs make {num_parameters} parameters; chains on one "
            f"layer have at most {MAX_FULL_CURVATURE}: give {most} columns or fewer, such as the first principal "
            "components (--components)"
        )


def _residual_sd(features: np.ndarray, targets: np.ndarray) -> float:
    """sd of what a least-squares fit leaves, with as many degrees of freedom less as it has parameters."""
    inputs = features.astype(np.float64)
    weights, _, rank, _ = np.linalg.lstsq(inputs, targets.astype(np.float64), rcond=None)
    free = len(targets) - int(rank)
    if free < 1:
        raise SettingError(
            f"{len(targets)} training points and {features.shape[1]} parameters leave nothing to tell the noise by; "
            "give noise_sd"
        )
    return float(np.sqrt(np.sum(np.square(targets - inputs @ weights)) / free))
