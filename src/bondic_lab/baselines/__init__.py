"""Other intervals on the same interface, each with a label that says what it guarantees."""
