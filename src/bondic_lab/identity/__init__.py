"""Formulas that no bound needs: the identity on a whole problem, and the kernel Bellman loss."""
