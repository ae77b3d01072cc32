"""Words by which recorders mark spans of a kind, and by which the analysis finds them."""

from __future__ import annotations

COMPILE = "compile"
"""A compilation of torch."""
EXPERTS = "experts"
"""Times of loading experts, of a function."""
LENGTHS = "lengths"
"""Lengths of the sequences that a call is given."""
MODEL_CALL = "model-call"
"""An outermost call of a module, in a program that loads experts."""
REQUESTS = "requests"
"""Many requests to the process of a Manager of :mod:`multiprocessing`: behind ``pickle`` in the name of a span."""
SIZES = "sizes"
"""Sizes of the arguments of a call."""
SOURCE = "source"
"""Loading from one source of a mixture of data."""
