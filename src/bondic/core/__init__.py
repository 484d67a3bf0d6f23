"""The trusted core."""
