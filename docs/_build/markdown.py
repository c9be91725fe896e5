"""Pieces of Markdown that README and documentation are generated from."""

import re
from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; a bar in a cell stays a bar."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def fenced(content: str, language: str) -> str:
    """Code, or what a program prints."""
    return f"```{language}\n{content}```\n"


def text(words: str) -> str:
    """A text in one line that Markdown takes as it is."""
    return re.sub(r"([<>*`\[\]\\])", r"\\\1", " ".join(words.split()))
