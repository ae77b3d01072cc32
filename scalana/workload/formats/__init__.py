"""Files of lengths and times that trainers and studies write, one module a tool; :mod:`.table` lists them."""
