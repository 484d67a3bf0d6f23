"""What decides: the bound on cells, in NumPy alone. Everything here is trusted; nothing here reads a log or asks a policy."""
