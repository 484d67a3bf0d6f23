"""Choices of the library that an interval may rest on: it shows nothing until the user accepts them, by these names."""

from __future__ import annotations

CHOICES = {"chosen-class": "The value function lies in the class that bondic chose: it is no rougher than that."}
"""What a user states by accepting one. All that a finite-sample guarantee can rest on is here: choices of baselines whose
guarantee is another cannot be accepted, as nothing is shown by them."""
