"""Policies of other libraries, and from files: one module per library."""
