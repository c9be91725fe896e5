"""The findings of a study: Markdown that people write, with numbers filled in from the study's summary.

``reports/findings/<study>.md`` begins with YAML between two lines ``---``:

- ``runs`` selects settings by values of their columns. ``where`` keeps those whose columns satisfy a Python expression,
  ``least`` and ``most`` keep the one with the smallest or largest mean of a column, and ``each`` selects one per value
  of these columns. A setting needs a converged run, or with ``converged: false`` only one that ended well.
- ``numbers`` takes a ``column`` ``of`` such runs: its mean over seeds, its paired ratio ``over`` or paired difference
  ``minus`` other runs, or the exponent with which it ``grows_with`` another column. A number given as text is a Python
  expression over the numbers above it.
- ``readme`` says how many findings, from the first, the README shows too.

Then each finding is a heading and paragraphs. ``{{ number }}`` prints a number, and the comment ``<!-- if ... -->`` at
the end of each paragraph holds a Python expression over the numbers that must hold for the paragraph to be true.
"""

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jinja2 import Environment, StrictUndefined, UndefinedError

from metrics.seeds import Estimate
from records.columns import COLUMNS
from records.display import format_estimate, format_given, format_number, format_rounded
from records.setting_runs import SettingRuns, one_backend
from records.study import StudyResults
from reports.evidence import exponent
from reports.tables import why_not

FOLDER = Path(__file__).with_suffix("")
#: Keys of a selection that are no columns.
OPTIONS = ("where", "least", "most", "each", "converged")
GUARD = re.compile(r"<!-- if ((?:(?!<!--).)+?) -->", re.DOTALL)
#: What Python expressions in findings may call.
FUNCTIONS = {"__builtins__": {one.__name__: one for one in (abs, all, any, len, max, min, sorted, sum, zip)}}
#: What expressions raise where a study does not have the runs behind a number.
ABSENT = (LookupError, NameError, ValueError, ZeroDivisionError, UndefinedError)


class Finding(NamedTuple):
    """A sentence to remember, and the paragraphs that support it, with blank lines between them."""

    headline: str
    text: str


class Checked(NamedTuple):
    """A finding, and the reasons why the study does not support it."""

    finding: Finding
    problems: list[str]
    is_in_readme: bool


class Number(float):
    """The mean of an estimate, with its interval; NaN where there is no value."""

    estimate: Estimate

    @classmethod
    def of(cls, estimate: Estimate) -> "Number":
        number = cls(math.nan if estimate.mean is None else estimate.mean)
        number.estimate = estimate
        return number

    @property
    def low(self) -> float:
        return math.nan if self.estimate.low is None else self.estimate.low

    @property
    def high(self) -> float:
        return math.nan if self.estimate.high is None else self.estimate.high


def findings_of(study: StudyResults) -> list[Finding]:
    """The findings that the numbers of a study support; none for a study without a file of findings."""
    return [one.finding for one in checked_findings(study) if not one.problems]


def main_findings_of(study: StudyResults) -> list[Finding]:
    """Those that the README shows too, with their first paragraphs."""
    found = [one.finding for one in checked_findings(study) if one.is_in_readme and not one.problems]
    return [Finding(headline, text.partition("\n\n")[0]) for headline, text in found]


def checked_findings(study: StudyResults) -> Iterator[Checked]:
    """Every finding in the file of a study."""
    file = FOLDER / f"{study.name}.md"
    if not file.exists():
        return
    _, definitions, body = file.read_text(encoding="utf-8").split("---\n", 2)
    content = yaml.safe_load(definitions)
    numbers = _numbers(study, content["runs"], content["numbers"])
    for place, section in enumerate(body.split("\n## ")[1:]):
        headline, *paragraphs = GUARD.sub("", section).strip().split("\n\n")
        problems, words = [], [headline]
        for guard in GUARD.findall(section):
            expression = " ".join(guard.split())
            try:
                if not eval(expression, FUNCTIONS | numbers):
                    problems.append(f"the numbers contradict: {expression}")
            except ABSENT as error:
                problems.append(f"{error}: {expression}")
        try:
            words = [" ".join(_TEMPLATES.from_string(one).render(numbers).split()) for one in (headline, *paragraphs)]
        except ABSENT as error:
            problems.append(str(error))
        yield Checked(Finding(words[0], "\n\n".join(words[1:])), problems, place < content["readme"])


def _shown(value: Any) -> str:
    """Two significant digits of a mean, and all digits of a count."""
    return format_rounded(value) if isinstance(value, float) else format_number(value)


_TEMPLATES = Environment(undefined=StrictUndefined, finalize=_shown, autoescape=False)
_TEMPLATES.filters |= {
    "digits": lambda value, digits: format_number(float(value), digits),
    "exactly": format_given,
    "interval": lambda value: format_estimate(value.estimate),
}


def _numbers(study: StudyResults, runs: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers by name, without those whose runs the study does not have."""
    selected, numbers = {}, dict[str, Any]()
    for name, wanted in runs.items():
        with suppress(*ABSENT):
            selected[name] = _selected(study, wanted)
    for name, definition in definitions.items():
        with suppress(*ABSENT):
            is_text = isinstance(definition, str)
            numbers[name] = eval(definition, FUNCTIONS | numbers) if is_text else _number(selected, **definition)
    return numbers


def _number(
    selected: Mapping[str, Mapping[Any, SettingRuns]],
    of: str,
    column: str,
    over: str = "",
    minus: str = "",
    grows_with: str = "",
) -> Any:
    """One number, or one for each value of the columns that the runs were selected by."""
    ours, others = selected[of], selected[over or minus or of]
    pairs = [(one, others[key]) for key, one in ours.items() if key in others]
    found: list[Any]
    if grows_with:
        return Number.of(exponent(list(ours.values()), column, grows_with))
    if over:
        found = [Number.of(one.ratio(other, column)) for one, other in pairs]
    elif minus:
        found = [Number.of(one.difference(other, column)) for one, other in pairs]
    else:
        found = [_value(one, column) for one, _ in pairs]
    return tuple(found) if found and list(ours) != [()] else found[0]


def _value(setting: SettingRuns, column: str) -> Any:
    """What the runs of a setting share in a column of text or counts, and the mean of other columns."""
    kind = COLUMNS[column].kind if column in COLUMNS else "number"
    if kind == "number" or len({row[column] for row in setting.ok}) > 1:
        return Number.of(setting.estimate(column))
    return setting[column] if kind == "text" else int(setting[column])


class _Columns(dict[str, Any]):
    """Names in an expression: columns of a setting, its method's own settings, and ``has_small_bias``, as in tables."""

    def __init__(self, setting: SettingRuns) -> None:
        self.setting = setting

    def __missing__(self, name: str) -> Any:
        if name == "has_small_bias":
            return why_not(self.setting) is None
        own = dict(self.setting["own_settings"] or ())
        if name in own:
            return own[name]
        if name not in self.setting.rows[0]:
            raise KeyError(name)
        value = self.setting[name]
        return self.setting.mean(name) if isinstance(value, float) else value


def _selected(study: StudyResults, wanted: Mapping[str, Any]) -> dict[tuple[Any, ...], SettingRuns]:
    """The selected setting for each value of the columns ``each``; () is the key where there are no such columns."""
    options = {name: wanted.get(name) for name in OPTIONS}
    condition, extreme = options["where"] or "True", options["least"] or options["most"]
    found: dict[tuple[Any, ...], list[SettingRuns]] = {}
    columns = {name: value for name, value in wanted.items() if name not in OPTIONS}
    for one in sorted(one_backend(study.settings(**columns)), key=lambda one: (one["variant"], one["label"])):
        is_evidence = one.ok if options["converged"] is False else one.converged
        if is_evidence and eval(condition, FUNCTIONS, _Columns(one)):
            found.setdefault(tuple(one[name] for name in options["each"] or ()), []).append(one)
    if extreme:
        sign = 1 if options["least"] else -1
        found = {key: [min(group, key=lambda one: sign * one.mean(extreme))] for key, group in found.items()}
    if ambiguous := [one["label"] for group in found.values() for one in group[1:]]:
        raise ValueError(f"{dict(wanted)} selects several: {', '.join(ambiguous)}")
    ordered = sorted(found, key=lambda key: [(value is not None, value) for value in key])
    return {key: found[key][0] for key in ordered}
