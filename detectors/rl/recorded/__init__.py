"""What of a loop was recorded: what processes do when, as pieces of time."""
