"""The backends: what a sampler is, and what both libraries build one from: a run's model, arrays and numbers.

Importing this module imports neither library: a job pays for its own alone.
"""

import ctypes
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from types import ModuleType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from array_api_compat import array_namespace

from implementations.card import Card
from implementations.control_variates import averaging, bounds, leverage, network_proxies, proxies
from implementations.control_variates.anchor import Anchor, at_anchor, distance_from_mode, find_anchor
from implementations.infrastructure.errors import SettingError, unknown
from implementations.kernels import contract
from implementations.kernels.contract import Array, Data, Points, Shapes, Values
from implementations.schedule import cycle_steps
from implementations.settings import MAX_FULL_CURVATURE, Settings
from implementations.tasks.geometry import preconditioner_factor, start_points
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.problem import Model, Problem
from implementations.tasks.starts import starts
from implementations.tasks.temperature import fit_temperature

BACKENDS: dict[str, tuple[str, str]] = {
    "jax-cpu": ("jax", "cpu"),
    "jax-gpu": ("jax", "gpu"),
    "torch-cpu": ("torch", "cpu"),
    "torch-gpu": ("torch", "gpu"),
}
#: An anchor that is farther from the mode, in standard deviations of the target, causes a warning.
FARTHEST_ANCHOR = 0.1
#: Bytes that a processor reads from memory at once.
CACHE_LINE = 64
#: Of x86-64, and of other processors with pages of 4 KiB.
LARGE_PAGE = 2**21
#: From Linux 6.1 on: now, and not when the kernel finds time.
MADV_COLLAPSE = 25


class Skipped(RuntimeError):
    """Why a run cannot be made here: its device is missing, or its method does not exist in this library."""


class Draws(NamedTuple):
    """What a chunk of steps leaves behind, on the host; the means are over the steps since the draw before."""

    positions: np.ndarray  # (chains, draws, P)
    acceptance: np.ndarray  # (chains, draws): mean of the accepted moves
    variance: np.ndarray  # (chains, draws): mean of the estimated variance of the loss difference


class Costs(NamedTuple):
    """Evaluations of single points that a chunk of steps made: whole numbers (chains,)."""

    num_likelihoods: np.ndarray
    num_gradients: np.ndarray


class Sampler(Protocol):
    """Chains of one method on one problem. A carry is all that the next chunk needs, and private to the backend."""

    inputs: "Inputs"

    def start(self, positions: np.ndarray, seed: int) -> Any:
        """The carry of chains that begin at ``positions`` (chains, P)."""

    def compile(self, carry: Any) -> bool:
        """Compile the loop, so that no later call does; the carry is left as it is.

        False where nothing had to be compiled, because another run in this process had, or steps run as they are.
        """

    def at_step_size(self, step_size: float) -> Self:
        """The same sampler with another step size, on the same data and compiled code."""

    def advance(self, carry: Any, num_steps: int, is_warmup: bool = False) -> tuple[Any, Draws, Costs]:
        """Run a chunk and wait for the device; whole strides of ``thin`` steps leave a draw."""

    def finite_steps(self, carry: Any) -> np.ndarray:
        """Steps (chains,) after which each chain's position was finite: all of them, or up to where it diverged."""

    def weigh(self, how: str, positions: np.ndarray, steps: np.ndarray, seed: int) -> dict[str, np.ndarray]:
        """One fresh move from each position (k, P), reached after so many steps (k,); nothing where a kernel cannot.

        ``audit`` weighs it by the method and by all the data, ``balance`` by many mini-batches both ways
        (metrics.decisions).
        """

    def to_arrays(self, carry: Any) -> dict[str, np.ndarray]:
        """A carry as plain arrays, for a checkpoint."""

    def from_arrays(self, arrays: dict[str, np.ndarray]) -> Any:
        """The carry that ``to_arrays`` took apart."""


def find_backend(name: str) -> tuple[str, str]:
    """Library and device of a backend. Raises SettingError."""
    if name not in BACKENDS:
        raise SettingError(unknown("backend", name, BACKENDS))
    return BACKENDS[name]


def build_sampler(backend: str, problem: Problem, card: Card, settings: Settings) -> Sampler:
    """The sampler of a method on a problem. Raises Skipped."""
    library, device = find_backend(backend)
    if library not in card.libraries:
        raise Skipped(f"{card.name} runs in {' and '.join(card.libraries)} only")
    sampler: Sampler = import_library(backend).build_sampler(problem, card, settings, device)
    return sampler


def import_library(backend: str) -> ModuleType:
    """The module of a backend's chains, and with it its library, which takes seconds the first time."""
    return importlib.import_module(f"implementations.backends.{find_backend(backend)[0]}.chain")


def use_one_thread(backend: str) -> None:
    """Keep a library on one thread, so that wall-clock times can be compared; call it before the library is used.

    XLA reads its options from the environment once, when the first device is made. That happens here, and the
    environment is then what it was.
    """
    library, device = find_backend(backend)
    if library == "torch":
        importlib.import_module("torch").set_num_threads(1)
        return
    flags = ["--xla_cpu_multi_thread_eigen=false"]
    if device == "cpu":
        # Half the time to compile, and steps that take a few per cent longer at the most.
        flags.append("--xla_backend_optimization_level=2")
    given = os.environ.get("XLA_FLAGS", "").split()
    options = {
        # The size of XLA's own pool of threads, which no flag sets: with more, it cuts small loops into pieces, and
        # handing those over takes longer than the work (a step of sgld twice as long).
        "PJRT_NPROC": "1",
        # The last one counts, so what the user has set stays.
        "XLA_FLAGS": " ".join([*(flag for flag in flags if flag not in given), *given]),
    }
    before = {name: os.environ.get(name) for name in options}
    os.environ.update(options)
    try:
        # Where a platform does not start, the sampler that needs it says so.
        with suppress(RuntimeError):
            importlib.import_module("jax").devices()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Form(NamedTuple):
    """All that compiled code depends on: runs that share it share their compiled code."""

    model: Model
    card: Card
    shapes: Shapes
    preconditioner: str
    dtype: str
    chains: int
    device: Any


class Inputs:
    """What a run's steps read: its data and its numbers, on the host, which a backend puts on its device.

    What has to be prepared is found once for a problem and a weight. Raises Skipped where the method is not applicable.
    """

    def __init__(self, problem: Problem, card: Card, settings: Settings) -> None:
        self.problem, self.card, self.settings = problem, card, settings
        self.weight = settings.target_weight(problem.num_points)
        self.proxy = dict(settings.own).get("proxy")
        has_anchor = "anchor" in card.needs and self.proxy != "none"
        self.anchor = self._find_anchor() if has_anchor else None
        self.averages = self._find_averages() if self.proxy == proxies.AVERAGED else None
        self.selection = self._find_selection() if settings.shapes.get("selection", "uniform") != "uniform" else None
        self.bounds: Any = self._find_bounds() if "bounds" in card.needs else ()
        #: What control variates keep of each point, (N, columns).
        self.columns = None if self.anchor is None else at_anchor(problem, self.anchor)
        if self.columns is not None and self.averages is not None and self.columns.shape[1]:
            self.columns = np.concatenate([self.columns, self.averages.slopes], axis=1)

    def _find_anchor(self) -> Anchor:
        problem, name = self.problem, self.card.name
        if problem.prior == "laplace" and (not problem.is_linear or problem.num_parameters > MAX_FULL_CURVATURE):
            raise Skipped(
                f"{name} is not applicable to several stochastic layers, or more than {MAX_FULL_CURVATURE} parameters,"
                " under a laplace prior: its kinks hide the mode"
            )
        if problem.network and "proxy" in self.card.settings:
            raise Skipped(
                f"{name} is not applicable to the network {problem.network.name!r}: control variates are written for "
                "layers with tanh or relu between them"
            )
        if "validation" in self.card.needs:
            reason = None
            if not problem.is_linear:
                reason = "of several stochastic layers no multiple of the parameters scales the outputs"
            elif not find_likelihood(problem.likelihood).has_classes:
                reason = f"the outputs of a {problem.likelihood} likelihood are not scaled by a temperature"
            elif not len(problem.validation_targets):
                reason = "it has no validation points"
            if reason:
                raise Skipped(f"{name} is not applicable to {problem.task!r}: {reason}")
        return anchor_at(problem, self.weight)

    def _find_averages(self) -> averaging.Averages:
        if not self.problem.is_linear or self.problem.is_normalised:
            reason = "a density" if self.problem.is_normalised else "several stochastic layers"
            raise Skipped(f"{self.card.name} with proxy = averaged is not applicable to {reason}; use 'second'")
        assert self.anchor is not None, "the setting belongs to methods with control variates"
        return averaged_at(self.problem, self.anchor)

    def _find_selection(self) -> leverage.Selection:
        """The slots of mini-batches that do not draw all points alike."""
        if not self.problem.is_linear or self.problem.is_normalised:
            reason = "a density: all points tell the same" if self.problem.is_linear else "several stochastic layers"
            raise Skipped(f"{self.card.name} with selection = leverage is not applicable to {reason}")
        assert self.anchor is not None, "the setting belongs to methods with control variates"
        return selected_at(self.problem, self.anchor)

    def _find_bounds(self) -> contract.Bounds:
        """The lengths of the points, for a method that is exact by bounds on their losses."""
        problem, proxy = self.problem, self.proxy or "none"
        if bounds.slope(problem.model, None if proxy == "none" else proxy) is None:
            reason = f"the {problem.likelihood} likelihood" if problem.is_linear else "several stochastic layers"
            raise Skipped(
                f"{self.card.name} is not applicable to {problem.task!r} with proxy {proxy}: a loss has no known bound "
                f"for {reason}"
            )
        lengths = np.concatenate(
            [np.linalg.norm(problem.features[chunk].astype(np.float64), axis=1) for chunk in problem.chunks()]
        )
        # What is rounded to single precision must not fall below a length.
        largest = lengths.max() * (1 + 1e-6)
        return contract.Bounds(np.float64(largest), np.array([(lengths**power).sum() for power in (1, 2, 3)]))

    def form(self, device: Any) -> Form:
        settings = self.settings
        kind = settings.preconditioner, settings.dtype, settings.chains
        return Form(self.problem.model, self.card, settings.shapes, *kind, device)

    def points(self) -> Points:
        """The data in the forms that steps read; what the method does not need is empty."""
        some = slice(None if "rows" in self.card.needs else 0)
        kept = None if self.columns is None else self.columns[some]
        rows = rows_of(self.problem.features[some], self.problem.targets[some], self.settings.dtype, kept)
        anchor: contract.Expansion | tuple[()] = ()
        if self.anchor is not None:
            position = centre = self.anchor.position
            gradient = self.anchor.gradient
            if "validation" in self.card.needs:
                # The parameters that predict as those at the mode do at the best temperature.
                position = centre = position / fit_temperature(self.problem, position)
            if self.averages is not None:
                gradient, centre = gradient + self.averages.gradient, self.averages.centre
            anchor = contract.Expansion(position, gradient, self.anchor.curvature, centre)
        selection = () if self.selection is None else contract.Slots(self.selection.slots, self.selection.scales)
        return Points(self.together(self.card.needs_all(self.settings)), rows, anchor, self.bounds, selection)

    def together(self, is_whole: bool = True) -> Data:
        """All points to evaluate together, or none."""
        some = slice(None if is_whole else 0)
        data = Data(self.problem.features[some], self.problem.targets[some])
        return data if self.columns is None else data._replace(at_anchor=self.columns[some].T)

    def values(self) -> Values:
        """The numbers of the steps; the step size is that of the first one.

        With an anchor, the preconditioner is that of the curvature there, at the mode of the run's own target.
        """
        problem, settings = self.problem, self.settings
        if self.anchor is not None:
            problem = replace(problem, curvature=self.anchor.gauss_newton / self.weight)
        factor = preconditioner_factor(problem, self.weight, settings.preconditioner)
        own = {name: np.float64(value) for name, value in settings.reals.items()}
        if (cycle := cycle_steps(settings)) is not None:
            own["cycle"] = np.float64(cycle)
        return Values(np.float64(settings.step_size), np.float64(self.weight), factor, np.bool_(False), own)

    def starts(self, seed: int) -> np.ndarray:
        """Where chains begin (chains, P).

        Control variates are noisiest in the tails, and from twice the spread, eight times the remainders, some chains
        would not move at all: those methods begin in the Gaussian of their own target, at its mode or where averages
        put it. Networks begin there with every method.
        """
        problem, chains = self.problem, self.settings.chains
        if not problem.is_linear:
            return starts(problem, self.weight, chains, seed)
        if self.anchor is None:
            return start_points(problem, self.weight, chains, seed)
        centre = self.anchor.position if self.averages is None else self.averages.centre
        at_mode = replace(problem, map=centre, curvature=self.anchor.gauss_newton / self.weight)
        return start_points(at_mode, self.weight, chains, seed, spread=1.0)


@lru_cache(maxsize=4)
def anchor_at(problem: Problem, weight: float) -> Anchor:
    """The anchor of the target of weight w, found once."""
    anchor = find_anchor(problem, weight, progress=True)
    if sentence := far_from_mode(problem, anchor):
        warnings.warn(sentence, stacklevel=2)
    return anchor


#: Found once for a problem and a weight, as its anchor is.
selected_at = lru_cache(maxsize=4)(leverage.by_leverage)
averaged_at = lru_cache(maxsize=4)(averaging.averages)


def far_from_mode(problem: Problem, anchor: Anchor) -> str | None:
    """A warning about an anchor that is not at the mode of its target."""
    distance = distance_from_mode(problem, anchor)
    if distance <= FARTHEST_ANCHOR:
        return None
    return (
        f"the anchor of {problem.task!r}, weight {anchor.weight:g}, is {distance:.2g} standard deviations from the "
        "mode: control variates leave more noise there, and the Laplace approximation is wrong"
    )


def rows_of(features: np.ndarray, targets: np.ndarray, dtype: str, at_anchor: np.ndarray | None = None) -> np.ndarray:
    """A row per point, to read all of it at once: features, target, what is kept of it at an anchor (N, columns), and
    zeros up to where the next row begins.

    That is a multiple of half a cache line (of a smaller power of two where more than one row fits in there), and the
    first row begins where a line does: no row then lies in more lines than it needs. As ``dtype``, class numbers are
    exact up to 2^24.
    """
    num_points, num_features = features.shape
    width = num_features + 1 + (0 if at_anchor is None else at_anchor.shape[1])
    itemsize = np.dtype(dtype).itemsize
    unit = min(CACHE_LINE // 2 // itemsize, 1 << (width - 1).bit_length())
    stride = -(-width // unit) * unit
    num_bytes = num_points * stride * itemsize
    memory = np.zeros(num_bytes + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    rows = memory[start : start + num_bytes].view(dtype).reshape(num_points, stride)
    rows[:, :num_features] = features
    rows[:, num_features] = targets
    if at_anchor is not None:
        rows[:, num_features + 1 : width] = at_anchor
    return rows


def use_large_pages(address: int, num_bytes: int) -> None:
    """Move this memory into pages of 2 MiB; without any the call does nothing.

    A mini-batch reads its rows all over the data. The processor remembers where some thousand pages are: in those of
    4 KiB that is a few megabytes, and every row beyond costs a look-up of its own, longer than reading it.
    """
    start = -(-address // LARGE_PAGE) * LARGE_PAGE
    length = (address + num_bytes - start) // LARGE_PAGE * LARGE_PAGE
    if sys.platform == "linux" and length > 0:
        # Its result is of no interest: the memory is the same, only faster or not.
        ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_COLLAPSE)


class ModelTarget:
    """A model as a kernel sees it (kernels.contract.Target), out of a library's functions."""

    def __init__(self, model: Model, likelihood: ModuleType, minibatch: ModuleType) -> None:
        self.model, self.likelihood, self.minibatch = model, likelihood, minibatch
        self.num_points, self.num_parameters = model.num_points, model.num_parameters

    def log_prior(self, position: Array) -> Array:
        return self.likelihood.log_prior(position, self.model)

    def losses(self, position: Array, data: Data) -> Array:
        return self.likelihood.point_losses(position, data, self.model)

    def losses_and_gradient(self, position: Array, data: Data, weight: Array) -> tuple[Array, Array]:
        gradient: tuple[Array, Array] = self.likelihood.losses_and_gradient(position, data, weight, self.model)
        return gradient

    def remainders(self, position: Array, data: Data, anchor: contract.Expansion, order: str) -> Array:
        if not self.model.is_linear:
            return network_proxies.remainders(position, data, anchor, self.model, order)
        # f(theta) - f(t) as one product: a difference of two outputs would lose digits.
        left = self.likelihood.remainders(position - anchor.position, data, self.model, order)
        if self.model.grid is None:
            return left
        return left + normaliser.remainders(*self._on_grid(position, anchor), order)[..., None]

    def _on_grid(self, position: Array, anchor: contract.Expansion) -> tuple[Array, Array]:
        """On the grid of a density: the moves of the outputs from the anchor (…, G), and the shares there (G,)."""
        moves = self.likelihood.grid_outputs(position - anchor.position, self.model)
        return moves, normaliser.shares(self.likelihood.grid_outputs(anchor.position, self.model))

    def anchored_gradient(
        self, position: Array, data: Data | None, anchor: contract.Expansion, weight: Array, order: str
    ) -> Array:
        xp, scale = array_namespace(position), self.model.prior_scale
        of_prior = position / scale**2 if self.model.prior == "gaussian" else xp.sign(position) / scale
        gradient = of_prior + proxies.proxy_gradient(position, anchor, order)
        if data is None:
            return gradient
        if not self.model.is_linear:
            by_parameter = self.likelihood.gradient_of(
                lambda place: network_proxies.remainders(place, data, anchor, self.model, order), position
            )
            return gradient + weight / data.targets.shape[-1] * by_parameter
        moves = self.likelihood.network_outputs(position - anchor.position, data.features, self.model.layers)
        by_output = proxies.residuals(moves, data.at_anchor, self.model, order)
        by_parameter = (by_output @ data.features).mT.reshape(*position.shape)
        gradient = gradient + weight / by_output.shape[-1] * by_parameter
        if self.model.grid is None:
            return gradient
        slopes = normaliser.remainder_slopes(*self._on_grid(position, anchor), order)
        return gradient + weight * slopes @ self.model.grid.like(position)

    def take(self, rows: Array, indices: Array, order: str | None = None) -> Data:
        num_anchored = proxies.num_columns(self.model, order) if order else 0
        data: Data = self.minibatch.take_points(rows, indices, self.model.num_features, num_anchored)
        return data

    def points_at(self, orders: Array, positions: Array) -> Array:
        return self.minibatch.points_at(orders, positions, self.model.num_points)

    def _slope(self, order: str | None) -> float:
        slope = bounds.slope(self.model, order)
        assert slope is not None, "a run without bounds is skipped"
        return slope

    def point_bounds(self, points: Data, order: str | None) -> Array:
        return bounds.point_bounds(points, self._slope(order), order)

    def move_bound(self, position: Array, proposed: Array, data: Points, order: str | None) -> Array:
        return bounds.move_bound(position, proposed, data, self.model, order)

    def bound_totals(self, data: Points, order: str | None) -> tuple[Array, Array]:
        return bounds.totals(data, self._slope(order), order)

    def loop(self, condition: Callable[[Any], Array], body: Callable[[Any], Any], value: Any) -> Any:
        return self.minibatch.loop(condition, body, value)
