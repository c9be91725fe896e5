"""Marks: small files that say that all files of a part are made, and which these are.

Snakemake follows the marks and leaves the files themselves alone: those of a part that was interrupted stay.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.files import Damaged, check_seal, sealed, sha256_of, write_json
from records.layout import read_json


def write_mark(path: Path, files: Sequence[Path]) -> None:
    write_json(path, sealed({"files": _checksums(path, files)}))


def is_mark_of(path: Path, files: Sequence[Path]) -> bool:
    """Are these the files the mark was made for, all as they were then? Damaged where it is no mark."""
    content = read_json(path) or {}
    check_seal(path, content)
    if "sha256" not in content:
        raise Damaged(f"{path} is damaged: it has no checksum")
    try:
        return bool(content.get("files") == _checksums(path, files))
    except FileNotFoundError:
        return False


def _checksums(path: Path, files: Sequence[Path]) -> dict[str, str]:
    """By names that hold also when the results are moved."""
    return {os.path.relpath(file, path.parent): sha256_of(file) for file in files}
