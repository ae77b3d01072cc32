"""Python: sources, by ``ast``, to the structure of their functions.

:class:`scalana.frontend.python.build.Python` is the way in. What a file holds is said by
:mod:`~scalana.frontend.python.source`; what its calls lead to, over all files, by
:mod:`~scalana.frontend.python.resolve`, which follows values through :mod:`~scalana.frontend.python.evaluate`. Nothing
is executed.
"""
