"""Training by reinforcement learning: where the process time of a step goes, and which cause idle processes have."""
