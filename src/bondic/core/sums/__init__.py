"""Exact kernel sums with certified errors: one interface, several engines, the same answer."""
