"""Binaries: symbols, lines and calls from ELF files and their debug information."""
