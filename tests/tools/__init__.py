"""Tools for tests and benchmarks."""
