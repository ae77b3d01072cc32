"""What a run is doing while it goes on: its last part, read as its records grow."""
