"""Your own arrays: does a chain on mini-batches of 50 find what one on all data finds?"""

from sklearn.datasets import load_breast_cancer

from pbnn_bench import Problem, sample

inputs, targets = load_breast_cancer(return_X_y=True)
problem = Problem.from_features(inputs[:, :10], targets)  # two classes, so a logistic regression

draws = {}
for method, given in {"tempered": {}, "pbnn": {"num_batches": 2}}.items():  # both with the weight w = n = 50
    sampled = sample(problem, method, {"batch_size": 50, **given}, backend="jax-cpu", seed=0)
    draws[method] = sampled.draws.positions  # (chains, draws, parameters)
    print(method, sampled.progress.num_likelihoods, draws[method].mean(axis=(0, 1))[:4])
