"""A figure on dark paper has the colours that the page of the report gives it there."""

from io import BytesIO

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

from reports.dark import darken
from reports.inline_svg import BLACK, colours_of
from reports.render import picture
from reports.style import DARK_PAPER, on_dark, theme


@pytest.fixture
def figure():
    """Of lines, marks, letters, areas and a collection of several colours."""
    with theme():
        figure, axes = plt.subplots()
        axes.plot([0, 1], [0, 1], color="#0072b2", marker="o", markerfacecolor="none", label="a line")
        axes.fill_between([0, 1], [0, 1], [1, 2], color="#d55e00", alpha=0.3)
        axes.scatter([0.2, 0.4], [1, 1], color=["#009e73", "#555555"])
        axes.bar([0.5], [0.5], color="#cc79a7", edgecolor="black")
        axes.annotate("here", (0.5, 0.5), (0.6, 1.6), bbox={"facecolor": "#eeeeee"}, arrowprops={"arrowstyle": "->"})
        axes.set_title("title")
        axes.legend()
        yield figure
    plt.close(figure)


def test_all_colours_are_those_of_the_page_in_the_dark(figure):
    before = colours_of(picture(figure, "svg"))
    darken(figure)
    after = colours_of(picture(figure, "svg")) - {BLACK}
    assert {"#0072b2", "#d55e00", "#009e73", "#555555", "#cc79a7", "#ffffff"} < before
    assert after == {on_dark(colour) for colour in before}


def test_the_paper_is_dark_and_areas_stay_as_faint_as_they_were(figure):
    picture(figure, "png")
    faint = [one.get_alpha() for one in figure.axes[0].collections]
    darken(figure)
    path = figure.axes[0].collections[0]
    assert [one.get_alpha() for one in figure.axes[0].collections] == faint
    assert path.get_facecolor()[0, 3] == pytest.approx(0.3, abs=0.01)
    pixels = np.asarray(Image.open(BytesIO(picture(figure, "png"))).convert("RGB"))
    assert tuple(pixels[2, 2]) == DARK_PAPER
    assert (pixels.mean(axis=2) < 60).mean() > 0.5
