"""Call paths -> vertices: where in the structure a sample or a call lies."""
