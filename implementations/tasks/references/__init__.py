"""Right answers: closed forms, importance sampling, and long Hamiltonian Monte Carlo runs that pass a gate."""
