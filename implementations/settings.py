"""Settings: what each may be, its line of help and its default, and all those of a run, checked."""

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol, Self

from implementations.infrastructure.errors import SettingError, unknown
from implementations.kernels.contract import Shapes
from implementations.kernels.estimates import OF_POINTS, VARIANCES

PRECONDITIONERS = {
    "none": "the identity",
    "diagonal": "inverse of the diagonal of the target's curvature at its mode",
    "full": "inverse of the target's curvature at its mode",
}
#: Above this many parameters only the diagonal of the curvature is kept: the full one would fill 50 MB and more.
MAX_FULL_CURVATURE = 2500
DTYPES = {"float32": "single precision", "float64": "double precision"}

#: In place of a number: it is found by a pilot run (implementations.tuning.pilot).
AUTO = "auto"
#: The same of a step size, on one budget for every method (implementations.tuning.ladder).
LADDER = "ladder"
TUNED = ("step_size", "num_batches")
#: Fewer steps than this tell nothing of an acceptance.
LEAST_TUNING = 100

#: Steps are counted in 32-bit integers on the device.
LARGEST_COUNT = 10**9
#: Of any whole number: more than a machine holds or does, and exact as a float.
LARGEST_INTEGER = 10**12


class Sized(Protocol):
    """What settings are checked against: a problem, or a task before its data are there."""

    @property
    def task(self) -> str: ...
    @property
    def num_points(self) -> int: ...
    @property
    def num_parameters(self) -> int: ...


@dataclass(frozen=True)
class Size:
    """The numbers of a task whose data are not there yet."""

    task: str
    num_points: int
    num_parameters: int


@dataclass(frozen=True)
class Setting:
    """What a setting may be, its line of help, and its default: a value, or a function of the number of parameters."""

    name: str
    help: str
    kind: type
    default: Any = None
    minimum: float = -math.inf
    maximum: float = math.inf
    is_positive: bool = False
    choices: Mapping[str, str] | None = None

    def but(self, default: Any) -> Self:
        """This setting with another default."""
        return replace(self, default=default)

    def default_for(self, num_parameters: int) -> Any:
        """The default, checked like any other value: a float written as 1 is 1.0."""
        return self.parse(self.default(num_parameters) if callable(self.default) else self.default)

    def check(self) -> None:
        """Can a method have it? Raises SettingError."""
        if not re.fullmatch("[a-z][a-z0-9_]*", self.name):
            raise SettingError(f"the setting {self.name!r} must be small letters, digits and underscores")
        if self.kind not in (int, float, str) or (self.kind is str and not self.choices):
            raise SettingError(f"the setting {self.name!r} must be an int, a float, or a str with choices")
        if self.default is None:
            raise SettingError(f"the setting {self.name!r} has no default")
        if not callable(self.default):
            self.parse(self.default)

    def parse(self, value: Any) -> Any:
        """``value`` (a number, or text from the shell) as this setting; a SettingError says what was expected."""
        name = self.name
        if self.choices is not None and value in self.choices:
            return value
        if self.choices is not None and self.kind is str:
            raise SettingError(unknown(name, value, self.choices))
        # A bool is no number here, nor is what Python alone takes for one, such as 1_0.
        number = math.nan
        is_text = isinstance(value, str) and value.isascii() and "_" not in value
        if is_text or (isinstance(value, int | float) and not isinstance(value, bool)):
            with suppress(ValueError, OverflowError):
                number = float(value)
        if not math.isfinite(number) or (self.kind is int and number != int(number)):
            names = f"{', '.join(map(repr, self.choices))} or " if self.choices else ""
            raise SettingError(
                f"{name} = {value!r} is not {names}{'a whole number' if self.kind is int else 'a number'}"
            )
        bound = "positive" if self.is_positive else f"at least {self.minimum:g}"
        if number < self.minimum or (self.is_positive and number <= 0):
            raise SettingError(f"{name} = {value} must be {bound}")
        maximum = min(self.maximum, LARGEST_INTEGER) if self.kind is int else self.maximum
        if number > maximum:
            raise SettingError(f"{name} = {value} must be at most {maximum:g}")
        return self.kind(number)


BATCH_SIZE = Setting(
    "batch_size", "n, the points in a mini-batch; full-data methods use it only as a weight", int, 10, minimum=1
)
NUM_BATCHES = Setting(
    "num_batches",
    "M, the mini-batches per step; auto: as few as the bias budget allows",
    int,
    5,
    minimum=1,
    choices={AUTO: "as few as keep the bias from the noise of the loss difference within its budget"},
)
STEP_SIZE = Setting(
    "step_size",
    "η of drift η∇U and noise √(2η), in every method; auto or ladder: chosen by a pilot run",
    float,
    is_positive=True,
    choices={
        AUTO: "the largest that acceptance and the bias budget allow, in a pilot run as long as the warm-up",
        LADDER: "the most effective of several steps, in pilot runs with the same budget for every method",
    },
)
WEIGHT = Setting(
    "weight",
    "w of the target: data (the posterior), batch (tempered to n), or a number",
    float,
    "data",
    is_positive=True,
    choices={"data": "w = N: the posterior", "batch": "w = n: the posterior tempered to a mini-batch"},
)
VARIANCE = Setting("variance", "estimator of the loss difference's variance", str, "batches", choices=VARIANCES)
PRECONDITIONER = Setting("preconditioner", "C of the proposal's covariance 2ηC", str, "full", choices=PRECONDITIONERS)
DECAY = Setting(
    "decay", "γ of the step size η (1 + t / decay_start)^−γ at step t; 0 keeps it constant", float, 0.0, 0, 1
)
DECAY_START = Setting(
    "decay_start", "steps after which the step size has clearly begun to fall", float, 1000.0, is_positive=True
)

#: Of a run, whatever its method.
RUN_SETTINGS = (
    Setting("num_steps", "steps after the warm-up", int, 20_000, minimum=1, maximum=LARGEST_COUNT),
    Setting("num_warmup", "steps before those, which are dropped", int, 2_000, minimum=0, maximum=LARGEST_COUNT),
    Setting("thin", "keep every thin-th draw", int, 10, minimum=1, maximum=LARGEST_COUNT),
    Setting("chains", "number of chains, run together", int, 4, minimum=1),
    Setting("dtype", "floating-point type of the sampler", str, "float32", choices=DTYPES),
)

#: The settings that several methods share, in the order in which they are shown; a card may have others of its own.
SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        BATCH_SIZE,
        NUM_BATCHES,
        STEP_SIZE,
        WEIGHT,
        VARIANCE,
        PRECONDITIONER,
        DECAY,
        DECAY_START,
        *RUN_SETTINGS,
    )
}


@dataclass(frozen=True)
class Settings:
    """All settings of a run, checked; None where the method has no such setting."""

    #: A number, or AUTO or LADDER until a pilot run has found one; so is ``num_batches``, but for the ladder.
    step_size: Any
    weight: str | float
    preconditioner: str
    num_steps: int
    num_warmup: int
    thin: int
    chains: int
    dtype: str
    batch_size: int | None = None
    num_batches: Any = None
    variance: str | None = None
    decay: float | None = None
    decay_start: float | None = None
    #: Those that only this method has, by name.
    own: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """From what ``as_dict`` gives."""
        shared = {name: value for name, value in values.items() if name in SETTINGS}
        return cls(**shared, own=tuple((name, value) for name, value in values.items() if name not in SETTINGS))

    def as_dict(self) -> dict[str, Any]:
        """The settings the method has: the shared ones in the order of SETTINGS, then its own."""
        values = asdict(self)
        return {name: values[name] for name in SETTINGS if values[name] is not None} | dict(self.own)

    @property
    def automatic(self) -> tuple[str, ...]:
        """The settings that a pilot run has still to find."""
        return tuple(name for name in TUNED if getattr(self, name) == AUTO)

    def target_weight(self, num_points: int) -> float:
        """The number w of U_w = -log p(theta) + (w/N) sum_j l_j that ``data``, ``batch`` or a number names."""
        named = {"data": num_points, "batch": self.batch_size}
        return float(named.get(self.weight, self.weight))  # type: ignore[arg-type]

    @property
    def shapes(self) -> Shapes:
        """What a compiled step depends on: the method's whole numbers and choices."""
        of_run = {setting.name for setting in RUN_SETTINGS} | {"preconditioner", "weight"}
        values = {name: value for name, value in self.as_dict().items() if name not in of_run}
        return Shapes(tuple((name, value) for name, value in values.items() if not isinstance(value, float)))

    @property
    def reals(self) -> dict[str, float]:
        """The method's real numbers but step size and weight: arguments of compiled code."""
        values = {name: value for name, value in self.as_dict().items() if name not in ("step_size", "weight")}
        return {name: value for name, value in values.items() if isinstance(value, float)}


def check_together(settings: Settings, problem: Sized) -> None:
    """Can settings, each of which is right, be run together? Raises SettingError."""
    n, m = settings.batch_size, settings.num_batches
    points = f"the {problem.num_points} training points of {problem.task!r}"
    if settings.weight == "batch" and n is None:
        raise SettingError("weight = 'batch' needs a batch_size, which this method does not have; give a number")
    if n is not None and n > problem.num_points:
        raise SettingError(f"batch_size = {n} exceeds {points}; lower it")
    if m == AUTO:
        m = least_batches(settings)
    if n is not None and m is not None and n * m > problem.num_points:
        raise SettingError(f"num_batches × batch_size = {m * n} exceeds {points}; lower one of them")
    if settings.variance not in (None, "oracle", *OF_POINTS) and m == 1:
        raise SettingError(
            f"variance = {settings.variance!r} needs num_batches of 2 or more; use 'points' for one batch"
        )
    if settings.variance in OF_POINTS and n == 1 and m == 1:
        raise SettingError(
            f"variance = {settings.variance!r} needs two points or more; raise batch_size or num_batches"
        )
    if settings.automatic and n == 1 and m == 1:
        raise SettingError(
            f"{settings.automatic[0]} = 'auto' depends on the noise, which one point cannot estimate; raise batch_size"
        )
    if settings.automatic and settings.step_size == LADDER:
        raise SettingError("num_batches = 'auto' needs step_size = 'auto' or a number, not 'ladder'")
    if settings.automatic and settings.num_warmup < LEAST_TUNING:
        raise SettingError(
            f"{settings.automatic[0]} = 'auto' is found by a pilot run as long as the warm-up, and num_warmup = "
            f"{settings.num_warmup} is too short for one; raise it to {LEAST_TUNING} or more"
        )
    if settings.preconditioner == "full" and problem.num_parameters > MAX_FULL_CURVATURE:
        raise SettingError(
            f"preconditioner = 'full' works up to {MAX_FULL_CURVATURE} parameters, and {problem.task!r} has "
            f"{problem.num_parameters} here; use 'diagonal'"
        )
    proxy = dict(settings.own).get("proxy", "none")
    if proxy not in ("none", "first") and problem.num_parameters > MAX_FULL_CURVATURE:
        raise SettingError(
            f"proxy = {proxy!r} works up to {MAX_FULL_CURVATURE} parameters, and {problem.task!r} has "
            f"{problem.num_parameters} here; use 'first'"
        )
    if settings.num_steps < settings.thin:
        raise SettingError(
            f"num_steps = {settings.num_steps} with thin = {settings.thin} keeps no draw; raise num_steps or lower thin"
        )


def least_batches(settings: Settings) -> int:
    """The fewest mini-batches whose spread, or that of their points, tells a variance."""
    is_of_points = settings.variance in (None, "oracle", *OF_POINTS)
    return 1 if is_of_points and settings.batch_size != 1 else 2


# Step sizes for a target whose curvature the preconditioner has turned into the identity.


def random_walk_step(dimension: int) -> float:
    """Roberts, Gelman and Gilks (1997): sd 2.38 d^(-1/2)."""
    return 2.38**2 / (2 * dimension)


def noisy_step(dimension: int) -> float:
    """Half the optimal random walk, to keep the variance of the loss difference well below 1."""
    return 1.2**2 / (2 * dimension)


def adjusted_langevin_step(dimension: int) -> float:
    """Christensen, Roberts and Rosenthal (2005): from starts in the tails the step must fall as d^(-1/2), not as the
    d^(-1/3) that is best in equilibrium, or chains stay where they began (seen on digits)."""
    return 1.2**2 / (2 * dimension**0.5)


#: The variance of an unadjusted Langevin chain is off by eta / 2 at the least: one per cent here.
UNADJUSTED_STEP = 0.02
