"""The likelihoods, by name: each a record of all that depends on it (implementations.tasks.likelihoods.record).

    gaussian      l = (y - f)^2 / (2 sigma^2)        known noise_sd = sigma
    categorical   l = log sum_k exp(f_k) - f_y       softmax over the outputs, y a class number
    bernoulli     l = log(1 + exp(f)) - y f          one output, the log odds of y = 1 against y = 0
    poisson       l = exp(f) - y f                   one output, the logarithm of the rate of a count y
    density       l = log mean_g exp(f_g) - f        no target: f is the log density, f_g its values on a grid

Each is defined in NumPy, for mode and curvature, and again for the samplers, where a library has faster forms. The
gold standard and the NumPy reference have their own lines for the same formulas: what judges and what is judged share
no code.
"""

from collections.abc import Mapping

from implementations.infrastructure.errors import SettingError, unknown
from implementations.tasks.likelihoods.classes import BERNOULLI, CATEGORICAL
from implementations.tasks.likelihoods.density import DENSITY
from implementations.tasks.likelihoods.gaussian import GAUSSIAN
from implementations.tasks.likelihoods.poisson import POISSON
from implementations.tasks.likelihoods.record import Functions, Likelihood

__all__ = ["LIKELIHOODS", "SUPERVISED", "Functions", "Likelihood", "find_likelihood"]

LIKELIHOODS: Mapping[str, Likelihood] = {
    record.name: record for record in (GAUSSIAN, CATEGORICAL, BERNOULLI, POISSON, DENSITY)
}
#: Those with targets.
SUPERVISED = tuple(name for name, record in LIKELIHOODS.items() if not record.is_normalised)


def find_likelihood(name: str) -> Likelihood:
    if name not in LIKELIHOODS:
        raise SettingError(unknown("likelihood", name, LIKELIHOODS))
    return LIKELIHOODS[name]
