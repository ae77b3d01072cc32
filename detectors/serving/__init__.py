"""Loops that generate tokens: what a request takes by phase, and whether other numbers of threads were faster."""
