"""What a run's steps read: its model as functions, its data and its numbers, on the host.

A backend puts them on its device. Nothing here depends on a library.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
from array_api_compat import array_namespace

from implementations.card import Card
from implementations.control_variates import averaging, bounds, leverage, network_proxies, proxies
from implementations.control_variates.anchor import Anchor, at_anchor, distance_from_mode, find_anchor
from implementations.infrastructure.memory import rows_of
from implementations.kernels import contract
from implementations.kernels.contract import Array, Data, Kernel, Points, Shapes, Values
from implementations.schedule import cycle_steps
from implementations.settings import MAX_FULL_CURVATURE, Settings
from implementations.tasks.geometry import preconditioner_factor
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.problem import Model, Problem
from implementations.tasks.starts import starts
from implementations.tasks.temperature import fit_temperature

#: An anchor that is farther from the mode, in standard deviations of the target, is warned of.
FARTHEST_ANCHOR = 0.1


class Skipped(RuntimeError):
    """Why a run cannot be made here: its device is missing, or its method does not exist in this library."""


class Form(NamedTuple):
    """All that compiled code depends on: runs that share it share their compiled code."""

    model: Model
    card: Card
    shapes: Shapes
    preconditioner: str
    dtype: str
    chains: int
    device: Any

    @classmethod
    def of(cls, problem: Problem, card: Card, settings: Settings, device: Any) -> Self:
        kind = settings.preconditioner, settings.dtype, settings.chains
        return cls(problem.model, card, settings.shapes, *kind, device)

    def kernel(self, likelihood: ModuleType, minibatch: ModuleType) -> Kernel:
        """The method's kernel out of a library's functions."""
        return self.card.kernel(ModelTarget(self.model, likelihood, minibatch), self.shapes)


@dataclass(frozen=True)
class ModelTarget:
    """A model as a kernel sees it (kernels.contract.Target), out of a library's functions."""

    model: Model
    likelihood: ModuleType
    minibatch: ModuleType

    @property
    def num_points(self) -> int:
        return self.model.num_points

    @property
    def num_parameters(self) -> int:
        return self.model.num_parameters

    def log_prior(self, position: Array) -> Array:
        return self.likelihood.log_prior(position, self.model)

    def losses(self, position: Array, data: Data) -> Array:
        return self.likelihood.point_losses(position, data, self.model)

    def losses_and_gradient(self, position: Array, data: Data, weight: Array) -> tuple[Array, Array]:
        gradient: tuple[Array, Array] = self.likelihood.losses_and_gradient(position, data, weight, self.model)
        return gradient

    def remainders(self, position: Array, data: Data, anchor: contract.Anchor, order: str) -> Array:
        if not self.model.is_linear:
            return network_proxies.remainders(position, data, anchor, self.model, order)
        # f(theta) - f(t) as one product: a difference of two outputs would lose digits.
        left = self.likelihood.remainders(position - anchor.position, data, self.model, order)
        if self.model.grid is None:
            return left
        return left + normaliser.remainders(*self._on_grid(position, anchor), order)[..., None]

    def _on_grid(self, position: Array, anchor: contract.Anchor) -> tuple[Array, Array]:
        """On the grid of a density: the moves of the outputs from the anchor (…, G), and the shares there (G,)."""
        moves = self.likelihood.grid_outputs(position - anchor.position, self.model)
        return moves, normaliser.shares(self.likelihood.grid_outputs(anchor.position, self.model))

    def anchored_gradient(
        self, position: Array, data: Data | None, anchor: contract.Anchor, weight: Array, order: str
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


@dataclass(frozen=True)
class Inputs:
    """The arrays of a run, in the forms that its steps read."""

    problem: Problem
    card: Card
    settings: Settings

    @cached_property
    def anchor(self) -> Anchor | None:
        return anchor_of(self.problem, self.card, self.settings)

    @cached_property
    def selection(self) -> leverage.Selection | None:
        return selection_of(self.problem, self.card, self.settings)

    @cached_property
    def averages(self) -> averaging.Averages | None:
        return averages_of(self.problem, self.card, self.settings)

    @cached_property
    def columns(self) -> np.ndarray | None:
        """What control variates keep of each point, (N, columns)."""
        if self.anchor is None:
            return None
        kept = at_anchor(self.problem, self.anchor)
        if self.averages is None or not kept.shape[1]:
            return kept
        return np.concatenate([kept, self.averages.slopes], axis=1)

    @property
    def values(self) -> Values:
        return values_of(self.problem, self.settings, self.anchor)

    def points(self) -> Points:
        return Points(
            self.together(self.card.needs_all(self.settings)),
            self._rows("rows" in self.card.needs),
            self._anchor(),
            bounds_of(self.problem, self.card, self.settings),
            () if self.selection is None else contract.Selection(self.selection.slots, self.selection.scales),
        )

    def _anchor(self) -> contract.Anchor | tuple[()]:
        anchor = self._scaled() if "validation" in self.card.needs else self.anchor
        if anchor is None:
            return ()
        if self.averages is None:
            return contract.Anchor(anchor.position, anchor.gradient, anchor.curvature, anchor.position)
        gradient = anchor.gradient + self.averages.gradient
        return contract.Anchor(anchor.position, gradient, anchor.curvature, self.averages.centre)

    def _scaled(self) -> Anchor:
        """The anchor with the parameters that predict as those at the mode do at the best temperature."""
        anchor = self.anchor
        assert anchor is not None, "only what has a mode can be scaled"
        return replace(anchor, position=anchor.position / fit_temperature(self.problem, anchor.position))

    def together(self, is_whole: bool) -> Data:
        """All points to evaluate together, or none."""
        some = slice(None if is_whole else 0)
        data = Data(self.problem.features[some], self.problem.targets[some])
        return data if self.columns is None else data._replace(at_anchor=self.columns[some].T)

    def _rows(self, is_whole: bool) -> np.ndarray:
        some = slice(None if is_whole else 0)
        columns = None if self.columns is None else self.columns[some]
        return rows_of(self.problem.features[some], self.problem.targets[some], self.settings.dtype, columns)


def anchor_of(problem: Problem, card: Card, settings: Settings) -> Anchor | None:
    """The anchor of a run whose method needs one, and does not do without (proxy = none). Raises Skipped."""
    if "anchor" not in card.needs or dict(settings.own).get("proxy") == "none":
        return None
    if problem.prior == "laplace" and (not problem.is_linear or problem.num_parameters > MAX_FULL_CURVATURE):
        raise Skipped(
            f"{card.name} is not applicable to several stochastic layers, or more than {MAX_FULL_CURVATURE} parameters,"
            " under a laplace prior: its kinks hide the mode"
        )
    if problem.network and "proxy" in card.settings:
        raise Skipped(
            f"{card.name} is not applicable to the network {problem.network.name!r}: control variates are written for "
            "layers with tanh or relu between them"
        )
    if "validation" in card.needs and (reason := _not_scaled(problem)):
        raise Skipped(f"{card.name} is not applicable to {problem.task!r}: {reason}")
    return anchor_at(problem, settings.target_weight(problem.num_points))


def _not_scaled(problem: Problem) -> str | None:
    """Why no parameters predict as others do at a temperature."""
    if not problem.is_linear:
        return "of several stochastic layers no multiple of the parameters scales the outputs"
    if not find_likelihood(problem.likelihood).has_classes:
        return f"the outputs of a {problem.likelihood} likelihood are not scaled by a temperature"
    return None if len(problem.validation_targets) else "it has no validation points"


def selection_of(problem: Problem, card: Card, settings: Settings) -> leverage.Selection | None:
    """The slots of a run whose mini-batches do not draw all points alike. Raises Skipped."""
    if settings.shapes.get("selection", "uniform") == "uniform":
        return None
    if not problem.is_linear:
        raise Skipped(f"{card.name} with selection = leverage is not applicable to several stochastic layers")
    if problem.is_normalised:
        raise Skipped(f"{card.name} with selection = leverage is not applicable to a density: all points tell the same")
    anchor = anchor_of(problem, card, settings)
    assert anchor is not None, "the setting belongs to methods with control variates"
    return selected_at(problem, anchor)


def averages_of(problem: Problem, card: Card, settings: Settings) -> averaging.Averages | None:
    """The mean slopes of a run whose control variates are averaged. Raises Skipped."""
    if dict(settings.own).get("proxy") != proxies.AVERAGED:
        return None
    if not problem.is_linear or problem.is_normalised:
        reason = "a density" if problem.is_normalised else "several stochastic layers"
        raise Skipped(f"{card.name} with proxy = averaged is not applicable to {reason}; use 'second'")
    anchor = anchor_of(problem, card, settings)
    assert anchor is not None, "the setting belongs to methods with control variates"
    return averaged_at(problem, anchor)


def bounds_of(problem: Problem, card: Card, settings: Settings) -> contract.Bounds | tuple[()]:
    """The lengths of the points, for a method that is exact by bounds on their losses. Raises Skipped."""
    if "bounds" not in card.needs:
        return ()
    proxy = dict(settings.own).get("proxy", "none")
    if bounds.slope(problem.model, None if proxy == "none" else proxy) is None:
        raise Skipped(
            f"{card.name} is not applicable to {problem.task!r} with proxy {proxy}: a loss has no known bound for "
            f"{'several stochastic layers' if not problem.is_linear else f'the {problem.likelihood} likelihood'}"
        )
    lengths = np.concatenate(
        [np.linalg.norm(problem.features[chunk].astype(np.float64), axis=1) for chunk in problem.chunks()]
    )
    # What is rounded to single precision must not fall below a length.
    largest = lengths.max() * (1 + 1e-6)
    return contract.Bounds(np.float64(largest), np.array([(lengths**power).sum() for power in (1, 2, 3)]))


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
    """What is to be said of an anchor that is not at the mode of its target."""
    distance = distance_from_mode(problem, anchor)
    if distance <= FARTHEST_ANCHOR:
        return None
    return (
        f"the anchor of {problem.task!r}, weight {anchor.weight:g}, is {distance:.2g} standard deviations from the "
        "mode: control variates leave more noise there, and the Laplace approximation is wrong"
    )


def start_of(problem: Problem, card: Card, settings: Settings, seed: int) -> np.ndarray:
    """Where chains begin (chains, P).

    Control variates are noisiest in the tails, and from twice the spread, eight times the remainders, some chains would
    not move at all: those methods begin in the Gaussian of their own target, at its mode or where averages put it.
    Networks begin there with every method.
    """
    weight, anchor = settings.target_weight(problem.num_points), anchor_of(problem, card, settings)
    if anchor is None or not problem.is_linear:
        return starts(problem, weight, settings.chains, seed)
    averages = averages_of(problem, card, settings)
    centre = anchor.position if averages is None else averages.centre
    at_mode = replace(problem, map=centre, curvature=anchor.gauss_newton / weight)
    return starts(at_mode, weight, settings.chains, seed, spread=1.0)


def values_of(problem: Problem, settings: Settings, anchor: Anchor | None = None) -> Values:
    """The numbers of a run's steps, on the host; the step size is that of the first step.

    With an anchor, the preconditioner is that of the curvature there, at the mode of the run's own target.
    """
    weight = settings.target_weight(problem.num_points)
    if anchor is not None:
        problem = replace(problem, curvature=anchor.gauss_newton / weight)
    factor = preconditioner_factor(problem, weight, settings.preconditioner)
    own = {name: np.float64(value) for name, value in settings.reals.items()}
    if (cycle := cycle_steps(settings)) is not None:
        own["cycle"] = np.float64(cycle)
    return Values(np.float64(settings.step_size), np.float64(weight), factor, np.bool_(False), own)
