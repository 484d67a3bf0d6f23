"""Ways to make an interval; each is an object passed to `estimate_interval`."""
