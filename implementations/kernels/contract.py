"""The contract of a sampler: what a method gives, and what a backend gives a method.

A method is a kernel of three pure functions. All arrays have the chains as leading dimension, and the same lines run on
jax, torch and numpy arrays: arithmetic is operators, functions come from ``array_namespace`` of the arrays.

    noise(random, shape, values)        all the randomness of steps and chains ``shape``, drawn at once
    init(noise, position, data, values) the state at a position
    step(noise, state, data, values)    the next state, and what a reader of the run wants to know of the step

What differs between libraries is handed in: random numbers (``Random``), and losses and gradients of the model
(``Target``). Numbers such as the step size arrive as ``Values`` when a step runs, so a sweep over them compiles once;
whole numbers and choices (``Shapes``) are known when the kernel is built.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from array_api_compat import array_namespace, is_jax_namespace

#: An array of jax, torch or numpy; no type stands for all three.
Array = Any


class Data(NamedTuple):
    """Points: all of them, or a mini-batch for each chain."""

    features: Array  # (…, n, inputs + 1)
    targets: Array  # (…, n)
    at_anchor: Array = ()  # (…, columns, n): what control variates keep of each point (control_variates.proxies)


class Expansion(NamedTuple):
    """Where control variates are expanded, the mode of U_w; gradient and curvature are of (w / N) sum_j l_j there."""

    position: Array  # (P,)
    gradient: Array  # (P,)
    curvature: Array  # (P, P)
    centre: Array  # (P,): mean of the Gaussian of prior and proxies, which Crank-Nicolson moves keep


class Bounds(NamedTuple):
    """Of the lengths |x_j| of all points, for methods that are exact by bounds (control_variates.bounds)."""

    largest: Array  # ()
    totals: Array  # (3,): sums of their first three powers


class Slots(NamedTuple):
    """A table that mini-batches draw, each the place of a point (control_variates.leverage)."""

    slots: Array  # (K,): points
    scales: Array  # (N,): what a point's difference is weighed by


class Points(NamedTuple):
    """The data in the forms that steps read; the one that a method does not need is empty."""

    together: Data  # to evaluate all of them
    rows: Array  # (N, columns): to draw mini-batches from (implementations.backends.rows_of)
    anchor: Any = ()  # an Expansion, for methods that need one
    bounds: Any = ()  # Bounds, likewise
    selection: Any = ()  # Slots, where points are not drawn alike


class Values(NamedTuple):
    """The numbers of a step: arguments of compiled code, not part of it."""

    step_size: Array  # of this step, after the schedule
    weight: Array  # w of the target
    factor: Array  # L of the preconditioner C = L L^T: scalar, (P,) or (P, P)
    is_warmup: Array  # may the method still adapt itself?
    own: Mapping[str, Array]  # the method's other settings that are real numbers, by name


class Info(NamedTuple):
    """What a reader of the run wants to know of a step; all (chains,). Costs are observed, not assumed."""

    is_accepted: Array  # or its probability, where a library tells only that
    variance: Array  # estimated, of the loss difference; 0 where it has none
    num_likelihoods: Array  # whole numbers: points whose loss the step evaluated
    num_gradients: Array


class Random(Protocol):
    """The random numbers of a backend. Every call gives fresh ones."""

    def normals(self, shape: tuple[int, ...]) -> Array:
        """Standard normal."""

    def log_uniforms(self, shape: tuple[int, ...]) -> Array:
        """Logarithms of uniform numbers in (0, 1], all finite."""

    def points(self, shape: tuple[int, ...], count: int, among: int | None = None) -> Array:
        """``count`` distinct points of the data for every place in ``shape``, at a cost that does not grow with N; or
        of the numbers below ``among``."""

    def orders(self, shape: tuple[int, ...]) -> Array:
        """A random order of all points for every place in ``shape``, of which ``Target.points_at`` reads any part."""

    def bits(self, shape: tuple[int, ...], count: int) -> Array:
        """``count`` random 32-bit integers for every place, from which a step draws more (kernels.poisson.uniforms)."""

    def keys(self, shape: tuple[int, ...]) -> Array:
        """Seeds for a library that draws its own random numbers; jax only gives its own kind of them."""


class Target(Protocol):
    """The model of a backend: U_w(theta) = -log p(theta) + (w / N) sum_j l_j(theta), in pieces."""

    @property
    def num_points(self) -> int: ...
    @property
    def num_parameters(self) -> int: ...

    def log_prior(self, position: Array) -> Array:
        """log p(theta) up to a constant, (…,) of (…, P)."""

    def losses(self, position: Array, data: Data) -> Array:
        """l_j for every point, (…, n)."""

    def losses_and_gradient(self, position: Array, data: Data, weight: Array) -> tuple[Array, Array]:
        """The losses (chains, n), and the gradient (chains, P) of -log p + (w / n) sum_j l_j over these n points."""

    def remainders(self, position: Array, data: Data, anchor: Expansion, order: str) -> Array:
        """l_j - q_j, up to a constant, for every point (…, n): what control variates leave of the losses."""

    def anchored_gradient(
        self, position: Array, data: Data | None, anchor: Expansion, weight: Array, order: str
    ) -> Array:
        """The gradient (chains, P) of -log p + (w / N) sum_j q_j over all points + (w / n) sum_j (l_j - q_j) over
        these n points; without points the last sum is left out."""

    def take(self, rows: Array, indices: Array, order: str | None = None) -> Data:
        """The points of mini-batches out of the rows of all of them, with what control variates of an order keep."""

    def points_at(self, orders: Array, positions: Array) -> Array:
        """The points (…, n) at positions (n,) of orders that ``Random`` gave, at a cost that does not grow with N."""

    def point_bounds(self, points: Data, order: str | None) -> Array:
        """c_j of points (…, n): |d_j| <= c_j M for what control variates of this order leave of a difference."""

    def move_bound(self, position: Array, proposed: Array, data: Points, order: str | None) -> Array:
        """M of a move, (chains,)."""

    def bound_totals(self, data: Points, order: str | None) -> tuple[Array, Array]:
        """The sum of all c_j, and the largest."""

    def loop(self, condition: Callable[[Any], Array], body: Callable[[Any], Any], value: Any) -> Any:
        """``value`` after as many calls of ``body`` as the condition asks for; it keeps its form. For decisions that
        take more data where they are close: chains share the loop, so what a chain has settled must stay as it is."""


@dataclass(frozen=True)
class Shapes:
    """A method's settings that compiled code depends on: whole numbers and choices."""

    items: tuple[tuple[str, int | str], ...] = ()

    def __getitem__(self, name: str) -> Any:
        return dict(self.items)[name]

    def get(self, name: str, default: Any = None) -> Any:
        return dict(self.items).get(name, default)


class Kernel(NamedTuple):
    """A method on a model. A state is a flat NamedTuple of arrays, one of them called ``position``."""

    init: Callable[[Any, Array, Points, Values], Any]
    noise: Callable[[Random, tuple[int, ...], Values], Any]
    step: Callable[[Any, Any, Points, Values], tuple[Any, Info]]
    #: One move weighed by the method and by all the data, as ``metrics.decisions`` wants it; None: not audited.
    audit: Callable[[Any, Any, Points, Values], dict[str, Array]] | None = None
    #: The same of a move whose mini-batches are drawn again and again, both ways; None: it decides without any.
    balance: Callable[[Any, Random, Any, Points, Values], dict[str, Array]] | None = None


def counted(like: Array, count: int) -> Array:
    """The same count for every chain, for ``Info``; ``like`` is any array (chains,)."""
    xp = array_namespace(like)
    # jax has 64 bits only where it is asked to; a step of more than 2^32 evaluations would need them.
    return xp.full_like(like, count, dtype=xp.uint32 if is_jax_namespace(xp) else xp.int64)


def whole(counts: Array) -> Array:
    """Counts that differ by chain, (chains,) real numbers, as the whole ones of ``Info``."""
    xp = array_namespace(counts)
    return xp.astype(counts, counted(counts, 0).dtype)


#: Builds a kernel out of a backend's model and the method's shapes.
Build = Callable[[Target, Shapes], Kernel]
