"""A drawing as a part of the page itself: a mark says on hover which setting it is, and leads to its run on a click."""

import base64
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from io import BytesIO

from PIL import Image

from reports.types import Mark

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)

BLACK = "#000000"
#: Numbers of a drawing; a tenth of one of its points is less than a reader sees.
NUMBER = re.compile(r"-?\d+\.\d+")
#: Lines from point to point, whose letter is said once. After a curve it stays, or they would be the next curve's.
LINES = re.compile(r"[ML](?: -?[\d.]+){2}(?: L(?: -?[\d.]+){2})+")
#: Shades of a picture of points, all of one colour.
NUM_SHADES = 16


def inline_svg(
    svg: bytes, prefix: str, marks: Mapping[str, Mark], anchors: Mapping[str, str], **attributes: str
) -> str:
    """Matplotlib's SVG as HTML, with a link around each group whose id is one of ``marks``.

    ``prefix`` keeps its ids apart from those of other drawings, ``anchors`` has the id of a run's row, and
    ``attributes`` are the drawing's own.
    """
    root = ElementTree.fromstring(svg)
    for name in ("metadata", "defs"):
        # The page's policy allows no style sheet but its own.
        for element in root.findall(f"{{{SVG}}}{name}"):
            if name == "metadata" or element.find(f"{{{SVG}}}style") is not None:
                root.remove(element)
    # What that style sheet says; here other elements inherit it.
    root.attrib |= {"stroke-linejoin": "round", "stroke-linecap": "butt"} | attributes
    for parent in list(root.iter()):
        for position, element in enumerate(list(parent)):
            if element.get("id") in marks:
                parent[position] = _linked(element, marks[element.get("id", "")], anchors)
    for element in _drawn(root):
        # Matplotlib leaves black to be understood, and a style sheet for the dark would not find it.
        if "fill" not in element.get("style", ""):
            element.set("fill", BLACK)
    names = {target: f"{prefix}-{number}" for number, target in enumerate(sorted(_targets(root)))}
    for element in root.iter():
        _adapt(element, names)
    _inherit_edges(root)
    _unwrap(root)
    return ElementTree.tostring(root, encoding="unicode")


def colours_of(svg: bytes) -> set[str]:
    """The colours of a drawing's lines, areas and letters."""
    return {BLACK, *re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", svg.decode())}


def _drawn(element: ElementTree.Element) -> Iterator[ElementTree.Element]:
    """The shapes that are seen, not those kept for others to use, which these may fill as they like."""
    for child in element:
        if child.tag in (f"{{{SVG}}}path", f"{{{SVG}}}use"):
            yield child
        elif child.tag != f"{{{SVG}}}defs":
            yield from _drawn(child)


def _linked(element: ElementTree.Element, mark: Mark, anchors: Mapping[str, str]) -> ElementTree.Element:
    link = ElementTree.Element(f"{{{SVG}}}a", {"class": "mark"})
    if mark.run in anchors:
        link.set("href", f"#{anchors[mark.run]}")
    ElementTree.SubElement(link, f"{{{SVG}}}title").text = mark.text
    link.append(element)
    return link


def _targets(root: ElementTree.Element) -> set[str]:
    """Ids that something in the drawing refers to."""
    values = " ".join(value for element in root.iter() for value in element.attrib.values())
    return set(re.findall(r"#([\w.-]+)", values))


def _adapt(element: ElementTree.Element, names: Mapping[str, str]) -> None:
    """Attributes instead of a style, which the policy does not allow, new names for ids, and nothing unused."""
    for pair in filter(None, (part.strip() for part in element.attrib.pop("style", "").split(";"))):
        name, _, value = pair.partition(":")
        # The page's style sheet names the letters, and others that are as wide.
        if name.strip() != "font-family":
            element.set(name.strip(), value.strip())
    if element.get("id") not in names:
        element.attrib.pop("id", None)
    # Upright is upright.
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, names[value])
        elif name == f"{{{XLINK}}}href":
            element.set(name, f"#{names[value[1:]]}" if value.startswith("#") else _in_shades(value))
        elif "url(#" in value:
            element.set(name, re.sub(r"url\(#([\w.-]+)\)", lambda found: f"url(#{names[found[1]]})", value))
        elif name in ("d", "x", "y", "points", "transform"):
            element.set(name, _shortened(value))
    if element.tag not in (f"{{{SVG}}}text", f"{{{SVG}}}tspan", f"{{{SVG}}}title"):
        element.text = (element.text or "").strip() or None
    if element.tag != f"{{{SVG}}}tspan":
        element.tail = None


def _inherit_edges(root: ElementTree.Element) -> None:
    """Marks have the edge that is said where they are used: a style sheet for the dark does not reach their shape."""
    given = {one.get(f"{{{XLINK}}}href", "") for one in root.iter(f"{{{SVG}}}use") if "stroke" in one.attrib}
    for shape in root.iter(f"{{{SVG}}}path"):
        if f"#{shape.get('id')}" in given:
            shape.attrib.pop("stroke", None)


def _unwrap(element: ElementTree.Element) -> None:
    """Groups that say nothing of their members give way to them."""
    members: list[ElementTree.Element] = []
    for child in list(element):
        _unwrap(child)
        members += child if child.tag == f"{{{SVG}}}g" and not child.attrib else [child]
        element.remove(child)
    element.extend(members)


def _shortened(value: str) -> str:
    """Coordinates of a path or a shape in fewer letters."""
    rounded = NUMBER.sub(lambda found: f"{float(found[0]):.1f}".removesuffix(".0"), value)
    return LINES.sub(lambda found: found[0][0] + found[0][1:].replace(" L", ""), " ".join(rounded.split()))


def _in_shades(address: str) -> str:
    """A picture in a drawing, a few colours of which are enough, as a data URI."""
    kind, _, content = address.partition(",")
    with Image.open(BytesIO(base64.b64decode(content))) as picture:
        few = picture.convert("RGBA").quantize(NUM_SHADES)
    written = BytesIO()
    few.save(written, format="png", optimize=True)
    shorter = base64.b64encode(written.getvalue()).decode("ascii")
    return f"{kind},{shorter}"
