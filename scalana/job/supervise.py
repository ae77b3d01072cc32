"""Start the user's job, stay out of its way, and leave as it left.

The job inherits the standard streams, every open file descriptor, the process group and the terminal: what it prints,
what it reads and what Ctrl-C does to it are what they would be without us.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from scalana.job import descendants
from scalana.job.witness import Witness

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores from its start on, whether it was started so or not."""
_PASSING_ON = frozenset("sh dash bash zsh ksh ksh93 mksh ash busybox fish make gmake time timeout xargs script".split())
"""Programs that start others with the signals ignored that they ignore themselves."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_TO_END_S = 60.0
"""So long a launcher may take to end its ranks."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def execute(
    command: Sequence[str],
    env: Mapping[str, str],
    begun: Callable[[], None] = lambda: None,
    is_to_end: Callable[[], bool] = lambda: False,
    came: Callable[[int], None] = lambda _: None,
) -> int:
    """Run ``command`` to its end. Returns its exit code, or ``-n`` if signal ``n`` ended it.

    ``begun`` is called when it has been started, ``is_to_end`` every second from then on: where it returns True, the
    job is ended. ``came`` is called with each signal that has reached us meanwhile.

    Ctrl-C reaches the job through the process group, as always, and does not end us. Signals sent to us alone
    (``kill``, a batch system) are sent on.

    Raises:
        OSError: the command cannot be started.
    """
    ours = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    # Where whoever started us ignores what becomes of children, the kernel would not tell us either.
    ignored = [number for number in (signal.SIGCHLD,) if signal.getsignal(number) is signal.SIG_IGN]
    ignored += _ignored_before(os.getppid())
    with _Arrivals((*ours, signal.SIGCHLD)) as arrivals:
        witness = Witness(ours)
        try:
            # File descriptors stay open for the job: `scalana run -- prog <(...)` names one of them.
            pid = _start(command, env, ours, ignored)
            begun()
            return _attend(pid, arrivals, witness, is_to_end, came)
        finally:
            witness.close()


class Signalled(BaseException):
    """A signal has come that ends us; says which."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """While no job runs yet: a signal that would end us at once is raised, so that what was begun is cleared away.

    Raises:
        Signalled: the first that came.
    """

    def note(number: int, _frame: object) -> None:
        for other in ending:
            signal.signal(other, lambda *_: None)
        raise Signalled(number)

    ending = [number for number in _ENDING if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler)]
    before = {number: signal.signal(number, note) for number in ending}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Arrivals:
    """The signals that reach us, as they come.

    By handlers, not "ignore": an ignored signal would stay ignored in the job, a handled one does not. They are waited
    for at a pipe that Python writes to: :func:`signal.sigtimedwait` makes up signals in a process that was stopped for
    longer than its time, and other threads (a preloaded library's) may take signals that are only blocked here.
    """

    def __init__(self, numbers: Iterable[int]) -> None:
        self._numbers = tuple(numbers)
        self._came: list[int] = []

    def __enter__(self) -> _Arrivals:
        self._bell, self._ringing = os.pipe()
        for end in (self._bell, self._ringing):
            os.set_blocking(end, False)
        self._bell_before = signal.set_wakeup_fd(self._ringing, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, self._note) for number in self._numbers}
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            if handler is not None:  # not set from Python: a preloaded library's
                signal.signal(number, handler)
        signal.set_wakeup_fd(self._bell_before)
        for end in (self._bell, self._ringing):
            os.close(end)

    def _note(self, number: int, _frame: object) -> None:
        self._came.append(number)

    def take(self) -> list[int]:
        """Those that have come since the last time."""
        took, self._came = self._came, []
        return took

    def wait(self, seconds: float) -> None:
        """Wait until one comes, or for so long."""
        if self._poll.poll(seconds * 1000):
            with contextlib.suppress(BlockingIOError):
                os.read(self._bell, 4096)


def _start(command: Sequence[str], env: Mapping[str, str], handled: Sequence[int], ignored: Sequence[int]) -> int:
    """Start the job; returns its process. ``handled`` are the signals that have handlers here, ``ignored`` those that
    the job is to ignore although they are not ignored here.

    Not by :mod:`subprocess`, which takes longer to load than all else that a job waits for, nor by ``posix_spawn``,
    which has the job ignore two signals that it would not ignore without us.

    Raises:
        OSError: it cannot be started.
    """
    theirs, ours = os.pipe()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, handled)
    try:
        pid = os.fork()
        if pid == 0:
            try:
                for number in (*handled, *_IGNORED_BY_PYTHON):
                    signal.signal(number, signal.SIG_DFL)
                for number in ignored:
                    signal.signal(number, signal.SIG_IGN)
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                _become(command, env)
            except OSError as error:
                os.write(ours, str(error.errno).encode())
            finally:
                os._exit(127)
    except OSError:
        os.close(theirs)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(ours)
    with open(theirs, "rb") as pipe:
        failed = pipe.read()  # ends when the program has taken the place of the child
    if failed:
        os.waitpid(pid, 0)
        raise OSError(int(failed), os.strerror(int(failed)), command[0])
    return pid


def _ignored_before(parent: int) -> list[signal.Signals]:
    """Which of the signals that Python ignores were ignored already when it started.

    Python does not keep that. Of a shell (``trap '' PIPE``) it is known: what it ignores, its commands ignore.
    """
    try:
        if os.path.basename(os.readlink(f"/proc/{parent}/exe")) not in _PASSING_ON:
            return []
        with open(f"/proc/{parent}/status", encoding="ascii", errors="replace") as file:
            ignored = next((int(line.split()[1], 16) for line in file if line.startswith("SigIgn:")), 0)
    except (OSError, ValueError, IndexError):  # another user's
        return []
    return [number for number in _IGNORED_BY_PYTHON if ignored >> (number - 1) & 1]


def _become(command: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Go on as the job. A script that names no interpreter is the shell's, as where a shell starts it.

    Raises:
        OSError: it cannot be started.
    """
    try:
        os.execvpe(command[0], list(command), env)
    except OSError as error:
        from scalana.runtime.mpi.job import in_path

        path = command[0] if os.sep in command[0] else in_path(command[0], env)
        if error.errno != errno.ENOEXEC or not _is_text(path):
            raise
        os.execve("/bin/sh", ["/bin/sh", path, *command[1:]], env)


def _is_text(path: str) -> bool:
    """Whether a file may be a script, as shells tell: its first line has no zero byte."""
    try:
        with open(path, "rb") as file:
            start = file.read(128)
    except OSError:
        return False
    return b"\0" not in start.partition(b"\n")[0]


def _attend(
    pid: int, arrivals: _Arrivals, witness: Witness, is_to_end: Callable[[], bool], came: Callable[[int], None]
) -> int:
    """Wait for the job, and send on what is meant for it and did not reach it.

    Returns its exit code, or ``-n`` if signal ``n`` ended it.
    """
    ended_s: float | None = None
    with contextlib.ExitStack() as kept:
        started: Sequence[int] = ()
        while (returncode := _returncode(pid)) is None:
            if is_to_end() if ended_s is None else time.monotonic() - ended_s > _TO_END_S:
                started = started or kept.enter_context(descendants.held(pid))
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGTERM if ended_s is None else signal.SIGKILL)
                ended_s = time.monotonic()
            for number in arrivals.take():
                came(number)
                _send_on(number, pid, witness)
            arrivals.wait(1.0)
        descendants.end(started)  # a launcher ends its ranks, other programs leave what they have started
    return returncode


def _send_on(number: int, pid: int, witness: Witness) -> None:
    """Send the job a signal that reached us alone."""
    if number != signal.SIGCHLD and not witness.saw(number):
        with contextlib.suppress(OSError):  # a job of another user's (sudo)
            os.kill(pid, number)


def _returncode(pid: int) -> int | None:
    """How a child has ended; None if it has not."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0  # somebody else in this process has waited for it
    return os.waitstatus_to_exitcode(status) if ended else None


def shell_code(returncode: int) -> int:
    """The exit code as a shell tells it: ``128 + n`` for a job that signal ``n`` ended."""
    return returncode if returncode >= 0 else 128 - returncode


def exit_like(returncode: int) -> int:
    """End as the job ended: die of the same signal, or return the exit code to leave with.

    A shell or a batch system above us then sees what it would have seen of the job itself.
    """
    if returncode >= 0:
        return returncode
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    number = -returncode
    import resource  # here: a job waits for all that is loaded before it

    with contextlib.suppress(OSError, ValueError):
        # The job has left its own core file, if any; ours would overwrite it.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return shell_code(returncode)
