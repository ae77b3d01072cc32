"""What limits a step although no rank differs from the others: what all of them spend."""
