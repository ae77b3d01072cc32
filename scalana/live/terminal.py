"""The view of a run on a terminal, drawn again as it changes, with keys."""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

from scalana.live.draw import Shown, lines
from scalana.live.look import Looker
from scalana.live.view import View
from scalana.report.text.paint import Paint

_HELP = "q quit · space pause · s steps · r ranks · j k move"
_STEPS = (0, 20, 100, 480)
"""How many steps the curve has: as many as there is room for, and what ``s`` goes through."""
_MOVE = 8
_SHARE = 0.02
"""Of a core, that analyses may take: after a long one, causes are found less often."""


def follow(looker: Looker, every_s: float) -> None:
    """Draw the run until it ends or the user does."""
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    shown, paused = Shown(), False
    with _keys() as keys, ThreadPoolExecutor(1) as pool, Live(console=console, screen=True, auto_refresh=False) as live:
        looks = _Looks(looker, pool, every_s)
        while True:
            view = looks.latest(paused)
            if view is not None:
                drawn = lines(view, console.width, console.height - 2, Paint(not console.no_color), shown)
                help_line = f"{_HELP}{' · paused' * paused}"
                live.update(Text.from_ansi("\n".join([*drawn, help_line])), refresh=True)
            key = keys.wait(0.2)
            if key == "q" or (view is not None and looks.is_over(view)):
                break
            paused ^= key == " "
            shown = _changed(shown, key)
    if view is not None:  # what was seen last stays on the screen
        console.print(Text.from_ansi("\n".join(lines(view, console.width, 0, Paint(not console.no_color), shown))))


def _changed(shown: Shown, key: str) -> Shown:
    """What is to be seen after a key."""
    if key == "s":
        return replace(shown, steps=_STEPS[(_STEPS.index(shown.steps) + 1) % len(_STEPS)])
    if key == "r":
        return replace(shown, each_rank=not shown.each_rank, first_rank=0)
    if key in ("j", "k"):
        return replace(shown, first_rank=max(shown.first_rank + (_MOVE if key == "j" else -_MOVE), 0))
    return shown


class _Looks:
    """Looks at the run every few seconds, in another thread, so that keys are answered meanwhile."""

    def __init__(self, looker: Looker, pool: ThreadPoolExecutor, every_s: float) -> None:
        self._looker = looker
        self._pool = pool
        self._every_s = every_s
        self._next_s = self._next_analysis_s = 0.0
        self._running: Future[View] | None = None
        self._view: View | None = None

    def latest(self, paused: bool) -> View | None:
        """The latest view, None as long as there is none. While ``paused`` none is made."""
        if self._running is not None and self._running.done():
            self._view, self._running = self._running.result(), None
        if self._running is None and not paused and time.monotonic() >= self._next_s:
            self._running = self._pool.submit(self._look)
        return self._view

    def is_over(self, view: View) -> bool:
        """Whether nothing more will come."""
        return not view.going_on and self._running is None

    def _look(self) -> View:
        begin, spent = time.monotonic(), time.thread_time()
        analyse = begin >= self._next_analysis_s
        view = self._looker.look(analyse=analyse)
        if analyse:
            self._next_analysis_s = time.monotonic() + max(self._every_s, (time.thread_time() - spent) / _SHARE)
        self._next_s = begin + self._every_s
        return view


class _Keys:
    """Keys that are pressed, one by one."""

    def __init__(self, fd: int | None) -> None:
        self._fd = fd

    def wait(self, seconds: float) -> str:
        """The next key, "" where none is pressed for so long."""
        if self._fd is None:
            time.sleep(seconds)
            return ""
        if not select.select([self._fd], [], [], seconds)[0]:
            return ""
        return os.read(self._fd, 1).decode("ascii", "replace") or "q"


@contextlib.contextmanager
def _keys() -> Iterator[_Keys]:
    """Read single keys while the view is there; none where the standard input is no terminal."""
    try:
        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd)
    except (AttributeError, OSError, ValueError, termios.error):
        yield _Keys(None)
        return
    try:
        tty.setcbreak(fd)
        yield _Keys(fd)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
