"""A job that something happens to: ``program.py JOB FAULT TICK``. What it prints does not depend on time.

``$FAULT_MOMENT`` names a file into which the process writes its number and its clock right before the fault.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import gc
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

TICKS = 8


def say(text: str) -> None:
    """Print a line whole, at once."""
    os.write(1, f"{text}\n".encode())


def work(ms: float = 8.0) -> int:
    """Compute for some ms of CPU time, and rest a little."""
    until, total = time.thread_time() + ms / 1000, 0
    while time.thread_time() < until:
        total += sum(range(200))
    time.sleep(0.004)
    return total


def kill(number: int) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


def stop_and_go_on() -> None:
    """Stopped for a while, and continued from outside."""
    helper = subprocess.Popen(["sh", "-c", f"sleep 0.4; kill -CONT {os.getpid()}"])
    os.kill(os.getpid(), signal.SIGSTOP)
    helper.wait()


def raises() -> None:
    raise RuntimeError("planted")


def forks() -> None:
    """A child that works on and leaves without clean-up."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(3)
    say(f"child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


def forks_and_exits() -> None:
    """A child that leaves as a program does."""
    child = os.fork()
    if child == 0:
        work()
        sys.exit(4)
    say(f"child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


def forks_in_a_thread() -> None:
    thread = threading.Thread(target=forks)
    thread.start()
    thread.join()


def forks_and_executes() -> None:
    child = os.fork()
    if child == 0:
        os.execv("/bin/sh", ["sh", "-c", "echo from the shell; exit 6"])
    say(f"child {os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}")


def forks_a_daemon() -> None:
    """Two forks, a session of its own, and all files closed."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 64)
            work()
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)


def executes() -> None:
    os.execv(sys.executable, [sys.executable, "-c", "print('executed', flush=True); raise SystemExit(9)"])


def executes_in_a_thread() -> None:
    thread = threading.Thread(target=executes)
    thread.start()
    thread.join()


def starts_programs() -> None:
    for _ in range(10):
        say(subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout.strip())


def starts_without_environment() -> None:
    say(str(subprocess.run(["/bin/echo", "bare"], env={}, capture_output=True).stdout))
    os.environ.clear()


def many_threads() -> None:
    """As many threads as a host has that serves many."""
    go = threading.Event()
    threads = [threading.Thread(target=go.wait) for _ in range(1500)]
    for thread in threads:
        thread.start()
    work(40)
    go.set()
    for thread in threads:
        thread.join()
    say(str(len(threads)))


def short_threads() -> None:
    """Threads that come and go."""
    for _ in range(1500):
        thread = threading.Thread(target=len, args=("x",))
        thread.start()
        thread.join()


def deep_recursion() -> None:
    def down(depth: int) -> int:
        return 0 if depth == 0 else 1 + down(depth - 1)

    def very_deep() -> None:
        say(str(down(20_000)))

    try:
        down(10**6)
    except RecursionError as error:
        say(type(error).__name__)
    threading.stack_size(256 << 20)
    sys.setrecursionlimit(50_000)
    thread = threading.Thread(target=very_deep)
    thread.start()
    thread.join()
    threading.stack_size(0)


def handlers() -> None:
    """Handlers of all signals that a program may have one for; each is called once."""
    seen: list[int] = []
    numbers = [signal.SIGPROF, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGTERM,
               signal.SIGHUP, signal.SIGURG, signal.SIGRTMIN, signal.SIGRTMIN + 1]  # fmt: skip
    for number in numbers:
        signal.signal(number, lambda got, frame: seen.append(got))
        os.kill(os.getpid(), number)
    say(str(sorted(map(int, seen)) == sorted(map(int, numbers))))


def timer_storm() -> None:
    """A timer of the program's own that fires a thousand times a second."""
    count = [0]

    def tick(number: int, frame: object) -> None:
        count[0] += 1

    signal.signal(signal.SIGPROF, tick)
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)
    work(150)
    signal.setitimer(signal.ITIMER_PROF, 0)
    say(str(count[0] > 10))


def handler_raises() -> None:
    def interrupt(number: int, frame: object) -> None:
        raise TimeoutError("planted")

    signal.signal(signal.SIGALRM, interrupt)
    for _ in range(20):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.003)
            work(20)
            say("not interrupted")
        except TimeoutError as error:
            say(str(error))


def blocks_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def ignores_signals() -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGTERM)


def closes_files() -> None:
    """As programs do that become daemons, all but the standard streams; and the numbers are used again."""
    os.closerange(3, 4096)
    kept = [open(os.devnull, "rb") for _ in range(40)]
    work(30)
    say(str(len(kept)))


def few_files() -> None:
    low = max(int(name) for name in os.listdir("/proc/self/fd")) + 1
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def file_limit() -> None:
    """No file may grow any more, as on a disk that is full."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def little_memory() -> None:
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (192 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        bytearray(4 << 30)
    except MemoryError as error:
        say(type(error).__name__)


def run_folder() -> str:
    return os.environ.get("SCALANA_RUN_DIR", "")


def folder_removed() -> None:
    shutil.rmtree(run_folder() or "/nonexistent", ignore_errors=True)


def folder_replaced() -> None:
    """A file stands where the folder of the records was: nothing can be made there."""
    records = os.path.join(run_folder() or "/nonexistent", "records")
    shutil.rmtree(records, ignore_errors=True)
    if run_folder():
        with open(records, "w"):
            pass
    say(subprocess.run([sys.executable, "-c", "print('new process')"], capture_output=True, text=True).stdout.strip())


def truncates_record() -> None:
    for folder, _, files in os.walk(run_folder() or "/nonexistent"):
        for name in files:
            with open(os.path.join(folder, name), "r+b") as file:
                file.truncate(10)


def changes_folder() -> None:
    os.makedirs("gone", exist_ok=True)
    os.chdir("gone")
    os.rmdir(os.getcwd())
    os.umask(0o777)


def sets_tracers() -> None:
    calls: list[str] = []
    sys.settrace(lambda frame, event, arg: None)
    sys.setprofile(lambda frame, event, arg: calls.append(event) if len(calls) < 100 else None)
    work()
    sys.setprofile(None)
    sys.settrace(None)
    say(str(len(calls) > 0))


def dumps_tracebacks() -> None:
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True)
    faulthandler.dump_traceback_later(0.02, repeat=True)
    os.kill(os.getpid(), signal.SIGUSR2)
    work(80)
    faulthandler.cancel_dump_traceback_later()


def segfaults() -> None:
    ctypes.string_at(0)


def handles_faults() -> None:
    faulthandler.enable()
    ctypes.string_at(0)


def atexit_raises() -> None:
    atexit.register(raises)
    atexit.register(lambda: say("at exit"))


def daemon_threads() -> None:
    """Threads that still run when the program ends."""
    for _ in range(8):
        threading.Thread(target=lambda: [work(2) for _ in range(10**6)], daemon=True).start()


def collects() -> None:
    gc.freeze()
    gc.set_threshold(5)
    kept: list[Any] = []
    for _ in range(20_000):
        kept = [kept[:2], object()]
    gc.set_threshold(700)
    say(str(gc.isenabled()))


def generators() -> None:
    """Frames that come and go, are suspended and thrown into."""

    def inner(depth: int) -> Any:
        try:
            yield depth
            yield from inner(depth + 1)
        finally:
            work(0.05)

    for _ in range(50):
        running = inner(0)
        for _ in range(20):
            next(running)
        running.close()


def event_loop() -> None:
    import asyncio

    async def one(number: int) -> int:
        await asyncio.sleep(0.001)
        return number

    async def main() -> int:
        task = asyncio.ensure_future(asyncio.sleep(10))
        task.cancel()
        return sum(await asyncio.gather(*(one(number) for number in range(200))))

    say(str(asyncio.run(main())))


def spawns() -> None:
    import multiprocessing

    for method in ("fork", "spawn", "forkserver"):
        process = multiprocessing.get_context(method).Process(target=abs, args=(-1,))
        process.start()
        process.join()
        say(f"{method} {process.exitcode}")


FAULTS: dict[str, Callable[[], None]] = {
    "none": lambda: None,
    "SIGKILL": kill(signal.SIGKILL),
    "SIGTERM": kill(signal.SIGTERM),
    "SIGINT": kill(signal.SIGINT),
    "SIGHUP": kill(signal.SIGHUP),
    "SIGQUIT": kill(signal.SIGQUIT),
    "SIGSEGV": kill(signal.SIGSEGV),
    "SIGBUS": kill(signal.SIGBUS),
    "SIGSTOP, SIGCONT": stop_and_go_on,
    "exception": raises,
    "os._exit": lambda: os._exit(7),
    "sys.exit": lambda: sys.exit(5),
    "abort": os.abort,
    "segmentation fault": segfaults,
    "faulthandler, segmentation fault": handles_faults,
    "fork, os._exit": forks,
    "fork, sys.exit": forks_and_exits,
    "fork in a thread": forks_in_a_thread,
    "fork, exec": forks_and_executes,
    "daemon": forks_a_daemon,
    "exec": executes,
    "exec in a thread": executes_in_a_thread,
    "subprocesses": starts_programs,
    "empty environment": starts_without_environment,
    "1500 threads": many_threads,
    "1500 short threads": short_threads,
    "deep recursion": deep_recursion,
    "signal handlers": handlers,
    "timer of the program": timer_storm,
    "handler that raises": handler_raises,
    "signals blocked": blocks_signals,
    "signals ignored": ignores_signals,
    "files closed": closes_files,
    "few files": few_files,
    "full disk": file_limit,
    "little memory": little_memory,
    "run folder removed": folder_removed,
    "run folder not writable": folder_replaced,
    "records truncated": truncates_record,
    "working directory removed": changes_folder,
    "settrace, setprofile": sets_tracers,
    "faulthandler": dumps_tracebacks,
    "atexit that raises": atexit_raises,
    "daemon threads": daemon_threads,
    "garbage collection": collects,
    "generators": generators,
    "event loop": event_loop,
    "multiprocessing": spawns,
}
"""What may happen, by name."""


def happen(fault: str) -> None:
    """Note the moment, and let it happen."""
    file = os.environ.get("FAULT_MOMENT")
    if file:
        with open(file, "w") as opened:
            opened.write(f"{os.getpid()} {time.monotonic_ns()}")
    FAULTS[fault]()


def ticks(fault: str, at: int, does: Callable[[int], object]) -> None:
    for tick in range(TICKS):
        if tick == at:
            happen(fault)
        does(tick)
        say(f"tick {tick}")
    say("end")


def threaded(fault: str, at: int) -> None:
    """Other threads compute meanwhile."""
    is_over = threading.Event()

    def computes() -> None:
        while not is_over.is_set():
            work(2)

    threads = [threading.Thread(target=computes, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    ticks(fault, at, lambda tick: work())
    is_over.set()


def in_task(job: tuple[str, int, int]) -> int:
    fault, at, tick = job
    if tick == at:
        happen(fault)
    work()
    return tick


def pool(fault: str, at: int) -> None:
    """It happens in the process that has a pool."""
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(2) as workers:
        ticks(fault, at, lambda tick: workers.map(in_task, [("none", -1, n) for n in range(4)]))


def executor(fault: str, at: int) -> None:
    """It happens in a worker."""
    import concurrent.futures

    try:
        with concurrent.futures.ProcessPoolExecutor(1) as workers:
            for tick in range(TICKS):
                say(f"result {workers.submit(in_task, (fault, at, tick)).result()}")
    except BaseException as error:
        say(type(error).__name__)


def mpi(fault: str, at: int) -> None:
    """It happens in rank 1 of a job of MPI."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    if comm.rank == 1:
        ticks(fault, at, lambda tick: comm.allreduce(tick))
    else:
        for tick in range(TICKS):
            comm.allreduce(tick)


def torch(fault: str, at: int) -> None:
    """It happens in rank 1 of a job of torch.distributed."""
    import torch.distributed as dist
    from torch import ones

    dist.init_process_group("gloo")
    if dist.get_rank() == 1:
        ticks(fault, at, lambda tick: dist.all_reduce(ones(4)))
    else:
        for _ in range(TICKS):
            dist.all_reduce(ones(4))
    dist.destroy_process_group()


def ray(fault: str, at: int) -> None:
    """It happens in a task of Ray."""
    import ray as cluster

    cluster.init(num_cpus=1, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    task = cluster.remote(max_retries=0)(in_task)
    for tick in range(TICKS):
        try:
            say(f"result {cluster.get(task.remote((fault, at, tick)))}")
        except Exception as error:
            say(type(error).__mro__[-4].__name__)
    cluster.shutdown()


JOBS: dict[str, Callable[[str, int], None]] = {
    "plain": lambda fault, at: ticks(fault, at, lambda tick: work()),
    "threads": threaded,
    "pool": pool,
    "executor": executor,
    "mpi": mpi,
    "torch": torch,
    "ray": ray,
}

if __name__ == "__main__":
    JOBS[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
