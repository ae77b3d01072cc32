"""What this machine can do: measured once, by processes as a job has them, and kept for reports."""
