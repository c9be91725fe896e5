"""Which networks are overconfident, and what n does about it: the confidence gap and the NLL over n, prior by prior."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from records.display import format_given, format_value
from records.setting_runs import SettingRuns
from records.study import StudyResults
from reports.claims.calibration import Network, network_of
from reports.claims.overconfidence import network_text, networks, training_of
from reports.claims.rules import RULES
from reports.figures.captions import runs_of, unconverged_lines
from reports.figures.marks import MARKERS, draw_series, handle, hollow_handles, legend, log_ticks, panels
from reports.style import EXACT
from reports.types import Drawing, NothingToShow

#: From a narrow prior to a wide one, light to dark.
COLOURS = ("#f0a040", "#c8477a", "#3b1f7a")
COLUMNS = {"confidence_gap": "confidence gap", "nll": "NLL on test images"}


def draw_cure(results: StudyResults) -> Drawing:
    """A row of panels for each training, a line for each prior; the last n of a line is N."""
    found = _networks(results)
    by_training: dict[str, list[Network]] = {}
    for one in found:
        by_training.setdefault(training_of(one.full), []).append(one)
    scales = sorted({float(one.full["prior_scale"]) for one in found})
    looks = {scale: (COLOURS[place % 3], MARKERS[place % len(MARKERS)]) for place, scale in enumerate(scales)}
    figure, all_axes = panels(2 * len(by_training), height=2.6)
    for place, (training, family) in enumerate(by_training.items()):
        for axes, (column, label) in zip(all_axes[2 * place : 2 * place + 2], COLUMNS.items(), strict=True):
            _draw_panel(axes, family, column, looks)
            axes.set(ylabel=label, xlabel="n, or all data")
            axes.set_title(f"{training}: {_premise(family)}" if column == "confidence_gap" else training, fontsize=10)
    used = [setting for one in found for setting in (*one.candidates, one.full)]
    handles = [
        *(handle(f"prior sd {scale:g}", *look) for scale, look in looks.items()),
        handle("n chosen on validation images", EXACT, "o", "", is_hollow=True),
        *hollow_handles(used),
    ]
    legend(figure, handles, is_below=True)
    margin = RULES[51]["overconfident"]
    caption = (
        f"Above {margin:g} (dotted) a network is overconfident: there a smaller n can help. Rings: the n with the "
        "least ECE on validation images. The last point of a line is the posterior of all data."
    )
    return Drawing(figure, caption, runs_of(used), _message(found), (*map(_sentence, found), *unconverged_lines(used)))


def _networks(results: StudyResults) -> list[Network]:
    found = []
    for variant in networks(results):
        try:
            found.append(network_of(results, variant))
        except NothingToShow:
            continue
    if not found:
        raise NothingToShow("no network on MNIST has converged chains at all data and at a smaller n")
    return found


def _is_overconfident(network: Network) -> bool:
    return network.full.mean("confidence_gap") > RULES[51]["overconfident"]


def _premise(family: Sequence[Network]) -> str:
    count = sum(map(_is_overconfident, family))
    if count in (0, len(family)):
        return "overconfident" if count else "not overconfident"
    return f"overconfident at {count} of {len(family)} priors"


def _draw_panel(axes: Axes, family: Sequence[Network], column: str, looks: Mapping[float, tuple[str, str]]) -> None:
    for network in family:
        colour, marker = looks[float(network.full["prior_scale"])]
        draw_series(axes, [*network.candidates, network.full], _weight, column, colour, marker)
        chosen = network.chosen
        axes.plot(
            [_weight(chosen)], [chosen.mean(column)], "o", color=EXACT, markerfacecolor="none", markersize=13, zorder=5
        )
    log_ticks(axes, [_weight(one) for network in family for one in (*network.candidates, network.full)])
    if column == "confidence_gap":
        axes.axhline(0, color="black", linewidth=1)
        axes.axhline(RULES[51]["overconfident"], color=EXACT, linestyle=":", linewidth=1.2)


def _weight(setting: SettingRuns) -> float:
    return float(setting["target_weight"])


def _message(found: Sequence[Network]) -> str:
    """Said where the trained-longer networks are overconfident, and the others are not."""
    longer = [_is_overconfident(one) for one in found if one.full["num_epochs"] is not None]
    usual = [_is_overconfident(one) for one in found if one.full["num_epochs"] is None]
    if longer and usual and all(longer) and not any(usual):
        return "Networks trained to overfit are overconfident, and the n that cures them depends on the prior"
    return ""


def _sentence(network: Network) -> str:
    points = ", ".join(
        f"{format_value(one, 'confidence_gap')} and {format_value(one, 'nll')} at {name}"
        for one, name in (
            *((one, f"n={format_given(one['target_weight'])}") for one in network.candidates),
            (network.full, "all data"),
        )
    )
    return (
        f"{network_text(network.full)}: gap and NLL {points}; chosen n={format_given(network.chosen['target_weight'])}."
    )
