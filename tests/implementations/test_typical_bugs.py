"""Each method's moments are right, and with its own typical bug planted the same check fails."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
import pytest

from implementations.backends import ModelTarget
from implementations.backends.jax.chain import loop_of
from implementations.kernels import metropolis, poisson
from implementations.methods import METHODS, austerity
from implementations.tasks.problem import Problem
from tests.implementations.chains import MANY, moments
from tests.implementations.test_rivals import run_in_posterior

#: Deviations beyond this many Monte Carlo errors fail; the seeds are fixed. Beside them biased methods may be off by a
#: share of what a bug would do.
NUM_ERRORS, ALLOWED = 4, 0.03

SHORT = MANY | {"num_steps": 500, "num_warmup": 200}

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def compiled_afresh():
    """What is broken on purpose must be compiled, and must not outlive its test."""
    loop_of.cache_clear()
    yield
    loop_of.cache_clear()


def with_noise(method: str, change: Callable[[Any], Any]) -> Plant:
    """The method with other random numbers in its steps."""

    def plant(patch):
        card = METHODS[method]

        def kernel(target, shapes):
            right = card.kernel(target, shapes)
            return right._replace(noise=lambda *given: change(right.noise(*given)))

        patch.setitem(METHODS, method, replace(card, kernel=kernel))

    return plant


def without_root_two(method: str) -> Plant:
    def change(noise):
        smaller = {name: getattr(noise, name) / jnp.sqrt(2) for name in ("moves", "normals") if hasattr(noise, name)}
        return noise._replace(**smaller)

    return with_noise(method, change)


def with_one_batch(method: str) -> Plant:
    """The gradient of the same points at every step."""

    def change(noise):
        name = "indices" if method.endswith("sghmc") else "gradient_indices"
        indices = getattr(noise, name)
        return noise._replace(**{name: jnp.broadcast_to(jnp.arange(indices.shape[-1]), indices.shape)})

    return with_noise(method, change)


def patched(owner: Any, name: str, change: Callable[[Any], Any]) -> Plant:
    """An attribute or entry in place of the right one."""

    def plant(patch):
        if isinstance(owner, dict):
            patch.setitem(owner, name, change(owner[name]))
        else:
            patch.setattr(owner, name, change(getattr(owner, name)))

    return plant


def of_half_the_data(right):
    """The factor N / n of a gradient, lost in part."""
    return lambda self, position, data, weight: right(self, position, data, weight / 2)


def too_sure(patch):
    """The error of a mean divided by the number of points once more."""
    card = METHODS["austerity"]

    def rule(seen, *given):
        return austerity.enough(seen._replace(variance=seen.variance / seen.count), *given)

    patch.setitem(METHODS, "austerity", replace(card, kernel=replace(card.kernel, rule=rule)))


class Case(NamedTuple):
    method: str
    given: dict[str, Any]
    bugs: dict[str, Plant]


GRADIENT = {"batch_size": 50, "step_size": 0.04, "weight": "data"}
CASES = [
    Case("full_mh", {}, {
        "half the difference": patched(metropolis.ACCEPTANCES, "exact", lambda _: lambda delta, *_: -delta / 2),
    }),
    Case("ula", {"step_size": 0.04}, {
        "no root of 2": without_root_two("ula"),
        "half the gradient": patched(ModelTarget, "losses_and_gradient", of_half_the_data),
    }),
    Case("sgld", GRADIENT, {
        "no root of 2": without_root_two("sgld"),
        "half of N / n": patched(ModelTarget, "losses_and_gradient", of_half_the_data),
        "one batch": with_one_batch("sgld"),
    }),
    Case("sghmc", GRADIENT | {"step_size": 0.01}, {
        "no root of 2": without_root_two("sghmc"),
        "half of N / n": patched(ModelTarget, "losses_and_gradient", of_half_the_data),
        "one batch": with_one_batch("sghmc"),
    }),
    Case("sgld_cv", GRADIENT, {
        "no root of 2": without_root_two("sgld_cv"),
        "half the gradient": patched(ModelTarget, "anchored_gradient", lambda right: lambda *given: right(*given) / 2),
    }),
    Case("csgld", GRADIENT | {"num_cycles": 2}, {
        "no root of 2": without_root_two("csgld"),
        "one batch": with_one_batch("csgld"),
    }),
    Case("csghmc", GRADIENT | {"step_size": 0.01, "num_cycles": 2}, {
        "no root of 2": without_root_two("csghmc"),
        "one batch": with_one_batch("csghmc"),
    }),
    Case("pbnn_cn", {"batch_size": 10, "step_size": 0.1}, {
        "no ratio": patched(metropolis, "crank_nicolson_log_ratio", lambda right: lambda *given: 0 * right(*given)),
        "half the ratio": patched(
            metropolis, "crank_nicolson_log_ratio", lambda right: lambda *given: right(*given) / 2
        ),
    }),
    Case("pbnn_mala_cv", {"batch_size": 10, "step_size": 0.4}, {
        "no ratio": patched(metropolis, "langevin_log_ratio", lambda right: lambda *given: 0 * right(*given)),
        "half the difference": patched(
            metropolis.ACCEPTANCES, "penalty", lambda _: lambda delta, *_: -delta / 2
        ),
    }),
    Case("laplace", {}, {"no root of 2": without_root_two("laplace")}),
    Case("austerity", {"batch_size": 10, "epsilon": 1e-4}, {"too sure": too_sure}),
]  # fmt: skip


def is_right(problem: Problem, case: Case) -> bool:
    found = moments(problem("linear"), case.method, "jax-cpu", **SHORT | case.given)
    # The check means something only when it is sharp.
    assert found.sd_ratio_error < 0.04
    return (
        abs(found.sd_ratio - 1) < ALLOWED + NUM_ERRORS * found.sd_ratio_error
        and found.mean_error < ALLOWED + NUM_ERRORS * found.mean_error_error
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.method)
def test_the_moments_are_right_and_with_a_typical_bug_they_are_not(problem, case, monkeypatch):
    assert is_right(problem, case)
    for name, plant in case.bugs.items():
        with monkeypatch.context() as patch:
            plant(patch)
            loop_of.cache_clear()
            assert not is_right(problem, case), name


class NoPrior(poisson.Losses):
    """As if only the points were weighed."""

    def known_drop(self, *given):
        return 0 * super().known_drop(*given)


class Half(poisson.Losses):
    """As if a point's loss changed by half of what it does."""

    def differences_of(self, *given):
        return super().differences_of(*given) / 2


def at_a_lower_rate(right):
    """Candidates as rare as if the largest bound were a fifth of what it is."""

    def totals(self, *given):
        total, largest = right(self, *given)
        return total, largest / 5

    return totals


@pytest.fixture(scope="module")
def tempered(problem):
    """A logistic regression at w = 5, where the prior says as much as the data, and draws of its target by HMC."""
    from implementations.tasks.references.one_layer import sample as gold_standard

    tall = problem("logistic", num_points=500)
    return tall, gold_standard(tall, 5.0, seed=0, chains=8, num_warmup=200, num_draws=2000).draws.reshape(-1, 8)


@pytest.mark.parametrize(
    ("bug", "plant"),
    [
        (None, None),
        ("no prior", patched(poisson, "Losses", lambda _: NoPrior)),
        ("half the difference", patched(poisson, "Losses", lambda _: Half)),
        ("too low a rate", patched(ModelTarget, "bound_totals", at_a_lower_rate)),
    ],
    ids=lambda part: str(part) if isinstance(part, str | None) else "",
)
def test_tunamh_keeps_its_target_and_without_a_part_of_it_does_not(tempered, monkeypatch, bug, plant):
    if plant:
        plant(monkeypatch)
    given = {"weight": 5, "chi": 0.05, "step_size": 0.2}
    _, mean, variance = run_in_posterior(tempered, "tunamh", "jax-cpu", is_audited=False, **given)
    assert (mean < NUM_ERRORS and variance < NUM_ERRORS) == (bug is None), (bug, mean, variance)
