"""Two chains on mini-batches of two points, and the exact answer: the example of the start page."""

import numpy as np

from pbnn_bench import gaussian_posterior, prepare, sample

problem = prepare("linear", seed=0)  # 100 points around a line
exact = gaussian_posterior(problem, weight=problem.num_points)  # its posterior, in closed form
settings = {"batch_size": 2, "num_batches": 10, "weight": "data", "step_size": 2e-4, "preconditioner": "none"}
for method in ("naive", "pbnn"):
    draws = sample(problem, method, settings).draws.positions  # (chains, draws, parameters)
    print(method, draws.std(axis=(0, 1)) / np.sqrt(np.diag(exact.covariance)))  # 1 is right
