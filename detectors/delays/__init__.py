"""Wait states and delay costs: every wait, split without remainder over those whose work made it."""
