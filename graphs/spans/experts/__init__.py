"""Experts that a program loads while it computes, and the model that drafts tokens in between."""
