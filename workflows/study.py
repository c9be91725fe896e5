"""What a study is: its runs, each a method with its settings on a variant of a task, a backend and a seed."""

import itertools
from dataclasses import dataclass

from implementations.card import Card
from implementations.methods import find_method
from implementations.settings import LADDER, Settings, Size
from implementations.tasks import find_task
from implementations.tasks.task import Task
from metrics.looks import looks
from records.layout import plain

#: Between the parts of a label. Not a comma: Snakemake takes the wildcards of a job on a node apart at all commas (its
#: issue 2366).
SEPARATOR = "+"
#: Pilots that are made apart from the runs have a problem of this seed, or of the next that the study does not have.
PILOT_SEED = 1000


@dataclass(frozen=True)
class Variant:
    """A task as a study asks for it: what is stochastic, under which prior, with which data and training."""

    #: The name of a task, or a reference to one (implementations.tasks.find_task).
    task: str
    stochastic: str = "last"
    prior: str = "gaussian"
    prior_scale: float = 1.0
    #: None for the task's own.
    num_points: int | None = None
    num_epochs: int | None = None
    #: None for data that are what they are.
    fresh_points: int | None = None

    @property
    def definition(self) -> Task:
        return find_task(self.task, self.num_points, self.num_epochs, self.fresh_points)

    @property
    def name(self) -> str:
        """The task's name, also where it comes from a file."""
        return self.definition.name

    @property
    def size(self) -> Size:
        """What settings are checked against."""
        return self.definition.size(self.stochastic)

    @property
    def label(self) -> str:
        """``regression``, ``regression-all-laplace``: the task and what departs from its usual form."""
        parts = [self.name]
        if self.stochastic != "last":
            parts.append(self.stochastic)
        if self.prior != "gaussian":
            parts.append(self.prior)
        if self.prior_scale != 1:
            parts.append(f"scale{plain(self.prior_scale)}")
        if self.num_points is not None:
            parts.append(f"points{self.num_points}")
        if self.num_epochs is not None:
            parts.append(f"epochs{self.num_epochs}")
        if self.fresh_points is not None:
            parts.append(f"fresh{self.fresh_points}")
        return "-".join(parts)


@dataclass(frozen=True)
class Run:
    """A method with its settings on one task, backend and seed: the chains that one job samples."""

    variant: Variant
    method: str
    settings: Settings
    backend: str
    seed: int
    #: The method and the settings its own entry gives, ``pbnn+batch_size=5+weight=data``.
    label: str
    #: Where a method that is not the suite's comes from, ``/path/to/file.py:CARD`` or ``package.module:CARD``.
    source: str | None = None
    #: Is it compared with the exact or gold-standard answer of its target?
    has_reference: bool = True

    @property
    def card(self) -> Card:
        return find_method(self.source or self.method)

    @property
    def is_tuned_apart(self) -> bool:
        """Is its step found by the stage ``tune``, once for all seeds, against a reference? Only of whole networks."""
        return self.settings.step_size == LADDER and self.variant.stochastic == "all" and self.has_reference

    @property
    def setting(self) -> str:
        """What it shares with its other seeds."""
        return f"{self.variant.label}/{self.label}/{self.backend}"

    @property
    def path(self) -> str:
        """Its folder below ``results/<study>/runs``."""
        return f"{self.setting}/seed{self.seed}"


@dataclass(frozen=True)
class Plan:
    """Seeds as needed: so many at first, and more for what an undecided claim rests on, up to a number said before."""

    start: int
    at_most: int
    first: int = 0

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of seeds at which the claims are judged."""
        return looks(self.start, self.at_most)

    def seeds(self, begin: int, end: int) -> list[int]:
        """Those from the ``begin``-th to before the ``end``-th."""
        return list(range(self.first + begin, self.first + end))


@dataclass(frozen=True)
class Study:
    """A study's name, its line of description, and its runs in the order of the file."""

    name: str
    description: str
    runs: tuple[Run, ...]
    #: Where seeds are added as needed; ``runs`` are those of the first look.
    plan: Plan | None = None
    #: The settings (``Run.setting``) that it is about; others have seeds of their own.
    growing: frozenset[str] = frozenset()

    @property
    def pilot_seed(self) -> int:
        """A seed that no run has, also of those that may be added."""
        taken = {run.seed for run in self.runs} | set(self.plan.seeds(0, self.plan.at_most) if self.plan else ())
        return next(seed for seed in itertools.count(PILOT_SEED) if seed not in taken)

    @property
    def looks(self) -> tuple[int, ...]:
        """Numbers of seeds at which it is judged; none where they are fixed."""
        return self.plan.looks if self.plan else ()
