"""Proposals for the sequential interval: landmarks, models, instruments, weights. Nothing here has to be believed."""
