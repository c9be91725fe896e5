"""Looks at a study that goes on until it is decided: when, and at which level, so that looking often costs nothing.

A claim that is looked at K times, and decided at the first look that allows it, has K chances to be wrong. Every look
therefore gets a K-th of the error rate (the union bound): whatever the looks have in common, all together are wrong
at most as often as one interval is.
"""


def looks(start: int, at_most: int) -> tuple[int, ...]:
    """Numbers of seeds at which a study is looked at: ``start``, doubled until ``at_most``, which is the last."""
    if not 2 <= start <= at_most:
        raise ValueError(f"looks from {start} seeds to {at_most}: expected at least 2, and no fewer at the end")
    found = [start]
    while found[-1] < at_most:
        found.append(min(2 * found[-1], at_most))
    return tuple(found)


def next_look(num_seeds: int, start: int, at_most: int) -> int | None:
    """Seeds to have at the next look, after one at ``num_seeds``; None after the last."""
    return next((count for count in looks(start, at_most) if count > num_seeds), None)
