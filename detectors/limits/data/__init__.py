"""What data cost to load, as causes that limit a step."""
