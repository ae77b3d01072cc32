"""The parts of a report: one module a topic, which makes sections of an analysis; ``table`` lists them."""
