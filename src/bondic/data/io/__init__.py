"""Logs from files and tables: one module per format, one way from columns to `Transitions`."""
