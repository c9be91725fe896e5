"""Hooks of MkDocs: generated pages and parts, published reports, and a check that no page fetches anything from elsewhere.

MkDocs itself checks that every link leads somewhere (``validation`` in mkdocs.yml).
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from docs._build import networks, published, reference
from docs._build.markdown import fenced
from implementations.infrastructure.errors import unknown
from reports.benchmarks import KEPT, load
from reports.publish import PUBLISHED

ROOT = Path(__file__).parents[2]
#: A line that says only ``{{ name }}`` is replaced by the part of that name, and ``{{ code path }}`` by a file.
PLACE = re.compile(r"^\{\{ (code )?([\w./]+) \}\}$", re.MULTILINE)
#: Languages of worked examples, by the suffixes of their files.
LANGUAGES = {".py": "python", ".yaml": "yaml", ".md": "markdown"}
#: What a browser fetches without a click: sources, and links to style sheets, icons and the like.
FETCHED = re.compile(
    r"<(?:(?:script|img|source|iframe|video)\b[^>]*?\bsrc(?:set)?|object\b[^>]*?\bdata"
    r'|link\b(?![^>]*rel="?(?:canonical|prev|next|alternate|edit))[^>]*?\bhref)="?((?:https?:)?//[^"\s>]+)'
)

#: Generated pages, by their places in the documentation.
PAGES = {
    "findings.md": lambda: published.findings_page(published.published_studies()),
    "reference/commands.md": reference.commands_page,
    "reference/methods.md": reference.methods_page,
    "reference/tasks.md": lambda: f"# Tasks\n\n{reference.tasks_table()}",
    "reference/columns.md": reference.columns_page,
    "reference/claims.md": reference.claims_page,
}
#: What replaces ``{{ name }}`` in a page that is written by hand.
PARTS = {
    "settings": reference.settings_table,
    "choices": reference.choices_table,
    "tasks": reference.tasks_table,
    "performance": lambda: reference.performance(load()),
    "winners": published.winners_table,
    "hero": lambda: published.hero(published.published_studies()[0]),
    "short_findings": lambda: published.short_findings(published.published_studies()),
    "studies": lambda: published.studies_table(published.published_studies(), "published"),
    "all_studies": published.durations_table,
    "budgets": published.budgets_table,
    "network_references": networks.references_table,
    "network_baselines": networks.baselines_table,
    "network_scope": networks.baselines_scope,
}


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, the published reports, and pictures of the benchmarks and of whole networks."""
    for path, page in PAGES.items():
        files.append(File.generated(config, path, content=page()))
    reports = {f"published/{path.relative_to(PUBLISHED).as_posix()}": path for path in sorted(PUBLISHED.rglob("*.*"))}
    for address, file in {**reports, "published/performance.svg": KEPT.parent / "performance.svg"}.items():
        files.append(File.generated(config, address, abs_src_path=str(file.resolve())))
    files.append(File.generated(config, "published/networks.svg", content=networks.baselines_picture()))
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


def on_post_build(config: Any) -> None:
    """Refuse a site with a page that fetches anything from elsewhere."""
    site = Path(config["site_dir"])
    found = [
        f"{page.relative_to(site)} fetches {address}; keep it with the site"
        for page in sorted(site.rglob("*.html"))
        for address in fetched_from_elsewhere(page.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("\n".join(found))


def fetched_from_elsewhere(html: str) -> list[str]:
    """The addresses outside the site that a browser fetches for a page."""
    return FETCHED.findall(html)
