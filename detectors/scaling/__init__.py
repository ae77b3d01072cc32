"""Scaling loss: what grows with the number of ranks, or does not shrink as it should, and why."""
