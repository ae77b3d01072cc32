"""Several runs of one program: what changed between two, what does not scale over many."""
