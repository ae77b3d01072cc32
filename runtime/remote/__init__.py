"""Recorders of calls that one process hands to another: pools, queues, processes, remote procedure calls."""
