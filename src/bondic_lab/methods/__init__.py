"""References: the primal bound as a method, and the interval of somebody who knows the noise."""
