"""Looks at processes that were started without a recorder, from outside."""
