"""Recorders of programs on Ray: its driver, tasks and actors, and what they wait for of each other."""
