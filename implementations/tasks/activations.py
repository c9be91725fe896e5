"""What stands between the layers of a network: values, and the derivatives that a pass backwards or along a line needs.

Each is written once, for arrays of any library. With a the input of a unit and h its value,

    tanh   h = tanh a        h' = 1 - h^2        h'' = -2 h h'
    relu   h = max(a, 0)     h' = [h > 0]        h'' = 0
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace

from implementations.infrastructure.errors import SettingError, unknown

#: Of numpy, jax or torch.
Array = Any


@dataclass(frozen=True)
class Activation:
    """An activation, whose derivatives are functions of its value."""

    name: str
    #: a -> h
    values: Callable[[Array], Array]
    #: h -> h'
    slopes: Callable[[Array], Array]
    #: (h, R{h}) -> R{h'}, the rate at which the slope changes where the value does at the rate R{h}.
    slope_rates: Callable[[Array, Array], Array]
    #: (h, h', a_1, a_2) -> h' a_2 + h'' a_1^2 / 2, the second coefficient of h along a + s a_1 + s^2 a_2.
    second: Callable[[Array, Array, Array, Array], Array]
    #: (a, h, h', d) -> h(a + d) - h(a), in a form in which nothing cancels where d is small.
    moves: Callable[[Array, Array, Array, Array], Array]
    #: The sd of initial weights, over the root of a layer's inputs, with which signals keep their size between layers.
    gain: float


def _tanh_moves(start: Array, values: Array, slopes: Array, move: Array) -> Array:
    """By the addition theorem where d is small."""
    xp = array_namespace(move)
    is_small = xp.abs(move) < 1
    # Of what is large, neither branch may divide by 0: gradients run through both.
    turn = xp.tanh(xp.where(is_small, move, xp.zeros_like(move)))
    return xp.where(is_small, slopes * turn / (1 + values * turn), xp.tanh(start + move) - values)


def _relu(inputs: Array) -> Array:
    # At 0 the slope is 0 in every library, as it is here; that of a maximum would be one half in some.
    xp = array_namespace(inputs)
    return xp.where(inputs > 0, inputs, xp.zeros_like(inputs))


def _relu_moves(start: Array, values: Array, slopes: Array, move: Array) -> Array:
    """The move itself on the side where the unit is on."""
    xp = array_namespace(move)
    end = start + move
    return xp.where((start > 0) & (end > 0), move, _relu(end) - values)


TANH = Activation(
    name="tanh",
    values=lambda inputs: array_namespace(inputs).tanh(inputs),
    slopes=lambda values: 1 - values**2,
    slope_rates=lambda values, rates: -2 * values * rates,
    second=lambda values, slopes, first, second: slopes * (second - values * first**2),
    moves=_tanh_moves,
    gain=1.0,
)

RELU = Activation(
    name="relu",
    values=_relu,
    slopes=lambda values: array_namespace(values).astype(values > 0, values.dtype),
    slope_rates=lambda values, rates: array_namespace(rates).zeros_like(rates),
    second=lambda values, slopes, first, second: slopes * second,
    moves=_relu_moves,
    gain=2**0.5,
)

ACTIVATIONS: Mapping[str, Activation] = {activation.name: activation for activation in (TANH, RELU)}


def find_activation(name: str) -> Activation:
    if name not in ACTIVATIONS:
        raise SettingError(unknown("activation", name, ACTIVATIONS))
    return ACTIVATIONS[name]
