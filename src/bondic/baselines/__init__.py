"""Other intervals on the same interface, each with an honest label of what it guarantees."""
