"""What the names of annotations stand for, for type checkers."""

from collections.abc import AsyncIterator as AsyncIterator
from collections.abc import Callable as Callable
from collections.abc import Collection as Collection
from collections.abc import Generator as Generator
from collections.abc import Iterable as Iterable
from collections.abc import Iterator as Iterator
from collections.abc import Mapping as Mapping
from collections.abc import Sequence as Sequence
from types import CodeType as CodeType
from types import FrameType as FrameType
from types import TracebackType as TracebackType
from typing import Any as Any
from typing import NoReturn as NoReturn

Failure = type[BaseException] | None
"""Of a call that was recorded: what it raised."""
Function = Callable[..., Any]
Moment = tuple[int, int]
"""Now, and the CPU clock of the thread, in ns."""
Enter = Callable[[tuple[Any, ...]], Any]
"""Called with the arguments of a call that begins; what it returns goes to :data:`Leave`."""
Leave = Callable[[Any, tuple[Any, ...], Any, Failure], None]
"""Called with that, the arguments, the result and the failure of a call that is over."""
