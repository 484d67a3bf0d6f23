"""Problems whose answer is known: q*, J* and the reward range are formulas, never simulations."""
