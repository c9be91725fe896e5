"""The report of a calibration: one HTML file that needs nothing else."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
from markupsafe import Markup

from implementations.infrastructure.files import atomic_path
from pbnn_bench.choice import Candidate, Choice
from records.setting import MAX_R_HAT
from reports.page import TEMPLATES as REPORT_TEMPLATES
from reports.reliability import draw_reliability
from reports.style import theme

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPLATES = Path(__file__).parent / "templates"
#: Bins of fewer points are left out of a diagram, as far as there are others: chance alone moves them up and down.
LEAST_POINTS = 10
#: Of Okabe and Ito's palette, as in the reports of studies.
CHAIN, LAPLACE, NETWORK, SCALED = "#0072b2", "#b8860b", "#6b6b6b", "#d55e00"


def write_page(
    choice: Choice, path: Path, name: str, notices: Sequence[str] = (), origin: Mapping[str, str] | None = None
) -> None:
    """Write the page of ``choice`` to ``path``; ``name`` is what the data are called."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    rows = choice.rows()
    text = environment.get_template("calibration.html").render(
        name=name,
        verdict=[line[0].upper() + line[1:] for line in choice.verdict()],
        notices=notices,
        least_points=LEAST_POINTS,
        figure=Markup(figure(choice)),
        part="test" if choice.best.test else "validation",
        criterion=choice.criterion,
        rows=rows,
        headings=[heading for heading in rows[0] if any(row[heading] for row in rows)],
        max_r_hat=MAX_R_HAT,
        origin=origin or {},
        # A file of ours.
        style=Markup((REPORT_TEMPLATES / "style.css").read_text(encoding="utf-8")),
    )
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def figure(choice: Choice) -> str:
    """Reliability of the main candidates, and the loss of every n: an SVG."""
    from matplotlib.figure import Figure

    with theme():
        drawing = Figure(figsize=(10, 4.6))
        left, right = drawing.subplots(1, 2)
        for candidate, colour in _shown(choice).items():
            draw_diagram(left, candidate, color=colour)
        left.legend(fontsize="small", loc="upper left")
        _draw_losses(right, choice)
        file = io.StringIO()
        drawing.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue().partition("<svg")[1] + file.getvalue().partition("<svg")[2]


def draw_diagram(axes: "Axes", candidate: Candidate, **line: Any) -> None:
    """Add a candidate's reliability curve to ``axes``, on the test points where it has any."""
    curve = (candidate.test or candidate.validation).curve
    assert curve is not None, "no density is calibrated"
    is_full = curve.counts >= min(LEAST_POINTS, curve.counts.max())
    arrays = {f"test_{part}": array[is_full] for part, array in vars(curve).items()}
    draw_reliability(axes, arrays, candidate.problem.likelihood, label=candidate.name, **line)


def _shown(choice: Choice) -> dict[Candidate, str]:
    """The candidates of the diagram: the network, its scaled version, Laplace on all the data, and the chosen one."""
    # Those of no weight are the network, and its scaled version where there is one.
    networks = [one for one in choice.candidates if one.weight is None]
    laplace = [one for one in choice.candidates if not one.is_chain][-1]
    return dict(zip(networks, (NETWORK, SCALED), strict=False)) | {laplace: LAPLACE, choice.best: CHAIN}


def _draw_losses(axes: "Axes", choice: Choice) -> None:
    for is_chain, colour in ((True, CHAIN), (False, LAPLACE)):
        members = [one for one in choice.candidates if one.weight is not None and one.is_chain == is_chain]
        sizes = [one.weight or 0 for one in members]
        line: dict[str, Any] = {"color": colour, "marker": "o", "markersize": 4}
        axes.plot(sizes, [one.validation.nll for one in members], label=f"{members[0].name}, validation", **line)
        if members[0].test:
            values = [one.test.nll for one in members if one.test]
            axes.plot(sizes, values, label=f"{members[0].name}, test", linestyle=":", **line)
    axes.axvline(choice.batch_size, color=CHAIN, linewidth=1, alpha=0.4)
    axes.set(xscale="log", xlabel="n = w, weight of the tempered posterior", ylabel="negative log likelihood")
    axes.legend(fontsize="small")
