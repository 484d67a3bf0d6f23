"""The interval on cells: tables and groups."""
