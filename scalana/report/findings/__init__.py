"""One finding in words: what it claims, what it costs, where it lies, and what leads to it."""
