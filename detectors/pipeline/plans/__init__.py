"""Plans for pipelines: which layers on which rank, and what each rank does in which order, chosen together.

:mod:`profile` says what layers cost, :mod:`profile_file` reads and writes it; :mod:`assignment` gives layers to ranks;
:mod:`list_schedule` makes an order of actions that keeps the memory of ranks; :mod:`search` looks for the best of
both; :mod:`bounds` has what no plan beats; :mod:`plan` is what is handed over, :mod:`means` what of it other engines
can express.
"""
