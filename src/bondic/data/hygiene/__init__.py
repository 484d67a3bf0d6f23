"""Faults of a log that would move an interval without a word: looked for in one pass, said with row and cure."""
