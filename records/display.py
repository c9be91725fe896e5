"""How settings and numbers are written, the same in figures, tables, captions, MLflow and logs."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from metrics.seeds import Estimate
from records.layout import plain
from records.methods import facts_of
from records.setting_runs import SettingRuns, VariantName, own_departures

#: Settings by the letters of the paper.
SYMBOLS = {"batch_size": "n", "num_batches": "M", "step_size": "η"}
WEIGHTS = {"data": "N", "batch": "n"}
VARIANCES = {
    "oracle": "σ² known",
    "points": "σ² from points",
    "points_infinite": "σ² from points, infinite population",
    "single": "σ² for one batch",
    "single_finite": "σ² for one batch, finite population",
    "literal": "σ² to the letter",
    "batches": "σ² from batches",
    "batches_finite": "σ² from batches, finite population",
}
PRECONDITIONERS = {"none": "C=I", "diagonal": "C diagonal", "full": "C full"}
#: Settings that only some methods have, by symbols or in words; those of somebody's own method stay as they are.
OWN = {
    "num_leapfrog": "L={}",
    "target_acceptance": "acceptance {} wanted",
    "friction": "α={}",
    "epsilon": "ε={}",
    "delta": "δ={}",
    "chi": "χ={}",
    "num_cycles": "{} cycles",
    "explored": "{} of a cycle dropped",
}
#: The same, where a value is a word of its own.
CHOICES = {
    ("proxy", "none"): "no proxy",
    ("proxy", "first"): "first-order proxy",
    ("proxy", "second"): "second-order proxy",
    ("proxy", "averaged"): "averaged proxy",
    ("selection", "uniform"): "uniform points",
    ("selection", "leverage"): "points by leverage",
    ("gradient", "batch"): "mini-batch gradient",
    ("gradient", "proxy"): "proxy gradient",
}
#: Settings that a name leaves out as long as no other setting has the same name.
LENGTHS = {
    "num_steps": "steps",
    "num_warmup": "warm-up steps",
    "thin": "steps per draw",
    "chains": "chains",
    "dtype": "",
}
#: Departures of a task from its usual form, in words and in their order.
DEPARTURES: dict[str, Callable[[Any], str]] = {
    "stochastic": lambda value: f"{value} layers",
    "prior": lambda value: f"{value.capitalize()} prior",
    "prior_scale": lambda value: f"prior sd {plain(value)}",
    "num_points": lambda value: f"N = {value:,}",
    "num_epochs": lambda value: f"{value} epochs",
    "fresh_points": lambda value: "fresh points",
}
#: A number this close to 0 is what rounding left of it.
ROUNDING = 1e-12


def method_name(method: str) -> str:
    """What readers call a method."""
    return facts_of(method).label


def task_name(where: SettingRuns | str) -> str:
    """``linear (N = 10,000)`` for a variant, or for a setting on it; other text stays as it is."""
    variant: str = where if isinstance(where, str) else where["variant"]
    if not isinstance(variant, VariantName):
        return variant
    words = [word(variant.departures[name]) for name, word in DEPARTURES.items() if name in variant.departures]
    return f"{variant.task} ({', '.join(words)})" if words else variant.task


def format_settings(setting: SettingRuns, *without: str) -> str:
    """``n=5, M=5, η=0.034``, and what departs from the method's defaults."""
    usual = {name: one.default for name, one in facts_of(setting["method"]).settings.items()}
    parts = {name: format_setting(setting, name) for name in SYMBOLS if setting[name] is not None}
    if setting["weight"] != usual.get("weight"):
        parts["weight"] = f"w={WEIGHTS.get(setting['weight']) or format_given(float(setting['weight']))}"
    if setting["variance"] != usual.get("variance"):
        # A method of somebody else may have estimators of its own.
        parts["variance"] = VARIANCES.get(setting["variance"], f"variance={setting['variance']}")
    if setting["preconditioner"] != "full":
        parts["preconditioner"] = PRECONDITIONERS[setting["preconditioner"]]
    if own := own_departures(setting):
        parts["own_settings"] = ", ".join(map(_own_text, own))
    if setting["decay"]:
        parts["decay"] = f"γ={format_given(setting['decay'])}"
    return ", ".join(text for name, text in parts.items() if name not in without)


def _own_text(pair: tuple[str, Any]) -> str:
    """``L=64`` for ``num_leapfrog`` of 64"""
    name, value = pair
    return CHOICES.get(pair) or OWN.get(name, f"{name}={{}}").format(plain(value))


def format_rounded(value: float, digits: int = 2) -> str:
    """A number in a sentence: no more than these digits, ``5,500`` for 5,476."""
    if not value or not math.isfinite(value):
        return format_number(value, digits)
    return format_number(round(value, digits - 1 - math.floor(math.log10(abs(value)))), digits)


def format_setting(setting: SettingRuns, name: str) -> str:
    """``n=5``"""
    return f"{SYMBOLS[name]}={format_given(setting[name], 2)}"


def format_given(value: float, digits: int = 6) -> str:
    """A number that somebody chose: without the zeros that say how exact a measured one is."""
    text = format_number(value, digits)
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text


def format_name(setting: SettingRuns, *without: str) -> str:
    """``PBNN n=5, M=5, η=0.034``"""
    return f"{method_name(setting['method'])} {format_settings(setting, *without)}".rstrip()


def distinct_settings(settings: Iterable[SettingRuns]) -> dict[SettingRuns, str]:
    """``format_settings`` of each, with the lengths of its chains where two of a study would be alike."""
    alike: dict[tuple[str, ...], list[SettingRuns]] = defaultdict(list)
    for setting in settings:
        alike[setting["variant"], setting["method"], setting["backend"], format_settings(setting)].append(setting)
    found = {}
    for (*_, text), members in alike.items():
        differing = [name for name in LENGTHS if len({one[name] for one in members}) > 1]
        for one in members:
            lengths = [f"{format_number(one[name])} {LENGTHS[name]}".rstrip() for name in differing]
            found[one] = ", ".join(filter(None, [text, *lengths]))
    return found


def setting_names(settings: Iterable[SettingRuns]) -> dict[SettingRuns, str]:
    """``mnist (N = 10,000) · PBNN n=5, M=5, η=0.034 · jax-cpu``: no two of them alike."""
    texts = distinct_settings(settings)
    return {
        one: " · ".join([task_name(one), f"{method_name(one['method'])} {text}".rstrip(), one["backend"]])
        for one, text in texts.items()
    }


def run_names(settings: Iterable[SettingRuns]) -> dict[str, str]:
    """The name of every run, by its path: that of its setting, and the seed."""
    names = setting_names(settings)
    return {row["run"]: f"{name} · seed {row['seed']}" for setting, name in names.items() for row in setting.rows}


def format_value(setting: SettingRuns, column: str) -> str:
    """A column of a setting over its seeds: ``1.02 [0.98, 1.06]``."""
    return format_estimate(setting.estimate(column))


def format_estimate(value: Estimate) -> str:
    """``1.85 [1.71, 1.99]``; a single seed has no interval."""
    mean, interval = estimate_parts(value)
    return f"{mean} {interval or f'({value.num_seeds} seed)'}" if value.mean is not None else "no value"


def estimate_parts(value: Estimate) -> tuple[str, str]:
    """The mean and ``[low, high]``, which is empty without an interval, to the digits that its width deserves."""
    if value.mean is None or value.low is None or value.high is None:
        return format_number(value.mean), ""
    ends = (value.low, value.high)
    width = value.high - value.low
    if width <= ROUNDING * max(1.0, abs(value.mean)):
        return format_number(value.mean), "[{}, {}]".format(*map(format_number, ends))
    decimals = 1 - math.floor(math.log10(width))
    mean, low, high = (_fixed(number, decimals) for number in (value.mean, *ends))
    return mean, f"[{low}, {high}]"


def _fixed(number: float, decimals: int) -> str:
    """So many decimals, fewer than none of a large number; two digits where these would leave less of it."""
    text = f"{round(number, decimals):,.{max(0, decimals)}f}"
    is_lost = decimals > 6 or not any(digit in text for digit in "123456789")
    if is_lost or (decimals < 0 and abs(number) < 10.0 ** (1 - decimals)):
        return format_rounded(number)
    return _with_minus(text)


def format_number(value: Any, digits: int = 3) -> str:
    """So many significant digits, or all of a count: ``0.0123``, ``1,234``, ``1.2e−5``; a dash for none."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return _with_minus(f"{value:,}")
    if value is None or math.isnan(value):
        return "–"
    value = float(value)
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) < ROUNDING:
        return "0"
    if abs(value) < 1e-4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        return _with_minus(f"{mantissa}e{int(exponent)}")
    if abs(value) >= 10**digits:
        return _with_minus(f"{value:,.0f}")
    # Rounded first: 0.9996 to three digits is 1.00, not 1.000.
    value = round(value, digits - 1 - math.floor(math.log10(abs(value))))
    return _with_minus(f"{value:,.{max(0, digits - 1 - math.floor(math.log10(abs(value))))}f}")


def _with_minus(text: str) -> str:
    return text.replace("-", "−")
