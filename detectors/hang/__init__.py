"""Calls that never returned, and what the rank that did not come was doing instead."""
