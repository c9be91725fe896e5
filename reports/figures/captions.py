"""What several captions, and the numbers folded below them, say alike."""

from collections.abc import Iterable, Sequence

from records.display import format_name
from records.setting_runs import CONVERGED, SettingRuns

#: Two bands look the same when their sd differ by less, as a share.
SAME_WIDTH = 0.1


def runs_of(settings: Iterable[SettingRuns]) -> tuple[str, ...]:
    """Their runs that ended well, each once."""
    return tuple(dict.fromkeys(run for setting in settings for run in setting.runs))


def over_seeds(settings: Iterable[SettingRuns]) -> str:
    """``means over 4 to 16 seeds, 95 % intervals``: a claim may use fewer of them than a figure."""
    counts = sorted({len(setting.evidence) for setting in settings})
    if counts == [1]:
        return "one seed"
    return f"means over {' to '.join(map(str, dict.fromkeys((counts[0], counts[-1]))))} seeds, 95 % intervals"


def unconverged_lines(settings: Sequence[SettingRuns]) -> tuple[str, ...]:
    """The line about runs that are not evidence; none where all are."""
    runs = runs_of(settings)
    missing = len(runs) - len({row["run"] for setting in settings for row in setting.converged})
    if not missing:
        return ()
    return (f"Hollow or hatched: {missing} of {len(runs)} runs have not converged ({CONVERGED}).",)


def unconverged_names(settings: Iterable[SettingRuns]) -> tuple[str, ...]:
    """Which of the runs are no evidence; none where all are."""
    found = [
        f"{format_name(setting)} {len(setting.ok) - len(setting.converged)} of {len(setting.ok)}"
        for setting in settings
        if not setting.is_converged
    ]
    return (f"Runs that have not converged ({CONVERGED}): {'; '.join(found)}.",) if found else ()


def trend(families: Iterable[Sequence[SettingRuns]], column: str) -> str:
    """``rises`` or ``falls`` where a column does so from the first to the last setting of all families; or nothing."""
    found = {family[-1].mean(column) > family[0].mean(column) for family in families}
    return ("rises" if found.pop() else "falls") if len(found) == 1 else ""


def listed(parts: Sequence[str]) -> str:
    """``a, b and c``"""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))
