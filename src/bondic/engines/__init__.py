"""Kernel sums made fast: engines, threads and other processes behind the protocol of `bondic.core.sums`."""
