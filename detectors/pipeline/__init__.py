"""Pipeline parallelism: what a step of a pipeline costs, why, and what a change would bring.

The order: :mod:`actions` and :mod:`schedules` say what is run in which order, :mod:`lowering` what of it waits for
what in an engine, :mod:`simulate` when it then happens, :mod:`measured`, :mod:`causes` and :mod:`attribution` why a
measured step took so long, :mod:`whatif` what would be faster.
"""
