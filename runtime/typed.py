"""Names for annotations: nothing evaluates these inside a job, where importing :mod:`typing` would take milliseconds.

``typed.pyi`` says what each stands for.
"""

Any = AsyncIterator = Callable = CodeType = Collection = Enter = Failure = FrameType = Function = Generator = object
Iterable = Iterator = Leave = Mapping = Moment = NoReturn = Sequence = TracebackType = object
