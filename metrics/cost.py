"""What an effective draw costs. To be read beside fidelity: a biased chain can have excellent ESS."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Efficiency:
    """None where the effective sample size is undefined, or where the method makes no such evaluations."""

    ess_per_second: float | None
    ess_per_million_likelihoods: float | None
    ess_per_million_gradients: float | None
    #: Work of a step as a share of one pass over the data: evaluations per step and data point.
    data_fraction: float


def efficiency(
    ess: float | None, seconds: float, num_likelihoods: int, num_gradients: int, num_steps: int, num_points: int
) -> Efficiency:
    """Efficiency of a run: counts and ``ess`` are totals over its chains, ``seconds`` the sampling time of them all.

    Evaluations count single data points: a step of full_mh makes N likelihood evaluations (data fraction 1), a step of
    pbnn 2 n M, at the current and at the proposed parameters.
    """
    if not seconds > 0:
        raise ValueError(f"seconds = {seconds}: expected the positive sampling time of a finished run")
    if num_steps < 1 or num_points < 1 or num_likelihoods < 0 or num_gradients < 0:
        raise ValueError(
            f"num_steps = {num_steps}, num_points = {num_points}, num_likelihoods = {num_likelihoods}, "
            f"num_gradients = {num_gradients}: expected at least 1, 1, 0, 0"
        )
    return Efficiency(
        ess_per_second=_ratio(ess, seconds),
        ess_per_million_likelihoods=_ratio(ess, num_likelihoods / 1e6),
        ess_per_million_gradients=_ratio(ess, num_gradients / 1e6),
        data_fraction=(num_likelihoods + num_gradients) / (num_steps * num_points),
    )


def _ratio(ess: float | None, cost: float) -> float | None:
    return None if ess is None or cost == 0 else ess / cost
