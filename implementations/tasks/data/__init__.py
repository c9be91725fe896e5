"""The data sets of the tasks: real tables and images, and synthetic data with known parameters."""
