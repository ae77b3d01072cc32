"""Marks of training by reinforcement learning: the program's own, and those that known trainers set without knowing."""
