"""Kernel sums with certified errors: what they are, and their definition in NumPy; `bondic.engines` makes them fast."""
