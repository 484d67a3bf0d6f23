"""Searches that propose ω. Nothing here is trusted: a bad proposal makes an interval wide, never wrong."""
