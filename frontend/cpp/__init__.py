"""C and C++: sources, by libclang, or a program's own debug information to the structure of its functions.

:class:`scalana.frontend.cpp.build.Cpp` is the way in. What a translation unit holds is found out in a
process of its own (:mod:`~scalana.frontend.cpp.source.worker`), kept on disk (:mod:`~scalana.frontend.cpp.cache`), and
joined over translation units by :mod:`~scalana.frontend.cpp.resolve` and the linker. Nothing is executed but compilers,
to ask them where their headers are.
"""
