"""Worlds, shipped policies and the reproduction of the paper: beside the library, never imported by it."""
