"""Bounds that check others: the primal one."""
