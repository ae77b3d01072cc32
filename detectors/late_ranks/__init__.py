"""Ranks that make others wait: the main detector."""
