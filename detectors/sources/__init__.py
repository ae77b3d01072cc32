"""Mixtures of data: what each source costs to load, which steps are late for it, and other ways to load it."""
