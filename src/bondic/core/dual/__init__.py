"""The dual bound of the paper."""
