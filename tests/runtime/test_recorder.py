"""The recorder in real processes: it must record every one of them, and none may notice."""

from __future__ import annotations

import json
import os
import signal
import sys
import sysconfig
from pathlib import Path

import pytest

from scalana.graphs.host_cores import core_numbers
from scalana.runtime import recorder

from . import jobs

RANK = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1"}


def by_pid(folder: Path) -> dict[int, object]:
    return {int(record.meta["pid"]): record for record in jobs.records(folder)}


# ---- what a process says of itself ----


def test_a_process_describes_itself(tmp_path: Path) -> None:
    jobs.python("import time; time.sleep(0.05)", tmp_path, extra={"SCALANA_RATE_HZ": "50"}, cwd=tmp_path)
    (record,) = jobs.records(tmp_path)
    meta = record.meta
    assert record.role == "process" and record.rank == -1 and record.ended
    assert meta["cwd"] == str(tmp_path)
    assert json.loads(meta["argv"]) == [sys.executable, "-c", "import time; time.sleep(0.05)"]
    assert float(meta["rate_hz"]) == 50
    assert int(meta["cores"]) == len(os.sched_getaffinity(0))
    assert core_numbers(meta) == frozenset(os.sched_getaffinity(0))
    assert int(meta["host_cores"]) == os.cpu_count()
    assert meta["host"] == os.uname().nodename and meta["boot_id"]
    assert sysconfig.get_paths()["stdlib"] in meta["lib_dirs"].split(os.pathsep)
    assert sysconfig.get_paths()["purelib"] in meta["lib_dirs"].split(os.pathsep)


@pytest.mark.parametrize(
    "variables",
    [
        RANK,
        {"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_LOCAL_RANK": "1"},
        {"PMI_RANK": "3", "PMI_SIZE": "8", "MPI_LOCALRANKID": "1"},
        {"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_LOCALID": "1"},
    ],
)
def test_a_rank_knows_its_rank_from_the_launcher(tmp_path: Path, variables: dict[str, str]) -> None:
    jobs.python("pass", tmp_path, extra=variables)
    (record,) = jobs.records(tmp_path)
    assert record.role == "rank" and record.rank == 3
    assert record.meta["world_size"] == "8" and record.meta["local_rank"] == "1"


def test_command_lines_of_any_characters_are_json() -> None:
    words = ['say "hi"', "back\\slash", "tab\tnewline\n\x7f", "naïve ☃ 🎿", "\udc80", ""]
    assert json.loads(recorder._as_json(words)) == words


def test_exit_status_of_an_uncaught_exception_is_known(tmp_path: Path) -> None:
    assert jobs.python("1 / 0", tmp_path).returncode == 1
    (record,) = jobs.records(tmp_path)
    assert record.ended and record.status == 1


@pytest.mark.parametrize("thread", ["main", "another"])
def test_a_process_that_ends_at_once_has_ended_its_record(tmp_path: Path, thread: str) -> None:
    leave = {"main": "os._exit(5)", "another": "threading.Thread(target=os._exit, args=(5,)).start(); time.sleep(60)"}
    assert jobs.python(f"import os, threading, time; {leave[thread]}", tmp_path).returncode == 5
    (record,) = jobs.records(tmp_path)
    assert record.ended and record.status == 5


def test_a_record_that_cannot_end_does_not_keep_a_program_that_ends_at_once(tmp_path: Path) -> None:
    code = """
import os, time
from scalana.runtime import recorder, session
class Stuck:
    def stop(self, status): time.sleep(600)
session.core, recorder.LAST_FLUSH_S = Stuck(), 0.1
os._exit(5)
"""
    assert jobs.python(code, tmp_path, timeout_s=60).returncode == 5


def test_what_is_no_status_is_refused_and_recording_goes_on(tmp_path: Path) -> None:
    code = "import os\ntry: os._exit('no')\nexcept TypeError as error: print(error)"
    plain, recorded = jobs.python(code), jobs.python(code, tmp_path)
    assert (recorded.returncode, recorded.stdout) == (plain.returncode, plain.stdout) == (0, plain.stdout)
    (record,) = jobs.records(tmp_path)
    assert record.ended and record.status == -1


# ---- the program does not notice ----

LOOK_AROUND = """
import sys, os, warnings, threading, signal
print(sys.path, sys.argv, sys.excepthook is sys.__excepthook__, sys.flags, sorted(sys.warnoptions))
print('sitecustomize' in sys.modules, warnings.filters, threading.active_count())
print([signal.getsignal(number) for number in (2, 10, 12, 15)])
print(sys.stdout, sys.stdin.isatty(), os.getcwd())
print('to stderr', file=sys.stderr)
"""


def test_a_program_sees_the_same_with_and_without(tmp_path: Path) -> None:
    plain = jobs.python(LOOK_AROUND)
    recorded = jobs.python(LOOK_AROUND, tmp_path)
    assert recorded.stdout == plain.stdout and recorded.stderr == plain.stderr
    assert recorded.returncode == plain.returncode == 0
    assert jobs.records(tmp_path)


def test_no_module_is_imported_for_the_program_but_ours(tmp_path: Path) -> None:
    code = "import sys; print(*sorted(sys.modules))"
    plain = set(jobs.python(code).stdout.split())
    recorded = set(jobs.python(code, tmp_path).stdout.split())
    extra = {name for name in recorded - plain if not name.startswith("scalana")}
    assert extra <= {"__future__", "atexit", "gc"}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit('message')", 1),
        ("raise ValueError('no')", 1),
        ("import os; os._exit(5)", 5),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", -signal.SIGINT),
        ("import os; os.abort()", -signal.SIGABRT),
        ("def f(): f()\nf()", 1),
    ],
)
def test_programs_end_as_they_do_unrecorded(tmp_path: Path, code: str, status: int) -> None:
    plain, recorded = jobs.python(code), jobs.python(code, tmp_path)
    assert recorded.returncode == plain.returncode == status
    assert (recorded.stdout, recorded.stderr) == (plain.stdout, plain.stderr)
    assert len(jobs.records(tmp_path)) == 1


def test_an_unusable_run_folder_is_no_trouble(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("in the way")
    done = jobs.python("print('fine')", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    assert file.read_text() == "in the way"


def test_without_a_run_folder_nothing_happens(tmp_path: Path) -> None:
    done = jobs.python(
        "import sys; print([name for name in sys.modules if name.startswith('scalana')])",
        extra={"PYTHONPATH": str(jobs.BOOTSTRAP)},
        cwd=tmp_path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")
    assert list(tmp_path.iterdir()) == []


# ---- sitecustomize ----


def test_the_users_sitecustomize_runs_in_our_place(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.mark = __file__\nprint('site', __name__)\n")
    code = "import sys; print(mark, sys.modules['sitecustomize'].__file__, sys.path)"
    extra = {"PYTHONPATH": str(tmp_path)}
    plain = jobs.python(code, extra=extra)
    recorded = jobs.python(code, tmp_path / "run", extra=extra)
    assert recorded.stdout == plain.stdout and "site sitecustomize" in plain.stdout
    assert recorded.stderr == plain.stderr == ""
    assert len(jobs.records(tmp_path / "run")) == 1


def test_an_error_in_the_users_sitecustomize_is_told_as_ever(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("raise LookupError('broken')\n")
    extra = {"PYTHONPATH": str(tmp_path)}
    plain = jobs.python("print(1)", extra=extra)
    recorded = jobs.python("print(1)", tmp_path / "run", extra=extra)
    assert "LookupError: broken" in plain.stderr
    assert (recorded.stdout, recorded.stderr) == (plain.stdout, plain.stderr)
    assert len(jobs.records(tmp_path / "run")) == 1


def test_where_the_extension_cannot_be_loaded_a_note_says_so(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['scalana.runtime._core'] = None\n")
    done = jobs.python("print('fine')", tmp_path / "run", extra={"PYTHONPATH": str(tmp_path)})
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    (note,) = (tmp_path / "run" / "records").iterdir()
    assert note.suffix == ".note" and "_core" in note.read_text()


def test_where_frames_cannot_be_read_natively_a_python_thread_samples(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("from scalana.runtime import _core\n_core.supported = lambda: False\n")
    extra = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{jobs.ROOT}"}
    done = jobs.python("import time; time.sleep(0.3); print('fine')", tmp_path / "run", extra=extra)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fine\n", "")
    (record,) = jobs.records(tmp_path / "run")
    assert record.meta["sampler"] == "python" and record.ended


def test_scalana_can_be_imported_in_a_recorded_program(tmp_path: Path) -> None:
    code = """
import sys
before = sys.modules['scalana.runtime.recorder']
import scalana
import scalana.runtime.recorder
from scalana import region
from scalana.runtime import spans
assert scalana.runtime.recorder is before and before.session.active()
assert region is spans.region and scalana.__version__
assert 'profile' in dir(scalana)
try:
    scalana.nothing_of_the_sort
except AttributeError as error:
    print(error)
"""
    done = jobs.python(code, tmp_path / "run", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "module 'scalana' has no attribute 'nothing_of_the_sort'\n"


# ---- children ----


def test_children_of_a_rank_say_whose_they_are(tmp_path: Path) -> None:
    code = """
import os, subprocess, sys
print(os.getpid())
child = os.fork()
if child == 0:
    grandchild = os.fork()
    if grandchild == 0:
        sys.exit(0)
    os.waitpid(grandchild, 0)
    sys.exit(0)
os.waitpid(child, 0)
subprocess.run([sys.executable, '-c', 'pass'], check=True)
"""
    done = jobs.python(code, tmp_path, extra=RANK)
    found = by_pid(tmp_path)
    rank = found.pop(int(done.stdout.split()[0]))
    assert rank.role == "rank" and len(found) == 3
    for child in found.values():
        assert child.role == "child" and child.rank == -1 and child.ended
        assert child.meta["parent_record"] == rank.file.name


def test_children_of_no_rank_are_processes(tmp_path: Path) -> None:
    jobs.python("import os\nif os.fork() == 0:\n    os._exit(0)\nos.wait()", tmp_path)
    assert [record.role for record in jobs.records(tmp_path)] == ["process", "process"]


def test_a_rank_that_replaces_itself_is_still_the_rank(tmp_path: Path) -> None:
    code = "import os, sys; os.execv(sys.executable, [sys.executable, '-c', 'pass'])"
    jobs.python(code, tmp_path, extra=RANK)
    assert [(record.role, record.rank) for record in jobs.records(tmp_path)] == [("rank", 3)] * 2


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_end_their_records(tmp_path: Path, method: str) -> None:
    program = tmp_path / "pool.py"
    program.write_text(
        f"""
import multiprocessing, os
def work(number):
    return os.getpid()
if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    processes = [context.Process(target=work, args=(1,)) for _ in range(2)]
    for process in processes: process.start()
    for process in processes: process.join()
    print(os.getpid(), *(process.pid for process in processes), *(process.exitcode for process in processes))
"""
    )
    done = jobs.run([sys.executable, program], tmp_path / "run", extra=RANK)
    assert done.returncode == 0 and done.stderr == ""
    rank, *workers, first, second = map(int, done.stdout.split())
    assert first == second == 0
    found = by_pid(tmp_path / "run")
    for worker in workers:
        assert found[worker].role == "child" and found[worker].ended
        assert found[worker].meta["parent_record"] == found[rank].file.name


def test_a_killed_process_leaves_what_it_had_written(tmp_path: Path) -> None:
    code = """
import os, signal, time
until = time.monotonic() + 2.5
while time.monotonic() < until:
    sum(range(1000))
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert jobs.python(code, tmp_path, extra=RANK).returncode == -signal.SIGKILL
    (record,) = jobs.records(tmp_path)
    assert not record.ended and record.rank == 3
    assert len(record.samples) > 0


@pytest.mark.slow
def test_a_fork_amid_threads_and_records_does_not_hang(tmp_path: Path) -> None:
    code = """
import os, threading, time
from scalana.runtime import spans
stop = False
def busy():
    while not stop:
        with spans.region("busy"):
            sum(range(100))
threads = [threading.Thread(target=busy) for _ in range(4)]
for thread in threads: thread.start()
for _ in range(30):
    child = os.fork()
    if child == 0:
        with spans.region("child"):
            pass
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for thread in threads: thread.join()
"""
    done = jobs.python(code, tmp_path, extra=RANK, timeout_s=60)
    assert done.returncode == 0, done.stderr
    assert len(jobs.records(tmp_path)) == 31
