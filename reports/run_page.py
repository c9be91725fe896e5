"""A page for each run: its traces, acceptance, R-hat, reliability, and the command that makes it again."""

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from implementations.infrastructure.files import Damaged
from implementations.run_files import read_draws, read_run
from records.artefacts import read_curves
from records.columns import COLUMNS
from records.display import format_given, format_number, format_settings, method_name, task_name
from records.layout import plain, run_folder
from records.setting_runs import CONVERGED, MAX_R_HAT, Row, SettingRuns, is_converged
from records.study import StudyResults
from reports.drawing import SOFT, Axis, Drawing, Line, Panel, figure_css, thinned
from reports.page import anchors_of, templates

#: The columns of the summary on a page, as far as the run has them.
SHOWN = (
    *("acceptance_rate", "mean_variance", "r_hat", "ess_bulk_min", "ess_tail_min", "mean_error", "sd_ratio"),
    *("sliced_w2", "ece", "confidence_gap", "nll", "accuracy", "rmse", "wall_clock_s", "warmup_s", "compile_s"),
    *("likelihood_evaluations", "gradient_evaluations", "ess_per_second", "peak_memory_mb"),
)
#: Draws of each chain that the parameter to show is chosen by, and lengths that its R-hat is shown at.
NUM_LOOKED_AT, NUM_LENGTHS = 100, 12
#: Colours of chains, which take turns; and points of a line, more of which cannot be told apart.
CHAINS, MAX_POINTS = ("#0072b2", "#d55e00", "#009e73", "#b0618f"), 150
#: The style of every page.
STYLE = figure_css([Drawing([Panel(shapes=[Line([], [], colour) for colour in CHAINS])], "")])


def run_pages(study: StudyResults) -> Iterator[tuple[str, str]]:
    """The page of every run that has draws, by the run."""
    template, anchors = templates().get_template("run.html"), anchors_of(study)
    for row in study.rows:
        folder = run_folder(study.folder, row["run"])
        if row["status"] not in ("ok", "diverged") or not (folder / "draws.npz").exists():
            continue
        charts, command, failure = [], "", ""
        try:
            record = read_run(folder, {"run": row["run"]})
            command = command_of(record or {}, row)
            charts = [*trace_charts(read_draws(folder, record) if record else {}, row), *_reliability(folder, row)]
        except (Damaged, OSError) as error:
            failure = str(error)
        yield (
            row["run"],
            template.render(
                study=study.name,
                row=row,
                title=f"{method_name(row['method'])} on {task_name(row['variant'])}, {row['backend']}, "
                f"seed {row['seed']}",
                settings=format_settings(SettingRuns((row,))),
                anchor=anchors[row["run"]],
                charts=[(heading, Markup(svg), text) for heading, svg, text in charts],
                numbers=[
                    (name, _number(row[name]), COLUMNS[name].meaning) for name in SHOWN if row.get(name) is not None
                ],
                is_converged=is_converged(row),
                converged=CONVERGED,
                command=command,
                failure=failure,
                style=Markup(STYLE),
            ),
        )


def _number(value: Any) -> str:
    return format_given(value) if isinstance(value, int) else format_number(value)


def trace_charts(arrays: Mapping[str, np.ndarray], row: Row) -> list[tuple[str, str, str]]:
    """Heading, drawing and explanation: the parameter that chains agree on least, acceptance, variance and R-hat."""
    draws = arrays["draws"]
    num_chains, num_draws = draws.shape[:2]
    if num_draws < 4:
        return []
    steps = int(row["num_warmup"] or 0) + int(row["thin"] or 1) * np.arange(1, num_draws + 1)
    worst = worst_parameter(draws)
    chosen = draws[:, :, worst].astype(float)
    found = [
        (
            f"Trace of parameter {worst}",
            _chart(chosen, steps, f"parameter {worst}"),
            f"The one of {draws.shape[2]:,} parameters that the {num_chains} chains agree on least.",
        )
    ]
    lengths = np.unique(np.linspace(4, num_draws, NUM_LENGTHS).astype(int))
    r_hats = [split_r_hat(chosen[:, :length]) for length in lengths]
    limit = Line([steps[lengths[0] - 1], steps[-1]], [MAX_R_HAT] * 2, SOFT, "5 4")
    found.append(
        (
            "R-hat",
            _drawn([Line(steps[lengths - 1], r_hats, CHAINS[0]), limit], "step", "split R-hat"),
            f"Of this parameter, as the chains grow. Dashed, {MAX_R_HAT}. Runs are judged by the R-hat of predictions, "
            "in the table below.",
        )
    )
    for name, heading, text in (
        ("acceptance", "Acceptance", "Mean over the steps between two draws, smoothed over a twentieth of the chain."),
        ("variance", "Estimated variance of the loss difference", "Smoothed in the same way."),
    ):
        if name in arrays and np.any(arrays[name]):
            smooth = running_mean(arrays[name].astype(float), max(1, num_draws // 20))
            found.append((heading, _chart(smooth, steps[-smooth.shape[1] :], name), text))
    return found


def _chart(values: np.ndarray, steps: np.ndarray, label: str) -> str:
    lines = []
    for number, chain in enumerate(values):
        places = [place for place in thinned(chain, MAX_POINTS) if np.isfinite(chain[place])]
        lines.append(Line(steps[places], chain[places], CHAINS[number % len(CHAINS)], width=1.2))
    return _drawn(lines, "step", label)


def _drawn(lines: list[Line], x: str, y: str, low: float | None = None, high: float | None = None) -> str:
    panel = Panel(x=Axis(x, low=low, high=high), y=Axis(y, low=low, high=high), shapes=list(lines))
    return Drawing([panel], "", title=f"{y} against {x}").html()


def worst_parameter(draws: np.ndarray) -> int:
    """The parameter with the largest spread of the chains' means over the spread within chains."""
    some = draws[:, :: max(1, draws.shape[1] // NUM_LOOKED_AT)].astype(float)
    with np.errstate(all="ignore"):
        ratios = some.mean(axis=1).var(axis=0) / some.var(axis=1).mean(axis=0)
    # One that never moves, or is not finite, tells nothing.
    return int(np.where(np.isfinite(ratios), ratios, -1.0).argmax())


def split_r_hat(chains: np.ndarray) -> float:
    """Gelman and Rubin's R-hat of (chains, draws), each chain split in two; NaN where nothing moves."""
    half = chains.shape[1] // 2
    parts = np.concatenate([chains[:, :half], chains[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean()
    between = half * parts.mean(axis=1).var(ddof=1)
    with np.errstate(all="ignore"):
        return float(np.sqrt(((half - 1) / half * within + between / half) / within))


def running_mean(values: np.ndarray, length: int) -> np.ndarray:
    """Means over ``length`` neighbours along the last axis."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    means: np.ndarray = (sums[:, length:] - sums[:, :-length]) / length
    return means


def _reliability(folder: Path, row: Row) -> list[tuple[str, str, str]]:
    if not (folder / "curves.npz").exists() or row["status"] != "ok":
        return []
    curves = read_curves(folder)
    if "grid_mean" in curves:
        looks = {"grid_mean": (CHAINS[0], ""), "grid_truth": (SOFT, "5 4")}
        lines = [Line(curves["grid_inputs"], curves[name], *look) for name, look in looks.items() if name in curves]
        text = "Mean over the draws, relative to the uniform density. Dashed, the density that the data are from."
        return [("Density", _drawn(lines, "input", "density"), text)]
    labels = ("confidence", "accuracy") if row["accuracy"] is not None else ("nominal coverage", "observed coverage")
    diagonal = Line([0, 1], [0, 1], SOFT, "5 4")
    curve = Line(curves["test_nominal"], curves["test_observed"], CHAINS[0])
    drawn = _drawn([diagonal, curve], *labels, low=0.0, high=1.0)
    return [("Reliability", drawn, "On the test points. Below the dashed line it is overconfident.")]


def command_of(record: Mapping[str, Any], row: Row) -> str:
    """The command that makes the run again, with every setting; empty where only a study has an option of the run."""
    if not record or row["num_epochs"] is not None or row["fresh_points"] is not None:
        return ""
    options = {
        **{name: record[name] for name in ("task", "backend", "seed", "stochastic", "prior", "prior_scale")},
        "method": record.get("method_source") or record["method"],
        "num_points": record["num_points"],
    }
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", plain(value))]
    words += [word for name, value in record["settings"].items() for word in ("--set", f"{name}={plain(value)}")]
    return shlex.join(["pbnn-bench", "sample", *words, "--out", "again"])
