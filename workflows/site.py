"""Hooks of MkDocs: what the documentation gets from the code and the published studies, and the check of its links."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from implementations.infrastructure.errors import unknown
from reports.benchmarks import KEPT
from reports.publish import PUBLISHED
from reports.style import PHONE
from workflows.links import problems
from workflows.markdown import fenced
from workflows.reference import PAGES, PARTS

#: A line that says only ``{{ name }}`` is replaced by a part of that name, and ``{{ code path }}`` by a file.
PLACE = re.compile(r"^\{\{ (code )?([\w./]+) \}\}$", re.MULTILINE)
#: A figure of a published study on a page.
FIGURE = re.compile(r'<img (alt="[^"]*" )?src="([^"]*/figures/\w+)\.png"[^>]*>')
#: Where the theme makes one column of a page; as in docs/assets/extra.css.
NARROW_SCREEN = "(max-width: 44.9375em)"
ROOT = Path(__file__).parents[1]
#: What files are written in, by their suffixes.
LANGUAGES = {".py": "python", ".yaml": "yaml"}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, the published reports and the picture of the benchmarks."""
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    published = {f"published/{path.relative_to(PUBLISHED).as_posix()}": path for path in sorted(PUBLISHED.rglob("*.*"))}
    for address, file in {**published, "published/performance.svg": KEPT.parent / "performance.svg"}.items():
        files.append(File.generated(config, address, abs_src_path=str(file.resolve())))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put parts and worked examples in their places."""

    def part(found: re.Match[str]) -> str:
        is_code, name = found.groups()
        if is_code and not (ROOT / name).is_file():
            raise PluginError(f"{page.file.src_uri}: no file {name}")
        if is_code:
            return fenced((ROOT / name).read_text(encoding="utf-8"), LANGUAGES[Path(name).suffix])
        if name not in PARTS:
            raise PluginError(f"{page.file.src_uri}: {unknown('part', name, PARTS)}")
        return PARTS[name]()

    return PLACE.sub(part, markdown)


def on_page_content(html: str, page: Any, files: Files, **_: Any) -> str:
    """Show figures as they are drawn for a phone where there is such a drawing."""

    def on_a_phone(found: re.Match[str]) -> str:
        narrow = found[2] + PHONE
        # Relative to the folder of the page, as browsers read it.
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.dest_uri), narrow))
        if files.get_file_from_path(path) is None:
            return found[0]
        return f'<picture><source media="{NARROW_SCREEN}" srcset="{narrow}">{found[0]}</picture>'

    return FIGURE.sub(on_a_phone, html)


def on_post_build(config: Any) -> None:
    """Refuse a site with a link that leads nowhere, or with anything that is fetched from elsewhere."""
    found = problems(Path(config["site_dir"]))
    if found:
        raise PluginError("\n".join(["the site has broken links:", *found]))
