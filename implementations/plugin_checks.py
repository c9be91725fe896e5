"""A kernel out of somebody's own file: what breaks the contract is an error that names the file and what is wrong.

Compiled code pays nothing for it, since it is checked while it is traced.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from array_api_compat import array_namespace

from implementations.infrastructure.errors import SettingError
from implementations.kernels.contract import Array, Build, Data, Info, Kernel, Points, Random, Shapes, Target, Values
from implementations.plugins import line_of


@dataclass(frozen=True)
class Checked:
    """Builds the kernel that ``build`` does, with its functions checked."""

    build: Build
    #: The file or module it comes from.
    where: str

    def __getattr__(self, name: str) -> Any:
        """The facts that a kernel put together from the suite's parts states of itself; other kernels state none."""
        if name not in ("acceptance", "best_acceptance", "estimate"):
            raise AttributeError(name)
        return getattr(self.build, name)

    def __call__(self, target: Target, shapes: Shapes) -> Kernel:
        kernel = self._call("kernel", self.build, CheckedTarget(target), shapes)
        if not isinstance(kernel, Kernel):
            raise SettingError(f"{self.where}: kernel returns a {type(kernel).__name__}, not a Kernel")

        def noise(random: Random, shape: tuple[int, ...], values: Values) -> Any:
            drawn = self._call("noise", kernel.noise, random, shape, values)
            return self._right("noise", kernel.noise, drawn, _mistake_in_noise(drawn, shape))

        def init(noise: Any, position: Array, data: Points, values: Values) -> Any:
            state = self._call("init", kernel.init, noise, position, data, values)
            return self._right("init", kernel.init, state, _mistake_in_state(state, position))

        def step(noise: Any, state: Any, data: Points, values: Values) -> tuple[Any, Info]:
            found = self._call("step", kernel.step, noise, state, data, values)
            moved: tuple[Any, Info] = self._right("step", kernel.step, found, _mistake_in_step(found, state))
            return moved

        audit = kernel.audit and partial(self._call, "audit", kernel.audit)
        balance = kernel.balance and partial(self._call, "balance", kernel.balance)
        return Kernel(init, noise, step, audit, balance)

    def _call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (MemoryError, OSError):
            raise
        except Exception as error:
            kind = "" if isinstance(error, SettingError) else f"{type(error).__name__}: "
            raise SettingError(f"{line_of(error, self.where)}: {name}: {kind}{error}") from error

    def _right(self, name: str, function: Any, found: Any, mistake: str | None) -> Any:
        if mistake:
            code = getattr(function, "__code__", None)
            line = f", line {code.co_firstlineno}" if code else ""
            raise SettingError(f"{self.where}{line}: {name}: {mistake}")
        return found


class CheckedTarget:
    """A model that refuses data which the card does not ask for, and which are therefore not there."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self.target, name)

    def losses(self, position: Array, data: Data) -> Array:
        return self.target.losses(position, _there(data))

    def losses_and_gradient(self, position: Array, data: Data, weight: Array) -> tuple[Array, Array]:
        return self.target.losses_and_gradient(position, _there(data), weight)

    def take(self, rows: Array, indices: Array, order: str | None = None) -> Data:
        if rows.shape[0] == 0:
            raise SettingError("takes mini-batches, and the card's needs lack 'rows'")
        return self.target.take(rows, indices, order)


def _there(data: Data) -> Data:
    if data.targets.shape[-1] == 0:
        raise SettingError("evaluates all points, and the card's needs lack 'all'")
    return data


def _mistake_in_noise(noise: Any, shape: tuple[int, ...]) -> str | None:
    if mistake := _mistake_in_tuple(noise):
        return mistake
    for name, array in noise._asdict().items():
        if tuple(array.shape[: len(shape)]) != shape:
            return f"{name} has the shape {tuple(array.shape)}, which must begin with {shape}, that of steps and chains"
    return None


def _mistake_in_state(state: Any, position: Array) -> str | None:
    if mistake := _mistake_in_tuple(state):
        return mistake
    if "position" not in state._fields:
        return f"the state {type(state).__name__} has no field 'position'"
    for name, array in state._asdict().items():
        if tuple(array.shape[:1]) != (len(position),):
            return f"{name} has the shape {tuple(array.shape)}, which must begin with the {len(position)} chains"
    return _difference("position", state.position, position)


def _mistake_in_step(found: Any, before: Any) -> str | None:
    if not (type(found) is tuple and len(found) == 2 and isinstance(found[1], Info)):
        return "must return the next state and an Info"
    state, info = found
    if type(state) is not type(before):
        return f"the state is a {type(state).__name__} and was a {type(before).__name__}"
    for name, array in state._asdict().items():
        if not hasattr(array, "dtype"):
            return f"{name} is a {type(array).__name__}, not an array"
        if mistake := _difference(name, array, getattr(before, name)):
            return mistake
    chains = (before.position.shape[0],)
    for name, array in info._asdict().items():
        if not hasattr(array, "dtype"):
            return f"Info.{name} is a {type(array).__name__}, not an array {chains}"
        if tuple(array.shape) != chains:
            return f"Info.{name} has the shape {tuple(array.shape)}, not {chains}, one number per chain"
        if name.startswith("num_") and not array_namespace(array).isdtype(array.dtype, "integral"):
            return f"Info.{name} is {array.dtype}, not whole numbers; kernels.contract.counted makes them"
    return None


def _mistake_in_tuple(found: Any) -> str | None:
    fields = getattr(found, "_fields", None)
    if fields is None:
        return f"must return a NamedTuple of arrays, not a {type(found).__name__}"
    for name, array in zip(fields, found, strict=True):
        if not hasattr(array, "dtype"):
            return f"{name} is a {type(array).__name__}, not an array"
    return None


def _difference(name: str, after: Array, before: Array) -> str | None:
    """What a step must not change."""
    for what, new, old in (
        ("shape", tuple(after.shape), tuple(before.shape)),
        ("precision", after.dtype, before.dtype),
    ):
        if new != old:
            return f"{name} has the {what} {new} and had {old}"
    return None
