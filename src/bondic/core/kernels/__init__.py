"""Positive-definite kernels on points (observation, time, action); each declares its supremum on the diagonal."""
