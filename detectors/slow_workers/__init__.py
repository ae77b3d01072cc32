"""Workers of a task farm that take longer for a task than the others."""
