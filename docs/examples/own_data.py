"""Your own arrays: does a chain on mini-batches of 50 find what one on all data finds?"""

import numpy as np
from sklearn.datasets import load_breast_cancer

from implementations.sampling import sample
from implementations.tasks import at_mode
from implementations.tasks.problem import Problem

inputs, targets = load_breast_cancer(return_X_y=True)
inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
features = np.column_stack([np.ones(len(inputs)), inputs[:, :10]]).astype(np.float32)
problem = at_mode(Problem.of(features, targets, likelihood="bernoulli"))

draws = {}
for method, given in {"tempered": {}, "pbnn": {"num_batches": 2}}.items():  # both with the weight w = n = 50
    sampled = sample(problem, method, {"batch_size": 50, **given}, backend="jax-cpu", seed=0)
    draws[method] = sampled.draws.positions  # (chains, draws, parameters)
    print(method, sampled.progress.num_likelihoods, draws[method].mean(axis=(0, 1))[:4])
