"""Laplace approximations by laplace-torch, kept in laplace_torch.json for the test of ours.

It is no dependency: it brings torchvision and others, and without a constraint another torch. In an environment apart,

    pip install "torch==2.13.0" laplace-torch
    python tests/pbnn_bench/laplace_torch.py

which imports nothing of the suite, and finds the mode by itself.
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset

KEPT = Path(__file__).with_suffix(".json")
NUM_POINTS, NUM_CLASSES = 60, 3
NUM_SAMPLES = 200_000


def main() -> None:
    from laplace import Laplace

    torch.set_default_dtype(torch.float64)
    generator = np.random.default_rng(0)
    features = np.round(generator.normal(size=(NUM_POINTS, 2)), 3)
    logits = features @ [[2.0, -1.0, 0.0], [0.0, 1.0, -2.0]] + [0.5, 0.0, 0.0]
    targets = (logits + generator.gumbel(size=logits.shape)).argmax(axis=1)
    inputs, classes = torch.tensor(features), torch.tensor(targets)
    new = torch.tensor([[0.0, 0.0], [3.0, 0.0], [-2.0, 2.0], [1.0, -3.0]])
    found = {}
    for weight in (NUM_POINTS, 12):
        model = torch.nn.Linear(2, NUM_CLASSES)
        fit(model, inputs, classes, weight)
        # The likelihood to the power w / N is that of temperature N / w.
        laplace = Laplace(
            model, "classification", subset_of_weights="all", hessian_structure="full",
            prior_precision=1.0, temperature=NUM_POINTS / weight,
        )  # fmt: skip
        laplace.fit(DataLoader(TensorDataset(inputs, classes), batch_size=NUM_POINTS))
        torch.manual_seed(0)
        found[str(weight)] = {
            "weight": model.weight.tolist(),
            "bias": model.bias.tolist(),
            "covariance": laplace.posterior_covariance.tolist(),
            "probabilities": laplace(new, link_approx="mc", n_samples=NUM_SAMPLES).tolist(),
        }
    names = ("laplace-torch", "torch", "curvlinops-for-pytorch")
    content = {
        "made by": {name: version(name) for name in names},
        "num_samples": NUM_SAMPLES,
        "features": features.tolist(),
        "targets": targets.tolist(),
        "new": new.tolist(),
        "by weight": found,
    }
    KEPT.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def fit(model: torch.nn.Linear, inputs: torch.Tensor, classes: torch.Tensor, weight: float) -> None:
    """The mode of U_w with a standard normal prior on all parameters, by L-BFGS."""
    options = {"max_iter": 500, "tolerance_grad": 1e-12, "tolerance_change": 1e-15, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS(model.parameters(), **options)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        prior = sum(parameter.square().sum() / 2 for parameter in model.parameters())
        value = prior + weight * torch.nn.functional.cross_entropy(model(inputs), classes)
        value.backward()
        return value

    optimizer.step(loss)


if __name__ == "__main__":
    main()
