"""MNIST behind a convolutional network: the worked example of a network that is not the suite's own.

Two convolutions and a layer of 20 tanh are trained in torch as anybody would train them; then their 20 activations are
the features, and the last layer, 21 x 10 as on ``mnist``, is stochastic.
"""

from typing import TYPE_CHECKING

import numpy as np

from implementations.tasks.data import mnist
from implementations.tasks.task import Body, Points, Task

if TYPE_CHECKING:
    from torch import nn

NUM_FEATURES, NUM_CLASSES = 20, 10
NUM_EPOCHS, BATCH_SIZE, LEARNING_RATE = 2, 100, 1e-3
#: Images whose features are worked out at once: some 30 MB of activations.
CHUNK = 1000


def features(train: Points, seed: int) -> Body:
    """Train the network on images of 28 x 28 pixels, and cut it before its last layer."""
    import torch
    from torch.nn.functional import cross_entropy

    inputs, classes = torch.from_numpy(train.inputs), torch.from_numpy(train.targets).long()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        body, head = network()
        optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], LEARNING_RATE)
        for _ in range(NUM_EPOCHS):
            for batch in torch.randperm(len(inputs)).split(BATCH_SIZE):
                optimizer.zero_grad()
                cross_entropy(head(body(inputs[batch])), classes[batch]).backward()
                optimizer.step()

    def activations(images: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return torch.cat([body(chunk) for chunk in torch.from_numpy(images).split(CHUNK)]).numpy()

    return activations


def network() -> "tuple[nn.Module, nn.Module]":
    """The body, from rows of 784 pixels to features, and the last layer."""
    from torch import nn

    body = nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 8, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 5, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, NUM_FEATURES),
        nn.Tanh(),
    )
    return body, nn.Linear(NUM_FEATURES, NUM_CLASSES)


TASK = Task(
    name="mnist_conv",
    summary="28 x 28 handwritten digits, two convolutions and 20 tanh before the softmax",
    num_points=mnist.NUM_POINTS,
    layers=((NUM_FEATURES + 1, NUM_CLASSES),),
    likelihood="categorical",
    load=mnist.load,
    fetch=mnist.fetch,
    fetched_bytes=mnist.FETCHED_BYTES,
    features=features,
)
