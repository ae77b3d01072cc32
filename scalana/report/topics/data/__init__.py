"""Topics about the data that a job loads."""
