"""The exact tier: what a step evaluates, and what both backends decide when fed with numpy's random numbers."""

from dataclasses import replace

import numpy as np

from benchmarks.known_problems import known_problem
from benchmarks.rows import Rows, incomplete


def measure() -> Rows:
    """Evaluations of single points in a step, counted, and decisions and last positions on explicit noise."""
    from benchmarks.explicit_noise import METROPOLIS, make_settings, run_jax, run_torch
    from benchmarks.work import synthetic
    from implementations.tasks.geometry import preconditioner_factor, start_points

    rows = {}
    for problem in (known_problem("linear"), known_problem("two_classes"), synthetic("regression")):
        # Two classes have no mini-batches of their own.
        like = replace(problem, task="linear") if problem.task == "two_classes" else problem
        for method in METROPOLIS:
            settings = make_settings(like, method)
            weight = settings.target_weight(problem.num_points)
            factor = preconditioner_factor(problem, weight, settings.preconditioner)
            start = start_points(problem, weight, settings.chains, 0).astype(float)
            for backend, run in (("jax-cpu", run_jax), ("torch-cpu", run_torch)):
                steps = run(problem, method, settings, start, factor)
                losses, gradients = steps.evaluated
                rows[f"{problem.task} {method} {backend}"] = {
                    "losses": losses,
                    "gradients": gradients,
                    "decisions": ["".join("-+"[int(decision)] for decision in chain) for chain in steps.accepted.T],
                    "position": [float(f"{number:.12g}") for number in steps.positions[-1, :, 0]],
                }
    return rows


def judge(rows: Rows, baseline: Rows) -> list[str]:
    complaints = incomplete(rows, baseline)
    for name, row in rows.items():
        for key in (key for key in row if key in baseline[name]):
            value, expected = row[key], baseline[name][key]
            if key == "position":
                is_same = len(value) == len(expected) and np.allclose(value, expected, rtol=1e-6, atol=1e-9)
                # Infinities are close to each other.
                is_same = is_same and np.isfinite(value).all()
            else:
                is_same = value == expected
            if not is_same:
                complaints.append(f"{name}: {key} {value}, baseline {expected}")
    return complaints
