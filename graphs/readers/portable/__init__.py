"""Reads records without the C extension, on any system: the counterpart of ``runtime/_core/record``."""
