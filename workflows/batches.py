"""Batches of runs: one process samples, and one evaluates, the runs of a batch one after the other.

A process pays once for its imports, and runs of one form share their compiled loop. A batch is neither so long that the
last one keeps a single core busy, nor so short that starting it is most of the work. Batches depend on the study alone
and not on the machine, so that every call and every node of a cluster finds the same ones.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from implementations.backends import BACKENDS
from implementations.sampling import MOST_AUDITED_POINTS, NUM_AUDITED
from implementations.settings import NUM_BATCHES
from implementations.tuning.ladder import budget_of
from workflows.runs import Run

#: Expected seconds of a batch. Starting a process takes some three, so a batch is at least several times as long.
SHORTEST, LONGEST = 10.0, 40.0
#: Leapfrog steps of a trajectory that ends by itself, about: 6 in a logistic regression, 700 in a whole network.
TYPICAL_TRAJECTORY = 64
#: Rules of acceptance that ask for as many points as a decision takes, from a mini-batch to all.
ASKING = frozenset({"barker", "sequential", "poisson"})
#: A small study has this many batches if none of them is then too short: enough for the cores of a desktop.
NUM_BATCHES_OF_STUDY = 8


@dataclass(frozen=True)
class Batch:
    """Some runs of one variant of a task on one backend."""

    #: ``linear/jax-cpu/batch0``: its folder below ``results/<study>/batches``.
    name: str
    variant: str
    backend: str
    runs: tuple[Run, ...]

    @property
    def seconds(self) -> float:
        return sum(map(expected_seconds, self.runs))


def in_batches(runs: Sequence[Run]) -> list[Batch]:
    """The runs of a study in batches. A method from a file of its own shares no process with others: it may do anything
    to the process."""
    total = sum(map(expected_seconds, runs))
    longest = min(max(total / NUM_BATCHES_OF_STUDY, SHORTEST), LONGEST)
    groups: dict[tuple[str, str], dict[str | None, list[Run]]] = {}
    for run in runs:
        groups.setdefault((run.variant.label, run.backend), {}).setdefault(run.source, []).append(run)
    return [
        Batch(f"{variant}/{backend}/batch{number}", variant, backend, members)
        for (variant, backend), by_source in groups.items()
        for number, members in enumerate(
            itertools.chain.from_iterable(_pieces(sharing, longest) for sharing in by_source.values())
        )
    ]


def _pieces(runs: Sequence[Run], longest: float) -> Iterator[tuple[Run, ...]]:
    """Neighbours together, about evenly; in a study's order they are seeds of one setting, settings of one method."""
    seconds = [expected_seconds(run) for run in runs]
    num_pieces = max(1, round(sum(seconds) / longest))
    # A run belongs to the piece in which its middle lies.
    middles = [end - own / 2 for end, own in zip(itertools.accumulate(seconds), seconds, strict=True)]
    numbers = [int(middle * num_pieces / sum(seconds)) for middle in middles]
    for _, piece in itertools.groupby(zip(numbers, runs, strict=True), key=lambda pair: pair[0]):
        yield tuple(run for _, run in piece)


def expected_seconds(run: Run) -> float:
    """About how long a run takes, within a factor of three on the published study; only ratios matter.

        start + steps (call + evaluations per step x chains x time of an evaluation)

    An evaluation is the loss of a single point; its time grows with the parameters. A ladder of steps has a budget of
    its own, mostly of gradients, which take three times as long. So do both ends of an audited move, which reads all
    points: of tall data that is most of a run.
    """
    settings, size = run.settings, run.variant.size
    own = settings.as_dict()
    if run.card.needs_all(settings):
        evaluations = size.num_points
        if "target_acceptance" in own:
            evaluations *= int(own.get("num_leapfrog", TYPICAL_TRAJECTORY))
    elif run.card.accepts in ASKING:
        evaluations = round(math.sqrt(2 * (settings.batch_size or 1) * size.num_points))
    else:
        # At both ends of a move. What a pilot run will choose is not known yet: as many mini-batches as by default.
        num_batches = NUM_BATCHES.default if "num_batches" in settings.automatic else settings.num_batches
        evaluations = 2 * (settings.batch_size or 1) * (num_batches or 1)
    steps = settings.num_warmup + settings.num_steps
    of_one = 2e-9 * (1 + size.num_parameters / 20)
    work = evaluations * settings.chains * of_one
    tuning = 0.0
    if settings.step_size == "ladder" and not run.is_tuned_apart:
        tuning = 3 * budget_of(size.num_points, settings.chains) * of_one
    audit = 0.0
    if run.card.is_minibatch:
        audit = 3 * 2 * min(NUM_AUDITED * size.num_points, MOST_AUDITED_POINTS) * of_one
    library, _ = BACKENDS[run.backend]
    if library == "jax":
        return 1.0 + tuning + audit + steps * (3e-6 + work)
    # Eager steps are slow; long runs are compiled, which takes as long as a hundred thousand of them.
    return 1.0 + tuning + audit + min(steps * (250e-6 + 4 * work), 20.0 + steps * (25e-6 + 4 * work))
