"""The links of a built site: every one leads somewhere, and no page needs anything from elsewhere."""

from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

#: What a browser fetches by itself; a link of the others is followed by a click.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("source", "srcset"),
    ("iframe", "src"),
    ("object", "data"),
    ("video", "src"),
}
#: Kinds of <link> that are no files a browser fetches.
NOT_FETCHED = {"canonical", "prev", "next", "alternate", "edit"}


class Link(NamedTuple):
    """Where an element of a page points to."""

    address: str
    is_fetched: bool


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attributes}
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        for name, address in found.items():
            if name in ("href", "src", "srcset", "data") and (tag, name) in FETCHED | {("a", "href"), ("link", "href")}:
                is_asset = tag == "link" and found.get("rel") not in NOT_FETCHED
                self.links.append(Link(address, is_asset or (tag, name) in FETCHED))


def problems(folder: Path) -> list[str]:
    """What is wrong with the links of the pages in a folder, one sentence each."""
    pages = sorted(folder.rglob("*.html"))
    return [f"{page.relative_to(folder)}: {problem}" for page in pages for problem in _of_page(page, folder)]


@cache
def _read(page: Path) -> _Page:
    parsed = _Page()
    parsed.feed(page.read_text(encoding="utf-8"))
    return parsed


def _of_page(page: Path, folder: Path) -> Iterator[str]:
    for link in dict.fromkeys(_read(page).links):
        parts = urlsplit(link.address)
        if parts.scheme == "data":
            continue
        if parts.scheme or parts.netloc:
            if link.is_fetched:
                yield f"{link.address} is fetched from elsewhere; keep it with the site"
            continue
        # An error page is shown at any address, so its links begin at the root.
        base = folder if parts.path.startswith("/") else page.parent
        target = (base / unquote(parts.path).lstrip("/")).resolve() if parts.path else page
        if target.is_dir():
            target /= "index.html"
        if not target.is_file():
            yield f"{link.address} leads nowhere"
        elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in _read(target).anchors:
            yield f"{link.address}: the page has no {parts.fragment!r}"
