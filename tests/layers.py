"""Which package imports which, and the drawing of it in CONTRIBUTING.md.

``python -m tests.layers`` renews the drawing.
"""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
BEGIN, END = "<!-- begin imports -->\n", "<!-- end imports -->"

#: What each package may import, from the bottom up.
ALLOWED = {
    "implementations": set(),
    "metrics": set(),
    "records": {"implementations", "metrics"},
    "reports": {"implementations", "metrics", "records"},
    "benchmarks": {"implementations", "metrics", "records", "reports"},
    "workflows": {"benchmarks", "implementations", "metrics", "records", "reports"},
    "pbnn_bench": {"implementations", "metrics", "records", "reports", "workflows"},
    "docs": {"benchmarks", "implementations", "metrics", "pbnn_bench", "records", "reports", "workflows"},
}


def modules() -> dict[str, Path]:
    """The product's Python files, by the name that imports them."""
    files = [file for package in ALLOWED for file in (ROOT / package).rglob("*.py")]
    return {".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imports(file: Path) -> Iterator[str]:
    """What a file imports anywhere in it: the module, or the name where that is one of its parts."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def edges() -> set[tuple[str, str]]:
    """Pairs of modules of ours, the first of which imports the second."""
    known = modules()
    found = set()
    for name, file in known.items():
        for target in imports(file):
            # An imported name is a module, or stands in one.
            module = target if target in known else target.rpartition(".")[0]
            if target.partition(".")[0] in (*ALLOWED, "tests"):
                found.add((name, module))
    return found


def package(module: str) -> str:
    return module.partition(".")[0]


def drawing() -> str:
    """The packages as a Mermaid graph; an arrow points at what is imported."""
    pairs = sorted({(package(one), package(other)) for one, other in edges() if package(one) != package(other)})
    lines = [f"    {one} --> {other}\n" for one, other in pairs]
    return "```mermaid\ngraph TD\n" + "".join(lines) + "```\n"


def refresh(text: str) -> str:
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + drawing() + END + after


if __name__ == "__main__":
    CONTRIBUTING.write_text(refresh(CONTRIBUTING.read_text(encoding="utf-8")), encoding="utf-8")
