"""The sequential interval on a stated ball."""
