"""Detectors on sums per vertex and rank alone: ScalAna as published."""
