"""What a process does that ``scalana attach --record`` finds running: it begins to record, and ends that later.

The main thread of that process runs this file between two instructions of its program, before anything of ours is
loaded there, so the file imports nothing but what every interpreter has. Nothing is raised into the program, and
nothing is printed.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # of signal, which loads enum
import os
import sys

from scalana.runtime.typed import Any, Mapping

_RUN, _PARENT, _ROLE, _PATH = "SCALANA_RUN_DIR", "SCALANA_PARENT", "SCALANA_ROLE", "PYTHONPATH"
_FAULTS = {_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL}
"""Signals of an instruction, which cannot be held back."""
_AGAIN_AFTER_S = 0.05
"""A signal is repeated by then: the program runs again."""


def run(function: str, note: str, arguments: Mapping[str, Any]) -> None:
    """Call a function of this file, and write what it returns, or why it failed, into a file; no text, no file."""
    try:
        text = globals()[function](**arguments)
    except BaseException as failure:
        text = f"is not recorded: {type(failure).__name__}: {failure}"
        _repeat(failure)
    try:
        if text:
            with open(note, "w", encoding="utf-8", errors="replace") as file:
                file.write(f"process {os.getpid()} {text}\n")
    except OSError:
        pass


def held() -> set[int]:
    """Hold the signals back for which the program has handlers. Returns those that were held back before."""
    handled = [number for number in _signal.valid_signals() if callable(_signal.getsignal(number))]
    return set(_signal.pthread_sigmask(_signal.SIG_BLOCK, set(handled) - _FAULTS))


def release(before: set[int]) -> None:
    """Let them come again. What a handler raises here is the program's: it is called again, outside of this."""
    try:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
    except BaseException as failure:
        _repeat(failure)


def begin(variables: Mapping[str, str], parent: str, role: str) -> str:
    """Record this process, and those that it starts from now on. Returns why that cannot be, empty if it is done.

    Args:
        variables: what ``scalana run`` would have started the job with.
        parent: what a process knows of the rank that it descends from, empty for others.
        role: what it is in a job without ranks, empty in others.
    """
    session = sys.modules.get("scalana.runtime.session")
    other = os.environ.get(_RUN, "")
    if session is not None and session.core is not None:
        other = session.run_folder
    if other:  # a process that one of ours has just started has our folder
        return "" if other == variables[_RUN] else f"is not recorded: it belongs to a job that records into {other}"
    bootstrap = variables[_PATH]
    namespace: dict[str, Any] = {"__name__": "scalana_bootstrap"}
    _execute(os.path.join(bootstrap, "sitecustomize.py"), namespace)
    try:
        _enter(variables, parent)
        if role and not _serves_forks():
            os.environ.setdefault(_ROLE, role)
        namespace["_start"](bootstrap)
    finally:
        if role and os.environ.get(_ROLE) == role:  # what it starts may be something else
            del os.environ[_ROLE]
        session = sys.modules.get("scalana.runtime.session")
        if session is None or session.core is None:
            _leave(variables)
    return ""


def end(variables: Mapping[str, str]) -> str:
    """End the record that :func:`begin` began, if it goes on; what this process starts is no longer recorded."""
    session = sys.modules.get("scalana.runtime.session")
    if session is not None and session.core is not None and session.run_folder == variables[_RUN]:
        session.end_record()
    if os.environ.get(_RUN) == variables[_RUN]:
        _leave(variables)
    return "has ended its record"


def _serves_forks() -> bool:
    """Whether this process does nothing but fork others, for :mod:`multiprocessing`."""
    process = sys.modules.get("multiprocessing.process")
    is_forked = process is not None and process.parent_process() is not None
    return not is_forked and any("multiprocessing.forkserver" in word for word in sys.orig_argv)


def _execute(file: str, namespace: dict[str, Any]) -> None:
    namespace["__file__"] = file
    with open(file, encoding="utf-8") as opened:
        exec(compile(opened.read(), file, "exec", dont_inherit=True), namespace)


def _enter(variables: Mapping[str, str], parent: str) -> None:
    before = os.environ.get(_PATH)
    os.environ.update(variables)
    if before:
        os.environ[_PATH] = f"{variables[_PATH]}{os.pathsep}{before}"
    if parent:
        os.environ[_PARENT] = parent


def _leave(variables: Mapping[str, str]) -> None:
    entries = [one for one in os.environ.get(_PATH, "").split(os.pathsep) if one and one != variables[_PATH]]
    for name in (*variables, _PARENT):
        os.environ.pop(name, None)
    if entries:
        os.environ[_PATH] = os.pathsep.join(entries)


def _repeat(failure: BaseException) -> None:
    """What a handler of signals raised meanwhile is the program's: have the handler called again, outside of this."""
    number = _signal_of(failure)
    if number:
        import _thread
        import time

        program = _thread.get_ident()

        def again() -> None:
            time.sleep(_AGAIN_AFTER_S)
            _signal.pthread_kill(program, number)

        _thread.start_new_thread(again, ())


def _signal_of(failure: BaseException) -> int:
    """The signal whose handler raised something; 0 where it was none."""
    if isinstance(failure, KeyboardInterrupt):
        return _signal.SIGINT
    place, codes = failure.__traceback__, set()
    while place is not None:
        codes.add(place.tb_frame.f_code)
        place = place.tb_next
    for number in _signal.valid_signals():
        handler = _signal.getsignal(number)
        if getattr(getattr(handler, "__func__", handler), "__code__", None) in codes:
            return int(number)
    return 0
