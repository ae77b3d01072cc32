"""Run folder -> columns: the records of all processes, sorted out by rank, on one time axis."""
