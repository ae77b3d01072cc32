"""Workloads of reinforcement learning: what is generated, drawn and replayed, apart from the run that it comes from."""
