"""Sequences of unequal lengths: what ranks get of them in each step, what that costs, and other distributions."""
