"""Whole Bayesian neural networks: real data, every parameter sampled, in coordinates in which the prior is N(0, I)."""
