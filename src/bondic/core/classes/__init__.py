"""Function classes: instruments W, the ball Q that must contain q*, and the functions in them."""
