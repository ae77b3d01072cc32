"""Calls whose times say something else than they seem to: held up by a lock, or part of a polling loop."""
