"""The samplers in jax: pure functions on arrays with the chains as leading dimension, steps inside a compiled loop."""
