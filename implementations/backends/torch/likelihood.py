"""Per-point losses, the prior, and the gradient of the target.

Network outputs are laid out (…, outputs, points): the reductions over ten classes then run along whole vectors
of points, more than twice as fast on a CPU as the other way round.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from implementations.control_variates import proxies
from implementations.kernels.contract import Data
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import Functions, find_likelihood, normaliser
from implementations.tasks.problem import Layers, Model, split_parameters


def network_outputs(position: Tensor, features: Tensor, layers: Layers, activation: str = "tanh") -> Tensor:
    """f of parameter vectors (…, P) at features (…, n, inputs + 1): (…, outputs, n)."""
    first, *others = split_parameters(position, layers)
    hidden = torch.einsum("...fk,...nf->...kn", first, features)
    for matrix in others:
        bias, weights = matrix[..., 0, :, None], matrix[..., 1:, :]
        hidden = bias + torch.einsum("...fk,...fn->...kn", weights, find_activation(activation).values(hidden))
    return hidden


def model_outputs(position: Tensor, features: Tensor, model: Model) -> Tensor:
    """The same of any model."""
    if model.network:
        outputs: Tensor = model.network(position, features).swapaxes(-1, -2)
        return outputs
    return network_outputs(position, features, model.layers, model.activation)


def point_losses(position: Tensor, data: Data, model: Model) -> Tensor:
    """l_j = -log p(y_j | x_j, theta) up to a constant, for every point: (…, n)."""
    outputs = model_outputs(position, data.features, model)
    losses: Tensor = find_likelihood(model.likelihood).losses(outputs, data.targets, model.noise_sd, FUNCTIONS)
    return losses if model.grid is None else losses + normaliser.log_mean(grid_outputs(position, model))[..., None]


def grid_outputs(position: Tensor, model: Model) -> Tensor:
    """f (…, G) on the grid of a density, at parameter vectors (…, P)."""
    assert model.grid is not None
    return model_outputs(position, model.grid.like(position), model)[..., 0, :]


def _cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    classes = targets[..., None, :].long().expand(*outputs.shape[:-2], 1, -1)
    return outputs.logsumexp(dim=-2) - outputs.gather(-2, classes).squeeze(-2)


FUNCTIONS = Functions(_cross_entropy, torch.nn.functional.logsigmoid)


def remainders(offset: Tensor, data: Data, model: Model, order: str) -> Tensor:
    """What control variates leave of the losses (…, n), at an offset (…, P) from their anchor."""
    moves = network_outputs(offset, data.features, model.layers)
    left: Tensor = proxies.remainders(moves, data.at_anchor, model, order)
    return left


def log_prior(position: Tensor, model: Model) -> Tensor:
    """log p(theta) up to a constant: Gaussian (L2) or Laplace (L1)."""
    if model.prior == "gaussian":
        return -0.5 * ((position / model.prior_scale) ** 2).sum(dim=-1)
    return -(position.abs() / model.prior_scale).sum(dim=-1)


def losses_and_gradient(position: Tensor, data: Data, weight: Tensor | float, model: Model) -> tuple[Tensor, Tensor]:
    """The losses (chains, n), and the gradient (chains, P) of -log p(theta) + (w / n) sum_j l_j over these n points."""
    with torch.enable_grad():
        position = position.detach().requires_grad_()
        losses = point_losses(position, data, model)
        potential = (weight * losses.mean(dim=-1) - log_prior(position, model)).sum()
        (gradient,) = torch.autograd.grad(potential, position)
    return losses.detach(), gradient


def gradient_of(function: Callable[[Tensor], Tensor], position: Tensor) -> Tensor:
    """Gradient (…, P) of the sum of a function's values."""
    with torch.enable_grad():
        position = position.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(function(position).sum(), position)
    return gradient
