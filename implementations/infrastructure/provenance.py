"""Where a result comes from: versions, the state of the code, and the machine."""

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("numpy", "scipy", "jax", "jaxlib", "torch", "blackjax")


def versions() -> dict[str, str]:
    """Python and the packages that numbers depend on."""
    return {"python": platform.python_version()} | {package: _version(package) for package in PACKAGES}


#: Read once per process, which makes many runs.
_version = cache(version)


def git_state(root: Path = Path(__file__).parents[2]) -> dict[str, Any]:
    """The commit of the code that runs, and whether it differs from it; unknown outside a checkout.

    An installed copy may lie in somebody else's checkout, whose commit says nothing about it.
    """
    try:
        prefix, commit, changes = (
            subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()
            for words in (["rev-parse", "--show-prefix"], ["rev-parse", "HEAD"], ["status", "--porcelain"])
        )
    except (OSError, subprocess.CalledProcessError):
        return {"git_commit": None, "git_is_dirty": None}
    if prefix:
        return {"git_commit": None, "git_is_dirty": None}
    return {"git_commit": commit, "git_is_dirty": bool(changes)}


def machine() -> dict[str, Any]:
    """The processor and the system."""
    return {"cpu": _cpu_model(), "num_cpus": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"
