"""The runs of one setting over seeds: the one place where their numbers, intervals and comparisons are made.

A run is evidence when it ended well and its chains have converged. A setting's numbers are means over the seeds that
are evidence; where none is, over those that ended well, and readers are warned.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from implementations.backends import BACKENDS
from implementations.settings import SETTINGS
from implementations.tasks import TASKS
from metrics.seeds import Estimate, bounded, mean_over_seeds, paired_difference, paired_ratio, root_of_mean, widened
from records.columns import COLUMNS, DERIVED, WITHOUT_DRAWS
from records.methods import facts_of, named

_CLAIMS = (Path(__file__).parents[1] / "reports" / "claims.yaml").read_text(encoding="utf-8")
#: The margins that all claims share.
MARGINS: dict[str, float] = yaml.load(_CLAIMS, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["shared"]
#: Function-space R-hat above which, and bulk effective sample size below which, a run's other numbers are not evidence.
MAX_R_HAT, MIN_ESS = MARGINS["max_r_hat"], MARGINS["min_ess"]
#: The same in words.
CONVERGED = f"R-hat of at most {MAX_R_HAT}, ESS of at least {MIN_ESS}"
#: Methods whose chain keeps the posterior of all data, the paper's "BNN", the nearest to the paper's first.
POSTERIOR = ("full_mh", "mala", "blackjax_hmc")
#: Settings that say how long a chain is, not what it does.
LENGTHS = ("num_steps", "num_warmup", "thin", "chains")

#: A row of the summary in plain values, None where a cell is empty, with the columns of DERIVED.
Row = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class SettingRuns:
    """The runs of one setting on one backend, by seed, whatever became of them."""

    rows: tuple[Row, ...]

    def __getitem__(self, name: str) -> Any:
        """What all its runs share: a setting, or another column such as ``target_weight``; None where it is empty."""
        return next((row[name] for row in self.rows if row[name] is not None), None)

    @cached_property
    def ok(self) -> tuple[Row, ...]:
        """The runs that ended well."""
        return tuple(row for row in self.rows if row["status"] == "ok")

    @cached_property
    def converged(self) -> tuple[Row, ...]:
        return tuple(row for row in self.ok if is_converged(row))

    @property
    def evidence(self) -> tuple[Row, ...]:
        """The runs that its numbers come from."""
        return self.converged or self.ok

    @property
    def is_converged(self) -> bool:
        """Have all runs that ended well converged?"""
        return len(self.converged) == len(self.ok)

    @property
    def seeds(self) -> set[int]:
        """Those that ended well."""
        return {row["seed"] for row in self.ok}

    @property
    def runs(self) -> tuple[str, ...]:
        return tuple(row["run"] for row in self.ok)

    def values(self, column: str) -> dict[int, float | None]:
        """One value per seed, None where the run does not count."""
        counted = {row["seed"] for row in (self.ok if column in WITHOUT_DRAWS else self.evidence)}
        return {row["seed"]: row[column] if row["seed"] in counted else None for row in self.rows}

    def estimate(self, column: str) -> Estimate:
        """Mean over seeds with its interval: that of the seeds or of the Monte Carlo errors, whichever is wider.

        That of ``mean_error`` is ``bias``: everything says the same number of it.
        """
        if column == "mean_error" and self.has("squared_bias"):
            return self.bias()
        values = self.values(column)
        return self.behind(estimate_of(values, column, self._errors(column, values)))

    def bias(self) -> Estimate:
        """Error of the predictive mean in the reference's sd, with its Monte Carlo part taken off.

        From squares whose mean over seeds is that of the bias; the interval is theirs. Chains that stand alone have no
        such squares, and their error has its Monte Carlo part in it.
        """
        if not self.has("squared_bias"):
            return self.estimate("mean_error")
        return self.behind(root_of_mean(self.values("squared_bias"), self.values("mean_error")))

    def has(self, column: str) -> bool:
        """Has a run that counts a value there?"""
        return any(value is not None for value in self.values(column).values())

    def present(self, column: str) -> dict[int, float]:
        """The values of the seeds that have one."""
        return {seed: value for seed, value in self.values(column).items() if value is not None}

    def mean(self, column: str) -> float:
        """The mean of ``estimate``, NaN without values."""
        value = self.estimate(column).mean
        return math.nan if value is None else value

    def parts(self, column: str) -> list[tuple[Estimate, bool]]:
        """The estimate of the converged seeds (True) and that of the others (False), where they have values."""
        found = []
        for flag in (True, False):
            rows = [row for row in self.ok if is_converged(row) == flag and row[column] is not None]
            if rows:
                found.append((SettingRuns(tuple(rows)).estimate(column), flag))
        return found

    def difference(self, baseline: "SettingRuns", column: str) -> Estimate:
        """Paired difference over seeds, with its interval found in the same way as that of a mean."""
        ours, theirs = self.values(column), baseline.values(column)
        own, other = self._errors(column, ours), baseline._errors(column, theirs)
        errors = {seed: math.hypot(own[seed], other[seed]) for seed in own.keys() & other.keys()}
        return self.behind(widened(paired_difference(ours, theirs), errors), baseline)

    def ratio(self, baseline: "SettingRuns", column: str) -> Estimate:
        """Geometric mean of the paired ratios of a positive quantity."""
        return self.behind(paired_ratio(self.values(column), baseline.values(column)), baseline)

    def behind(self, value: Estimate, *others: "SettingRuns") -> Estimate:
        """The estimate with the runs that it was made from: those of this setting and of others."""
        return replace(value, runs=tuple(row["run"] for one in (self, *others) for row in one.evidence))

    def _errors(self, column: str, values: Mapping[int, float | None]) -> dict[int, float]:
        """Monte Carlo errors of these values, by seed; none where the column has none."""
        name = f"{column}_mc"
        if name not in self.rows[0]:
            return {}
        rows = [row for row in self.ok if values.get(row["seed"]) is not None and row[name] is not None]
        return {row["seed"]: row[name] for row in rows}


def estimate_of(values: Mapping[int, float | None], column: str, errors: Mapping[int, float] | None = None) -> Estimate:
    """Mean over seeds of values of a column, with the interval that belongs to such values."""
    definition = COLUMNS.get(column) or DERIVED[column]
    return bounded(widened(mean_over_seeds(values), errors or {}), definition.values)


def is_converged(row: Row) -> bool:
    """Has it ended well, with chains that agree and are long enough for what is computed from them?"""
    r_hat, ess = row["r_hat"], row["ess_bulk_min"]
    return bool(
        row["status"] == "ok" and r_hat is not None and r_hat <= MAX_R_HAT and ess is not None and ess >= MIN_ESS
    )


def plain_rows(summary: pd.DataFrame) -> list[Row]:
    """The rows of a summary in plain values, with the columns of DERIVED."""
    frame = summary.astype(object).where(summary.notna(), None)
    rows: list[Row] = [{str(name): value for name, value in record.items()} for record in frame.to_dict("records")]
    sizes: dict[str, set[int]] = {}
    for row in rows:
        sizes.setdefault(row["task"], set()).add(row["num_points"])
    return [
        {
            **row,
            "method": named(row),
            "variant": _variant(row, has_sizes=len(sizes[row["task"]]) > 1),
            "own_settings": _own_settings(row["own_settings"]),
            **_derived(row),
        }
        for row in rows
    ]


class VariantName(str):
    """The label of a task's variant in a row of a summary, with the task and what departs from its usual form."""

    task: str
    departures: Mapping[str, Any]


def _variant(row: Row, has_sizes: bool) -> VariantName:
    name = VariantName(row["variant"])
    name.task = row["task"]
    # A task that comes from a file is in no table: its N is told where the study has several.
    is_usual = row["num_points"] == TASKS[name.task].num_points if name.task in TASKS else not has_sizes
    # Fresh points are as many as are asked for.
    num_points = None if is_usual or row["fresh_points"] is not None else row["num_points"]
    usual = {"stochastic": "last", "prior": "gaussian", "prior_scale": 1.0}
    found = {column: row[column] for column in (*usual, "num_epochs", "fresh_points")} | {"num_points": num_points}
    name.departures = {key: value for key, value in found.items() if value not in (None, usual.get(key))}
    return name


def _own_settings(cell: str | None) -> tuple[tuple[str, Any], ...] | None:
    """A method's own settings, a JSON object; published summaries still have the text ``friction=0.2, proxy=first``."""
    if cell is None or cell.startswith("{"):
        return tuple(json.loads(cell).items()) if cell else None
    return tuple((name, _published(text)) for name, _, text in (pair.partition("=") for pair in cell.split(", ")))


def _published(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _derived(row: Row) -> Row:
    def number(column: str) -> float:
        return math.nan if row[column] is None else float(row[column])

    def over(value: float, divisor: float) -> float:
        return value / divisor if divisor > 0 else math.nan

    def log(value: float) -> float:
        return math.log(value) if value > 0 else math.nan

    steps = number("num_steps") * number("chains")
    evaluations = number("likelihood_evaluations") + number("gradient_evaluations")
    numbers = {
        "ess_per_million_evaluations": over(number("ess_bulk_min"), evaluations / 1e6),
        "evaluations_per_draw": over(evaluations, number("ess_bulk_min")),
        "seconds_per_draw": over(1.0, number("ess_per_second")),
        # Processor time: two runs side by side share a machine, and the one with more of it would look faster.
        "seconds_to_400": (row["tuning_cpu_s"] or 0.0)
        + number("warmup_cpu_s")
        + over(400.0 * number("cpu_s"), number("ess_bulk_min")),
        "step_microseconds": over(1e6 * number("wall_clock_s"), steps),
        "log_step_seconds": log(over(number("wall_clock_s"), steps)),
        "log_step_evaluations": log(over(evaluations, steps)),
        "log_step_cpu": log(over(number("cpu_s"), steps)),
        "log_step_by_turns": log(number("step_by_turns_us")),
        "log_step_without_reading": log(number("step_by_turns_us") - number("reading_by_turns_us")),
        "ess_per_step": over(number("ess_bulk_min"), steps),
        "log_skewness": log(number("audit_delta_skewness")),
        "variance_dominance": number("audit_spread_variance") - number("audit_spread_noise"),
        "sd_error": abs(number("sd_ratio") - 1),
        "log_variance": log(number("mean_variance")),
        "log_exact_acceptance": log(number("audit_exact_acceptance")),
        "acceptance_cost": number("audit_exact_acceptance") - number("audit_acceptance"),
        "acceptance_kept": over(number("audit_acceptance"), number("audit_exact_acceptance")),
        # 2 Phi(-s / 2) = erfc(s / sqrt(8))
        "acceptance_in_theory": math.erfc(math.sqrt(number("mean_variance") / 8)),
    }
    return {name: None if math.isnan(value) else value for name, value in numbers.items()}


def settings_of(rows: Iterable[Row]) -> list[SettingRuns]:
    """The settings in rows of ``plain_rows``, each on each of its backends, in the order of their first runs."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["variant"], row["label"], row["backend"]), []).append(row)
    return [SettingRuns(tuple(sorted(group, key=lambda row: row["seed"]))) for group in groups.values()]


# Which setting stands where several could


def one_backend(settings: Iterable[SettingRuns]) -> list[SettingRuns]:
    """Of each setting the backend with most converged seeds, then most that ended well, then the first of BACKENDS."""
    best: dict[tuple[str, str], SettingRuns] = {}
    for setting in settings:
        key = setting["variant"], setting["label"]
        best[key] = max(best.get(key, setting), setting, key=_backend_rank)
    return list(best.values())


def _backend_rank(setting: SettingRuns) -> tuple[int, int, int]:
    backends = [*BACKENDS, setting["backend"]]
    return len(setting.converged), len(setting.ok), -backends.index(setting["backend"])


def nearest(settings: Iterable[SettingRuns], **preferred: float) -> SettingRuns | None:
    """The setting nearest to the preferred values (by ratio), then to the method's defaults."""

    def rank(setting: SettingRuns) -> tuple[float, ...]:
        distances = [
            math.inf if setting[name] is None else abs(math.log(setting[name] / wanted))
            for name, wanted in preferred.items()
        ]
        return (*distances, _departures(setting))

    return min(one_backend(settings), key=rank, default=None)


def _departures(setting: SettingRuns) -> int:
    """How many settings are not the method's defaults."""
    defaults = {name: one for name, one in facts_of(setting["method"]).settings.items() if name in SETTINGS}
    departures = [setting[name] != one.default_for(setting["num_parameters"] or 1) for name, one in defaults.items()]
    return sum(departures) + len(own_departures(setting))


def own_departures(setting: SettingRuns) -> list[tuple[str, Any]]:
    """The settings that only its method has and that are not at their defaults."""
    defaults = facts_of(setting["method"]).settings
    own = setting["own_settings"] or ()
    return [(name, value) for name, value in own if name not in defaults or value != defaults[name].default]


def full_data(settings: Iterable[SettingRuns]) -> SettingRuns | None:
    """The chain that stands for the posterior of all data, the full-data baseline of all comparisons.

    Of POSTERIOR at w = N the one with most converged seeds, of equals the first, then the nearest to its defaults.
    """
    exact = [one for one in one_backend(settings) if one["weight"] == "data" and one["method"] in POSTERIOR]
    return min(
        exact,
        key=lambda one: (-len(one.converged), POSTERIOR.index(one["method"]), _departures(one), one["label"]),
        default=None,
    )


def of_usual_size(settings: Sequence[SettingRuns]) -> list[SettingRuns]:
    """Without those of a task at another N than its own, where it was run at that too.

    Other N ask what a step costs, with a few short chains; a panel for each would say nothing else.
    """
    usual = [one for one in settings if one["task"] not in TASKS or one["num_points"] == TASKS[one["task"]].num_points]
    tasks = {one["task"] for one in usual}
    return [one for one in settings if one in usual or one["task"] not in tasks]


def sweeps(settings: Iterable[SettingRuns], over: str, same: Sequence[str] | None = None) -> list[list[SettingRuns]]:
    """Settings that differ in ``over``, ascending, and share the columns ``same``: all others, if they are not given.

    Of equals the longest run counts.
    """
    if same is None:
        same = (
            "variant",
            "method",
            "backend",
            "own_settings",
            *(name for name in SETTINGS if name not in (over, *LENGTHS)),
        )
    found = list(settings)
    families: dict[tuple[Any, ...], dict[Any, SettingRuns]] = {}
    for setting in found:
        families.setdefault(tuple(setting[name] for name in same), {})
    for setting in sorted(found, key=lambda one: (one["num_steps"], one["label"])):
        if setting[over] is not None:
            families[tuple(setting[name] for name in same)][setting[over]] = setting
    return [[family[value] for value in sorted(family)] for family in families.values() if len(family) > 1]
