"""Lines of the product and of its tests, folder by folder: ``python -m tests.count_lines``.

Python, Snakemake's rules, and templates (HTML, JavaScript, CSS) count; published pages, data and results do not.
"""

import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = {".py", ".smk", ".html", ".js", ".css"}


def counts() -> Counter[str]:
    """Lines by the folder at the top, of the files that git knows."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found: Counter[str] = Counter()
    for name in filter(None, listed.split("\0")):
        path = Path(name)
        is_code = path.suffix in KINDS or path.name == "Snakefile"
        if is_code and "published" not in path.parts and (ROOT / path).is_file():
            found[path.parts[0] if len(path.parts) > 1 else "."] += (ROOT / path).read_bytes().count(b"\n")
    return found


if __name__ == "__main__":
    lines = counts()
    tests = lines.pop("tests")
    for folder, number in [*sorted(lines.items()), ("product", lines.total()), ("tests", tests)]:
        print(f"{folder:16}{number:7,}")
