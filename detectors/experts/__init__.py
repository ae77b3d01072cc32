"""Experts that are loaded while a model computes: what a loop waits for them, and what earlier loads bring."""
