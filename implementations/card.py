"""A method's card: all there is to know of it in one place. Everything that lists methods reads cards."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

from implementations.infrastructure.errors import SettingError, unknown
from implementations.kernels.contract import Build
from implementations.settings import (
    AUTO,
    LADDER,
    PRECONDITIONER,
    RUN_SETTINGS,
    SETTINGS,
    TUNED,
    Setting,
    Settings,
    Sized,
    check_together,
)

#: What steps may read of the data.
NEEDS = {
    "all": "all points together",
    "rows": "rows to draw mini-batches from",
    "anchor": "the mode of its target, with gradient and curvature there",
    "validation": "the validation points, for one number that is fitted to them",
    "bounds": "bounds on how much the loss of a point can change in a move",
}
#: The libraries that a method may run in.
LIBRARIES = ("jax", "torch")


class Exactness(StrEnum):
    """Is a chain's stationary distribution its target?"""

    EXACT = "exact"
    CONDITIONAL = "conditional"  # exact where its ``condition`` holds
    BIASED = "biased"  # its ``condition`` says by what


@dataclass(frozen=True, eq=False)
class Card:
    """One method. ``name`` stands in studies, paths and tables; ``label`` in figures and text."""

    name: str
    label: str
    summary: str
    #: Where it comes from: a paper, or the label of an equation in *Data Subsampling for Bayesian Neural Networks*.
    citation: str
    kernel: Build
    exactness: Exactness
    #: Its settings with their defaults, beside those that every run has.
    own_settings: tuple[Setting, ...]
    #: What its steps read of the data, out of NEEDS.
    needs: frozenset[str]
    #: When it is exact, or what biases it.
    condition: str = ""
    #: The rule of acceptance of a kernel that is not put together from the suite's parts; ``always`` where it has none.
    accepts: str = "own"
    #: The share of accepted moves that ``step_size: auto`` aims at, of such a kernel; None where ``auto`` is refused.
    aims_at: float | None = None
    #: As #rrggbb, which figures and pages both read; one is chosen where there is none.
    colour: str | None = None
    #: The libraries it runs in.
    libraries: tuple[str, ...] = LIBRARIES
    #: May its steps be compiled? Python loops of other libraries may not.
    is_compiled: bool = True

    def __post_init__(self) -> None:
        """A card that cannot be right is refused where it is made, with its line."""
        if not re.fullmatch("[a-z][a-z0-9_]*", self.name):
            raise SettingError(f"name = {self.name!r} must be small letters, digits and underscores")
        if not callable(self.kernel):
            raise SettingError("kernel is not a function of the model and the shapes")
        if self.exactness not in tuple(Exactness):
            raise SettingError(unknown("exactness", self.exactness, [one.value for one in Exactness]))
        for need in self.needs:
            if need not in NEEDS:
                raise SettingError(f"needs: {unknown('kind of data', need, NEEDS)}")
        for name in ("step_size", "weight"):
            if name not in self.settings:
                raise SettingError(f"own_settings lacks {name!r}, which every method has")
        for name in TUNED:
            if name in self.settings and self.settings[name].default in (AUTO, LADDER):
                raise SettingError(f"{name} needs a number as its default, where a pilot run begins")
        if ("decay" in self.settings) != ("decay_start" in self.settings):
            raise SettingError("own_settings has one of 'decay' and 'decay_start'; a schedule needs both")
        for setting in self.own_settings:
            setting.check()
        if not self.libraries or isinstance(self.libraries, str):
            raise SettingError(f"libraries = {self.libraries!r} must be a tuple of names")
        for library in self.libraries:
            if library not in LIBRARIES:
                raise SettingError(unknown("library", library, LIBRARIES))
        if self.colour is not None and not re.fullmatch("#[0-9a-fA-F]{6}", self.colour):
            raise SettingError(f"colour = {self.colour!r} must be written as #rrggbb")

    @cached_property
    def settings(self) -> dict[str, Setting]:
        """All its settings: the shared ones in the order of SETTINGS, then its own."""
        found = {setting.name: setting for setting in (PRECONDITIONER, *RUN_SETTINGS, *self.own_settings)}
        return {name: found[name] for name in (*SETTINGS, *found) if name in found}

    @property
    def is_minibatch(self) -> bool:
        """Does the cost of a step stay the same when the data grow?"""
        return "all" not in self.needs

    @property
    def acceptance(self) -> str:
        """Its rule of acceptance: a name of ``implementations.kernels.acceptance``, or the one its card gives."""
        return getattr(self.kernel, "acceptance", self.accepts)

    @property
    def best_acceptance(self) -> float | None:
        """The share of accepted moves that a tuned step has; None: its step cannot be tuned by it."""
        return getattr(self.kernel, "best_acceptance", self.aims_at)

    def needs_all(self, settings: Settings) -> bool:
        """Does a step evaluate all points? For the oracle's variance any method does."""
        return not self.is_minibatch or settings.variance == "oracle"

    def resolve(self, given: Mapping[str, Any], problem: Sized) -> Settings:
        """The settings of a run: ``given`` over the defaults, each checked, and all together.

        Raises SettingError with the method, the key, the value, what was expected and the nearest valid name.
        """
        try:
            for key in given:
                if key not in self.settings:
                    raise SettingError(unknown("setting", key, self.settings))
            defaults = {name: setting.default_for(problem.num_parameters) for name, setting in self.settings.items()}
            resolved = Settings.of(defaults | {key: self.settings[key].parse(value) for key, value in given.items()})
            check_together(resolved, problem)
            # ``auto`` is refused where nothing tells a good value from a bad one.
            for name in resolved.automatic:
                if self.acceptance == "always":
                    raise SettingError(
                        f"{name} = 'auto' aims at an acceptance rate, and every move is accepted; give a number"
                    )
                if self.best_acceptance is None:
                    raise SettingError(
                        f"{name} = 'auto': the method's card has no acceptance rate to aim at; give a number"
                    )
                if name == "num_batches" and getattr(self.kernel, "estimate", None) != "batches":
                    raise SettingError(f"{name} = 'auto' needs the suite's own estimate of the loss difference")
            return resolved
        except SettingError as error:
            raise SettingError(f"{self.name}: {error}") from None
