"""Carrying a plan out on torch's own runtime, with stages that take the time that their layers do."""
