"""Bellman residual, kernel Bellman loss, discrepancy and doubly robust value."""
