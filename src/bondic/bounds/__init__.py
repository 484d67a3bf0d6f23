"""The bounds: dual F+-, rejection witness, primal and oracle checks."""
