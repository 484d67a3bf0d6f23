"""Other searches for ω: a conic solver, a neural network."""
