"""Choices made from data: on earlier rows only, and the result remembers which."""
