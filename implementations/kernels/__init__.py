"""What a step is made of: the contract of a method, Metropolis-Hastings and its exchangeable parts."""
