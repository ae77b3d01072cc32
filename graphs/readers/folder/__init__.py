"""A run folder and its records, one process at a time."""
