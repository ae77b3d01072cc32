"""The record of a process: its format, and a writer in plain Python."""
