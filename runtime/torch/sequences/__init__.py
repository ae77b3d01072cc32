"""The lengths of the sequences that models are called with."""
