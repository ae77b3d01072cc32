"""Life cycle of the recorder in one process: start, who this process is, fork, end.

One record per process. A process is a

* ``rank``: it has a rank in the job, from the launcher's environment or from ``init_process_group``;
* ``member``: it has no rank, but a role of its own, such as a driver or an actor (:mod:`scalana.runtime.roles`);
* ``child``: it descends from a rank (a loader worker, a helper), and its work counts for that rank;
* ``spare``: it waits for something to do that never came, as workers of Ray do that are started ahead;
* ``launcher``: it starts the ranks (torchrun's agent);
* ``process``: anything else.

Nothing here raises into the user's program, installs a signal handler, or imports a module that start-up does not
already have, save our own.
"""

from __future__ import annotations

import _thread
import atexit
import os
import sys

from scalana.runtime import bookkeeping, garbage_collection, hooks, roles, session
from scalana.runtime.record import launchers, layout
from scalana.runtime.typed import Any, Callable, NoReturn

LAST_FLUSH_S = 2.0
"""How long ``os._exit`` waits for the end of the record, at most."""

_SEEN_BY_ALL = "set SCALANA_CACHE to a folder that all hosts see"
_native: Any = None
_budget_bytes = layout.DEFAULT_BUDGET_BYTES
_python_sampler: Any = None
_hooked = False
_fork_from = ("", "")


def start_from_environment() -> bool:
    """Start recording if ``SCALANA_RUN_DIR`` says so. Returns whether this process is recorded; never raises."""
    try:
        run_folder = os.environ.get(layout.RUN_VARIABLE)
        if not run_folder:
            return False
        if os.environ.get(layout.NATIVE_VARIABLE) == str(os.getpid()):
            return False
        if bookkeeping.is_bookkeeping(sys.orig_argv):
            bookkeeping.leave_alone(sys.orig_argv, layout.RUN_VARIABLE)
            return False
        return start(
            run_folder,
            _number(layout.RATE_VARIABLE, layout.DEFAULT_RATE_HZ),
            int(_number(layout.BUDGET_VARIABLE, layout.DEFAULT_BUDGET_BYTES)),
        )
    except Exception:
        return False


def start(
    run_folder: str, rate_hz: float = layout.DEFAULT_RATE_HZ, budget_bytes: int = layout.DEFAULT_BUDGET_BYTES
) -> bool:
    """Open this process' record below ``run_folder`` and begin to sample.

    Returns whether this process is recorded now; where it cannot be, a plain-text ``.note`` beside the records says
    why. Raises nothing.
    """
    global _budget_bytes
    if session.core is not None:
        return True
    session.run_folder, session.rate_hz, _budget_bytes = run_folder, rate_hz, budget_bytes
    try:
        layout.make_records(run_folder)
        _load_native()
        _who_am_i()
        _open(parent_record="")
        _install_hooks()
        preloaded = os.environ.get(layout.PRELOAD_VARIABLE, "")
        if preloaded and not os.path.exists(preloaded):
            session.note(f"{layout.WITHOUT_MPI} {os.uname().nodename}, which has no {preloaded}: {_SEEN_BY_ALL}")
        return True
    except Exception as failure:
        _write_note(f"process {os.getpid()} is not recorded: {type(failure).__name__}: {failure}")
        return False


def stop(status: int = -1) -> None:
    """End the record of this process. ``status`` is the exit status, -1 where it is not known."""
    for function in session.on_stop if session.core is not None else ():
        try:
            function()
        except Exception as failure:
            session.note(f"in the end: {failure!r}")
    native, session.core = session.core, None
    if native is None:
        return
    try:
        if _python_sampler is not None:
            _python_sampler.stop()
    except Exception:
        pass
    try:
        native.stop(status)
    except Exception:
        pass
    if session.process_role == "rank":
        os.environ.pop(session.PARENT_VARIABLE, None)


def _number(variable: str, default: float) -> float:
    try:
        return float(os.environ[variable])
    except (KeyError, ValueError):
        return default


def _load_native() -> None:
    global _native
    if _native is None:
        from scalana.runtime import _core

        if not hasattr(_core, "supported"):  # in a checkout the folder of its sources has the same name
            raise ImportError(
                f"scalana.runtime._core is not built for Python {sys.version_info[0]}.{sys.version_info[1]}"
            )
        _native = _core


def _who_am_i() -> None:
    """Set the role from the environment."""
    parent = os.environ.get(session.PARENT_VARIABLE, "")
    # Only a descendant can have inherited the variable, except that a rank may replace itself by exec.
    inherited = bool(parent) and not parent.startswith(f"{os.getpid()}:")
    if bookkeeping.is_task_worker(sys.orig_argv):
        session.process_role = "spare"
    elif inherited:
        session.process_role = "child"
    elif launchers.rank_of(os.environ) is not None:
        session.process_role = "rank"
    else:
        session.process_role = "process"


def _open(parent_record: str) -> None:
    """Open a new record file, start its sampler and describe the process."""
    host = os.uname().nodename
    session.record_path = layout.new_record(session.run_folder, host, os.getpid())
    native_sampler = bool(_native.supported())
    _native.start(session.record_path, session.rate_hz, _budget_bytes, native=native_sampler)
    session.core = _native
    session.began_at = _native.now(), _native.thread_cpu()
    _describe(host, parent_record)
    _start_sampler(native_sampler)
    session.core.flush()  # however the process ends, it is known who it was
    for function in session.on_start:
        try:
            function()
        except Exception as failure:
            session.note(f"at start: {failure!r}")


def _start_sampler(native_sampler: bool) -> None:
    global _python_sampler
    sampler = "native" if native_sampler else "none"
    if not native_sampler:
        try:
            from scalana.runtime import python_sampler

            python_sampler.start(session.rate_hz)
            _python_sampler = python_sampler
            sampler = "python"
        except Exception as failure:
            session.note(f"no sampler: {failure!r}")
    session.core.meta("sampler", sampler)
    session.core.meta("interpreter", session.core.interpreter())


def _describe(host: str, parent_record: str) -> None:
    meta = session.core.meta
    for key, value in (
        ("host", host),
        ("boot_id", _boot_id()),
        ("pid", str(os.getpid())),
        ("ppid", str(os.getppid())),
        ("role", session.process_role),
        ("python", ".".join(map(str, sys.version_info[:3]))),
        ("argv", _as_json(sys.orig_argv)),
        ("cwd", _working_directory()),
        ("rate_hz", repr(session.rate_hz)),
        ("cores", str(len(os.sched_getaffinity(0)))),
        ("core_list", _ranges(sorted(os.sched_getaffinity(0)))),
        ("host_cores", str(os.cpu_count() or 0)),
        ("lib_dirs", os.pathsep.join(_library_folders())),
    ):
        meta(key, value)
    if session.process_role == "rank":
        environment = launchers.rank_of(os.environ)
        if environment is not None:
            for key, value in zip(("rank", "world_size", "local_rank"), environment, strict=True):
                meta(key, value)
            meta("rank_source", "environment")
        session.tell_children(initialised=False)
    elif session.process_role == "child":
        inherited = os.environ.get(session.PARENT_VARIABLE, "").split(":")
        if not parent_record and len(inherited) > 1:
            parent_record = inherited[1]
        meta("parent_record", parent_record)
    elif parent_record:
        meta("parent_record", parent_record)
    if job := os.environ.get(layout.JOB_VARIABLE, ""):
        session.belong_to(job, "job_id")
    roles.tell_from_environment()


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers as the kernel lists them: "0-3,8"."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _boot_id() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _working_directory() -> str:
    try:
        return os.getcwd()
    except OSError:
        return ""


def _library_folders() -> list[str]:
    """Folders whose files are not the user's own code: the standard library, installed packages, ourselves."""
    folders = [os.path.dirname(os.path.abspath(os.__file__))]
    for entry in sys.path:
        if os.path.basename(entry) in ("site-packages", "dist-packages", "lib-dynload"):
            folders.append(os.path.abspath(entry))
    folders.append(os.path.dirname(os.path.abspath(__file__)))
    return list(dict.fromkeys(folders))


def _as_json(words: list[str]) -> str:
    """``words`` as a JSON array in ASCII (without importing json)."""

    def escape(word: str) -> str:
        out = []
        for character in word:
            code = ord(character)
            if character in '"\\':
                out.append("\\" + character)
            elif 32 <= code < 127:
                out.append(character)
            elif code < 0x10000:
                out.append(f"\\u{code:04x}")
            else:
                code -= 0x10000
                out.append(f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")
        return f'"{"".join(out)}"'

    return f"[{', '.join(map(escape, words))}]"


def _write_note(text: str) -> None:
    """A text file beside the records, for a process that could not open one."""
    try:
        path = layout.note_file(session.run_folder, os.uname().nodename, os.getpid())
        with open(path, "a", encoding="utf-8", errors="replace") as file:
            file.write(text + "\n")
    except OSError:
        pass


def _install_hooks() -> None:
    global _hooked
    if _hooked:
        return
    _hooked = True
    session.ends.append(stop)
    atexit.register(_at_exit)
    os._exit = _ending_at_once(os._exit)  # type: ignore[assignment]
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
    garbage_collection.watch()
    hooks.install()


def _at_exit() -> None:
    # An uncaught exception leaves its trace in sys; the status of sys.exit() cannot be seen from here.
    stop(1 if getattr(sys, "last_type", None) is not None else -1)


def _ending_at_once(leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """``os._exit`` that ends the record first: nothing else would, and a block half written would be lost.

    A program leaves like this because something of it hangs, so it is not kept waiting for a disk that may be what
    hangs, nor for a thread that cannot be started.
    """

    def _exit(status: int) -> NoReturn:
        ended = _thread.allocate_lock()

        def end() -> None:
            stop(status)
            ended.release()

        try:
            if session.core is not None and isinstance(status, int):
                ended.acquire()
                _thread.start_new_thread(end, ())
                ended.acquire(timeout=LAST_FLUSH_S)
        finally:  # whatever a handler of a signal raises meanwhile
            leave(status)

    return _exit


class _AfterFork:
    """Something that multiprocessing can hold a weak reference to."""


_after_fork_object = _AfterFork()
_multiprocessing_hooked = False


def _before_fork() -> None:
    """Remember what the child needs to know; the extension looks after its own locks."""
    global _fork_from, _multiprocessing_hooked
    _fork_from = (session.record_path, session.process_role) if session.core is not None else ("", "")
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not _multiprocessing_hooked and session.core is not None:
        try:
            # A forked worker clears its finalizers and ends by os._exit: ours is entered after the one, and runs
            # before the other.
            util.register_after_fork(_after_fork_object, _in_multiprocessing_child)
            _multiprocessing_hooked = True
        except Exception:
            pass


def _in_multiprocessing_child(_: object) -> None:
    try:
        sys.modules["multiprocessing.util"].Finalize(None, stop, args=(-1,), exitpriority=-1000)  # type: ignore[attr-defined]
    except Exception:
        pass


def _after_fork_in_child() -> None:
    """A forked child gets a record of its own."""
    global _python_sampler
    parent_path, parent_role = _fork_from
    session.core = None
    _python_sampler = None
    if not parent_path:
        return
    try:
        # A child of a rank is its helper; what a driver forks may be a rank.
        session.process_role = "child" if parent_role in ("rank", "child") else "process"
        roles.forget()
        _open(parent_record=os.path.basename(parent_path) if parent_role in ("rank", "member") else "")
    except Exception as failure:
        _write_note(f"forked process {os.getpid()} is not recorded: {failure!r}")
