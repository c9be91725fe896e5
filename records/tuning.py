"""What the stage ``tune`` of a study found, on file: the step of one method and setting, for all its seeds."""

from pathlib import Path

from implementations.infrastructure.files import sealed, write_json
from implementations.tuning.pilot import TunedApart
from records.failures import Absent
from records.layout import read_outcome


def write_tuning(path: Path, found: TunedApart) -> None:
    write_json(path, sealed({"failure": None, **vars(found)}))


def write_failed_tuning(path: Path, reason: str) -> None:
    """Write ``reason`` in the place of a tuning."""
    write_json(path, sealed({"failure": reason}))


def load_tuning(path: Path) -> TunedApart:
    """The tuning, or Absent with the reason why there is none."""
    outcome = read_outcome(path) or {"failure": f"{path} is missing"}
    if outcome["failure"] is not None:
        raise Absent(f"not tuned: {outcome['failure']}")
    return TunedApart(**{name: outcome[name] for name in ("record", "skipped", "seconds", "cpu_seconds")})
