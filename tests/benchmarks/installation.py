"""What installing the recorder changes, and how large its wheels are: needs the internet, for packages of PyPI.

Run: ``python -m tests.benchmarks.installation FOLDER``. Makes an environment with numpy 1.24 and pandas 1.5 (for Python
3.10 or 3.11), installs the recorder's published wheel there, where no compiler is, records a job, and has an
environment with the analysis report it: as it is, without a compiler, and without one where all is read-only but the
run folder (by ``unshare``, which needs rights to it).
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from scalana.runtime.mpi.build import prebuild

ROOT = Path(__file__).resolve().parents[2]
OLD = ("numpy==1.24.4", "pandas==1.5.3")
JOB = """\
import time

import numpy
import scalana

print(numpy.__version__)
for _ in range(4):
    with scalana.span("piece"):
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            sum(range(1000))
    scalana.step()
"""
READ_ONLY = """\
mount --bind {run} {run} && mount -o remount,bind,ro / || exit 77
for at in $(awk '$2 !~ "^/($|proc|sys|dev)" {{print $2}}' /proc/mounts); do
    case {run}/ in $at/) ;; *) mount -o remount,bind,ro $at 2>/dev/null ;; esac
done
cd {run} && touch {work}/x 2>/dev/null && exit 78
exec {command}
"""


def run(words: Sequence[object], cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SCALANA_RUN_DIR")}
    return subprocess.run(
        [str(word) for word in words], cwd=cwd, env={**kept, **variables}, capture_output=True, text=True
    )


def checked(words: Sequence[object], cwd: Path, **variables: str) -> str:
    """What a program prints that has to end well."""
    done = run(words, cwd, **variables)
    if done.returncode:
        raise SystemExit(f"{words}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def tracked() -> list[str]:
    """The files of this checkout that git tracks, or would."""
    names = checked(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT).split("\0")
    return [name for name in names if name and (ROOT / name).exists()]


def mpi_compilers() -> list[Path]:
    """The ``mpicc`` of each MPI that tests use."""
    return sorted((ROOT / "build" / "mpi").glob("*/bin/mpicc"))


def build_wheel(work: Path) -> Path:
    """The wheel of this checkout, from a copy of what git tracks, with the recorder for MPI."""
    for name in tracked():
        (work / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, work / "source" / name)
    if mpi_compilers():
        prebuild([*map(str, mpi_compilers())], str(work / "source" / "runtime" / "mpi" / "prebuilt"))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    checked([*pip, "--no-build-isolation", "-w", work / "wheels", work / "source"], work)
    (wheel,) = (work / "wheels").glob("scalana-*.whl")
    return wheel


def published(wheel: Path, work: Path) -> tuple[Path, Path]:
    """The wheels that a release has of it: of the recorder, and of the analysis."""
    words = [sys.executable, ROOT / ".ci" / "split_wheel.py", "--report", wheel, work / "published"]
    recorder, report = checked(words, work).splitlines()
    return Path(recorder), Path(report)


def size_in(wheel: Path, folder: str) -> int:
    """Bytes that a folder takes in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sum(one.compress_size for one in archive.infolist() if one.filename.startswith(folder))


def frozen(python: Path, work: Path) -> str:
    """What ``pip freeze`` prints, the lines of scalana left out."""
    lines = checked([python, "-m", "pip", "freeze"], work).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("scalana"))


def environment(folder: Path, wheels: Sequence[Path]) -> Path:
    """An environment that has wheels, and sees the packages of this Python that are not installed in place."""
    checked([sys.executable, "-m", "venv", folder], folder.parent)
    python = folder / "bin" / "python"
    program = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(checked([python, "-c", program], folder.parent).strip())
    (own / "others.pth").write_text("".join(f"{one}\n" for one in site.getsitepackages()))
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    checked([*pip, "--ignore-installed", *wheels], folder.parent)
    return folder


def without_compiler(work: Path) -> dict[str, str]:
    """Variables of an environment that has no compiler: commands that are none come first."""
    folder = work / "no compiler"
    folder.mkdir(exist_ok=True)
    for name in ("cc", "gcc", "c++", "g++", "clang", "clang++", "c99", "ld", "as"):
        shutil.copy2("/bin/false", folder / name)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "CC": "cc", "CXX": "c++"}


def recorded_by_mpi(mpicc: Path, scalana: Sequence[object], work: Path, bare: Mapping[str, str]) -> bool:
    """Whether a job of an MPI is recorded without a compiler, in an empty cache, and its late rank is named."""
    name = mpicc.parents[1].name
    program = work / "run" / name
    checked([mpicc, "-g", "-O1", ROOT / "tests" / "runtime" / "mpi" / "programs" / "slow_rank.c", "-o", program], work)
    options = ["--allow-run-as-root", "--oversubscribe"] if name == "openmpi" else []
    words = [*scalana, f"of-{name}", "--", mpicc.parent / "mpirun", *options, "-n", "3", program]
    said = checked(words, work / "run", **bare, SCALANA_CACHE=str(work / f"cache-{name}"))
    return "compiling" not in said and re.search(r"slow_rank\.c:[789]\b", said) is not None


def main(work: Path) -> None:
    """Print the figures."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel(work)
    recorder, report = published(wheel, work)
    sizes = [one.stat().st_size / 1e6 for one in (recorder, report, wheel)]
    of_mpi = size_in(recorder, "scalana/runtime/mpi/prebuilt/") / 1e6
    print(f"recorder {sizes[0] - of_mpi:.2f} MB, with that for MPI {sizes[0]:.2f} MB")
    print(f"analysis {sizes[1]:.2f} MB; complete wheel {sizes[2]:.2f} MB")
    bare = without_compiler(work)
    checked([sys.executable, "-m", "venv", work / "old"], work)
    python, scalana = work / "old" / "bin" / "python", work / "old" / "bin" / "scalana"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    checked([*pip, *OLD], work)
    before = frozen(python, work)
    checked([*pip, recorder], work, **bare)
    differ = set(before.splitlines()) ^ set(frozen(python, work).splitlines())
    same = "the same bytes" if before == frozen(python, work) else "other bytes"
    print(f"installed beside {', '.join(OLD)}: {len(differ)} packages changed, {same} from pip freeze")
    (work / "run").mkdir(exist_ok=True)
    (work / "run" / "job.py").write_text(JOB)
    words = [scalana, "run", "--report-with", environment(work / "analysis", [report]), "-o"]
    job = ["--", python, "job.py"]
    reported = []
    for name, variables in (("one", {}), ("two", bare)):
        said = checked([*words, name, *job], work / "run", **variables)
        reported.append(said.startswith("1.24.4") and "piece" in said)
    command = shlex.join(map(str, [*words, "three", *job]))
    program = READ_ONLY.format(run=work / "run", work=work, command=command)
    done = run(["unshare", "-m", "bash", "-c", program], work, **bare, SCALANA_CACHE=str(work / "none"))
    if done.returncode == 77:
        print("no rights to mount: not tried with a read-only file system")
    else:
        reported.append(done.returncode == 0 and "piece" in done.stderr)
    print(f"recorded there and reported elsewhere: {sum(reported)} of {len(reported)} runs")
    named = [recorded_by_mpi(mpicc, words, work, bare) for mpicc in mpi_compilers()]
    print(f"MPI without a compiler: {sum(named)} of {len(named)} name the late rank")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
