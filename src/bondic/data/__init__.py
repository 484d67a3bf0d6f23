"""The log, the initial distribution and ordered blocks of rows."""
