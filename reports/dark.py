"""A figure for dark paper: pages that are no report, such as a README, cannot turn its colours round themselves."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from reports.style import on_dark

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: How the file of such a drawing ends.
DARK = "-dark.png"
#: Colours that an artist may have; those of a collection are several.
PARTS = ("color", "facecolor", "edgecolor", "markerfacecolor", "markeredgecolor")
#: Beside a text, where there is one.
OF_TEXTS = ("_bbox_patch", "arrow_patch")


def darken(figure: "Figure") -> None:
    """Give everything in ``figure``, which has been drawn once, its colour on dark paper."""
    from matplotlib.colors import to_hex, to_rgba_array

    for artist, part, colours in list(_coloured(figure)):
        found = [to_hex(on_dark(to_hex(one))) + f"{round(255 * one[3]):02x}" for one in to_rgba_array(colours)]
        if found:
            getattr(artist, f"set_{part}")(found if len(found) > 1 else found[0])


def _coloured(figure: "Figure") -> Iterator[tuple[Any, str, Any]]:
    """What there is to colour: an artist, a part of it, and its colours now."""
    artists = figure.findobj()
    # Boxes and arrows of texts are no children of theirs.
    artists += [one for text in artists for name in OF_TEXTS if (one := getattr(text, name, None)) is not None]
    for artist in artists:
        for part in PARTS:
            if hasattr(artist, f"get_{part}") and hasattr(artist, f"set_{part}"):
                yield artist, part, getattr(artist, f"get_{part}")()
