"""Workloads of reinforcement learning in words and as data: what they are like, and what replays of them take."""
