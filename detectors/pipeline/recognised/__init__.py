"""Pipelines written by hand: recognised by the messages between their ranks."""
