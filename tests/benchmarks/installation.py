"""What installing the recorder changes, and what its wheel holds: needs the internet, for packages of PyPI.

Run: ``python -m tests.benchmarks.installation FOLDER``. Makes an environment with numpy 1.24 and pandas 1.5 (for Python
3.10 or 3.11), installs the wheel of this checkout there, records a job, and has this Python report it; the same where
all is read-only but the run folder (by ``unshare``, which needs rights to it).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OLD = ("numpy==1.24.4", "pandas==1.5.3")
RECORDER = ("scalana/runtime/", "scalana/job/", "scalana/commands/", "scalana-")
"""What a recorded job and the command need, beside the modules of the package itself."""
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


def build_wheel(work: Path) -> Path:
    """The wheel of this checkout, from a copy of what git tracks."""
    names = checked(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT).split("\0")
    for name in filter(None, names):
        (work / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).exists():
            shutil.copy2(ROOT / name, work / "source" / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps"]
    checked([*pip, "--no-build-isolation", "-w", work / "wheels", work / "source"], work)
    (wheel,) = (work / "wheels").glob("scalana-*.whl")
    return wheel


def sizes(wheel: Path) -> tuple[int, int]:
    """Bytes of the wheel, and of what is the recorder's in it."""
    with zipfile.ZipFile(wheel) as archive:
        entries = archive.infolist()
    own = [one for one in entries if one.filename.startswith(RECORDER) or one.filename.count("/") == 1]
    return wheel.stat().st_size, sum(one.compress_size for one in own)


def frozen(python: Path, work: Path) -> set[str]:
    """The packages of an environment, scalana left out."""
    lines = checked([python, "-m", "pip", "freeze"], work).splitlines()
    return {line for line in lines if not line.startswith("scalana")}


def main(work: Path) -> None:
    """Print the figures."""
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    wheel = build_wheel(work)
    whole, recorder = sizes(wheel)
    print(f"wheel {whole / 1e6:.2f} MB, the recorder's part {recorder / 1e6:.2f} MB")
    checked([sys.executable, "-m", "venv", work / "old"], work)
    python, scalana = work / "old" / "bin" / "python", work / "old" / "bin" / "scalana"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    checked([*pip, *OLD], work)
    before = frozen(python, work)
    checked([*pip, wheel], work)
    print(f"installed beside {', '.join(OLD)}: {len(before ^ frozen(python, work))} packages changed")
    (work / "run").mkdir(exist_ok=True)
    (work / "run" / "job.py").write_text(JOB)
    words = [scalana, "run", "--report-with", sys.executable, "-o", "one", "--", python, "job.py"]
    said = checked(words, work / "run")
    reported = [said.startswith("1.24.4") and "piece" in said]
    command = " ".join(map(str, [*words[:5], "two", *words[6:]]))
    done = run(
        ["unshare", "-m", "bash", "-c", READ_ONLY.format(run=work / "run", work=work, command=command)], work,
        SCALANA_CACHE=str(work / "none"), CC="/bin/false",
    )  # fmt: skip
    if done.returncode == 77:
        print("no rights to mount: not tried with a read-only file system")
    else:
        reported.append(done.returncode == 0 and "piece" in done.stderr)
    print(f"recorded there and reported here: {sum(reported)} of {len(reported)} runs")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
