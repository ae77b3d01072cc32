"""Weights that a program loads while it computes, such as experts from files, and its cache of them."""
