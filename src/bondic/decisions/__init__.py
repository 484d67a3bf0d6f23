"""Decisions between policies: is the new one better than today's, and which one to take."""
