"""Requests of loops that generate tokens."""
