"""The interval from propensities."""
