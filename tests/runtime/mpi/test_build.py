"""What is compiled, and when."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from scalana.graphs.readers.folder.native_frames import is_foreign
from scalana.runtime.mpi import build, generate, job, slots
from scalana.runtime.mpi.forwarding import forwarding
from scalana.runtime.mpi.job import mpi_compilers, programs, uses_mpi
from scalana.runtime.mpi.kept import Kept, cache_folder, wrappers_name
from scalana.runtime.mpi.prepare import prepare
from scalana.runtime.mpi.prototypes import prototypes

from .conftest import ROOT, Mpi

HEADER = """
typedef int MPI_Comm; typedef int MPI_Request; typedef int MPI_Datatype;
int MPI_Barrier(MPI_Comm comm) __attribute__((visibility("default")));
int PMPI_Barrier(MPI_Comm comm) __attribute__((visibility("default")));
int PMPI_Send(const void *buf, int count, MPI_Datatype datatype, int dest, int tag,
              MPI_Comm comm)
    __attribute__((pointer_with_type_tag(MPI,1,3)));
int PMPI_Startall(int count, MPI_Request array_of_requests[]);
int PMPI_Comm_rank(MPI_Comm comm, int *rank);
"""


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_prototypes_are_those_of_the_header() -> None:
    found = prototypes(HEADER)
    assert found["MPI_Send"].parameters() == ("const void *a0, int a1, MPI_Datatype a2, int a3, int a4, MPI_Comm a5")
    assert found["MPI_Startall"].parameters() == "int a0, MPI_Request a1[]"


def test_only_names_of_this_mpi_are_defined() -> None:
    assembly = slots.slots(HEADER)
    assert ".globl MPI_Send\n" in assembly
    assert "MPI_Recv" not in assembly and "MPI_Send_c" not in assembly
    source = generate.wrappers(HEADER)
    assert "PMPI_Send(a0, a1, a2, a3, a4, a5)" in source
    assert "wrap_MPI_Recv" not in source and "wrap_MPI_Comm_rank" not in source


@pytest.mark.parametrize(
    ("words", "uses"),
    [
        (["mpirun", "-n", "4", "./app"], True),
        (["/opt/bin/mpiexec.hydra", "app"], True),
        (["srun", "app"], True),
        (["torchrun", "train.py"], False),
        (["./script.sh"], True),
        (["./plain.sh"], False),
        (["python", "app.py"], True),
        (["bash", "-c", "cd run; ulimit -n 64;mpirun -n 4 ./app"], True),
        (["sh", "-c", "exec ./script.sh 'it"], True),
        (["sh", "-c", "./plain.sh && make mpirunner"], False),
        (["make", "-C", "folder", "run"], True),
        (["env", "N=2", "make", "run"], False),
        (["ctest"], False),
        (["./outer.sh"], True),
        (["bash", "outer.sh"], True),
        (["./variable.sh"], True),
        (["./itself.sh"], False),
    ],
)
def test_which_jobs_use_mpi(words: list[str], uses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    executable(tmp_path / "script.sh", "#!/bin/sh\nmpirun -n 2 ./app\n")
    executable(tmp_path / "plain.sh", "#!/bin/sh\necho compiling\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "Makefile").write_text("run: app\n\tmpirun -n 2 ./app\n")
    (tmp_path / "Makefile").write_text("all:\n\tcc app.c\n")
    executable(tmp_path / "outer.sh", "#!/bin/sh\ncd steps && ./middle.sh\n")
    (tmp_path / "steps").mkdir()
    executable(tmp_path / "steps" / "inner.sh", "#!/bin/sh\nmpiexec -n 2 ./app\n")
    executable(tmp_path / "middle.sh", "#!/bin/sh\n. steps/inner.sh\n")
    executable(tmp_path / "variable.sh", "#!/bin/sh\n${MPIRUN:-none} -n 2 ./app\n")
    executable(tmp_path / "itself.sh", "#!/bin/sh\ntest $1 || ./itself.sh 1\n")
    (tmp_path / "app.py").write_text("from mpi4py import MPI\n")
    (tmp_path / "train.py").write_text("import torch\n")
    environ = {"PATH": str(tmp_path)}
    assert uses_mpi(programs(words, environ), environ) is uses


def test_the_compiler_of_a_launcher_that_only_a_script_names(tmp_path: Path) -> None:
    folder = tmp_path / "mpi" / "bin"
    folder.mkdir(parents=True)
    compiler = executable(folder / "mpicc", "#!/bin/sh\n")
    launcher = executable(folder / "mpirun", "#!/bin/sh\n")
    job = executable(tmp_path / "job.sh", f"#!/bin/sh\nexec {launcher} -n 2 ./app\n")
    environ = {"PATH": "/nowhere"}
    for words in ([str(job)], ["sh", "-c", str(job)], ["sh", "-c", f"{launcher} -n 2 ./app"]):
        assert mpi_compilers(programs(words, environ), environ) == [str(compiler)]


def test_what_lies_among_the_programs_of_the_system_says_least(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``srun`` beside a system's MPI, and a Python of an environment with an MPI of its own."""
    folders = [tmp_path / name for name in ("system", "venv")]
    for folder, program in zip(folders, ("srun", "python"), strict=True):
        folder.mkdir()
        for name in (program, "mpicc"):
            executable(folder / name, "#!/bin/sh\n")
    monkeypatch.setattr(job, "_SYSTEM", frozenset({str(folders[0])}))
    environ = {"PATH": os.pathsep.join(map(str, folders))}
    assert mpi_compilers(["srun", "python", "app.py"], environ)[0] == str(folders[1] / "mpicc")
    executable(folders[0] / "mpirun", "#!/bin/sh\n")
    assert mpi_compilers(["mpirun", "python", "app.py"], environ)[0] == str(folders[0] / "mpicc")


def test_other_jobs_get_nothing(tmp_path: Path) -> None:
    prepared = prepare(["true"], {"PATH": str(tmp_path)})
    assert prepared.environment == {} and prepared.notes == []
    assert "no mpicc" in prepare(["true"], {"PATH": str(tmp_path)}, expected=True).notes[0]


@pytest.mark.parametrize(
    ("files", "command", "before", "list_is"),
    [
        (["ompi_info", "prterun"], ["mpirun", "-x", "A", "app"], "", "LD_PRELOAD;PYTHONPATH;SCALANA_RUN_DIR"),
        (["ompi_info", "prterun"], ["mpirun", "app"], "MINE", "MINE;LD_PRELOAD;PYTHONPATH;SCALANA_RUN_DIR"),
        (["ompi_info"], ["mpirun", "app"], "", "LD_PRELOAD;PYTHONPATH;SCALANA_RUN_DIR"),
        (["ompi_info"], ["mpirun", "-x", "A", "app"], "", None),
        (["ompi_info", "prterun"], ["timeout", "60", "mpirun", "app"], "", "LD_PRELOAD;PYTHONPATH;SCALANA_RUN_DIR"),
        (["ompi_info", "prterun"], ["sh", "-c", "mpirun app"], "", "LD_PRELOAD=x;PYTHONPATH=x;SCALANA_RUN_DIR=x"),
        (["ompi_info", "prterun"], ["sh", "-c", "LD_PRELOAD=my.so mpirun app"], "", None),
        (["ompi_info", "prterun"], ["./mine.sh"], "", None),
        (["ompi_info"], ["sh", "-c", "mpirun app"], "", None),
        (["ompi_info", "prterun"], ["env", "-u", "PYTHONPATH", "mpirun", "app"], "", None),
        (["mpichversion"], ["mpirun", "app"], "", None),
    ],
)
def test_what_open_mpi_is_told_to_hand_on(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: list[str],
    command: list[str],
    before: str,
    list_is: str | None,
) -> None:
    for file in files:
        (tmp_path / file).touch()
    environ = dict.fromkeys(("PYTHONPATH", "SCALANA_RUN_DIR", "LD_PRELOAD"), "x")
    environ |= {"OMPI_MCA_mca_base_env_list": before} if before else {}
    executable(tmp_path / "mpirun", "#!/bin/sh\n")
    executable(tmp_path / "mine.sh", "#!/bin/sh\nmodule load mpi\nmpirun -n 2 ./app\n")
    environ["PATH"] = str(tmp_path)
    monkeypatch.chdir(tmp_path)
    told = forwarding(command, environ)
    assert told == ({"OMPI_MCA_mca_base_env_list": list_is} if list_is else {})
    (tmp_path / ".openmpi").mkdir()
    (tmp_path / ".openmpi" / "mca-params.conf").write_text("mca_base_env_list = MINE\n")
    assert forwarding(command, {**environ, "HOME": str(tmp_path)}) == {}


def test_a_compiler_that_fails_is_told_and_the_job_goes_on(tmp_path: Path) -> None:
    executable(tmp_path / "mpirun", "#!/bin/sh\n")
    environ = {"PATH": str(tmp_path), "SCALANA_CACHE": str(tmp_path / "cache")}
    assert "no mpicc" in prepare(["mpirun", "app"], environ).notes[0]
    compiler = executable(tmp_path / "mpicc", f"#!/bin/sh\ncase $1 in -show) echo cc -L{tmp_path};; *) exit 1;; esac\n")
    (tmp_path / "libmpi.so.40").write_bytes(b"library")
    told: list[str] = []
    prepared = prepare(["mpirun", "app"], environ, told.append)
    assert len(told) == 1 and str(compiler) in told[0] and "once" in told[0]
    assert prepared.environment == {}
    assert str(compiler) in prepared.notes[0] and "not recorded" in prepared.notes[0]


def test_where_the_user_has_no_folder_the_run_keeps_the_recorder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    environ = {"SCALANA_CACHE": str(tmp_path / "file"), "SCALANA_RUN_DIR": str(tmp_path / "run")}
    assert cache_folder(environ) == str(tmp_path / "run" / "mpi")
    assert (tmp_path / "run" / "mpi").is_dir()
    assert cache_folder({**environ, "SCALANA_CACHE": str(tmp_path)}).startswith(str(tmp_path / "mpi"))


def test_a_cache_from_which_nothing_can_be_preloaded_is_named(tmp_path: Path) -> None:
    executable(tmp_path / "mpirun", "#!/bin/sh\n")
    executable(tmp_path / "mpicc", "#!/bin/sh\n")
    environ = {"PATH": str(tmp_path), "SCALANA_CACHE": str(tmp_path / "my cache"), "HOME": str(tmp_path)}
    prepared = prepare(["mpirun", "app"], environ)
    assert prepared.environment == {}
    assert "my cache" in prepared.notes[0] and "set SCALANA_CACHE" in prepared.notes[0]


@pytest.mark.parametrize("full", [True, False])
def test_where_there_is_no_room_the_run_keeps_the_recorder(
    full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(kept: Kept) -> None:
        for name in kept.missing:
            Path(name).touch()

    monkeypatch.setattr(build, "build", compiled)
    executable(tmp_path / "mpirun", "#!/bin/sh\n")
    executable(tmp_path / "mpicc", f"#!/bin/sh\necho cc -L{tmp_path}\n")
    (tmp_path / "libmpi.so.40").write_bytes(b"library")
    environ = {
        "PATH": str(tmp_path),
        "SCALANA_CACHE": str(tmp_path / "cache"),
        "SCALANA_RUN_DIR": str(tmp_path / "run"),
    }
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    told: list[str] = []
    try:
        if full:  # files of more than 64 KB fail; Python ignores the signal
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        prepared = prepare(["mpirun", "app"], environ, told.append)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    folder = Path(prepared.environment["SCALANA_MPI_WRAPPERS"])
    assert prepared.environment["LD_PRELOAD"].startswith(f"{folder}/") and len(told) == 1
    if full:
        assert folder == tmp_path / "run" / "mpi" and f"no space in {tmp_path}/cache/mpi/" in told[0]
    else:
        assert folder.parent == tmp_path / "cache" / "mpi" and "once" in told[0]
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
        try:
            assert prepare(["mpirun", "app"], environ, told.append).environment == prepared.environment
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert len(told) == 1, "what is there already is used where nothing can be written"


def test_another_library_gets_wrappers_of_its_own(tmp_path: Path) -> None:
    library = tmp_path / "libmpi.so"
    library.write_bytes(b"one")
    first = wrappers_name(str(library))
    assert wrappers_name(str(library)) == first
    os.utime(library, ns=(1, 1))
    second = wrappers_name(str(library))
    library.write_bytes(b"larger")
    assert len({first, second, wrappers_name(str(library))}) == 3
    link = tmp_path / "link.so"
    link.symlink_to(library)
    assert wrappers_name(str(link)) == wrappers_name(str(library))
    assert is_foreign(f"/cache/{second}") and is_foreign(f"/cache/{second.removesuffix('.so')}-preload.so")


def test_an_mpi_inside_of_the_program_is_told(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    source = tmp_path / "program.c"
    source.write_text(
        "int PMPI_Init(int *argc, char ***argv) { return argc == 0 && argv; }\nint main(void) { return 0; }\n"
    )
    for name in ("whole", "plain"):
        subprocess.run([compiler, "-w", source, "-o", tmp_path / name], check=True)
        source.write_text("int main(void) { return 0; }\n")
    executable(tmp_path / "mpirun", "#!/bin/sh\n")
    environ = {"PATH": str(tmp_path), "SCALANA_CACHE": str(tmp_path / "cache")}
    notes = prepare(["mpirun", "-n", "2", str(tmp_path / "whole")], environ).notes
    assert "statically linked MPI" in notes[-1] and str(tmp_path / "whole") in notes[-1]
    assert not any("statically" in note for note in prepare(["mpirun", str(tmp_path / "plain")], environ).notes)


def test_a_program_that_only_its_libraries_tell_of(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin").mkdir()
    mpicc = executable(tmp_path / "bin" / "mpicc", "#!/bin/sh\n")
    (tmp_path / "mpi.c").write_text("int MPI_Init(void) { return 0; }\n")
    (tmp_path / "main.c").write_text("int MPI_Init(void);\nint main(void) { return MPI_Init(); }\n")
    library, app = tmp_path / "lib" / "libmpi.so.4040", tmp_path / "app"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libmpi.so.4040", "mpi.c", "-o", library], cwd=tmp_path, check=True
    )
    subprocess.run([compiler, "main.c", library, f"-Wl,-rpath,{library.parent}", "-o", app], cwd=tmp_path, check=True)
    environ = {"PATH": "/nowhere", "SCALANA_CACHE": str(tmp_path / "cache")}
    for _ in range(2):  # the second time the answer is kept
        assert uses_mpi([str(app)], environ)
        assert mpi_compilers([str(app)], environ) == [str(mpicc)]
    library.rename(library.with_suffix(".away"))
    assert not uses_mpi([str(app)], environ), "the program cannot find it now"
    library.with_suffix(".away").rename(library)
    assert uses_mpi([str(app)], environ)
    whole = app.read_bytes()
    beyond = whole[:32] + b"\xff" * 8 + whole[40:]
    for name, content in {"cut": whole[:70], "beyond": beyond}.items():
        (tmp_path / name).write_bytes(content)
        assert not uses_mpi([str(tmp_path / name)], environ), "half a program is no reason to fail"


def test_a_job_does_not_wait_for_what_compiles(mpi: Mpi) -> None:
    program = (
        "import os, sys\n"
        "from scalana.runtime.mpi.prepare import prepare\n"
        f"assert prepare(['{mpi.folder}/mpirun', 'app'], os.environ).environment\n"
        "print(*sys.modules)\n"
    )
    words = [sys.executable, "-c", program]
    subprocess.run(words, env=mpi.environment(), check=True, capture_output=True)  # where it is not there yet
    loaded = subprocess.run(words, env=mpi.environment(), check=True, capture_output=True, text=True).stdout.split()
    heavy = {"scalana.runtime.mpi.build", "scalana.runtime.mpi.generate", "concurrent.futures", "dataclasses", "numpy"}
    assert not heavy & set(loaded)


SLOW = """#!/bin/sh
case $1 in
-show) echo cc -L{folder};;
*) echo $$ >>{folder}/started; sh -c 'echo $$ >>{folder}/started; exec sleep 60'; exit 1;;
esac
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_while_compilers_run_ends_them_and_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    executable(tmp_path / "mpirun", "#!/bin/sh\n")
    executable(tmp_path / "mpicc", SLOW.format(folder=tmp_path))
    (tmp_path / "libmpi.so.40").write_bytes(b"library")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCALANA_")}
    environ = {**kept, "PATH": f"{tmp_path}:{kept['PATH']}", "SCALANA_CACHE": str(tmp_path / "cache")}
    environ["PYTHONPATH"] = str(ROOT)
    words = [sys.executable, "-m", "scalana", "run", "-o", "job", "--", "mpirun", "app"]
    process = subprocess.Popen(words, cwd=tmp_path, env=environ, stderr=subprocess.PIPE, start_new_session=True)
    started = tmp_path / "started"
    until = time.monotonic() + 30
    while not started.exists() or len(started.read_text().split()) < 2:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == -number and b"Traceback" not in errors
    assert not list((tmp_path / "cache").rglob("tmp*")) and not (tmp_path / "job").exists()
    until = time.monotonic() + 10
    while any(_runs(pid) for pid in started.read_text().split()):
        assert time.monotonic() < until
        time.sleep(0.01)


def _runs(pid: str) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # one that has ended has none
    except OSError:
        return False
