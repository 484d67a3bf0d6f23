"""Certificates: everything needed to re-check an interval, and the checker. Imports no search and no tuning."""
