"""The methods. Each is a choice on four axes, so a method is a row of a table and not a class.

Target with weight w, from the per-point losses l_j(theta) = -log p(y_j | x_j, theta):

    U_w(theta) = -log p(theta) + (w / N) sum_j l_j(theta)

=============  ==================================================================================================
axis           values
=============  ==================================================================================================
weight         ``data`` (w = N, the posterior), ``batch`` (w = n, the tempered posterior) or a number
estimate       of the loss difference: ``all`` points, M disjoint mini-``batches`` of n, or ``none``
proposal       ``random_walk``, or ``langevin`` with the gradient of ``all`` points or of one mini-``batch``
acceptance     ``exact``, ``naive``, ``penalty``, ``penalty_corrected`` or ``always``
=============  ==================================================================================================

A new method is a row here, plus a part in both backends where none fits. Labels in ``paper`` are those of
*Data Subsampling for Bayesian Neural Networks* (Kawasaki, Adu-Gyamfi, Holzmann).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from implementations.names import SettingError, unknown


@dataclass(frozen=True)
class Method:
    """One row: the four axes, and what a reader wants to know of them."""

    summary: str
    paper: str
    #: Does the chain's stationary distribution equal its target?
    target: str
    weight: str
    estimate: str
    proposal: str
    acceptance: str
    #: Points in the proposal's gradient: ``all``, one ``batch``, or ``none`` for a random walk.
    gradient: str = "none"
    #: Default estimator of the variance of the loss difference, where the acceptance uses one.
    variance: str | None = None
    num_batches: int = 5

    @property
    def is_minibatch(self) -> bool:
        """Does the cost of a step stay the same when the data grow?"""
        return self.estimate != "all" and self.gradient != "all"

    @property
    def draws_points(self) -> bool:
        """Does a step draw mini-batches, of losses or of a gradient?"""
        return self.estimate == "batches" or self.gradient == "batch"


METHODS: dict[str, Method] = {
    "full_mh": Method(
        summary="random-walk Metropolis-Hastings on all data",
        paper="MH usual acceptance",
        target="exact",
        weight="data",
        estimate="all",
        proposal="random_walk",
        acceptance="exact",
    ),
    "tempered": Method(
        summary="random-walk Metropolis-Hastings on all data, likelihood tempered to weight n",
        paper="mini-batch loss (Safe Bayes, L_N^n)",
        target="exact",
        weight="batch",
        estimate="all",
        proposal="random_walk",
        acceptance="exact",
    ),
    "naive": Method(
        summary="Metropolis-Hastings with the mini-batch loss difference put in place of the full one",
        paper="usual delta",
        target="biased: ignores the noise of the loss difference",
        weight="data",
        estimate="batches",
        proposal="random_walk",
        acceptance="naive",
        num_batches=1,
    ),
    "pbnn": Method(
        summary="penalty Bayesian neural network: mini-batch loss difference plus half its variance",
        paper="random walk penalty acceptance (Algorithm 1)",
        target="exact for Gaussian noise of known variance",
        weight="batch",
        estimate="batches",
        proposal="random_walk",
        acceptance="penalty",
        variance="batches",
    ),
    "pbnn_corrected": Method(
        summary="pbnn with Ceperley and Dewing's correction for an estimated variance",
        paper="the extension left open after random walk penalty acceptance",
        target="nearly exact for Gaussian noise of estimated variance below 1",
        weight="batch",
        estimate="batches",
        proposal="random_walk",
        acceptance="penalty_corrected",
        variance="batches",
    ),
    "sgld": Method(
        summary="stochastic gradient Langevin dynamics, constant or decaying step",
        paper="SGLD",
        target="biased: discretisation and gradient noise",
        weight="batch",
        estimate="none",
        proposal="langevin",
        gradient="batch",
        acceptance="always",
    ),
    "ula": Method(
        summary="unadjusted Langevin algorithm: the full gradient, every move accepted",
        paper="ULA",
        target="biased: discretisation",
        weight="data",
        estimate="none",
        proposal="langevin",
        gradient="all",
        acceptance="always",
    ),
    "mala": Method(
        summary="Metropolis-adjusted Langevin algorithm on all data",
        paper="Langevin proposal",
        target="exact",
        weight="data",
        estimate="all",
        proposal="langevin",
        gradient="all",
        acceptance="exact",
    ),
    "pbnn_mala": Method(
        summary="penalised MALA: mini-batch gradient in the proposal, penalty in the acceptance",
        paper="PBNN MH acceptance",
        target="exact for Gaussian noise of known variance",
        weight="batch",
        estimate="batches",
        proposal="langevin",
        gradient="batch",
        acceptance="penalty",
        variance="batches",
    ),
}

VARIANCES = {
    "batches": "spread of the M mini-batch means, for their average (paper: chi-squared); too large by N / (N - n M)",
    "single": "the first mini-batch, its variance from all M (paper: mini-batch loss difference variance); M >= 2",
    "points": "spread of the n M points with the finite-population factor; works for M = 1",
    "oracle": "the population variance over all N points: a diagnostic, its cost grows with N",
}
PRECONDITIONERS = {
    "none": "the identity",
    "diagonal": "inverse of the diagonal of the target's curvature at the MAP",
    "full": "inverse of the target's curvature at the MAP",
}
#: Above this many parameters only the diagonal of the curvature is kept: the full one would fill 50 MB and more.
MAX_FULL_CURVATURE = 2500
DTYPES = {"float32": "single precision", "float64": "double precision"}


@dataclass(frozen=True)
class Setting:
    """What a setting may be, and its line of help."""

    help: str
    kind: type
    minimum: float = -math.inf
    maximum: float = math.inf
    is_positive: bool = False
    choices: Mapping[str, str] | None = None

    def parse(self, name: str, value: Any) -> Any:
        """``value`` (a number, or text from the shell) as this setting; a SettingError says what was expected."""
        if self.choices is not None and value in self.choices:
            return value
        if self.choices is not None and self.kind is str:
            raise SettingError(unknown(name, value, self.choices))
        number = _number(value)
        if number is None or (self.kind is int and number != int(number)):
            names = "".join(f"{choice!r} or " for choice in self.choices or ())
            raise SettingError(
                f"{name} = {value!r} is not {names}{'a whole number' if self.kind is int else 'a number'}"
            )
        bound = "positive" if self.is_positive else f"at least {self.minimum:g}"
        if number < self.minimum or (self.is_positive and number <= 0):
            raise SettingError(f"{name} = {value} must be {bound}")
        if number > self.maximum:
            raise SettingError(f"{name} = {value} must be at most {self.maximum:g}")
        return self.kind(number)


def _number(value: Any) -> float | None:
    """A finite number, also as text; a bool is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


#: Steps are counted in 32-bit integers on the device.
LARGEST_COUNT = 10**9

SETTINGS: dict[str, Setting] = {
    "batch_size": Setting("n, points in a mini-batch; for `tempered` only the weight", int, minimum=1),
    "num_batches": Setting("M, mini-batches a step", int, minimum=1),
    "step_size": Setting("eta of drift eta grad U and noise sqrt(2 eta), in every method", float, is_positive=True),
    "weight": Setting(
        "w of the target: the posterior (data), tempered to n (batch), or a number",
        float,
        is_positive=True,
        choices={"data": "w = N", "batch": "w = n"},
    ),
    "variance": Setting("estimator of the loss difference's variance", str, choices=VARIANCES),
    "preconditioner": Setting("C of the proposal's covariance 2 eta C", str, choices=PRECONDITIONERS),
    "decay": Setting("gamma of the step-size schedule eta (1 + t / decay_start)^-gamma; 0 is constant", float, 0, 1),
    "decay_start": Setting("steps after which the schedule starts to bite", float, is_positive=True),
    "num_steps": Setting("steps after the warm-up", int, minimum=1, maximum=LARGEST_COUNT),
    "num_warmup": Setting("steps dropped before them", int, minimum=0, maximum=LARGEST_COUNT),
    "thin": Setting("steps between two kept draws", int, minimum=1, maximum=LARGEST_COUNT),
    "chains": Setting("chains, run side by side", int, minimum=1),
    "dtype": Setting("floating-point type of the sampler", str, choices=DTYPES),
}


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked; None where the method has no such setting."""

    step_size: float
    weight: str | float
    preconditioner: str
    num_steps: int
    num_warmup: int
    thin: int
    chains: int
    dtype: str
    batch_size: int | None = None
    num_batches: int | None = None
    variance: str | None = None
    decay: float | None = None
    decay_start: float | None = None

    @property
    def batch_shape(self) -> tuple[int, int]:
        """(M, n); 0 for what the method does not have."""
        return self.num_batches or 0, self.batch_size or 0

    def as_dict(self) -> dict[str, Any]:
        """The settings the method has, in the order of SETTINGS."""
        values = asdict(self)
        return {name: values[name] for name in SETTINGS if values[name] is not None}


def setting_names(method: Method) -> list[str]:
    """The settings a method has, in the order of SETTINGS."""
    absent = set()
    if method.weight != "batch" and not method.draws_points:
        absent.add("batch_size")
    if method.estimate != "batches":
        absent.add("num_batches")
    if method.variance is None:
        absent.add("variance")
    if method.acceptance != "always":
        absent |= {"decay", "decay_start"}
    return [name for name in SETTINGS if name not in absent]


def default_settings(method: Method, num_parameters: int) -> dict[str, Any]:
    """Sensible values for a ``full`` preconditioner; the step size follows the number of parameters."""
    values: dict[str, Any] = {
        "batch_size": 10,
        "num_batches": method.num_batches,
        "step_size": _default_step(method)(num_parameters),
        "weight": method.weight,
        "variance": method.variance,
        "preconditioner": "full",
        "decay": 0.0,
        "decay_start": 1000.0,
        "num_steps": 20_000,
        "num_warmup": 2_000,
        "thin": 10,
        "chains": 4,
        "dtype": "float32",
    }
    return {name: values[name] for name in setting_names(method)}


def _default_step(method: Method) -> Callable[[int], float]:
    """Step sizes for a target whose curvature the preconditioner has turned into the identity."""
    if method.acceptance == "always":
        # The variance of such a chain is off by eta / 2 at the least: one per cent here.
        return lambda dimension: 0.02
    if method.estimate == "batches":
        # Half the optimal random walk, to keep the variance of the loss difference well below 1.
        return lambda dimension: 1.2**2 / (2 * dimension)
    if method.proposal == "langevin":
        # Christensen, Roberts and Rosenthal (2005): from starts in the tails the step must fall as d^(-1/2), not as the
        # d^(-1/3) that is best in equilibrium, or chains stay where they began (seen on digits).
        return lambda dimension: 1.2**2 / (2 * dimension**0.5)
    # Roberts, Gelman and Gilks (1997): sd 2.38 d^(-1/2).
    return lambda dimension: 2.38**2 / (2 * dimension)


def resolve(name: str, given: Mapping[str, Any], *, task: str, num_points: int, num_parameters: int) -> Settings:
    """The settings of method ``name`` on a task: ``given`` over the defaults, each checked, and all together.

    Raises SettingError with the method, the key, the value, what was expected and the nearest valid name.
    """
    if name not in METHODS:
        raise SettingError(unknown("method", name, METHODS))
    method = METHODS[name]
    names = setting_names(method)
    try:
        for key in given:
            if key not in names:
                raise SettingError(unknown("setting", key, names))
        parsed = {key: SETTINGS[key].parse(key, value) for key, value in given.items()}
        settings = Settings(**(default_settings(method, num_parameters) | parsed))
        _check_together(method, settings, task, num_points, num_parameters)
    except SettingError as error:
        raise SettingError(f"{name}: {error}") from None
    return settings


def _check_together(method: Method, settings: Settings, task: str, num_points: int, num_parameters: int) -> None:
    n, m = settings.batch_size, settings.num_batches
    points = f"the {num_points} training points of {task!r}"
    if settings.weight == "batch" and n is None:
        raise SettingError("weight = 'batch' needs a batch_size, which this method does not have; give a number")
    if n is not None and n > num_points:
        raise SettingError(f"batch_size = {n} exceeds {points}; lower it")
    if method.estimate == "batches" and n is not None and m is not None and n * m > num_points:
        raise SettingError(f"num_batches × batch_size = {m * n} exceeds {points}; lower one of them")
    if settings.variance in ("batches", "single") and m == 1:
        raise SettingError(
            f"variance = {settings.variance!r} needs num_batches of 2 or more; use 'points' for one batch"
        )
    if settings.variance == "points" and n == 1 and m == 1:
        raise SettingError("variance = 'points' needs two points or more; raise batch_size or num_batches")
    if settings.preconditioner == "full" and num_parameters > MAX_FULL_CURVATURE:
        raise SettingError(
            f"preconditioner = 'full' is kept up to {MAX_FULL_CURVATURE} parameters and {task!r} has {num_parameters} "
            "here; use 'diagonal'"
        )
    if settings.num_steps < settings.thin:
        raise SettingError(
            f"num_steps = {settings.num_steps} keeps no draw with thin = {settings.thin}; raise one, lower the other"
        )


def evaluates_all(method: Method, settings: Settings) -> bool:
    """Does a step evaluate all points? For the oracle's variance any method does."""
    return not method.is_minibatch or settings.variance == "oracle"


def points_of_delta(settings: Settings) -> int:
    """Points that the loss difference is the mean of: one mini-batch's for ``single``, else those of all."""
    num_batches, batch_size = settings.batch_shape
    return batch_size if settings.variance == "single" else num_batches * batch_size


def degrees_of_freedom(settings: Settings) -> float:
    """nu of the variance estimate; infinite where the variance is known."""
    num_batches, batch_size = settings.batch_shape
    if settings.variance in (None, "oracle"):
        return math.inf
    return num_batches * batch_size - 1 if settings.variance == "points" else num_batches - 1


def evaluations_per_step(method: Method, settings: Settings, num_points: int) -> tuple[int, int]:
    """Likelihood and gradient evaluations of single data points that one step of one chain makes.

    Full-data methods keep the losses and gradient of the current state, so they evaluate the proposal only.
    """
    num_batches, batch_size = settings.batch_shape
    likelihoods = {"all": num_points, "batches": 2 * num_batches * batch_size, "none": 0}[method.estimate]
    if settings.variance == "oracle":
        likelihoods += 2 * num_points
    # The way back of a Metropolis-adjusted proposal needs the gradient at the proposal too.
    there_and_back = 1 if method.acceptance == "always" else 2
    gradients = {"all": num_points, "batch": there_and_back * batch_size, "none": 0}[method.gradient]
    return likelihoods, gradients
