"""What to do next: ways out of a trivial, wide or rejected answer, and plans for logs that do not exist yet.

Nothing here is proved, and nothing here can move an interval: advice is made from a result that is finished.
"""
