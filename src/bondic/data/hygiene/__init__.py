"""Silent data errors: searched for in one pass, reported with row and cure."""
