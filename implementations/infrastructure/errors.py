"""Mistakes of the person who typed: one line that names the thing, and the nearest valid name."""

import difflib
from collections.abc import Iterable


class SettingError(ValueError):
    """A setting, name or combination that cannot be run; its text is meant for the person who typed it."""


def unknown(kind: str, name: object, valid: Iterable[str]) -> str:
    """``no method 'pbn'; did you mean 'pbnn'?``, or the whole list where nothing is near."""
    names = list(valid)
    # A little stricter than difflib's 0.6, at which 'step_size' passes for a mistyped 'batch_size'.
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.7)
    hint = f"did you mean {near[0]!r}?" if near else f"valid: {', '.join(names)}"
    return f"no {kind} {name!r}; {hint}"
