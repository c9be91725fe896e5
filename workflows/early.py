"""What is seen to before Snakemake itself begins. Its profiles call it, with Snakemake's own arguments."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from implementations.infrastructure.errors import SettingError
from workflows.study import read_yaml


def prepare(arguments: Sequence[str]) -> None:
    check_named(arguments)
    use_writable_caches()


def check_named(arguments: Sequence[str]) -> None:
    """End with a line where a file after --configfile is no YAML within bounds.

    Snakemake reads the file before it reads the Snakefile, and answers one that is missing, a folder, no text or a
    bomb with a traceback or not at all.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", type=Path, default=[])
    try:
        paths = parser.parse_known_args(arguments)[0].configfile
    except argparse.ArgumentError:
        # Without a file. Snakemake says so itself.
        return
    for path in paths:
        try:
            read_yaml(path)
        except SettingError as error:
            sys.exit(f"{path}: {error}")


def use_writable_caches() -> None:
    """Where the home folder cannot be written to, as in many containers, caches go beside the results."""
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        cache.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(cache, os.W_OK)
    except (OSError, RuntimeError):
        # RuntimeError: there is no home folder.
        is_writable = False
    if not is_writable:
        beside = Path("results", ".cache", "home").absolute()
        os.environ |= {"XDG_CACHE_HOME": str(beside), "MPLCONFIGDIR": str(beside / "matplotlib")}
