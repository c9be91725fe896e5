"""The report of a calibration: one HTML file that needs nothing else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2
import numpy as np
from markupsafe import Markup

from implementations.infrastructure.files import atomic_path
from pbnn_bench.choice import CRITERIA, TEXTS, Candidate, Choice
from records.setting_runs import MAX_R_HAT
from reports.drawing import Axis, Bar, Drawing, Guide, Key, Line, Look, Panel, Point, figure_css
from reports.page import TEMPLATES as REPORT_TEMPLATES
from reports.reliability import add_curve, reliability_panel

TEMPLATES = Path(__file__).parent / "templates"
#: Bins of fewer points are left out of a diagram, as far as there are others: chance alone moves them up and down.
LEAST_POINTS = 10
#: Of Okabe and Ito's palette, as in the reports of studies.
CHAIN, LAPLACE, NETWORK, SCALED = "#0072b2", "#b8860b", "#6b6b6b", "#d55e00"


class Picture(NamedTuple):
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
    drawn, colours = pictures(choice)
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
    return [*facts, ("best without a chain", cheaper.name, f"chains gain {choice.gain()} nats")]


def pictures(choice: Choice) -> tuple[list[Picture], str]:
    """The pictures, and the rules of a style sheet that they need."""
    part = _part(choice)
    bins = f"Bins of fewer than {LEAST_POINTS} points are left out. " if _has_classes(choice) else ""
    wanted = [
        (
            "Are the probabilities right?" if _has_classes(choice) else "Do the intervals cover what they should?",
            _reliability(choice),
            f"Below the diagonal is overconfident, above it underconfident. {bins}Bars: two standard errors of the "
            f"{part} points.",
        ),
        (
            "Which n predicts best?",
            _by_n(choice, "nll", "negative log likelihood"),
            "Negative log likelihood of the posterior tempered to n; lower is better. Solid: validation points"
            f"{'; dotted: test points' if part == 'test' else ''}. {_shade(choice)}",
        ),
        (
            "Too sure, or too careful?",
            _by_n(choice, "gap", "confidence gap (above 0: overconfident)"),
            f"{'Confidence minus accuracy' if _has_classes(choice) else 'Nominal minus observed coverage'} against n: "
            "above zero is overconfident, below it underconfident.",
        ),
    ]
    drawings = [Drawing([panel], caption, title=title) for title, panel, caption in wanted]
    found = [Picture(one.title, Markup(one.html()), one.caption) for one in drawings]
    return found, figure_css(drawings)


def _shade(choice: Choice) -> str:
    alike = choice.alike()
    if choice.criterion != "nll":
        return f"The {CRITERIA[choice.criterion]} chose n = {choice.batch_size:,}."
    if len(alike) == 1:
        return f"Only n = {alike[0]:,}, shaded, is within two standard errors of the best."
    return f"Shaded: n = {alike[0]:,} to {alike[-1]:,}, within two standard errors of the best."


def _has_classes(choice: Choice) -> bool:
    return choice.best.validation.accuracy is not None


def _curve(candidate: Candidate) -> dict[str, np.ndarray]:
    """Its reliability curve, on the test points where it has any."""
    curve = (candidate.test or candidate.validation).curve
    assert curve is not None, "no density is calibrated"
    is_full = curve.counts >= min(LEAST_POINTS, curve.counts.max())
    return {part: array[is_full] for part, array in vars(curve).items()}


def _reliability(choice: Choice) -> Panel:
    panel = reliability_panel(choice.best.problem.likelihood)
    nominal, observed, counts = (_curve(choice.best)[part] for part in ("nominal", "observed", "counts"))
    # Of a share, with a point added to each side so that none of them is certain.
    share = (observed * counts + 1) / (counts + 2)
    error = 2 * np.sqrt(share * (1 - share) / (counts + 2))
    panel.add(
        *(
            Line([x, x], [max(0.0, y - half), min(1.0, y + half)], CHAIN, width=1)
            for x, y, half in zip(nominal.tolist(), observed.tolist(), error.tolist(), strict=True)
        )
    )
    for candidate, colour in _shown(choice).items():
        curve = _curve(candidate)
        add_curve(panel, curve["nominal"], curve["observed"], Look(colour))
    panel.keys = [Key(candidate.label, Look(colour), "") for candidate, colour in _shown(choice).items()]
    return panel


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


def _by_n(choice: Choice, score: str, label: str) -> Panel:
    """A score against n, for chains and Laplace; those without an n are level lines."""
    offset = np.log(choice.best.problem.target_scale) if score == "nll" else 0.0
    sizes = sorted({one.weight for one in choice.candidates if one.weight is not None})
    panel = Panel(x=Axis("n, weight of the tempered posterior", "log", ticks=sizes), y=Axis(label))
    panel.add(Bar((choice.alike()[0] / 1.1, choice.alike()[-1] * 1.1), colour=CHAIN, opacity=0.08))
    keys = []
    for is_chain in (True, False):
        members = [one for one in choice.candidates if one.weight is not None and one.is_chain == is_chain]
        look = Look(_colour(choice, members[0]))
        parts = {"validation": "", "test": "2 3"} if members[0].test else {"validation": ""}
        for part, dash in parts.items():
            points = [(float(one.weight or 0), getattr(getattr(one, part), score) + offset) for one in members]
            panel.add(Line([x for x, _ in points], [y for _, y in points], look.colour, dash))
            panel.add(*(Point(x, y, look, size=5) for x, y in points))
        keys.append(Key(members[0].name, look, ""))
    for one in choice.candidates:
        if one.weight is None:
            look = Look(_colour(choice, one))
            panel.add(Guide("y", getattr(one.validation, score) + offset, "5 3", look.colour))
            keys.append(Key(one.label, look, "5 3", has_mark=False))
    panel.add(*([Guide("y", 0, "")] if score == "gap" else []))
    panel.keys = keys if score == "nll" else ()
    return panel
