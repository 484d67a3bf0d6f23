"""What to do next: the lever of each part of an answer that says little, and plans for logs that do not exist yet."""
