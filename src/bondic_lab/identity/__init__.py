"""Formulas that no bound needs: the kernel Bellman loss."""
