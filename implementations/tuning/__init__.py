"""Settings that pilot runs choose: step sizes by a ladder, numbers of mini-batches by a noise budget."""
