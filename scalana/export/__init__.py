"""Writes a run for the viewers of others. One module a format; :mod:`.registry` lists them."""
