"""How far a job came in its wall time: attempts, steps, checkpoints, and what was lost between."""
