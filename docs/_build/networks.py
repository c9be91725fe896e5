"""References of whole networks in the documentation: which there are, and practitioners' baselines against them."""

from functools import cache
from io import StringIO

import pandas as pd

from docs._build.markdown import table
from records.network_references import FOLDER, NetworkReference

#: Scores of the baselines, one row per task, split and method: ``python -m records.network_scores``.
SCORES = FOLDER / "baselines.csv"
NAMES = {
    "map": "MAP",
    "ensemble_5": "ensemble of 5",
    "ensemble_10": "ensemble of 10",
    "swag": "SWAG",
    "dropout": "MC dropout",
    "last_layer": "last-layer Laplace",
    "ggn": "linearised Laplace, all layers",
    "mean_field": "mean-field VI",
}


@cache
def scores() -> pd.DataFrame:
    return pd.read_csv(SCORES)


def references_table() -> str:
    """One row per task and weight."""
    groups: dict[str, list[NetworkReference]] = {}
    for path in sorted(FOLDER.glob("*/*/split*.json")):
        groups.setdefault(path.parent.relative_to(FOLDER).as_posix(), []).append(NetworkReference.load(path))
    rows = []
    for name, group in groups.items():
        record = group[0].record
        likelihoods = [one.record["scores"]["log_likelihood"] for one in group]
        seconds = sum(one.record["sampler"]["cpu_s"] for one in group) / len(group)
        gates = f"{sum(one.is_usable for one in group)} of {len(group)}"
        worst = f"{max(one.gate.r_hat for one in group):.3f}", f"{min(one.gate.min_ess for one in group):,.0f}"
        counts = f"{record['num_rows']:,}", f"{record['num_parameters']:,}"
        rows.append([f"`{name}`", *counts, gates, *worst, f"{sum(likelihoods) / len(group):.3f}", f"{seconds:.0f}"])
    header = ["reference", "rows", "parameters", "splits that pass", "worst R-hat", "least ESS", "log likelihood", "CPU s"]
    return table(header, rows)


def baselines_table() -> str:
    """One row per method: medians over tasks of the means over splits."""
    columns = ["mean_error", "sd_ratio", "gain", "passes", "cpu_s"]
    found = scores().assign(gain=scores().log_likelihood - scores().reference_log_likelihood)
    by_task = found.groupby(["method", "task"])[columns].mean()
    rows = []
    for method, name in NAMES.items():
        of_method = by_task.loc[method]
        error, width, gain, passes, seconds = (float(of_method[column].median()) for column in columns)
        widths = f"{width:.2f} ({of_method.sd_ratio.min():.2f} to {of_method.sd_ratio.max():.2f})"
        errors = f"{error:.2f} ({of_method.mean_error.min():.2f} to {of_method.mean_error.max():.2f})"
        rows.append([name, errors, widths, f"{gain:+.3f}", f"{passes:,.0f}", f"{seconds:.1f}"])
    return table(["method", "error of the mean, sd", "width", "log likelihood", "passes", "CPU s"], rows)


def baselines_scope() -> str:
    """What the numbers are of, in a sentence."""
    splits = scores().groupby("task").split.nunique()
    least, most = splits.min(), splits.max()
    how_many = f"{least}" if least == most else f"{least} to {most}"
    return f"{len(splits)} tasks with {how_many} split{'s' if most > 1 else ''} each, {len(scores())} scores.\n"


def baselines_picture() -> str:
    """Width against the exact posterior's, a dot per task and split, as SVG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    import seaborn as sns

    sns.set_theme(style="whitegrid", context="notebook", rc={"svg.hashsalt": "networks"})
    found = scores().assign(method=scores().method.map(NAMES))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.8), sharey=True, layout="constrained")
    for axis, column, label in zip(
        axes, ("mean_error", "sd_ratio"), ("error of the mean, in exact sds", "width over the exact width"), strict=True
    ):
        sns.stripplot(found, x=column, y="method", order=list(NAMES.values()), ax=axis, size=4, color="#4a6fa5", alpha=0.5,
            jitter=False)
        sns.pointplot(
            found, x=column, y="method", order=list(NAMES.values()), ax=axis, estimator="median", errorbar=None,
            color="#b3402a", linestyle="none", marker="|", markersize=16,
        )
        axis.set(xlabel=label, ylabel="")
    axes[0].set_xlim(0, None)
    axes[1].set_xscale("symlog", linthresh=0.1)
    axes[1].set_xticks([0, 0.1, 0.3, 1, 3], ["0", "0.1", "0.3", "1", "3"])
    axes[1].axvline(1, color="#333333", linewidth=1)
    content = StringIO()
    figure.savefig(content, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return content.getvalue()
