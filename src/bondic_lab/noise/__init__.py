"""Noise bounds of earlier work."""
