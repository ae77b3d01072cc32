"""The time between samples, and how it divides over the bursts between calls."""
