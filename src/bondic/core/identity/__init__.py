"""Bellman residual, discrepancy and doubly robust value."""
