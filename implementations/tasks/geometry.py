"""Curvature of a problem's target at its MAP: preconditioners and start points."""

from collections.abc import Callable, Iterator

import numpy as np

from implementations.infrastructure.errors import SettingError, unknown
from implementations.settings import MAX_FULL_CURVATURE, PRECONDITIONERS
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.problem import Problem, split_parameters, with_bias

#: Start points are this much wider than the posterior, so that chains which agree have forgotten where they began.
START_SPREAD = 2.0


def prior_precision(problem: Problem) -> float:
    """1 / variance of the prior of one parameter; a Laplace prior has variance 2 b^2."""
    variance = problem.prior_scale**2
    return 1 / (2 * variance if problem.prior == "laplace" else variance)


def target_precision(problem: Problem, weight: float) -> np.ndarray:
    """Curvature of U_w in the Laplace approximation: prior precision + w x curvature; (P, P), or its diagonal (P,)."""
    precision = weight * problem.curvature.astype(np.float64)
    diagonal = precision if precision.ndim == 1 else np.einsum("ii->i", precision)
    diagonal += prior_precision(problem)
    return precision


def preconditioner_factor(problem: Problem, weight: float, kind: str) -> np.ndarray:
    """L of the preconditioner C = L L^T for the target of weight w.

    ``none``: C = I, shape (). ``diagonal``: C = 1 / diag(prior precision + w x curvature), shape (P,).
    ``full``: C = (prior precision + w x curvature)^-1, L lower triangular of shape (P, P).
    """
    if kind not in PRECONDITIONERS:
        raise SettingError(unknown("preconditioner", kind, PRECONDITIONERS))
    if kind == "none":
        return np.ones(())
    precision = target_precision(problem, weight)
    if kind == "diagonal":
        return 1 / np.sqrt(precision if precision.ndim == 1 else precision.diagonal())
    if precision.ndim == 1:
        raise SettingError(
            f"preconditioner = 'full' needs the whole curvature, kept up to {MAX_FULL_CURVATURE} parameters; "
            f"{problem.task!r} with stochastic = {problem.stochastic!r} has {problem.num_parameters}: use 'diagonal'"
        )
    # Turned by 180 degrees, the Cholesky factor of the turned matrix is upper triangular: A = U U^T, so that
    # A^-1 = U^-T U^-1 with U^-T lower triangular. This never squares the condition number as chol(inv(A)) would.
    upper = np.linalg.cholesky(precision[::-1, ::-1])[::-1, ::-1]
    return np.tril(np.linalg.inv(upper).T)


def start_points(problem: Problem, weight: float, chains: int, seed: int, spread: float = START_SPREAD) -> np.ndarray:
    """Where chains begin (chains, P): around the MAP, with twice the sd of the Laplace approximation of weight w."""
    factor = preconditioner_factor(problem, weight, "full" if problem.curvature.ndim == 2 else "diagonal")
    noise = start_normals(problem, chains, seed)
    scaled = noise @ factor.T if factor.ndim == 2 else noise * factor
    return problem.map + spread * scaled


def start_normals(problem: Problem, chains: int, seed: int) -> np.ndarray:
    """The standard normals (chains, P) of the start points."""
    return np.random.default_rng(seed).standard_normal((chains, problem.num_parameters))


def mean_curvature(problem: Problem, parameters: np.ndarray) -> np.ndarray:
    """Mean over the training points of the Gauss-Newton Hessian of the loss, float64; for one layer it is the Hessian.

        G = 1/N sum_j J_j^T H_j J_j,   J_j = df_j / dtheta,   H_j = d^2 l_j / df_j^2 = S_j S_j^T

    (P, P) up to MAX_FULL_CURVATURE parameters, else its diagonal (P,). The rows of S_j^T J_j are outer products of each
    layer's input with the signal that reaches its output, so the block of two layers is one matrix product over j.
    """
    is_full = problem.num_parameters <= MAX_FULL_CURVATURE
    if problem.is_normalised:
        return _normaliser_curvature(problem, parameters.astype(np.float64), is_full)
    if problem.network:
        return _network_curvature(problem, parameters.astype(np.float64), is_full)
    # A quadratic loss keeps to the general sum: its last digits are in the results on file.
    likelihood = find_likelihood(problem.likelihood)
    if problem.num_outputs == 1 and not likelihood.is_quadratic and problem.is_linear and is_full:
        return _one_output_curvature(problem, parameters.astype(np.float64))
    total = np.zeros((problem.num_parameters,) * (2 if is_full else 1))
    # A thousand points at a time keep the products of two layers' inputs below some 50 MB.
    for start in range(0, problem.num_points, 1000):
        features = problem.features[start : start + 1000].astype(np.float64)
        layers = list(_layer_signals(problem, parameters.astype(np.float64), features, likelihood.curvature_root))
        if is_full:
            total += np.block([[_curvature_block(*one, *other) for other in layers] for one in layers])
        else:
            squares = [np.square(hidden).T @ np.square(signals).sum(axis=-1) for hidden, signals in layers]
            total += np.concatenate([square.ravel() for square in squares])
    return total / problem.num_points


def _normaliser_curvature(problem: Problem, parameters: np.ndarray, is_full: bool) -> np.ndarray:
    """Of a density: the covariance of the rows J_g = df_g / dtheta on the grid, each with the share p_g of its cell.

    The points' own losses, -f_j, bend by the network alone, which the Gauss-Newton Hessian leaves out.
    """
    grid = problem.grid.astype(np.float64)
    if problem.network:
        from implementations.tasks import autodiff

        rows = autodiff.jacobian(problem.network, parameters, grid)[1][:, 0]
    else:
        layers = _layer_signals(problem, parameters, grid, lambda outputs, _: np.ones((*outputs.shape, 1)))
        pieces = [np.einsum("nr,nc->nrc", hidden, signals[:, :, 0]) for hidden, signals in layers]
        rows = np.concatenate([piece.reshape(len(grid), -1) for piece in pieces], axis=1)
    shares = normaliser.shares(problem.network_outputs(parameters, grid)[:, 0])
    centred = np.sqrt(shares)[:, None] * (rows - shares @ rows)
    return centred.T @ centred if is_full else np.square(centred).sum(axis=0)


def _network_curvature(problem: Problem, parameters: np.ndarray, is_full: bool) -> np.ndarray:
    """The same sum for anybody's network, whose J is found by automatic differentiation."""
    from implementations.tasks import autodiff

    assert problem.network is not None
    root = find_likelihood(problem.likelihood).curvature_root
    total = np.zeros((problem.num_parameters,) * (2 if is_full else 1))
    for chunk in problem.chunks(max(1, autodiff.MAX_NUMBERS // (problem.num_parameters * problem.num_outputs))):
        features = problem.features[chunk].astype(np.float64)
        outputs, rows = autodiff.jacobian(problem.network, parameters, features)
        signals = np.einsum("ncp,nck->nkp", rows, root(outputs, problem.noise_sd)).reshape(-1, problem.num_parameters)
        total += signals.T @ signals if is_full else np.square(signals).sum(axis=0)
    return total / problem.num_points


def _one_output_curvature(problem: Problem, parameters: np.ndarray) -> np.ndarray:
    """1/N sum_j h_j x_j x_j^T: the same for one layer with one output, five times faster on flights."""
    curvature_root = find_likelihood(problem.likelihood).curvature_root
    total = np.zeros((problem.num_parameters,) * 2)
    for chunk in problem.chunks():
        features = problem.features[chunk].astype(np.float64)
        features *= curvature_root(features @ parameters[:, None], problem.noise_sd)[:, :, 0]
        total += features.T @ features
    return total / problem.num_points


def _curvature_block(
    hidden: np.ndarray, signals: np.ndarray, other_hidden: np.ndarray, other_signals: np.ndarray
) -> np.ndarray:
    """sum_j (h_j h'_j^T) x (s_j s'_j^T) for two layers, as a matrix over their parameters."""
    inputs = np.einsum("nr,ns->nrs", hidden, other_hidden)
    outputs = np.einsum("nck,ndk->ncd", signals, other_signals)
    block = inputs.reshape(len(inputs), -1).T @ outputs.reshape(len(outputs), -1)
    block = block.reshape(*inputs.shape[1:], *outputs.shape[1:]).transpose(0, 2, 1, 3)
    return block.reshape(hidden.shape[1] * signals.shape[1], -1)


def _layer_signals(
    problem: Problem, parameters: np.ndarray, features: np.ndarray, root: Callable[[np.ndarray, float], np.ndarray]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Per layer its input (n, rows) and the signals S^T df/d(its output) (n, columns, outputs), first to last.

    ``root`` gives S of outputs.
    """
    matrices, form = split_parameters(parameters, problem.layers), find_activation(problem.activation)
    hidden = [features]
    for matrix in matrices[:-1]:
        hidden.append(with_bias(form.values(hidden[-1] @ matrix)))
    signals = [root(hidden[-1] @ matrices[-1], problem.noise_sd)]
    for matrix, activations in zip(matrices[:0:-1], hidden[:0:-1], strict=True):
        # Back through the weights (not the bias, whose input is the constant 1) and through the activation.
        slope = form.slopes(activations[:, 1:])
        signals.append(slope[:, :, None] * np.einsum("rc,nck->nrk", matrix[1:], signals[-1]))
    yield from zip(hidden, reversed(signals), strict=True)
