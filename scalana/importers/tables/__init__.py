"""Tables of operations: one row an operation of a rank, as CSV, JSON lines or parquet."""
