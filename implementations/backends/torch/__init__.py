"""The samplers in torch: the same parts as in jax, on tensors with the chains as leading dimension."""
