"""Target policies: action probabilities for discrete actions, a sampler for continuous ones."""
