"""Comparisons: several runs with each other, and a plan with the run that it is made of."""
