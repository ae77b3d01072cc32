"""Start the user's job under the recorder, and stay out of its way.

The job inherits the standard streams, every open file descriptor, the process group and the terminal: what it prints,
what it reads and what Ctrl-C does to it are what they would be without us. Only its environment says that it is
recorded (:func:`environment`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from scalana.witness import Witness

_RANK_VARIABLES = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
)
"""By which launchers of MPI tell a process of how many it is which."""
_LAUNCHES = r"torchrun|torch\.distributed|accelerate|deepspeed|mpirun|mpiexec|srun"

DEFAULT_RATE_HZ = 200.0
DEFAULT_BUDGET_BYTES = 64 << 20

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that a program started by a shell does not ignore."""
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


def create_run_folder(wanted: str | None) -> str:
    """Create the folder of a new run, and return its absolute path.

    Args:
        wanted: The folder asked for; it must not exist, or be empty. None takes ``scalana-<date>-<time>`` here.

    Raises:
        FileExistsError: ``wanted`` holds something already.
        OSError: it cannot be created.
    """
    if wanted is not None:
        os.makedirs(wanted, exist_ok=True)
        if os.listdir(wanted):
            raise FileExistsError(wanted)
        return os.path.abspath(wanted)
    stem = time.strftime("scalana-%Y%m%d-%H%M%S")
    for attempt in range(1, 1000):
        name = stem if attempt == 1 else f"{stem}-{attempt}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(name)
            return os.path.abspath(name)
    raise FileExistsError(stem)


def write_run_info(folder: str | os.PathLike[str], info: Mapping[str, object]) -> None:
    """Writes ``run.json``, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    import json  # here: a job waits for all that is loaded before it

    target = os.path.join(folder, "run.json")
    temporary = f"{target}.{os.getpid()}"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(dict(info), file, indent=1)
            file.write("\n")
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def environment(folder: str, rate_hz: float, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a job that is to be recorded into ``folder``.

    Python processes find the recorder by ``PYTHONPATH``: a ``sitecustomize`` before the user's own, which runs too.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    import scalana.runtime as runtime

    bootstrap = os.path.join(os.path.dirname(os.path.abspath(runtime.__file__)), "bootstrap")
    before = environ.get("PYTHONPATH")
    return {
        **environ,
        "PYTHONPATH": f"{bootstrap}{os.pathsep}{before}" if before else bootstrap,
        "SCALANA_RUN_DIR": os.path.abspath(folder),
        "SCALANA_RATE_HZ": f"{rate_hz:g}",
        "SCALANA_BUDGET_BYTES": environ.get("SCALANA_BUDGET_BYTES", str(DEFAULT_BUDGET_BYTES)),
        "SCALANA_PACKAGE": os.path.dirname(package),
    }


def mpi_environment(
    command: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], None] = lambda _: None,
    *,
    expected: bool = False,
) -> tuple[dict[str, str], list[str]]:
    """The environment of a job with what the native recorder needs, if the job uses MPI; and what is missing, if any.

    The first time that an MPI is used, the recorder for it is compiled; ``tell`` is given a line about that.
    ``expected`` says that the job uses MPI, whether the command shows it or not.
    """
    from scalana.runtime.mpi.prepare import prepare

    prepared = prepare(command, environ, tell, expected=expected)
    return {**environ, **prepared.environment}, prepared.notes


def stands_behind_the_launcher(command: Sequence[str], environ: Mapping[str, str]) -> bool:
    """Whether this process is the first of several that a launcher has started, and each would record itself alone.

    A command that starts ranks of its own is none of these: ``mpirun`` may start a ``torchrun`` on each host.
    """
    known = ((environ.get(size, ""), environ.get(rank, "")) for size, rank in _RANK_VARIABLES)
    first = any(size.isdecimal() and int(size) > 1 and rank == "0" for size, rank in known)
    return first and not any(re.search(_LAUNCHES, word) for word in command)


def execute(command: Sequence[str], env: Mapping[str, str], begun: Callable[[], None] = lambda: None) -> int:
    """Run ``command`` to its end. Returns its exit code, or ``-n`` if signal ``n`` ended it.

    ``begun`` is called when it has been started.

    Ctrl-C reaches the job through the process group, as always, and does not end us. Signals sent to us alone
    (``kill``, a batch system) are sent on.

    Raises:
        OSError: the command cannot be started.
    """
    ours = [number for number in _FORWARDED if signal.getsignal(number) is not signal.SIG_IGN]
    early: list[int] = []
    # Handlers, not "ignore": an ignored signal would stay ignored in the job, a handled one does not.
    before = {number: signal.signal(number, lambda n, _frame: early.append(n)) for number in ours}
    try:
        witness = Witness(ours)
        try:
            # File descriptors stay open for the job: `scalana run -- prog <(...)` names one of them.
            pid = _start(command, env, ours)
            begun()
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, {*ours, signal.SIGCHLD})
            try:
                return _attend(pid, ours, early, witness)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        finally:
            witness.close()
    finally:
        for number, handler in before.items():
            if handler is not None:  # not set from Python: a preloaded library's
                signal.signal(number, handler)


def _start(command: Sequence[str], env: Mapping[str, str], handled: Sequence[int]) -> int:
    """Start the job; returns its process. ``handled`` are the signals that have handlers here.

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
                signal.pthread_sigmask(signal.SIG_SETMASK, mask)
                os.execvpe(command[0], list(command), env)
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


def _attend(pid: int, ours: Sequence[int], early: Sequence[int], witness: Witness) -> int:
    """Wait for the job, and send on what is meant for it and did not reach it. The signals are blocked meanwhile.

    Returns its exit code, or ``-n`` if signal ``n`` ended it.
    """
    arrived = list(early)
    while (returncode := _returncode(pid)) is None:
        for number in arrived:
            if not witness.saw(number):
                os.kill(pid, number)
        info = signal.sigtimedwait({*ours, signal.SIGCHLD}, 1.0)
        arrived = [info.si_signo] if info is not None and info.si_signo != signal.SIGCHLD else []
    while signal.sigtimedwait(ours, 0) is not None:
        pass  # meant for a job that is gone
    return returncode


def _returncode(pid: int) -> int | None:
    """How a child has ended; None if it has not."""
    try:
        ended, status = os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return 0  # whoever started us ignores what becomes of children, and nobody is told
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
