"""Is a figure legible as a picture? No text is cut or lies on another, and no panel is empty."""

import xml.etree.ElementTree as ElementTree
from functools import cache
from itertools import combinations
from pathlib import Path

import matplotlib
from PIL import ImageFont

from reports.drawing import FONT, WIDTH, Box, Drawing, Panel, Words

#: The widest of the fonts that a page may have.
FILE = Path(matplotlib.get_data_path(), "fonts", "ttf", "DejaVuSans{}.ttf")
#: What is lost of a letter before a reader notices, in units.
SLACK = 1.5


@cache
def font(size: float, is_bold: bool) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FILE).format("-Bold" if is_bold else ""), 10 * size)


def boxes(svg: str) -> list[tuple[str, Box]]:
    """The texts of a drawing and where they are."""
    found = []
    for element in ElementTree.fromstring(f"<svg>{svg}</svg>").iter("text"):
        size = float(element.get("font-size", FONT))
        width = font(size, element.get("font-weight") == "600").getlength(element.text) / 10
        left = (
            float(element.get("x"))
            - {"start": 0.0, "middle": 0.5, "end": 1.0}[element.get("text-anchor", "start")] * width
        )
        base = float(element.get("y"))
        found.append((element.text, Box(left, base - 0.76 * size, left + width, base + 0.2 * size)))
    return found


def panel_flaws(panel: Panel) -> list[str]:
    svg, height = panel.svg()
    texts = boxes(svg)
    found = [
        f"{text!r} is cut"
        for text, box in texts
        if box.left < -SLACK or box.right > WIDTH + SLACK or box.top < 0 or box.bottom > height
    ]
    for (one, first), (other, second) in combinations(texts, 2):
        inner = first._replace(left=first.left + SLACK, right=first.right - SLACK, bottom=first.bottom - SLACK)
        if inner.overlaps(second):
            found.append(f"{one!r} and {other!r} overlap")
    if not panel.shapes and "no run ended" not in panel.title:
        found.append(f"panel {panel.title!r} is empty")
    if "nan" in svg:
        found.append("a number of the drawing is missing")
    return found


def flaws(drawing: Drawing) -> list[str]:
    """What a reader would stumble over, panel by panel; and in the file of its own."""
    found = [flaw for panel in drawing.panels for flaw in panel_flaws(panel)]
    # Reads it as a program would.
    ElementTree.fromstring(drawing.svg())
    looks = [key._replace(label="") for key in drawing.keys]
    found += [
        f"{key.label!r} looks like another entry" for key in drawing.keys if looks.count(key._replace(label="")) > 1
    ]
    for panel in drawing.panels:
        words = [shape.text for shape in panel.shapes if isinstance(shape, Words)]
        drawn = [text for text, _ in boxes(panel.svg()[0])]
        found += [f"{word!r} is not drawn" for word in words if word not in drawn]
    return found
