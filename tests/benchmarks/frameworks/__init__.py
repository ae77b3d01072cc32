"""Programs around frameworks of others, each with a fault that can be left out."""
