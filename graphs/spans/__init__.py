"""Spans of a run: everything with a begin, an end and a name that is no communication call, at its vertex."""
