"""``snakemake --lint``, without what is not meant to be followed: ``python -m workflows.lint``."""

import subprocess
import sys
from collections.abc import Iterator

#: What is not followed, and why.
ACCEPTED = {
    "Specify a conda environment or container for each rule.": (
        "all rules run on the one environment of requirements.lock, which make builds and environment.yml gives to "
        "conda: a method is compared with others on the same versions"
    ),
}


def remaining(text: str) -> Iterator[str]:
    """What the linter says and is not accepted, in a line each: ``Lints for <place>:``, then ``    * <title>:``."""
    place = ""
    for line in text.splitlines():
        if line.startswith("Lints for "):
            place = line.removeprefix("Lints for ")
        title = line.removeprefix("    * ").removesuffix(":")
        if line.startswith("    * ") and title not in ACCEPTED:
            yield f"{place} {title}"


def main() -> int:
    ended = subprocess.run(
        [sys.executable, "-m", "snakemake", "--lint"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = list(remaining(ended.stdout))
    if ended.returncode and "Lints for " not in ended.stdout:
        # The workflow could not even be read.
        lines = [ended.stdout]
    print(*lines, sep="\n", file=sys.stderr, end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
