"""What communication costs, as causes that limit a step."""
