"""Where the suite's own packages are, and how they become importable.

Installed, they lie in a folder next to this file and not in that of all packages, where names such as ``metrics`` would
meet those of others. That folder goes to the end of Python's path, so it hides nothing of the user's. In a checkout it
is the checkout.
"""

import importlib.util
import sys
from pathlib import Path

PACKAGES = ("implementations", "metrics", "records", "reports", "workflows", "benchmarks")


def folder() -> Path:
    """The folder that holds the packages, the Snakefile and the profiles."""
    installed = Path(__file__).parent / "suite"
    return installed if installed.is_dir() else Path(__file__).resolve().parents[1]


#: The studies that come with the suite.
STUDIES = folder() / "workflows" / "studies"


def make_importable() -> None:
    """Put the folder at the end of the path. ImportError where something else has the name of one of the packages."""
    if str(folder()) not in sys.path:
        sys.path.append(str(folder()))
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = list(spec.submodule_search_locations or [spec.origin or "built in"]) if spec else ["nowhere"]
        if Path(places[0]).resolve() != (folder() / name).resolve():
            raise ImportError(
                f"pbnn_bench has a package {name!r}, and Python finds another one first: {places[0]}; "
                "rename that, or start Python in another folder"
            )


def find_study(name: str) -> Path:
    """The file of a study: a path, or the name of one that comes with the suite."""
    # Importable only now.
    from implementations.infrastructure.errors import SettingError, unknown

    for path in (Path(name), STUDIES / f"{name}.yaml"):
        if path.is_file():
            return path
    if name.endswith((".yaml", ".yml")):
        raise SettingError(f"no file {name}")
    raise SettingError(unknown("study", name, sorted(path.stem for path in STUDIES.glob("*.yaml"))))


make_importable()
