"""Training of a task's network in torch."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from implementations.backends.torch.likelihood import FUNCTIONS
from implementations.tasks.activations import find_activation
from implementations.tasks.likelihoods import find_likelihood, normaliser
from implementations.tasks.likelihoods.density import midpoints
from implementations.tasks.task import Points, Task, Training


def train_network(
    task: Task, points: Points, seed: int, *, prior: str, prior_scale: float, progress: bool = True
) -> tuple[np.ndarray, ...]:
    """The trained weight matrices, first to last, in the layout of ``problem``.

    Adam on the negative log posterior of all layers (paper: *BNN loss*), divided by N so that one learning rate
    serves every size of data; a mini-batch stands in for the sum over the data where the task asks for one.
    """
    training = task.training
    assert training is not None, f"{task.name} has no network"
    with _one_thread():
        random = torch.Generator().manual_seed(seed)
        weights = _initial_weights(task, training, random, seed)
        inputs, targets = torch.from_numpy(points.inputs), torch.from_numpy(points.targets)
        grid = None if task.support is None else torch.from_numpy(midpoints(task.support))
        adam = Adam(weights, training.learning_rate)
        for _ in _shown(training.num_epochs, f"training the network of {task.name}, seed {seed}", progress):
            for batch in _batches(len(inputs), training.batch_size, random):
                loss = _point_losses(task, _outputs(task, weights, inputs[batch]), targets[batch]).mean()
                if grid is not None:
                    loss = loss + normaliser.log_mean(_outputs(task, weights, grid)[:, 0])
                loss = loss + _negative_log_prior(weights, prior, prior_scale) / len(inputs)
                adam.step(torch.autograd.grad(loss, weights))
    return tuple(weight.detach().numpy() for weight in weights)


class Adam:
    """Adam (Kingma and Ba, 2015) as torch.optim has it, bit for bit, without the compiler that its import brings along:
    that takes as long as training a small network.

        m = b1 m + (1 - b1) g,   v = b2 v + (1 - b2) g^2
        w = w - rate / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)
    """

    FIRST, SECOND, EPSILON = 0.9, 0.999, 1e-8

    def __init__(self, weights: list[Tensor], rate: float) -> None:
        self.weights, self.rate, self.num_steps = weights, rate, 0
        self.means = [torch.zeros_like(weight) for weight in weights]
        self.squares = [torch.zeros_like(weight) for weight in weights]

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor]) -> None:
        self.num_steps += 1
        rate = self.rate / (1 - self.FIRST**self.num_steps)
        root = (1 - self.SECOND**self.num_steps) ** 0.5
        for weight, gradient, mean, square in zip(self.weights, gradients, self.means, self.squares, strict=True):
            mean.lerp_(gradient, 1 - self.FIRST)
            square.mul_(self.SECOND).addcmul_(gradient, gradient, value=1 - self.SECOND)
            weight.addcdiv_(mean, (square.sqrt() / root).add_(self.EPSILON), value=-rate)


def _initial_weights(task: Task, training: Training, random: torch.Generator, seed: int) -> list[Tensor]:
    """Of each layer; of a network of the task's own one vector, from where that says."""
    if task.network:
        return [torch.from_numpy(task.network.start(seed)).requires_grad_()]
    weights = []
    for number, (rows, columns) in enumerate(task.layers):
        weight = torch.randn(rows, columns, generator=random)
        if number == 0:
            weight[0] *= training.bias_sd
            weight[1:] *= training.weight_sd
        else:
            weight *= find_activation(task.activation).gain
            weight /= (rows - 1) ** 0.5
        weights.append(weight.requires_grad_())
    return weights


def _outputs(task: Task, weights: list[Tensor], inputs: Tensor) -> Tensor:
    if task.network:
        outputs: Tensor = task.network(weights[0], torch.cat([torch.ones_like(inputs[:, :1]), inputs], dim=1))
        return outputs
    *hidden_weights, last = weights
    for weight in hidden_weights:
        inputs = find_activation(task.activation).values(weight[0] + inputs @ weight[1:])
    return last[0] + inputs @ last[1:]


def _point_losses(task: Task, outputs: Tensor, targets: Tensor) -> Tensor:
    """-log p(y_j | x_j, theta), up to a constant."""
    own_form = OWN_FORMS.get(task.likelihood)
    if own_form is not None:
        return own_form(outputs, targets, task.noise_sd)
    losses: Tensor = find_likelihood(task.likelihood).losses(outputs.mT, targets, task.noise_sd, FUNCTIONS)
    return losses


#: Two losses as the networks of the results on file were trained on them: other forms differ in the last digits.
OWN_FORMS: dict[str, Callable[[Tensor, Tensor, float], Tensor]] = {
    "categorical": lambda outputs, targets, _: functional.cross_entropy(outputs, targets.long(), reduction="none"),
    "gaussian": lambda outputs, targets, noise_sd: (outputs[:, 0] - targets).square() / (2 * noise_sd**2),
}


def _negative_log_prior(weights: list[Tensor], prior: str, prior_scale: float) -> Tensor:
    """-log p(theta), up to a constant; Adam follows the subgradient 0 of |theta| at 0."""
    if prior == "laplace":
        return sum((weight.abs().sum() for weight in weights), torch.zeros(())) / prior_scale
    return sum((weight.square().sum() for weight in weights), torch.zeros(())) / (2 * prior_scale**2)


def _batches(num_points: int, batch_size: int | None, random: torch.Generator) -> Iterator[slice | Tensor]:
    """The index sets of one epoch; a slice of everything needs no copy."""
    if batch_size is None:
        yield slice(None)
    else:
        yield from torch.randperm(num_points, generator=random).split(batch_size)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums split over threads depend on how many there are; one thread gives one answer everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _shown(total: int, label: str, progress: bool) -> Iterator[int]:
    """range(total) with a bar on a terminal, and in a log file a line at each tenth."""
    if not progress:
        yield from range(total)
    elif sys.stderr.isatty():
        yield from tqdm(range(total), desc=label)
    else:
        for number in range(total):
            yield number
            if (number + 1) * 10 // total > number * 10 // total:
                print(f"{label}: {number + 1} of {total} epochs", file=sys.stderr, flush=True)
