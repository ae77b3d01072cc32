"""Reads what other tools recorded, and writes run folders of it; everything after that is as for a recorded run.

One module a format; :mod:`.registry` knows how each is recognised.
"""
