"""Recorded events -> calls that follow each other at one location, and the bursts between them."""
