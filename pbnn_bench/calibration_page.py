"""The report of a calibration: one HTML file that needs nothing else."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from implementations.infrastructure.files import atomic_path
from pbnn_bench.choice import CRITERIA, TEXTS, Candidate, Choice
from records.setting_runs import MAX_R_HAT
from reports.figures.marks import log_ticks
from reports.inline_svg import colours_of, inline_svg
from reports.page import TEMPLATES as REPORT_TEMPLATES
from reports.reliability import draw_reliability
from reports.style import LABELS, on_dark, theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPLATES = Path(__file__).parent / "templates"
#: Bins of fewer points are left out of a diagram, as far as there are others: chance alone moves them up and down.
LEAST_POINTS = 10
#: Of Okabe and Ito's palette, as in the reports of studies.
CHAIN, LAPLACE, NETWORK, SCALED = "#0072b2", "#b8860b", "#6b6b6b", "#d55e00"
#: Inches of a panel. Three stand side by side on a wide page, and below each other on a phone.
PANEL = (4.2, 3.7)


class Panel(NamedTuple):
    """A picture, what it says, and how to read it."""

    title: str
    svg: Markup
    caption: str


def write_page(
    choice: Choice, path: Path, name: str, notices: Sequence[str] = (), origin: Mapping[str, str] | None = None
) -> None:
    """Write the page of ``choice`` to ``path``; ``name`` is what the data are called."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    rows = choice.rows()
    drawn, colours = panels(choice)
    text = environment.get_template("calibration.html").render(
        name=name,
        headline=choice.headline(),
        # The letter n stays small.
        verdict=[line if line.startswith("n = ") else line[0].upper() + line[1:] for line in choice.verdict()],
        facts=_facts(choice),
        notices=notices,
        panels=drawn,
        part=_part(choice),
        rows=[
            (row, _colour(choice, one), one is choice.best) for row, one in zip(rows, choice.candidates, strict=True)
        ],
        headings=[heading for heading in rows[0] if heading and any(row[heading] for row in rows)],
        texts=TEXTS,
        max_r_hat=MAX_R_HAT,
        origin=origin or {},
        # Files and colours of ours.
        style=Markup((REPORT_TEMPLATES / "style.css").read_text(encoding="utf-8")),
        colours=Markup(colours),
    )
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _part(choice: Choice) -> str:
    return "test" if choice.best.test else "validation"


def _facts(choice: Choice) -> list[tuple[str, str, str]]:
    """A few numbers in large type: what they are, the number, and what to hold it against."""
    found, cheaper = choice.rows(), choice.without_chain
    chosen, network = found[choice.candidates.index(choice.best)], found[0]
    part, num_points = _part(choice), choice.best.problem.num_points
    facts = [("chosen n", f"{choice.batch_size:,}", f"of {num_points:,} training points")]
    for column, label in (("NLL", "negative log likelihood"), ("ECE", "calibration error"), ("accuracy", "accuracy")):
        if column_name := next((one for one in chosen if one == f"{part} {column}"), None):
            facts.append((f"{part} {label}", chosen[column_name], f"{network[column_name]} without uncertainty"))
    return [*facts, ("best without a chain", cheaper.name.partition(",")[0], f"chains gain {choice.gain()} nats")]


def panels(choice: Choice) -> tuple[list[Panel], str]:
    """The pictures, and the style sheet's lines for their colours in the dark."""
    part = _part(choice)
    bins = f"Bins of fewer than {LEAST_POINTS} points are left out. " if _has_classes(choice) else ""
    wanted: list[tuple[str, Callable[[Axes], None], str]] = [
        (
            "Are the probabilities right?" if _has_classes(choice) else "Do the intervals cover what they should?",
            lambda axes: _draw_reliability(axes, choice),
            f"Below the diagonal is overconfident, above it underconfident. {bins}Bars: two standard errors of the "
            f"{part} points.",
        ),
        (
            "Which n predicts best?",
            lambda axes: _draw_by_n(axes, choice, "nll"),
            "Negative log likelihood of the posterior tempered to n; lower is better. Solid: validation points"
            f"{'; dotted: test points' if part == 'test' else ''}. {_shade(choice)}",
        ),
        (
            "Too sure, or too careful?",
            lambda axes: _draw_by_n(axes, choice, "gap"),
            f"{'Confidence minus accuracy' if _has_classes(choice) else 'Nominal minus observed coverage'} against n: "
            "above zero is overconfident, below it underconfident.",
        ),
    ]
    drawn, used = [], set()
    for number, (title, draw, caption) in enumerate(wanted):
        svg = _svg(draw)
        used |= colours_of(svg)
        attributes = {"role": "img", "aria-label": f"{title} {caption}"}
        drawn.append(Panel(title, Markup(inline_svg(svg, f"panel{number}", {}, {}, **attributes)), caption))
    lines = [
        f'.picture [{kind}="{colour}"] {{ {kind}: {on_dark(colour)}; }}\n'
        for colour in sorted(used)
        for kind in ("fill", "stroke")
        if on_dark(colour) != colour
    ]
    return drawn, f"@media screen and (prefers-color-scheme: dark) {{\n{''.join(lines)}}}\n"


def _shade(choice: Choice) -> str:
    alike = choice.alike()
    if choice.criterion != "nll":
        return f"The {CRITERIA[choice.criterion]} chose n = {choice.batch_size:,}."
    if len(alike) == 1:
        return f"Only n = {alike[0]:,}, shaded, is within two standard errors of the best."
    return f"Shaded: n = {alike[0]:,} to {alike[-1]:,}, within two standard errors of the best."


def _svg(draw: "Callable[[Axes], None]") -> bytes:
    from matplotlib.figure import Figure

    with theme():
        drawing = Figure(figsize=PANEL)
        draw(drawing.subplots())
        file = io.BytesIO()
        drawing.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _has_classes(choice: Choice) -> bool:
    return choice.best.validation.accuracy is not None


def draw_diagram(axes: "Axes", candidate: Candidate, **line: Any) -> None:
    """Add a candidate's reliability curve to ``axes``, on the test points where it has any."""
    arrays = _curve(candidate)
    draw_reliability(axes, arrays, candidate.problem.likelihood, label=candidate.name, **line)


def _curve(candidate: Candidate) -> dict[str, np.ndarray]:
    curve = (candidate.test or candidate.validation).curve
    assert curve is not None, "no density is calibrated"
    is_full = curve.counts >= min(LEAST_POINTS, curve.counts.max())
    return {f"test_{part}": array[is_full] for part, array in vars(curve).items()}


def _draw_reliability(axes: "Axes", choice: Choice) -> None:
    for candidate, colour in _shown(choice).items():
        is_best = candidate is choice.best
        draw_diagram(axes, candidate, color=colour, linewidth=2 if is_best else 1.2, zorder=3 if is_best else 2)
    nominal, observed, counts = (_curve(choice.best)[f"test_{part}"] for part in ("nominal", "observed", "counts"))
    # Of a share, with a point added to each side so that none of them is certain.
    share = (observed * counts + 1) / (counts + 2)
    error = 2 * np.sqrt(share * (1 - share) / (counts + 2))
    ends = np.clip(observed - error, 0, 1), np.clip(observed + error, 0, 1)
    axes.vlines(nominal, *ends, color=CHAIN, alpha=0.4, linewidth=2, zorder=1)
    axes.legend(fontsize="x-small", loc="lower right")


def _colour(choice: Choice, candidate: Candidate) -> str:
    if candidate.weight is None:
        return NETWORK if candidate is choice.candidates[0] else SCALED
    return CHAIN if candidate.is_chain else LAPLACE


def _shown(choice: Choice) -> dict[Candidate, str]:
    """The candidates of the diagram: the network, its scaled version, Laplace on all the data, and the chosen one."""
    # Those of no weight are the network, and its scaled version where there is one.
    networks = [one for one in choice.candidates if one.weight is None]
    laplace = [one for one in choice.candidates if not one.is_chain][-1]
    return {one: _colour(choice, one) for one in (*networks, laplace, choice.best)}


def _draw_by_n(axes: "Axes", choice: Choice, score: str) -> None:
    """A score against n, for chains and Laplace; those without an n are level lines."""
    offset = np.log(choice.best.problem.target_scale) if score == "nll" else 0.0
    for is_chain in (True, False):
        members = [one for one in choice.candidates if one.weight is not None and one.is_chain == is_chain]
        sizes = [one.weight or 0 for one in members]
        line: dict[str, Any] = {"color": _colour(choice, members[0]), "marker": "o", "markersize": 4}
        parts = {"validation": "-", "test": ":"} if members[0].test else {"validation": "-"}
        for part, style in parts.items():
            values = [getattr(getattr(one, part), score) + offset for one in members]
            axes.plot(sizes, values, label=members[0].name if part == "validation" else None, linestyle=style, **line)
    for one in choice.candidates:
        if one.weight is None:
            level = getattr(one.validation, score) + offset
            axes.axhline(level, color=_colour(choice, one), linewidth=1.2, linestyle="--", label=one.name, zorder=1)
    if score == "gap":
        axes.axhline(0, color=NETWORK, linewidth=0.8, zorder=1)
    axes.axvspan(choice.alike()[0] / 1.1, choice.alike()[-1] * 1.1, color=CHAIN, alpha=0.08, linewidth=0)
    label = {"nll": "negative log likelihood", "gap": LABELS["confidence_gap"]}[score]
    axes.set(xlabel="n, weight of the tempered posterior", ylabel=label)
    # The values of n themselves: less than a decade of powers would be written over each other.
    log_ticks(axes, [one.weight for one in choice.candidates if one.weight is not None])
    if score == "nll":
        axes.legend(fontsize="x-small")
