"""A drawing as a part of the page itself: a mark says on hover which setting it is, and leads to its run on a click."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping

from reports.types import Mark

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", SVG)
ElementTree.register_namespace("xlink", XLINK)

BLACK = "#000000"
#: Digits of a coordinate beyond these, in a number of the drawing's points, are not to be seen.
LONG_NUMBER = re.compile(r"(\d\.\d\d)\d+")


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
    targets = _targets(root)
    for element in root.iter():
        _adapt(element, prefix, targets)
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


def _adapt(element: ElementTree.Element, prefix: str, targets: set[str]) -> None:
    """Attributes instead of a style, which the policy does not allow, ids with the prefix, and nothing unused."""
    for pair in filter(None, (part.strip() for part in element.attrib.pop("style", "").split(";"))):
        name, _, value = pair.partition(":")
        # The page's style sheet names the letters, and others that are as wide.
        if name.strip() != "font-family":
            element.set(name.strip(), value.strip())
    if element.get("id") not in targets:
        element.attrib.pop("id", None)
    for name, value in element.attrib.items():
        if name == "id":
            element.set(name, f"{prefix}-{value}")
        elif name == f"{{{XLINK}}}href":
            element.set(name, value.replace("#", f"#{prefix}-", 1))
        elif "url(#" in value:
            element.set(name, re.sub(r"url\(#", f"url(#{prefix}-", value))
        elif name in ("d", "x", "y", "points", "transform"):
            element.set(name, " ".join(LONG_NUMBER.sub(r"\1", value).split()))
    if element.tag not in (f"{{{SVG}}}text", f"{{{SVG}}}tspan", f"{{{SVG}}}title"):
        element.text = (element.text or "").strip() or None
    if element.tag != f"{{{SVG}}}tspan":
        element.tail = None
