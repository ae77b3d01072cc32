"""The records of all processes, as one set of columns on one time axis."""
