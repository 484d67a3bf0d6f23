"""How large the noise can be: value ranges, gauges and the one place where alpha is divided."""
