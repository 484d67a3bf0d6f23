"""Functions ω and q̂: values and norms that can be certified."""
